//! `callboard config`: what a host would be started with, and whether it could be.

use clap::{Args, Subcommand};
use comfy_table::Cell;
use serde_json::{Value, json};

use crate::commands::serve::{ServeArgs, settle};
use crate::exit::{CommandError, Exit};
use crate::screen::{output, words};
use crate::settings::Shown;
use crate::wire;

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  callboard config show
  callboard config check --config /etc/callboard/callboard.toml"
)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print every effective value, and where it comes from; secrets are hidden
    Show(ShowArgs),
    /// Read configuration, workflows and packs as a start would, and say what is wrong
    Check(CheckArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard config show
  callboard config show --config /etc/callboard/callboard.toml --json

Takes the flags of `callboard serve`, and shows what a host started with them would use. Contacts no host.")]
struct ShowArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    serve: Box<ServeArgs>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard config check
  callboard config check --config /etc/callboard/callboard.toml --workflows ./workflows

Takes the flags of `callboard serve`. Changes nothing and opens no database. The exit code is 1 when
something is wrong.")]
struct CheckArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    serve: Box<ServeArgs>,
}

pub(crate) fn run(args: ConfigArgs) -> Result<Exit, CommandError> {
    match args.command {
        ConfigCommand::Show(args) => show(args),
        ConfigCommand::Check(args) => check(args),
    }
}

fn show(args: ShowArgs) -> Result<Exit, CommandError> {
    let settled = settle(*args.serve)?;
    let settings = &settled.settings;
    let mut shown = settled.lookup.shown;
    shown.extend(settings.config.effective(settings.variable)?);
    if args.json {
        let value = |Shown { key, value, origin }: &Shown| json!({ "key": key, "value": value, "origin": origin.to_string() });
        let file = settings.config.path.as_ref();
        let values: Vec<Value> = shown.iter().map(value).collect();
        return output::document(&json!({ "file": file, "values": values }));
    }
    let row = |Shown { key, value, origin }: Shown| {
        let value = value.as_str().map_or_else(|| words::compact(&value), str::to_owned);
        [Cell::new(key), Cell::new(words::plain(&value)), Cell::new(origin)]
    };
    output::table(["key", "value", "from"], shown.into_iter().map(row).collect())?;
    for (name, used) in &settled.lookup.overruled {
        output::hint(&format!("{name} is set and not used: {used} says it"));
    }
    Ok(Exit::Done)
}

fn check(args: CheckArgs) -> Result<Exit, CommandError> {
    let faults = match settle(*args.serve) {
        Ok(settled) => wire::faults(&settled.settings),
        Err(error) => vec![error],
    };
    if args.json {
        let problem = |error: &CommandError| json!({ "what": error.what, "hint": error.hint });
        let problems: Vec<Value> = faults.iter().map(problem).collect();
        output::json(&json!({ "ok": faults.is_empty(), "problems": problems }))?;
    } else if faults.is_empty() {
        output::line("configuration is good")?;
    } else {
        faults.iter().for_each(output::error);
    }
    Ok(if faults.is_empty() { Exit::Done } else { Exit::Failed })
}
