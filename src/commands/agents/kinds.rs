//! `callboard agents kinds`: the coding agents that this program can start, compared.

use std::path::PathBuf;

use clap::Args;
use comfy_table::Cell;
use serde_json::json;

use callboard_backends::KindFacts;

use crate::config::Config;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard agents kinds --json

Each is a model: `cli/claude-code` in [models] or CALLBOARD_MODEL; those of [cli.NAME] in the
configuration file are listed last. NEEDS is what an agent's toolAllowlist must contain for it
to be started at all; `callboard doctor` says which are installed.")]
pub(crate) struct KindsArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE", env = "CALLBOARD_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &KindsArgs) -> Result<Exit, CommandError> {
    let kinds = Config::load(args.config.as_deref())?.cli.kinds();
    if args.json {
        let kinds: Vec<_> = kinds.iter().map(machine).collect();
        output::json(&json!({ "kinds": kinds }))?;
        return Ok(Exit::Done);
    }
    let rows = kinds.iter().map(|kind| {
        let mark = |has: bool| Cell::new(if has { "yes" } else { "-" });
        let needs = kind.needs.join(" ");
        [
            Cell::new(&kind.name),
            Cell::new(&kind.program),
            mark(kind.is_live()),
            mark(kind.resumes()),
            mark(kind.forks()),
            mark(kind.names_sessions()),
            mark(kind.takes_a_model()),
            Cell::new(if needs.is_empty() { "-".to_owned() } else { needs }),
        ]
    });
    let headers = ["kind", "program", "live", "resume", "fork", "own id", "model", "needs"];
    output::table(headers, rows.collect())?;
    Ok(Exit::Done)
}

fn machine(kind: &KindFacts) -> serde_json::Value {
    json!({
        "kind": kind.name,
        "model": format!("cli/{}", kind.name),
        "program": kind.program,
        "capabilities": kind.capabilities,
        "needs": kind.needs,
    })
}
