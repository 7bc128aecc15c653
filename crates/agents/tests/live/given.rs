//! One agent, a model that follows a script, and tools that count how often they are called.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_agents::{
    AgentDirectory, AgentRegistry, Contracts, Delta, DeltaSink, FixedTools, Granted, Grants,
    Installed, LiveAgents, LiveSettings, Message, Model, ModelError, ModelRef, ModelRequest,
    ModelTable, Observability, Offer, Policy, Price, PriceTable, PromptLibrary, PromptResolver,
    Report, Schema, StopReason, TokenUsage, Tool, ToolDescriptor, ToolFault, ToolHooks,
    ToolInvocation, Toolbox, Toolboxes, Turn, Unsigned, WantedCall, WorkflowTools,
    built_in_prompts, bundle, file_tools, memory_tools, vet,
};
use callboard_core::{ConformanceNodes, HostLimits};
use callboard_engine::{
    Activities, Catalog, Deployments, DrivingLimits, Engine, InMemoryStore, Options, Order,
    PackOwner, Parts, Recorded, Secrets, Store, Target,
};
use callboard_protocol::{
    Object, Owner, Principal, RunId, SafetyTier, Tenant, Timestamp, ToolEgress, ToolReplay,
    ToolSource, ToolTransport,
};

use crate::coder::Coder;
use crate::sim::{CountedIds, LEASE, SimClock, ended, open_questions, order, scope};

pub(crate) const AGENT: &str = "vendor.acme.desk.triager";
pub(crate) const COUNT: &str = "openwop:test.count";
pub(crate) const POST: &str = "openwop:test.post";
/// A turn of ten tokens in and five out costs fifteen dollars.
const DOLLARS: Price = Price { input: 1e6, output: 1e6, cache_read: 0.0, cache_write: 0.0 };
pub(crate) const SECRET_DOOR: &str = "openwop:test.door";

/// What a model answers to a request, which is all that it knows.
pub(crate) type Script = fn(&ModelRequest) -> Result<Turn, ModelError>;

/// What a model says in one turn, and what comes of it.
pub(crate) struct Said {
    thinking: String,
    text: String,
    outcome: Result<Turn, ModelError>,
}

impl Said {
    pub(crate) fn is_answer(&self) -> bool {
        self.outcome.is_ok()
    }

    /// A turn that breaks off in the middle of what it says.
    pub(crate) fn torn(thinking: &str, text: &str, error: ModelError) -> Self {
        Self { thinking: thinking.to_owned(), text: text.to_owned(), outcome: Err(error) }
    }
}

impl From<Result<Turn, ModelError>> for Said {
    fn from(outcome: Result<Turn, ModelError>) -> Self {
        let (thinking, text) = match &outcome {
            Ok(turn) => (turn.thinking.clone(), turn.text.clone()),
            Err(_) => (String::new(), String::new()),
        };
        Self { thinking, text, outcome }
    }
}

/// A model that follows a script and remembers what it was asked.
pub(crate) struct Puppet {
    script: Box<dyn Fn(&ModelRequest) -> Said + Send + Sync>,
    pub(crate) asked: Mutex<Vec<ModelRequest>>,
    /// How long it takes before it says anything, and between two words.
    pub(crate) thinks: Mutex<Duration>,
}

impl fmt::Debug for Puppet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Puppet")
    }
}

#[async_trait]
impl Model for Puppet {
    async fn turn(
        &self,
        request: &ModelRequest,
        deltas: &mut dyn DeltaSink,
    ) -> Result<Turn, ModelError> {
        self.asked.lock().unwrap().push(request.clone());
        let thinks = *self.thinks.lock().unwrap();
        tokio::time::sleep(thinks).await;
        let said = (self.script)(request);
        for word in said.thinking.split_inclusive(' ') {
            deltas.tell(Delta::Thinking(word.to_owned())).await;
            pause(thinks).await;
        }
        for word in said.text.split_inclusive(' ') {
            deltas.tell(Delta::Text(word.to_owned())).await;
            pause(thinks).await;
        }
        said.outcome
    }
}

/// Even a wait for nothing is one, and words that follow each other at once are told together.
async fn pause(wait: Duration) {
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
}

pub(crate) fn says(text: &str) -> Turn {
    Turn {
        text: text.to_owned(),
        thinking: String::new(),
        tool_calls: Vec::new(),
        stop: StopReason::Stop,
        usage: Some(TokenUsage { input: 10, output: 5, ..TokenUsage::default() }),
        provider_request_id: None,
    }
}

/// Calls the tools of these names, with these arguments.
pub(crate) fn calls(request: &ModelRequest, wanted: &[(&str, Value)]) -> Turn {
    let call = |(index, (name, arguments)): (usize, &(&str, Value))| WantedCall {
        id: request.call_id(index),
        provider_id: None,
        name: (*name).to_owned(),
        arguments: arguments.as_object().cloned().unwrap(),
        signatures: Vec::new(),
    };
    let tool_calls = wanted.iter().enumerate().map(call).collect();
    Turn { tool_calls, stop: StopReason::ToolCalls, ..says("") }
}

/// How many results of tools the model has seen.
pub(crate) fn results(request: &ModelRequest) -> usize {
    request.messages.iter().filter(|it| matches!(it, Message::Tool { .. })).count()
}

/// The name that a provider knows a tool by.
pub(crate) fn offered(request: &ModelRequest, part: &str) -> String {
    let offer = request.tools.iter().find(|tool| tool.name.contains(part));
    offer.map(|tool| tool.name.clone()).unwrap_or_else(|| part.to_owned())
}

/// Counts how often each effect was carried out.
#[derive(Debug)]
struct Counter {
    descriptor: ToolDescriptor,
    made: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl Tool for Counter {
    fn descriptor(&self) -> &ToolDescriptor {
        &self.descriptor
    }

    async fn invoke(&self, call: ToolInvocation<'_>) -> Result<Value, ToolFault> {
        self.made.lock().unwrap().push(call.effect.to_string());
        if let Some(wait) = call.arguments.get("waitMs").and_then(Value::as_u64) {
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
        match call.arguments.get("fail").and_then(Value::as_str) {
            Some(why) => Err(ToolFault::Failed(why.to_owned())),
            None => Ok(json!({ "counted": call.arguments.get("n") })),
        }
    }
}

fn tool(id: &str, tier: SafetyTier, scopes: &[&str], made: &Arc<Mutex<Vec<String>>>) -> Counter {
    let input = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    Counter {
        descriptor: ToolDescriptor {
            id: id.to_owned(),
            title: id.to_owned(),
            description: "Counts.".to_owned(),
            input: Schema::compile(input.to_string().as_bytes()).unwrap(),
            source: ToolSource::HostExtension,
            tier,
            transport: ToolTransport::Native,
            egress: ToolEgress::None,
            replay: ToolReplay::NonDeterministic,
            required_scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
        },
        made: Arc::clone(made),
    }
}

#[derive(Debug)]
struct Nothing;

#[async_trait]
impl Grants for Nothing {
    async fn granted(&self, _: &Tenant, _: &Principal, _: Timestamp) -> Granted {
        Granted::Only(std::collections::BTreeSet::default())
    }
}

/// The world of one test: what outlives a host.
pub(crate) struct World {
    pub(crate) store: Arc<InMemoryStore>,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) model: Arc<Puppet>,
    pub(crate) coder: Arc<Coder>,
    /// The effects that tools carried out, in order.
    pub(crate) made: Arc<Mutex<Vec<String>>>,
    pub(crate) limits: HostLimits,
    /// What the next host is configured with.
    pub(crate) table: ModelTable,
    pub(crate) definitions: Vec<Value>,
    pub(crate) settings: LiveSettings,
    pub(crate) prices: PriceTable,
    pub(crate) hooks: Arc<ToolHooks>,
    /// Who is asked in the puppet's place.
    pub(crate) models: Option<Arc<dyn Model>>,
    /// Tools beside the usual ones.
    pub(crate) tools: Vec<Arc<dyn Toolbox>>,
    registry: Arc<AgentRegistry>,
}

impl World {
    pub(crate) async fn new(script: Script) -> Self {
        Self::with(script, |_| {}).await
    }

    /// With an agent that differs from the usual one.
    pub(crate) async fn with(script: Script, change: fn(&mut Value)) -> Self {
        Self::of(move |request| script(request).into(), change).await
    }

    /// With a model that may break off while it speaks.
    pub(crate) async fn of(
        script: impl Fn(&ModelRequest) -> Said + Send + Sync + 'static,
        change: fn(&mut Value),
    ) -> Self {
        let store = Arc::new(InMemoryStore::new());
        let policy = Policy { unsigned: Unsigned::Allowed, ..Policy::default() };
        let installed = pack(&policy, change);
        let opened = AgentRegistry::open(Arc::clone(&store) as _, policy, vec![installed]).await;
        Self {
            registry: Arc::new(opened.expect("the pack loads").0),
            store,
            clock: SimClock::new(),
            model: Arc::new(Puppet {
                script: Box::new(script),
                asked: Mutex::default(),
                thinks: Mutex::default(),
            }),
            coder: Arc::default(),
            made: Arc::default(),
            limits: HostLimits { max_run_duration_ms: 86_400_000, ..HostLimits::default() },
            table: ModelTable {
                default: Some("puppet/one".parse::<ModelRef>().unwrap()),
                providers: ["puppet".to_owned()].into(),
                coding: ["named", "nameless", "loose", "asking"].map(str::to_owned).into(),
                ..ModelTable::default()
            },
            definitions: vec![
                workflow("desk", &["agent"]),
                workflow("pair", &["agent", "second"]),
                errand(),
            ],
            settings: LiveSettings::default(),
            prices: PriceTable::default().with("puppet/dear".parse().unwrap(), DOLLARS),
            hooks: Arc::default(),
            models: None,
            tools: Vec::new(),
        }
    }

    /// A tool that counts, of whatever name.
    pub(crate) fn counter(&self, id: &str) -> Arc<dyn Tool> {
        Arc::new(tool(id, SafetyTier::Read, &[], &self.made))
    }

    pub(crate) fn host(&self, name: &str, store: Arc<dyn Store>) -> Engine {
        let tools: Vec<Arc<dyn Tool>> = vec![
            Arc::new(tool(COUNT, SafetyTier::Read, &[], &self.made)),
            Arc::new(tool(POST, SafetyTier::Write, &[], &self.made)),
            Arc::new(tool(SECRET_DOOR, SafetyTier::Read, &["doors:open"], &self.made)),
        ];
        let workflows = Arc::new(WorkflowTools::default());
        let mut toolboxes: Vec<Arc<dyn Toolbox>> = vec![
            Arc::new(tools.into_iter().collect::<FixedTools>()),
            Arc::new(memory_tools().expect("the schemas compile")),
            Arc::new(file_tools().expect("the schemas compile")),
            Arc::clone(&workflows) as _,
        ];
        toolboxes.extend(self.tools.iter().cloned());
        let live = LiveAgents {
            registry: Arc::clone(&self.registry),
            models: self.models.clone().unwrap_or_else(|| Arc::clone(&self.model) as _),
            coders: Arc::clone(&self.coder) as _,
            table: self.table.clone(),
            prices: self.prices.clone(),
            toolbox: Arc::new(Toolboxes(toolboxes)),
            hooks: Arc::clone(&self.hooks),
            grants: Arc::new(Nothing),
            prompt_resolver: PromptResolver {
                library: PromptLibrary::new(Arc::clone(&self.store) as _, built_in_prompts()),
                agents: Arc::clone(&self.registry),
                observability: Observability::default(),
            },
            settings: self.settings.clone(),
            contracts: Contracts::default(),
        };
        let mut catalog = Catalog::new(Arc::clone(&self.store) as _, ConformanceNodes::Off);
        for definition in &self.definitions {
            catalog.load(&definition.to_string()).expect("the definition compiles");
        }
        let engine = Engine::new(Parts {
            store,
            catalog,
            activities: Activities::default().with_agents(Arc::new(live)),
            directory: Arc::new(AgentDirectory {
                registry: Arc::clone(&self.registry),
                deployments: Deployments::new(Arc::clone(&self.store) as _),
            }),
            secrets: Secrets::new(Arc::clone(&self.store) as _),
            clock: Arc::clone(&self.clock) as _,
            ids: CountedIds::new(name),
            options: Options {
                host: name.into(),
                lease: LEASE,
                heartbeat: LEASE / 3,
                driving: DrivingLimits::default(),
                limits: self.limits,
            },
        });
        workflows.attach(&engine);
        engine.start();
        engine
    }

    /// Runs the agent alone to its end.
    pub(crate) async fn run(&self, task: Value, configurable: Value) -> Vec<Recorded> {
        let host = self.host("host", Arc::clone(&self.store) as _);
        let run = host.create(agent_order(task, configurable), None).await.unwrap().run;
        ended(&self.store, &run).await
    }

    /// Waits until a run asks somebody something.
    pub(crate) async fn until_asked(&self) {
        let asked = async {
            while open_questions(&self.store).await.is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        // Far longer than any lease, so that even a lost host is no reason.
        let within = tokio::time::timeout(Duration::from_secs(600), asked);
        within.await.expect("nobody was asked anything");
    }

    pub(crate) fn asked(&self) -> usize {
        self.model.asked.lock().unwrap().len()
    }

    /// The run's log as it stands.
    pub(crate) async fn log(&self, run: &RunId) -> Vec<Recorded> {
        let page = self.store.read(&scope(), run, 0, usize::MAX).await.unwrap();
        page.expect("the run is there").events
    }
}

/// The agent once for each node, one after the other.
pub(crate) fn workflow(id: &str, nodes: &[&str]) -> Value {
    let node = |id: &&str| {
        json!({
            "id": id, "typeId": "core.identity", "name": id, "position": { "x": 0, "y": 0 },
            "config": {}, "inputs": { "text": { "type": "variable", "variableName": "text" } },
            "agent": { "agentId": AGENT },
        })
    };
    let edge =
        |pair: &[&str]| json!({ "id": pair[1], "sourceNodeId": pair[0], "targetNodeId": pair[1] });
    json!({
        "id": id, "name": id, "version": "1.0", "variables": [],
        "edges": nodes.windows(2).map(edge).collect::<Vec<_>>(),
        "triggers": [], "metadata": {}, "settings": {},
        "nodes": nodes.iter().map(node).collect::<Vec<_>>(),
    })
}

/// A workflow without an agent.
fn errand() -> Value {
    let mut definition = workflow("errand", &["only"]);
    definition["nodes"] = json!([{
        "id": "only", "typeId": "core.noop", "name": "only", "position": { "x": 0, "y": 0 },
        "config": {}, "inputs": {},
    }]);
    definition
}

fn pack(policy: &Policy, change: fn(&mut Value)) -> Installed {
    let mut agent = json!({
        "agentId": AGENT, "persona": "Triager", "modelClass": "classification",
        "systemPrompt": "Sort it.", "toolAllowlist": [COUNT, POST, SECRET_DOOR],
        "handoff": { "taskSchemaRef": "task.json", "returnSchemaRef": "result.json" },
    });
    change(&mut agent);
    let manifest = json!({
        "name": "vendor.acme.desk", "version": "1.0.0", "agents": [agent],
        "engines": { "openwop": ">=1.1.0 <2.0.0" },
        "runtime": { "language": "remote", "entry": "pack.json" },
    });
    let task = json!({ "type": "object", "required": ["text"] });
    let result = json!({
        "type": "object", "required": ["queue"], "additionalProperties": false,
        "properties": { "queue": { "type": "string" } },
    });
    let files = [("pack.json", manifest), ("task.json", task), ("result.json", result)];
    let files = files.map(|(path, value)| (path.to_owned(), value.to_string().into_bytes().into()));
    let archive = bundle(&files.into_iter().collect()).expect("an archive");
    let vetted = vet(Offer::plain(archive.into()), policy, &mut Report::default());
    Installed::new(PackOwner::Host, vetted.expect("a good pack"), Timestamp::default())
}

pub(crate) fn agent_order(task: Value, configurable: Value) -> Order {
    let fields = |value: Value| value.as_object().cloned().unwrap_or_default();
    let owner =
        Owner { tenant: "default".into(), workspace: None, principal: Some("key:k".into()) };
    Order {
        target: Target::Agent(AGENT.to_owned()),
        owner,
        ..order("desk", fields(task), fields(configurable))
    }
}

pub(crate) fn task() -> Value {
    json!({ "text": "the printer burns" })
}

pub(crate) fn kinds(log: &[Recorded]) -> Vec<&str> {
    log.iter().map(|event| event.kind.as_str()).collect()
}

pub(crate) fn payload(event: &Recorded) -> Value {
    serde_json::from_str(&event.payload).expect("JSON")
}

/// The payloads of a kind, in order.
pub(crate) fn told(log: &[Recorded], kind: &str) -> Vec<Value> {
    log.iter().filter(|event| event.kind == kind).map(payload).collect()
}

pub(crate) fn outputs(log: &[Recorded]) -> Object {
    let last = log.last().map(payload).unwrap_or_default();
    last["outputs"].as_object().cloned().unwrap_or_default()
}
