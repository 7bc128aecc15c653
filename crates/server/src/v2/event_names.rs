//! Names of events in both majors. The log has those of the first; a bijection leads to those of the second.

use callboard_protocol::EVENT_TYPES;

/// Those that differ; all others are called the same.
const RENAMED: [(&str, &str); 36] = [
    ("agent.invocation.completed", "agent.invocation-completed"),
    ("agent.invocation.started", "agent.invocation-started"),
    ("agent.memory.consolidated", "agent.memory-consolidated"),
    ("agent.promptResolved", "agent.prompt-resolved"),
    ("agent.reasoning.delta", "agent.reasoning-delta"),
    ("agent.toolCalled", "agent.tool-called"),
    ("agent.toolReturned", "agent.tool-returned"),
    ("budget.threshold.crossed", "budget.threshold-crossed"),
    ("compensation.manual_intervention_required", "compensation.manual-intervention-required"),
    ("connector.auth_expired", "connector.auth-expired"),
    ("core.dispatch.fanOut", "dispatch.fanned-out"),
    ("core.dispatch.join", "dispatch.joined"),
    ("core.workflowChain.confidence-escalated", "workflow-chain.confidence-escalated"),
    ("core.workflowChain.event", "workflow-chain.event"),
    ("deployment.canary.adjusted", "deployment.canary-adjusted"),
    ("deployment.state.changed", "deployment.state-changed"),
    ("envelope.nlToFormat.engaged", "envelope.nl-to-format-engaged"),
    ("envelope.recovery.applied", "envelope.recovery-applied"),
    ("envelope.retry.attempted", "envelope.retry-attempted"),
    ("envelope.retry.exhausted", "envelope.retry-exhausted"),
    ("model.capability.insufficient", "model.capability-insufficient"),
    ("model.capability.substituted", "model.capability-substituted"),
    ("replay.divergedAtRefusal", "replay.diverged-at-refusal"),
    ("roster.run.initiated", "roster.run-initiated"),
    ("run.dead_lettered", "run.dead-lettered"),
    ("run.resuming", "run.resume-started"),
    ("runOrchestrator.decided", "orchestrator.decided"),
    ("tool.session.closed", "tool.session-closed"),
    ("tool.session.opened", "tool.session-opened"),
    ("trigger.delivery.attempted", "trigger.delivery-attempted"),
    ("trigger.subscription.state.changed", "trigger.subscription-state-changed"),
    ("voice.barge_in", "voice.barge-in"),
    ("voice.endpoint_candidate", "voice.endpoint-candidate"),
    ("voice.speech_start", "voice.speech-start"),
    ("voice.synthesis_chunk", "voice.synthesis-chunk"),
    ("voice.turn_commit", "voice.turn-commit"),
];

/// Names of the second major that no event of the first has under another name and that the first does not list.
const UNLISTED: [&str; 10] = [
    "channel.presence",
    "compensation.completed",
    "compensation.failed",
    "compensation.manual_intervention_required",
    "compensation.paused",
    "compensation.requested",
    "compensation.started",
    "context.summarized",
    "core.dispatch.fanOut",
    "core.dispatch.join",
];

/// What the second major calls a stored event; none where it has no name for it and no vendor could have given it.
pub(crate) fn second(first: &str) -> Option<&str> {
    if let Some((_, second)) = RENAMED.iter().find(|(known, _)| *known == first) {
        return Some(second);
    }
    let is_known = EVENT_TYPES.contains(&first) || UNLISTED.contains(&first);
    (is_known || is_vendors(first)).then_some(first)
}

/// The same the other way; none for a name that only the first major knows.
pub(crate) fn first(second: &str) -> Option<&str> {
    if let Some((first, _)) = RENAMED.iter().find(|(_, known)| *known == second) {
        return Some(first);
    }
    let is_old = RENAMED.iter().any(|(first, _)| *first == second);
    let is_known = EVENT_TYPES.contains(&second) || UNLISTED.contains(&second);
    ((is_known && !is_old) || is_vendors(second)).then_some(second)
}

/// Families whose first words differ.
const FAMILIES: [(&str, &str); 2] =
    [("runOrchestrator.*", "orchestrator.*"), ("core.workflowChain.*", "workflow-chain.*")];

/// What a webhook of the second major wants, as the log is searched for it.
pub(crate) fn first_pattern(second: &str) -> Option<&str> {
    if let Some((first, _)) = FAMILIES.iter().find(|(_, known)| *known == second) {
        return Some(first);
    }
    if second.ends_with('*') {
        let is_old = FAMILIES.iter().any(|(first, _)| *first == second);
        return (!is_old).then_some(second);
    }
    first(second)
}

/// The same as it was written.
pub(crate) fn second_pattern(first: &str) -> &str {
    let family = FAMILIES.iter().find(|(known, _)| *known == first).map(|(_, second)| *second);
    family.or_else(|| second(first)).unwrap_or(first)
}

/// `<org>.<a>` or `<org>.<a>.<b>`, where the first word is none of the protocol's own.
fn is_vendors(name: &str) -> bool {
    let words: Vec<&str> = name.split('.').collect();
    let is_word = |word: &&str| {
        !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
    };
    let is_name = (2..=3).contains(&words.len()) && words.iter().all(is_word);
    is_name && words.first().is_some_and(|org| !is_family(org))
}

fn is_family(word: &str) -> bool {
    let seconds = RENAMED.iter().map(|(_, second)| second);
    let firsts = EVENT_TYPES.iter().chain(&UNLISTED);
    firsts.chain(seconds).any(|name| name.split('.').next() == Some(word))
}

#[cfg(test)]
pub(crate) fn all() -> impl Iterator<Item = &'static str> {
    EVENT_TYPES.iter().chain(&UNLISTED).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// V-23: there and back again.
    #[test]
    fn every_name_has_one_counterpart() {
        for name in all() {
            let there = second(name).unwrap_or_default();
            assert_eq!(first(there), Some(name), "{name}");
        }
        for (old, _) in RENAMED {
            assert_eq!(first(old), None, "{old} is no name of the second major");
        }
    }

    #[test]
    fn a_name_that_nobody_gave_is_unmapped() {
        for unknown in ["node.danced", "run", "acme", "a.b.c.d", "acme.", "core.dance"] {
            assert_eq!(second(unknown), None, "{unknown}");
        }
        assert_eq!(second("callboard.vote"), Some("callboard.vote"));
        assert_eq!(second("acme.canvas.published"), Some("acme.canvas.published"));
    }
}
