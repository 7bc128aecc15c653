//! Programs that are kept waiting while a person is asked.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use callboard_agent_api::AttendedRun;
use callboard_protocol::{RunId, Tenant};

use super::listen::Heard;

/// One program that asked for permission, with what it had said before.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) run: AttendedRun,
    pub(super) heard: Heard,
    /// The program's own name for its request.
    pub(super) request: String,
}

/// The waiting programs, by question. A program ends by itself without an answer in time.
#[derive(Debug, Default)]
pub(super) struct Held {
    by_question: Mutex<BTreeMap<String, (Tenant, RunId, Waiting)>>,
}

impl Held {
    pub(super) fn keep(&self, question: String, of: (&Tenant, &RunId), waiting: Waiting) {
        let mut held = self.lock();
        held.retain(|_, (.., waiting)| !waiting.run.decisions.are_over());
        held.insert(question, (of.0.clone(), of.1.clone(), waiting));
    }

    /// The program that waits for an answer to this, if it still does.
    pub(super) fn take(&self, question: &str) -> Option<Waiting> {
        let (.., waiting) = self.lock().remove(question)?;
        (!waiting.run.decisions.are_over()).then_some(waiting)
    }

    pub(super) fn runs(&self) -> Vec<(Tenant, RunId)> {
        self.lock().values().map(|(tenant, run, _)| (tenant.clone(), run.clone())).collect()
    }

    /// Ends what is held for a run.
    pub(super) fn end(&self, tenant: &Tenant, run: &RunId) {
        self.lock().retain(|_, (theirs, other, _)| (&*theirs, &*other) != (tenant, run));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (Tenant, RunId, Waiting)>> {
        self.by_question.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
