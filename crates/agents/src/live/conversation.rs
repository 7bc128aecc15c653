//! The exchanges between an agent and its run, from invocation to invocation.
//!
//! Every exchange is an entry of memory that only the run and its family see. An invocation keeps its own exchange and
//! reads those before it; no exchange is copied into another.

use callboard_engine::{
    Call, MAX_MEMORY_BYTES, MemoryAccess, MemoryDraft, MemoryError, StoreError,
};
use callboard_protocol::AgentManifest;
use serde_json::Value;

use crate::model::Message;

/// An exchange's place among the writes of its visit, beyond those of tools.
const ORDINAL: u32 = u32::MAX;
/// Room for the brackets and quotes around two texts; escapes are counted when they are written.
const FRAME: usize = 16;

/// The conversation of one agent within a run, as one invocation continues it.
#[derive(Debug)]
pub(super) struct Conversation {
    access: MemoryAccess,
    memory_ref: String,
    /// How many exchanges are shown: the last ones.
    window: usize,
    /// What this invocation was asked.
    asked: String,
}

impl Conversation {
    /// Binds the conversation of an agent whose manifest asks for one.
    pub(super) fn bind(call: &Call, agent: &AgentManifest) -> Option<Self> {
        agent.wants_conversation().then(|| Self {
            access: call.memory.clone(),
            memory_ref: format!("conversation/{}", agent.agent_id),
            window: call.transcript_window,
            asked: String::new(),
        })
    }

    /// The earlier exchanges, oldest first: as many of the last ones as fit into `most` bytes.
    pub(super) async fn open(
        &mut self,
        asked: &str,
        most: usize,
    ) -> Result<Vec<Message>, StoreError> {
        asked.clone_into(&mut self.asked);
        let entries = self.access.list_own(&self.memory_ref, self.window).await?;
        let mut room = most;
        let has_room = |content: &&String| {
            let left = room.checked_sub(content.len());
            room = left.unwrap_or_default();
            left.is_some()
        };
        let contents = entries.iter().map(|entry| &entry.content);
        let mut said: Vec<[Message; 2]> =
            contents.take_while(has_room).filter_map(|content| exchange(content)).collect();
        said.reverse();
        Ok(said.into_iter().flatten().collect())
    }

    /// Keeps this invocation's exchange for the next.
    pub(super) async fn keep(&self, result: &Value) -> Result<(), MemoryError> {
        let said = match result {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let draft = MemoryDraft::new(&self.memory_ref, &written(&self.asked, &said));
        match self.access.put(ORDINAL, draft).await {
            // Somebody has forgotten it already, which is theirs to say.
            Ok(_) | Err(MemoryError::Moved(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Two texts in one entry. Of texts that are too long the end is lost.
fn written(asked: &str, said: &str) -> String {
    let mut room = MAX_MEMORY_BYTES - FRAME;
    loop {
        let half = room / 2;
        let said = cut(said, room.saturating_sub(asked.len()).max(half));
        let asked = cut(asked, room.saturating_sub(said.len()).max(half));
        let text = Value::from(vec![asked, said]).to_string();
        if text.len() <= MAX_MEMORY_BYTES {
            return text;
        }
        // Escapes made it longer than it looked.
        room /= 2;
    }
}

/// None where the entry was changed into something else.
fn exchange(content: &str) -> Option<[Message; 2]> {
    let [asked, said]: [String; 2] = serde_json::from_str(content).ok()?;
    Some([Message::User { text: asked }, Message::Assistant { text: said, calls: Vec::new() }])
}

fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_of_any_size_is_kept_within_bounds() {
        let long = "ü\"\n".repeat(40_000);
        for (asked, said) in [("hi", "ho"), (&long, "ho"), ("hi", &long), (&long, &long)] {
            let text = written(asked, said);
            assert!(text.len() <= MAX_MEMORY_BYTES);
            let [kept, answer]: [String; 2] = serde_json::from_str(&text).expect("two texts");
            assert!(asked.starts_with(&kept) && said.starts_with(&answer));
            assert!(!kept.is_empty() && !answer.is_empty());
        }
        assert_eq!(written("hi", "ho"), r#"["hi","ho"]"#);
    }
}
