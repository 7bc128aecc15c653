//! `callboard serve`: runs the host until it is asked to stop.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use callboard_backends::Reach;
use callboard_engine::RetryPace;
use callboard_server::{Majors, SCOPES, StaticKey, StaticKeyError, is_host_name};

use crate::args::{ApiKey, environment};
use crate::config::Config;
use crate::exit::{CommandError, Exit};
use crate::handover;
use crate::process::{LogFormat, OnHangup, Stop, start_logging};
use crate::screen::output;
use crate::wire::{Host, Settings};

const DEFAULT_HEARTBEAT_MS: u64 = 10_000;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard serve
  callboard serve --listen 0.0.0.0:8787 --data /var/lib/callboard --workflows ./workflows
  callboard serve --api-key \"$KEY=acme+runs:create+runs:read\"

The first start without a key creates one and prints it, once, on standard error.
SIGTERM and Ctrl-C let the current steps finish (10 s) and end with exit code 0;
runs that are still active continue at the next start.")]
pub(crate) struct ServeArgs {
    /// Address to listen on; port 0 picks a free one
    #[arg(
        long,
        value_name = "ADDR",
        env = "CALLBOARD_LISTEN",
        hide_env_values = true,
        default_value = "127.0.0.1:8787"
    )]
    listen: String,
    /// Name that clients may send in Host, in addition to localhost and addresses; repeatable [env: CALLBOARD_HOSTS,
    /// separated by ','] [default: any name, or none where it listens on a loopback address]
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Folder of the embedded database and the host's key
    #[arg(
        long,
        value_name = "DIR",
        env = "CALLBOARD_DATA",
        hide_env_values = true,
        default_value = "./callboard-data"
    )]
    data: PathBuf,
    /// PostgreSQL database that several hosts share, as postgres://USER@HOST/NAME; better in the environment, which other
    /// users cannot see [env: CALLBOARD_DATABASE_URL] [default: SQLite in the data folder]
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
    /// Configuration file [default: ./callboard.toml if it is there]
    #[arg(long, value_name = "FILE", env = "CALLBOARD_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,
    /// Folder of workflow definitions (*.yaml, *.json); repeatable [env: CALLBOARD_WORKFLOWS, separated by ':']
    #[arg(long, value_name = "DIR")]
    workflows: Vec<PathBuf>,
    /// Pack for every tenant: an archive, its folder, or a folder of them; repeatable [env: CALLBOARD_PACKS,
    /// separated by ':']
    #[arg(long, value_name = "PATH")]
    packs: Vec<PathBuf>,
    /// Static key; repeatable. No scope means all of them [env: CALLBOARD_API_KEYS, separated by ',']
    #[arg(long = "api-key", value_name = "KEY[=TENANT[/WORKSPACE][+SCOPE…]]")]
    api_keys: Vec<ApiKey>,
    /// Mount the nodes and endpoints of the conformance suite, and treat every key as a test key
    #[arg(long, env = "CALLBOARD_TEST_SEAMS", hide_env_values = true, value_parser = clap::builder::FalseyValueParser::new())]
    test_seams: bool,
    /// Serve the second major of the protocol alone: /v1 ends, and 2.0 becomes the preferred version
    #[arg(long, env = "CALLBOARD_WITHOUT_V1", hide_env_values = true, value_parser = clap::builder::FalseyValueParser::new())]
    without_v1: bool,
    /// First wait before a durable webhook is tried again, in milliseconds; the later waits and the rests of a receiver
    /// that keeps failing grow and shrink with it
    #[arg(long, value_name = "MS", env = "CALLBOARD_WEBHOOK_RETRY_MS", hide_env_values = true, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    webhook_retry_ms: u64,
    /// Let webhooks, tools and registries of packs reach loopback and private addresses, also without TLS
    #[arg(long, env = "CALLBOARD_ALLOW_PRIVATE_EGRESS", hide_env_values = true, value_parser = clap::builder::FalseyValueParser::new())]
    allow_private_egress: bool,
    /// How long a claim on a run lasts without renewal, in milliseconds
    #[arg(long, value_name = "MS", env = "CALLBOARD_LEASE_MS", hide_env_values = true, default_value_t = 30_000, value_parser = clap::value_parser!(u64).range(100..=3_600_000))]
    lease: u64,
    /// How often claims are renewed, in milliseconds; at most half the lease [default: 10000, or a
    /// third of a shorter lease]
    #[arg(long, value_name = "MS", env = "CALLBOARD_HEARTBEAT_MS", hide_env_values = true)]
    heartbeat: Option<u64>,
    /// What to log, as a tracing filter: info, debug, callboard_engine=trace
    #[arg(
        long,
        value_name = "FILTER",
        env = "CALLBOARD_LOG",
        hide_env_values = true,
        default_value = "info"
    )]
    log: String,
    /// How to log
    #[arg(
        long,
        value_name = "FORMAT",
        env = "CALLBOARD_LOG_FORMAT",
        hide_env_values = true,
        default_value = "text"
    )]
    log_format: LogFormat,
}

pub(crate) async fn run(args: ServeArgs) -> Result<Exit, CommandError> {
    start_logging(&args.log, args.log_format)?;
    if !handover::lock() {
        tracing::warn!("this kernel lets programs of the same user look into the host's memory");
    }
    let settings = settle(args)?;
    if settings.test_seams && !cfg!(feature = "conformance") {
        return Err(CommandError::usage("this build has no test seams"));
    }
    if settings.test_seams {
        tracing::warn!(
            "test seams are on: every key is a test key, conformance-only nodes run and test doors are open; never in production"
        );
    }
    if settings.reach == Reach::Anywhere {
        tracing::warn!(
            "private egress is on: anyone who may register a webhook or name a tool can make this host call private addresses"
        );
    }
    let mut stop = Stop::listen(OnHangup::GoOn)?;
    let host = Host::start(settings).await?;
    if let Some(key) = host.first_key() {
        output::note(&format!("api key: {}", key.expose()));
    }
    if let Some(link) = host.console_link() {
        output::note(&format!("console: {link}"));
    }
    output::line(&format!("listening on {}", host.url()))?;
    tracing::info!(address = host.url(), "serving");
    stop.asked().await;
    tracing::info!("stopping");
    tokio::select! {
        () = host.stop() => tracing::info!("stopped"),
        // Runs are safe on disk: who asks twice need not wait.
        () = stop.asked() => tracing::warn!("stopped without waiting"),
    }
    Ok(Exit::Done)
}

/// What was typed, set and written in the file, as one whole that can be served.
fn settle(args: ServeArgs) -> Result<Settings, CommandError> {
    if args.database_url.as_deref().is_some_and(|url| url.contains('@')) {
        tracing::warn!(
            "--database-url was given on the command line, where other users can see it: use CALLBOARD_DATABASE_URL"
        );
    }
    let heartbeat = args.heartbeat.unwrap_or_else(|| DEFAULT_HEARTBEAT_MS.min(args.lease / 3));
    if heartbeat == 0 || heartbeat > args.lease / 2 {
        let what = format!("--heartbeat {heartbeat} does not go with --lease {}", args.lease);
        return Err(CommandError::usage(what)
            .hint("a claim must survive one missed heartbeat: 1 to half of the lease"));
    }
    Ok(Settings {
        listen: args.listen,
        hosts: settle_hosts(args.hosts)?,
        data: args.data,
        database_url: args.database_url.or_else(|| environment("CALLBOARD_DATABASE_URL")),
        config: Config::load(args.config.as_deref())?,
        workflows: settle_paths(args.workflows, "CALLBOARD_WORKFLOWS"),
        packs: settle_paths(args.packs, "CALLBOARD_PACKS"),
        api_keys: settle_keys(&args.api_keys)?,
        test_seams: args.test_seams,
        majors: if args.without_v1 { Majors::Second } else { Majors::Both },
        webhook_pace: RetryPace::of_first_wait(Duration::from_millis(args.webhook_retry_ms)),
        variable: environment,
        reach: if args.allow_private_egress { Reach::Anywhere } else { Reach::Public },
        lease: Duration::from_millis(args.lease),
        heartbeat: Duration::from_millis(heartbeat),
    })
}

/// A flag that is given replaces the environment; it does not add to it.
fn settle_paths(given: Vec<PathBuf>, variable: &str) -> Vec<PathBuf> {
    match environment(variable).filter(|_| given.is_empty()) {
        Some(text) => std::env::split_paths(&text).collect(),
        None => given,
    }
}

fn settle_hosts(given: Vec<String>) -> Result<Vec<String>, CommandError> {
    let set = environment("CALLBOARD_HOSTS").filter(|_| given.is_empty()).unwrap_or_default();
    let set = set.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
    let hosts: Vec<String> = given.into_iter().chain(set).collect();
    match hosts.iter().find(|name| !is_host_name(name)) {
        Some(wrong) => Err(CommandError::usage(format!("--host {wrong}: not a host's name"))
            .hint("write the name alone, without http:// and port: callboard.example.com")),
        None => Ok(hosts),
    }
}

/// Read here rather than by the parser of arguments, which would repeat a wrong one with its secret.
fn settle_keys(given: &[ApiKey]) -> Result<Vec<StaticKey>, CommandError> {
    let named = given.iter().map(|key| ("--api-key", key.expose().to_owned()));
    let set = environment("CALLBOARD_API_KEYS").filter(|_| given.is_empty()).unwrap_or_default();
    let set = set.split(',').map(str::trim).filter(|key| !key.is_empty());
    let set = set.map(|key| ("CALLBOARD_API_KEYS", key.to_owned()));
    named.chain(set).map(|(place, text)| parse_key(place, &text)).collect()
}

fn parse_key(place: &str, text: &str) -> Result<StaticKey, CommandError> {
    text.parse().map_err(|error: StaticKeyError| {
        let wrong = CommandError::usage(format!("{place}: {error}"));
        match error {
            StaticKeyError::UnknownScope(_) => {
                wrong.hint(format!("known scopes: {}", SCOPES.join(", ")))
            }
            StaticKeyError::Empty
            | StaticKeyError::NotSendable
            | StaticKeyError::EmptyRealm
            | StaticKeyError::Unwritable(_) => {
                wrong.hint("write it as KEY[=TENANT[/WORKSPACE][+SCOPE…]]")
            }
        }
    })
}
