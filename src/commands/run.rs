//! `callboard run`: starts a run and, with `--follow`, shows it live.

use std::io::Read;

use clap::Args;
use owo_colors::OwoColorize;
use serde_json::{Value, json};

use callboard_protocol::{CreateRun, FireMember, Object, RosterId, RunId};

use crate::answers::Answers;
use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::follow::{self, Audience, Ending};
use crate::mend::mend;
use crate::output;

/// Everything in the log, text included.
const WHOLE_LOG: &str = "debug";

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard run nightly-report --input '{\"day\": \"2026-01-31\"}' --follow
  callboard run nightly-report --input @inputs.json --tag nightly --json
  callboard run community.callboard.starter.triager --input '{\"message\": \"Help!\"}' --follow
  echo '{\"day\": \"2026-01-31\"}' | callboard run nightly-report --input @-
  echo accept | callboard run release --follow
  callboard run nightly-report --as host:sally-1a2b3c4d

With --follow the exit code is 1 when the run failed or was cancelled. Ctrl-C stops
the watching, not the run. What the run asks is answered at the prompt; where standard
input is no terminal, each question takes one line of it: accept, reject, the answer to
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
    /// Makes it safe to send the same request again: it answers with the first one's run
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
    let client = Client::new(&args.connection.clone().or(earlier))?;
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
            let created = client.create_run(&body, key).await?;
            if args.json && !args.follow {
                output::json(&created)?;
                return Ok(Exit::Done);
            }
            created.run_id
        }
    };
    match args.follow {
        true => watch(&client, &run, definition.as_deref(), args.json).await,
        false => announce(&run, args.json),
    }
}

/// Watches a run to its end.
pub(crate) async fn watch(
    client: &Client,
    run: &RunId,
    definition: Option<&str>,
    as_json: bool,
) -> Result<Exit, CommandError> {
    let audience = if as_json { Audience::Machines } else { Audience::People };
    if !as_json {
        output::line(&format!("{} {run}", "run".bold()))?;
    }
    let followed = follow::follow(client, run, WHOLE_LOG, audience, definition, answers(as_json));
    let ending = Box::pin(followed).await?;
    Ok(conclude(run, ending, audience))
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

/// Machines that read events get no forms between them.
pub(crate) fn answers(as_json: bool) -> Answers {
    match Answers::of_this_process() {
        Answers::Person if as_json => Answers::Unattended,
        answers => answers,
    }
}

/// Resolves the name first. A key that may start runs but not read definitions goes without the nodes' names.
pub(crate) async fn find_definition(
    client: &Client,
    name: &str,
) -> Result<Option<String>, CommandError> {
    let found = if RosterId::is_meant_by(name) {
        client.member(name).await.map(|_| None)
    } else if is_agent(name) {
        client.agent(name).await.map(|_| None)
    } else {
        client.workflow(name).await.map(Some)
    };
    match found {
        Ok(definition) => Ok(definition),
        Err(error) if error.exit == Exit::Refused => Ok(None),
        Err(error) => Err(error),
    }
}

/// No workflow has a dot in its id, and every agent has one; members begin with a word of their own.
fn is_agent(name: &str) -> bool {
    name.contains('.') || RosterId::is_meant_by(name)
}

fn order(args: &RunArgs) -> Result<CreateRun, CommandError> {
    let configurable: Object = args.configurable.iter().cloned().collect();
    Ok(CreateRun {
        workflow_id: (!is_agent(&args.name)).then(|| args.name.clone()),
        agent_id: is_agent(&args.name).then(|| args.name.clone()),
        inputs: args.input.as_deref().map(read_inputs).transpose()?,
        configurable: (!configurable.is_empty()).then_some(configurable),
        tags: (!args.tags.is_empty()).then(|| args.tags.clone()),
        ..CreateRun::default()
    })
}

pub(crate) fn announce(run: &RunId, as_json: bool) -> Result<Exit, CommandError> {
    if as_json {
        output::json(&json!({ "runId": run }))?;
    } else {
        output::line(run.as_str())?;
        if output::is_terminal() {
            output::hint(&format!("watch it with `callboard runs events {run} --follow`"));
        }
    }
    Ok(Exit::Done)
}

/// Says what a watcher should know at the end, and whether a script may go on.
pub(crate) fn conclude(run: &RunId, ending: Ending, audience: Audience) -> Exit {
    match ending {
        Ending::Completed => Exit::Done,
        Ending::Broken(code) => {
            if audience != Audience::Machines {
                let details = format!("`callboard runs show {run}` has the details");
                output::hint(code.as_deref().and_then(mend).unwrap_or(&details));
            }
            Exit::Failed
        }
        Ending::Left => {
            output::note(&format!("run {run} goes on"));
            output::hint(&format!("`callboard runs events {run} --follow` comes back to it"));
            Exit::Interrupted
        }
    }
}

pub(crate) fn read_inputs(text: &str) -> Result<Object, CommandError> {
    let source = match text.strip_prefix('@') {
        None => text.to_owned(),
        Some("-") => {
            let mut read = String::new();
            std::io::stdin().read_to_string(&mut read).map_err(|error| {
                CommandError::usage(format!("cannot read standard input: {error}"))
            })?;
            read
        }
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| CommandError::usage(format!("cannot read {path}: {error}")))?,
    };
    match serde_json::from_str(&source) {
        Ok(Value::Object(inputs)) => Ok(inputs),
        Ok(_) => Err(CommandError::usage("--input must be a JSON object")
            .hint("write it as '{\"name\": \"value\"}'")),
        Err(error) => Err(CommandError::usage(format!("--input is not JSON: {error}"))
            .hint("write it as '{\"name\": \"value\"}', or @FILE to read it from a file")),
    }
}

pub(crate) fn parse_option(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=JSON, as in recursionLimit=5")?;
    let value = serde_json::from_str(value)
        .map_err(|_| format!("{value:?} is not JSON; a text is written as {key}='\"text\"'"))?;
    Ok((key.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_json() {
        assert_eq!(parse_option("recursionLimit=5"), Ok(("recursionLimit".into(), json!(5))));
        assert_eq!(
            parse_option("ai={\"model\":\"a=b\"}"),
            Ok(("ai".into(), json!({ "model": "a=b" })))
        );
        assert!(parse_option("model=plain").is_err_and(|error| error.contains("model='\"text\"'")));
        assert!(parse_option("model").is_err());
    }

    #[test]
    fn inputs_are_an_object() {
        assert_eq!(read_inputs("{\"a\":1}").map(Value::Object), Ok(json!({ "a": 1 })));
        assert_eq!(read_inputs("[1]").map_err(|error| error.exit), Err(Exit::Usage));
    }
}
