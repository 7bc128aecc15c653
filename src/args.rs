//! Command-line arguments: the commands, and the two flags that every client command shares.

use std::ffi::OsString;
use std::fmt;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};
use serde::Serialize;

use crate::client::Client;
use crate::commands::{
    agents, audit, chat, completions, config, confine, console, db, demo, doctor, guard, health,
    heartbeats, hosts, inbox, keys, mcp, memory, nodes, org_chart, packs, reload, roles, roster,
    run, runs, schedules, secrets, serve, spend, tools, triggers, workflows,
};
use crate::exit::{CommandError, Exit};
use crate::handover;
use crate::screen::output;

const DEFAULT_URL: &str = "http://127.0.0.1:8787";

/// A single-binary host for standing AI agents: durable runs that any OpenWOP client can read.
#[derive(Debug, Parser)]
#[command(
    name = "callboard",
    version,
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = "Examples:
  callboard demo --once
  callboard serve --workflows ./workflows
  callboard run nightly-report --input '{\"day\": \"2026-01-31\"}' --follow

Exit codes: 0 done, 1 the run or the check failed, 2 wrong usage, 3 not found,
4 refused (auth), 5 the host cannot be reached."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) connection: Connection,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The result of parsing the arguments.
#[derive(Debug)]
pub(crate) enum Read {
    Command(Box<Cli>),
    /// Help or the version was asked for, and printed.
    Answered(Exit),
}

impl Cli {
    /// Reads the arguments of this process; what is wrong with them is said as every other error is.
    pub(crate) fn read(arguments: &[OsString]) -> Result<Read, CommandError> {
        let error = match Self::try_parse_from(arguments) {
            Ok(cli) => return Ok(Read::Command(Box::new(cli))),
            Err(error) => error,
        };
        let text = error.render();
        if !error.use_stderr() {
            output::text(&text.ansi().to_string())?;
            return Ok(Read::Answered(Exit::Done));
        }
        if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            output::note(text.ansi().to_string().trim_end());
            return Ok(Read::Answered(Exit::Usage));
        }
        Err(complaint(&text.to_string()))
    }
}

/// Turns the parser's text into ours: its tip is the hint, and its pointer to the help where it has no tip.
fn complaint(text: &str) -> CommandError {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let (what, _) = text.split_once("\n\nFor more information").unwrap_or((text, ""));
    let (tips, rest): (Vec<&str>, Vec<&str>) =
        what.lines().partition(|line| line.trim_start().starts_with("tip: "));
    let tip = tips.first().and_then(|tip| tip.trim_start().strip_prefix("tip: "));
    let what = rest.join("\n").replace("\n\n\n", "\n\n");
    CommandError::usage(what.trim_end()).hint(tip.unwrap_or("add --help to see what is possible"))
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the host
    Serve(Box<serve::ServeArgs>),
    /// Start a run, and watch it with --follow
    Run(run::RunArgs),
    /// Give a member or an agent a task in chat, and follow its run
    Chat(chat::ChatArgs),
    /// Runs: list, show, events, fork and more
    Runs(runs::RunsArgs),
    /// Open questions of runs: list, answer
    Inbox(inbox::InboxArgs),
    /// Workflow definitions: new, validate, test, apply, list, show and more
    Workflows(workflows::WorkflowsArgs),
    /// Node types that workflows can use: list, show
    Nodes(nodes::NodesArgs),
    /// Tools that agents and steps can call: list, show
    Tools(tools::ToolsArgs),
    /// Schedules of workflows: list, add, next, pause and more
    Schedules(schedules::SchedulesArgs),
    /// Triggers, by which other systems start workflows: list, add, deliver, dead-letters and more
    Triggers(triggers::TriggersArgs),
    /// Addresses that are polled for changes: list, add, pause, resume, remove
    Heartbeats(heartbeats::HeartbeatsArgs),
    /// API keys: create, list, revoke, rotate, rotate-links
    Keys(keys::KeysArgs),
    /// Names for sets of scopes: list, set, remove
    Roles(roles::RolesArgs),
    /// Memory of agents and workflows: list, get, history, restore, forget
    Memory(memory::MemoryArgs),
    /// Secrets for runs: set, list, remove
    Secrets(secrets::SecretsArgs),
    /// Installed agents: list, show, kinds, deploy
    Agents(agents::AgentsArgs),
    /// Standing members: hire, show, pause, fire, work and more
    Roster(roster::RosterArgs),
    /// The org chart of the roster: show, put
    OrgChart(org_chart::OrgChartArgs),
    /// Agent packs: new, pack, sign, verify, install, list, remove
    Packs(packs::PacksArgs),
    /// Print a link that opens the console, signed in; with --url, show another host
    Console(console::ConsoleArgs),
    /// Serve the Model Context Protocol on standard input and output, for editors and agents
    Mcp(mcp::McpArgs),
    /// What models were paid, by day, agent, member, model and workflow
    Spend(spend::SpendArgs),
    /// The hosts that drive runs, and whether providers of models answer: list
    Hosts(hosts::HostsArgs),
    /// The database of a host itself: status, stats, backup, restore, migrate, copy
    Db(db::DbArgs),
    /// What changed access or policy, and whether the log of it is whole
    Audit(audit::AuditArgs),
    /// Check configuration, data folder, host, key and clock
    Doctor(doctor::DoctorArgs),
    /// What the host is configured with: show, check
    Config(config::ConfigArgs),
    /// Have a host read its workflows, packs and limits again
    Reload(reload::ReloadArgs),
    /// Ask a host whether it is ready, for containers and scripts
    Health(health::HealthArgs),
    /// Run a host in a temporary folder with a member at work; needs no key, network or configuration
    Demo(demo::DemoArgs),
    /// Print completions for a shell
    Completions(completions::CompletionsArgs),
    /// Start a program that sees little of this machine: what the host puts before its children
    #[command(hide = true)]
    Confine(confine::ConfineArgs),
    /// End the coding agents of a host that has died or is frozen: what the host starts beside itself
    #[command(hide = true)]
    Guard(guard::GuardArgs),
}

impl Command {
    /// Whether this process becomes a host.
    pub(crate) fn is_host(&self) -> bool {
        matches!(self, Self::Serve(_) | Self::Demo(_))
    }

    /// Whether it talks to one.
    pub(crate) fn is_client(&self) -> bool {
        !self.is_host()
            && !matches!(
                self,
                Self::Config(_)
                    | Self::Db(_)
                    | Self::Completions(_)
                    | Self::Confine(_)
                    | Self::Guard(_)
            )
    }
}

/// Said of each argument, since a heading of the whole would go on to the arguments that follow it.
const CONNECTION: &str = "Connection";

/// The host and the key to use.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Connection {
    /// Address of the host [env: CALLBOARD_URL] [default: http://127.0.0.1:8787]
    #[arg(long, value_name = "URL", help_heading = CONNECTION)]
    url: Option<String>,
    /// Key for the host [env: CALLBOARD_API_KEY]
    #[arg(long = "api-key", value_name = "KEY", help_heading = CONNECTION)]
    key: Option<ApiKey>,
}

/// What a command has that asks a host and shows the answer.
#[derive(Debug, Args)]
pub(crate) struct HostArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    connection: Connection,
}

impl HostArgs {
    pub(crate) fn client(&self, earlier: &Connection) -> Result<Client, CommandError> {
        self.connection.client(earlier)
    }

    /// Shows the answer as it is to machines, and a line about it to people.
    pub(crate) fn show<T: Serialize>(&self, answer: &T, line: &str) -> Result<Exit, CommandError> {
        if self.json { output::document(answer) } else { output::done(line) }
    }
}

/// A key that does not show itself when something is printed for debugging.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ApiKey(String);

impl From<String> for ApiKey {
    fn from(key: String) -> Self {
        Self(key)
    }
}

impl ApiKey {
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

impl Connection {
    /// To a host that this process runs itself.
    pub(crate) fn to(url: String, key: ApiKey) -> Self {
        Self { url: Some(url), key: Some(key) }
    }

    /// What is not said here is taken from what was said before the command.
    #[must_use]
    pub(crate) fn or(&self, earlier: &Self) -> Self {
        Self {
            url: self.url.clone().or_else(|| earlier.url.clone()),
            key: self.key.clone().or_else(|| earlier.key.clone()),
        }
    }

    pub(crate) fn client(&self, earlier: &Self) -> Result<Client, CommandError> {
        Client::new(&self.or(earlier))
    }

    pub(crate) fn is_given(&self) -> bool {
        self.url.is_some() || self.key.is_some()
    }

    /// Whether a host was named here, and not by the environment.
    pub(crate) fn names_url(&self) -> bool {
        self.url.is_some()
    }

    pub(crate) fn url(&self) -> String {
        self.url
            .clone()
            .or_else(|| environment("CALLBOARD_URL"))
            .unwrap_or_else(|| DEFAULT_URL.to_owned())
    }

    pub(crate) fn api_key(&self) -> Option<ApiKey> {
        self.key.clone().or_else(|| environment("CALLBOARD_API_KEY").map(ApiKey))
    }
}

/// An environment variable that says something. Empty is how many tools write "not set".
pub(crate) fn environment(name: &str) -> Option<String> {
    handover::variable(name).filter(|value| !value.is_empty())
}
