//! Which slot of a schedule has its turn, and which comes after it.

use std::time::Duration;

use callboard_core::{Cron, ScheduleError};
use callboard_protocol::Timestamp;

use super::schedule::{MissedFire, Schedule, Timing};

/// How late a slot may be and still count as on time for a host that has just come: another one may be about to fire it.
const GRACE: Duration = Duration::from_secs(2);

/// A slot to fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) at: Timestamp,
    /// Nobody was there when it was due.
    pub(super) is_catch_up: bool,
}

/// What time has brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// The next slot is still to come.
    NotYet,
    Fire {
        slot: Slot,
        next: Option<Timestamp>,
    },
    /// Slots went by with nobody there, and the schedule does not want them back.
    Missed {
        last: Timestamp,
        next: Option<Timestamp>,
    },
}

/// Decides by the time since when a host has been scanning: slots from before then become one turn at most, later
/// ones have a turn each.
pub(super) fn turn(
    schedule: &Schedule,
    now: Timestamp,
    awake_since: Timestamp,
) -> Result<Turn, ScheduleError> {
    let Some(slot) = schedule.state.next_slot.filter(|slot| *slot <= now) else {
        return Ok(Turn::NotYet);
    };
    let cron = match &schedule.state.timing {
        Timing::Cron { cron, timezone } => Some(Cron::read(cron, timezone)?),
        Timing::Once { .. } => None,
    };
    if slot >= awake_since {
        let next = cron.and_then(|cron| cron.next_after(slot));
        return Ok(Turn::Fire { slot: Slot { at: slot, is_catch_up: false }, next });
    }
    let before = Timestamp::from_millis(awake_since.as_millis() - 1);
    let (last, next) = cron.map_or((slot, None), |cron| cron.catch_up(slot, before));
    let is_recent = awake_since.since(last) <= GRACE;
    if is_recent || schedule.state.missed != MissedFire::Skip {
        return Ok(Turn::Fire { slot: Slot { at: last, is_catch_up: !is_recent }, next });
    }
    Ok(Turn::Missed { last, next })
}

/// A schedule that moved later than this was moved by a clock that has been put back since. Smaller corrections are
/// none of its business: a slot that has just fired must not come again.
const AHEAD: Duration = Duration::from_secs(10);

/// The next slot by a clock that was put back, where the one that is kept was found before that and lies beyond it.
pub(super) fn before_set_back(schedule: &Schedule, now: Timestamp) -> Option<Timestamp> {
    let state = &schedule.state;
    let moved_at = state.last_turn.as_ref().map_or(state.updated_at, |last| last.at);
    let next = state.next_slot.filter(|_| moved_at.max(state.updated_at) > now.plus(AHEAD))?;
    let Timing::Cron { cron, timezone } = &state.timing else { return None };
    let first = Cron::read(cron, timezone).ok()?.next_after(now)?;
    (first < next).then_some(first)
}

#[cfg(test)]
mod tests {
    use callboard_protocol::Object;

    use super::*;
    use crate::schedules::{Overlap, ScheduleState};
    use crate::store::{KeyMode, Scope};

    fn at(text: &str) -> Timestamp {
        format!("2026-11-16T{text}Z").parse().unwrap()
    }

    fn hourly(missed: MissedFire, next: &str) -> Schedule {
        let timing = Timing::Cron { cron: "0 * * * *".to_owned(), timezone: "UTC".to_owned() };
        let next = at(next);
        Schedule {
            id: "s".into(),
            place: Scope { tenant: "acme".into(), workspace: None, mode: KeyMode::Live },
            workflow: "greet".into(),
            roster_id: None,
            trigger: None,
            inputs: Object::new(),
            version: 1,
            wake_at: Some(next),
            state: ScheduleState {
                timing,
                overlap: Overlap::Skip,
                missed,
                priority: callboard_core::Priority::Normal,
                enabled: true,
                principal: None,
                created_at: next,
                updated_at: next,
                next_slot: Some(next),
                queued: None,
                fired_through: None,
                last_run: None,
                last_turn: None,
            },
        }
    }

    fn fire(slot: &str, is_catch_up: bool, next: &str) -> Turn {
        Turn::Fire { slot: Slot { at: at(slot), is_catch_up }, next: Some(at(next)) }
    }

    #[test]
    fn slots_of_a_host_that_was_there_fire_one_by_one_however_late() {
        let schedule = hourly(MissedFire::FireOnce, "09:00:00");
        let looked = |now, since| turn(&schedule, at(now), at(since)).unwrap();
        assert_eq!(looked("08:59:59", "08:00:00"), Turn::NotYet);
        assert_eq!(looked("09:00:00", "08:00:00"), fire("09:00:00", false, "10:00:00"));
        assert_eq!(looked("11:30:00", "08:00:00"), fire("09:00:00", false, "10:00:00"));
    }

    #[test]
    fn slots_for_which_nobody_was_there_are_one_turn_at_most() {
        let looked =
            |missed, since| turn(&hourly(missed, "05:00:00"), at("09:30:00"), at(since)).unwrap();
        for missed in [MissedFire::FireOnce, MissedFire::FireAll] {
            assert_eq!(looked(missed, "09:30:00"), fire("09:00:00", true, "10:00:00"));
            assert_eq!(looked(missed, "08:30:00"), fire("08:00:00", true, "09:00:00"));
        }
        let skipped = Turn::Missed { last: at("09:00:00"), next: Some(at("10:00:00")) };
        assert_eq!(looked(MissedFire::Skip, "09:30:00"), skipped);
    }

    #[test]
    fn a_host_that_comes_a_moment_late_misses_nothing() {
        let schedule = hourly(MissedFire::Skip, "09:00:00");
        let looked = turn(&schedule, at("09:00:01"), at("09:00:01")).unwrap();
        assert_eq!(looked, fire("09:00:00", false, "10:00:00"));
    }

    #[test]
    fn only_a_clock_that_was_put_back_finds_slots_again() {
        let mut schedule = hourly(MissedFire::Skip, "09:00:00");
        schedule.state.updated_at = at("08:30:00");
        for (now, found) in [("08:30:00", None), ("08:29:55", None), ("08:40:00", None)] {
            assert_eq!(before_set_back(&schedule, at(now)), found, "{now}");
        }
        assert_eq!(before_set_back(&schedule, at("04:30:00")), Some(at("05:00:00")));
        assert_eq!(
            before_set_back(&schedule, at("08:10:00")),
            None,
            "it is the next one all the same"
        );
    }
}
