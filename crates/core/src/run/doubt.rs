//! What people see of a proposal that its agent is not sure of: beside it the task, and the agent's reason.

use callboard_protocol::InterruptKind;
use serde_json::Value;

use super::Run;
use super::interrupt::InterruptView;
use crate::graph::NodeIndex;
use crate::interrupt::Question;

/// The longest task that is shown whole: some pages.
const LONGEST_TASK: usize = 8_000;
/// Where results say why.
const REASONS: [&str; 3] = ["reason", "reasoning", "rationale"];
/// What is shown beside the protocol's data, which are closed.
const BESIDE: [&str; 2] = ["task", "reason"];

impl Run {
    /// The data of a question as people see it.
    pub(super) fn shown_data(&self, index: NodeIndex, question: &Question) -> Value {
        let mut data = question.data.clone();
        if question.kind != InterruptKind::LowConfidence {
            return data;
        }
        let task = self.performed_inputs(index);
        if !task.is_empty() {
            data["task"] = shortened(Value::Object(task));
        }
        let why = REASONS.iter().find_map(|key| data["decision"][*key].as_str());
        if let Some(why) = why.map(str::to_owned) {
            data["reason"] = shortened(why.into());
        }
        data
    }
}

impl InterruptView {
    /// The data as the protocol has them.
    pub fn into_protocol_data(self) -> Value {
        let mut data = self.data;
        if let Some(fields) =
            data.as_object_mut().filter(|_| self.kind == InterruptKind::LowConfidence)
        {
            fields.retain(|key, _| !BESIDE.contains(&key.as_str()));
        }
        data
    }
}

/// A value, or the beginning of its text where it is long.
fn shortened(value: Value) -> Value {
    let text = match &value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.char_indices().nth(LONGEST_TASK) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => value,
    }
}

#[cfg(test)]
mod tests {
    use callboard_protocol::Timestamp;
    use serde_json::json;

    use super::*;

    fn view(kind: InterruptKind) -> InterruptView {
        InterruptView {
            id: "i".into(),
            node: "n".into(),
            kind,
            key: "k".into(),
            data: json!({ "agentId": "a.b", "task": { "t": 1 }, "reason": "why" }),
            resume_schema: None,
            requested_at: Timestamp::default(),
            expires_at: None,
            requires_auth: false,
            votes: Vec::new(),
        }
    }

    #[test]
    fn the_protocol_gets_its_own_fields_alone() {
        let unsure = view(InterruptKind::LowConfidence).into_protocol_data();
        assert_eq!(unsure, json!({ "agentId": "a.b" }));
        let custom = view(InterruptKind::Custom);
        assert_eq!(custom.clone().into_protocol_data(), custom.data);
    }

    #[test]
    fn a_long_task_is_shown_by_its_beginning() {
        let long = "ä".repeat(LONGEST_TASK + 1);
        let shown = shortened(long.clone().into());
        assert_eq!(shown.as_str().map(|text| text.chars().count()), Some(LONGEST_TASK + 1));
        let whole = json!({ "text": "short" });
        assert_eq!(shortened(whole.clone()), whole);
    }
}
