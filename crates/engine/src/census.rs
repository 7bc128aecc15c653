//! What operators watch of a database: counted at one moment, for every tenant and host together.
//!
//! A store counts runs that stand alike; why they wait is said here, once for both databases.

use callboard_protocol::{InterruptKind, RunStatus, Timestamp};

use crate::concurrency::{QueuePlace, Waiting};
use crate::records::Kind;
use crate::wait::WaitReason;

/// Records that wait for something: deliveries on their way, those that were given up, work before its member.
pub const WATCHED: [Kind; 5] = [
    Kind::WebhookDelivery,
    Kind::Callback,
    Kind::WebhookDeadLetter,
    Kind::InboundDeadLetter,
    Kind::WaitingWork,
];

/// A database at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census {
    pub runs: Vec<RunGroup>,
    /// Questions that wait for an answer, by kind: how many, and since when the first of them.
    pub questions: Vec<(InterruptKind, u64, Timestamp)>,
    /// How many there are of each of [`WATCHED`]; those that are missing are none.
    pub records: Vec<(Kind, u64)>,
    /// What the database takes on its disk.
    pub bytes: u64,
}

/// Runs that have not ended and stand alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunGroup {
    pub status: RunStatus,
    /// Whether a host holds them under a lease that counts.
    pub is_held: bool,
    /// Whether one of their questions is about a budget.
    pub is_about_budget: bool,
    pub wakes: Wakes,
    pub runs: u64,
    /// When the one that has not moved for longest moved last.
    pub since: Timestamp,
    /// Where those stand in the queue that could go on.
    pub place: Option<QueuePlace>,
}

/// When runs are to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wakes {
    Due,
    Later,
    /// When something else moves.
    Never,
}

impl Wakes {
    /// As both databases count it.
    pub fn from_number(number: i64) -> Self {
        match number {
            0 => Self::Due,
            1 => Self::Later,
            _ => Self::Never,
        }
    }
}

impl RunGroup {
    /// Why these runs wait; none for those at work. What only a run's own log shows is not looked at: one that is
    /// tried again later counts as waiting for its time.
    pub fn reason(&self) -> Option<WaitReason> {
        match self.status {
            RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled => None,
            RunStatus::Paused => Some(WaitReason::Paused),
            RunStatus::WaitingApproval | RunStatus::WaitingInput | RunStatus::WaitingExternal => {
                let is_about_budget = self.is_about_budget;
                Some(if is_about_budget { WaitReason::Budget } else { WaitReason::Question })
            }
            RunStatus::Pending | RunStatus::Running | RunStatus::Cancelling if self.is_held => None,
            RunStatus::Pending => Some(WaitReason::NoFreePlace),
            RunStatus::Running | RunStatus::Cancelling => Some(match self.wakes {
                Wakes::Due => WaitReason::NoFreePlace,
                Wakes::Later => WaitReason::Timer,
                Wakes::Never => WaitReason::Child,
            }),
        }
    }
}

impl Census {
    /// How many runs wait for this reason, and since when the first of them. Beside what the database shows, `known`
    /// says what the last look at the queue left waiting.
    pub fn waiting(&self, reason: WaitReason, known: &Waiting) -> (u64, Option<Timestamp>) {
        if reason == WaitReason::ProviderLimit {
            return known.calls();
        }
        let is_for = |group: &&RunGroup| match (group.reason(), &group.place) {
            (Some(WaitReason::NoFreePlace), Some(place)) => known.reason(place).0 == reason,
            (found, _) => found == Some(reason),
        };
        let groups = self.runs.iter().filter(is_for);
        groups.fold((0, None), |(runs, since), group| {
            let first = since.map_or(group.since, |since| group.since.min(since));
            (runs + group.runs, Some(first))
        })
    }

    /// How many runs hosts hold.
    pub fn held(&self) -> u64 {
        self.runs.iter().filter(|group| group.is_held).map(|group| group.runs).sum()
    }

    pub fn records_of(&self, kind: Kind) -> u64 {
        self.records.iter().find(|(known, _)| *known == kind).map_or(0, |(_, count)| *count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::{Rest, WaitedChild};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    /// Groups wait for what each of their runs waits for.
    #[test]
    fn a_group_waits_as_its_runs_do() {
        let now = at(10);
        for status in [
            RunStatus::Pending,
            RunStatus::Running,
            RunStatus::Cancelling,
            RunStatus::Paused,
            RunStatus::WaitingApproval,
            RunStatus::WaitingInput,
            RunStatus::Failed,
        ] {
            for (is_held, wakes) in [
                (true, Wakes::Later),
                (false, Wakes::Due),
                (false, Wakes::Later),
                (false, Wakes::Never),
            ] {
                let (wake_at, child) = match wakes {
                    Wakes::Due => (Some(at(9)), None),
                    Wakes::Later => (Some(at(11)), None),
                    Wakes::Never => {
                        (None, Some(WaitedChild { run: "run_2".into(), node: "call".into() }))
                    }
                };
                let one = Rest { is_held, wake_at, child, ..Rest::default() };
                let one = one.wait(status, at(5), now).map(|wait| wait.reason);
                let since = at(5);
                let is_about_budget = false;
                let group = RunGroup {
                    status,
                    is_held,
                    is_about_budget,
                    wakes,
                    runs: 3,
                    since,
                    place: None,
                };
                assert_eq!(group.reason(), one, "{group:?}");
            }
        }
    }

    #[test]
    fn groups_with_one_reason_add_up() {
        let group = |status, runs, since| RunGroup {
            status,
            is_held: false,
            is_about_budget: false,
            wakes: Wakes::Due,
            runs,
            since: at(since),
            place: None,
        };
        let census = Census {
            runs: vec![group(RunStatus::Pending, 2, 7), group(RunStatus::Running, 1, 4)],
            ..Census::default()
        };
        assert_eq!(census.waiting(WaitReason::NoFreePlace, &Waiting::default()), (3, Some(at(4))));
        assert_eq!(census.waiting(WaitReason::Paused, &Waiting::default()), (0, None));
        assert_eq!((census.held(), census.records_of(Kind::Callback)), (0, 0));
    }
}
