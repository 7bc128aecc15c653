//! The runs that record the outcome of a transition.

use serde_json::json;

use callboard_engine::{AuditRun, KeyMode};
use callboard_protocol::{AgentId, DeploymentEvent, Owner};

/// What such runs are listed under.
const WORKFLOW: &str = "callboard-deployment";

/// A run that states a change.
pub fn audit_change(
    agent: &AgentId,
    event: &DeploymentEvent,
    by: Owner,
    mode: KeyMode,
) -> AuditRun {
    let audit = AuditRun::new(WORKFLOW, by, mode).tagged(agent);
    audit.stating("transition", event.kind(), &event.payload())
}

/// A run that fails with the reason why nothing was changed.
pub fn audit_refusal(agent: &AgentId, code: &str, why: &str, by: Owner, mode: KeyMode) -> AuditRun {
    let audit = AuditRun::new(WORKFLOW, by, mode).tagged(agent);
    audit.doing("transition", "core.fail", json!({ "code": code, "message": why }))
}
