//! `callboard runs diff`: the first difference of two runs, and how each ended.

use clap::Args;
use comfy_table::{Cell, Color};
use owo_colors::OwoColorize;
use serde_json::Value;

use callboard_core::{EventDiff, EventOp, RunDiff};

use crate::args::{Connection, HostArgs};
use crate::exit::{CommandError, Exit};
use crate::screen::{output, words};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard runs diff run_0199f2c4 run_0199f2d7
  callboard runs diff run_0199f2c4 run_0199f2d7 --json

Events are compared in order by type, node and payload; ids and times are not.")]
pub(crate) struct DiffArgs {
    /// Id of the run that was there first
    #[arg(value_name = "A")]
    a: String,
    /// Id of the run to compare it with
    #[arg(value_name = "B")]
    b: String,
    #[command(flatten)]
    host: HostArgs,
}

/// Events shown to a person; `--json` has them all.
const SHOWN: usize = 40;

pub(super) async fn run(args: DiffArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let (document, diff) = client.diff(&args.a, &args.b).await?;
    if args.host.json {
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
    print_events(&diff)?;
    print_state(&diff)?;
    if diff.truncated {
        output::hint("only a part was compared: a run is still active, or the rest is too large");
    }
    Ok(Exit::Done)
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
