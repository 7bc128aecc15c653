//! Watching a run from its first event to its last.

pub(crate) mod answers;
pub(crate) mod follow;
pub(crate) mod prompt;
pub(crate) mod question;
mod stream;
mod timeline;

use owo_colors::OwoColorize;
use serde_json::json;

use callboard_protocol::{RosterId, RunId};

use crate::client::{Client, Kind};
use crate::exit::{CommandError, Exit};
use crate::screen::mend::mend;
use crate::screen::output;
use answers::Answers;
use follow::{Audience, Ending};

/// Everything in the log, text included.
pub(crate) const WHOLE_LOG: &str = "debug";

/// What is written above a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heading {
    Run,
    Fork,
    Retry,
}

/// Watches a run to its end.
pub(crate) async fn watch(
    client: &Client,
    run: &RunId,
    heading: Heading,
    definition: Option<&str>,
    as_json: bool,
) -> Result<Exit, CommandError> {
    let audience = if as_json { Audience::Machines } else { Audience::People };
    if !as_json {
        let heading = match heading {
            Heading::Run => "run",
            Heading::Fork => "fork",
            Heading::Retry => "retry",
        };
        output::line(&format!("{} {run}", heading.bold()))?;
    }
    let followed = follow::follow(client, run, WHOLE_LOG, audience, definition, answers(as_json));
    let ending = Box::pin(followed).await?;
    Ok(conclude(run, ending, audience))
}

/// Machines that read events get no forms between them.
fn answers(as_json: bool) -> Answers {
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
        client.get::<serde_json::Value>(&Kind::AGENT, name, "").await.map(|_| None)
    } else {
        client.workflow(name).await.map(Some)
    };
    match found {
        Ok(definition) => Ok(definition),
        Err(error) if error.exit == Exit::Refused => Ok(None),
        Err(error) => Err(error),
    }
}

/// The definition only lends its names to the nodes; a run whose workflow is gone can still be read.
pub(crate) async fn definition_of_run(
    client: &Client,
    run: &str,
) -> Result<Option<String>, CommandError> {
    let (_, snapshot) = client.run(run).await?;
    Ok(client.workflow(snapshot.workflow_id.as_str()).await.ok())
}

/// No workflow has a dot in its id, and every agent has one; members begin with a word of their own.
pub(crate) fn is_agent(name: &str) -> bool {
    name.contains('.') || RosterId::is_meant_by(name)
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
            output::note(&format!("run {run} continues"));
            output::hint(&format!("`callboard runs events {run} --follow` follows it again"));
            Exit::Interrupted
        }
    }
}
