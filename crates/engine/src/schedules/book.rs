//! What people do with schedules: make, change, remove, run now.

use callboard_core::{Cron, Priority, ScheduleError, within_horizon};
use callboard_protocol::{
    Object, Owner, RosterId, ScheduleId, Timestamp, TriggerSource, WorkflowId,
};

use super::fire::order;
use super::schedule::{MissedFire, Overlap, Schedule, ScheduleFilter, ScheduleState, Timing};
use super::scheduler::Scheduler;
use super::turn::Slot;
use crate::engine::{Done, EngineError, Remember};
use crate::fire::Fire;
use crate::store::{KeyMode, Scope, StoreError};

/// How often a change is decided again because another writer was faster. A loop that fires every second moves a
/// schedule now and then, never ten times in a row.
const TRIES: usize = 10;

/// A schedule to be made.
#[derive(Debug, Clone)]
pub struct NewSchedule {
    /// A name that nobody has used.
    pub id: ScheduleId,
    pub owner: Owner,
    pub mode: KeyMode,
    pub workflow: WorkflowId,
    pub roster_id: Option<RosterId>,
    pub timing: Timing,
    pub inputs: Object,
    pub overlap: Overlap,
    pub missed: MissedFire,
    pub priority: Priority,
    pub enabled: bool,
}

/// What to change about a schedule. None leaves it as it is.
#[derive(Debug, Clone, Default)]
pub struct ScheduleChange {
    pub timing: Option<Timing>,
    pub roster_id: Option<Option<RosterId>>,
    pub inputs: Option<Object>,
    pub overlap: Option<Overlap>,
    pub missed: Option<MissedFire>,
    pub priority: Option<Priority>,
    pub enabled: Option<bool>,
}

/// Why a schedule is not as it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum BookError {
    #[error("no workflow {0}")]
    UnknownWorkflow(WorkflowId),
    #[error("no such schedule")]
    Unknown,
    /// The member that it names is not on the caller's roster, or does not own the workflow.
    #[error("{0}")]
    NotTheirs(&'static str),
    /// Its workflow's definition says what it is.
    #[error("the schedule is a trigger of workflow {0}; change its definition")]
    Declared(WorkflowId),
    #[error(transparent)]
    Timing(#[from] ScheduleError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Scheduler {
    /// Makes a schedule. Once this returns, it is on disk.
    pub async fn add(&self, new: NewSchedule) -> Result<Schedule, BookError> {
        let engine = &self.inner.engine;
        let place = Scope::of_owner(&new.owner, new.mode);
        if engine.catalog().find(&place, &new.workflow).await?.is_none() {
            return Err(BookError::UnknownWorkflow(new.workflow));
        }
        self.check_member(&place, new.roster_id.as_ref(), &new.workflow).await?;
        let now = engine.clock().wall();
        let next = first_slot(&new.timing, now)?;
        let state = ScheduleState {
            timing: new.timing,
            overlap: new.overlap,
            missed: new.missed,
            priority: new.priority,
            enabled: new.enabled,
            principal: new.owner.principal,
            created_at: now,
            updated_at: now,
            next_slot: Some(next),
            queued: None,
            fired_through: None,
            last_run: None,
            last_turn: None,
        };
        let schedule = Schedule {
            id: new.id,
            place,
            workflow: new.workflow,
            roster_id: new.roster_id,
            trigger: None,
            inputs: new.inputs,
            version: 1,
            wake_at: new.enabled.then_some(next),
            state,
        };
        self.inner.schedules.add_schedule(schedule.clone()).await?;
        self.wake();
        Ok(schedule)
    }

    /// Changes a schedule. A pause keeps it from firing; what comes due meanwhile is gone.
    pub async fn change(
        &self,
        scope: &Scope,
        id: &ScheduleId,
        change: ScheduleChange,
    ) -> Result<Schedule, BookError> {
        for _ in 1..TRIES {
            match self.try_change(scope, id, change.clone()).await {
                Err(BookError::Store(StoreError::Moved { .. })) => {}
                outcome => return outcome,
            }
        }
        self.try_change(scope, id, change).await
    }

    async fn try_change(
        &self,
        scope: &Scope,
        id: &ScheduleId,
        change: ScheduleChange,
    ) -> Result<Schedule, BookError> {
        let mut schedule = self.find(scope, id).await?;
        let is_timed_anew = change.timing.is_some();
        let touches_definition = is_timed_anew
            || change.inputs.is_some()
            || change.overlap.is_some()
            || change.missed.is_some()
            || change.priority.is_some();
        if schedule.trigger.is_some() && touches_definition {
            return Err(BookError::Declared(schedule.workflow));
        }
        if let Some(Some(member)) = &change.roster_id {
            self.check_member(&schedule.place, Some(member), &schedule.workflow).await?;
        }
        let now = self.inner.engine.clock().wall();
        let state = &mut schedule.state;
        let is_resumed = change.enabled == Some(true) && !state.enabled;
        state.timing = change.timing.unwrap_or_else(|| state.timing.clone());
        state.overlap = change.overlap.unwrap_or(state.overlap);
        state.missed = change.missed.unwrap_or(state.missed);
        state.priority = change.priority.unwrap_or(state.priority);
        state.enabled = change.enabled.unwrap_or(state.enabled);
        state.updated_at = now;
        if is_timed_anew || is_resumed {
            // A resumed one-shot whose time went by has nothing left to fire.
            let next = first_slot(&state.timing, now);
            state.next_slot = if is_timed_anew { Some(next?) } else { next.ok() };
            state.reopen_slots_ahead();
        }
        if !state.enabled {
            state.queued = None;
        }
        schedule.wake_at = state.next_slot.filter(|_| state.enabled);
        schedule.roster_id = change.roster_id.unwrap_or(schedule.roster_id);
        schedule.inputs = change.inputs.unwrap_or(schedule.inputs);
        self.inner.schedules.change_schedule(schedule.clone()).await?;
        schedule.version += 1;
        self.wake();
        Ok(schedule)
    }

    /// A member that is paused may be named: what fires is asked again at every fire.
    async fn check_member(
        &self,
        place: &Scope,
        member: Option<&RosterId>,
        workflow: &WorkflowId,
    ) -> Result<(), BookError> {
        if member.is_none() {
            return Ok(());
        }
        let source = TriggerSource::Schedule;
        let fire = self.inner.engine.member_for_fire(place, member, workflow, source, None).await?;
        match fire {
            Fire::For(_) | Fire::Unowned | Fire::Paused => Ok(()),
            Fire::NoSuchMember | Fire::NotInPortfolio => {
                Err(BookError::NotTheirs(fire.refusal().unwrap_or_default()))
            }
        }
    }

    pub async fn remove(&self, scope: &Scope, id: &ScheduleId) -> Result<(), BookError> {
        let schedule = self.find(scope, id).await?;
        if schedule.trigger.is_some() {
            return Err(BookError::Declared(schedule.workflow));
        }
        match self.inner.schedules.remove_schedule(scope, id).await? {
            true => Ok(()),
            false => Err(BookError::Unknown),
        }
    }

    pub async fn find(&self, scope: &Scope, id: &ScheduleId) -> Result<Schedule, BookError> {
        self.inner.schedules.schedule(scope, id).await?.ok_or(BookError::Unknown)
    }

    pub async fn list(
        &self,
        scope: &Scope,
        filter: &ScheduleFilter,
    ) -> Result<Vec<Schedule>, StoreError> {
        self.inner.schedules.schedules(scope, filter).await
    }

    /// Starts a run of a schedule beside its slots, which stay as they are.
    pub async fn run_now(
        &self,
        schedule: &Schedule,
        remember: Option<Remember>,
    ) -> Result<Done, EngineError> {
        let slot = Slot { at: self.inner.engine.clock().wall(), is_catch_up: false };
        let mut order = order(schedule, slot);
        // A caller asks for the run itself, so a pause of the member does not forbid it.
        order.acting = match self.fire_of(schedule, TriggerSource::Manual).await? {
            Fire::For(acting) => Some(*acting),
            Fire::Unowned | Fire::Paused | Fire::NoSuchMember | Fire::NotInPortfolio => None,
        };
        self.inner.engine.create(order, remember).await
    }
}

fn first_slot(timing: &Timing, now: Timestamp) -> Result<Timestamp, ScheduleError> {
    let next = match timing {
        Timing::Cron { cron, timezone } => Cron::read(cron, timezone)?.next_after(now),
        Timing::Once { at } => Some(*at).filter(|at| *at > now),
    };
    within_horizon(next, now)
}
