//! `callboard roster show`: one member with its runs, questions and cost.

mod advice;

use clap::Args;
use comfy_table::Cell;
use serde::Deserialize;
use serde_json::{Value, json};

use callboard_protocol::{
    AgentRosterEntry, EffectiveBudget, InterruptKind, NodeId, RunId, RunStatus, SubscriptionState,
    Timestamp, TriggerSource, WorkItem, WorkState, WorkflowId,
};

use super::{Target, agent_of, workflows_of};
use crate::args::Connection;
use crate::exit::{CommandError, Exit};
use crate::screen::{output, words};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard roster show Sally
  callboard roster show host:sally-1a2b3c4d --since 7d --json")]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    target: Target,
    /// How far to look back: a time, or an age like 15m, 2h, 7d
    #[arg(long, value_name = "WHEN", default_value = "24h", value_parser = words::parse_moment)]
    since: Timestamp,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Activity {
    member: AgentRosterEntry,
    /// The newest of them.
    runs: Vec<Done>,
    /// There where older ones follow.
    next_cursor: Option<String>,
    waiting: Vec<Waiting>,
    spent: Spent,
    today: Today,
    next: Vec<NextFire>,
    #[serde(default)]
    triggers: Vec<Feed>,
}

/// A subscription that brings the member work.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feed {
    subscription_id: String,
    workflow_id: WorkflowId,
    source: TriggerSource,
    state: SubscriptionState,
}

#[derive(Deserialize)]
struct Today {
    limits: EffectiveBudget,
    spent: Spent,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NextFire {
    workflow_id: WorkflowId,
    at: Timestamp,
    description: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Done {
    run_id: RunId,
    workflow_id: WorkflowId,
    status: RunStatus,
    created_at: Timestamp,
    trigger_source: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Waiting {
    run_id: RunId,
    node_id: NodeId,
    kind: InterruptKind,
    requested_at: Timestamp,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spent {
    input_tokens: u64,
    output_tokens: u64,
    cost_usd: f64,
}

pub(super) async fn run(args: ShowArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let (client, member) = args.target.reach(earlier).await?;
    let found = client.activity(&member, &args.since.to_string()).await?;
    let work = client.work(&member).await?;
    if args.target.host.json {
        output::json(&page(found, &work))?;
        return Ok(Exit::Done);
    }
    let activity: Activity =
        serde_json::from_value(found).map_err(|error| CommandError::unreadable(&error))?;
    who(&activity.member)?;
    queue(&work)?;
    feeds(&activity.triggers)?;
    fires(&activity.next)?;
    today(&activity.today)?;
    spent(&activity.spent)?;
    did(&activity)?;
    waits(&activity.waiting)?;
    for step in advice::next_steps(&activity, &work) {
        output::hint(&step);
    }
    if activity.next_cursor.is_some() {
        let (id, since) = (&activity.member.roster_id, args.since);
        output::hint(&format!(
            "`callboard runs list --member {id} --since {since}` lists all runs"
        ));
    }
    Ok(Exit::Done)
}

/// The member's own fields at the top, what it did below.
fn page(mut found: Value, work: &[WorkItem]) -> Value {
    let mut page = found["member"].take();
    if let (Some(fields), Some(activity)) = (page.as_object_mut(), found.as_object_mut()) {
        activity.remove("member");
        fields.insert("activity".to_owned(), found);
        fields.insert("work".to_owned(), json!(work));
    }
    page
}

fn who(member: &AgentRosterEntry) -> Result<(), CommandError> {
    output::field("member", member.roster_id.as_str())?;
    output::field("persona", &words::plain(&member.persona))?;
    if let Some(description) = &member.description {
        output::field("does", &words::plain(description))?;
    }
    output::field("agent", &agent_of(member))?;
    let state = if member.enabled { "works" } else { "paused: nothing fires its workflows" };
    output::field("state", state)?;
    let owns = workflows_of(member);
    output::field("owns", if owns.is_empty() { "no workflow" } else { &owns })
}

fn queue(work: &[WorkItem]) -> Result<(), CommandError> {
    if work.is_empty() {
        return Ok(());
    }
    let count = |state| work.iter().filter(|item| item.state == state).count();
    let (todo, doing) = (count(WorkState::Todo), count(WorkState::Doing));
    let done = count(WorkState::Done);
    output::field("work", &format!("{todo} to do, {doing} begun, {done} done"))
}

/// One below the other; a subscription that is not active is marked.
fn feeds(triggers: &[Feed]) -> Result<(), CommandError> {
    for (place, feed) in triggers.iter().enumerate() {
        let Feed { subscription_id, workflow_id, source, state } = feed;
        let takes = match state {
            SubscriptionState::Active => String::new(),
            state => format!(", {}", state.as_str()),
        };
        let name = if place == 0 { "triggers" } else { "" };
        let source = source.as_str();
        output::field(name, &format!("{subscription_id}: {source} for {workflow_id}{takes}"))?;
    }
    Ok(())
}

/// The first of them; the rest below each other.
fn fires(next: &[NextFire]) -> Result<(), CommandError> {
    if next.is_empty() {
        return output::field("next", "nothing is scheduled");
    }
    for (place, fire) in next.iter().enumerate() {
        let NextFire { workflow_id, at, description } = fire;
        let at = words::moment(*at);
        let name = if place == 0 { "next" } else { "" };
        output::field(name, &format!("{at}: {workflow_id}, {}", words::plain(description)))?;
    }
    Ok(())
}

/// What today has cost, against what it may.
fn today(today: &Today) -> Result<(), CommandError> {
    let Today { limits, spent } = today;
    let tokens = spent.input_tokens + spent.output_tokens;
    let of_tokens = limits.max_tokens.map_or(String::new(), |most| format!(" of {most}"));
    let of_cost = limits.max_cost_usd.map(|most| format!(" of {}", words::dollars(most)));
    let cap = if limits.is_unbounded() { ", no ceiling" } else { "" };
    let (cost, of_cost) = (words::dollars(spent.cost_usd), of_cost.unwrap_or_default());
    output::field("today", &format!("{cost}{of_cost}, {tokens}{of_tokens} tokens{cap}"))
}

fn spent(spent: &Spent) -> Result<(), CommandError> {
    let tokens = spent.input_tokens + spent.output_tokens;
    let cost = match tokens {
        0 => "nothing".to_owned(),
        _ => format!("about {} for {tokens} tokens", words::dollars(spent.cost_usd)),
    };
    output::field("cost", &cost)
}

fn did(activity: &Activity) -> Result<(), CommandError> {
    let runs = &activity.runs;
    let failed = runs.iter().filter(|run| run.status == RunStatus::Failed).count();
    output::field("runs", &counted(runs.len(), failed, activity.next_cursor.is_some()))?;
    if runs.is_empty() {
        return Ok(());
    }
    output::line("")?;
    let rows = runs.iter().map(|run| {
        [
            Cell::new(&run.run_id),
            Cell::new(&run.workflow_id),
            words::status_cell(run.status),
            Cell::new(words::moment(run.created_at)),
            Cell::new(run.trigger_source.as_deref().unwrap_or_default()),
        ]
    });
    output::table(["run", "workflow", "status", "began", "fired by"], rows.collect())
}

/// A count over one page is marked as partial.
fn counted(runs: usize, failed: usize, more_follow: bool) -> String {
    let also = if failed > 0 { format!(", {failed} failed") } else { String::new() };
    match (runs, more_follow) {
        (0, _) => "none in this time".to_owned(),
        (_, false) => format!("{runs}{also}"),
        (_, true) => format!("more than {runs}; of the last {runs}, {failed} failed"),
    }
}

fn waits(waiting: &[Waiting]) -> Result<(), CommandError> {
    if waiting.is_empty() {
        return Ok(());
    }
    output::line("")?;
    let rows = waiting.iter().map(|asked| {
        [
            Cell::new(&asked.run_id),
            Cell::new(&asked.node_id),
            Cell::new(asked.kind.as_str()),
            Cell::new(words::moment(asked.requested_at)),
        ]
    });
    output::table(["waits", "node", "kind", "since"], rows.collect())
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn a_page_of_runs_is_not_taken_for_all_of_them() {
        assert_eq!(counted(0, 0, false), "none in this time");
        assert_eq!(counted(50, 3, false), "50, 3 failed");
        assert_eq!(counted(50, 3, true), "more than 50; of the last 50, 3 failed");
    }
}
