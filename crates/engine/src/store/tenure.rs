//! Who holds a run, until when, and when it is due: decided here once, for every database.

use callboard_core::Head;
use callboard_protocol::{HostId, RunStatus, Timestamp};

use super::{Claim, Fence, Then};

/// What a database keeps of a run's holder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tenure {
    pub epoch: u64,
    /// Kept until the run is given back, so that a lost holder is noticed.
    pub holder: Option<HostId>,
    pub lease_until: Option<Timestamp>,
    /// When the run is to be looked at; the lease's end while somebody holds it.
    pub wake_at: Option<Timestamp>,
    /// Somebody appended what this run waits for, and nobody has looked since.
    pub is_wake_requested: bool,
}

impl Tenure {
    pub fn is_held_by(&self, claim: &Claim) -> bool {
        self.epoch == claim.epoch
            && self.lease_until.is_some()
            && self.holder.as_ref() == Some(&claim.host)
    }

    /// After an append that leaves this head.
    #[must_use]
    pub fn after_append(&self, head: &Head, fence: Option<&Fence>) -> Self {
        match fence {
            _ if head.status.is_terminal() => self.given_back(head.status, None),
            Some(Fence { claim, then: Then::Hold { until } }) => {
                self.held(claim.host.clone(), *until)
            }
            Some(Fence { then: Then::Release, .. }) => self.given_back(head.status, head.wake_at),
            // A living holder hears of this append through `changed`; a lost one must still be replaced.
            None if self.holder.is_some() => self.clone(),
            None => self.given_back(head.status, head.wake_at),
        }
    }

    /// Given to somebody, or kept by whoever has it, until then.
    #[must_use]
    pub fn held(&self, host: HostId, until: Timestamp) -> Self {
        Self { holder: Some(host), lease_until: Some(until), wake_at: Some(until), ..self.clone() }
    }

    /// Held by nobody, and due then, or at once where somebody has asked for it.
    #[must_use]
    pub fn given_back(&self, status: RunStatus, wake_at: Option<Timestamp>) -> Self {
        let is_wake_requested = self.is_wake_requested && !status.is_terminal();
        let wake_at = if is_wake_requested { Some(Timestamp::default()) } else { wake_at };
        Self { epoch: self.epoch, holder: None, lease_until: None, wake_at, is_wake_requested }
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
        let claim = Claim {
            run: "r".into(),
            host: "h".into(),
            epoch: 1,
            origin: crate::store::ClaimOrigin::Free,
        };
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
    fn a_run_that_was_asked_for_is_due_at_once() {
        let asked = Tenure { is_wake_requested: true, ..held() };
        assert_eq!(asked.given_back(RunStatus::Running, at(50)).wake_at, at(0));
        let ended = asked.given_back(RunStatus::Failed, None);
        assert_eq!((ended.wake_at, ended.is_wake_requested), (None, false));
    }
}
