//! Which events a webhook wants: names, whole families, or everything.

use serde::{Deserialize, Serialize};

use callboard_protocol::{EVENT_TYPES, Event};

/// Patterns as their owner wrote them: `run.completed`, `node.*` or `*`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventFilter(Vec<String>);

/// No event will ever match it, so it is a slip of the pen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no event is called {0:?}")]
pub struct UnknownPattern(pub String);

impl EventFilter {
    pub fn read(patterns: Vec<String>) -> Result<Self, UnknownPattern> {
        match patterns.iter().find(|pattern| !is_known(pattern)) {
            Some(unknown) => Err(UnknownPattern(unknown.clone())),
            None => Ok(Self(patterns)),
        }
    }

    /// Wants nothing: its receiver gets its questions another way.
    pub(super) fn none() -> Self {
        Self(Vec::new())
    }

    pub fn patterns(&self) -> &[String] {
        &self.0
    }

    pub(super) fn wants(&self, kind: &str) -> bool {
        self.0.iter().any(|pattern| matches(pattern, kind))
    }
}

fn matches(pattern: &str, kind: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => kind.starts_with(prefix),
        None => pattern == kind,
    }
}

/// Within a family of the protocol, or of ours, only what can happen; other names belong to their vendors.
fn is_known(pattern: &str) -> bool {
    if pattern == "*" {
        return true;
    }
    let name = pattern.strip_suffix(".*").unwrap_or(pattern);
    let is_family = name.len() < pattern.len();
    let segments: Vec<&str> = name.split('.').collect();
    let is_name = segments.iter().all(|segment| is_segment(segment));
    if !is_name || (segments.len() < 2 && !is_family) {
        return false;
    }
    let mut known = EVENT_TYPES.iter().chain(Event::KINDS).peekable();
    let is_vendors = !known.clone().any(|kind| kind.split('.').next() == segments.first().copied());
    is_vendors || known.any(|kind| matches(pattern, kind))
}

fn is_segment(segment: &str) -> bool {
    !segment.is_empty() && segment.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_that_can_match_nothing_is_refused() {
        for (pattern, is_known) in [
            ("*", true),
            ("run.completed", true),
            ("run.*", true),
            ("agent.memory.*", true),
            ("replay.divergedAtRefusal", true),
            ("callboard.cancel.requested", true),
            ("acme.canvas.published", true),
            ("acme.*", true),
            ("run.complete", false),
            ("run.started.*", false),
            ("callboard.danced", false),
            ("run", false),
            ("", false),
            (".*", false),
            ("**", false),
            ("run*", false),
            ("run.comp*", false),
            ("run. completed", false),
        ] {
            let read = EventFilter::read(vec!["run.failed".to_owned(), pattern.to_owned()]);
            assert_eq!(read.is_ok(), is_known, "{pattern:?}");
        }
    }

    #[test]
    fn families_match_whole_segments() -> Result<(), UnknownPattern> {
        let filter = EventFilter::read(vec!["run.*".to_owned(), "node.failed".to_owned()])?;
        for (kind, wanted) in [
            ("run.completed", true),
            ("runOrchestrator.decided", false),
            ("node.failed", true),
            ("node.started", false),
        ] {
            assert_eq!(filter.wants(kind), wanted, "{kind}");
        }
        Ok(())
    }
}
