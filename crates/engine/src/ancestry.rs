//! What a run came from: the runs above it, and what began the first of them.

use callboard_core::{Birth, Entry};
use callboard_protocol::{Event, EventId, OriginDelivery, RosterRunInitiated, RunId, TypeId};

use crate::engine::{Engine, EngineError};
use crate::store::{Opened, Scope};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ancestry {
    /// Each run above, with the type of the node by which it started the one below.
    pub runs: Vec<(RunId, TypeId)>,
    /// What was delivered to the uppermost.
    pub delivery: Option<OriginDelivery>,
    /// Whom the uppermost is for.
    pub member: Option<RosterRunInitiated>,
}

impl Engine {
    pub async fn ancestry(&self, scope: &Scope, run: &RunId) -> Result<Ancestry, EngineError> {
        let mut opened = self.unfolded(scope, run).await?;
        let mut runs = Vec::new();
        while let Some(parent) = opened.birth.parent.clone() {
            opened = self.unfolded(scope, &parent.run_id).await?;
            runs.push((parent.run_id, parent.cause));
        }
        let Opened { birth, entries, .. } = opened;
        let delivery = delivery(&birth, &entries);
        Ok(Ancestry { runs, delivery, member: birth.attribution })
    }
}

fn delivery(birth: &Birth, log: &[Entry]) -> Option<OriginDelivery> {
    let delivered = birth.delivery.as_ref()?;
    let is_delivery = |entry: &&Entry| matches!(entry.event, Event::TriggerDeliveryAttempted(_));
    let event =
        log.iter().find(is_delivery).map(|entry| EventId::of(&birth.run_id, entry.sequence));
    Some(OriginDelivery {
        delivery_id: event.unwrap_or_else(|| birth.delivery_id()),
        subscription_id: delivered.subscription_id.clone(),
        dedup_key: delivered.dedup_key.clone(),
        attempt: delivered.attempt,
        work_id: delivered.work_id.clone(),
    })
}
