//! Commitments whose time has come: each is stated once, in a run of its own.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use callboard_protocol::{HeartbeatId, MemoryId, Owner, RunId, Timestamp};

use super::keeper::spelt;
use super::{Commitment, Due, Keeper, Memory, MemoryRow};
use crate::audit::{AuditRun, OncePer};
use crate::engine::{Done, EngineError};
use crate::records::{Expected, Key, Kind, RecordChange, RecordQuery, Within};
use crate::store::{Batch, Digest, Scope, StoreError};

/// What such runs are listed under.
const WORKFLOW: &str = "callboard-commitment";
/// Commitments that fire in one tick; the others are next.
const BATCH: usize = 64;
/// How often due commitments are looked for: they fire to the second.
const EVERY: Duration = Duration::from_secs(1);
/// Longer than any commitment: what fired once never fires again.
const REMEMBERED: Duration = Duration::from_secs(100 * 366 * 86_400);

/// What is stored of a commitment; the rest is said by the entry itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredCommitment {
    id: MemoryId,
    version: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    due_on: Option<HeartbeatId>,
}

/// What commitments that wait for a heartbeat are found by.
const HEARTBEAT: &str = "heartbeat";

fn key(owner: &Scope, id: &MemoryId) -> Key {
    Key::in_realm(&owner.realm(), [id.as_str()])
}

fn heartbeat_index(owner: &Scope, heartbeat: &HeartbeatId) -> String {
    Key::in_place(owner, [heartbeat.as_str()]).as_str().to_owned()
}

/// What a new version of an entry does to its commitment: it makes, replaces or withdraws it.
pub(super) fn change(owner: &Scope, row: &MemoryRow) -> Result<RecordChange, StoreError> {
    let Some(due) = &row.due else { return Ok(withdraw(owner, &row.id)) };
    let (due_at, due_on) = match due {
        Due::At(at) => (Some(*at), None),
        Due::On(heartbeat) => (None, Some(heartbeat.clone())),
    };
    put(owner, StoredCommitment { id: row.id.clone(), version: row.expected + 1, due_on }, due_at)
}

pub(super) fn withdraw(owner: &Scope, id: &MemoryId) -> RecordChange {
    RecordChange::delete(Kind::Commitment, key(owner, id))
}

fn put(
    owner: &Scope,
    commitment: StoredCommitment,
    due_at: Option<Timestamp>,
) -> Result<RecordChange, StoreError> {
    let key = key(owner, &commitment.id);
    let change = RecordChange::put(Kind::Commitment, key, owner.clone(), &commitment)?.due(due_at);
    Ok(match &commitment.due_on {
        Some(heartbeat) => change.indexed(HEARTBEAT, heartbeat_index(owner, heartbeat)),
        None => change,
    })
}

impl Memory {
    /// Commitments of every tenant that are due and not settled, those that waited longest first.
    pub async fn due_commitments(
        &self,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<Commitment>, StoreError> {
        let mut due = Vec::new();
        for record in self.store.due(Kind::Commitment, at, limit).await?.records {
            let StoredCommitment { id, version, due_on } = record.read()?;
            let versions = self.history(&record.place, &id).await?;
            let entry = versions.into_iter().find(|entry| entry.version == version);
            let unreadable =
                || StoreError::Unreadable { what: format!("entry {id}"), why: "gone".to_owned() };
            let entry = entry.ok_or_else(unreadable)?;
            due.push(Commitment {
                owner: record.place,
                id,
                version,
                memory_ref: entry.memory_ref,
                due_at: record.due_at.unwrap_or(at),
                due_on,
                expires_at: entry.expires_at,
                standing: record.version,
            });
        }
        Ok(due)
    }

    /// A heartbeat of this owner has seen a change: what waits for that is due.
    pub async fn commitments_come_due(
        &self,
        owner: &Scope,
        heartbeat: &HeartbeatId,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let waiting = RecordQuery::all(Kind::Commitment, Within::Place(owner.clone()))
            .with(HEARTBEAT, heartbeat_index(owner, heartbeat));
        for record in self.store.scan(&waiting).await? {
            if record.due_at.is_some() {
                continue;
            }
            let due = put(owner, record.read()?, Some(at))?;
            let due = due.expecting(Expected::Version(record.version));
            match self.store.commit(Batch::of_records([due])).await {
                // A faster host has made it due, or has taken it back.
                Ok(()) | Err(StoreError::Moved { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Nobody need be reminded of a commitment any more. One that was made anew meanwhile stays.
    pub async fn settle_commitment(&self, commitment: &Commitment) -> Result<(), StoreError> {
        let settled = withdraw(&commitment.owner, &commitment.id)
            .expecting(Expected::Version(commitment.standing));
        match self.store.commit(Batch::of_records([settled])).await {
            Ok(()) | Err(StoreError::Moved { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Keeper {
    /// Fires what is due; answers the runs that record it.
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
        let once = OncePer { key: key_of(commitment), until: now.plus(REMEMBERED) };
        self.engine.audit_once(audit(commitment), now, once).await
    }

    /// Sleeps and ticks until stopped. Holds no state worth testing.
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
fn audit(commitment: &Commitment) -> AuditRun {
    let payload = json!({
        "commitmentId": format!("commitment:{}", commitment.id),
        "memoryRef": commitment.memory_ref,
        "memoryId": commitment.id,
        "condition": if commitment.due_on.is_some() { "predicate" } else { "time" },
    });
    let Scope { tenant, workspace, mode } = commitment.owner.clone();
    AuditRun::new(WORKFLOW, Owner { tenant, workspace, principal: None }, mode)
        .tagged(&commitment.id)
        .stating("fire", "commitment.fired", &payload)
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
