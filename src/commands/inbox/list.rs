//! `callboard inbox list`: open questions, longest waiting first, a page at a time.

use clap::Args;
use comfy_table::Cell;

use callboard_protocol::InterruptKind;

use crate::args::{Connection, HostArgs};
use crate::exit::{CommandError, Exit};
use crate::screen::listing::{Listing, given};
use crate::screen::words;
use crate::watch::question::Question;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard inbox list
  callboard inbox list --kind approval --workflow release --json")]
pub(crate) struct ListArgs {
    /// Only questions of this kind: approval, clarification, external-event, custom, low-confidence,
    /// conversation.exchange
    #[arg(long, value_name = "KIND", value_parser = parse_kind)]
    kind: Option<InterruptKind>,
    /// Only those of runs of this workflow
    #[arg(long, value_name = "ID")]
    workflow: Option<String>,
    /// Only those of this run
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=200))]
    limit: u16,
    /// Cursor of the next page, as printed by the previous one
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    #[command(flatten)]
    host: HostArgs,
}

pub(super) async fn run(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let found = client.inbox(&query(&args)).await?;
    let headers = ["run", "node", "kind", "asks", "asked", "until"];
    Listing::new("interrupts", headers, "nothing is asked")
        .next("`callboard inbox answer RUN` answers one")
        .show(found, args.host.json, row)
}

fn row(question: Question) -> [Cell; 6] {
    let until = question.expires_at.map(words::moment).unwrap_or_default();
    [
        Cell::new(&question.run_id),
        Cell::new(words::plain(question.node_id.as_str())),
        Cell::new(question.kind.as_str()),
        Cell::new(question.headline()),
        Cell::new(words::moment(question.requested_at)),
        Cell::new(until),
    ]
}

fn query(args: &ListArgs) -> Vec<(&'static str, String)> {
    given([
        ("kind", args.kind.map(|kind| kind.as_str().to_owned())),
        ("workflowId", args.workflow.clone()),
        ("runId", args.run.clone()),
        ("limit", Some(args.limit.to_string())),
        ("cursor", args.cursor.clone()),
    ])
}

/// Opening and closing a conversation are not shown in an inbox.
fn parse_kind(text: &str) -> Result<InterruptKind, String> {
    let asked = InterruptKind::ALL.into_iter().filter(|kind| kind.is_asked());
    let names: Vec<&str> = asked.map(InterruptKind::as_str).collect();
    InterruptKind::from_name(text)
        .filter(|kind| kind.is_asked())
        .ok_or_else(|| format!("expected one of {}", names.join(", ")))
}
