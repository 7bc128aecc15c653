//! `callboard inbox answer`: sends an answer that was typed, piped in or chosen at the prompt.

use std::time::Duration;

use clap::Args;
use serde_json::Value;

use callboard_protocol::RunStatus;

use crate::args::{Connection, HostArgs};
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::inputs::parse_json;
use crate::screen::output;
use crate::watch::answers::read_lines;
use crate::watch::prompt;
use crate::watch::question::{Question, approval};

/// Five seconds: long for a run that begins, short for a person who made a mistake.
const LOOKS: u32 = 50;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard inbox answer run_0199f2c4
  callboard inbox answer run_0199f2c4 gate --action reject --feedback 'too early'
  callboard inbox answer run_0199f2c4 boss --edit '{\"kind\": \"terminate\"}'
  callboard inbox answer run_0199f2c4 ask --value '{\"answers\": {\"q1\": \"blue\"}}'
  echo accept | callboard inbox answer run_0199f2c4

Without --value, --action and --edit the question is asked at the prompt; if standard
input is not a terminal, one line of it is the answer.")]
pub(crate) struct AnswerArgs {
    /// Id of the run
    #[arg(value_name = "RUN")]
    run: String,
    /// Node that asks; optional if the run has only one open question
    #[arg(value_name = "NODE")]
    node: Option<String>,
    /// The answer as JSON
    #[arg(long, value_name = "JSON", value_parser = parse_json, conflicts_with_all = ["action", "feedback", "voter"])]
    value: Option<Value>,
    /// What to do instead of the proposal, as JSON
    #[arg(long, value_name = "JSON", value_parser = parse_json, conflicts_with_all = ["value", "action"])]
    edit: Option<Value>,
    /// The decision on an approval: accept, reject, or another action that it offers
    #[arg(long, value_name = "ACTION")]
    action: Option<String>,
    /// A remark on the action
    #[arg(long, value_name = "TEXT", requires = "action")]
    feedback: Option<String>,
    /// The person to answer for; needs the scope approvals:delegate
    #[arg(long, value_name = "NAME", requires = "action")]
    voter: Option<String>,
    #[command(flatten)]
    host: HostArgs,
}

pub(super) async fn run(mut args: AnswerArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    args.run = client.whole_run_id(&args.run).await?;
    let (node, value) = match (&args.node, typed(&args)) {
        (Some(node), Some(value)) => {
            // The host says best what is wrong with an answer to what is not asked, so only what is there is checked.
            let open = client.questions(&args.run).await.unwrap_or_default();
            let asked = open.iter().find(|question| question.node_id.as_str() == node);
            asked.map_or(Ok(()), |question| check(&args, question, &value))?;
            (node.clone(), value)
        }
        (_, typed) => {
            let question = find(&client, &args).await?;
            let value = match (typed, args.edit.clone()) {
                (Some(value), _) => value,
                (None, Some(other)) => question.replace(other),
                (None, None) => ask(&question).await?,
            };
            check(&args, &question, &value)?;
            (question.node_id.to_string(), value)
        }
    };
    let answered = client
        .answer(&args.run, &node, &value)
        .await
        .map_err(|error| if error.exit == Exit::NotFound { nothing_asked(&args) } else { error })?;
    if args.host.json {
        output::json(&answered)?;
    } else {
        let status = answered.get("status").and_then(Value::as_str).unwrap_or("unknown");
        output::line(&format!("{} {node} answered; the run is {status}", args.run))?;
    }
    Ok(Exit::Done)
}

fn typed(args: &AnswerArgs) -> Option<Value> {
    let decided = args.action.as_ref().map(|action| {
        let mut answer = approval(action, args.feedback.as_deref());
        if let Some(voter) = &args.voter {
            answer["voter"] = voter.as_str().into();
        }
        answer
    });
    args.value.clone().or(decided)
}

/// Whether the question takes the action that was typed, if one was.
fn check(args: &AnswerArgs, question: &Question, value: &Value) -> Result<(), CommandError> {
    if args.action.is_none() {
        return Ok(());
    }
    let wrong = |why| CommandError::usage(why).hint("--edit JSON replaces the result");
    question.takes(value).map_err(wrong)
}

/// The question that is meant.
async fn find(client: &Client, args: &AnswerArgs) -> Result<Question, CommandError> {
    let mut open = questions(client, args).await?;
    let nodes: Vec<String> = open.iter().map(|question| question.node_id.to_string()).collect();
    match open.pop() {
        None => Err(nothing_asked(args)),
        Some(only) if open.is_empty() => Ok(only),
        Some(_) => {
            let what = format!("run {} has several open questions", args.run);
            Err(CommandError::usage(what)
                .hint(format!("name the node as well: {}", nodes.join(", "))))
        }
    }
}

/// The run's question, or the one that it will ask in a moment: two pasted commands are faster than a run's start.
async fn questions(client: &Client, args: &AnswerArgs) -> Result<Vec<Question>, CommandError> {
    for _ in 0..LOOKS {
        let mut open = client.questions(&args.run).await?;
        if let Some(node) = &args.node {
            open.retain(|question| question.node_id.as_str() == node.as_str());
        }
        // One that waits by now may have begun to ask after it was looked at.
        let moves = |status: RunStatus| {
            matches!(status, RunStatus::Pending | RunStatus::Running) || status.is_waiting()
        };
        if !open.is_empty() || !client.run(&args.run).await.is_ok_and(|(_, run)| moves(run.status))
        {
            return Ok(open);
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    Ok(Vec::new())
}

async fn ask(question: &Question) -> Result<Value, CommandError> {
    if prompt::is_possible() {
        return ask_person(question).await;
    }
    let Some(line) = read_lines().recv().await else {
        return Err(CommandError::usage("there is no answer on standard input")
            .hint("pass it as --value JSON or --action ACTION, or write it on one line"));
    };
    question.read(&line).map_err(CommandError::usage)
}

async fn ask_person(question: &Question) -> Result<Value, CommandError> {
    let asked = question.clone();
    let told = tokio::select! {
        told = tokio::task::spawn_blocking(move || prompt::ask(&asked)) => told,
        // Losing the form is fine: the process ends here.
        _ = tokio::signal::ctrl_c() => {
            prompt::tidy_up();
            return Err(CommandError::new(Exit::Interrupted, ""));
        }
    };
    let told = told.map_err(|error| CommandError::failed(error.to_string()))?;
    let told = told.map_err(|error| CommandError::failed(format!("nothing answered: {error}")))?;
    told.ok_or_else(|| CommandError::failed("nothing answered; the question stays open"))
}

fn nothing_asked(args: &AnswerArgs) -> CommandError {
    let place = args.node.as_ref().map(|node| format!(" at {node}")).unwrap_or_default();
    let what = format!("run {} has no open question{place}", args.run);
    CommandError::new(Exit::NotFound, what)
        .hint("`callboard inbox list` lists the questions that this key can see")
}
