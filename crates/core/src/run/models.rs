//! Which models a run asks: what was decided once stays, whoever goes on with the run.

use std::collections::BTreeMap;

use callboard_protocol::{Event, ModelFallback};

use super::Run;
use crate::graph::NodeIndex;

/// A provider, with what it calls the model.
pub type ModelName = (String, String);

/// What the log knows about the models of one visit of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeptModels {
    /// The one that the visit's first invocation began with.
    pub began: Option<ModelName>,
    /// Those that the visit went over to since, in order.
    pub taken: Vec<ModelName>,
    /// What classes stand for since a node of the run left the model that they named.
    pub classes: BTreeMap<String, ModelName>,
}

impl KeptModels {
    /// Notes what a visit tells of its models.
    pub(super) fn fold(&mut self, event: &Event) {
        match event {
            Event::AgentInvocationStarted(payload) if self.began.is_none() => {
                let model = payload.resolved_model.clone();
                self.began = payload.resolved_provider.clone().zip(model);
            }
            Event::ModelFallback(payload) => self.taken.push(name_of(payload)),
            _ => {}
        }
    }
}

impl Run {
    pub(super) fn fold_fallback(&mut self, payload: &ModelFallback) {
        self.fallbacks.insert(payload.model_class.clone(), name_of(payload));
    }

    pub(super) fn kept_models(&self, index: NodeIndex) -> KeptModels {
        let classes = self.fallbacks.clone();
        KeptModels { classes, ..self.nodes[index].told.models().clone() }
    }
}

fn name_of(payload: &ModelFallback) -> ModelName {
    (payload.fallback_provider.clone(), payload.fallback_model.clone())
}
