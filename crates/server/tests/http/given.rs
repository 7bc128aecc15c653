//! A host for one test: its keys, its workflows, and how to talk to it.

mod clock;
mod flaky;
pub(crate) mod issuer;
mod reply;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use axum::http::{Method, Request};
use callboard_agents::{
    AgentDirectory, AgentDispatch, AgentRegistry, Contracts, Fetch, FolderRegistry, Granted,
    Grants, Installed, LiveAgents, LiveSettings, MockAi, ModelTable, Models, NoCodingAgents,
    Observability, Policy, PriceTable, PromptLibrary, PromptResolver, SigningKey, StructuredOutput,
    TrustedKey, TrustedKeys, built_in_prompts,
};
use callboard_backends::{
    CallPrompt, Egress, FILES, FilesNode, MemoryNode, MemoryProbes, Reach, SystemLookup,
};
use callboard_conformance as conformance;
use callboard_core::{ConformanceNodes, HostLimits, UPKEEP};
use callboard_engine::{
    Activities, Activity, Annotations, AuditLog, Catalog, DeliveryLoop, Deployments, DrivingLimits,
    Engine, Envelopes, HeartbeatLoop, InMemoryStore, KeyMode, Options, Parts, Queues, RandomIds,
    Scheduler, Secrets, Store, TriggerIngest, audited,
};
use callboard_protocol::{Owner, Principal, Tenant, Timestamp};
use callboard_server::{
    App, Downloads, Issuer, IssuerSettings, Issuers, KeyRing, Links, Metrics, NotReady, Readiness,
    ServerConfig, Surface, TestKeys, Tools, router,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use clock::VirtualClock;

pub(crate) use flaky::{Fault, FlakyStore, flaky_store};
pub(crate) use reply::{Frame, Frames, Reply};

/// A live key of `acme` with every scope.
pub(crate) const LIVE: &str = "cb_live";
/// A test key of `acme`.
pub(crate) const TEST: &str = "cbtest_acme";
/// A live key of another tenant.
pub(crate) const RIVAL: &str = "cb_rival";
/// Live keys of two workspaces of `acme`.
pub(crate) const OPS: &str = "cb_ops";
pub(crate) const LAB: &str = "cb_lab";
/// A key that may read runs and nothing else, and one that may only cancel.
pub(crate) const READER: &str = "cb_reader";
pub(crate) const CANCELLER: &str = "cb_canceller";

const KEYS: [&str; 7] = [
    "cb_live=acme",
    "cbtest_acme=acme",
    "cb_rival=rival",
    "cb_ops=acme/ops",
    "cb_lab=acme/lab",
    "cb_reader=acme+runs:read",
    "cb_canceller=acme+runs:cancel",
];

/// Whether a host has the doors of the protocol's test suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TestSeams {
    On,
    Off,
}

/// How a test's host differs from the usual one.
pub(crate) struct Setup {
    pub(crate) config: ServerConfig,
    pub(crate) keys: &'static [&'static str],
    pub(crate) test_keys: TestKeys,
    pub(crate) metrics: Option<Metrics>,
    pub(crate) reach: Reach,
    pub(crate) seams: TestSeams,
    /// What the host was given for everybody.
    pub(crate) packs: Vec<Installed>,
    /// Stands for the registry at `https://packs.example`.
    pub(crate) fetch: Arc<dyn Fetch>,
    pub(crate) tools: Tools,
    /// Definitions that the host loads beside the usual ones.
    pub(crate) workflows: Vec<Value>,
    pub(crate) limits: HostLimits,
    /// Whose tokens are taken.
    pub(crate) issuers: Vec<IssuerSettings>,
    /// Whether agents ask models, or only the floor of RFC 0070 is there.
    pub(crate) is_live: bool,
}

impl Default for Setup {
    fn default() -> Self {
        let config = ServerConfig::default();
        let (test_keys, reach) = (TestKeys::ByPrefix, Reach::Public);
        let seams = TestSeams::Off;
        let (packs, fetch) = (Vec::new(), Arc::new(FolderRegistry::new("nowhere")));
        let (tools, workflows, is_live) = (Tools::default(), Vec::new(), false);
        let (keys, metrics, limits): (&[_], _, _) = (&KEYS, None, HostLimits::default());
        Self {
            config,
            keys,
            test_keys,
            metrics,
            reach,
            seams,
            packs,
            fetch,
            tools,
            workflows,
            limits,
            issuers: Vec::new(),
            is_live,
        }
    }
}

pub(crate) struct TestHost {
    pub(crate) router: Surface,
    pub(crate) engine: Engine,
    pub(crate) store: Arc<FlakyStore>,
    pub(crate) keys: KeyRing,
    pub(crate) issuers: Issuers,
    pub(crate) shutdown: CancellationToken,
}

impl TestHost {
    pub(crate) async fn start() -> Self {
        Self::of(Setup::default()).await
    }

    pub(crate) async fn configured(config: ServerConfig) -> Self {
        Self::of(Setup { config, ..Setup::default() }).await
    }

    #[expect(clippy::too_many_lines, reason = "every part of a host, made and started once")]
    pub(crate) async fn of(setup: Setup) -> Self {
        let (store, clock) = (flaky_store(), Arc::new(VirtualClock::new()));
        let kept = audited(Arc::clone(&store) as _, clock.clone());
        let issuers = issuers(setup.issuers, clock.clone());
        let (agents, memory) = (agents(setup.packs).await, Arc::new(InMemoryStore::new()));
        let mock = (setup.seams == TestSeams::On).then(MockAi::default);
        let prompt_resolver = prompt_resolver(&memory, &agents, setup.seams);
        let live = setup.is_live.then_some(&setup.tools);
        let performers = performers(&agents, &prompt_resolver, live);
        let loaded = (&*setup.workflows, setup.limits);
        let engine =
            engine(&kept, clock, performers, (&agents, &prompt_resolver), mock.as_ref(), loaded);
        engine.start();
        let (keys, shutdown) =
            (key_ring(setup.keys, setup.test_keys, &kept).await, CancellationToken::new());
        let egress = || Arc::new(Egress::new(setup.reach, Arc::new(SystemLookup)));
        let links = Links::new(kept.clone());
        let deliveries =
            DeliveryLoop::new(engine.clone(), kept.clone(), egress(), Arc::new(links.clone()));
        deliveries.start();
        let scheduler = scheduler(&engine, &kept).await;
        let triggers = TriggerIngest::new(engine.clone(), kept.clone());
        triggers.start();
        let queues = Queues::new(engine.clone());
        queues.start();
        let heartbeats = HeartbeatLoop::new(engine.clone(), kept.clone(), egress());
        heartbeats.start();
        let app = App {
            heartbeats,
            engine: engine.clone(),
            deliveries,
            scheduler,
            triggers,
            queues,
            keys: keys.clone(),
            issuers: issuers.clone(),
            agents,
            deployments: Deployments::new(kept.clone()),
            prompts: prompt_resolver,
            envelopes: Envelopes::new(memory),
            mock,
            logs: store.inner(),
            downloads: Downloads {
                fetch: setup.fetch,
                registries: vec!["https://packs.example".to_owned()],
            },
            tools: setup.tools,
            providers: Arc::new(callboard_server::NoProviders),
            config: setup.config,
            elsewhere: None,
            readiness: Arc::new(StoreIsThere(Arc::clone(&store))),
            reload: None,
            metrics: setup.metrics,
            links,
            annotations: Annotations::new(kept.clone()),
            audit: AuditLog::new(kept),
            seams: (setup.seams == TestSeams::On).then(callboard_conformance::doors).flatten(),
            shutdown: shutdown.clone(),
        };
        Self { router: router(app), engine, store, keys, issuers, shutdown }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.engine.clock().now()
    }

    pub(crate) fn get(&self, path: &str) -> Call<'_> {
        self.call(Method::GET, path)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Call<'_> {
        self.call(Method::POST, path).json(body)
    }

    pub(crate) fn call(&self, method: Method, path: &str) -> Call<'_> {
        let request = Request::builder().method(method).uri(path);
        Call { host: self, request, key: Some(LIVE.to_owned()), body: Body::empty() }
    }

    /// Starts a run with the live key and answers its id.
    pub(crate) async fn run(&self, workflow: &str, inputs: Value) -> String {
        self.run_as(LIVE, json!({ "workflowId": workflow, "inputs": inputs })).await
    }

    pub(crate) async fn run_as(&self, key: &str, body: Value) -> String {
        let reply = self.post("/v1/runs", &body).key(key).send().await;
        assert_eq!(reply.status, 201, "{reply:?}");
        reply.text_at("runId")
    }

    /// Waits, through the API itself, until the run has ended, and answers its events.
    pub(crate) async fn end_of(&self, run: &str) -> Vec<Value> {
        self.end_as(LIVE, run).await
    }

    pub(crate) async fn end_as(&self, key: &str, run: &str) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let seen =
                events.last().map_or(-1, |event: &Value| event["sequence"].as_i64().unwrap_or(0));
            let path = format!("/v1/runs/{run}/events/poll?timeout=60&lastSequence={seen}");
            let reply = self.get(&path).key(key).send().await;
            assert_eq!(reply.status, 200, "{reply:?}");
            let fresh = reply.json["events"].as_array().cloned().unwrap_or_default();
            // A cursor of zero means the start, so the first event may come twice.
            events
                .extend(fresh.into_iter().filter(|event| event["sequence"].as_i64() > Some(seen)));
            if reply.json["isTerminal"] == json!(true) {
                self.told_in_second(key, run, &events).await;
                return events;
            }
            // An answer that is there at once, as for that cursor, leaves nobody else a turn.
            tokio::task::yield_now().await;
        }
    }

    /// A run of `wait` that has started and will not end by itself for an hour.
    pub(crate) async fn waiting_run(&self) -> String {
        let run = self.run("wait", json!({ "delayMs": 3_600_000 })).await;
        let reply = self.get(&format!("/v1/runs/{run}/events/poll?timeout=60")).send().await;
        assert_eq!(reply.json["runStatus"], "running", "{reply:?}");
        run
    }
}

/// The publisher whom the test host trusts for `vendor.acme.*`.
pub(crate) fn publisher() -> SigningKey {
    SigningKey::from_seed([7; 32])
}

async fn agents(loaded: Vec<Installed>) -> Arc<AgentRegistry> {
    let key = publisher();
    let key = TrustedKey::parse("acme-1", &key.public_pem(), &["vendor.acme.*"]);
    let keys = TrustedKeys::none().with(key.expect("a key"));
    let policy = Policy { keys, ..Policy::default() };
    let opened = AgentRegistry::open(Arc::new(InMemoryStore::new()), policy, loaded).await;
    Arc::new(opened.expect("the packs load").0)
}

async fn scheduler(engine: &Engine, store: &Arc<dyn Store>) -> Scheduler {
    let scheduler = Scheduler::new(engine.clone(), store.clone());
    let owner = Owner { tenant: "default".into(), workspace: None, principal: None };
    scheduler.declare_loaded(owner, KeyMode::Live).await.expect("loaded schedules are kept");
    scheduler.start();
    scheduler
}

/// Asked over the real client, on loopback.
fn issuers(settings: Vec<IssuerSettings>, clock: Arc<VirtualClock>) -> Issuers {
    let http = Arc::new(Egress::new(Reach::Anywhere, Arc::new(SystemLookup)));
    let issuer = |settings| Arc::new(Issuer::new(settings, http.clone(), clock.clone()));
    Issuers::new(settings.into_iter().map(issuer))
}

async fn key_ring(keys: &[&str], mode: TestKeys, store: &Arc<dyn Store>) -> KeyRing {
    let configured = keys.iter().map(|key| key.parse().expect("a key")).collect();
    let ring = KeyRing::load(store.clone(), configured, mode).await;
    ring.expect("the keys load")
}

fn prompt_resolver(
    memory: &Arc<InMemoryStore>,
    agents: &Arc<AgentRegistry>,
    seams: TestSeams,
) -> PromptResolver {
    let mut templates = built_in_prompts();
    let mut observability = Observability::Hashed;
    if seams == TestSeams::On {
        templates.extend(conformance::prompts());
        observability = Observability::Full;
    }
    let library = PromptLibrary::new(Arc::clone(memory) as _, templates);
    let library = library.with_packs(Arc::clone(agents));
    PromptResolver { library, agents: Arc::clone(agents), observability }
}

/// Holds every scope: what tools ask for is not what these tests are about.
#[derive(Debug)]
struct Everything;

#[async_trait]
impl Grants for Everything {
    async fn granted(&self, _: &Tenant, _: &Principal, _: Timestamp) -> Granted {
        Granted::Everything
    }
}

fn performers(
    agents: &Arc<AgentRegistry>,
    prompt_resolver: &PromptResolver,
    live: Option<&Tools>,
) -> Arc<dyn Activity> {
    let Some(tools) = live else {
        return Arc::new(AgentDispatch::new(Arc::clone(agents), conformance::read_task));
    };
    Arc::new(LiveAgents {
        registry: Arc::clone(agents),
        models: Arc::new(Models::default()),
        coders: Arc::new(NoCodingAgents),
        table: ModelTable::default(),
        prices: PriceTable::default(),
        toolbox: Arc::clone(&tools.toolbox),
        hooks: Arc::clone(&tools.hooks),
        grants: Arc::new(Everything),
        prompt_resolver: prompt_resolver.clone(),
        settings: LiveSettings { read_task: conformance::read_task, ..LiveSettings::default() },
        contracts: Contracts::default(),
    })
}

fn engine(
    store: &Arc<dyn Store>,
    clock: Arc<VirtualClock>,
    performers: Arc<dyn Activity>,
    (agents, prompt_resolver): (&Arc<AgentRegistry>, &PromptResolver),
    mock: Option<&MockAi>,
    (loaded, limits): (&[Value], HostLimits),
) -> Engine {
    let mut models = Models::default();
    let mut table = ModelTable::default();
    if let Some(mock) = mock {
        models = models.with(MockAi::PROVIDER, Arc::new(mock.clone()));
        table.providers.insert(MockAi::PROVIDER.to_owned());
        table.coding.insert("claude-code".to_owned());
    }
    let asks = StructuredOutput {
        models: Arc::new(models),
        table,
        prices: PriceTable::default(),
        prompt_resolver: prompt_resolver.clone(),
        required: Vec::new(),
    };
    let mut catalog = Catalog::new(store.clone(), ConformanceNodes::Off);
    for definition in definitions().iter().chain(loaded) {
        catalog.load(&definition.to_string()).expect("the definition compiles");
    }
    Engine::new(Parts {
        store: store.clone(),
        catalog,
        activities: Activities::default()
            .with("core.ai.callPrompt", Arc::new(CallPrompt))
            .with("core.ai.structuredOutput", Arc::new(asks))
            .with(
                "local.sample.demo.mock-ai",
                Arc::new(conformance::Parrot { prompt_resolver: prompt_resolver.clone() }),
            )
            .with("core.identity", Arc::new(MemoryProbes))
            .with(UPKEEP, Arc::new(MemoryNode))
            .with(FILES, Arc::new(FilesNode))
            .with("conformance.secret.echo", Arc::new(conformance::SecretEcho))
            .with("core.conformance.side-effect", Arc::new(conformance::SideEffect))
            .with_agents(performers),
        directory: Arc::new(AgentDirectory {
            registry: Arc::clone(agents),
            deployments: Deployments::new(store.clone()),
        }),
        secrets: Secrets::new(store.clone()),
        clock,
        ids: Arc::new(RandomIds),
        options: Options {
            host: "test-host".into(),
            lease: Duration::from_secs(30),
            heartbeat: Duration::from_secs(10),
            driving: DrivingLimits::default(),
            limits,
        },
    })
}

/// What every tenant of the test host can run. `gated` needs something that this host lacks.
fn definitions() -> Vec<Value> {
    let delay =
        json!([{ "name": "delayMs", "type": "number", "required": true, "defaultValue": 1000 }]);
    let mut wait = workflow("wait", &[("wait", "core.delay")]);
    wait["nodes"][0]["inputs"] =
        json!({ "delayMs": { "type": "variable", "variableName": "delayMs" } });
    wait["variables"] = delay;
    let mut strict = workflow("strict", &[("only", "core.noop")]);
    strict["configurableSchema"] = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": { "recursionLimit": { "type": "integer", "minimum": 1 } },
    });
    vec![
        workflow("noop", &[("only", "core.noop")]),
        workflow("chain", &[("a", "core.noop"), ("b", "core.noop"), ("c", "core.noop")]),
        workflow("fail", &[("fail", "core.fail")]),
        workflow("chat", &[("ai", "core.ai.callPrompt")]),
        workflow("gated", &[("gated", "core.ai.embed")]),
        wait,
        strict,
    ]
}

/// A chain of nodes.
pub(crate) fn workflow(id: &str, nodes: &[(&str, &str)]) -> Value {
    let node = |(id, kind): &(&str, &str)| json!({ "id": id, "typeId": kind, "name": id, "position": { "x": 0, "y": 0 }, "config": {}, "inputs": {} });
    let edge = |pair: &[(&str, &str)]| json!({ "id": format!("{}-{}", pair[0].0, pair[1].0), "sourceNodeId": pair[0].0, "targetNodeId": pair[1].0 });
    json!({
        "id": id, "name": id, "version": "1.0",
        "nodes": nodes.iter().map(node).collect::<Vec<_>>(),
        "edges": nodes.windows(2).map(edge).collect::<Vec<_>>(),
        "triggers": [], "variables": [],
        "metadata": { "tags": ["conformance"] },
        "settings": {},
    })
}

/// One request on its way.
pub(crate) struct Call<'a> {
    host: &'a TestHost,
    request: axum::http::request::Builder,
    key: Option<String>,
    body: Body,
}

impl Call<'_> {
    pub(crate) fn key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    pub(crate) fn anonymous(mut self) -> Self {
        self.key = None;
        self
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.request = self.request.header(name, value);
        self
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.header("content-type", "application/json").bytes(body.to_string())
    }

    pub(crate) fn bytes(mut self, body: impl Into<Body>) -> Self {
        self.body = body.into();
        self
    }

    async fn respond(self) -> axum::response::Response {
        let mut request = self.request;
        if let Some(key) = self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let request = request.body(self.body).expect("a request");
        let answered = self.host.router.clone().oneshot(request).await;
        answered.expect("the router never fails").map(Body::new)
    }

    /// Sends the request and reads the whole answer.
    pub(crate) async fn send(self) -> Reply {
        Reply::read(self.respond().await).await
    }

    /// Sends the request and reads its answer frame by frame.
    pub(crate) async fn open(self) -> Frames {
        let response = self.respond().await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-cache");
        Frames::new(response.into_body())
    }
}

#[derive(Debug)]
struct StoreIsThere(Arc<FlakyStore>);

#[async_trait]
impl Readiness for StoreIsThere {
    async fn check(&self) -> Result<(), NotReady> {
        match self.0.fault() {
            Fault::None => Ok(()),
            Fault::Panic => panic!("asked to"),
            _ => Err(NotReady("the store is away".to_owned())),
        }
    }
}
