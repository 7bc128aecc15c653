//! `callboard runs diff`: the first difference of two runs, and how each ended.

use clap::Args;
use comfy_table::{Cell, Color};
use owo_colors::OwoColorize;
use serde_json::Value;

use callboard_core::{
    ComparedOp, EventDiff, EventOp, NodeComparison, RunComparison, RunDiff, RunTotals, VisitRecord,
};

use crate::args::{Connection, HostArgs};
use crate::exit::{CommandError, Exit};
use crate::screen::{output, words};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard runs diff run_0199f2c4 run_0199f2d7
  callboard runs diff run_0199f2c4 run_0199f2d7 --json

Nodes are compared visit by visit, whatever stands between them: outcome, outputs, model,
prompt and tokens make a difference, cost and time are shown. --events compares the logs
place by place instead, by type, node and payload.")]
pub(crate) struct DiffArgs {
    /// Id of the run that was there first
    #[arg(value_name = "A")]
    a: String,
    /// Id of the run to compare it with
    #[arg(value_name = "B")]
    b: String,
    /// Compare the logs event by event, too
    #[arg(long)]
    events: bool,
    #[command(flatten)]
    host: HostArgs,
}

/// Events shown to a person; `--json` has them all.
const SHOWN: usize = 40;

pub(super) async fn run(mut args: DiffArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    for run in [&mut args.a, &mut args.b] {
        *run = client.whole_run_id(run).await?;
    }
    let (mut document, diff) = client.diff(&args.a, &args.b).await?;
    let comparison = client.comparison(&args.a, &args.b).await?;
    if args.host.json {
        if let Some(comparison) = &comparison {
            document["comparison"] = serde_json::json!(comparison);
        }
        return output::document(&document);
    }
    output::field("a", diff.a.as_str())?;
    output::field("b", diff.b.as_str())?;
    match diff.diverged_at_seq {
        Some(sequence) => {
            output::field("diverged", &format!("at event {sequence}").yellow().to_string())?;
        }
        None => output::field("diverged", &"nowhere".green().to_string())?,
    }
    if let Some(comparison) = &comparison {
        print_totals(comparison)?;
        print_nodes(comparison)?;
    }
    if args.events || comparison.is_none() {
        print_events(&diff)?;
    }
    print_state(&diff)?;
    if diff.truncated {
        output::hint("only a part was compared: a run is still active, or the rest is too large");
    }
    Ok(Exit::Done)
}

fn print_totals(comparison: &RunComparison) -> Result<(), CommandError> {
    let side = |of: fn(&RunTotals) -> String| (of(&comparison.a), of(&comparison.b));
    let rows = [
        ("status", side(|totals| totals.status.clone())),
        ("model calls", side(|totals| totals.used.calls.to_string())),
        (
            "tokens",
            side(|totals| (totals.used.input_tokens + totals.used.output_tokens).to_string()),
        ),
        ("cost", side(|totals| totals.used.cost_usd.map_or_else(String::new, words::dollars))),
    ];
    let used = comparison.a.used.calls + comparison.b.used.calls > 0;
    let rows = rows.into_iter().take(if used { 4 } else { 1 });
    let cells = rows.map(|(name, (a, b))| [Cell::new(name), Cell::new(a), Cell::new(b)]);
    output::line("")?;
    output::table(["run", "a", "b"], cells.collect())
}

/// The visits that differ; the others are counted.
fn print_nodes(comparison: &RunComparison) -> Result<(), CommandError> {
    let differs = |node: &&NodeComparison| node.op != ComparedOp::Same;
    let rows: Vec<_> = comparison.nodes.iter().filter(differs).map(node_row).collect();
    let (shown, same) = (rows.len().min(SHOWN), comparison.nodes.len() - rows.len());
    if shown > 0 {
        output::line("")?;
        let more = rows.len() - shown;
        output::table(["node", "change", "a", "b"], rows.into_iter().take(SHOWN).collect())?;
        if more > 0 {
            output::hint(&format!("{more} more nodes differ: add --json"));
        }
    }
    output::field("same", &format!("{same} of {} visits of nodes", comparison.nodes.len()))
}

fn node_row(node: &NodeComparison) -> [Cell; 4] {
    let (change, colour) = match node.op {
        ComparedOp::Added => ("added", Color::Green),
        ComparedOp::Removed => ("removed", Color::Red),
        ComparedOp::Changed | ComparedOp::Same => ("changed", Color::Yellow),
    };
    let name = match node.visit {
        0 => node.node_id.to_string(),
        visit => format!("{} (visit {})", node.node_id, visit + 1),
    };
    let models = |of_a: bool| {
        let sides = node
            .calls
            .iter()
            .filter_map(|call| if of_a { call.a.as_ref() } else { call.b.as_ref() });
        let mut models: Vec<&str> = sides.map(|call| call.model.as_str()).collect();
        models.dedup();
        models.join(", ")
    };
    [
        Cell::new(words::plain(&name)),
        Cell::new(change).fg(colour),
        Cell::new(visit_text(node.a.as_ref(), &models(true))).fg(Color::Red),
        Cell::new(visit_text(node.b.as_ref(), &models(false))).fg(Color::Green),
    ]
}

/// What a visit came to, in a line.
fn visit_text(visit: Option<&VisitRecord>, models: &str) -> String {
    let Some(visit) = visit else { return "–".to_owned() };
    let mut parts = vec![match &visit.error {
        Some(code) => format!("{} {code}", visit.outcome),
        None => visit.outcome.clone(),
    }];
    if let Some(outputs) = &visit.outputs {
        parts.push(words::preview(outputs));
    }
    if visit.used.calls > 0 {
        parts.push(models.to_owned());
        parts.push(format!("{} tokens", visit.used.input_tokens + visit.used.output_tokens));
        parts.extend(visit.used.cost_usd.map(words::dollars));
    }
    words::plain(&parts.join(", "))
}

fn print_events(diff: &RunDiff) -> Result<(), CommandError> {
    if diff.event_diffs.is_empty() {
        return Ok(());
    }
    output::line("")?;
    let rows = diff.event_diffs.iter().take(SHOWN).map(event_row);
    output::table(["seq", "change", "event", "a", "b"], rows.collect())?;
    let more = diff.event_diffs.len().saturating_sub(SHOWN);
    if more > 0 {
        output::hint(&format!("{more} more events differ: add --json"));
    }
    Ok(())
}

fn event_row(event: &EventDiff) -> [Cell; 5] {
    let (change, colour) = match event.op {
        EventOp::Added => ("added", Color::Green),
        EventOp::Removed => ("removed", Color::Red),
        EventOp::Changed => ("changed", Color::Yellow),
    };
    let (a, b) = (event.a_event.as_ref(), event.b_event.as_ref());
    let (name, a, b) = match (a, b) {
        // The same thing happened with another result: only what differs is worth a place.
        (Some(a), Some(b)) if name(a) == name(b) => {
            (name(a), changed_fields(a, b), changed_fields(b, a))
        }
        (Some(a), Some(b)) => (String::new(), name(a), name(b)),
        (Some(only), None) => (name(only), payload(only), String::new()),
        (None, Some(only)) => (name(only), String::new(), payload(only)),
        (None, None) => (String::new(), String::new(), String::new()),
    };
    [
        Cell::new(event.seq),
        Cell::new(change).fg(colour),
        Cell::new(name),
        Cell::new(a).fg(Color::Red),
        Cell::new(b).fg(Color::Green),
    ]
}

/// What happened, and to which node.
fn name(event: &Value) -> String {
    let text = |field: &str| event.get(field).and_then(Value::as_str).unwrap_or_default();
    words::plain(format!("{} {}", text("type"), text("nodeId")).trim_end())
}

/// What stands elsewhere on the line, or differs between any two runs.
const NOISE: [&str; 3] = ["nodeId", "runId", "durationMs"];

fn payload(event: &Value) -> String {
    fields(event, |_, _| true)
}

/// The fields of `event` that `other` does not have in the same way.
fn changed_fields(event: &Value, other: &Value) -> String {
    let other = other.get("payload");
    fields(event, |name, value| other.and_then(|other| other.get(name)) != Some(value))
}

fn fields(event: &Value, is_shown: impl Fn(&str, &Value) -> bool) -> String {
    let told = event.get("payload").and_then(Value::as_object).into_iter().flatten();
    let shown = told
        .filter(|(name, value)| !NOISE.contains(&name.as_str()) && is_shown(name, value))
        .map(|(name, value)| format!("{name}: {}", words::preview(value)));
    words::plain(&shown.collect::<Vec<_>>().join(", "))
}

fn print_state(diff: &RunDiff) -> Result<(), CommandError> {
    let mut rows = Vec::new();
    for (field, sides) in &diff.state_diff {
        match field.as_str() {
            "variables" | "channels" => {
                let names = sides.as_object().into_iter().flatten();
                rows.extend(
                    names.map(|(name, sides)| state_row(&format!("{field}.{name}"), sides)),
                );
            }
            _ => rows.push(state_row(field, sides)),
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    output::line("")?;
    output::table(["state", "a", "b"], rows)
}

fn state_row(name: &str, sides: &Value) -> [Cell; 3] {
    let side = |side: &str| {
        let value = sides.get(side).map(words::preview);
        words::plain(&value.unwrap_or_else(|| "–".to_owned()))
    };
    [
        Cell::new(words::plain(name)),
        Cell::new(side("a")).fg(Color::Red),
        Cell::new(side("b")).fg(Color::Green),
    ]
}
