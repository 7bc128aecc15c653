//! What is to be written into a file, before it is checked.

use callboard_core::{Outcome, RetryClass, redact_text};
use callboard_protocol::{Failure, Object};

use super::{Files, MAX_FILES};
use crate::activity::Superseded;
use crate::store::{Scope, StoreError};

/// The longest content, in bytes: something that is read whole at the start of every session.
pub const MAX_FILE_BYTES: usize = 262_144;
/// The longest path, as the protocol bounds it.
const MAX_PATH: usize = 256;
/// The longest media type: more than real ones need.
const MAX_TYPE: usize = 255;
/// What files are that say nothing of it, as the protocol has it.
const USUAL_TYPE: &str = "text/markdown";

/// A file to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDraft {
    pub path: String,
    pub content: String,
    pub content_type: String,
}

/// What must be true of a file for a write to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    Always,
    /// It stands at one of these versions.
    At(Vec<u64>),
    /// It is there.
    Exists,
    /// It is not there.
    Absent,
}

/// Why a file is not written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The draft itself is wrong: the protocol's `validation_error`.
    #[error("{0}")]
    Invalid(String),
    #[error("a file holds at most {MAX_FILE_BYTES} bytes")]
    TooLarge,
    #[error("a workspace holds at most {MAX_FILES} files")]
    TooMany,
    /// The file is not what the writer takes it for: read it again.
    #[error("the file is at version {current}")]
    Conflict { current: u64 },
    /// There is nothing to remove.
    #[error("there is no such file")]
    Missing,
    /// The attempt no longer counts.
    #[error(transparent)]
    Superseded(#[from] Superseded),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl FileError {
    /// How an attempt ends that cannot do without what it was to write.
    pub fn outcome(self) -> Outcome {
        let message = self.to_string();
        let (failure, class) = match self {
            Self::Invalid(_) => (Failure::new("validation_error", message), RetryClass::Final),
            Self::TooLarge | Self::TooMany => {
                (Failure::new("workspace_too_large", message), RetryClass::Final)
            }
            Self::Conflict { .. } => {
                (Failure::new("workspace_conflict", message), RetryClass::Final)
            }
            Self::Missing => (Failure::new("not_found", message), RetryClass::Final),
            Self::Store(error) => {
                tracing::warn!(%error, "files not reached");
                let message = "the workspace cannot be reached";
                (Failure::new("service_unavailable", message), RetryClass::Retryable)
            }
            // Nobody listens to an attempt that no longer counts.
            Self::Superseded(_) => return Outcome::Done { outputs: Object::new() },
        };
        Outcome::Failed { failure, class }
    }
}

impl FileDraft {
    pub fn new(path: &str, content: &str) -> Self {
        Self {
            path: path.to_owned(),
            content: content.to_owned(),
            content_type: USUAL_TYPE.to_owned(),
        }
    }

    /// Checks all that needs no store. What looks like a credential is refused.
    pub(super) fn checked(mut self) -> Result<Self, FileError> {
        check_path(&self.path)?;
        if self.content.len() > MAX_FILE_BYTES {
            return Err(FileError::TooLarge);
        }
        let is_sound = |text: &str| text.len() <= MAX_TYPE && !text.chars().any(char::is_control);
        if self.content_type.is_empty() || !is_sound(&self.content_type) {
            return Err(FileError::Invalid("the content type is malformed".to_owned()));
        }
        self.content = redact_text(&self.content);
        self.content_type = redact_text(&self.content_type);
        Ok(self)
    }
}

/// Refuses what is no path: the protocol's pattern, and nothing that climbs.
pub fn check_path(path: &str) -> Result<(), FileError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '/' | '-');
    let is_sound = path.len() <= MAX_PATH
        && path.starts_with(|first: char| first.is_ascii_alphanumeric())
        && path.chars().all(is_plain)
        && !path.contains("..");
    // The path itself is not repeated: it may be somebody's attempt.
    if is_sound { Ok(()) } else { Err(FileError::Invalid("the path is malformed".to_owned())) }
}

impl Condition {
    /// The version that a write of this path is decided on.
    pub(super) async fn judge(
        &self,
        files: &Files,
        owner: &Scope,
        path: &str,
    ) -> Result<u64, FileError> {
        let newest = files.find_file(owner, path, None).await?;
        let current = newest.as_ref().map_or(0, |newest| newest.version);
        let is_there = newest.is_some_and(|newest| !newest.is_removed);
        let holds = match self {
            Self::Always => true,
            Self::At(versions) => is_there && versions.contains(&current),
            Self::Exists => is_there,
            Self::Absent => !is_there,
        };
        if !holds {
            return Err(FileError::Conflict { current });
        }
        if !is_there && files.list_files(owner, "").await?.len() >= MAX_FILES {
            return Err(FileError::TooMany);
        }
        Ok(current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_climb_or_hide_are_refused() {
        let longest = "x".repeat(MAX_PATH);
        for path in ["a", "IDENTITY.md", "desk/DIRECTIVES.md", "9/a-b_c.d", &longest] {
            assert!(check_path(path).is_ok(), "{path}");
        }
        let long = "x".repeat(MAX_PATH + 1);
        for path in [
            "",
            "/etc/passwd",
            "../up",
            "a/../b",
            "a..b",
            ".hidden",
            "-flag",
            "_x",
            "a\0b",
            "a b",
            "a\\b",
            "ä",
            "a\nb",
            "a%2e",
            &long,
        ] {
            assert!(matches!(check_path(path), Err(FileError::Invalid(_))), "{path:?}");
        }
    }

    #[test]
    fn a_draft_is_bounded_and_keeps_no_credential() {
        let draft = |content: &str| FileDraft::new("a.md", content);
        assert!(draft(&"x".repeat(MAX_FILE_BYTES)).checked().is_ok());
        let large = draft(&"x".repeat(MAX_FILE_BYTES + 1)).checked();
        assert!(matches!(large, Err(FileError::TooLarge)), "{large:?}");
        for content_type in ["", "text/\nplain", &"x".repeat(MAX_TYPE + 1)] {
            let wrong = FileDraft { content_type: content_type.to_owned(), ..draft("") }.checked();
            assert!(matches!(wrong, Err(FileError::Invalid(_))), "{content_type:?}");
        }
        let key = format!("sk-{}", "abcdefghijklmnopqrstuvwxyz0123456789ABCD");
        let kept = draft(&format!("the key is {key}")).checked().expect("a draft");
        assert!(!kept.content.contains(&key), "{kept:?}");
    }
}
