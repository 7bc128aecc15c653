//! When workers side by side have come to something, and to what.

use super::handoff::Worker;
use crate::orchestrate::{DispatchPlan, FanOut, JoinMode, OnWorkerFailure};

/// Workers that have ended, in the order of their ends, and what that comes to.
#[derive(Debug)]
pub(super) struct Join<'w> {
    pub(super) ended: Vec<&'w Worker>,
    /// None while it is open.
    pub(super) outcome: Option<JoinOutcome>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JoinOutcome {
    Satisfied,
    /// Enough workers completed, though some failed.
    Partial,
    Failed,
}

impl JoinOutcome {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Satisfied => "satisfied",
            Self::Partial => "partial",
            Self::Failed => "failed",
        }
    }
}

impl<'w> Join<'w> {
    pub(super) fn of(
        plan: &DispatchPlan,
        workers: &'w [Worker],
        has_completed: impl Fn(&Worker) -> bool,
    ) -> Self {
        let mut ended: Vec<&Worker> =
            workers.iter().filter(|worker| worker.ended.is_some()).collect();
        ended.sort_by_key(|worker| worker.ended);
        let ends: Vec<bool> = ended.iter().map(|worker| has_completed(worker)).collect();
        let (mode, on_failure) = match plan.fan_out_policy {
            FanOut::Parallel => (plan.join_mode(), plan.on_failure()),
            FanOut::Sequential | FanOut::Reject => (JoinMode::All, OnWorkerFailure::FailFast),
        };
        Self { outcome: outcome(mode, on_failure, workers.len(), &ends), ended }
    }
}

/// What the first ends that settle it come to: whatever ends later was only stopped.
fn outcome(
    mode: JoinMode,
    on_failure: OnWorkerFailure,
    workers: usize,
    ends: &[bool],
) -> Option<JoinOutcome> {
    let (mut completed, mut failed) = (0_u32, 0_u32);
    for (place, has_completed) in ends.iter().enumerate() {
        let count = if *has_completed { &mut completed } else { &mut failed };
        *count += 1;
        if !has_completed && on_failure == OnWorkerFailure::FailFast {
            return Some(JoinOutcome::Failed);
        }
        let left = u32::try_from(workers - place - 1).unwrap_or(u32::MAX);
        let is_enough = match mode {
            JoinMode::All => left == 0,
            JoinMode::Completed(needed) if completed + left < needed => {
                return Some(JoinOutcome::Failed);
            }
            JoinMode::Completed(needed) => completed >= needed,
            JoinMode::Any => true,
        };
        if is_enough {
            let is_whole = failed == 0;
            return Some(if is_whole { JoinOutcome::Satisfied } else { JoinOutcome::Partial });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mode: JoinMode, on_failure: OnWorkerFailure, ends: &str, expected: Option<&str>) {
        let ends: Vec<bool> = ends.chars().map(|end| end == '+').collect();
        let came_to = outcome(mode, on_failure, 3, &ends).map(JoinOutcome::as_str);
        assert_eq!(came_to, expected, "{mode:?} {on_failure:?} {ends:?}");
    }

    #[test]
    fn each_mode_is_settled_by_its_own_ends() {
        use OnWorkerFailure::{Absorb, Collect, FailFast};
        let cases: [(JoinMode, OnWorkerFailure, &str, Option<&str>); 17] = [
            (JoinMode::All, Collect, "++", None),
            (JoinMode::All, Collect, "+++", Some("satisfied")),
            (JoinMode::All, Collect, "+-+", Some("partial")),
            (JoinMode::All, Absorb, "---", Some("partial")),
            (JoinMode::All, FailFast, "+-", Some("failed")),
            (JoinMode::Completed(2), Collect, "+", None),
            (JoinMode::Completed(2), Collect, "++", Some("satisfied")),
            (JoinMode::Completed(2), Collect, "++-", Some("satisfied")),
            (JoinMode::Completed(2), Collect, "-++", Some("partial")),
            (JoinMode::Completed(2), Collect, "--", Some("failed")),
            (JoinMode::Completed(4), Collect, "+", Some("failed")),
            (JoinMode::Completed(1), Collect, "-", None),
            (JoinMode::Completed(1), Collect, "-+", Some("partial")),
            (JoinMode::Completed(1), FailFast, "-+", Some("failed")),
            (JoinMode::Any, Collect, "", None),
            (JoinMode::Any, Collect, "+", Some("satisfied")),
            (JoinMode::Any, Absorb, "-", Some("partial")),
        ];
        for (mode, on_failure, ends, expected) in cases {
            check(mode, on_failure, ends, expected);
        }
    }
}
