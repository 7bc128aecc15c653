//! Permissions that a person gives a coding agent.

use serde_json::{Value, json};

use callboard_core::{Outcome, Question};
use callboard_protocol::InterruptKind;

use super::Work;
use crate::ask::End;
use crate::coding::Permission;

/// Marks the approvals that are asked for here.
const ARTIFACT: &str = "callboard.coding-permission";

impl Work<'_> {
    /// The decision about the question that a task ended with; none while it is open. Anything but a plain accept is a
    /// denial.
    pub(super) fn ruling(&self, call: u32, kind: &str, permission: &Permission) -> Option<bool> {
        let answered = self.call.decision.as_ref()?;
        let asked = match answered.kind {
            // A question about the result itself had all answers before.
            InterruptKind::LowConfidence => return Some(false),
            _ if answered.data["artifactType"] == ARTIFACT => {
                answered.data["artifactData"]["call"].as_u64()?
            }
            _ => return None,
        };
        let is_accepted = answered.value.as_ref().is_some_and(|it| it["action"] == "accept");
        match asked.cmp(&u64::from(call)) {
            std::cmp::Ordering::Less => None,
            // A branch may come to ask something else in the same place: a yes is for what it was said to.
            std::cmp::Ordering::Equal => {
                let asks = question(call, kind, permission).data;
                let is_same = |part: &str| answered.data[part] == asks[part];
                ["artifactId", "title"].into_iter().all(is_same).then_some(is_accepted)
            }
            // A later question: the outcome of this one is recorded, so the denial has no effect.
            std::cmp::Ordering::Greater => Some(false),
        }
    }

    /// Leaves the invocation open until a person has decided.
    pub(super) async fn suspend(
        &mut self,
        call: u32,
        kind: &str,
        permission: &Permission,
    ) -> Result<End, End> {
        self.asker.facts.flush().await?;
        Ok(End::Later(Outcome::Suspend(question(call, kind, permission))))
    }
}

fn question(call: u32, kind: &str, permission: &Permission) -> Question {
    let Permission { id, tool, title, input, is_whole } = permission;
    let mut subject = json!({ "call": call, "codingAgent": kind, "tool": tool });
    if let Some(input) = input {
        // What was cut off is shown as it is.
        let parsed = serde_json::from_str(input).ok().filter(|_| *is_whole);
        subject["input"] = parsed.unwrap_or_else(|| Value::from(input.as_str()));
    }
    let what = if title.is_empty() { tool } else { title };
    let data = json!({
        "artifactId": id,
        "artifactType": ARTIFACT,
        "title": format!("{kind} asks for permission: {what}"),
        "actions": ["accept", "reject"],
        "artifactData": subject,
    });
    Question { kind: InterruptKind::Approval, data, resume_schema: None, timeout_ms: None }
}
