//! `callboard runs retry`: goes on with runs that have ended, one or many.

use clap::Args;
use comfy_table::Cell;

use callboard_protocol::{
    NodeId, RetryItem, RetryOutcome, RetryRun, RetryRuns, RunStatus, Timestamp,
};

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::inputs::read_inputs;
use crate::screen::{output, words};
use crate::watch::{Heading, definition_of_run, watch};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard runs retry run_0199f2c4 --follow
  callboard runs retry run_0199f2c4 --latest --input '{\"day\": \"2026-02-01\"}'
  callboard runs retry run_0199f2c4 --from summarise
  callboard runs retry --status failed --workflow nightly-report --since 24h --dry-run

A retry is a new run. It keeps all that completed before the run failed, calls nobody for
that again, and goes on live at the nodes that failed. A node whose call of a model got no
answer goes on after the last call that did; any other is done again from its beginning.
Without RUN, every run that fits is retried, up to --limit of them and each of them once.")]
pub(crate) struct RetryArgs {
    /// Id of the run; left out, the filters say which runs
    #[arg(value_name = "RUN", conflicts_with_all = ["status", "workflow", "agent", "member", "tag", "since", "until", "dry_run", "limit", "cursor"])]
    run: Option<String>,
    /// Do this node again, with all that depends on it, besides the nodes that failed
    #[arg(long, value_name = "NODE", requires = "run")]
    from: Option<String>,
    /// Go on with the newest definition and agents instead of those that the run keeps
    #[arg(long)]
    latest: bool,
    /// Inputs that replace the run's own: a JSON object, @FILE, or @- for standard input
    #[arg(long, value_name = "JSON|@FILE")]
    input: Option<String>,
    /// Only runs with this status: failed or cancelled
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
    /// Only runs created since then: a time, or an age like 15m, 2h, 7d
    #[arg(long, value_name = "WHEN", value_parser = words::parse_moment)]
    since: Option<Timestamp>,
    /// Only runs created before then
    #[arg(long, value_name = "WHEN", value_parser = words::parse_moment)]
    until: Option<Timestamp>,
    /// How many runs at most
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
    /// Where the last command ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// Only say what would be retried, and from which nodes
    #[arg(long)]
    dry_run: bool,
    /// Makes it safe to send the same request again: it answers with the first one's run
    #[arg(long, value_name = "KEY", requires = "run")]
    idempotency_key: Option<String>,
    /// Watch the retry until it ends
    #[arg(long, short, requires = "run")]
    follow: bool,
    /// Print JSON: the retry, or with --follow one event per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: RetryArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.connection.client(earlier)?;
    match &args.run {
        Some(run) => retry_one(&args, &client, &client.whole_run_id(run).await?).await,
        None => retry_many(&args, &client).await,
    }
}

async fn retry_one(args: &RetryArgs, client: &Client, run: &str) -> Result<Exit, CommandError> {
    let body = RetryRun {
        from: args.from.as_deref().map(NodeId::from),
        latest: args.latest.then_some(true),
        inputs: args.input.as_deref().map(read_inputs).transpose()?,
    };
    let retried = client.retry_run(run, &body, args.idempotency_key.as_deref()).await;
    let retried = retried.map_err(|error| match error.code.as_deref() {
        Some("run_not_ended") => {
            error.hint(format!("watch it with `callboard runs events {run} --follow`"))
        }
        Some("run_completed") => {
            error.hint(format!("`callboard runs retry {run} --from NODE` does a node again"))
        }
        Some("retry_node_invalid") => {
            error.hint(format!("`callboard runs show {run}` names its nodes"))
        }
        _ => error,
    })?;
    if args.follow {
        let id = retried.run_id.as_str();
        let definition = if args.json { None } else { definition_of_run(client, id).await? };
        return watch(client, &retried.run_id, Heading::Retry, definition.as_deref(), args.json)
            .await;
    }
    if args.json {
        output::json(&retried)?;
    } else {
        output::line(retried.run_id.as_str())?;
        if output::is_terminal() {
            let (source, run) = (&retried.source_run_id, &retried.run_id);
            output::hint(&format!("compare the two with `callboard runs diff {source} {run}`"));
        }
    }
    Ok(Exit::Done)
}

async fn retry_many(args: &RetryArgs, client: &Client) -> Result<Exit, CommandError> {
    let body = RetryRuns {
        status: args.status,
        workflow_id: args.workflow.clone(),
        agent_id: args.agent.clone(),
        roster_id: client.maybe_member_id(args.member.as_deref()).await?,
        tag: args.tag.clone(),
        since: args.since,
        until: args.until,
        limit: Some(args.limit),
        cursor: args.cursor.clone(),
        latest: args.latest.then_some(true),
        inputs: args.input.as_deref().map(read_inputs).transpose()?,
        dry_run: args.dry_run.then_some(true),
    };
    let retried = client.retry_runs(&body).await?;
    if args.json {
        output::json(&retried)?;
        return Ok(Exit::Done);
    }
    if retried.results.is_empty() {
        output::note("no runs to retry");
        return Ok(Exit::Done);
    }
    let rows = retried.results.iter().map(row).collect();
    output::table(["run", "outcome", "retry", "nodes"], rows)?;
    if let Some(cursor) = &retried.next_cursor {
        output::hint(&format!("there are more: add --cursor {cursor}"));
    }
    Ok(Exit::Done)
}

fn row(item: &RetryItem) -> [Cell; 4] {
    let outcome = match (item.outcome, &item.error) {
        (RetryOutcome::Planned, _) => "would be retried".to_owned(),
        (RetryOutcome::Retried, _) => "retried".to_owned(),
        (RetryOutcome::AlreadyRetried, _) => "retried before".to_owned(),
        (RetryOutcome::Refused, Some(error)) => {
            format!("refused: {}", words::plain(&error.message))
        }
        (RetryOutcome::Refused, None) => "refused".to_owned(),
    };
    let nodes: Vec<&str> = item.nodes.iter().map(NodeId::as_str).collect();
    let retry = item.retry_run_id.as_ref().map(ToString::to_string);
    [
        Cell::new(&item.run_id),
        Cell::new(outcome),
        Cell::new(retry.unwrap_or_default()),
        Cell::new(words::plain(&nodes.join(", "))),
    ]
}

fn parse_status(text: &str) -> Result<RunStatus, String> {
    let status = RunStatus::from_name(text);
    let can_be_retried =
        |status: &RunStatus| matches!(status, RunStatus::Failed | RunStatus::Cancelled);
    status.filter(can_be_retried).ok_or_else(|| "expected failed or cancelled".to_owned())
}
