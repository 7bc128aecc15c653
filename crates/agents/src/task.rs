//! How an agent's task is read from the inputs of its node.

use callboard_protocol::Object;
use serde_json::Value;

/// A task, and the result that takes the place of the agent's own where a test wants that.
#[derive(Debug)]
pub struct ReadTask {
    pub task: Object,
    pub result: Option<Value>,
}

/// Reads the inputs of a node for the agent with this id.
pub type TaskReader = fn(&str, &Object) -> ReadTask;

/// The inputs are the task.
pub fn plain_task(_agent: &str, inputs: &Object) -> ReadTask {
    ReadTask { task: inputs.clone(), result: None }
}
