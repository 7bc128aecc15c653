//! `callboard runs show`: the current state of one run.

use clap::Args;
use comfy_table::Cell;

use callboard_protocol::{ForkMode, Object, RunSnapshot};

use crate::args::{Connection, HostArgs};
use crate::exit::{CommandError, Exit};
use crate::screen::{output, words};

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard runs show run_0199f2c4 --json")]
pub(crate) struct ShowArgs {
    /// Id of the run
    #[arg(value_name = "RUN")]
    run: String,
    #[command(flatten)]
    host: HostArgs,
}

pub(super) async fn run(mut args: ShowArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    args.run = client.whole_run_id(&args.run).await?;
    let (document, snapshot) = client.run(&args.run).await?;
    if args.host.json {
        output::json(&document)?;
    } else {
        print(&snapshot)?;
    }
    Ok(Exit::Done)
}

fn print(run: &RunSnapshot) -> Result<(), CommandError> {
    output::field("run", run.run_id.as_str())?;
    output::field("workflow", run.workflow_id.as_str())?;
    output::field("status", run.status.as_str())?;
    output::field("created", &run.created_at.to_string())?;
    if let (Some(started), Some(ended)) = (run.started_at, run.completed_at) {
        output::field("took", &words::duration(ended.since(started)))?;
    }
    if let Some(metrics) = &run.metrics {
        output::field("cost", &words::cost(&metrics.openwop_cost))?;
    }
    print_family(run)?;
    if let Some(node) = &run.current_node_id {
        output::field("waits at", node.as_str())?;
    }
    if !run.tags.is_empty() {
        output::field("tags", &words::plain(&run.tags.join(", ")))?;
    }
    if let Some(error) = &run.error {
        output::field("error", &words::plain(&format!("{}: {}", error.code, error.message)))?;
    }
    print_values("variables", Some(&run.variables))?;
    print_values("channels", run.channels.as_ref())?;
    print_nodes(run)
}

/// The runs that this one has to do with.
fn print_family(run: &RunSnapshot) -> Result<(), CommandError> {
    if let (Some(parent), Some(node)) = (&run.parent_run_id, &run.parent_node_id) {
        output::field("parent", &format!("{parent} at {node}"))?;
    }
    for child in &run.child_runs {
        let (id, node, status) = (&child.run_id, &child.node_id, child.status.as_str());
        output::field("child", &format!("{id} {status}, started by {node}"))?;
    }
    if let Some(fork) = &run.fork {
        let mode = match fork.mode {
            ForkMode::Replay => "replay",
            ForkMode::Branch => "branch",
        };
        output::field(mode, &format!("of {} from event {}", fork.source_run_id, fork.from_seq))?;
    }
    Ok(())
}

fn print_values(title: &str, values: Option<&Object>) -> Result<(), CommandError> {
    let Some(values) = values.filter(|values| !values.is_empty()) else { return Ok(()) };
    let text = words::pretty(values);
    output::line("")?;
    output::line(title)?;
    output::line(&text)
}

fn print_nodes(run: &RunSnapshot) -> Result<(), CommandError> {
    if run.node_states.is_empty() {
        return Ok(());
    }
    output::line("")?;
    let rows = run.node_states.iter().map(|(id, node)| {
        let took = node
            .started_at
            .zip(node.ended_at)
            .map(|(started, ended)| words::duration(ended.since(started)));
        let error = node
            .error
            .as_ref()
            .map(|error| words::plain(&format!("{}: {}", error.code, error.message)));
        [
            Cell::new(id),
            Cell::new(&node.status),
            Cell::new(node.attempts),
            Cell::new(took.unwrap_or_default()),
            Cell::new(error.unwrap_or_default()),
        ]
    });
    output::table(["node", "status", "attempts", "took", "error"], rows.collect())
}
