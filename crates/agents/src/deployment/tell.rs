//! The definitions of runs that record the outcome of a transition.

use std::sync::Arc;

use serde_json::{Value, json};

use callboard_core::STATEMENT;
use callboard_engine::{KeyMode, Telling};
use callboard_protocol::{AgentId, DeploymentEvent, Owner};

/// What such runs are listed under.
const WORKFLOW: &str = "callboard-deployment";

/// A run that records a change.
pub fn tell_change(agent: &AgentId, event: &DeploymentEvent, by: Owner, mode: KeyMode) -> Telling {
    let config = json!({ "type": event.kind(), "payload": event.payload() });
    telling(agent, STATEMENT, &config, by, mode)
}

/// A run that fails with the reason why nothing was changed.
pub fn tell_refusal(agent: &AgentId, code: &str, why: &str, by: Owner, mode: KeyMode) -> Telling {
    telling(agent, "core.fail", &json!({ "code": code, "message": why }), by, mode)
}

fn telling(agent: &AgentId, type_id: &str, config: &Value, owner: Owner, mode: KeyMode) -> Telling {
    let definition = json!({
        "id": WORKFLOW, "name": "Deployment", "version": "1.0",
        "nodes": [{
            "id": "transition", "typeId": type_id, "name": "Transition",
            "position": { "x": 0, "y": 0 }, "config": config, "inputs": {},
        }],
        "edges": [], "triggers": [], "variables": [], "metadata": {}, "settings": {},
    });
    Telling {
        workflow: WORKFLOW.into(),
        definition: Arc::from(definition.to_string()),
        owner,
        mode,
        tags: vec![agent.to_string()],
    }
}
