//! What follows from a turn: its answer, another try, or a failure.

use serde_json::Value;

use super::{Message, ModelRequest, StopReason, Turn, restore};
use crate::pack::Schema;

/// How often a model is asked for one answer that fits: the limit `schemaRounds`.
pub const SCHEMA_ROUNDS: u32 = 3;
/// How much larger the budget of the next try is after an answer was cut off.
pub const BUDGET_MULTIPLIER: u32 = 2;
/// The walker tries this many places before it calls an answer unreadable.
const MOST_STARTS: usize = 64;
/// Opens the text that asks for a repair.
pub(super) const REPAIR: &str = "The previous answer was not accepted.";

/// How often a model was asked for one answer, and how often it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tries {
    /// This one included.
    pub made: u32,
    /// The limit `schemaRounds`.
    pub most: u32,
    /// Whether an answer that does not fit is sent back with the reason.
    pub may_repair: bool,
    /// The budget of the turn that is judged.
    pub max_output_tokens: u32,
    /// More than this the provider does not write.
    pub ceiling: u32,
}

/// What to do with a turn.
#[derive(Clone, PartialEq)]
pub enum Verdict {
    Accepted {
        value: Value,
        recovery: Option<Recovery>,
    },
    CallTools,
    /// Never asked again, never replaced.
    Refused,
    /// Ask the same again, with a larger budget and not a word more.
    RetryLonger {
        max_output_tokens: u32,
    },
    /// Ask once more, with these words added. Nothing of the model's answer is in them.
    Repair {
        fragment: String,
        reason: ExhaustedReason,
    },
    Exhausted(Exhausted),
}

/// How an answer was found in a text that was not only the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    pub path: RecoveryPath,
    pub byte_offset: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveryPath {
    MarkdownFence,
    BraceWalker,
}

impl RecoveryPath {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MarkdownFence => "markdown-fence",
            Self::BraceWalker => "brace-walker",
        }
    }
}

/// The end of all tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exhausted {
    pub reason: ExhaustedReason,
    pub attempts: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExhaustedReason {
    Truncation,
    SchemaViolation,
    ParseError,
}

impl ExhaustedReason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Truncation => "truncation",
            Self::SchemaViolation => "schema-violation",
            Self::ParseError => "parse-error",
        }
    }

    /// The terminal code of the protocol.
    pub fn code(self) -> &'static str {
        match self {
            Self::Truncation => "envelope_truncation_unrecoverable",
            Self::SchemaViolation | Self::ParseError => "envelope_invalid",
        }
    }
}

/// Judges a turn. An answer that was cut off is judged as that, whatever else is wrong with it.
pub fn judge(turn: &Turn, schema: Option<&Schema>, tries: Tries) -> Verdict {
    match turn.stop {
        StopReason::Refusal | StopReason::ContentFilter => return Verdict::Refused,
        StopReason::Length => return longer(tries),
        StopReason::ToolCalls => return Verdict::CallTools,
        StopReason::Stop => {}
    }
    let Some(schema) = schema else {
        return Verdict::Accepted { value: turn.text.clone().into(), recovery: None };
    };
    let Some((mut value, recovery)) = read_json(&turn.text) else {
        return repair(ExhaustedReason::ParseError, &[], tries);
    };
    restore(&schema.source, &mut value);
    match schema.broken_rules(&value).as_slice() {
        [] => Verdict::Accepted { value, recovery },
        rules => repair(ExhaustedReason::SchemaViolation, rules, tries),
    }
}

fn longer(tries: Tries) -> Verdict {
    let max_output_tokens =
        tries.max_output_tokens.saturating_mul(BUDGET_MULTIPLIER).min(tries.ceiling);
    if tries.made >= tries.most || max_output_tokens <= tries.max_output_tokens {
        let attempts = tries.made;
        return Verdict::Exhausted(Exhausted { reason: ExhaustedReason::Truncation, attempts });
    }
    Verdict::RetryLonger { max_output_tokens }
}

fn repair(reason: ExhaustedReason, rules: &[String], tries: Tries) -> Verdict {
    if tries.made >= tries.most || !tries.may_repair {
        return Verdict::Exhausted(Exhausted { reason, attempts: tries.made });
    }
    let mut fragment = match reason {
        ExhaustedReason::SchemaViolation => {
            format!("{REPAIR} It breaks these rules of the JSON Schema:")
        }
        ExhaustedReason::ParseError | ExhaustedReason::Truncation => {
            format!("{REPAIR} It is not JSON.")
        }
    };
    for rule in rules {
        fragment.push_str("\n- ");
        fragment.push_str(rule);
    }
    fragment.push_str(
        "\nAnswer again with one JSON value that matches the schema, and with nothing else.",
    );
    Verdict::Repair { fragment, reason }
}

impl ModelRequest {
    /// Leaves out what only the provider so far understands.
    pub(crate) fn forget_provider(&mut self) {
        for message in &mut self.messages {
            if let Message::Assistant { calls, .. } = message {
                for call in calls {
                    call.provider_id = None;
                    call.signatures.clear();
                }
            }
        }
    }

    /// The same, with words that ask for a repair. There is nothing left to call tools for.
    #[must_use]
    pub fn repaired(mut self, fragment: &str) -> Self {
        let system = self.system.get_or_insert_default();
        if !system.is_empty() {
            system.push_str("\n\n");
        }
        system.push_str(fragment);
        self.tools.clear();
        self
    }
}

/// Finds the JSON in an answer: all of it, or in a code fence, or from the first brace that opens a value.
fn read_json(text: &str) -> Option<(Value, Option<Recovery>)> {
    if let Ok(value) = serde_json::from_str(text) {
        return Some((value, None));
    }
    let (value, path, byte_offset) = fenced(text).or_else(|| walked(text))?;
    Some((value, Some(Recovery { path, byte_offset })))
}

fn fenced(text: &str) -> Option<(Value, RecoveryPath, usize)> {
    let opened = text.find("```")? + 3;
    let start = opened + text[opened..].find('\n')? + 1;
    let end = start + text[start..].find("```")?;
    let value = serde_json::from_str(&text[start..end]).ok()?;
    Some((value, RecoveryPath::MarkdownFence, start))
}

fn walked(text: &str) -> Option<(Value, RecoveryPath, usize)> {
    let starts = text.match_indices(['{', '[']).take(MOST_STARTS);
    starts.into_iter().find_map(|(start, _)| {
        let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        Some((values.next()?.ok()?, RecoveryPath::BraceWalker, start))
    })
}

impl std::fmt::Debug for Verdict {
    /// Leaves out what the model said.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Accepted { recovery, .. } => {
                f.debug_struct("Accepted").field("recovery", recovery).finish_non_exhaustive()
            }
            Self::CallTools => f.write_str("CallTools"),
            Self::Refused => f.write_str("Refused"),
            Self::RetryLonger { max_output_tokens } => {
                f.debug_tuple("RetryLonger").field(max_output_tokens).finish()
            }
            Self::Repair { reason, .. } => f.debug_tuple("Repair").field(reason).finish(),
            Self::Exhausted(exhausted) => f.debug_tuple("Exhausted").field(exhausted).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FIRST: Tries =
        Tries { made: 1, most: 3, may_repair: true, max_output_tokens: 1000, ceiling: 3000 };

    fn schema() -> Schema {
        let schema = json!({
            "type": "object", "required": ["title"], "additionalProperties": false,
            "properties": { "title": { "type": "string" }, "score": { "type": "number", "maximum": 1 } }
        });
        Schema::compile(schema.to_string().as_bytes()).unwrap()
    }

    fn said(text: &str, stop: StopReason) -> Turn {
        Turn {
            text: text.to_owned(),
            thinking: String::new(),
            tool_calls: Vec::new(),
            stop,
            usage: None,
            provider_request_id: None,
        }
    }

    fn verdict(text: &str, stop: StopReason, tries: Tries) -> Verdict {
        judge(&said(text, stop), Some(&schema()), tries)
    }

    /// A-79.
    #[test]
    fn an_answer_is_found_among_other_words_and_costs_no_try() {
        let walker = RecoveryPath::BraceWalker;
        for (text, recovery) in [
            (r#"{"title":"x"}"#, None),
            (r#"  {"title":"x"}  "#, None),
            (
                "Sure!\n```json\n{\"title\":\"x\"}\n```\nDone.",
                Some((RecoveryPath::MarkdownFence, 14)),
            ),
            (r#"Here {it} is: {"title":"x"} :)"#, Some((walker, 14))),
            (r#"{"title":"x","score":null}"#, None),
        ] {
            let recovery = recovery.map(|(path, byte_offset)| Recovery { path, byte_offset });
            let expected = Verdict::Accepted { value: json!({ "title": "x" }), recovery };
            assert_eq!(verdict(text, StopReason::Stop, FIRST), expected, "{text}");
        }
        let plain = judge(&said("hello", StopReason::Stop), None, FIRST);
        assert_eq!(plain, Verdict::Accepted { value: json!("hello"), recovery: None });
    }

    /// A-76, A-78.
    #[test]
    fn a_cut_answer_gets_more_room_even_when_it_is_also_wrong() {
        let longer = |tries| verdict(r#"{"wrong":"#, StopReason::Length, tries);
        assert_eq!(longer(FIRST), Verdict::RetryLonger { max_output_tokens: 2000 });
        let second = Tries { made: 2, max_output_tokens: 2000, ..FIRST };
        assert_eq!(longer(second), Verdict::RetryLonger { max_output_tokens: 3000 });
        let full = Tries { made: 2, max_output_tokens: 3000, ..FIRST };
        let last = Tries { made: 3, ..FIRST };
        for (tries, attempts) in [(full, 2), (last, 3)] {
            let reason = ExhaustedReason::Truncation;
            assert_eq!(longer(tries), Verdict::Exhausted(Exhausted { reason, attempts }));
            assert_eq!(reason.code(), "envelope_truncation_unrecoverable");
        }
    }

    /// A-77.
    #[test]
    fn a_wrong_answer_is_repaired_once_with_words_that_repeat_nothing_of_it() {
        let wrong = r#"{"score":7,"sk-made-up":"secret words"}"#;
        let Verdict::Repair { fragment, reason } = verdict(wrong, StopReason::Stop, FIRST) else {
            panic!("no repair")
        };
        assert_eq!(reason, ExhaustedReason::SchemaViolation);
        for rule in ["/required", "/properties/score/maximum", "/additionalProperties"] {
            assert!(fragment.contains(rule), "{fragment}");
        }
        assert!(!fragment.contains("sk-") && !fragment.contains("secret"), "{fragment}");
        let repaired = Tries { made: 2, may_repair: false, ..FIRST };
        let exhausted = Exhausted { reason, attempts: 2 };
        assert_eq!(verdict(wrong, StopReason::Stop, repaired), Verdict::Exhausted(exhausted));
        assert_eq!(reason.code(), "envelope_invalid");
        let unreadable = verdict("I'd rather not", StopReason::Stop, Tries { most: 1, ..FIRST });
        let exhausted = Exhausted { reason: ExhaustedReason::ParseError, attempts: 1 };
        assert_eq!(unreadable, Verdict::Exhausted(exhausted));
    }

    /// A-46.
    #[test]
    fn a_refusal_is_never_asked_again() {
        for stop in [StopReason::Refusal, StopReason::ContentFilter] {
            assert_eq!(verdict(r#"{"title":"x"}"#, stop, FIRST), Verdict::Refused);
        }
        assert_eq!(verdict("", StopReason::ToolCalls, FIRST), Verdict::CallTools);
    }
}
