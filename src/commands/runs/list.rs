//! `callboard runs list`: newest first, a page at a time.

use clap::Args;
use comfy_table::Cell;
use serde::Deserialize;

use callboard_protocol::{RunId, RunMetrics, RunStatus, Timestamp, WorkflowId};

use crate::args::{Connection, HostArgs};
use crate::client::Kind;
use crate::exit::{CommandError, Exit};
use crate::screen::listing::{Listing, given};
use crate::screen::words;

/// What every host gives at once.
const LARGEST_PAGE: u32 = 100;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard runs list --status failed --since 24h
  callboard runs list --text 'order 4711' --min-cost 0.05 --all
  callboard runs list --workflow nightly-report --json")]
pub(crate) struct ListArgs {
    /// Only runs with this status
    #[arg(long, value_name = "STATUS", value_parser = parse_status)]
    status: Option<RunStatus>,
    /// Only runs of this workflow
    #[arg(long, value_name = "ID")]
    workflow: Option<String>,
    /// Only runs of this agent
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Only runs of this standing member, by its id or name
    #[arg(long, value_name = "MEMBER")]
    member: Option<String>,
    /// Only runs with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Only runs that this source fired for a standing member: schedule, webhook, queue, email, form, callboard.manual
    #[arg(long, value_name = "SOURCE")]
    trigger: Option<String>,
    /// Only runs that have cost so many dollars or more
    #[arg(long, value_name = "USD")]
    min_cost: Option<f64>,
    /// Only runs with this text in their id, workflow, member, tags, variables or failure
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Only runs created since then: a time, or an age like 15m, 2h, 7d
    #[arg(long, value_name = "WHEN", value_parser = words::parse_moment)]
    since: Option<Timestamp>,
    /// Only runs created before then
    #[arg(long, value_name = "WHEN", value_parser = words::parse_moment)]
    until: Option<Timestamp>,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=i64::from(LARGEST_PAGE)))]
    limit: u32,
    /// Cursor of the next page, as printed by the previous one
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// All matching runs, not only the first page
    #[arg(long, conflicts_with_all = ["limit", "cursor"])]
    all: bool,
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    run_id: RunId,
    workflow_id: WorkflowId,
    status: RunStatus,
    created_at: Timestamp,
    #[serde(default)]
    metrics: Option<RunMetrics>,
    #[serde(default)]
    tags: Vec<String>,
}

pub(super) async fn run(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let member = client.maybe_member_id(args.member.as_deref()).await?;
    let query = query(&args, member);
    let found = match args.all {
        true => client.list_all(&Kind::LISTED_RUN, "runs", &query).await?,
        false => client.list(&Kind::LISTED_RUN, &query).await?,
    };
    let headers = ["run", "workflow", "status", "created", "cost", "tags"];
    Listing::new("runs", headers, "no runs").show(found, args.host.json, |run: Listed| {
        [
            Cell::new(run.run_id),
            Cell::new(run.workflow_id),
            words::status_cell(run.status),
            Cell::new(words::moment(run.created_at)),
            Cell::new(run.metrics.map(|it| paid(&it)).unwrap_or_default()),
            Cell::new(words::plain(&run.tags.join(", "))),
        ]
    })
}

/// Dollars alone: a list has no room for tokens.
fn paid(metrics: &RunMetrics) -> String {
    metrics.openwop_cost.usd.map_or_else(|| "unknown".to_owned(), words::dollars)
}

fn query(args: &ListArgs, member: Option<String>) -> Vec<(&'static str, String)> {
    given([
        ("status", args.status.map(|status| status.as_str().to_owned())),
        ("workflowId", args.workflow.clone()),
        ("agentId", args.agent.clone()),
        ("rosterId", member),
        ("tag", args.tag.clone()),
        ("triggerSource", args.trigger.clone()),
        ("minCostUsd", args.min_cost.map(|cost| cost.to_string())),
        ("text", args.text.clone()),
        ("since", args.since.map(|at| at.to_string())),
        ("until", args.until.map(|at| at.to_string())),
        ("limit", Some(if args.all { LARGEST_PAGE } else { args.limit }.to_string())),
        ("cursor", args.cursor.clone()),
    ])
}

fn parse_status(text: &str) -> Result<RunStatus, String> {
    RunStatus::from_name(text).ok_or_else(|| {
        format!("expected one of {}", RunStatus::ALL.map(RunStatus::as_str).join(", "))
    })
}
