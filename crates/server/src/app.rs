//! What the binary hands over, and what the routes share because of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Bytes;
use callboard_agents::{AgentRegistry, DeploymentPolicy, Fetch};
use callboard_engine::{Annotations, Courier, Deployments, Engine};
use callboard_protocol::{
    AgentsCapability, Implementation, InstallScope, ManifestRuntime, Timestamp,
};
use tokio_util::sync::CancellationToken;

use crate::discovery::Discovery;
use crate::keys::KeyRing;
use crate::load::Load;
use crate::metrics::Metrics;
use crate::rate::RateLimit;
use crate::seams::{Overlay, TestSeams};
use crate::token::Links;
use crate::turns::Turns;

/// Everything that the routes need from outside.
#[derive(Debug, Clone)]
pub struct App {
    pub engine: Engine,
    /// Knows the webhooks.
    pub courier: Courier,
    pub keys: KeyRing,
    pub agents: Arc<AgentRegistry>,
    pub deployments: Arc<dyn Deployments>,
    pub downloads: Downloads,
    pub config: ServerConfig,
    pub readiness: Arc<dyn Readiness>,
    /// None answers `/metrics` with an empty page.
    pub metrics: Option<Metrics>,
    pub annotations: Arc<dyn Annotations>,
    /// The doors of the protocol's test suite.
    pub seams: TestSeams,
    /// Signs links to interrupts.
    pub links: Links,
    /// Once cancelled, open streams and long polls end by themselves.
    pub shutdown: CancellationToken,
}

/// Where packs may be fetched from, and by whom.
#[derive(Debug, Clone)]
pub struct Downloads {
    pub fetch: Arc<dyn Fetch>,
    /// The addresses of registries that the operator named; callers cannot send this host anywhere else.
    pub registries: Vec<String>,
}

/// What an operator can set about the HTTP surface.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    pub max_body_bytes: usize,
    /// Requests and open streams at one time; past it the answer is 503.
    pub inflight: usize,
    /// Per key; zero is off.
    pub requests_per_second: u32,
    /// What a 503 tells the caller to wait.
    pub retry_after_seconds: u64,
    /// The longest silence on an event stream. The protocol asks for a sign of life every 30 seconds.
    pub keep_alive: Duration,
    /// The build, as discovery shows it.
    pub version: String,
    /// Tells this host's runs from those of others.
    pub host_id: String,
    /// What discovery says of agents.
    pub agents: Option<AgentsCapability>,
    /// What this host offers of deployments. Advertised as [`DeploymentPolicy::capability`] within `agents`.
    pub deployments: DeploymentPolicy,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            max_body_bytes: 4 * 1024 * 1024,
            inflight: 4096,
            requests_per_second: 0,
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
                // Not before runs say which version a channel led to.
                deployment: None,
            }),
            deployments: DeploymentPolicy::default(),
        }
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

/// The app with what is derived from it once.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) app: App,
    pub(crate) load: Load,
    pub(crate) rate: RateLimit,
    pub(crate) turns: Turns,
    pub(crate) discovery: Discovery,
    pub(crate) overlay: Overlay,
    pub(crate) openapi: Bytes,
}

impl Host {
    pub(crate) fn new(app: App) -> Self {
        Self {
            load: Load::new(app.config.inflight, app.config.retry_after_seconds),
            rate: RateLimit::new(app.config.requests_per_second),
            turns: Turns::default(),
            discovery: Discovery::default(),
            overlay: Overlay::default(),
            openapi: crate::openapi::document(&app.config.version),
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

    pub(crate) fn now(&self) -> Timestamp {
        self.app.engine.clock().now()
    }
}
