//! A claimed run, from taking it up to leaving it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::JoinSet;

use callboard_core::{Run, SpanContext};
use callboard_protocol::Timestamp;

use super::{Driver, Left, TRIED_AGAIN_AFTER};
use crate::decisions::Undecided;
use crate::engine::{Engine, EngineError, PreparedRun};
use crate::memory::Shared;
use crate::places::Place;
use crate::secrets::Resolved;
use crate::store::{Claim, ClaimOrigin};
use crate::unprocessable::{Fate, Trial};

/// The right to drive a run.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) claim: Claim,
    /// When the lease ends unless it is renewed, by the clock that only counts.
    pub(crate) until: Timestamp,
    pub(crate) place: Place,
}

impl Engine {
    /// Drives a claimed run on a task of its own.
    pub(crate) fn spawn_driver(&self, granted: Granted) {
        let engine = self.clone();
        self.inner.tasks.spawn(async move { engine.drive_held(granted, None).await });
    }

    /// Drives a claimed run to its rest. One that was just created comes with its state.
    pub(crate) async fn drive_held(&self, granted: Granted, run: Option<Box<Run>>) {
        let Granted { claim, until, mut place } = granted;
        let (_held, signals) = self.inner.driving.hold(&claim, until);
        // Large, and wrapped several times: only its address is moved. Whatever it waits for ends with the claim.
        let driven = Box::pin(self.drive(&claim, &mut place, run, &signals.called));
        if signals.lost.run_until_cancelled(driven).await.is_none() {
            tracing::warn!(openwop.run_id = %claim.run, epoch = claim.epoch, "claim lost");
        }
        drop(place);
        if self.inner.places.was_wanted() {
            self.inner.nudge.notify_one();
        }
    }

    #[tracing::instrument(name = "run.drive", skip_all, fields(
        openwop.run_id = %claim.run, epoch = claim.epoch, openwop.tenant_id, trace_id
    ))]
    async fn drive(
        &self,
        claim: &Claim,
        place: &mut Place,
        run: Option<Box<Run>>,
        called: &Arc<Notify>,
    ) {
        let (mut claim, mut run) = (claim.clone(), run);
        loop {
            let trial = if run.is_none() { self.try_out(&claim).await } else { None };
            if self.give_up_if_fatal(&claim, trial.as_ref()).await == Fate::GivenUp {
                return;
            }
            let counted = trial.as_ref().map(|trial| trial.strikes);
            match self.drive_until_left(&claim, place, run.take(), trial, called).await {
                Ok(Left::Unopened(error)) => return self.park(&claim, counted, &error).await,
                Ok(left) => return tracing::debug!(?left, "run left"),
                Err(EngineError::Unprocessable { why: why @ Undecided::NoThreads, .. }) => {
                    tracing::error!(%why, "run not driven now");
                    let later = self.inner.clock.now().plus(TRIED_AGAIN_AFTER);
                    return self.release(&claim, None, Some(later)).await;
                }
                Err(error @ EngineError::Unprocessable { why: Undecided::Unreadable(_), .. }) => {
                    return self.park(&claim, counted, &error).await;
                }
                Err(EngineError::Unprocessable { why, .. }) => {
                    if self.judge(&claim, &why, counted).await == Fate::GivenUp {
                        return;
                    }
                    // What was being performed ended with the driver.
                    claim.origin = ClaimOrigin::Lost;
                }
                Err(error) => {
                    // The claim expires by itself, and the next holder reads the log.
                    return tracing::error!(
                        error = &error as &dyn std::error::Error,
                        "run not driven further by this holder"
                    );
                }
            }
        }
    }

    async fn drive_until_left(
        &self,
        claim: &Claim,
        place: &mut Place,
        run: Option<Box<Run>>,
        trial: Option<Trial>,
        called: &Arc<Notify>,
    ) -> Result<Left, EngineError> {
        let mut room = None;
        let run = match run {
            Some(run) => Ok(Some(run)),
            None => {
                room = self.inner.places.room().await;
                self.patiently(|| Box::pin(self.open(&claim.run))).await
            }
        };
        let run = match run {
            Ok(Some(run)) => run,
            Ok(None) => return Ok(Left::Released),
            Err(error @ EngineError::Unprocessable { .. }) => return Err(error),
            Err(error) => return Ok(Left::Unopened(error)),
        };
        self.inner.parked.forget(&claim.run);
        place.weigh(run.weight());
        drop(room);
        let said = tracing::Span::current();
        if !said.is_disabled() {
            said.record("openwop.tenant_id", run.birth().owner.tenant.as_str());
            said.record("trace_id", SpanContext::of_run(run.birth()).trace_id);
        }
        let driver = Driver {
            engine: self.clone(),
            claim: claim.clone(),
            run,
            attempts: JoinSet::new(),
            in_flight: BTreeMap::new(),
            resolved: Resolved::over(self.inner.secrets.of_host()),
            fact_channel: None,
            is_syncing: false,
            memory: Shared::default(),
            trial,
            called: Arc::clone(called),
            place,
        };
        driver.go().await
    }

    /// A child that was just written is driven at once; a scan would find it too.
    pub(super) fn drive_child(&self, child: PreparedRun) {
        self.run_created(child.run.birth());
        if let Some(granted) = child.claim {
            let engine = self.clone();
            let run = Some(child.run);
            self.inner.tasks.spawn(async move { engine.drive_held(granted, run).await });
        }
    }
}
