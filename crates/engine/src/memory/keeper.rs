//! The loops that look after memory: places that grow without end, promises whose time has come.

use std::time::Duration;

use serde_json::json;
use sha2::{Digest as _, Sha256};

use callboard_core::UPKEEP;
use callboard_protocol::{Owner, Timestamp};

use super::CrowdedMemory;
use crate::audit::{AuditRun, OncePer};
use crate::engine::{Done, Engine, EngineError};
use crate::store::{Digest, KeyMode, Scope, StoreError};

/// What such runs are listed under.
const WORKFLOW: &str = "callboard-memory";
/// An agent reads the newest hundred entries of a place. With twice as many, half of them are out of its sight, and
/// those are put together.
const CROWDED: u64 = 200;
const KEPT: u64 = 100;
/// Runs that one tick starts at most; the other places have their turn in the next, since those that were tidied, or
/// could not be, are passed over.
const BATCH: usize = 16;
/// Nobody waits for it.
const EVERY: Duration = Duration::from_secs(300);
/// How long a place that could not be tidied is left alone.
const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(86_400);

/// Starts a run for each place that has become crowded, and for each commitment that is due. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Keeper {
    pub(super) engine: Engine,
}

impl Keeper {
    /// Runs on the engine's clock and tasks, and stops with it.
    pub fn new(engine: Engine) -> Self {
        Self { engine }
    }

    pub fn start(&self) {
        self.engine.inner.tasks.spawn(self.clone().tidy_until_stopped());
        self.engine.inner.tasks.spawn(self.clone().keep_promises_until_stopped());
    }

    /// Looks at every place once; answers how many runs it started.
    pub async fn tick(&self, now: Timestamp) -> Result<usize, EngineError> {
        let inner = &self.engine.inner;
        let mut started = 0;
        for crowded in inner.memory.crowded(CROWDED).await? {
            if started == BATCH {
                break;
            }
            // Somebody is at it already, or was, and nothing has come in since.
            if inner.store.outcome(&key_of(&crowded), now).await?.is_some() {
                continue;
            }
            match self.tidy(&crowded, now).await {
                Ok(_) => started += 1,
                Err(EngineError::Store(StoreError::AlreadyDone(_))) => {}
                Err(error) => tracing::warn!(%error, "a place not tidied; trying again"),
            }
        }
        Ok(started)
    }

    /// One run for each state of a place, however many hosts look at it.
    async fn tidy(&self, crowded: &CrowdedMemory, now: Timestamp) -> Result<Done, EngineError> {
        let as_of = self.engine.inner.memory.position(&crowded.owner.realm()).await?;
        let once = OncePer { key: key_of(crowded), until: now.plus(TRIED_AGAIN_AFTER) };
        self.engine.audit_once(upkeep(crowded, as_of), now, once).await
    }

    /// Sleeps and ticks until stopped. Holds no state worth testing.
    async fn tidy_until_stopped(self) {
        let inner = &self.engine.inner;
        loop {
            let now = inner.clock.now();
            if let Err(error) = self.tick(now).await {
                tracing::warn!(%error, "memory not tidied; trying again");
            }
            // Losing either branch is fine: the next tick reads the truth.
            tokio::select! {
                () = inner.clock.sleep_until(now.plus(EVERY)) => {}
                () = inner.stop.cancelled() => return,
            }
        }
    }
}

/// First what says the same becomes one, then what is old.
fn upkeep(crowded: &CrowdedMemory, as_of: u64) -> AuditRun {
    let Scope { tenant, workspace, mode } = crowded.owner.clone();
    let config = |action: &str| json!({ "memoryAction": action, "memoryRef": crowded.memory_ref, "keep": KEPT });
    let scope_id = Some(crowded.scope_id.clone()).filter(|scope_id| !scope_id.is_empty());
    AuditRun::new(WORKFLOW, Owner { tenant, workspace, principal: None }, mode)
        .seeing(scope_id, as_of)
        .doing("consolidate", UPKEEP, config("consolidate"))
        .doing("compact", UPKEEP, config("compact"))
}

/// A mode in keys at rest. Spelt otherwise, what was done once would be done again.
pub(super) const fn spelt(mode: KeyMode) -> &'static str {
    match mode {
        KeyMode::Live => "Live",
        KeyMode::Test => "Test",
    }
}

/// Apart from the keys of callers, which are digests of other things.
fn key_of(crowded: &CrowdedMemory) -> Digest {
    let mut hash = Sha256::new();
    hash.update("callboard:memory-upkeep");
    let (workspace, newest) = (crowded.owner.workspace.as_ref(), crowded.newest.to_string());
    for part in [
        crowded.owner.tenant.as_str(),
        workspace.map_or("", |workspace| workspace.as_str()),
        spelt(crowded.owner.mode),
        &crowded.scope_id,
        &crowded.memory_ref,
        &newest,
    ] {
        hash.update([0]);
        hash.update(part);
    }
    hash.finalize().into()
}
