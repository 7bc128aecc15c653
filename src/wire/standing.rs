//! The host's background loops: deliveries, schedules, triggers, queues, heartbeats, cleanup.

use std::sync::Arc;

use callboard_backends::Egress;
use callboard_engine::{
    CheckpointLoop, DeliveryLoop, Engine, HeartbeatLoop, Keeper, KeyMode, Queues, Scheduler,
    Sweeper, TriggerIngest,
};
use callboard_protocol::Owner;
use callboard_server::Links;

use super::database::Database;
use super::{Settings, unkept};
use crate::exit::CommandError;

/// Every loop of a host beside the one that drives runs.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) deliveries: DeliveryLoop,
    pub(super) scheduler: Scheduler,
    pub(super) triggers: TriggerIngest,
    pub(super) queues: Queues,
    pub(super) heartbeats: HeartbeatLoop,
    keeper: Keeper,
    checkpoints: CheckpointLoop,
    sweeper: Option<Sweeper>,
}

impl Standing {
    /// Definitions that were loaded for everybody fire where a member owns them, and else for the tenant of those
    /// who name none.
    pub(super) async fn assemble(
        settings: &Settings,
        engine: &Engine,
        database: &Database,
        egress: &Arc<Egress>,
    ) -> Result<Self, CommandError> {
        let store = database.store();
        let scheduler = Scheduler::new(engine.clone(), store.clone());
        let owner =
            Owner { tenant: "default".into(), workspace: None, principal: Some("host".into()) };
        let mode = if settings.test_seams { KeyMode::Test } else { KeyMode::Live };
        scheduler
            .declare_loaded(owner, mode)
            .await
            .map_err(|error| unkept("the schedules of workflows cannot be kept", &error))?;
        let policy = settings.config.retention.policy();
        let signer = Arc::new(Links::new(store.clone()));
        let deliveries = DeliveryLoop::paced(
            engine.clone(),
            store.clone(),
            (egress.clone(), signer),
            settings.webhook_pace,
        );
        if matches!(database, Database::Embedded(_)) {
            // No other process can hold the folder: the holders of deliveries are gone.
            deliveries
                .void_leases()
                .await
                .map_err(|error| unkept("deliveries cannot be taken up", &error))?;
        }
        Ok(Self {
            deliveries,
            scheduler,
            triggers: TriggerIngest::new(engine.clone(), store.clone()),
            queues: Queues::new(engine.clone()),
            heartbeats: HeartbeatLoop::new(engine.clone(), store.clone(), egress.clone()),
            keeper: Keeper::new(engine.clone()),
            checkpoints: CheckpointLoop::new(engine.clone()),
            sweeper: policy.removes().then(|| Sweeper::new(engine.clone(), policy)),
        })
    }

    pub(super) fn start(self) {
        self.deliveries.start();
        self.scheduler.start();
        self.triggers.start();
        self.queues.start();
        self.heartbeats.start();
        self.keeper.start();
        self.checkpoints.start();
        if let Some(sweeper) = self.sweeper {
            sweeper.start();
        }
    }
}
