//! Which models a run asks: what was decided once stays, also after another host takes over.

use std::collections::BTreeMap;

use callboard_protocol::{Event, ModelFallback, RunCost};

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
    /// Notes what a visit records of its models.
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

/// What models have been to the run.
#[derive(Debug, Clone, Default)]
pub(super) struct Models {
    /// What they have used, once any was asked.
    pub(super) cost: Option<RunCost>,
    /// What classes of models stand for since one was in trouble.
    pub(super) fallbacks: BTreeMap<String, ModelName>,
}

impl Run {
    pub(super) fn fold_fallback(&mut self, payload: &ModelFallback) {
        self.models.fallbacks.insert(payload.model_class.clone(), name_of(payload));
    }

    pub(super) fn kept_models(&self, index: NodeIndex) -> KeptModels {
        let classes = self.models.fallbacks.clone();
        KeptModels { classes, ..self.nodes[index].recorded.models().clone() }
    }
}

fn name_of(payload: &ModelFallback) -> ModelName {
    (payload.fallback_provider.clone(), payload.fallback_model.clone())
}
