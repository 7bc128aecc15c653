//! Schedules: rows that know their next slot, and the loop that starts a run for each.
//!
//! There is no election. A slot fires by creating its run in the transaction that moves the schedule on, under the
//! schedule's version and the key (schedule, slot); whoever comes second finds that it has moved.

mod book;
mod declared;
mod fire;
mod port;
mod scheduler;
mod turn;

pub use book::{BookError, NewSchedule, ScheduleChange};
pub use declared::{DeclaredError, declared_schedules};
pub use port::{
    DueSchedules, LastTurn, MissedFire, Overlap, Schedule, ScheduleFilter, ScheduleState,
    Schedules, Timing, TurnOutcome,
};
pub use scheduler::Scheduler;
