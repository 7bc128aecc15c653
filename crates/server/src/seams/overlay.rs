//! Capabilities that a test asks the host to pretend it lacks.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use callboard_core::required_capability;
use serde_json::Value;

use crate::problem::Problem;

/// What tests have set, by the capability's name. Empty, and so without effect, where the doors are shut.
#[derive(Debug, Default)]
pub(crate) struct Overlay(Mutex<BTreeMap<String, bool>>);

impl Overlay {
    /// None takes the name out again.
    pub(super) fn set(&self, name: String, value: Option<bool>) {
        match value {
            Some(value) => self.lock().insert(name, value),
            None => self.lock().remove(&name),
        };
    }

    pub(super) fn reset(&self) {
        self.lock().clear();
    }

    pub(super) fn shown(&self) -> BTreeMap<String, bool> {
        self.lock().clone()
    }

    /// Refuses a definition that needs something which is switched off.
    pub(crate) fn check(&self, definition: &[u8]) -> Result<(), Problem> {
        let off: Vec<String> = {
            let set = self.lock();
            set.iter().filter(|(_, is_on)| !**is_on).map(|(name, _)| name.clone()).collect()
        };
        if off.is_empty() {
            return Ok(());
        }
        // A definition that does not parse is refused by name further on.
        let definition: Value = serde_json::from_slice(definition).unwrap_or_default();
        let nodes = definition.get("nodes").and_then(Value::as_array).into_iter().flatten();
        let mut needed = nodes.flat_map(needs);
        match needed.find(|capability| off.contains(capability)) {
            Some(capability) => Err(Problem::invalid(format!(
                "the workflow needs the capability {capability}, which is switched off"
            ))
            .with("requiredCapability", capability)),
            None => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, bool>> {
        // Each change is one insertion or removal, so a panic elsewhere leaves nothing half-done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The capability of a node's type, and those of what its configuration asks for.
fn needs(node: &Value) -> Vec<String> {
    let type_id = node.get("typeId").and_then(Value::as_str).unwrap_or_default();
    let has = |key: &str| node.get("config").is_some_and(|config| config.get(key).is_some());
    let maps = has("inputMapping") || has("outputMapping") || has("perWorkerMappings");
    let mut needed = vec![required_capability(&type_id.into()).to_owned()];
    match type_id {
        "core.dispatch" if maps => needed.push("agents.dispatchMapping".to_owned()),
        "core.subWorkflow" if hands_down(node) => {
            needed.push("subWorkflow.inputMapping".to_owned());
        }
        _ => {}
    }
    needed
}

/// An empty mapping asks for nothing.
fn hands_down(node: &Value) -> bool {
    let mapping = node.pointer("/config/inputMapping").and_then(Value::as_object);
    mapping.is_some_and(|mapping| !mapping.is_empty())
}
