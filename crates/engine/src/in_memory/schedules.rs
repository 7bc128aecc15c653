//! Schedules in memory.

use async_trait::async_trait;

use callboard_protocol::{ScheduleId, Timestamp, WorkflowId};

use super::{InMemoryStore, Tables};
use crate::schedules::{DueSchedules, Schedule, ScheduleFilter, Schedules};
use crate::store::{NewRun, Scope, StoreError};

impl Tables {
    /// Makes these the schedules that a definition declares.
    pub(super) fn declare(
        &mut self,
        place: &Scope,
        workflow: &WorkflowId,
        declared: Vec<Schedule>,
    ) {
        let is_other = |known: &Schedule| {
            known.trigger.is_none() || known.place != *place || known.workflow != *workflow
        };
        self.schedules.retain(|id, known| is_other(known) || declared.iter().any(|d| d.id == *id));
        for schedule in declared {
            self.schedules.entry(schedule.id.clone()).or_insert(schedule);
        }
    }

    fn replace(&mut self, schedule: Schedule, expected: u64) -> Result<(), StoreError> {
        match self.schedules.get_mut(&schedule.id).filter(|known| known.version == expected) {
            Some(known) => *known = schedule,
            None => return Err(moved(&schedule.id)),
        }
        Ok(())
    }
}

fn moved(id: &ScheduleId) -> StoreError {
    StoreError::Moved { what: format!("schedule {id}") }
}

#[async_trait]
impl Schedules for InMemoryStore {
    async fn add_schedule(&self, schedule: Schedule) -> Result<(), StoreError> {
        let mut tables = self.tables();
        if tables.schedules.contains_key(&schedule.id) {
            return Err(moved(&schedule.id));
        }
        tables.schedules.insert(schedule.id.clone(), schedule);
        Ok(())
    }

    async fn change_schedule(&self, schedule: Schedule, expected: u64) -> Result<(), StoreError> {
        self.tables().replace(schedule, expected)
    }

    async fn remove_schedule(&self, scope: &Scope, id: &ScheduleId) -> Result<bool, StoreError> {
        let mut tables = self.tables();
        let is_there = tables.schedules.get(id).is_some_and(|known| scope.includes(&known.place));
        if is_there {
            tables.schedules.remove(id);
            tables.fires.retain(|(schedule, _), _| schedule != id);
        }
        Ok(is_there)
    }

    async fn schedule(
        &self,
        scope: &Scope,
        id: &ScheduleId,
    ) -> Result<Option<Schedule>, StoreError> {
        let tables = self.tables();
        Ok(tables.schedules.get(id).filter(|known| scope.includes(&known.place)).cloned())
    }

    async fn schedules(
        &self,
        scope: &Scope,
        filter: &ScheduleFilter,
    ) -> Result<Vec<Schedule>, StoreError> {
        let tables = self.tables();
        let shown = tables.schedules.values().filter(|known| {
            scope.includes(&known.place)
                && filter.workflow.as_ref().is_none_or(|workflow| *workflow == known.workflow)
                && filter.roster_id.as_ref().is_none_or(|id| known.roster_id.as_ref() == Some(id))
                && filter.after.as_ref().is_none_or(|after| known.id > *after)
        });
        Ok(shown.take(filter.limit).cloned().collect())
    }

    async fn due_schedules(&self, at: Timestamp, most: usize) -> Result<DueSchedules, StoreError> {
        let tables = self.tables();
        let waiting = tables.schedules.values().filter_map(|known| known.wake_at);
        let next = waiting.filter(|wake_at| *wake_at > at).min();
        let is_due = |known: &&Schedule| known.wake_at.is_some_and(|wake_at| wake_at <= at);
        let mut due: Vec<&Schedule> = tables.schedules.values().filter(is_due).collect();
        due.sort_by_key(|known| (known.wake_at, &known.id));
        Ok(DueSchedules { schedules: due.into_iter().take(most).cloned().collect(), next })
    }

    async fn advance_schedule(
        &self,
        schedule: Schedule,
        expected: u64,
        fired: Option<(Timestamp, NewRun)>,
    ) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let id = schedule.id.clone();
        let is_current = tables.schedules.get(&id).is_some_and(|known| known.version == expected);
        let slot = fired.as_ref().map(|(slot, _)| (id.clone(), *slot));
        if !is_current || slot.is_some_and(|slot| tables.fires.contains_key(&slot)) {
            return Err(moved(&id));
        }
        if let Some((slot, run)) = fired {
            let run_id = run.birth.run_id.clone();
            tables.create(run)?;
            tables.fires.insert((id, slot), run_id);
        } else if let Some(next) = schedule.state.next_slot {
            tables.fires.retain(|(fired, slot), _| *fired != id || *slot < next);
        }
        tables.replace(schedule, expected)
    }

    async fn declare_schedules(
        &self,
        place: &Scope,
        workflow: &WorkflowId,
        declared: Vec<Schedule>,
    ) -> Result<(), StoreError> {
        self.tables().declare(place, workflow, declared);
        Ok(())
    }
}
