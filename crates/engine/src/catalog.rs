//! The workflows that can be run in a place: those loaded at start, seen by all, and those registered there or for the
//! whole tenant.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use callboard_core::{AgentPin, ConformanceNodes, Inadmissible, Plan, PlanError};
use callboard_protocol::{NodeId, Object, Owner, Timestamp, TypeId, WorkflowId, hex};

use crate::decisions::{Decisions, Lane, Undecided};
use crate::directory;
use crate::records::{Tries, retry_moved};
use crate::registry::{Put, Workflows};
use crate::schedules::{DeclaredError, Schedules, declared_schedules};
use crate::store::{KeyMode, Scope, Store, StoreError};

/// Bytes of definitions whose plans are kept compiled. A host that sees more different ones compiles again, which
/// costs a millisecond for most.
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// What the smallest counts as: 4,096 plans are kept at most.
const LEAST_BYTES: usize = 4 * 1024;

/// Finds, compiles and keeps definitions.
#[derive(Debug)]
pub struct Catalog {
    /// Replaced as a whole when the host reads its files again.
    loaded: RwLock<Loaded>,
    workflows: Workflows,
    schedules: Schedules,
    plans: Mutex<Plans>,
    performed: Vec<TypeId>,
    conformance: ConformanceNodes,
    /// Agents whose channels lead somewhere for every tenant.
    deployed: Vec<String>,
    /// Where definitions are compiled that were sent or stored.
    decisions: Decisions,
}

/// What the host loaded for all tenants.
type Loaded = Arc<BTreeMap<WorkflowId, CatalogEntry>>;

/// Why there is no plan of a definition.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Uncompiled {
    #[error(transparent)]
    Invalid(#[from] PlanError),
    #[error(transparent)]
    Undecided(#[from] Undecided),
}

impl From<Uncompiled> for RegisterError {
    fn from(error: Uncompiled) -> Self {
        match error {
            Uncompiled::Invalid(error) => error.into(),
            Uncompiled::Undecided(error) => error.into(),
        }
    }
}

impl From<Uncompiled> for StoreError {
    /// A definition that was stored was good once: an operator must look.
    fn from(error: Uncompiled) -> Self {
        match error {
            Uncompiled::Undecided(why @ Undecided::NoThreads) => Self::Unavailable(why.to_string()),
            error => {
                Self::Unreadable { what: "a stored definition".into(), why: error.to_string() }
            }
        }
    }
}

/// Plans by the digest of their definition.
#[derive(Debug, Default)]
struct Plans {
    compiled: BTreeMap<String, Arc<Plan>>,
    bytes: usize,
}

impl Plans {
    fn keep(&mut self, digest: &str, source: &str, plan: Arc<Plan>) {
        let bytes = source.len().max(LEAST_BYTES);
        if self.bytes + bytes > MOST_BYTES {
            *self = Self::default();
        }
        if self.compiled.insert(digest.to_owned(), plan).is_none() {
            self.bytes += bytes;
        }
    }
}

/// One workflow, ready to run.
#[derive(Debug, Clone)]
pub struct CatalogEntry {
    /// The definition exactly as it was sent or read.
    pub source: Arc<str>,
    pub digest: String,
    pub plan: Arc<Plan>,
    pub origin: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// From a folder, at start; every tenant sees it.
    Loaded,
    /// Sent by a caller with a key.
    Registered,
}

/// Why a definition was not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    #[error(transparent)]
    Invalid(#[from] PlanError),
    /// It could not be compiled in time.
    #[error(transparent)]
    Undecided(#[from] Undecided),
    #[error(transparent)]
    Inadmissible(#[from] Inadmissible),
    /// It declares a schedule that cannot be.
    #[error(transparent)]
    Declared(#[from] DeclaredError),
    /// The host loaded a workflow of this id for all tenants.
    #[error("workflow {0} was loaded by the host and cannot be replaced")]
    Reserved(WorkflowId),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Catalog {
    pub fn new(store: Arc<dyn Store>, conformance: ConformanceNodes) -> Self {
        Self {
            loaded: RwLock::default(),
            workflows: Workflows::new(Arc::clone(&store)),
            schedules: Schedules::new(store),
            plans: Mutex::default(),
            performed: Vec::new(),
            conformance,
            deployed: Vec::new(),
            decisions: Decisions::default(),
        }
    }

    /// Adds a definition for every tenant; answers its id. Loading the same text twice changes nothing.
    pub fn load(&mut self, source: &str) -> Result<WorkflowId, PlanError> {
        let (id, entry) = self.loadable(source)?;
        let loaded = self.loaded.get_mut().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(loaded).insert(id.clone(), entry);
        Ok(id)
    }

    /// Puts these definitions into the place of all that were loaded, or changes nothing and names the first that is
    /// wrong by its place in the list. Runs in flight keep the one that they started with. Answers the ids that are
    /// not loaded any more.
    pub fn reload(&self, sources: &[String]) -> Result<Vec<WorkflowId>, (usize, PlanError)> {
        let mut next = BTreeMap::new();
        for (place, source) in sources.iter().enumerate() {
            let (id, entry) = self.loadable(source).map_err(|error| (place, error))?;
            next.insert(id, entry);
        }
        let before = self.loaded();
        let gone = before.keys().filter(|id| !next.contains_key(*id)).cloned().collect();
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        Ok(gone)
    }

    fn loadable(&self, source: &str) -> Result<(WorkflowId, CatalogEntry), PlanError> {
        let digest = digest(source);
        let plan = match self.known(&digest) {
            Some(plan) => plan,
            None => self.keep(&digest, source, Plan::reopen(source.as_bytes())?),
        };
        plan.check_schemas()?;
        let id = plan.id().clone();
        let source = source.into();
        Ok((id, CatalogEntry { source, digest, plan, origin: Origin::Loaded }))
    }

    /// Says that an agent serves on its channels for every tenant, whatever it deployed itself.
    pub fn set_deployed(&mut self, agent: &str) {
        self.deployed.push(agent.to_owned());
    }

    /// Says which node types activities perform; the engine does so when it is built.
    pub(crate) fn set_performed(&mut self, types: impl Iterator<Item = TypeId>) {
        self.performed = types.collect();
    }

    /// Says where definitions are compiled; the engine does so when it is built.
    pub(crate) fn set_decisions(&mut self, decisions: Decisions) {
        self.decisions = decisions;
    }

    /// The workflow that a run of this scope gets: a workspace's own stands before the whole tenant's.
    pub async fn find(
        &self,
        scope: &Scope,
        id: &WorkflowId,
    ) -> Result<Option<CatalogEntry>, StoreError> {
        for place in scope.shelves() {
            if let Some(entry) = self.find_own(&place, id).await? {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// The same without what the whole tenant has.
    pub(crate) async fn find_own(
        &self,
        place: &Scope,
        id: &WorkflowId,
    ) -> Result<Option<CatalogEntry>, StoreError> {
        if let Some(entry) = self.loaded().get(id) {
            return Ok(Some(entry.clone()));
        }
        let stored = self.workflows.workflow(place, id).await?;
        match stored {
            Some(stored) => self.registered(stored.digest, stored.source).await.map(Some),
            None => Ok(None),
        }
    }

    /// All workflows that can be run in a scope, by id.
    pub async fn list(&self, scope: &Scope) -> Result<Vec<CatalogEntry>, StoreError> {
        let mut entries = BTreeMap::clone(&self.loaded());
        for place in scope.shelves() {
            for stored in self.workflows.workflows(&place).await? {
                // What the host loaded holds for all tenants; a stored one of the same id is from before.
                if let Entry::Vacant(vacant) = entries.entry(stored.id) {
                    vacant.insert(self.registered(stored.digest, stored.source).await?);
                }
            }
        }
        Ok(entries.into_values().collect())
    }

    /// Checks a definition and keeps it where the owner belongs; the runs of its schedules are the owner's. Runs in
    /// flight keep the one that they started with.
    pub async fn register(
        &self,
        owner: &Owner,
        mode: KeyMode,
        source: &[u8],
        at: Timestamp,
    ) -> Result<(WorkflowId, Put), RegisterError> {
        let text = std::str::from_utf8(source)
            .map_err(|error| PlanError { path: "definition".into(), message: error.to_string() })?;
        let plan = self.compile(&digest(text), text).await?;
        plan.check_schemas()?;
        self.admit_types(&plan, &BTreeMap::new())?;
        let id = plan.id().clone();
        if self.loaded().contains_key(&id) {
            return Err(RegisterError::Reserved(id));
        }
        let declared = declared_schedules(&plan, owner, mode, at)?;
        let place = Scope::of_owner(owner, mode);
        let mut tries = Tries::default();
        loop {
            let records = self.schedules.declaring(&place, &id, declared.clone()).await?;
            let put = self.workflows.put_workflow(&place, &id, text, records, at).await;
            if !tries.again(&put) {
                return Ok((id, put?));
            }
        }
    }

    /// Answers whether it was registered in exactly this place.
    pub async fn remove(&self, place: &Scope, id: &WorkflowId) -> Result<bool, StoreError> {
        retry_moved(|| async {
            let records = self.schedules.declaring(place, id, Vec::new()).await?;
            self.workflows.delete_workflow(place, id, records).await
        })
        .await
    }

    /// What the host loaded for all tenants.
    pub(crate) fn loaded(&self) -> Loaded {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The loaded conformance workflows that this host truly runs.
    pub fn fixtures(&self) -> Vec<WorkflowId> {
        let is_fixture = |entry: &&CatalogEntry| {
            let tags = entry.plan.definition().metadata.tags.as_deref().unwrap_or_default();
            // A channel leads nowhere before something was deployed on it.
            let leads_nowhere = entry.plan.agents().any(|(_, agent)| {
                agent.channel.is_some() && !self.deployed.contains(&agent.agent_id)
            });
            // No model is asked here that could call a tool from within its turn.
            let nodes = &entry.plan.definition().nodes;
            let calls_nobody = nodes.iter().any(|node| {
                node.type_id.as_str() == "core.ai.callPrompt" && node.config.contains_key("mcp")
            });
            let lacks_its_seams = self.conformance == ConformanceNodes::Off
                && nodes.iter().any(|node| needs_seams(&node.config));
            tags.iter().any(|tag| tag == "conformance")
                && !lacks_its_seams
                && !leads_nowhere
                && !calls_nobody
                && self.admit_types(&entry.plan, &BTreeMap::new()).is_ok()
        };
        self.loaded().values().filter(is_fixture).map(|entry| entry.plan.id().clone()).collect()
    }

    /// Refuses a plan with a node type that this host does not run.
    pub(crate) fn admit_types(
        &self,
        plan: &Plan,
        by_agents: &BTreeMap<NodeId, AgentPin>,
    ) -> Result<(), Inadmissible> {
        plan.admit_types(|type_id| self.performed.contains(type_id), by_agents, self.conformance)
    }

    /// The workflow of a run that is an agent's alone.
    pub(crate) async fn of_agent(&self, agent: &str) -> Result<CatalogEntry, StoreError> {
        let source = directory::definition_of(agent);
        self.registered(digest(&source), source).await
    }

    /// The plan of a definition that a run was created with.
    pub(crate) async fn plan(&self, digest: &str, source: &str) -> Result<Arc<Plan>, Uncompiled> {
        self.compile(digest, source).await
    }

    /// The plan of a definition that the host wrote itself, with its digest. Those are short.
    pub(crate) fn plan_of(&self, source: &str) -> Result<(String, Arc<Plan>), StoreError> {
        let digest = digest(source);
        if let Some(plan) = self.known(&digest) {
            return Ok((digest, plan));
        }
        let parsed = Plan::reopen(source.as_bytes()).map_err(Uncompiled::from)?;
        let plan = self.keep(&digest, source, parsed);
        Ok((digest, plan))
    }

    async fn registered(
        &self,
        digest: String,
        source: Arc<str>,
    ) -> Result<CatalogEntry, StoreError> {
        let plan = self.plan(&digest, &source).await?;
        Ok(CatalogEntry { source, digest, plan, origin: Origin::Registered })
    }

    /// On a thread: what a definition costs is known only afterwards.
    async fn compile(&self, digest: &str, source: &str) -> Result<Arc<Plan>, Uncompiled> {
        if let Some(plan) = self.known(digest) {
            return Ok(plan);
        }
        let text = source.to_owned();
        let parsed = self.decisions.make(Lane::Read, move || Plan::reopen(text.as_bytes())).await?;
        Ok(self.keep(digest, source, parsed?))
    }

    fn known(&self, digest: &str) -> Option<Arc<Plan>> {
        self.plans().compiled.get(digest).cloned()
    }

    fn keep(&self, digest: &str, source: &str, plan: Plan) -> Arc<Plan> {
        let plan = Arc::new(plan);
        self.plans().keep(digest, source, plan.clone());
        plan
    }

    fn plans(&self) -> MutexGuard<'_, Plans> {
        // A panic elsewhere cannot leave this map half-changed.
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn digest(source: &str) -> String {
    hex(Sha256::digest(source.as_bytes()))
}

/// Whether only a host with the doors of the test suite can perform a node: it asks the suite's model, or probes what
/// memory must not do.
fn needs_seams(config: &Object) -> bool {
    let text = |name: &str| config.get(name).and_then(Value::as_str).unwrap_or_default();
    text("provider") == "mock" || text("memoryAction").ends_with("-probe")
}
