//! `callboard agents show`: one entry of the inventory, or what the agent is given and returns.

use clap::Args;
use serde_json::Value;

use callboard_protocol::AgentInventoryEntry;

use crate::args::{Connection, HostArgs};
use crate::client::Kind;
use crate::exit::{CommandError, Exit};
use crate::screen::{output, words};

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard agents show community.callboard.starter.triager --json
  callboard agents show community.callboard.starter.triager --definition")]
pub(crate) struct ShowArgs {
    /// Id of the agent
    #[arg(value_name = "AGENT")]
    agent: String,
    /// Print the JSON Schemas of its tasks and results and, with the scope artifacts:read, its prompt
    #[arg(long)]
    definition: bool,
    #[command(flatten)]
    host: HostArgs,
}

pub(super) async fn run(args: ShowArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    if args.definition {
        return output::document(&client.agent_definition(&args.agent).await?);
    }
    let found: Value = client.get(&Kind::AGENT, &args.agent, "").await?;
    if args.host.json {
        return output::document(&found);
    }
    let agent: AgentInventoryEntry =
        serde_json::from_value(found).map_err(|error| CommandError::unreadable(&error))?;
    output::field("agent", agent.agent_id.as_str())?;
    output::field("label", &words::plain(&agent.label))?;
    if let Some(description) = &agent.description {
        output::field("does", &words::plain(description))?;
    }
    let pack = format!("{} {}", agent.pack_name, agent.pack_version);
    let verified = match client.unverified_packs().await {
        Some(unverified) if unverified.contains(&pack) => ", unverified",
        Some(_) => ", verified",
        None => "",
    };
    output::field("pack", &format!("{pack}{verified}"))?;
    output::field("model", agent.model_class.as_str())?;
    let tools = if agent.tool_allowlist.is_empty() {
        "none".to_owned()
    } else {
        words::plain(&agent.tool_allowlist.join(", "))
    };
    output::field("tools", &tools)?;
    let schemas = if agent.has_handoff_schemas {
        "described by schemas, which --definition shows"
    } else {
        "anything"
    };
    output::field("task", schemas)?;
    if let Some(threshold) = agent.confidence_threshold {
        output::field("asks", &format!("a person below a confidence of {threshold}"))?;
    }
    if !agent.degraded.is_empty() {
        output::field("without", &agent.degraded.join(", "))?;
    }
    Ok(Exit::Done)
}
