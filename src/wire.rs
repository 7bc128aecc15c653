//! Puts a host together: database, engine, activities and HTTP, and takes it apart again in order.

mod agents;
mod check;
pub(crate) mod cli;
#[cfg(not(feature = "conformance"))]
mod conformance;
pub(crate) mod console;
pub(crate) mod database;
mod doors;
mod engine;
mod folder;
mod gauges;
mod guard;
mod issuers;
mod known;
mod limited;
mod measured;
mod models;
mod others;
mod packs;
mod presence;
mod providers;
mod reload;
pub(crate) mod sandbox;
mod sign_on;
mod space;
mod standing;
mod tls;
pub(crate) mod tools;
mod uses;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use callboard_agents::{AgentRegistry, Policy};
use callboard_backends::{Egress, Exporter, OtlpError, OtlpSettings, Reach, SystemLookup};
#[cfg(feature = "conformance")]
use callboard_conformance as conformance;
use callboard_engine::{
    Annotations, AuditLog, Clock, Engine, Envelopes, RetryPace, Store, SystemClock,
};
use callboard_protocol::KeyId;
use callboard_server::{
    App, Downloads, HostNames, KeyRing, Links, Majors, Metrics, Reload, ServerConfig, StaticKey,
    TestKeys, TrustedProxies,
};

use crate::args::{ApiKey, environment};
use crate::config::{Config, TlsFiles};
use crate::exit::{CommandError, Exit};
use crate::process;
pub(crate) use check::faults;
use database::Database;
use engine::deployments;
use gauges::Gauges;
use guard::Guard;
pub(crate) use limited::ProviderLimits;
use models::ModelWiring;
use others::Others;
use presence::Presence;
pub(crate) use reload::Again;
use reload::Reloader;
use sandbox::Places;
use sign_on::Issued;
use space::Space;
use standing::Standing;
use uses::Uses;

/// What running steps get to reach their next recorded event.
const DRAIN: Duration = Duration::from_secs(10);
/// The promise is thirteen seconds from the signal to the end; one of them is for closing the database.
const STOP_WITHIN: Duration = Duration::from_secs(12);

/// What an operator decided about one host.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) listen: String,
    /// The names that it is reached by; none leaves that to the address.
    pub(crate) hosts: Vec<String>,
    /// Where clients reach it, where that is not what they say in `Host`.
    pub(crate) public_url: Option<String>,
    /// Whose word on their clients counts.
    pub(crate) proxies: TrustedProxies,
    /// The certificate that it shows; none is HTTP without TLS.
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) data: PathBuf,
    /// A PostgreSQL that other hosts use as well; none is the database in the data folder.
    pub(crate) database_url: Option<String>,
    pub(crate) config: Config,
    /// Folders of definitions for every tenant.
    pub(crate) workflows: Vec<PathBuf>,
    /// Packs for every tenant: archives, folders of packs, or folders of either.
    pub(crate) packs: Vec<PathBuf>,
    pub(crate) api_keys: Vec<StaticKey>,
    pub(crate) test_seams: bool,
    /// Which majors of the protocol are served.
    pub(crate) majors: Majors,
    /// How attempts at durable webhooks follow each other.
    pub(crate) webhook_pace: RetryPace,
    /// The environment's word on models, their keys and traces.
    pub(crate) variable: fn(&str) -> Option<String>,
    /// How far requests of the host itself may go.
    pub(crate) reach: Reach,
    pub(crate) lease: Duration,
    pub(crate) heartbeat: Duration,
    /// How to read all of this again; none where there is nothing to read.
    pub(crate) again: Option<Again>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:0".to_owned(),
            hosts: Vec::new(),
            public_url: None,
            proxies: TrustedProxies::default(),
            tls: None,
            data: PathBuf::from("callboard-data"),
            database_url: None,
            config: Config::default(),
            workflows: Vec::new(),
            packs: Vec::new(),
            api_keys: Vec::new(),
            test_seams: false,
            majors: Majors::Both,
            webhook_pace: RetryPace::default(),
            variable: environment,
            reach: Reach::Public,
            lease: Duration::from_secs(30),
            heartbeat: Duration::from_secs(10),
            again: None,
        }
    }
}

/// A host that answers.
#[derive(Debug)]
pub(crate) struct Host {
    url: String,
    first_key: Option<ApiKey>,
    /// Signs its first reader in, once; only where this start made the key.
    console_link: Option<String>,
    database: Database,
    engine: Engine,
    reload: Option<Arc<dyn Reload>>,
    shutdown: CancellationToken,
    /// Cancelled once no run can end any more: what is left of the traces may go.
    quiet: CancellationToken,
    tasks: TaskTracker,
}

impl Host {
    /// Returns once requests are served. The settings are checked first, so that a start
    /// that cannot succeed changes nothing.
    #[expect(clippy::too_many_lines, reason = "one line for each part of a host")]
    pub(crate) async fn start(settings: Settings) -> Result<Self, CommandError> {
        let exporter =
            exporter(&settings).map_err(|error| CommandError::usage(error.to_string()))?;
        let definitions = folder::read(&settings.workflows)?;
        let policy = settings.config.packs.policy();
        let server = server_config(&settings.config)?;
        server.starts.set(settings.config.start_limits());
        let packs = packs::find(&settings.packs)?;
        cli::check(&settings.config.cli, &settings.data)?;
        let issuers = issuers::configured(&settings)?;
        let tls = settings.tls.as_ref().map(tls::open).transpose()?;
        let (listener, address) = bind(&settings.listen).await?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{address}");
        let database = Database::open(&settings).await?;
        let store = database.store();
        let metrics =
            Metrics::install().map_err(|error| CommandError::failed(error.to_string()))?;
        let agents = open_agents(&settings, packs, policy, store.clone()).await?;
        let models = ModelWiring::new(&settings, store.clone(), agents.clone())?;
        sandbox::warn(&settings.config, &models.table);
        let has_coding_agents = !models.table.coding.is_empty();
        let coding_agents = models.table.coding.iter().cloned().collect();
        let egress = Egress::new(settings.reach, Arc::new(SystemLookup));
        egress.set_lists(settings.config.egress_lists());
        let places = Places::of(&settings.data, &database.name());
        let tools = tools::assemble(&settings.config, &egress, &places)?;
        let test_keys = if settings.test_seams { TestKeys::All } else { TestKeys::ByPrefix };
        let keys = KeyRing::load(store.clone(), settings.api_keys.clone(), test_keys)
            .await
            .map_err(|error| unkept("the stored keys cannot be read", &error))?;
        keys.set_file_roles(settings.config.file_roles())
            .await
            .map_err(|error| unkept("the stored roles cannot be read", &error))?;
        let coders = cli::open(&settings.config, &places, &database)?;
        let dispatch =
            agents::dispatch(&settings, agents.clone(), &tools.served, &keys, &models, &coders);
        if !dispatch.is_live {
            tracing::warn!(
                "no model is configured: agents are answered by the scripted stand-in, which is no model at all; set CALLBOARD_MODEL or [models]"
            );
        }
        let server = if dispatch.is_live { server.live() } else { server };
        let acting = agents::acting(&settings, &tools.served, &keys, &egress, &tools.mcp);
        let engine = engine::build(
            &settings,
            definitions,
            &database,
            agents.clone(),
            dispatch,
            &models,
            acting,
        );
        tools.workflows.attach(&engine);
        let egress = Arc::new(egress);
        let standing = Standing::assemble(&settings, &engine, &database, &egress).await?;
        let (shutdown, quiet) = (CancellationToken::new(), CancellationToken::new());
        let reload = settings.again.clone().map(|again| {
            let scheduler = standing.scheduler.clone();
            let reloader = Reloader::new(
                again,
                engine.clone(),
                agents.clone(),
                scheduler,
                keys.clone(),
                (Arc::clone(&egress), Arc::clone(&server.starts)),
                tls.clone(),
            );
            Arc::new(reloader) as Arc<dyn Reload>
        });
        let app = App {
            engine: engine.clone(),
            deliveries: standing.deliveries.clone(),
            scheduler: standing.scheduler.clone(),
            triggers: standing.triggers.clone(),
            queues: standing.queues.clone(),
            heartbeats: standing.heartbeats.clone(),
            keys: keys.clone(),
            issuers: issuers.issuers.clone(),
            config: ServerConfig {
                host_id: format!("callboard-{}", database.name()),
                hosts: HostNames::of(address.ip(), &named(&settings)),
                public_url: settings.public_url.clone(),
                proxies: settings.proxies.clone(),
                majors: settings.majors,
                coding_agents,
                ..server
            },
            agents: agents.clone(),
            deployments: deployments(&settings, &store),
            prompts: models.prompt_resolver,
            envelopes: Envelopes::new(store.clone()),
            mock: models.mock,
            logs: store.clone(),
            elsewhere: database.elsewhere(),
            downloads: Downloads {
                fetch: egress,
                registries: settings.config.packs.registries.clone(),
            },
            tools: tools.served,
            providers: Arc::new(models.providers),
            readiness: Arc::new(database.clone()),
            reload: reload.clone(),
            metrics: Some(metrics.clone()),
            links: Links::new(store.clone()),
            annotations: Annotations::new(store.clone()),
            audit: AuditLog::new(store.clone()),
            seams: settings.test_seams.then(conformance::doors).flatten(),
            shutdown: shutdown.clone(),
        };
        app.check().map_err(|contradiction| {
            CommandError::usage(format!("this host would contradict itself: {contradiction}"))
                .hint("fix the section of callboard.toml that enables or disables one of the two")
        })?;
        // Nothing after this can fail: a key that was stored and never shown is useless.
        let first_key = first_key(&keys).await?;
        let sign_on = Issued {
            clients: issuers.clients,
            keys: keys.clone(),
            public_url: settings.public_url.clone(),
            is_tls: tls.is_some(),
        };
        let app_keys = keys.clone();
        let router = callboard_server::router(app);
        let console =
            console::open(&router, store.clone(), &keys, settings.config.console.lifetime())
                .with_sign_on(Arc::new(sign_on));
        let console_link = first_key
            .as_ref()
            .and_then(|(id, _)| console::link(&console, scheme, address, id.clone()));
        let first_key = first_key.map(|(_, text)| text);
        let doors = doors::open(&router, shutdown.clone());
        let router = callboard_server::with_pages(router, console.router().merge(doors.router()));
        let tasks = TaskTracker::new();
        if let Some(exporter) = exporter {
            tasks.spawn(exporter.run(engine.clone(), engine.ended(), quiet.clone()));
        }
        // Servers of tools end once no run can call them any more.
        tasks.spawn(tools.mcp.run(quiet.clone()));
        tasks.spawn(coders.sweeper.run(shutdown.clone()));
        if has_coding_agents {
            let guard = Guard { records: coders.records, lease: settings.lease };
            tasks.spawn(guard.keep(quiet.clone()));
        }
        engine.start();
        standing.start();
        if let Database::Shared(store) = &database {
            let others = Others { store: store.clone(), engine: engine.clone(), keys, agents };
            tasks.spawn(others.watch(shutdown.clone()));
            let (address, version) = (url.clone(), env!("CARGO_PKG_VERSION").to_owned());
            let engine = engine.clone();
            let presence = Presence { store: store.clone(), engine, address, version };
            tasks.spawn(presence.keep(shutdown.clone()));
        }
        if !issuers.issuers.is_empty() {
            tasks.spawn(issuers::keep_fresh(issuers.issuers, shutdown.clone()));
        }
        tasks.spawn(Uses { keys: app_keys }.keep(shutdown.clone()));
        tasks.spawn(metrics.keep_up(shutdown.clone()));
        tasks.spawn(Space::of(settings.data.clone()).watch(shutdown.clone()));
        let gauges = Gauges::of(database.clone(), engine.clone(), store.clone());
        tasks.spawn(gauges.keep(shutdown.clone()));
        let connections = process::connections(settings.config.limits.connections);
        let serving =
            callboard_server::serve_over(tls, listener, router, connections, shutdown.clone());
        tasks.spawn(serving);
        Ok(Self { url, first_key, console_link, database, engine, reload, shutdown, quiet, tasks })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The admin key that this start had to make, if no key was there.
    pub(crate) fn first_key(&self) -> Option<&ApiKey> {
        self.first_key.as_ref()
    }

    /// The address that signs the holder of that key in at the console, once and soon.
    pub(crate) fn console_link(&self) -> Option<&str> {
        self.console_link.as_deref()
    }

    /// Reads the files again; what comes of it is in the log.
    pub(crate) async fn reload(&self) {
        if let Some(reload) = &self.reload {
            // Said by whoever reads them.
            let _ = reload.reload().await;
        }
    }

    /// Stops accepting, lets running steps come to a good place, gives claims back and closes the database.
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.tasks.close();
        let drained = async {
            self.engine.shut_down(DRAIN).await;
            self.quiet.cancel();
        };
        let stopped = async { tokio::join!(drained, self.tasks.wait()) };
        if tokio::time::timeout(STOP_WITHIN, stopped).await.is_err() {
            tracing::warn!(
                "stopping although something is still under way; the next start takes it over"
            );
        }
        self.database.shutdown().await;
    }
}

/// The names that the operator gave; who names the address has named the host.
fn named(settings: &Settings) -> Vec<String> {
    let of_url = settings.public_url.as_deref().and_then(|url| url.split_once("://"));
    let name = of_url.map(|(_, authority)| match authority.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => name.to_owned(),
        _ => authority.to_owned(),
    });
    // With no name at all, a host that others reach takes any; an address alone must not end that.
    let name = name.filter(|_| !settings.hosts.is_empty() || is_loopback(&settings.listen));
    settings.hosts.iter().cloned().chain(name).collect()
}

fn is_loopback(listen: &str) -> bool {
    let host = listen.rsplit_once(':').map_or(listen, |(host, _)| host);
    host == "localhost"
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Traces go where OpenTelemetry's own variables say, or nowhere.
fn exporter(settings: &Settings) -> Result<Option<Exporter>, OtlpError> {
    let traced = || settings.config.telemetry.traced(settings.variable);
    let found = OtlpSettings::read(settings.variable)?;
    found.map(|found| Exporter::new(found, traced())).transpose()
}

/// Answers where the host can be reached, too.
pub(crate) async fn bind(listen: &str) -> Result<(TcpListener, SocketAddr), CommandError> {
    let refuse = |error: io::Error| {
        let refused = |exit| CommandError::new(exit, format!("cannot listen on {listen}: {error}"));
        match error.kind() {
            io::ErrorKind::AddrInUse => refused(Exit::Failed).hint(
                "another process listens there: stop it, or choose another address with --listen",
            ),
            io::ErrorKind::PermissionDenied => refused(Exit::Failed)
                .hint("ports below 1024 are reserved: choose a higher one with --listen"),
            _ => refused(Exit::Usage)
                .hint("write the address as 127.0.0.1:8787; port 0 picks a free one"),
        }
    };
    let listener = TcpListener::bind(listen).await.map_err(refuse)?;
    let address = listener.local_addr().map_err(refuse)?;
    Ok((listener, address))
}

async fn open_agents(
    settings: &Settings,
    packs: Vec<PathBuf>,
    policy: Policy,
    store: Arc<dyn Store>,
) -> Result<Arc<AgentRegistry>, CommandError> {
    let mut loaded = packs::load(&packs, &policy, SystemClock.now());
    if settings.test_seams {
        let ours = conformance::packs(&policy, SystemClock.now())
            .map_err(|error| CommandError::failed(format!("the conformance packs: {error}")))?;
        loaded.extend(ours);
    }
    let (agents, left) = AgentRegistry::open(store, policy, loaded)
        .await
        .map_err(|error| unkept("the installed packs cannot be read", &error))?;
    for left in left {
        let (name, version) = (&left.id.name, &left.id.version);
        tracing::warn!(pack = %name, %version, error = %left.why, "installed pack left out");
    }
    Ok(Arc::new(agents))
}

async fn first_key(keys: &KeyRing) -> Result<Option<(KeyId, ApiKey)>, CommandError> {
    let made = keys.bootstrap(SystemClock.now()).await;
    let made = made.map_err(|error| unkept("no first key could be stored", &error))?;
    Ok(made.map(|(id, text)| (id, ApiKey::from(text.reveal().to_owned()))))
}

fn server_config(config: &Config) -> Result<ServerConfig, CommandError> {
    let limits = &config.limits;
    let usual = ServerConfig::default();
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let rate = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    Ok(ServerConfig {
        max_body_bytes: size(limits.max_body_bytes),
        inflight: size(limits.inflight),
        unkeyed_inflight: size(limits.unkeyed_inflight),
        body_bytes_inflight: limits.body_bytes_inflight,
        unkeyed_body_bytes_inflight: limits.unkeyed_body_bytes_inflight,
        answer_bytes_inflight: limits.answer_bytes_inflight,
        requests_per_second: rate(limits.requests_per_second),
        starts: Arc::default(),
        signed_posts_per_minute: rate(limits.signed_posts_per_minute),
        unsigned_posts_per_minute: rate(limits.unsigned_posts_per_minute),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        deployments: config.deployments.policy(),
        agents: config.roster.advertise(usual.agents.clone())?,
        runs_kept_days: config.retention.days(),
        ..usual
    })
}

/// What the database does not give or take.
fn unkept(what: &str, error: &dyn fmt::Display) -> CommandError {
    CommandError::failed(format!("{what}: {error}"))
        .hint("check the disk and the permissions of the data folder; `callboard doctor` says more")
}
