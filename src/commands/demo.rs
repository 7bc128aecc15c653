//! `callboard demo`: a host in a temporary folder, a member at work, and an address to try it by hand.

mod browser;
mod starter;

use std::convert::Infallible;
use std::io::IsTerminal as _;
use std::time::Duration;

use clap::Args;
use owo_colors::OwoColorize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use callboard_authoring::{Format, Source};
use callboard_protocol::{AgentRosterEntry, HireMember, RosterAgentRef, RunId};

use crate::args::{ApiKey, Connection};
use crate::client::{Client, Kind};
use crate::config::{Agents, Config};
use crate::exit::{CommandError, Exit};
use crate::process::{LogFormat, OnHangup, Stop, start_logging};
use crate::screen::{output, words};
use crate::watch::WHOLE_LOG;
use crate::watch::answers::Answers;
use crate::watch::follow::{self, Audience, Ending};
use crate::wire::{Host, Settings};

/// Ships with the repository, so that readers find what they saw.
const WORKFLOW: &str = include_str!("../../examples/workflows/triage-desk.yaml");
const WORKFLOW_ID: &str = "triage-desk";
const PERSONA: &str = "Sally";
/// The brackets let the scripted model doubt, so that there is an approval to see.
const MESSAGE: &str =
    "The lift has stopped between two floors. Is anybody coming? [[scripted: confidence 0.3]]";
/// The node whose answer the workflow is there for.
const RESULT: &str = "sort";
/// What the demo says to whatever the run asks.
const ANSWER: &str = "accept";
/// Long enough to read a question, short enough not to bore.
const READING_TIME: Duration = Duration::from_millis(700);

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard demo
  callboard demo --once

Needs no key, no network and no configuration: the model is scripted, whatever keys
are set. The folder is removed at the end. Where there is a display, the console opens in
the browser, signed in.")]
pub(crate) struct DemoArgs {
    /// Stop after the run instead of keeping the host running
    #[arg(long)]
    once: bool,
    /// Print the console's address without opening a browser
    #[arg(long)]
    no_open: bool,
    /// Address to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: String,
}

pub(crate) async fn run(args: DemoArgs) -> Result<Exit, CommandError> {
    start_logging("warn", LogFormat::Text)?;
    let folder = tempfile::tempdir().map_err(|error| {
        CommandError::failed(format!("no temporary folder: {error}"))
            .hint("set TMPDIR to a folder that can be written")
    })?;
    let settings = Settings {
        listen: args.listen.clone(),
        data: folder.path().join("data"),
        config: Config { agents: Agents::LIVE, ..Config::default() },
        // A key that happens to be set is not the demo's to spend.
        variable: |_| None,
        ..Settings::default()
    };
    let mut stop = Stop::listen(OnHangup::Stop)?;
    let host = Host::start(settings).await?;
    let shown = show(&host, &args).await;
    let left = matches!(shown, Ok(Ending::Left));
    if shown.is_ok() && !args.once && !left {
        output::line(&format!("\n{}", "serving until Ctrl-C".dimmed()))?;
        stop.asked().await;
    }
    host.stop().await;
    match shown? {
        Ending::Completed => Ok(Exit::Done),
        Ending::Broken(_) => Ok(Exit::Failed),
        Ending::Left => Ok(Exit::Interrupted),
    }
}

async fn show(host: &Host, args: &DemoArgs) -> Result<Ending, CommandError> {
    let Some(key) = host.first_key() else {
        return Err(CommandError::failed("the demo's host came without a key"));
    };
    let client = Client::new(&Connection::to(host.url().to_owned(), key.clone()))?;
    output::line(&format!(
        "{} a host on {}, with its database in a temporary folder",
        "callboard demo:".bold(),
        host.url()
    ))?;
    output::line(
        "The model is scripted, which is no model at all: it costs nothing and needs no network.\n",
    )?;
    let member = set_up(&client).await?;
    let (queue, run) = fire(&client, &member).await?;
    let (answers, lines) = mpsc::channel(1);
    let definition = definition()?;
    let watched = follow::follow(
        &client,
        &run,
        WHOLE_LOG,
        Audience::People,
        Some(&definition),
        Answers::Lines(Some(lines)),
    );
    let ending = tokio::select! {
        ending = watched => ending?,
        never = keep_answering(answers) => match never {},
    };
    if ending == Ending::Left {
        return Ok(ending);
    }
    sum_up(&client, &run).await?;
    say("address", host.url())?;
    if let Some(link) = host.console_link() {
        // The link counts once: who opens it here leaves another way in for later.
        let is_opened =
            !args.once && !args.no_open && browser::open(link, std::io::stdout().is_terminal());
        say("console", link)?;
        if is_opened {
            say("", "it opens in your browser; `callboard console` prints another link")?;
        }
    }
    if !args.once {
        invite(host.url(), key, &run, &member, &queue)?;
    }
    Ok(ending)
}

/// A pack, a workflow from its agents, and a member that owns it.
async fn set_up(client: &Client) -> Result<AgentRosterEntry, CommandError> {
    let archive = starter::archive()
        .map_err(|error| CommandError::failed(format!("the starter pack: {error}")))?;
    let pack = client
        .install_pack(
            archive,
            &[("allowUnsigned", "1".to_owned())],
            indicatif::ProgressBar::hidden(),
        )
        .await?;
    let (name, version) = (text_at(&pack, "/name")?, text_at(&pack, "/version")?);
    say("installed", &format!("the pack {name} {version}"))?;
    client.put_workflow(WORKFLOW_ID, definition()?.into_bytes()).await?;
    say("registered", &format!("the workflow {WORKFLOW_ID}"))?;
    let member = client
        .hire(&HireMember {
            persona: PERSONA.to_owned(),
            agent_ref: RosterAgentRef {
                agent_id: starter::TRIAGER.into(),
                version: None,
                channel: None,
            },
            workflows: vec![WORKFLOW_ID.into()],
            enabled: true,
            label: None,
            description: None,
        })
        .await?;
    let (id, agent) = (&member.roster_id, &member.agent_ref.agent_id);
    say("hired", &format!("{PERSONA} ({id}, a {agent}), who owns {WORKFLOW_ID}"))?;
    Ok(member)
}

/// The shipped workflow as hosts keep it.
fn definition() -> Result<String, CommandError> {
    let source = Source { text: WORKFLOW, format: Format::Yaml, id: None };
    let reading = callboard_authoring::read(source);
    let first = reading.problems.iter().next().map(ToString::to_string).unwrap_or_default();
    reading
        .canonical
        .ok_or_else(|| CommandError::failed(format!("the demo's workflow is wrong: {first}")))
}

/// Lets a message come in through a queue of the member; answers the queue and the run.
async fn fire(client: &Client, member: &AgentRosterEntry) -> Result<(String, RunId), CommandError> {
    let made = client
        .add(
            &Kind::SUBSCRIPTION,
            &json!({
                "source": "queue",
                "workflowId": WORKFLOW_ID,
                "rosterId": member.roster_id,
                "inputMapping": { "message": "queue.message" },
            }),
        )
        .await?;
    let queue = text_at(&made, "/subscription/subscriptionId")?.to_owned();
    let letter = json!({ "id": "letter-1", "payload": { "message": MESSAGE } });
    let delivered: Value =
        client.post(&Kind::SUBSCRIPTION, &queue, "/deliver", Some(&letter)).await?;
    let run = RunId::from(text_at(&delivered, "/runId")?);
    say("fired", &format!("{WORKFLOW_ID}, by a message in {PERSONA}'s queue {queue}:"))?;
    output::line(&format!("{:12}{}", "", MESSAGE.italic()))?;
    say("approval", &format!("below 0.7 sure she waits for one; the demo answers {ANSWER}"))?;
    output::line("")?;
    Ok((queue, run))
}

/// The same answer to every question, after a pause for reading.
async fn keep_answering(answers: mpsc::Sender<String>) -> Infallible {
    loop {
        tokio::time::sleep(READING_TIME).await;
        // Fails only once no more questions come, and then this is dropped too.
        let _ = answers.send(ANSWER.to_owned()).await;
    }
}

/// How it ended, its result, and its cost.
async fn sum_up(client: &Client, run: &RunId) -> Result<(), CommandError> {
    let (_, snapshot) = client.run(run.as_str()).await?;
    output::line("")?;
    say("state", snapshot.status.as_str())?;
    let result = snapshot.variables.get(RESULT).unwrap_or(&Value::Null);
    say("result", &words::compact(result))?;
    let cost = snapshot.metrics.map(|metrics| metrics.openwop_cost).unwrap_or_default();
    let usd = cost.usd.map_or_else(|| "unknown".to_owned(), words::dollars);
    let (input, output) = (cost.tokens.input, cost.tokens.output);
    let provider = cost.provider.as_deref().unwrap_or("no");
    say("cost", &format!("{usd} for {input} tokens in and {output} out of the {provider} model"))
}

/// What to try next, while the host is there.
fn invite(
    url: &str,
    key: &ApiKey,
    run: &RunId,
    member: &AgentRosterEntry,
    queue: &str,
) -> Result<(), CommandError> {
    let (key, member) = (key.expose(), &member.roster_id);
    output::line("\nEvery line above is in the run's log, on disk:")?;
    output::line(&format!(
        "  curl -s -H 'Authorization: Bearer {key}' {url}/v1/runs/{run}/events/poll"
    ))?;
    output::line(&format!("Give {PERSONA} more to do, from a second terminal:"))?;
    output::line(&format!("  export CALLBOARD_URL={url} CALLBOARD_API_KEY={key}"))?;
    output::line(&format!(
        "  callboard triggers deliver {queue} --id letter-2 --payload '{{\"message\": \"Where is my parcel?\"}}'"
    ))?;
    output::line("  callboard inbox list")?;
    output::line(&format!("  callboard roster show {member}"))
}

fn say(what: &str, text: &str) -> Result<(), CommandError> {
    output::line(&format!("{} {text}", format!("{:<11}", label(what)).bold()))
}

/// A line that goes on with the one before has none.
fn label(what: &str) -> String {
    if what.is_empty() { String::new() } else { format!("{what}:") }
}

fn text_at<'a>(answer: &'a Value, pointer: &str) -> Result<&'a str, CommandError> {
    answer.pointer(pointer).and_then(Value::as_str).ok_or_else(|| {
        CommandError::failed(format!("the demo's host answered without {pointer}: {answer}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_workflow_is_the_one_that_runs() -> Result<(), Box<dyn std::error::Error>> {
        let definition = definition().map_err(|error| error.what)?;
        let plan = callboard_core::Plan::parse(definition.as_bytes())?;
        assert_eq!(plan.id().as_str(), WORKFLOW_ID);
        Ok(())
    }
}
