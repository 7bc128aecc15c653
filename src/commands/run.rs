//! `callboard run`: starts a run and, with `--follow`, shows it live.

use clap::Args;
use serde_json::Value;

use callboard_core::{PRIORITY, Priority};
use callboard_protocol::{CreateRun, FireMember, Object};

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::inputs::{parse_option, read_inputs};
use crate::screen::output;
use crate::watch::{Heading, announce, find_definition, is_agent, watch};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard run nightly-report --input '{\"day\": \"2026-01-31\"}' --follow
  callboard run nightly-report --input @inputs.json --tag nightly --json
  callboard run community.callboard.starter.triager --input '{\"message\": \"Help!\"}' --follow
  echo '{\"day\": \"2026-01-31\"}' | callboard run nightly-report --input @-
  echo accept | callboard run release --follow
  callboard run nightly-report --as host:sally-1a2b3c4d

With --follow the exit code is 1 when the run failed or was cancelled. Ctrl-C stops
watching, not the run. Questions of the run are answered at the prompt; if standard
input is not a terminal, each question takes one line of it: accept, reject, the answer to
a single question, or JSON.")]
pub(crate) struct RunArgs {
    /// Id of the workflow, of the agent or of a standing member; an agent's has dots in it
    #[arg(value_name = "WORKFLOW|AGENT")]
    name: String,
    /// Inputs: a JSON object, @FILE, or @- for standard input
    #[arg(long, value_name = "JSON|@FILE")]
    input: Option<String>,
    /// Run it for this standing member, by its id or name, who must own the workflow or be that agent
    #[arg(long = "as", value_name = "MEMBER", conflicts_with_all = ["tags", "configurable"])]
    member: Option<String>,
    /// Label to find the run by; repeatable
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Run option of `configurable`, its value as JSON; repeatable
    #[arg(long = "config", value_name = "KEY=JSON", value_parser = parse_option)]
    configurable: Vec<(String, Value)>,
    /// How soon it has its turn
    #[arg(long, value_name = "LEVEL", value_parser = Priority::ALL.map(Priority::as_str), conflicts_with = "member")]
    priority: Option<String>,
    /// Makes the request safe to repeat: a repetition returns the first one's run
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Watch the run until it ends
    #[arg(long, short)]
    follow: bool,
    /// Print JSON: the created run, or with --follow one event per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(args: RunArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.connection.client(earlier)?;
    let mut body = order(&args)?;
    let definition = find_definition(&client, &args.name).await?;
    let key = args.idempotency_key.as_deref();
    let member = client.maybe_member_id(args.member.as_deref()).await?;
    let run = match &member {
        Some(member) if !is_agent(&args.name) => {
            let inputs = body.inputs.unwrap_or_default();
            let fire = FireMember { workflow_id: args.name.as_str().into(), inputs };
            client.fire(member, &fire, key).await?
        }
        Some(member) => {
            must_be(&client, member, &args.name).await?;
            body.agent_id = Some(member.clone());
            client.create_run(&body, key).await?.run_id
        }
        None => {
            let created = client.create_run(&body, key).await;
            let created = created.map_err(|error| with_inputs(error, &args))?;
            if args.json && !args.follow {
                output::json(&created)?;
                return Ok(Exit::Done);
            }
            created.run_id
        }
    };
    match args.follow {
        true => watch(&client, &run, Heading::Run, definition.as_deref(), args.json).await,
        false => announce(&run, args.json),
    }
}

/// Who gave a workflow no inputs may not have known of any.
fn with_inputs(error: CommandError, args: &RunArgs) -> CommandError {
    let is_bare = args.input.is_none() && args.configurable.is_empty() && args.tags.is_empty();
    let is_bare = is_bare && !is_agent(&args.name);
    if !is_bare || error.code.as_deref() != Some("validation_error") {
        return error;
    }
    let name = &args.name;
    error.hint(format!(
        "give inputs with --input '{{\"name\": \"value\"}}'; `callboard workflows show {name}` has its variables"
    ))
}

/// Whoever runs an agent as a member runs the agent that the member is.
async fn must_be(client: &Client, member: &str, agent: &str) -> Result<(), CommandError> {
    let entry = client.member(member).await?;
    if entry.agent_ref.agent_id.as_str() == agent || member == agent {
        return Ok(());
    }
    Err(CommandError::usage(format!("{member} is no {agent} but {}", entry.agent_ref.agent_id))
        .hint(format!("leave the agent out: `callboard run {member}`")))
}

fn order(args: &RunArgs) -> Result<CreateRun, CommandError> {
    let mut configurable: Object = args.configurable.iter().cloned().collect();
    if let Some(priority) = &args.priority {
        configurable.insert(PRIORITY.to_owned(), priority.as_str().into());
    }
    Ok(CreateRun {
        workflow_id: (!is_agent(&args.name)).then(|| args.name.clone()),
        agent_id: is_agent(&args.name).then(|| args.name.clone()),
        inputs: args.input.as_deref().map(read_inputs).transpose()?,
        configurable: (!configurable.is_empty()).then_some(configurable),
        tags: (!args.tags.is_empty()).then(|| args.tags.clone()),
        ..CreateRun::default()
    })
}
