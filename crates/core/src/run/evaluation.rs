//! What the expressions of one event come to: as it was recorded with the event, else evaluated now, to be recorded.

use callboard_protocol::{Evaluated, Failure};
use serde_json::Value;

use super::Run;
use crate::work::Work;

#[derive(Debug)]
pub(super) struct Evaluation<'a> {
    recorded: Option<&'a Evaluated>,
    fresh: Evaluated,
    /// What had been spent before.
    began_at: u64,
    pub(super) work: Work,
}

impl<'a> Evaluation<'a> {
    pub(super) fn new(recorded: Option<&'a Evaluated>, mut work: Work) -> Self {
        let began_at = work.spent();
        if let Some(recorded) = recorded {
            // It was done once already: whether there was enough for it is among what was recorded.
            let _enough = work.spend(recorded.work);
        }
        Self { recorded, fresh: Evaluated::default(), began_at, work }
    }

    /// Why it came to nothing, where that was recorded.
    pub(super) fn failure(&self) -> Option<&Failure> {
        self.recorded?.failure.as_ref()
    }

    /// What goes by this name among the event's expressions.
    pub(super) fn value(
        &mut self,
        name: &str,
        evaluate: impl FnOnce(&mut Work) -> Result<Value, Failure>,
    ) -> Result<Value, Failure> {
        if let Some(value) = self.recorded.and_then(|recorded| recorded.values.get(name)) {
            return Ok(value.clone());
        }
        if let Some(failure) = self.failure() {
            return Err(failure.clone());
        }
        let before = self.work.spent();
        let outcome = evaluate(&mut self.work);
        self.fresh.work += self.work.spent() - before;
        match &outcome {
            Ok(value) => {
                self.fresh.values.insert(name.to_owned(), value.clone());
            }
            Err(failure) => {
                self.fresh.failure.get_or_insert_with(|| failure.clone());
            }
        }
        outcome
    }

    /// All of it came to nothing. Values that no run can keep are not recorded either.
    pub(super) fn fail(&mut self, failure: &Failure) {
        if self.is_fresh() {
            let work = self.work.spent() - self.began_at;
            let failure = Some(failure.clone());
            self.fresh = Evaluated { failure, work, ..Evaluated::default() };
        }
    }

    fn is_fresh(&self) -> bool {
        self.recorded.is_none() && (self.fresh.failure.is_some() || !self.fresh.values.is_empty())
    }
}

impl Run {
    /// Counts the work, and leaves what is new for the event that is recorded.
    pub(super) fn conclude(&mut self, evaluation: Evaluation<'_>) {
        self.effort.step = evaluation.work;
        self.effort.evaluated = evaluation.is_fresh().then_some(evaluation.fresh);
    }
}
