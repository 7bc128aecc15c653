//! Directives of a task to the scripted model: `[[scripted: …]]`.

use callboard_protocol::Object;

const OPEN: &str = "[[scripted:";
const CLOSE: &str = "]]";

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Directive {
    /// `refuse`
    Refuse,
    /// `filter`: the provider steps in.
    Filter,
    /// `truncate`, or `truncate below 2000` output tokens.
    Truncate { below: u32 },
    /// `invalid`: an answer that is not JSON.
    Invalid(Times),
    /// `violate`: JSON that does not match.
    Violate(Times),
    /// `confidence 0.3`
    Confidence(f64),
    /// `tool mcp:github.create_issue {"title":"x"}`
    Tool { name: String, arguments: Object },
    /// `say something`
    Say(String),
    /// `error 429`
    Error(u16),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Times {
    Always,
    /// Until a repair is asked for.
    Once,
}

/// The directives of a text and the text without them. None where one is not understood.
pub(super) fn read(text: &str) -> Option<(Vec<Directive>, String)> {
    let mut directives = Vec::new();
    let mut rest = String::new();
    let mut left = text;
    while let Some(start) = left.find(OPEN) {
        rest.push_str(&left[..start]);
        let inner = &left[start + OPEN.len()..];
        let end = inner.find(CLOSE)?;
        directives.push(parse(inner[..end].trim())?);
        left = &inner[end + CLOSE.len()..];
    }
    rest.push_str(left);
    Some((directives, rest))
}

fn parse(text: &str) -> Option<Directive> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let rest = rest.trim();
    let times = match rest {
        "" => Some(Times::Always),
        "once" => Some(Times::Once),
        _ => None,
    };
    Some(match word {
        "refuse" if rest.is_empty() => Directive::Refuse,
        "filter" if rest.is_empty() => Directive::Filter,
        "truncate" if rest.is_empty() => Directive::Truncate { below: u32::MAX },
        "truncate" => {
            Directive::Truncate { below: rest.strip_prefix("below ")?.trim().parse().ok()? }
        }
        "invalid" => Directive::Invalid(times?),
        "violate" => Directive::Violate(times?),
        "confidence" => Directive::Confidence(rest.parse().ok().filter(|it: &f64| it.is_finite())?),
        "tool" if !rest.is_empty() => tool(rest)?,
        "say" => Directive::Say(rest.to_owned()),
        "error" => Directive::Error(rest.parse().ok()?),
        _ => return None,
    })
}

fn tool(text: &str) -> Option<Directive> {
    let (name, arguments) = text.split_once(' ').unwrap_or((text, "{}"));
    // A task is often a field of JSON, and then its quotes come escaped.
    let arguments = serde_json::from_str(arguments)
        .or_else(|_| serde_json::from_str(&arguments.replace("\\\"", "\"")))
        .ok()?;
    Some(Directive::Tool { name: name.to_owned(), arguments })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn directives_are_taken_out_of_the_task() {
        let text = "Do it [[scripted: confidence 0.3]] now [[scripted: invalid once]]";
        let (directives, rest) = read(text).unwrap();
        assert_eq!(directives, [Directive::Confidence(0.3), Directive::Invalid(Times::Once)]);
        assert_eq!(rest, "Do it  now ");
        assert_eq!(read("plain [[words]]"), Some((Vec::new(), "plain [[words]]".to_owned())));
    }

    #[test]
    fn a_tool_is_called_with_arguments_that_may_come_escaped() {
        let arguments = json!({ "q": "x" }).as_object().cloned().unwrap();
        let expected = Directive::Tool { name: "mcp:web.search".into(), arguments };
        for text in [r#"tool mcp:web.search {"q":"x"}"#, r#"tool mcp:web.search {\"q\":\"x\"}"#] {
            assert_eq!(parse(text), Some(expected.clone()), "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for text in ["[[scripted: dance]]", "[[scripted: refuse", "[[scripted: confidence high]]"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
