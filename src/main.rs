//! The `callboard` command: parses the arguments, runs the command, and exits with its code.

mod archive;
mod args;
mod client;
mod commands;
mod config;
mod disk;
mod exit;
mod handover;
mod inputs;
mod process;
mod sandbox;
mod screen;
mod settings;
mod watch;
mod wire;

use std::num::NonZero;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use args::{Cli, Command, Read};
use commands::{
    agents, audit, chat, completions, config as config_command, confine, console, db, demo, doctor,
    guard, health, heartbeats, hosts, inbox, keys, mcp, memory, nodes, org_chart, packs, reload,
    roles, roster, run, runs, schedules, secrets, serve, spend, tools, triggers, workflows,
};
use exit::{CommandError, Exit};
use screen::output;

// docs/background/decisions/0009: what a run makes is small and freed by other threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long background work may take to end after the command has; waiting longer would only hold up the shell.
const AFTERMATH: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    match read().and_then(carry_out) {
        Ok(exit) => exit.into(),
        Err(error) => {
            output::error(&error);
            error.exit.into()
        }
    }
}

fn read() -> Result<Read, CommandError> {
    let arguments = handover::arguments()?;
    handover::read_files()?;
    Cli::read(&arguments)
}

fn carry_out(read: Read) -> Result<Exit, CommandError> {
    let cli = match read {
        Read::Command(cli) => cli,
        Read::Answered(exit) => return Ok(exit),
    };
    let runtime = start_runtime(&cli.command)?;
    let ended = runtime.block_on(dispatch(*cli));
    runtime.shutdown_timeout(AFTERMATH);
    ended
}

async fn dispatch(cli: Cli) -> Result<Exit, CommandError> {
    let Cli { connection, command } = cli;
    if connection.is_given() && !command.is_client() {
        return Err(CommandError::usage(
            "--url and --api-key before the command are for commands that talk to a host",
        )
        .hint("put flags of a command after its name"));
    }
    match command {
        Command::Serve(args) => Box::pin(serve::run(*args)).await,
        Command::Run(args) => Box::pin(run::run(args, &connection)).await,
        Command::Chat(args) => Box::pin(chat::run(args, &connection)).await,
        Command::Runs(args) => Box::pin(runs::run(args, &connection)).await,
        Command::Inbox(args) => Box::pin(inbox::run(args, &connection)).await,
        Command::Workflows(args) => Box::pin(workflows::run(args, &connection)).await,
        Command::Nodes(args) => Box::pin(nodes::run(args, &connection)).await,
        Command::Tools(args) => Box::pin(tools::run(args, &connection)).await,
        Command::Schedules(args) => Box::pin(schedules::run(args, &connection)).await,
        Command::Triggers(args) => Box::pin(triggers::run(args, &connection)).await,
        Command::Heartbeats(args) => Box::pin(heartbeats::run(args, &connection)).await,
        Command::Keys(args) => Box::pin(keys::run(args, &connection)).await,
        Command::Roles(args) => Box::pin(roles::run(args, &connection)).await,
        Command::Memory(args) => Box::pin(memory::run(args, &connection)).await,
        Command::Secrets(args) => Box::pin(secrets::run(args, &connection)).await,
        Command::Agents(args) => Box::pin(agents::run(args, &connection)).await,
        Command::Roster(args) => Box::pin(roster::run(args, &connection)).await,
        Command::OrgChart(args) => Box::pin(org_chart::run(args, &connection)).await,
        Command::Packs(args) => Box::pin(packs::run(args, &connection)).await,
        Command::Console(args) => Box::pin(console::run(args, &connection)).await,
        Command::Mcp(args) => Box::pin(mcp::run(args, &connection)).await,
        Command::Spend(args) => Box::pin(spend::run(args, &connection)).await,
        Command::Hosts(args) => Box::pin(hosts::run(args, &connection)).await,
        Command::Db(args) => Box::pin(db::run(args)).await,
        Command::Audit(args) => Box::pin(audit::run(args, &connection)).await,
        Command::Doctor(args) => Box::pin(doctor::run(args, &connection)).await,
        Command::Config(args) => config_command::run(args),
        Command::Reload(args) => Box::pin(reload::run(args, &connection)).await,
        Command::Health(args) => Box::pin(health::run(args, &connection)).await,
        Command::Demo(args) => Box::pin(demo::run(args)).await,
        Command::Completions(args) => completions::run(&args),
        Command::Confine(args) => Err(confine::run(&args)),
        Command::Guard(args) => guard::run(&args),
    }
}

/// A host uses all processors, one of them for the thread that writes: where more threads want to work than there are
/// processors, they wait for each other. A client that waits for one answer needs a single thread.
fn start_runtime(command: &Command) -> Result<Runtime, CommandError> {
    let mut builder =
        if command.is_host() { Builder::new_multi_thread() } else { Builder::new_current_thread() };
    if command.is_host() {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        builder.worker_threads(processors.saturating_sub(1).max(1));
    }
    builder
        .enable_all()
        .build()
        .map_err(|error| CommandError::failed(format!("cannot start: {error}")))
}
