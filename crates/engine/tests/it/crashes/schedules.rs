//! Schedules: made, fired slot by slot, paused, run by hand, taken away.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_engine::{
    BookError, MissedFire, NewSchedule, Overlap, ScheduleChange, ScheduleFilter, Scheduler,
    Schedules, Store, StoreError, Timing,
};
use callboard_protocol::Object;

use super::scenario::{Host, Scenario, owner, runs, seconds};
use crate::sim::scope;

pub(super) struct FiringSchedules;

fn scheduler(host: &Host) -> Scheduler {
    Scheduler::new(host.engine.clone(), Arc::clone(&host.store))
}

async fn add(host: &Host, id: &str, timing: Timing) {
    let new = NewSchedule {
        priority: callboard_core::Priority::Normal,
        id: id.into(),
        owner: owner(),
        mode: scope().mode,
        workflow: "campaign".into(),
        roster_id: None,
        timing,
        inputs: Object::new(),
        overlap: Overlap::Allow,
        missed: MissedFire::FireOnce,
        enabled: true,
    };
    match scheduler(host).add(new).await {
        // The one that got no answer was kept.
        Ok(_) | Err(BookError::Store(StoreError::Moved { .. })) => {}
        Err(error) => panic!("{error}"),
    }
}

#[async_trait(?Send)]
impl Scenario for FiringSchedules {
    fn start(&self, host: &Host) {
        scheduler(host).start();
    }

    fn steps(&self) -> usize {
        7
    }

    async fn act(&self, host: &Host, step: usize) {
        let every_five = Timing::Cron { cron: "*/5 * * * * *".into(), timezone: "UTC".into() };
        match step {
            0 => add(host, "often", every_five).await,
            1 => add(host, "once", Timing::Once { at: seconds(12) }).await,
            2 => add(host, "never", Timing::Once { at: seconds(3_600) }).await,
            3 => match scheduler(host).remove(&scope(), &"never".into()).await {
                Ok(()) | Err(BookError::Unknown) => {}
                Err(error) => panic!("{error}"),
            },
            4 => host.wait_until(11).await,
            5 => {
                let pause = ScheduleChange { enabled: Some(false), ..ScheduleChange::default() };
                scheduler(host).change(&scope(), &"often".into(), pause).await.unwrap();
            }
            _ => {
                let scheduler = scheduler(host);
                let schedule = scheduler.find(&scope(), &"often".into()).await.unwrap();
                host.once("run now", async |remember| {
                    scheduler.run_now(&schedule, Some(remember)).await
                })
                .await;
            }
        }
    }

    async fn observe(&self, store: Arc<dyn Store>) -> Value {
        let filter = ScheduleFilter { limit: 9, ..ScheduleFilter::default() };
        let schedules =
            Schedules::new(Arc::clone(&store)).schedules(&scope(), &filter).await.unwrap();
        let seen = schedules.into_iter().map(|schedule| {
            let state = schedule.state;
            let last = state.last_turn.map(|last| (last.slot.as_millis(), last.outcome));
            json!([schedule.id, state.enabled, state.next_slot.is_some(), last])
        });
        json!([seen.collect::<Vec<_>>(), runs(&*store).await])
    }
}
