//! The stored part of a tool's result, and its form for the model.

use callboard_core::untrusted;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A result within bounds.
///
/// Kept as JSON as the outcome of an effect: an old reader ignores fields that it does not know, a new reader
/// takes a missing `ofBytes` for a whole result, and none is overwritten.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolOutput {
    pub value: Value,
    /// How long the result was before it was cut; absent when it is whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_bytes: Option<usize>,
}

impl ToolOutput {
    /// Keeps at most `most` bytes. What is cut becomes text, because half a JSON document is none.
    pub fn bounded(value: Value, most: usize) -> Self {
        let text = text_of(&value);
        if text.len() <= most {
            return Self { value, of_bytes: None };
        }
        let of_bytes = Some(text.len());
        let kept = &text[..text.floor_char_boundary(most)];
        Self { value: kept.into(), of_bytes }
    }

    /// Truncates a result that was stored without a length limit.
    pub(crate) fn within(self, most: usize) -> Self {
        match self.of_bytes {
            Some(_) => self,
            None => Self::bounded(self.value, most),
        }
    }

    /// The result as a message to the model: marked as untrusted, with a note of ours where it was truncated.
    pub(crate) fn for_model(&self) -> String {
        let text = text_of(&self.value);
        let wrapped = untrusted(&text);
        match self.of_bytes {
            None => wrapped,
            Some(of) => format!(
                "{wrapped}\n[cut: these are the first {} of {of} bytes; ask for less to see the rest]",
                text.len()
            ),
        }
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_result_within_bounds_stays_what_it_is() {
        let result = ToolOutput::bounded(json!({ "a": 1 }), 7);
        assert_eq!(result, ToolOutput { value: json!({ "a": 1 }), of_bytes: None });
        let code = "015abd7f5cc57a2dd94b7590f04ad808";
        let seen = format!("<UNTRUSTED>\nBEGIN {code}\n{{\"a\":1}}\nEND {code}\n</UNTRUSTED>");
        assert_eq!(result.for_model(), seen);
    }

    #[test]
    fn a_long_result_is_cut_between_letters_and_the_model_is_told() {
        let result = ToolOutput::bounded("ééééé".into(), 5);
        assert_eq!(result, ToolOutput { value: "éé".into(), of_bytes: Some(10) });
        let seen = result.for_model();
        assert!(
            seen.ends_with("</UNTRUSTED>\n[cut: these are the first 4 of 10 bytes; ask for less to see the rest]"),
            "{seen}"
        );
        assert_eq!(ToolOutput::bounded(json!({ "a": "bcd" }), 3).value, json!("{\"a"));
    }

    #[test]
    fn what_was_kept_reads_back_the_same() {
        for result in
            [ToolOutput::bounded("abcdef".into(), 3), ToolOutput::bounded(json!([1]), 100)]
        {
            let kept = serde_json::to_string(&result).unwrap();
            assert_eq!(serde_json::from_str::<ToolOutput>(&kept).unwrap(), result);
        }
    }

    proptest! {
        #[test]
        fn the_wrapping_is_opened_and_closed_once(text in "[<>/UNTRSEDuntrsed \u{200b}]{0,60}", most in 0_usize..60) {
            let seen = ToolOutput::bounded(text.into(), most).for_model();
            prop_assert_eq!(seen.matches("<UNTRUSTED>").count(), 1);
            prop_assert_eq!(seen.matches("</UNTRUSTED>").count(), 1);
        }
    }
}
