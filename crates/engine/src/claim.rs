//! Finds due runs and keeps the claims of those that are being driven.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use callboard_protocol::{RunId, Timestamp};

use crate::drive::Granted;
use crate::engine::Engine;
use crate::pace::Pace;
use crate::store::{Claim, ClaimRequest, StoreError};

/// Runs claimed at once. A larger batch would keep other hosts waiting; a smaller one costs more scans.
const BATCH: usize = 256;
/// The longest sleep between two scans. A hint may get lost (another host wrote), time may not.
const LONGEST_SLEEP: Duration = Duration::from_secs(2);

/// The runs that this process drives.
#[derive(Debug, Default)]
pub(crate) struct Driving(Mutex<BTreeMap<RunId, Held>>);

#[derive(Debug)]
struct Held {
    claim: Claim,
    /// When the lease ends that was last granted for sure, by the clock that only counts.
    until: Timestamp,
    lost: CancellationToken,
    called: Arc<Notify>,
}

/// What reaches the holder of a run from outside.
#[derive(Debug, Clone)]
pub(crate) struct Signals {
    /// The claim was found lost.
    pub(crate) lost: CancellationToken,
    /// A child has changed. A call that comes while nobody listens is kept.
    pub(crate) called: Arc<Notify>,
}

/// A claim is renewed as long as its holder has this. A holder that panics drops it, too, and the claim runs out.
#[derive(Debug)]
pub(crate) struct Hold<'a> {
    driving: &'a Driving,
    claim: &'a Claim,
}

impl Drop for Hold<'_> {
    /// Forgets the claim, unless a newer one of the same run has taken its place.
    fn drop(&mut self) {
        let mut held = self.driving.lock();
        if held.get(&self.claim.run).is_some_and(|held| held.claim.epoch == self.claim.epoch) {
            held.remove(&self.claim.run);
        }
    }
}

impl Driving {
    /// Notes a claim that was granted until then, and answers how its holder is reached.
    pub(crate) fn hold<'a>(&'a self, claim: &'a Claim, until: Timestamp) -> (Hold<'a>, Signals) {
        let (lost, called) = (CancellationToken::new(), Arc::new(Notify::new()));
        let signals = Signals { lost: lost.clone(), called: called.clone() };
        self.lock().insert(claim.run.clone(), Held { claim: claim.clone(), until, lost, called });
        (Hold { driving: self, claim }, signals)
    }

    /// Notifies the holder of a run, if it is here, that a child has changed.
    pub(crate) fn call(&self, run: &RunId) {
        if let Some(held) = self.lock().get(run) {
            held.called.notify_one();
        }
    }

    fn claims(&self) -> Vec<Claim> {
        self.lock().values().map(|held| held.claim.clone()).collect()
    }

    fn lose(&self, run: &RunId) {
        if let Some(held) = self.lock().remove(run) {
            held.lost.cancel();
        }
    }

    /// The leases of these claims end then.
    fn renewed(&self, claims: &[Claim], until: Timestamp) {
        let mut held = self.lock();
        for claim in claims {
            if let Some(held) = held.get_mut(&claim.run).filter(|held| held.claim == *claim) {
                held.until = until;
            }
        }
    }

    /// Loses the claims whose leases end by then; answers how many.
    fn lapse(&self, by: Timestamp) -> usize {
        let mut held = self.lock();
        let lapsed: Vec<RunId> =
            held.iter().filter(|(_, held)| held.until <= by).map(|(run, _)| run.clone()).collect();
        let lost = lapsed.iter().filter_map(|run| held.remove(run));
        lost.map(|held| held.lost.cancel()).count()
    }

    /// Whether the lease of this claim ends by then, or the claim is not held here any more.
    fn has_lapsed(&self, claim: &Claim, by: Timestamp) -> bool {
        let held = self.lock();
        !held.get(&claim.run).is_some_and(|held| held.claim.epoch == claim.epoch && held.until > by)
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<RunId, Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn count_lost(claims: usize) {
    metrics::counter!("callboard_claims_lost_total").increment(claims as u64);
}

impl Engine {
    /// Says that a run has work: to its holder here, or to the scan that claims it.
    pub(crate) fn wake(&self, run: &RunId) {
        self.inner.driving.call(run);
        self.inner.nudge.notify_one();
    }

    /// Scans for due work until stopped.
    pub(crate) async fn scan_until_stopped(self) {
        self.learn_struck().await;
        let wake = &self.inner.nudge;
        let pace = Pace { what: "due runs", wake, longest_sleep: LONGEST_SLEEP };
        self.tick_until_stopped(pace, |now| self.claim_due(now)).await;
    }

    /// Claims what is due and drives it; answers when something becomes due next.
    pub(crate) async fn claim_due(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        loop {
            let Some(mut reserved) = self.inner.places.reserve(BATCH) else { return Ok(None) };
            let request = ClaimRequest {
                host: self.inner.options.host.clone(),
                at: now,
                lapsed_at: self.inner.clock.counted(),
                until: self.inner.lease_end(),
                most: reserved.places,
                share: reserved.share,
                held: std::mem::take(&mut reserved.held),
                limits: self.inner.waiting.limits(),
            };
            let claimed = self.inner.store.claim(&request).await?;
            let is_last = claimed.claims.len() < request.most;
            self.inner.waiting.looked(claimed.held_back);
            for (claim, tenant) in claimed.claims.into_iter().zip(claimed.tenants) {
                let place = reserved.place(tenant);
                self.spawn_driver(Granted { claim, until: request.until, place });
            }
            // Those that their tenants' shares keep waiting are looked at again when something becomes free.
            let is_blocked = is_last && claimed.has_more;
            if is_last && !(is_blocked && self.inner.places.want_more_than(&reserved)) {
                return Ok(claimed.next);
            }
        }
    }

    /// Renews claims until stopped; on its own task, so that no long step can starve it. Beside it, claims are
    /// given up that were not renewed in time, whatever renewing waits for.
    pub(crate) async fn heartbeat_until_stopped(self) {
        tokio::join!(self.renew_until_stopped(), self.lapse_until_stopped());
    }

    async fn lapse_until_stopped(&self) {
        loop {
            let next = self.inner.clock.now().plus(self.inner.options.lease / 10);
            self.inner.clock.sleep_until(next).await;
            self.lapse_claims();
        }
    }

    /// Stops acting on claims that are not known to be held for much longer: another host may have the run as soon as its
    /// lease has ended, and what this one does outside of the store nobody can refuse.
    pub(crate) fn lapse_claims(&self) {
        let lapsed = self.inner.driving.lapse(self.acts_until());
        if lapsed > 0 {
            tracing::warn!(lapsed, "claims not renewed in time; their runs are given up here");
            count_lost(lapsed);
            self.inner.nudge.notify_one();
        }
    }

    /// Whether a holder has to stop acting. A process that was frozen finds this out before the tick that looks at all.
    pub(crate) fn has_lapsed(&self, claim: &Claim) -> bool {
        self.inner.driving.has_lapsed(claim, self.acts_until())
    }

    /// Claims whose leases end by then are acted on no more: a fifth of a lease before the end.
    fn acts_until(&self) -> Timestamp {
        self.inner.clock.counted().plus(self.inner.options.lease / 5)
    }

    async fn renew_until_stopped(&self) {
        loop {
            let next = self.inner.clock.now().plus(self.inner.options.heartbeat);
            self.inner.clock.sleep_until(next).await;
            self.renew().await;
        }
    }

    pub(crate) async fn renew(&self) {
        let claims = self.inner.driving.claims();
        if claims.is_empty() {
            return;
        }
        let until = self.inner.lease_end();
        match self.inner.store.renew(&claims, until).await {
            Ok(lost) => {
                self.inner.driving.renewed(&claims, until);
                count_lost(lost.len());
                for run in lost {
                    self.inner.driving.lose(&run);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "claims not renewed; trying again at the next heartbeat")
            }
        }
    }
}
