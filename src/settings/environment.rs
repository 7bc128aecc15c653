//! What the text of a variable means. Nothing that is wrong is repeated: a secret may be in the wrong variable.

use std::path::PathBuf;

use clap::builder::{FalseyValueParser, TypedValueParser as _};
use clap::{Arg, Command};

use crate::process::LogFormat;

/// Any text.
#[expect(clippy::unnecessary_wraps, reason = "one of several readers with the same form")]
pub(crate) fn plain(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

/// A list of paths, with `:` between them.
#[expect(clippy::unnecessary_wraps, reason = "one of several readers with the same form")]
pub(crate) fn paths(text: &str) -> Result<Vec<PathBuf>, String> {
    Ok(std::env::split_paths(text).collect())
}

/// A list of words, with `,` between them.
#[expect(clippy::unnecessary_wraps, reason = "one of several readers with the same form")]
pub(crate) fn words(text: &str) -> Result<Vec<String>, String> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    Ok(words.map(str::to_owned).collect())
}

/// On, unless the word means off, as for the flags of other commands.
pub(crate) fn switch(text: &str) -> Result<bool, String> {
    let (command, argument) = (Command::new("callboard"), Arg::new("switch"));
    FalseyValueParser::new()
        .parse_ref(&command, Some(&argument), text.as_ref())
        .map_err(|_| "must be 1 or 0".to_owned())
}

pub(crate) fn whole<const LEAST: u64, const MOST: u64>(text: &str) -> Result<u64, String> {
    let number = text.trim().parse().ok().filter(|number| (LEAST..=MOST).contains(number));
    number.ok_or_else(|| format!("must be a whole number, {LEAST} to {MOST}"))
}

/// `PORT`, as platforms set it: the address stays the default one.
pub(crate) fn port(text: &str) -> Result<String, String> {
    let port: u16 = text.trim().parse().map_err(|_| "must be a port, 0 to 65535".to_owned())?;
    Ok(format!("127.0.0.1:{port}"))
}

/// `DATABASE_URL`, which may be about a database of another program.
pub(crate) fn postgres(text: &str) -> Result<String, String> {
    if text.starts_with("postgres://") || text.starts_with("postgresql://") {
        return Ok(text.to_owned());
    }
    Err("does not begin with postgres://, and no other database server is supported; \
         set CALLBOARD_DATABASE_URL=sqlite to use the one in the data folder"
        .to_owned())
}

/// `LOG_LEVEL`: one word for everything.
pub(crate) fn log_level(text: &str) -> Result<String, String> {
    let level = text.trim().to_ascii_lowercase();
    match level.as_str() {
        "trace" | "debug" | "info" | "warn" | "error" | "off" => Ok(level),
        "warning" => Ok("warn".to_owned()),
        "fatal" | "critical" => Ok("error".to_owned()),
        _ => Err("must be trace, debug, info, warn, error or off; \
                  for more write a filter in CALLBOARD_LOG"
            .to_owned()),
    }
}

/// `LOG_JSON`: whether lines are JSON.
pub(crate) fn log_format(text: &str) -> Result<LogFormat, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(LogFormat::Json),
        "0" | "false" | "no" | "off" => Ok(LogFormat::Text),
        _ => Err("must be true or false".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_tools_are_understood_or_refused() {
        assert_eq!(port("8080"), Ok("127.0.0.1:8080".to_owned()));
        assert!(port("http").is_err() && port("70000").is_err());
        assert_eq!(log_level("WARNING"), Ok("warn".to_owned()));
        assert!(log_level("loud").is_err());
        assert_eq!(log_format("True"), Ok(LogFormat::Json));
        assert_eq!(log_format("0"), Ok(LogFormat::Text));
        assert!(log_format("pretty").is_err());
        assert!(postgres("postgresql://h/n").is_ok());
        let refused = postgres("mysql://u:s3cret@h/n").unwrap_err();
        assert!(!refused.contains("s3cret"), "{refused}");
    }

    #[test]
    fn switches_and_numbers_are_read_as_flags_are() {
        for (text, expected) in [("1", true), ("yes", true), ("0", false), ("off", false)] {
            assert_eq!(switch(text), Ok(expected), "{text}");
        }
        assert_eq!(whole::<1, 5>(" 5 "), Ok(5));
        assert!(whole::<1, 5>("6").is_err() && whole::<1, 5>("x").is_err());
    }
}
