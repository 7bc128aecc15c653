//! `callboard demo`: a host in a temporary folder, one run to watch, and an address to try it by hand.

use clap::Args;
use owo_colors::OwoColorize;
use serde_json::{Value, json};

use callboard_protocol::{CreateRun, RunId, RunStatus};

use crate::answers::Answers;
use crate::args::{ApiKey, Connection};
use crate::client::Client;
use crate::commands::serve::{LogFormat, start_logging};
use crate::config::Config;
use crate::exit::{CommandError, Exit};
use crate::follow::{self, Audience, Ending};
use crate::output;
use crate::wire::{Host, Settings};

/// Ships with the repository, so that readers find what they saw.
const WORKFLOW: &str = include_str!("../../examples/workflows/morning-brief.json");
const WORKFLOW_ID: &str = "morning-brief";
/// What the scripted model says, word by word.
const ANSWER: &str = "Good morning! One letter cannot wait: the landlord wants an answer today.\n\
    You have two meetings before noon, and it will rain from four: take the bicycle early.";
/// Slow enough to see that the text is streamed, quick enough not to bore.
const WORD_DELAY_MS: u64 = 45;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard demo
  callboard demo --once

Needs no key, no network and no configuration. The folder is removed at the end.")]
pub(crate) struct DemoArgs {
    /// Stop after the run instead of serving on
    #[arg(long)]
    once: bool,
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
        config: Config::default(),
        workflows: Vec::new(),
        api_keys: Vec::new(),
        // Its first key is a test key then, and only those may ask for the scripted model.
        test_seams: true,
        ..Settings::default()
    };
    let host = Host::start(settings).await?;
    let shown = show(&host, &args).await;
    let left = matches!(shown, Ok(Ending::Left));
    if shown.is_ok() && !args.once && !left {
        output::line(&format!("\n{}", "serving until Ctrl-C".dimmed()))?;
        // Nothing is lost if the signal cannot be waited for: the demo just ends.
        let _ = tokio::signal::ctrl_c().await;
    }
    host.stop().await;
    match shown? {
        Ending::Ended(RunStatus::Completed) => Ok(Exit::Done),
        Ending::Ended(_) => Ok(Exit::Failed),
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
        "The model in this demo is scripted: it always says the same, costs nothing and needs no network.\n",
    )?;
    client.put_workflow(WORKFLOW_ID, WORKFLOW.into()).await?;
    let created = client.create_run(&order(), None).await?;
    let ending = follow::follow(
        &client,
        &created.run_id,
        "debug",
        Audience::People,
        Some(WORKFLOW),
        Answers::Elsewhere,
    )
    .await?;
    if ending == Ending::Left {
        return Ok(ending);
    }
    output::line(&format!("\n{} {}", "cost:".bold(), "nothing, the model was scripted"))?;
    if !args.once {
        invite(host.url(), key, &created.run_id)?;
    }
    Ok(ending)
}

/// What to try next, while the host is there.
fn invite(url: &str, key: &ApiKey, run: &RunId) -> Result<(), CommandError> {
    let key = key.expose();
    output::line("\nEvery line above is in the run's log, on disk:")?;
    output::line(&format!(
        "  curl -s -H 'Authorization: Bearer {key}' {url}/v1/runs/{run}/events/poll"
    ))?;
    output::line("Start another run in a second terminal:")?;
    output::line(&format!("  export CALLBOARD_URL={url} CALLBOARD_API_KEY={key}"))?;
    output::line(&format!("  callboard run {WORKFLOW_ID} --input '{{\"letters\": 0}}' --follow"))
}

fn order() -> CreateRun {
    CreateRun {
        workflow_id: Some(WORKFLOW_ID.to_owned()),
        configurable: scripted_model().as_object().cloned(),
        tags: Some(vec!["demo".to_owned()]),
        ..CreateRun::default()
    }
}

fn scripted_model() -> Value {
    let words: Vec<&str> = ANSWER.split_inclusive(' ').collect();
    json!({ "mockProvider": { "id": "stream-text", "config": { "tokens": words, "delayMsPerToken": WORD_DELAY_MS } } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_workflow_is_the_one_that_runs() -> Result<(), callboard_core::PlanError> {
        let plan = callboard_core::Plan::parse(WORKFLOW.as_bytes())?;
        assert_eq!(plan.id().as_str(), WORKFLOW_ID);
        Ok(())
    }
}
