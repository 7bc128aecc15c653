//! `callboard serve`: runs the host until it is asked to stop.

mod settle;

use std::path::PathBuf;

use clap::Args;

use callboard_backends::Reach;

use crate::args::ApiKey;
use crate::exit::{CommandError, Exit};
use crate::handover;
use crate::process::{Heard, LogFormat, OnHangup, Stop, start_logging};
use crate::screen::output;
use crate::wire::Host;

pub(crate) use settle::settle;

/// An hour: whoever waits longer between two attempts has another problem.
const LONGEST_MS: u64 = 3_600_000;
/// A shorter claim would be lost on a busy machine.
const SHORTEST_LEASE_MS: u64 = 100;

#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  callboard serve
  callboard serve --listen 0.0.0.0:8787 --data /var/lib/callboard --workflows ./workflows
  callboard serve --api-key \"$KEY=acme+runs:create+runs:read\"

The first start without a key creates one and prints it, once, on standard error.
SIGHUP and `callboard reload` read workflows, packs, trusted keys and limits of runs again.
SIGTERM and Ctrl-C let the current steps finish (10 s) and end with exit code 0;
runs that are still active continue at the next start.")]
pub(crate) struct ServeArgs {
    /// Address to listen on; port 0 picks a free one [env: CALLBOARD_LISTEN, or PORT] [default: 127.0.0.1:8787]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Name that clients may send in Host, in addition to localhost and addresses; repeatable [env: CALLBOARD_HOSTS,
    /// separated by ','] [default: any name, or none where it listens on a loopback address]
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Folder of the embedded database and the host's key [env: CALLBOARD_DATA] [default: ./callboard-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// PostgreSQL database that several hosts share, as postgres://USER@HOST/NAME; better in the environment, which other
    /// users cannot see [env: CALLBOARD_DATABASE_URL, or DATABASE_URL] [default: sqlite, the one in the data folder]
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
    /// [env: CALLBOARD_TEST_SEAMS]
    #[arg(long)]
    test_seams: bool,
    /// Serve the second major of the protocol alone: /v1 ends, and 2.0 becomes the preferred version; the console and the
    /// commands of callboard go on [env: CALLBOARD_WITHOUT_V1]
    #[arg(long)]
    without_v1: bool,
    /// First wait before a durable webhook is tried again, in milliseconds; the later waits and the rests of a receiver
    /// that keeps failing grow and shrink with it [env: CALLBOARD_WEBHOOK_RETRY_MS] [default: 1000]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=LONGEST_MS))]
    webhook_retry_ms: Option<u64>,
    /// Let webhooks, tools and registries of packs reach loopback and private addresses, also without TLS
    /// [env: CALLBOARD_ALLOW_PRIVATE_EGRESS]
    #[arg(long)]
    allow_private_egress: bool,
    /// How long a claim on a run lasts without renewal, in milliseconds [env: CALLBOARD_LEASE_MS] [default: 30000]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(SHORTEST_LEASE_MS..=LONGEST_MS))]
    lease: Option<u64>,
    /// How often claims are renewed, in milliseconds; at most half the lease [env: CALLBOARD_HEARTBEAT_MS] [default: 10000,
    /// or a third of a shorter lease]
    #[arg(long, value_name = "MS")]
    heartbeat: Option<u64>,
    /// What to log, as a tracing filter: info, debug, callboard_engine=trace [env: CALLBOARD_LOG, or LOG_LEVEL]
    /// [default: info]
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// How to log [env: CALLBOARD_LOG_FORMAT, or LOG_JSON] [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
}

pub(crate) async fn run(args: ServeArgs) -> Result<Exit, CommandError> {
    let is_url_typed = args.database_url.as_deref().is_some_and(|url| url.contains('@'));
    let settled = settle(args)?;
    start_logging(&settled.log, settled.log_format)?;
    if !handover::lock() {
        tracing::warn!("this kernel lets programs of the same user look into the host's memory");
    }
    if is_url_typed {
        tracing::warn!(
            "--database-url was given on the command line, where other users can see it: use CALLBOARD_DATABASE_URL"
        );
    }
    for (name, origin) in &settled.lookup.overruled {
        tracing::info!(name, used = %origin, "variable is set and not used");
    }
    let settings = settled.settings;
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
    let mut stop = Stop::listen(OnHangup::Reload)?;
    let host = Host::start(settings).await?;
    if let Some(key) = host.first_key() {
        output::note(&format!("api key: {}", key.expose()));
    }
    if let Some(link) = host.console_link() {
        output::note(&format!("console: {link}"));
    }
    output::line(&format!("listening on {}", host.url()))?;
    tracing::info!(address = host.url(), "serving");
    while stop.heard().await == Heard::Hangup {
        host.reload().await;
    }
    tracing::info!("stopping");
    tokio::select! {
        () = host.stop() => tracing::info!("stopped"),
        // Runs are safe on disk: who asks twice need not wait.
        () = stop.asked() => tracing::warn!("stopped without waiting"),
    }
    Ok(Exit::Done)
}
