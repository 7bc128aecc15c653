//! Who holds a run, until when, and when it is due: decided here once, for every database.

use callboard_core::Head;
use callboard_protocol::{HostId, RunId, RunStatus, Timestamp};

use super::{Claim, ClaimOrigin, ClaimRequest, Fence, Then};

/// Before every other time, so first in the queue.
fn at_once() -> Option<Timestamp> {
    Some(Timestamp::default())
}

/// What a database keeps of a run's holder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tenure {
    pub epoch: u64,
    /// Kept until the run is released, so that a lost holder is noticed.
    pub holder: Option<HostId>,
    pub lease_until: Option<Timestamp>,
    /// When the run is due; the lease's end while it is held.
    pub wake_at: Option<Timestamp>,
    /// Another run appended what this one waits for, and it was not claimed since.
    pub is_wake_requested: bool,
}

impl Tenure {
    pub fn is_held_by(&self, claim: &Claim) -> bool {
        self.epoch == claim.epoch
            && self.lease_until.is_some()
            && self.holder.as_ref() == Some(&claim.host)
    }

    /// A free or lost run, claimed: the claim, and what the database keeps of it.
    pub fn claimed(&self, run: RunId, request: &ClaimRequest) -> (Claim, Self) {
        let origin = if self.holder.is_some() { ClaimOrigin::Lost } else { ClaimOrigin::Free };
        let (host, epoch) = (request.host.clone(), self.epoch + 1);
        let held =
            Self { epoch, is_wake_requested: false, ..self.held(host.clone(), request.until) };
        (Claim { run, host, epoch, origin }, held)
    }

    /// After an append that leaves this head.
    #[must_use]
    pub fn after_append(&self, head: &Head, fence: Option<&Fence>) -> Self {
        match fence {
            _ if head.status.is_terminal() => Self { epoch: self.epoch, ..Self::default() },
            Some(Fence { claim, then: Then::Hold { until } }) => {
                self.held(claim.host.clone(), *until)
            }
            Some(Fence { then: Then::Release, .. }) => self.free(head.wake_at),
            // A living holder learns of this append through `changed`; a lost one must still be replaced.
            None if self.holder.is_some() => self.clone(),
            None => self.free(head.wake_at),
        }
    }

    /// Claimed, or renewed by its holder, until then.
    #[must_use]
    pub fn held(&self, host: HostId, until: Timestamp) -> Self {
        Self { holder: Some(host), lease_until: Some(until), wake_at: Some(until), ..self.clone() }
    }

    /// After its holder, who had seen the log up to `seen`, released the run without an append. The run is due then, or
    /// at once where its log, of `version` events now, has grown since.
    #[must_use]
    pub fn released(&self, version: u64, seen: Option<u64>, wake_at: Option<Timestamp>) -> Self {
        let has_grown = seen.is_some_and(|seen| seen != version);
        self.free(if has_grown { at_once() } else { wake_at })
    }

    /// After another run appended what this one waits for: due at once, or as soon as its holder releases it. A run that
    /// has ended waits for nothing.
    #[must_use]
    pub fn with_wake_requested(&self, status: RunStatus) -> Self {
        match &self.holder {
            _ if status.is_terminal() => self.clone(),
            Some(_) => Self { is_wake_requested: true, ..self.clone() },
            None => Self { is_wake_requested: true, wake_at: at_once(), ..self.clone() },
        }
    }

    pub fn is_due_at_once(&self) -> bool {
        self.wake_at == at_once()
    }

    /// Held by nobody, and due then, or at once where that was requested.
    fn free(&self, wake_at: Option<Timestamp>) -> Self {
        let wake_at = if self.is_wake_requested { at_once() } else { wake_at };
        Self { holder: None, lease_until: None, wake_at, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Option<Timestamp> {
        Some(Timestamp::from_millis(millis))
    }

    fn head(status: RunStatus) -> Head {
        Head { status, version: 1, updated_at: Timestamp::default(), wake_at: at(50) }
    }

    fn held() -> Tenure {
        Tenure { epoch: 1, ..Tenure::default() }.held("h".into(), Timestamp::from_millis(10))
    }

    fn fence(then: Then) -> Fence {
        let claim =
            Claim { run: "r".into(), host: "h".into(), epoch: 1, origin: ClaimOrigin::Free };
        assert!(held().is_held_by(&claim));
        Fence { claim, then }
    }

    #[test]
    fn a_holder_keeps_its_run_or_gives_it_back() {
        let running = head(RunStatus::Running);
        let until = Timestamp::from_millis(20);
        let kept = held().after_append(&running, Some(&fence(Then::Hold { until })));
        assert_eq!((kept.lease_until, kept.wake_at), (at(20), at(20)));
        let left = held().after_append(&running, Some(&fence(Then::Release)));
        assert_eq!((left.holder, left.lease_until, left.wake_at), (None, None, at(50)));
        let ended = held().after_append(&head(RunStatus::Completed), Some(&fence(Then::Release)));
        assert_eq!((ended.holder, ended.wake_at), (None, None));
    }

    #[test]
    fn what_comes_from_outside_moves_no_holder() {
        assert_eq!(held().after_append(&head(RunStatus::Running), None), held());
        let free = Tenure::default().after_append(&head(RunStatus::Running), None);
        assert_eq!(free.wake_at, at(50));
    }

    #[test]
    fn a_requested_wake_comes_at_once_or_with_the_release() {
        let free = Tenure::default().with_wake_requested(RunStatus::WaitingInput);
        assert!(free.is_wake_requested && free.is_due_at_once());
        let requested = held().with_wake_requested(RunStatus::Running);
        assert_eq!((requested.lease_until, requested.wake_at), (at(10), at(10)));
        assert!(requested.released(1, Some(1), at(50)).is_due_at_once());
        let then = Some(fence(Then::Release));
        assert!(requested.after_append(&head(RunStatus::Running), then.as_ref()).is_due_at_once());
        let ended = requested.after_append(&head(RunStatus::Failed), then.as_ref());
        assert_eq!((ended.wake_at, ended.is_wake_requested), (None, false));
        assert_eq!(ended.with_wake_requested(RunStatus::Failed), ended);
    }

    #[test]
    fn a_released_run_is_due_at_once_where_its_log_has_grown_unseen() {
        assert_eq!(held().released(3, Some(3), at(50)).wake_at, at(50));
        assert_eq!(held().released(3, Some(3), None).wake_at, None);
        assert_eq!(held().released(3, None, at(50)).wake_at, at(50), "nothing was looked at");
        let grown = held().released(4, Some(3), at(50));
        assert_eq!((grown.is_due_at_once(), grown.holder, grown.lease_until), (true, None, None));
    }

    #[test]
    fn a_claim_has_a_new_epoch_and_says_whether_a_holder_was_lost() {
        let now = Timestamp::from_millis(10);
        let request = ClaimRequest {
            host: "b".into(),
            at: now,
            lapsed_at: now,
            until: Timestamp::from_millis(30),
            most: 1,
            share: 1,
            held: std::collections::BTreeMap::new(),
            limits: std::sync::Arc::default(),
        };
        let (claim, tenure) =
            held().with_wake_requested(RunStatus::Running).claimed("r".into(), &request);
        assert_eq!((claim.epoch, claim.origin), (2, ClaimOrigin::Lost));
        assert!(tenure.is_held_by(&claim) && !tenure.is_wake_requested);
        let (free, _) = Tenure::default().claimed("r".into(), &request);
        assert_eq!((free.epoch, free.origin), (1, ClaimOrigin::Free));
    }
}
