//! Runs that this host cannot open: their logs stay as they are, and they are tried again.
//!
//! A build that cannot read an event must not guess what it said, and must not end the run over it either: the next
//! build, or another host, may read it. So the run is released, due again after a while, and one error is logged.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use callboard_protocol::{RunId, Timestamp};

use crate::drive::TRIED_AGAIN_AFTER;
use crate::engine::{Engine, EngineError};
use crate::store::Claim;

/// The runs that this process was not able to open, so that each is logged once.
#[derive(Debug, Default)]
pub(crate) struct Parked(Mutex<BTreeSet<RunId>>);

impl Parked {
    /// Notes a run; answers whether it is new here.
    fn note(&self, run: &RunId) -> bool {
        self.runs().insert(run.clone())
    }

    /// The run could be opened after all.
    pub(crate) fn forget(&self, run: &RunId) {
        self.runs().remove(run);
    }

    fn runs(&self) -> MutexGuard<'_, BTreeSet<RunId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Gives back a run that cannot be opened here, to be tried again later. Nothing was decided about it, so what
    /// was counted before is taken back.
    pub(crate) async fn park(&self, claim: &Claim, counted: Option<u32>, error: &EngineError) {
        if counted.is_some() {
            self.absolve(&claim.run).await;
        }
        if self.inner.parked.note(&claim.run) {
            let again = TRIED_AGAIN_AFTER.as_secs();
            tracing::error!(
                error = error as &dyn std::error::Error,
                again,
                "run cannot be read and is not driven; it is tried again every so many seconds"
            );
        }
        let later = self.inner.clock.now().plus(TRIED_AGAIN_AFTER);
        self.release(claim, None, Some(later)).await;
    }

    /// Gives a claim back; the run is due again then.
    pub(crate) async fn release(
        &self,
        claim: &Claim,
        seen: Option<u64>,
        wake_at: Option<Timestamp>,
    ) {
        match self.inner.patient_store.release(claim, seen, wake_at).await {
            Ok(true) => self.inner.nudge.notify_one(),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "claim not released; it will run out"),
        }
    }
}
