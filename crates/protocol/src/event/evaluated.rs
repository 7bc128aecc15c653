//! The results of expressions when an event was recorded, stored beside it for the fold only.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::Event;
use crate::{Failure, Object};

/// The expressions that an event leads to are evaluated once, when it is recorded. Later folds of the log use
/// these results, so that a build that evaluates differently does not change the past.
///
/// Stored in the part of an event that readers do not see. An event from before it was kept has none, and is evaluated; an
/// old reader ignores it and evaluates, too.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evaluated {
    /// Of `node.started`, what each port holds that has an expression. Of `node.completed`, whether each edge is followed
    /// that has a condition, by its place in the definition.
    #[serde(default, skip_serializing_if = "Object::is_empty")]
    pub values: Object,
    /// Why the first that is not among the values could not be evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The work that it took, which is counted by every fold of the log.
    #[serde(default)]
    pub work: u64,
}

impl Event {
    /// Keeps the results of the event's expressions.
    pub fn keep_evaluated(&mut self, evaluated: Evaluated) {
        if let Some(place) = self.evaluated_mut() {
            *place = Some(evaluated);
        }
    }

    /// The event as readers see it, without what only the fold needs.
    pub fn public(&self) -> Cow<'_, Self> {
        let has_evaluated = match self {
            Self::NodeStarted(payload) => payload.evaluated.is_some(),
            Self::NodeCompleted(payload) => payload.evaluated.is_some(),
            _ => false,
        };
        if !has_evaluated {
            return Cow::Borrowed(self);
        }
        let mut public = self.clone();
        if let Some(place) = public.evaluated_mut() {
            *place = None;
        }
        Cow::Owned(public)
    }

    fn evaluated_mut(&mut self) -> Option<&mut Option<Evaluated>> {
        match self {
            Self::NodeStarted(payload) => Some(&mut payload.evaluated),
            Self::NodeCompleted(payload) => Some(&mut payload.evaluated),
            _ => None,
        }
    }
}
