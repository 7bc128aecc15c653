//! What the binary hands over, and what the routes share because of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Bytes;
use callboard_agents::{
    AgentRegistry, DeploymentPolicy, Fetch, MockAi, PromptResolver, ToolHooks, Toolbox, Toolboxes,
};
use callboard_engine::{
    Annotations, AuditLog, DeliveryLoop, Deployments, Elsewhere, Engine, Envelopes, HeartbeatLoop,
    Queues, Scheduler, Store, StoreError, TriggerIngest,
};
use callboard_protocol::{
    AgentsCapability, BudgetCapability, BudgetScope, CommitmentsCapability, Contradiction, Dialect,
    HttpClientCapability, Implementation, InstallScope, InvocationSource, KeyId, LiveRuntime,
    ManifestRuntime, MemoryConsolidation, OrgChartCapability, ReasoningCapability,
    RosterCapability, Timestamp, ToolHooksCapability, ToolSource, TriggerSource,
};
use serde::Serialize;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::client::TrustedProxies;
use crate::discovery::{Discovery, capabilities};
use crate::doors::Posts;
use crate::follow::Snapshots;
use crate::hosts::HostNames;
use crate::keys::KeyRing;
use crate::load::Load;
use crate::metrics::Metrics;
use crate::oidc::Issuers;
use crate::providers::Providers;
use crate::rate::{Limited, RateLimit};
use crate::seams::Seams;
use crate::starts::Starts;
use crate::token::Links;
use crate::turns::Turns;
use crate::v2::version::Majors;

/// Everything that the routes need from outside.
#[derive(Debug, Clone)]
pub struct App {
    pub engine: Engine,
    /// Knows the webhooks.
    pub deliveries: DeliveryLoop,
    /// Knows the schedules.
    pub scheduler: Scheduler,
    /// Knows the heartbeats.
    pub heartbeats: HeartbeatLoop,
    /// Knows the trigger subscriptions.
    pub triggers: TriggerIngest,
    /// Knows what people put before standing members.
    pub queues: Queues,
    pub keys: KeyRing,
    /// Whose tokens are taken instead of keys.
    pub issuers: Issuers,
    pub agents: Arc<AgentRegistry>,
    pub deployments: Deployments,
    /// What prompts of nodes are made from.
    pub prompts: PromptResolver,
    pub envelopes: Envelopes,
    /// The mock provider, where tests may say what it answers.
    pub mock: Option<MockAi>,
    /// Every log at once.
    pub logs: Arc<dyn Store>,
    /// What tells that other hosts have changed something; none where this process has the database to itself.
    pub elsewhere: Option<Arc<dyn Elsewhere>>,
    pub downloads: Downloads,
    pub tools: Tools,
    /// Whom models are asked of.
    pub providers: Arc<dyn Providers>,
    pub config: ServerConfig,
    pub readiness: Arc<dyn Readiness>,
    /// Reads the host's files again; none where it was started without any.
    pub reload: Option<Arc<dyn Reload>>,
    /// None answers `/metrics` with an empty page.
    pub metrics: Option<Metrics>,
    pub annotations: Annotations,
    pub audit: AuditLog,
    /// The doors of the protocol's test suite, where an operator asked for them.
    pub seams: Option<Arc<dyn Seams>>,
    /// Signs links to interrupts.
    pub links: Links,
    /// Once cancelled, open streams and long polls end by themselves.
    pub shutdown: CancellationToken,
}

impl App {
    /// Whether what discovery would say holds together. To be asked before anything is served.
    pub fn check(&self) -> Result<(), Contradiction> {
        capabilities(&Host::new(self.clone()), &[]).check()
    }

    /// Takes over what other hosts have changed of what is kept in memory, so that no request goes by less than what was
    /// acknowledged before it came.
    pub(crate) async fn catch_up(&self) -> Result<(), StoreError> {
        let Some(elsewhere) = &self.elsewhere else { return Ok(()) };
        let generations = elsewhere.generations().await?;
        self.keys.catch_up(generations.keys).await?;
        self.agents.catch_up(generations.packs).await
    }
}

/// Where packs may be fetched from, and by whom.
#[derive(Debug, Clone)]
pub struct Downloads {
    pub fetch: Arc<dyn Fetch>,
    /// The addresses of registries that the operator named; callers cannot send this host anywhere else.
    pub registries: Vec<String>,
}

/// What agents may call, and the gate before it.
#[derive(Debug, Clone)]
pub struct Tools {
    pub toolbox: Arc<dyn Toolbox>,
    pub hooks: Arc<ToolHooks>,
    /// Which surfaces the toolbox shows.
    pub sources: Vec<ToolSource>,
    /// How tools fetch; none where they may reach private addresses.
    pub http_client: Option<HttpClientCapability>,
}

impl Default for Tools {
    /// None at all.
    fn default() -> Self {
        let toolbox = Arc::new(Toolboxes::default());
        Self { toolbox, hooks: Arc::default(), sources: Vec::new(), http_client: None }
    }
}

/// What an operator can set about the HTTP surface.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    pub max_body_bytes: usize,
    /// Requests and open streams of key holders at one time; past it the answer is 503.
    pub inflight: usize,
    /// The same for those who show no key: posts of triggers, links, public lists.
    pub unkeyed_inflight: usize,
    /// Bytes of bodies in memory at one time, of key holders and of others.
    pub body_bytes_inflight: u64,
    pub unkeyed_body_bytes_inflight: u64,
    /// Bytes of large answers and snapshots that wait for their readers.
    pub answer_bytes_inflight: u64,
    /// Per key; zero is off.
    pub requests_per_second: u32,
    /// How many runs may be started; shared with whoever sets other limits.
    pub starts: Arc<Starts>,
    /// Per subscription; zero is off.
    pub signed_posts_per_minute: u32,
    pub unsigned_posts_per_minute: u32,
    /// The names that clients reach this host by.
    pub hosts: HostNames,
    /// Whose word on their clients counts.
    pub proxies: TrustedProxies,
    /// Where clients reach this host, where that is not what they say in `Host`: scheme and name, without a path.
    pub public_url: Option<String>,
    /// How long a 503 asks the caller to wait.
    pub retry_after_seconds: u64,
    /// The longest silence on an event stream. The protocol asks for a sign of life every 30 seconds.
    pub keep_alive: Duration,
    /// The build, as discovery shows it.
    pub version: String,
    /// Distinguishes this host's runs from those of others.
    pub host_id: String,
    /// What discovery says of agents.
    pub agents: Option<AgentsCapability>,
    /// What this host offers of deployments. Advertised as [`DeploymentPolicy::capability`] within `agents`.
    pub deployments: DeploymentPolicy,
    /// What discovery says of the gate before tools; none while nothing goes through it.
    pub tool_hooks: Option<ToolHooksCapability>,
    /// What discovery says of budgets; none where no model is asked.
    pub budget: Option<BudgetCapability>,
    /// The coding agents that an operator lets it start.
    pub coding_agents: Vec<String>,
    /// Which majors of the protocol are served.
    pub majors: Majors,
    /// How long runs are kept after their end; none for ever.
    pub runs_kept_days: Option<u32>,
}

impl ServerConfig {
    /// The same for a host whose agents ask models and call tools.
    #[must_use]
    pub fn live(mut self) -> Self {
        if let Some(agents) = &mut self.agents {
            agents.live_runtime = Some(LiveRuntime {
                supported: true,
                structured_output: true,
                confidence_escalation: true,
                sources: vec![
                    InvocationSource::WorkflowNode,
                    InvocationSource::RunApi,
                    InvocationSource::ChatMention,
                ],
            });
            agents.reasoning = Some(reasoning());
            agents.deployment = Some(self.deployments.capability());
        }
        self.budget = Some(budget());
        self.tool_hooks = Some(ToolHooksCapability {
            supported: true,
            pre_post_events: true,
            per_tool_authorization: true,
            per_tool_rate_limit: true,
        });
        self
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            max_body_bytes: 4 * 1024 * 1024,
            inflight: 4096,
            unkeyed_inflight: 256,
            body_bytes_inflight: 256 * 1024 * 1024,
            unkeyed_body_bytes_inflight: 32 * 1024 * 1024,
            answer_bytes_inflight: 256 * 1024 * 1024,
            requests_per_second: 0,
            starts: Arc::default(),
            signed_posts_per_minute: 0,
            unsigned_posts_per_minute: 60,
            hosts: HostNames::Any,
            proxies: TrustedProxies::default(),
            public_url: None,
            retry_after_seconds: 1,
            // Half of what the protocol allows, so that one late timer breaks no promise.
            keep_alive: Duration::from_secs(15),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host_id: "callboard".to_owned(),
            agents: Some(AgentsCapability {
                supported: true,
                manifest_runtime: ManifestRuntime {
                    supported: true,
                    handoff_validation: true,
                    install_scope: InstallScope::Tenant,
                },
                memory_backends: vec!["long-term".to_owned()],
                commitments: Some(CommitmentsCapability {
                    supported: true,
                    fire_conditions: vec!["time".to_owned(), "predicate".to_owned()],
                }),
                memory_consolidation: Some(MemoryConsolidation {
                    supported: true,
                    schedule: "host-managed".to_owned(),
                }),
                orchestrator: true,
                dispatch: true,
                dispatch_mapping: true,
                sub_run_attestation: true,
                live_runtime: None,
                reasoning: None,
                // Only the bracket of a live agent says which version a channel led to.
                deployment: None,
                roster: Some(roster()),
                org_chart: Some(org_chart()),
            }),
            deployments: DeploymentPolicy::default(),
            tool_hooks: None,
            budget: None,
            coding_agents: Vec::new(),
            majors: Majors::default(),
            runs_kept_days: None,
        }
    }
}

/// What agents show of their thinking, where they show it.
pub(crate) fn reasoning() -> ReasoningCapability {
    ReasoningCapability { verbosity: "summary".to_owned(), streaming: true }
}

/// Standing members, as this build offers them.
fn roster() -> RosterCapability {
    RosterCapability {
        supported: true,
        install_scope: InstallScope::Tenant,
        // Every one of them asks for whom it fires, and fires for the member.
        portfolio_trigger_sources: TriggerSource::ALL.to_vec(),
    }
}

/// Charts over those members, each seen by those who see the members.
fn org_chart() -> OrgChartCapability {
    OrgChartCapability {
        supported: true,
        install_scope: InstallScope::Tenant,
        department_nesting: true,
        responsibility_view: true,
    }
}

/// What models may use. Enforced wherever one is asked.
fn budget() -> BudgetCapability {
    let dimensions = ["tokens", "cost", "toolCalls", "retries", "model"];
    BudgetCapability {
        supported: true,
        dimensions: dimensions.map(str::to_owned).to_vec(),
        enforce: "hard".to_owned(),
        scopes: vec![BudgetScope::Run, BudgetScope::Agent, BudgetScope::Project],
    }
}

/// Whether the host can do its work right now.
#[async_trait]
pub trait Readiness: fmt::Debug + Send + Sync {
    async fn check(&self) -> Result<(), NotReady>;
}

/// Why the host cannot work. For the operator's log; callers only learn that it is so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotReady(pub String);

/// A key that keeps being refused must not fill the disk.
const REFUSALS_PER_SECOND: u32 = 1;

/// Reads the files that a host was started with once more, while it serves.
#[async_trait]
pub trait Reload: fmt::Debug + Send + Sync {
    /// All of them or none: where one is wrong, everything stays as it was.
    async fn reload(&self) -> Result<Reloaded, NotReloaded>;
}

/// What is in force after a reload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reloaded {
    pub workflows: usize,
    pub packs: usize,
    /// Keys of the configuration that were changed and count from the next start on.
    pub needs_restart: Vec<String>,
}

/// Why nothing was changed: every file that is wrong, with its line where that is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotReloaded(pub String);

/// The app with what is derived from it once.
#[derive(Debug)]
pub struct Host {
    pub app: App,
    pub(crate) load: Load,
    pub(crate) rate: RateLimit<KeyId>,
    pub(crate) starts: Arc<Starts>,
    pub(crate) posts: Posts,
    /// Refusals that are told of a key; beyond it they are only logged.
    pub(crate) refusals: RateLimit<KeyId>,
    pub(crate) snapshots: Snapshots,
    pub(crate) turns: Turns,
    pub(crate) discovery: Discovery,
    pub(crate) openapi: Bytes,
    pub(crate) second_openapi: Bytes,
    /// The digest of the program, once somebody has asked for it.
    pub(crate) build: OnceCell<String>,
    pub(crate) started_at: Timestamp,
}

impl Host {
    pub(crate) fn new(app: App) -> Self {
        Self {
            load: Load::new(&app.config),
            rate: RateLimit::new(Limited::Key, app.config.requests_per_second),
            starts: Arc::clone(&app.config.starts),
            posts: Posts::new(
                app.config.signed_posts_per_minute,
                app.config.unsigned_posts_per_minute,
            ),
            refusals: RateLimit::new(Limited::Key, REFUSALS_PER_SECOND),
            snapshots: Snapshots::default(),
            turns: Turns::default(),
            discovery: Discovery::default(),
            openapi: crate::openapi::document(&app.config.version, Dialect::V1),
            second_openapi: crate::openapi::document(&app.config.version, Dialect::V2),
            build: OnceCell::new(),
            started_at: app.engine.clock().now(),
            app,
        }
    }

    /// What this build calls itself.
    pub(crate) fn implementation(&self) -> Implementation {
        Implementation {
            name: "callboard".to_owned(),
            version: self.app.config.version.clone(),
            vendor: "callboard".to_owned(),
        }
    }

    pub fn now(&self) -> Timestamp {
        self.app.engine.clock().now()
    }
}
