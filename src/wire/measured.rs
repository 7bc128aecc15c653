//! How long providers of models take, and how their calls fail.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;

use callboard_agents::{
    DeltaSink, Fault, Model, ModelError, ModelRef, ModelRequest, Models, StopReason, Turn,
};
use callboard_engine::{Clock as _, SystemClock};

/// Models of one host that have series of their own. Workflows name models, so the rest is counted together.
const MOST_MODELS: usize = 200;
const OTHER: &str = "_other";

pub(super) const DURATION: &str = "callboard_provider_request_duration_seconds";
const ERRORS: &str = "callboard_provider_errors_total";

/// The models of a host, with every call measured.
#[derive(Debug)]
pub(super) struct Measured {
    models: Models,
    known: Mutex<BTreeSet<String>>,
}

impl Measured {
    pub(super) fn new(models: Models) -> Self {
        metrics::describe_histogram!(DURATION, "Calls of models, from question to last word");
        metrics::describe_counter!(ERRORS, "Calls of models that failed, by fault");
        Self { models, known: Mutex::default() }
    }

    fn labels(&self, model: &ModelRef) -> [(&'static str, String); 2] {
        let name = model.to_string();
        // A panic elsewhere cannot leave this set half-changed.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = known.contains(&name) || known.len() < MOST_MODELS && known.insert(name);
        match is_known {
            true => [("provider", model.provider.clone()), ("model", model.model.clone())],
            false => [("provider", OTHER.to_owned()), ("model", OTHER.to_owned())],
        }
    }
}

#[async_trait]
impl Model for Measured {
    async fn turn(
        &self,
        request: &ModelRequest,
        deltas: &mut dyn DeltaSink,
    ) -> Result<Turn, ModelError> {
        let began = SystemClock.counted();
        let turn = self.models.turn(request, deltas).await;
        let [provider, model] = self.labels(&request.model);
        let outcome = if turn.is_ok() { "answered" } else { "failed" };
        let labels = [provider.clone(), model.clone(), ("outcome", outcome.to_owned())];
        let took = SystemClock.counted().since(began);
        metrics::histogram!(DURATION, &labels).record(took.as_secs_f64());
        if let Err(error) = &turn {
            let labels = [provider, model, ("fault", name(error.fault).to_owned())];
            metrics::counter!(ERRORS, &labels).increment(1);
        }
        turn
    }

    fn rehearse(&self, model: &ModelRef, call_prefix: &str, turns: usize) -> Vec<StopReason> {
        self.models.rehearse(model, call_prefix, turns)
    }
}

fn name(fault: Fault) -> &'static str {
    match fault {
        Fault::UnknownProvider => "unknown-provider",
        Fault::NoKey => "no-key",
        Fault::Forbidden => "forbidden",
        Fault::NotFound => "not-found",
        Fault::Rejected => "rejected",
        Fault::Limited => "limited",
        Fault::Trouble => "trouble",
        Fault::Unreachable => "unreachable",
        Fault::TimedOut(_) => "timed-out",
        Fault::Broken => "broken",
        Fault::Malformed => "malformed",
        Fault::TooLarge => "too-large",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_beyond_many_are_counted_together() {
        let measured = Measured::new(Models::default());
        let label = |number: usize| {
            let model = ModelRef { provider: "acme".to_owned(), model: format!("m{number}") };
            let [_, (_, model)] = measured.labels(&model);
            model
        };
        for number in 0..MOST_MODELS {
            assert_eq!(label(number), format!("m{number}"));
        }
        assert_eq!([label(MOST_MODELS), label(3)], [OTHER, "m3"]);
    }
}
