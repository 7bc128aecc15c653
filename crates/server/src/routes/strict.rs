//! Unknown names are refused when they are sent, with the nearest known one: a misspelt input would
//! be ignored by every run, and found by nobody.

use callboard_authoring::{nearest, unknown_name};
use callboard_engine::{Filter, Target};
use callboard_protocol::{Object, RunId, WorkflowDefinition, WorkflowId};

use crate::app::Host;
use crate::keys::Caller;
use crate::problem::Problem;

/// The protocol's keys of `configurable`. Keys of others have a prefix of their own.
const OPTIONS: [&str; 13] = [
    "recursionLimit",
    "runTimeoutMs",
    "maxLoopIterations",
    "budget",
    "model",
    "temperature",
    "maxTokens",
    "ai",
    "promptOverrides",
    "reasoningVerbosity",
    "escalationThreshold",
    "mockProvider",
    "distillation",
];
/// What `ai` says about calls of a model.
const AI: [&str; 3] = ["provider", "model", "credentialRef"];

/// Refuses inputs that a workflow with declared variables does not declare. One that declares none takes what it is
/// given, as the protocol's clients rely on; one that is not there is refused by name elsewhere.
pub(super) async fn inputs(
    host: &Host,
    caller: &Caller,
    workflow: &WorkflowId,
    given: &Object,
    path: &str,
) -> Result<(), Problem> {
    if given.is_empty() {
        return Ok(());
    }
    let entry = host.app.engine.catalog().find(&caller.scope, workflow).await?;
    entry.map_or(Ok(()), |entry| known_inputs(entry.plan.definition(), given, path))
}

/// The same for a definition that is at hand.
pub(super) fn known_inputs(
    definition: &WorkflowDefinition,
    given: &Object,
    path: &str,
) -> Result<(), Problem> {
    // The inputs are the task of that agent, whose own schema judges them.
    if definition.metadata.requires_agent_id.is_some() {
        return Ok(());
    }
    let known: Vec<&str> = definition.variables.iter().map(|it| it.name.as_str()).collect();
    let is_channel = |name: &str| {
        definition.channels.iter().flatten().any(|(channel, _)| channel.as_str() == name)
    };
    // A channel is refused in words of its own.
    let is_known = |name: &&String| known.contains(&name.as_str()) || is_channel(name);
    match given.keys().find(|name| !is_known(name)) {
        Some(name) if !known.is_empty() => Err(unknown(path, "input", name, &known)),
        Some(_) | None => Ok(()),
    }
}

/// Refuses what a run is ordered with and nobody would read.
pub(super) async fn order(
    host: &Host,
    caller: &Caller,
    target: &Target,
    given: &Object,
    configurable: &Object,
) -> Result<(), Problem> {
    let Target::Workflow(workflow) = target else { return options(configurable) };
    inputs(host, caller, workflow, given, "inputs").await?;
    let Err(refused) = options(configurable) else { return Ok(()) };
    // A workflow with a schema of its own says what it takes.
    let entry = host.app.engine.catalog().find(&caller.scope, workflow).await?;
    match entry {
        Some(entry) if entry.plan.definition().configurable_schema.is_some() => Ok(()),
        Some(_) | None => Err(refused),
    }
}

/// Refuses options of a branch that no run would read. A source that is not there is refused by name elsewhere.
pub(super) async fn overlay(
    host: &Host,
    caller: &Caller,
    source: &RunId,
    configurable: &Object,
) -> Result<(), Problem> {
    if options(configurable).is_ok() {
        return Ok(());
    }
    let filter = Filter { run: Some(source.clone()), limit: 1, ..Filter::default() };
    let found = host.app.engine.store().list(&caller.scope, &filter).await?.pop();
    let Some(found) = found else { return Ok(()) };
    let target = Target::Workflow(found.workflow_id);
    order(host, caller, &target, &Object::new(), configurable).await
}

fn options(configurable: &Object) -> Result<(), Problem> {
    for (name, value) in configurable {
        match name.split_once('.') {
            Some(("ai", key)) if !AI.contains(&key) => {
                return Err(unknown("configurable.ai", "key", key, &AI));
            }
            // What has a prefix is the caller's own.
            Some(_) => {}
            None if !OPTIONS.contains(&name.as_str()) => {
                return Err(unknown("configurable", "key", name, &OPTIONS));
            }
            None => {}
        }
        let inside = value.as_object().filter(|_| name == "ai");
        if let Some(key) =
            inside.into_iter().flat_map(Object::keys).find(|key| !AI.contains(&key.as_str()))
        {
            return Err(unknown("configurable.ai", "key", key, &AI));
        }
    }
    Ok(())
}

fn unknown(path: &str, what: &str, name: &str, known: &[&str]) -> Problem {
    let problem = Problem::invalid_at(&format!("{path}.{name}"), &unknown_name(what, name, known));
    match nearest(name, known.iter().copied()) {
        Some(near) => problem.with("didYouMean", near),
        None => problem,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::options;

    fn refusal(configurable: Value) -> Option<String> {
        let configurable = configurable.as_object().cloned().unwrap_or_default();
        options(&configurable).err().map(|problem| problem.message)
    }

    #[test]
    fn a_key_that_nobody_reads_is_refused() {
        assert_eq!(
            refusal(json!({ "recursionLimit": 5, "ai": { "model": "m" }, "ai.model": "m" })),
            None
        );
        assert_eq!(refusal(json!({ "acme.colour": "blue" })), None);
        assert_eq!(
            refusal(json!({ "recursionlimit": 5 })).as_deref(),
            Some(
                "configurable.recursionlimit: unknown key \"recursionlimit\"; did you mean \"recursionLimit\"?"
            )
        );
        assert_eq!(
            refusal(json!({ "ai": { "modle": "m" } })).as_deref(),
            Some("configurable.ai.modle: unknown key \"modle\"; did you mean \"model\"?")
        );
    }
}
