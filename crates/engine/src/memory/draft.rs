//! An entry to be written, before it is checked.

use callboard_core::{Outcome, Redactor, RetryClass, is_memory_ref, redact_text, respell_marks};
use callboard_protocol::{Failure, HeartbeatId, MemoryId, Object, Remembered, Timestamp};

use crate::activity::Superseded;
use crate::store::StoreError;

/// The longest content, in bytes: a page that an agent can be shown, not a file.
pub const MAX_MEMORY_BYTES: usize = 65_536;
/// The longest tag, as the protocol bounds it.
const MAX_TAG: usize = 256;
/// Tags are for finding things again; more than these find everything.
pub(super) const MAX_TAGS: usize = 32;

/// Marks entries with a commitment.
pub(super) const COMMITMENT: &str = "commitment";

/// Something to remember.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryDraft {
    pub memory_ref: String,
    pub content: String,
    pub tags: Vec<String>,
    pub lifetime: Lifetime,
    /// The version that this one takes the place of.
    pub replaces: Option<Remembered>,
    /// When its commitment is due.
    pub due: Option<Due>,
    /// Versions of other entries that this one is made from and stands for.
    pub absorbs: Vec<Remembered>,
}

/// What a commitment waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Due {
    At(Timestamp),
    /// The next change that this heartbeat of the same owner sees.
    On(HeartbeatId),
}

/// How long something is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    Unset,
    /// So many milliseconds from when it is written.
    Millis(u64),
    Until(Timestamp),
}

impl Lifetime {
    pub fn expires_at(self, written_at: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Unset => None,
            Self::Millis(millis) => Some(written_at.plus_millis(millis)),
            Self::Until(at) => Some(at),
        }
    }
}

/// Why something is not remembered.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The draft itself is wrong: the protocol's `validation_error`.
    #[error("{0}")]
    Invalid(String),
    /// The entry was changed since it was read: read it again.
    #[error("entry {0} has been changed by somebody else")]
    Moved(MemoryId),
    /// The attempt no longer counts.
    #[error(transparent)]
    Superseded(#[from] Superseded),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl MemoryError {
    /// How an attempt ends that cannot do without what it was to remember.
    pub fn outcome(self) -> Outcome {
        let message = self.to_string();
        let (failure, class) = match self {
            Self::Invalid(_) => (Failure::new("validation_error", message), RetryClass::Final),
            Self::Moved(_) => (Failure::new("memory_conflict", message), RetryClass::Retryable),
            Self::Store(error) => return unreached(&error),
            // Nobody listens to an attempt that no longer counts.
            Self::Superseded(_) => return Outcome::Done { outputs: Object::new() },
        };
        Outcome::Failed { failure, class }
    }
}

/// How an attempt ends that could not reach memory. The cause is for the operator.
pub fn unreached(error: &StoreError) -> Outcome {
    tracing::warn!(%error, "memory not reached");
    let failure = Failure::new("service_unavailable", "memory cannot be reached");
    Outcome::Failed { failure, class: RetryClass::Retryable }
}

impl MemoryDraft {
    pub fn new(memory_ref: &str, content: &str) -> Self {
        Self {
            memory_ref: memory_ref.to_owned(),
            content: content.to_owned(),
            tags: Vec::new(),
            lifetime: Lifetime::Unset,
            replaces: None,
            due: None,
            absorbs: Vec::new(),
        }
    }

    /// Cleans everything that is kept of it.
    pub(crate) fn redact(&mut self, known: &Redactor) {
        known.redact_text(&mut self.memory_ref);
        known.redact_text(&mut self.content);
        self.tags.iter_mut().for_each(|tag| known.redact_text(tag));
    }

    /// Checks all that needs no store, and drops empty tags.
    pub fn checked(mut self, at: Timestamp) -> Result<Self, MemoryError> {
        let refuse = |why: String| Err(MemoryError::Invalid(why));
        check_memory_ref(&self.memory_ref)?;
        if self.content.len() > MAX_MEMORY_BYTES {
            return refuse(format!("an entry holds at most {MAX_MEMORY_BYTES} bytes"));
        }
        self.tags.retain(|tag| !tag.is_empty());
        if self.due.is_some() && !self.tags.iter().any(|tag| tag == COMMITMENT) {
            self.tags.push(COMMITMENT.to_owned());
        }
        if self.tags.len() > MAX_TAGS {
            return refuse(format!("an entry has at most {MAX_TAGS} tags"));
        }
        if self.tags.iter().any(|tag| tag.chars().count() > MAX_TAG) {
            return refuse(format!("a tag has at most {MAX_TAG} characters"));
        }
        if self.lifetime.expires_at(at).is_some_and(|expires_at| expires_at <= at) {
            return refuse("an entry must expire in the future".to_owned());
        }
        Ok(self)
    }
}

/// What is kept of a content: nothing like a credential, and every mark of one in the protocol's spelling.
pub(super) fn cleaned(content: &str) -> String {
    respell_marks(&redact_text(content))
}

pub(crate) fn check_memory_ref(memory_ref: &str) -> Result<(), MemoryError> {
    // The name itself is not repeated: it may be somebody's attempt.
    if is_memory_ref(memory_ref) {
        Ok(())
    } else {
        Err(MemoryError::Invalid("the memory reference is malformed".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_millis(1_000)
    }

    fn draft() -> MemoryDraft {
        MemoryDraft::new("desk/notes", "the invoice is paid")
    }

    #[test]
    fn names_that_climb_or_hide_are_refused() {
        let longest = "x".repeat(256);
        for name in [
            "a",
            "agent/desk.triager",
            "conformance/another-tenant/agent-memory",
            "a..b",
            "mem://conformance/commitments",
            "mem_tenant:default_agent:desk_longTerm",
            "a\\b%2e%2e/",
            &longest,
        ] {
            assert!(check_memory_ref(name).is_ok(), "{name}");
        }
        let long = "x".repeat(257);
        for name in [
            "",
            "/etc",
            "\\etc",
            "a/../b",
            "mem://../b",
            "..",
            "a/./b",
            "a\0b",
            "a\nb",
            "a\\..\\b",
            &long,
        ] {
            let refused = check_memory_ref(name);
            assert!(matches!(refused, Err(MemoryError::Invalid(_))), "{name:?}");
        }
    }

    #[test]
    fn a_draft_is_bounded_in_every_part() {
        let now = now();
        let fits = MemoryDraft { content: "x".repeat(MAX_MEMORY_BYTES), ..draft() };
        assert!(fits.checked(now).is_ok());
        let refused = [
            MemoryDraft { content: "x".repeat(MAX_MEMORY_BYTES + 1), ..draft() },
            MemoryDraft { tags: vec!["x".repeat(MAX_TAG + 1)], ..draft() },
            MemoryDraft { tags: (0..=MAX_TAGS).map(|tag| tag.to_string()).collect(), ..draft() },
            MemoryDraft { lifetime: Lifetime::Until(now), ..draft() },
            MemoryDraft { lifetime: Lifetime::Millis(0), ..draft() },
        ];
        for draft in refused {
            assert!(
                matches!(draft.clone().checked(now), Err(MemoryError::Invalid(_))),
                "{draft:?}"
            );
        }
    }

    #[test]
    fn empty_tags_are_dropped() {
        let tags = vec![String::new(), "a".to_owned()];
        let checked = MemoryDraft { tags, ..draft() }.checked(now());
        assert_eq!(checked.map(|draft| draft.tags).ok(), Some(vec!["a".to_owned()]));
    }
}
