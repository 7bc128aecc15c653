//! Values as they are given on the command line: JSON, files, standard input.

use std::io::Read;

use serde_json::Value;

use callboard_protocol::Object;

use crate::exit::CommandError;

pub(crate) fn read_inputs(text: &str) -> Result<Object, CommandError> {
    let source = match text.strip_prefix('@') {
        None => text.to_owned(),
        Some("-") => {
            let mut read = String::new();
            std::io::stdin().read_to_string(&mut read).map_err(|error| {
                CommandError::usage(format!("cannot read standard input: {error}"))
            })?;
            read
        }
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| CommandError::usage(format!("cannot read {path}: {error}")))?,
    };
    match serde_json::from_str(&source) {
        Ok(Value::Object(inputs)) => Ok(inputs),
        Ok(_) => Err(CommandError::usage("--input must be a JSON object")
            .hint("write it as '{\"name\": \"value\"}'")),
        Err(error) => Err(CommandError::usage(format!("--input is not JSON: {error}"))
            .hint("write it as '{\"name\": \"value\"}', or @FILE to read it from a file")),
    }
}

pub(crate) fn parse_option(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=JSON, as in recursionLimit=5")?;
    let value = serde_json::from_str(value)
        .map_err(|_| format!("{value:?} is not JSON; a text is written as {key}='\"text\"'"))?;
    Ok((key.to_owned(), value))
}

/// A value of a flag.
pub(crate) fn parse_json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::exit::Exit;

    #[test]
    fn options_are_json() {
        assert_eq!(parse_option("recursionLimit=5"), Ok(("recursionLimit".into(), json!(5))));
        assert_eq!(
            parse_option("ai={\"model\":\"a=b\"}"),
            Ok(("ai".into(), json!({ "model": "a=b" })))
        );
        assert!(parse_option("model=plain").is_err_and(|error| error.contains("model='\"text\"'")));
        assert!(parse_option("model").is_err());
    }

    #[test]
    fn inputs_are_an_object() {
        assert_eq!(read_inputs("{\"a\":1}").map(Value::Object), Ok(json!({ "a": 1 })));
        assert_eq!(read_inputs("[1]").map_err(|error| error.exit), Err(Exit::Usage));
    }
}
