//! The task of the one agent that the suite asks to go wrong.

use callboard_agents::{ReadTask, plain_task};
use callboard_protocol::Object;
use serde_json::json;

/// The agent of the handoff fixture, which takes one more input than its task has.
const PROBED: &str = "core.openwop.agent-examples.structured-fixture";

/// Takes the suite's `scenario` out of the one agent's inputs that carry it; everybody else's are their task.
pub fn read_task(agent: &str, inputs: &Object) -> ReadTask {
    let mut read = plain_task(agent, inputs);
    let scenario = (agent == PROBED).then(|| read.task.remove("scenario")).flatten();
    let breaks = scenario.is_some_and(|scenario| scenario == "mock-return-violation");
    read.result = breaks.then(|| json!({}));
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_means_something_to_one_agent() {
        let inputs = Object::from_iter([("scenario".to_owned(), "mock-return-violation".into())]);
        let read = read_task(PROBED, &inputs);
        assert_eq!((read.task, read.result), (Object::new(), Some(json!({}))));
        let read = read_task("vendor.acme.other", &inputs);
        assert_eq!((read.task, read.result), (inputs, None));
    }
}
