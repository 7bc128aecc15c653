//! `callboard doctor`: checks everything that a host needs, and says how to fix each problem.

mod cli;
mod host;
mod local;
mod mcp;
mod models;
mod sandbox;

use std::path::PathBuf;

use clap::Args;
use owo_colors::OwoColorize;
use serde::Serialize;

use callboard_backends::Reach;

use crate::args::{Connection, HostArgs, environment};
use crate::config::Config;
use crate::exit::{CommandError, Exit};
use crate::screen::output;
use crate::settings::Lookup;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard doctor
  callboard doctor --data /var/lib/callboard --url https://callboard.example.com --json

Changes nothing. The exit code is 1 when a check failed.")]
pub(crate) struct DoctorArgs {
    /// Data folder of the host on this machine [env: CALLBOARD_DATA] [default: ./callboard-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// PostgreSQL database that several hosts share [env: CALLBOARD_DATABASE_URL, or DATABASE_URL] [default: sqlite, the
    /// one in the data folder]
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
    /// Configuration file
    #[arg(long, value_name = "FILE", env = "CALLBOARD_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,
    /// Call MCP servers at loopback and private addresses too, as a host with this flag would
    #[arg(long, env = "CALLBOARD_ALLOW_PRIVATE_EGRESS", hide_env_values = true, value_parser = clap::builder::FalseyValueParser::new())]
    allow_private_egress: bool,
    #[command(flatten)]
    host: HostArgs,
}

/// What one look found.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// It works, but the operator should know.
    Warning,
    Failed,
    /// There was nothing to look at.
    Skipped,
}

impl Check {
    fn new(name: &'static str, state: State, found: impl Into<String>) -> Self {
        Self { name, state, found: found.into(), hint: None }
    }

    fn of(name: &'static str, error: &CommandError) -> Self {
        Self { name, state: State::Failed, found: error.what.clone(), hint: error.hint.clone() }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

pub(crate) async fn run(args: DoctorArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let config = Config::load(args.config.as_deref());
    // A file that cannot be read is reported below.
    let (data, database_url) = place(&args, config.as_ref().unwrap_or(&Config::default()))?;
    let mut checks = vec![
        local::configuration(&config),
        local::data_folder(&data),
        match database_url.as_deref() {
            Some(url) => local::shared_database(url).await,
            None => local::database(&data),
        },
        local::disk_space(&data),
    ];
    checks.extend(local::host_key(&data));
    let reach = if args.allow_private_egress { Reach::Anywhere } else { Reach::Public };
    if let Ok(config) = config {
        checks.extend(models::check(&config, environment).await);
        checks.extend(sandbox::check(&config, environment));
        checks.extend(mcp::check(&config, &data, reach).await);
        checks.extend(cli::check(&config, &data, environment).await);
    }
    checks.extend(host::check(&client).await);
    let has_failed = checks.iter().any(|check| check.state == State::Failed);
    if args.host.json {
        output::json(&serde_json::json!({ "ok": !has_failed, "checks": checks }))?;
    } else {
        checks.iter().try_for_each(print)?;
    }
    Ok(if has_failed { Exit::Failed } else { Exit::Done })
}

/// Where a host of this machine would keep its things.
fn place(args: &DoctorArgs, config: &Config) -> Result<(PathBuf, Option<String>), CommandError> {
    let mut lookup = Lookup::new(config);
    let data = lookup.data(args.data.clone(), config)?;
    Ok((data, lookup.database_url(args.database_url.clone(), config)?))
}

fn print(check: &Check) -> Result<(), CommandError> {
    let glyph = match check.state {
        State::Ok => "✓".green().to_string(),
        State::Warning => "!".yellow().to_string(),
        State::Failed => "✗".red().to_string(),
        State::Skipped => "○".dimmed().to_string(),
    };
    output::line(&format!("{glyph} {} {}", format!("{:<14}", check.name).bold(), check.found))?;
    match &check.hint {
        Some(hint) => output::line(&format!("  {:<14} {} {hint}", "", "hint:".cyan().bold())),
        None => Ok(()),
    }
}
