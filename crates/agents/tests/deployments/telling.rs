//! The runs that tell of a transition.

use callboard_agents::{tell_change, tell_refusal};
use callboard_core::Plan;
use callboard_engine::KeyMode;
use callboard_protocol::Owner;

use crate::given::{AgentVersions, agent};

#[test]
fn what_tells_is_a_definition_like_any_other() {
    let by = Owner { tenant: "acme".into(), workspace: None, principal: None };
    let changed = AgentVersions::new().decide("promote 1.0.0").unwrap();
    let change = tell_change(&agent(), &changed.event, by.clone(), KeyMode::Live);
    let refusal = tell_refusal(&agent(), "eval_gate_unmet", "it is shut", by, KeyMode::Live);
    for telling in [change, refusal] {
        let plan = Plan::parse(telling.definition.as_bytes()).unwrap();
        assert_eq!(*plan.id(), telling.workflow);
        assert_eq!(telling.tags, [agent().to_string()]);
    }
}
