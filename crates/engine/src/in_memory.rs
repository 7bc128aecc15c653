//! A store that forgets when it is dropped: for tests, for simulations and as the plainest statement of the port.
//!
//! One lock around plain maps, so every call is atomic and two runs of one test see the same order.
//! Nothing is sealed here, because nothing rests.

mod annotations;
mod budget;
mod coding_sessions;
mod deployments;
mod effects;
mod envelopes;
mod heartbeats;
mod inbox;
mod links;
mod logs;
mod memory;
mod org_chart;
mod packs;
mod records;
mod registry;
mod retention;
mod roster;
mod runs;
mod secrets;
mod stored_run;
mod webhooks;
mod work;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use callboard_protocol::{
    AgentId, Annotation, EffectiveBudget, KeyId, RunId, SecretName, Tenant, Timestamp, WorkflowId,
};

use crate::budget::Purse;
use crate::changes::Changes;
use crate::deployments::StoredDeployment;
use crate::effects::EffectKey;
use crate::envelopes::{EnvelopeId, KeptEnvelope, ProjectedEvent};
use crate::heartbeats::Heartbeat;
use crate::org_chart::StoredChart;
use crate::registry::{Made, StoredKey, StoredWorkflow};
use crate::roster::StoredMember;
use crate::secrets::{HeldSecret, StoredSecret};
use crate::store::{Digest, KeyMode, Outcome, Realm, Scope, StoreError};
use budget::SetAside;
use effects::StoredEffect;
use memory::Journal;
use packs::KeptPacks;
use stored_run::StoredRun;
use webhooks::Subscribed;
use work::KeptWork;

/// Every port to the database, in memory.
#[derive(Default)]
pub struct InMemoryStore {
    tables: Mutex<Tables>,
    changes: Changes,
}

impl fmt::Debug for InMemoryStore {
    /// Leaves the contents out: they hold what a database would seal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemoryStore").finish_non_exhaustive()
    }
}

impl InMemoryStore {
    pub fn new() -> Self {
        Self::default()
    }

    /// Does what opening a database does that only one process can hold: nobody from before holds a run any more.
    pub fn void_leases(&self) {
        for run in self.tables().runs.values_mut() {
            if run.lease_until.take().is_some() {
                run.head.wake_at = Some(Timestamp::default());
            }
        }
        self.tables().subscribed.void_leases();
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // Every method checks before it changes, so a panic under the lock leaves no half-written tables.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct Tables {
    records: records::Records,
    runs: BTreeMap<RunId, StoredRun>,
    definitions: BTreeMap<String, Arc<str>>,
    outcomes: BTreeMap<Digest, Outcome>,
    workflows: BTreeMap<(Scope, WorkflowId), StoredWorkflow>,
    keys: BTreeMap<KeyId, StoredKey>,
    makers: BTreeMap<(Realm, Made), KeyId>,
    effects: BTreeMap<EffectKey, StoredEffect>,
    /// Every event of every run, in the order of appends.
    log: Vec<(RunId, u64)>,
    subscribed: Subscribed,
    link_generations: BTreeMap<Realm, u32>,
    annotations: BTreeMap<RunId, Vec<Annotation>>,
    packs: KeptPacks,
    deployments: BTreeMap<(Realm, AgentId), StoredDeployment>,
    envelopes: BTreeMap<EnvelopeId, KeptEnvelope>,
    projected: BTreeMap<(Tenant, RunId), Vec<ProjectedEvent>>,
    journal: Journal,
    roster: Vec<StoredMember>,
    work: Vec<KeptWork>,
    /// What members may use in a day, where something was said of it.
    allowances: BTreeMap<Purse, EffectiveBudget>,
    charts: Vec<(KeyMode, StoredChart)>,
    heartbeats: Vec<Heartbeat>,
    /// What calls under way may use.
    aside: Vec<SetAside>,
    /// What days' ceilings were raised to.
    raised: BTreeMap<(Purse, i64), EffectiveBudget>,
    secrets: BTreeMap<(Scope, SecretName), (StoredSecret, HeldSecret)>,
    coding_sessions: BTreeMap<(RunId, String), String>,
}

fn unknown(run: &RunId) -> StoreError {
    StoreError::Unreadable { what: run.to_string(), why: "there is no such run".to_owned() }
}

/// A position in the log as an index; one beyond what memory can hold is beyond the end as well.
fn index(sequence: u64) -> usize {
    usize::try_from(sequence).unwrap_or(usize::MAX)
}
