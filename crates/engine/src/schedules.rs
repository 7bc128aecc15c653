//! Schedules: records that know their next slot, and the loop that starts a run for each.
//!
//! There is no election. A slot fires by creating its run in the transaction that moves the schedule on, under the
//! schedule's version; a second host finds that it has moved.

mod book;
mod declared;
mod fire;
mod schedule;
mod scheduler;
mod stored;
mod turn;

pub use book::{BookError, NewSchedule, ScheduleChange};
pub use declared::{DeclaredError, declared_schedules};
pub use schedule::{
    DueSchedules, LastTurn, MissedFire, Overlap, Schedule, ScheduleFilter, ScheduleState, Timing,
    TurnOutcome,
};
pub use scheduler::Scheduler;
pub use stored::Schedules;
