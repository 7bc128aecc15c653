//! Commitments whose time has come: each is told of once, in a run of its own.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use sha2::{Digest as _, Sha256};

use callboard_core::STATEMENT;
use callboard_protocol::{Owner, RunId, Timestamp};

use super::keeper::spelt;
use super::{Commitment, Keeper};
use crate::deployments::Telling;
use crate::engine::{Done, EngineError, only_once};
use crate::store::{Digest, StoreError};

/// What such runs are listed under.
const WORKFLOW: &str = "callboard-commitment";
/// Commitments that fire in one tick; the others are next.
const BATCH: usize = 64;
/// How often somebody looks: a promise is kept to the second.
const EVERY: Duration = Duration::from_secs(1);
/// Longer than any commitment: what fired once never fires again.
const REMEMBERED: Duration = Duration::from_secs(100 * 366 * 86_400);

impl Keeper {
    /// Fires what is due; answers the runs that tell of it.
    pub async fn keep_promises(&self, now: Timestamp) -> Result<Vec<RunId>, EngineError> {
        let memory = &self.engine.inner.memory;
        let mut fired = Vec::new();
        for commitment in memory.due_commitments(now, BATCH).await? {
            let has_expired = commitment.expires_at.is_some_and(|expires_at| expires_at <= now);
            if !has_expired {
                match self.fire(&commitment, now).await {
                    Ok(done) => fired.push(done.run),
                    // A host that died before it could say so, or another that was faster.
                    Err(EngineError::Store(StoreError::AlreadyDone(_))) => {}
                    Err(error) => {
                        tracing::warn!(%error, entry = %commitment.id, "not fired; trying again");
                        continue;
                    }
                }
            }
            memory.settle_commitment(&commitment).await?;
        }
        Ok(fired)
    }

    /// The run and the key that forbids a second one are written together.
    async fn fire(&self, commitment: &Commitment, now: Timestamp) -> Result<Done, EngineError> {
        let newborn = self.engine.telling(telling(commitment), now)?;
        let once = only_once(key_of(commitment), now.plus(REMEMBERED));
        self.engine.bring_up(newborn, Some(once)).await
    }

    /// Sleeps and ticks until told to stop. Holds no state worth testing.
    pub(super) async fn keep_promises_until_stopped(self) {
        let inner = &self.engine.inner;
        loop {
            let now = inner.clock.now();
            if let Err(error) = self.keep_promises(now).await {
                tracing::warn!(%error, "commitments not looked at; trying again");
            }
            // Losing either branch is fine: the next tick reads the truth.
            tokio::select! {
                () = inner.clock.sleep_until(now.plus(EVERY)) => {}
                () = inner.stop.cancelled() => return,
            }
        }
    }
}

/// Names alone: what was promised is in memory, for those who may read it.
fn telling(commitment: &Commitment) -> Telling {
    let payload = json!({
        "commitmentId": format!("commitment:{}", commitment.id),
        "memoryRef": commitment.memory_ref,
        "memoryId": commitment.id,
        "condition": if commitment.due_on.is_some() { "predicate" } else { "time" },
    });
    let definition = json!({
        "id": WORKFLOW, "name": "Commitment", "version": "1.0",
        "nodes": [{
            "id": "fire", "typeId": STATEMENT, "name": "Fire", "position": { "x": 0, "y": 0 },
            "config": { "type": "commitment.fired", "payload": payload }, "inputs": {},
        }],
        "edges": [], "triggers": [], "variables": [], "metadata": {}, "settings": {},
    });
    let owner = &commitment.owner;
    Telling {
        workflow: WORKFLOW.into(),
        definition: Arc::from(definition.to_string()),
        owner: Owner {
            tenant: owner.tenant.clone(),
            workspace: owner.workspace.clone(),
            principal: None,
        },
        mode: owner.mode,
        tags: vec![commitment.id.to_string()],
    }
}

/// Apart from the keys of callers, which are digests of other things.
fn key_of(commitment: &Commitment) -> Digest {
    let mut hash = Sha256::new();
    hash.update("callboard:commitment");
    let (owner, version) = (&commitment.owner, commitment.version.to_string());
    for part in [owner.tenant.as_str(), spelt(owner.mode), commitment.id.as_str(), &version] {
        hash.update([0]);
        hash.update(part);
    }
    hash.finalize().into()
}
