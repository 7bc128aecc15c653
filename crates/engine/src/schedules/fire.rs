//! One look at one schedule: fire, wait, pass, and move on.

use std::time::Duration;

use serde_json::json;

use callboard_protocol::{Object, RunId, Timestamp, TriggerSource};

use super::schedule::{LastTurn, Overlap, Schedule, TurnOutcome};
use super::scheduler::{Looked, Scheduler};
use super::turn::{Slot, Turn, turn};
use crate::engine::{EngineError, PreparedRun};
use crate::fire::Fire;
use crate::order::{Order, Target};
use crate::store::{NewRun, StoreError};

/// How often a slot that waits for a run asks whether it has ended.
const ASK_AGAIN: Duration = Duration::from_secs(1);

impl Scheduler {
    pub(super) async fn look_at(
        &self,
        schedule: Schedule,
        now: Timestamp,
        awake_since: Timestamp,
    ) -> Looked {
        let id = schedule.id.clone();
        match self.move_on(schedule, now, awake_since).await {
            // Another host was faster, and that is as good.
            Ok(_) | Err(EngineError::Store(StoreError::Moved { .. })) => Looked::Moved,
            Err(error) => {
                tracing::warn!(%error, schedule = %id, "schedule not looked at; trying again");
                match error {
                    EngineError::Store(StoreError::Full | StoreError::Unavailable(_)) => {
                        Looked::Refused
                    }
                    _ => Looked::Stuck,
                }
            }
        }
    }

    /// Looks at one schedule as a host would at `now` that has been awake since then; answers the run that it started.
    pub async fn rehearse(
        &self,
        schedule: &Schedule,
        now: Timestamp,
        awake_since: Timestamp,
    ) -> Result<Option<RunId>, EngineError> {
        match self.move_on(schedule.clone(), now, awake_since).await {
            Err(EngineError::Store(StoreError::Moved { .. })) => Ok(None),
            outcome => outcome,
        }
    }

    /// Answers the run that was started.
    async fn move_on(
        &self,
        mut schedule: Schedule,
        now: Timestamp,
        awake_since: Timestamp,
    ) -> Result<Option<RunId>, EngineError> {
        if schedule.trigger.is_some() && !self.is_declared(&schedule).await? {
            self.inner.schedules.remove_schedule(&schedule.place, &schedule.id).await?;
            return Ok(None);
        }
        let due = match turn(&schedule, now, awake_since) {
            Ok(Turn::NotYet) => None,
            Ok(Turn::Fire { slot, next }) => {
                schedule.state.next_slot = next;
                Some(slot)
            }
            Ok(Turn::Missed { last, next }) => {
                schedule.state.next_slot = next;
                let why = "no host was there".to_owned();
                note(&mut schedule, last, now, TurnOutcome::Skipped { why });
                None
            }
            Err(error) => {
                // A zone that a newer build knew, say. An operator must look at it.
                schedule.state.next_slot = None;
                let why = error.to_string();
                note(&mut schedule, now, now, TurnOutcome::Failed { why });
                None
            }
        };
        let queued = schedule.state.queued.map(|at| Slot { at, is_catch_up: false });
        match queued.or(due) {
            Some(slot) => self.take_turn(schedule, slot, now).await,
            None => self.keep(schedule, now).await,
        }
    }

    async fn take_turn(
        &self,
        mut schedule: Schedule,
        slot: Slot,
        now: Timestamp,
    ) -> Result<Option<RunId>, EngineError> {
        let busy = self.active_run(&schedule).await?;
        match (schedule.state.overlap, &busy) {
            (Overlap::Skip, Some(run)) => {
                let why = format!("{run} is still active");
                note(&mut schedule, slot.at, now, TurnOutcome::Skipped { why });
                return self.keep(schedule, now).await;
            }
            (Overlap::Queue, Some(_)) => {
                schedule.state.queued = Some(slot.at);
                return self.keep(schedule, now).await;
            }
            (Overlap::Allow | Overlap::Cancel, _) | (_, None) => {}
        }
        schedule.state.queued = None;
        match self.run_of(&schedule, slot).await {
            Ok(Err(why)) => {
                note(&mut schedule, slot.at, now, TurnOutcome::Skipped { why: why.to_owned() });
                self.keep(schedule, now).await
            }
            Ok(Ok(prepared)) => {
                // Not before it is sure that another run takes its place.
                if let (Overlap::Cancel, Some(run)) = (schedule.state.overlap, busy) {
                    let reason = Some("its schedule fired again".to_owned());
                    self.inner.engine.cancel(&schedule.place, &run, reason, None, None).await?;
                }
                self.fire(schedule, slot, prepared, now).await
            }
            // A definition that this build cannot read stays so: it must not keep others from their turn.
            Err(EngineError::Store(error)) if !matches!(error, StoreError::Unreadable { .. }) => {
                Err(error.into())
            }
            Err(error) => {
                tracing::warn!(%error, schedule = %schedule.id, "scheduled run not started");
                let why = error.to_string();
                note(&mut schedule, slot.at, now, TurnOutcome::Failed { why });
                self.keep(schedule, now).await
            }
        }
    }

    /// The run of a slot, or why it has none.
    async fn run_of(
        &self,
        schedule: &Schedule,
        slot: Slot,
    ) -> Result<Result<PreparedRun, &'static str>, EngineError> {
        let fire = self.fire_of(schedule, TriggerSource::Schedule).await?;
        if let Some(why) = fire.refusal() {
            return Ok(Err(why));
        }
        let mut order = order(schedule, slot);
        if let Fire::For(acting) = fire {
            order.acting = Some(*acting);
        }
        self.inner.engine.prepare(order, |_| {}).await.map(Ok)
    }

    async fn fire(
        &self,
        mut schedule: Schedule,
        slot: Slot,
        prepared: PreparedRun,
        now: Timestamp,
    ) -> Result<Option<RunId>, EngineError> {
        let id = prepared.run.id().clone();
        schedule.state.last_run = Some(id.clone());
        note(&mut schedule, slot.at, now, TurnOutcome::Fired { run: id.clone() });
        let schedule = rested(schedule, now);
        let schedules = self.inner.schedules.clone();
        let write = move |record: Box<NewRun>| async move {
            schedules.advance_schedule(schedule, Some((slot.at, *record))).await
        };
        self.inner.engine.persist_and_drive(prepared, None, write).await?;
        count("fired");
        Ok(Some(id))
    }

    pub(super) async fn keep(
        &self,
        schedule: Schedule,
        now: Timestamp,
    ) -> Result<Option<RunId>, EngineError> {
        let noted = schedule.state.last_turn.as_ref().filter(|turn| turn.at == now);
        let outcome = noted.and_then(|turn| match turn.outcome {
            TurnOutcome::Fired { .. } => None,
            TurnOutcome::Skipped { .. } => Some("skipped"),
            TurnOutcome::Failed { .. } => Some("failed"),
        });
        self.inner.schedules.advance_schedule(rested(schedule, now), None).await?;
        outcome.into_iter().for_each(count);
        Ok(None)
    }

    /// For whom a schedule fires, as things stand.
    pub(super) async fn fire_of(
        &self,
        schedule: &Schedule,
        source: TriggerSource,
    ) -> Result<Fire, StoreError> {
        let (place, member) = (&schedule.place, schedule.roster_id.as_ref());
        self.inner.engine.member_for_fire(place, member, &schedule.workflow, source, None).await
    }

    /// The last run, if it has not ended and the overlap rule needs it.
    async fn active_run(&self, schedule: &Schedule) -> Result<Option<RunId>, StoreError> {
        let Some(run) = &schedule.state.last_run else { return Ok(None) };
        if schedule.state.overlap == Overlap::Allow {
            return Ok(None);
        }
        let found = self.inner.engine.inner.store.find(&schedule.place, run).await?;
        let is_active = found.is_some_and(|found| !found.status.is_terminal());
        Ok(is_active.then(|| run.clone()))
    }
}

/// Counts a slot once its outcome is kept.
fn count(outcome: &'static str) {
    metrics::counter!("callboard_schedule_slots_total", "outcome" => outcome).increment(1);
}

fn note(schedule: &mut Schedule, slot: Timestamp, at: Timestamp, outcome: TurnOutcome) {
    schedule.state.last_turn = Some(LastTurn { slot, at, outcome });
}

/// The schedule as it is kept until its next look.
fn rested(mut schedule: Schedule, now: Timestamp) -> Schedule {
    let asks_again = schedule.state.queued.map(|_| now.plus(ASK_AGAIN));
    schedule.wake_at = schedule.state.next_slot.into_iter().chain(asks_again).min();
    schedule
}

/// The run of a slot. What it says of itself is the host's word: nothing here comes from a caller's metadata.
pub(super) fn order(schedule: &Schedule, slot: Slot) -> Order {
    let mut metadata = Object::from_iter([
        ("scheduleId".to_owned(), json!(schedule.id)),
        ("scheduledFor".to_owned(), json!(slot.at)),
    ]);
    if slot.is_catch_up {
        metadata.insert("isCatchUp".to_owned(), json!(true));
    }
    Order {
        inputs: schedule.inputs.clone(),
        configurable: schedule.state.priority.configurable(),
        metadata: Some(metadata),
        ..Order::new(
            Target::Workflow(schedule.workflow.clone()),
            schedule.owner(),
            schedule.place.mode,
        )
    }
}
