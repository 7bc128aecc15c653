//! The runs that state a transition.

use callboard_agents::{audit_change, audit_refusal};
use callboard_core::Plan;
use callboard_engine::KeyMode;
use callboard_protocol::Owner;

use crate::given::{AgentVersions, agent};

#[test]
fn what_states_it_is_a_definition_like_any_other() {
    let by = Owner { tenant: "acme".into(), workspace: None, principal: None };
    let changed = AgentVersions::new().decide("promote 1.0.0").unwrap();
    let change = audit_change(&agent(), &changed.event, by.clone(), KeyMode::Live);
    let refusal = audit_refusal(&agent(), "eval_gate_unmet", "it is shut", by, KeyMode::Live);
    for audit in [change, refusal] {
        let definition = audit.definition();
        let plan = Plan::parse(definition.to_string().as_bytes()).unwrap();
        assert_eq!(plan.id().as_str(), "callboard-deployment");
        assert_eq!(definition["nodes"][0]["id"], "transition");
    }
}
