//! Answers of a host, read without trusting their shape: what is missing is empty, what is strange is shown as it is.

use callboard_protocol::Timestamp;
use maud::{Markup, PreEscaped, html};
use serde_json::Value;

/// The longest JSON that a page prints whole.
const LONGEST_JSON: usize = 60_000;
/// What a line of a table shows of a value.
const PREVIEW: usize = 160;
/// What stands beside a value that is folded away.
const GLANCE: usize = 100;
const GLANCED_FIELDS: usize = 6;

pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

pub(crate) fn number(value: &Value, pointer: &str) -> Option<f64> {
    value.pointer(pointer).and_then(Value::as_f64)
}

pub(crate) fn whole(value: &Value, pointer: &str) -> Option<u64> {
    value.pointer(pointer).and_then(Value::as_u64)
}

pub(crate) fn flag(value: &Value, pointer: &str) -> bool {
    value.pointer(pointer).and_then(Value::as_bool).unwrap_or_default()
}

pub(crate) fn time(value: &Value, pointer: &str) -> Option<Timestamp> {
    text(value, pointer).parse().ok()
}

pub(crate) fn fields<'a>(value: &'a Value, pointer: &str) -> Vec<(&'a str, &'a Value)> {
    let object = value.pointer(pointer).and_then(Value::as_object);
    object.into_iter().flatten().map(|(name, value)| (name.as_str(), value)).collect()
}

/// Whether there is nothing in it to show.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// A value in one line. Texts stand without quotes.
pub(crate) fn preview(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => cut(text, PREVIEW),
        other => cut(&other.to_string(), PREVIEW),
    }
}

pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// JSON for reading, with a little colour.
pub(crate) fn json(value: &Value) -> Markup {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    let text = if text.len() > LONGEST_JSON { cut(&text, LONGEST_JSON) } else { text };
    html! { pre.json tabindex="0" { (colour(&text)) } }
}

/// The same folded away behind a word.
pub(crate) fn folded(summary: &str, value: &Value) -> Markup {
    html! {
        @if !is_empty(value) {
            details.fold { summary { (summary) } (json(value)) }
        }
    }
}

/// The same, with what is in it in a few words, so that nobody has to open it to see that.
pub(crate) fn glanced(summary: &str, value: &Value) -> Markup {
    html! {
        @if !is_empty(value) {
            details.fold { summary { (summary) " " span.glance { (glance(value)) } } (json(value)) }
        }
    }
}

/// A value in a few words: the fields of an object with what is plain of them.
fn glance(value: &Value) -> String {
    let plain = |value: &Value| match value {
        Value::Array(items) if items.len() == 1 => "1 item".to_owned(),
        Value::Array(items) => format!("{} items", items.len()),
        Value::Object(_) => "…".to_owned(),
        other => cut(&preview(other).replace(['\n', '\r'], " "), GLANCE),
    };
    match value {
        Value::Object(fields) => {
            let shown = fields.iter().filter(|(_, value)| !is_empty(value)).take(GLANCED_FIELDS);
            let shown: Vec<String> =
                shown.map(|(name, value)| format!("{name}: {}", plain(value))).collect();
            cut(&shown.join(" · "), GLANCE)
        }
        other => plain(other),
    }
}

/// A value where it belongs: texts as texts, small things in a line, the rest as JSON.
pub(crate) fn shown(value: &Value) -> Markup {
    match value {
        Value::String(text) => html! { div.prose { (cut(text, LONGEST_JSON)) } },
        Value::Object(_) | Value::Array(_) if value.to_string().chars().count() > 72 => json(value),
        other => html! { code { (other) } },
    }
}

/// Marks keys, texts and other values. Works on any text: what is no JSON stays as it is.
fn colour(text: &str) -> Markup {
    let mut marked = String::with_capacity(text.len() * 2);
    let mut rest = text;
    while let Some(begin) = rest.find('"') {
        escape(&rest[..begin], &mut marked);
        let length = string_length(&rest[begin..]);
        let (string, after) = rest[begin..].split_at(length);
        let is_key = after.starts_with(':');
        marked.push_str(if is_key { "<span class=\"k\">" } else { "<span class=\"s\">" });
        escape(string, &mut marked);
        marked.push_str("</span>");
        rest = after;
    }
    escape(rest, &mut marked);
    PreEscaped(marked)
}

/// How far a string reaches, both quotes included; to the end where it is not closed.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, sign) in text.char_indices().skip(1) {
        match sign {
            '"' if !is_escaped => return at + 1,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

/// As `maud` does it, without a text of its own for each piece: a live log has many.
fn escape(text: &str, into: &mut String) {
    for sign in text.chars() {
        match sign {
            '&' => into.push_str("&amp;"),
            '<' => into.push_str("&lt;"),
            '>' => into.push_str("&gt;"),
            '"' => into.push_str("&quot;"),
            sign => into.push(sign),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_coloured_and_stays_text() {
        let marked = json(&json!({ "a\"<b>": "</pre><script>\\", "n": [1, true] })).into_string();
        assert!(!marked.contains("<script"), "{marked}");
        assert!(marked.contains("<span class=\"k\">&quot;n&quot;</span>: [\n"), "{marked}");
        assert!(
            marked.contains("<span class=\"s\">&quot;&lt;/pre&gt;&lt;script&gt;\\\\&quot;</span>")
        );
    }

    #[test]
    fn every_sign_is_escaped_as_elsewhere() {
        let signs: String = (0..0x250_u32).filter_map(char::from_u32).collect();
        let mut escaped = String::new();
        escape(&signs, &mut escaped);
        assert_eq!(escaped, html! { (signs) }.into_string());
    }

    #[test]
    fn a_folded_value_can_be_seen_at_a_glance() {
        let value = json!({ "a": "two\nlines", "b": [1], "c": { "a": 1 }, "d": null, "n": 3 });
        assert_eq!(glance(&value), "a: two lines · b: 1 item · c: … · n: 3");
        assert_eq!(glance(&json!("x".repeat(500))).chars().count(), GLANCE + 1);
        let shown = glanced("Outputs", &json!({ "a": "<b>" })).into_string();
        assert!(shown.contains("a: &lt;b&gt;") && !shown.contains("<b>"), "{shown}");
        assert_eq!(glanced("Outputs", &json!({})).into_string(), "");
    }

    #[test]
    fn what_is_missing_is_empty() {
        let value = json!({ "a": { "b": 3 } });
        assert_eq!((text(&value, "/a/b"), text(&value, "/x/y")), ("", ""));
        assert_eq!(whole(&value, "/a/b"), Some(3));
        assert!(items(&value, "/a").is_empty() && time(&value, "/a").is_none());
    }
}
