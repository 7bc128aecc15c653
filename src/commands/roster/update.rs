//! `callboard roster update`: another name, another agent, other workflows, another budget.

use clap::Args;
use serde_json::{Value, json};

use super::Target;
use crate::args::Connection;
use crate::client::{Client, Kind};
use crate::exit::{CommandError, Exit};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard roster update host:sally-1a2b3c4d --persona Sal
  callboard roster update host:sally-1a2b3c4d --workflow inbox --workflow reports
  callboard roster update host:sally-1a2b3c4d --no-workflows
  callboard roster update host:sally-1a2b3c4d --daily-cost-usd 2.50

Options that are not given leave their field unchanged. Existing runs do not change.")]
pub(crate) struct UpdateArgs {
    /// The name that people use
    #[arg(long, value_name = "NAME")]
    persona: Option<String>,
    /// Id of the installed agent that works under this name
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Pin this version of the agent
    #[arg(long, value_name = "VERSION", conflicts_with = "channel")]
    version: Option<String>,
    /// Use the version that serves on this channel
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,
    /// Workflow that the member owns, replacing the current list; repeatable
    #[arg(long = "workflow", value_name = "WORKFLOW")]
    workflows: Vec<String>,
    /// Clear the list of workflows
    #[arg(long, conflicts_with = "workflows")]
    no_workflows: bool,
    /// A short label; an empty one removes it
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// What the member does; an empty text removes it
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Tokens that the member may use in a day
    #[arg(long, value_name = "TOKENS", conflicts_with = "usual_budget")]
    daily_tokens: Option<u64>,
    /// US dollars that the member may use in a day
    #[arg(long, value_name = "DOLLARS", conflicts_with = "usual_budget")]
    daily_cost_usd: Option<f64>,
    /// Use the daily budget of the host's configuration
    #[arg(long)]
    usual_budget: bool,
    #[command(flatten)]
    target: Target,
}

pub(super) async fn run(args: UpdateArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let (client, id) = args.target.reach(earlier).await?;
    let mut change = change(&args);
    if args.agent.is_some() || args.version.is_some() || args.channel.is_some() {
        let agent = match &args.agent {
            Some(agent) => agent.clone(),
            None => client.member(&id).await?.agent_ref.agent_id.to_string(),
        };
        let mut agent = json!({ "agentId": agent });
        for (field, value) in [("version", &args.version), ("channel", &args.channel)] {
            if let Some(value) = value {
                agent[field] = json!(value);
            }
        }
        change["agentRef"] = agent;
    }
    let is_allowed = allow(&args, &client, &id).await?;
    let changes_nothing = change.as_object().is_none_or(serde_json::Map::is_empty);
    if changes_nothing && !is_allowed {
        return Err(CommandError::usage("nothing to change")
            .hint("name what to change, as in --persona Sal"));
    }
    let member = match changes_nothing {
        true => client.member(&id).await?,
        false => client.change(&Kind::MEMBER, &id, &change).await?,
    };
    args.target.tell(&member, "is changed")
}

/// Says what the member may use in a day, if anything was named. A dimension that was not named keeps its ceiling.
async fn allow(args: &UpdateArgs, client: &Client, member: &str) -> Result<bool, CommandError> {
    if args.usual_budget {
        client.reset_budget(member).await?;
        return Ok(true);
    }
    if args.daily_tokens.is_none() && args.daily_cost_usd.is_none() {
        return Ok(false);
    }
    let known = client.budget(member).await?;
    let mut allowance = known["allowance"].clone();
    if let Some(tokens) = args.daily_tokens {
        allowance["maxTokens"] = json!(tokens);
    }
    if let Some(cost) = args.daily_cost_usd {
        allowance["maxCostUsd"] = json!(cost);
    }
    client.set_budget(member, &allowance).await?;
    Ok(true)
}

/// What the flags change, except for the agent.
fn change(args: &UpdateArgs) -> Value {
    let mut change = json!({});
    if let Some(persona) = &args.persona {
        change["persona"] = json!(persona);
    }
    if args.no_workflows || !args.workflows.is_empty() {
        change["workflows"] = json!(args.workflows);
    }
    for (field, text) in [("label", &args.label), ("description", &args.description)] {
        if let Some(text) = text {
            change[field] = if text.is_empty() { Value::Null } else { json!(text) };
        }
    }
    change
}
