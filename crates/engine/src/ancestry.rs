//! What a run came from: the runs above it, and what began the first of them.

use callboard_core::Birth;
use callboard_protocol::{OriginDelivery, RosterRunInitiated, RunId, TypeId};

use crate::engine::{Engine, EngineError};
use crate::store::Scope;

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
        let mut birth = self.birth_of(scope, run).await?;
        let mut runs = Vec::new();
        while let Some(parent) = birth.parent.clone() {
            birth = self.birth_of(scope, &parent.run_id).await?;
            runs.push((parent.run_id, parent.cause));
        }
        Ok(Ancestry { runs, delivery: delivery(&birth), member: birth.attribution.clone() })
    }
}

fn delivery(birth: &Birth) -> Option<OriginDelivery> {
    let delivered = birth.delivery.as_ref()?;
    Some(OriginDelivery {
        delivery_id: birth.delivery_id(),
        subscription_id: delivered.subscription_id.clone(),
        dedup_key: delivered.dedup_key.clone(),
        attempt: delivered.attempt,
        work_id: delivered.work_id.clone(),
    })
}
