//! `callboard runs ancestry`: which runs started this one.

use clap::Args;
use owo_colors::OwoColorize;
use serde_json::json;

use callboard_protocol::{RunOrigin, RunSnapshot};

use crate::args::{Connection, HostArgs};
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard runs ancestry run_0199f2c4

The run comes first, then its parent, up to the root run, what was delivered to that one and the
member it is for. A fork also names the run whose history it took over.")]
pub(crate) struct AncestryArgs {
    /// Id of the run
    #[arg(value_name = "RUN")]
    run: String,
    #[command(flatten)]
    host: HostArgs,
}

pub(super) async fn run(
    mut args: AncestryArgs,
    earlier: &Connection,
) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    args.run = client.whole_run_id(&args.run).await?;
    let mut line_of_descent = vec![client.run(&args.run).await?.1];
    let origin = client.origin(&args.run).await?;
    for above in &origin.runs {
        line_of_descent.push(client.run(above.run_id.as_str()).await?.1);
    }
    if args.host.json {
        let runs: Vec<_> = line_of_descent.iter().map(as_json).collect();
        let mut shown = json!({ "runs": runs });
        if let Some(delivery) = &origin.delivery {
            shown["delivery"] = json!(delivery);
        }
        if let Some(member) = &origin.member {
            shown["member"] = json!(member);
        }
        output::json(&shown)?;
        return Ok(Exit::Done);
    }
    for (depth, run) in line_of_descent.iter().enumerate() {
        let margin = if depth == 0 { String::new() } else { "  ".repeat(depth - 1) + "└─ " };
        let (status, workflow) = (run.status.as_str(), &run.workflow_id);
        output::line(&format!("{margin}{} {workflow} {}", run.run_id.bold(), status.dimmed()))?;
        if let Some(node) = &run.parent_node_id {
            output::line(&format!("{}started by node {node} of", "  ".repeat(depth + 1)))?;
        }
        if let Some(fork) = &run.fork {
            let source = &fork.source_run_id;
            let told = format!("forked from {source} at {}", fork.from_seq);
            output::line(&format!("{}{told}", "  ".repeat(depth + 1)))?;
        }
    }
    for line in beginning(&origin) {
        output::line(&format!("{}{line}", "  ".repeat(line_of_descent.len())))?;
    }
    Ok(Exit::Done)
}

/// What began the uppermost run.
fn beginning(origin: &RunOrigin) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(delivery) = &origin.delivery {
        let (id, over) = (&delivery.delivery_id, &delivery.subscription_id);
        lines.push(format!("delivered as {id} over {over}"));
        lines.extend(delivery.work_id.as_ref().map(|work| format!("which was work item {work}")));
    }
    if let Some(member) = &origin.member {
        let (persona, id, source) = (&member.persona, &member.roster_id, &member.trigger_source);
        lines.push(format!("for {persona} ({id}), fired by {source}"));
    }
    lines
}

fn as_json(run: &RunSnapshot) -> serde_json::Value {
    json!({
        "runId": run.run_id,
        "workflowId": run.workflow_id,
        "status": run.status,
        "parentRunId": run.parent_run_id,
        "parentNodeId": run.parent_node_id,
        "fork": run.fork,
    })
}
