//! Which members a payload of the second major may have, by the event's name there.

use Hatch::{Closed, Open, Vendor};

/// What becomes of a member without a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hatch {
    /// It is carried under a vendor's name.
    Vendor,
    /// There is no place for it.
    Closed,
    /// Every member has a seat.
    Open,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Seats {
    pub(super) hatch: Hatch,
    pub(super) required: &'static [&'static str],
    pub(super) optional: &'static [&'static str],
}

impl Seats {
    pub(super) fn has(&self, name: &str) -> bool {
        self.hatch == Open || self.required.contains(&name) || self.optional.contains(&name)
    }
}

/// The members of an error in a payload.
pub(super) const ERROR: Seats =
    Seats { hatch: Vendor, required: &["code", "message"], optional: &["details", "retryable"] };

/// None for an event whose payload the protocol leaves to its author, or whose seats are not known.
pub(super) fn seats(name: &str) -> Option<Seats> {
    let found = SEATS.iter().find(|(known, ..)| *known == name);
    found.map(|(_, hatch, required, optional)| Seats { hatch: *hatch, required, optional })
}

type Row = (&'static str, Hatch, &'static [&'static str], &'static [&'static str]);

#[rustfmt::skip]
const SEATS: [Row; 84] = [
    ("agent.decided", Vendor, &["agentId", "decision"], &["confidence", "causationHostId"]),
    ("agent.handoff", Vendor, &["fromAgentId", "toAgentId"], &["reason", "causationHostId"]),
    ("agent.invocation-completed", Vendor, &["invocationId", "agentId", "outcome"], &["schemaValidated", "confidence", "enqueuedRunId"]),
    ("agent.invocation-started", Vendor, &["invocationId", "agentId", "source"], &["modelClass", "resolvedModel", "resolvedProvider", "resolvedAgentVersion", "resolvedChannel", "toolSurfaceCount", "memoryBound"]),
    ("agent.memory-consolidated", Vendor, &["memoryRef", "inputCount", "outputCount"], &["mergedIds", "trigger"]),
    ("agent.prompt-resolved", Closed, &["nodeId", "kind", "chain", "resolved"], &["agentId", "causationHostId"]),
    ("agent.reasoned", Vendor, &["agentId", "reasoning"], &["verbosity", "causationHostId"]),
    ("agent.reasoning-delta", Vendor, &["agentId", "delta", "sequence"], &["verbosity"]),
    ("agent.tool-called", Vendor, &["agentId", "toolName", "callId"], &["inputs", "argsHash", "principal", "transport", "causationHostId"]),
    ("agent.tool-returned", Vendor, &["agentId", "toolName", "callId"], &["outcome", "error", "status", "durationMs", "causationHostId"]),
    ("agent.verified", Closed, &["agentId", "target", "verdict"], &["criteria", "confidence", "causationHostId"]),
    ("approval.granted", Vendor, &["nodeId", "interruptId"], &["kind", "reason", "resumeValue", "resolvedBy", "decision", "action", "refineFeedback", "editedArtifactData"]),
    ("approval.overridden", Vendor, &["nodeId", "interruptId"], &["kind", "reason", "resumeValue", "resolvedBy", "decision", "action", "refineFeedback", "editedArtifactData"]),
    ("approval.received", Vendor, &["nodeId", "interruptId"], &["kind", "reason", "resumeValue", "resolvedBy", "decision", "action", "refineFeedback", "editedArtifactData"]),
    ("approval.rejected", Vendor, &["nodeId", "interruptId"], &["kind", "reason", "resumeValue", "resolvedBy", "decision", "action", "refineFeedback", "editedArtifactData"]),
    ("approval.requested", Closed, &["kind", "key", "data"], &["resumeSchema", "timeoutMs"]),
    ("artifact.created", Vendor, &["artifactId", "artifactType"], &["nodeId", "version", "summary", "registered", "registrationSource"]),
    ("budget.consumed", Closed, &["dimension", "consumed", "limit"], &["remaining"]),
    ("budget.exhausted", Closed, &["dimension", "consumed", "limit"], &[]),
    ("budget.reserved", Closed, &["effectiveBudget", "scope"], &[]),
    ("budget.threshold-crossed", Closed, &["dimension", "consumed", "limit", "percent"], &[]),
    ("cap.breached", Vendor, &["kind", "limit", "observed"], &["nodeId"]),
    ("channel.written", Vendor, &["channel", "value", "reducer", "writtenAt"], &["nodeId", "schemaVersion"]),
    ("clarification.requested", Closed, &["kind", "key", "data"], &["resumeSchema", "timeoutMs"]),
    ("clarification.resolved", Vendor, &["nodeId", "interruptId"], &["kind", "reason", "resumeValue", "resolvedBy", "decision", "action", "refineFeedback", "editedArtifactData"]),
    ("commitment.fired", Vendor, &["commitmentId", "memoryRef", "condition"], &["memoryId", "enqueuedRunId"]),
    ("conversation.closed", Vendor, &["conversationId"], &["reason", "turnCount"]),
    ("conversation.exchanged", Vendor, &["conversationId", "turnIndex"], &["turn", "outcome"]),
    ("conversation.opened", Vendor, &["conversationId"], &["openedBy", "agentId", "participants", "initialTurn", "schema", "capabilities"]),
    ("deployment.canary-adjusted", Closed, &["agentId", "version", "fromPercent", "toPercent"], &[]),
    ("deployment.promoted", Closed, &["agentId", "toVersion", "toState"], &["fromVersion", "channel", "canaryPercent", "evalRunId", "approvalGateId"]),
    ("deployment.rolled-back", Closed, &["agentId", "fromVersion", "toVersion", "rollbackPointer"], &["reason"]),
    ("deployment.state-changed", Closed, &["agentId", "version", "fromState", "toState"], &[]),
    ("dispatch.fanned-out", Closed, &["fanOutPolicy", "childCount"], &["maxConcurrency", "joinMode"]),
    ("dispatch.joined", Closed, &["joinOutcome", "completedCount", "failedCount", "mergeOrder"], &["cancelledCount"]),
    ("envelope.nl-to-format-engaged", Closed, &["nodeId", "originalEnvelopeType"], &["fallbackCalls"]),
    ("envelope.recovery-applied", Closed, &["nodeId", "path"], &["byteOffset"]),
    ("envelope.refusal", Closed, &["nodeId", "provider", "model"], &["refusalText", "safetyCategory"]),
    ("envelope.retry-attempted", Closed, &["nodeId", "attempt", "reason"], &["previousError"]),
    ("envelope.retry-exhausted", Closed, &["nodeId", "totalAttempts", "finalReason"], &["finalError"]),
    ("envelope.truncated", Closed, &["nodeId", "provider", "model", "stopReason"], &["partialPayloadAvailable", "outputTokenCount"]),
    ("interrupt.requested", Closed, &["kind", "key", "data"], &["resumeSchema", "timeoutMs"]),
    ("interrupt.resolved", Vendor, &["nodeId", "interruptId"], &["kind", "reason", "resumeValue", "resolvedBy", "decision", "action", "refineFeedback", "editedArtifactData"]),
    ("log.appended", Vendor, &["level", "message"], &["nodeId", "fields"]),
    ("memory.compacted", Vendor, &["memoryRef", "outputId", "sourceCount", "trigger", "byteSize"], &["sourceIds", "distillation"]),
    ("memory.written", Vendor, &["memoryRef", "memoryId"], &["nodeId", "agentId", "tags"]),
    ("model.capability-insufficient", Closed, &["nodeId", "provider", "model", "missingCapabilities"], &["fallbackAttempted"]),
    ("model.capability-substituted", Closed, &["nodeId", "originalProvider", "originalModel", "fallbackProvider", "fallbackModel", "missingCapabilities"], &[]),
    ("node.cancelled", Vendor, &["nodeId"], &["reason"]),
    ("node.completed", Vendor, &["nodeId"], &["outputs", "durationMs"]),
    ("node.dispatched", Closed, &["childRunId", "childWorkflowId"], &["childStatus"]),
    ("node.failed", Vendor, &["nodeId", "error"], &["attempts"]),
    ("node.resumed", Vendor, &["nodeId"], &["interruptId", "resumeValue"]),
    ("node.retried", Vendor, &["nodeId", "attempt"], &["delayMs", "lastError"]),
    ("node.skipped", Vendor, &["nodeId"], &["reason"]),
    ("node.started", Vendor, &["nodeId", "typeId"], &["attempt"]),
    ("node.suspend-failed", Vendor, &["nodeId", "error"], &[]),
    ("node.suspended", Vendor, &["nodeId", "interruptId"], &["kind", "reason", "key"]),
    ("orchestrator.decided", Closed, &["agentId", "decision"], &["iteration", "causationHostId"]),
    ("output.chunk", Vendor, &["nodeId", "runId", "chunk", "isLast"], &["channel", "meta"]),
    ("prompt.composed", Closed, &["nodeId", "refs", "kind", "hash"], &["composed", "systemPrompt", "userPrompt", "variableBindings", "variableHashes", "contentTrust", "causationHostId"]),
    ("provider.usage", Closed, &["provider", "model", "inputTokens", "outputTokens"], &["totalTokens", "costEstimateUsd", "currency", "cacheHit", "cacheReadTokens", "cacheWriteTokens", "nodeId", "traceId"]),
    ("replay.diverged", Vendor, &["sourceRunId", "atSequence"], &["originalEventId", "divergenceKind", "divergencePoint"]),
    ("replay.diverged-at-refusal", Closed, &["sourceRunId", "atSequence", "originalEnvelopeKind", "replayEnvelopeKind"], &["originalEventId", "nodeId", "refusalReason"]),
    ("roster.run-initiated", Closed, &["rosterId", "persona", "agentId", "workflowId", "triggerSource"], &["triggerSubscriptionId"]),
    ("run.cancelled", Vendor, &[], &["reason", "cancelledBy", "durationMs", "parentRunId"]),
    ("run.completed", Vendor, &["outputs"], &["durationMs"]),
    ("run.dead-lettered", Closed, &["runId", "reason", "attempts"], &["nodeId"]),
    ("run.failed", Vendor, &["error"], &["failedNodeId", "durationMs"]),
    ("run.paused", Vendor, &[], &["reason", "drainPolicy", "interruptedNodeId", "interruptedAttempt"]),
    ("run.restored-from-snapshot", Vendor, &[], &["snapshotSeq", "engineVersion"]),
    ("run.resume-started", Vendor, &[], &["fromStatus"]),
    ("run.resumed", Open, &[], &[]),
    ("run.started", Vendor, &["workflowId"], &["inputs", "transport", "engineVersion", "owner", "tags", "metadata"]),
    ("trigger.delivery-attempted", Vendor, &["subscriptionId", "dedupKey", "attempt", "outcome"], &["runId"]),
    ("trigger.subscription-state-changed", Vendor, &["subscriptionId", "source", "fromState", "toState"], &["reason"]),
    ("variable.changed", Vendor, &["name"], &["previous", "next", "nodeId"]),
    ("version.pinned", Vendor, &["changeId", "version"], &["nodeId"]),
    ("workflow-chain.confidence-escalated", Closed, &["confidence", "floor", "escalationKind", "parentRunId"], &["workerId", "originalDecision", "causationHostId"]),
    ("workflow-chain.event", Closed, &["phase", "workerId", "parentRunId"], &["childRunId", "harvestedKeys", "attestation", "error", "causationHostId"]),
    ("workflow.loopback-limit", Vendor, &["nodeId", "iterations"], &["limit"]),
    ("workflow.restored", Vendor, &[], &["fromSnapshotSeq", "engineVersion"]),
    ("workflow.stalled", Vendor, &[], &["stalledForMs", "lastNodeId"]),
    ("workspace.updated", Closed, &["path", "version"], &[]),
];
