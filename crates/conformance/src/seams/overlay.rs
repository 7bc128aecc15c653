//! Capabilities that a test asks the host to pretend it lacks.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use callboard_core::required_capability;
use callboard_server::extend::Problem;
use serde_json::Value;

/// What tests have set, by the capability's name. Empty, and so without effect, where the doors are shut.
#[derive(Debug, Default)]
pub(super) struct Overlay(Mutex<BTreeMap<String, bool>>);

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

    /// Whether a test has switched a capability off.
    pub(super) fn is_off(&self, name: &str) -> bool {
        self.lock().get(name) == Some(&false)
    }

    /// Refuses a definition that needs something which is switched off.
    pub(super) fn check(&self, definition: &[u8]) -> Result<(), Problem> {
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
    let mut needed = vec![required_capability(&type_id.into()).to_owned()];
    match type_id {
        "core.dispatch" if MAPPINGS.iter().any(|key| maps(node, key)) => {
            needed.push("agents.dispatchMapping".to_owned())
        }
        "core.subWorkflow" if maps(node, "inputMapping") => {
            needed.push("subWorkflow.inputMapping".to_owned());
        }
        _ => {}
    }
    needed
}

/// Where a node says what its children get and leave behind.
const MAPPINGS: [&str; 4] =
    ["inputMapping", "outputMapping", "perWorkerInputMappings", "perWorkerOutputMappings"];

/// An empty mapping asks for nothing.
fn maps(node: &Value, key: &str) -> bool {
    let mapping = node.get("config").and_then(|config| config.get(key)).and_then(Value::as_object);
    mapping.is_some_and(|mapping| !mapping.is_empty())
}
