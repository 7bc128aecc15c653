//! The door to deployments: scenarios of the test suite, played with the code that callers meet.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_agents::{
    DeploymentPolicy, EvalGate, Offer, Unsigned, audit_refusal, bundle, scaffold,
};
use callboard_engine::{Order, PackOwner, Target};
use callboard_protocol::{
    AgentDeployment, AgentId, DeploymentState, DeploymentTransition, Object, PackVersion, RunId,
    Transition,
};
use callboard_server::extend::{
    Answer, Caller, Code, Host, Problem, Shaped,
    deployments::{prepare, read},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::stage::settled;

/// The agent of the suite's fixture.
const AGENT: &str = "core.conformance.channel-agent";
const CHANNEL: &str = "stable";
const NODE: &str = "bound";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Play {
    scenario: Scenario,
    agent_id: Option<AgentId>,
    version: Option<PackVersion>,
    channel: Option<String>,
    eval_run_id: Option<RunId>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Scenario {
    Promote,
    Unauthorized,
    EvalGateUnmet,
    ChannelPin,
}

pub(super) async fn deployment(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(play): Shaped<Play>,
) -> Result<Answer, Problem> {
    let agent = play.agent_id.clone().unwrap_or_else(|| AGENT.into());
    let policy = &host.app.config.deployments;
    let shown = match play.scenario {
        Scenario::Promote => {
            let (run, record) = promote(&host, &caller, &agent, &play).await?;
            json!({ "runId": run, "record": record, "allowed": true })
        }
        Scenario::Unauthorized => {
            let nobody = Caller { scopes: Some([].into()), ..caller };
            let run = refused(&host, &nobody, &agent, &play, policy, Code::Forbidden).await?;
            json!({ "runId": run, "allowed": false })
        }
        Scenario::EvalGateUnmet => {
            let policy =
                DeploymentPolicy { eval_gate: Some(EvalGate::default()), ..policy.clone() };
            let code = Code::EvalGateUnmet;
            let run = refused(&host, &caller, &agent, &play, &policy, code).await?;
            json!({ "runId": run, "allowed": false, "error": code.name() })
        }
        Scenario::ChannelPin => resolved(&host, &caller, &agent, &play).await?,
    };
    Ok(Answer::of(StatusCode::OK, &shown))
}

/// Brings a version onto a channel, step by step; a new one is made where none is named.
async fn promote(
    host: &Host,
    caller: &Caller,
    agent: &AgentId,
    play: &Play,
) -> Result<(RunId, AgentDeployment), Problem> {
    let version = match &play.version {
        Some(version) => version.clone(),
        None => make_version(host, caller, agent).await?,
    };
    let policy = &host.app.config.deployments;
    let channel = play.channel.clone().unwrap_or_else(|| CHANNEL.to_owned());
    loop {
        let (_, deployment) = read(host, caller, agent).await?;
        let mut request = DeploymentTransition::new(version.clone(), Transition::Promote);
        let state = deployment.state_of(&version);
        let is_last = !matches!(state, DeploymentState::Draft | DeploymentState::Test);
        if is_last {
            request.to_state = Some(DeploymentState::Active);
            request.channel = Some(channel.clone());
            request.eval_run_id.clone_from(&play.eval_run_id);
        }
        let prepared = prepare(host, caller, agent, request, policy).await?;
        let record = prepared.changed.record.clone();
        let done = prepared.commit(host, None).await?;
        if is_last {
            settled(host, caller, &done.run).await?;
            return Ok((done.run, record));
        }
    }
}

/// Asks for what must be refused with this code, and answers the run that tells of it.
async fn refused(
    host: &Host,
    caller: &Caller,
    agent: &AgentId,
    play: &Play,
    policy: &DeploymentPolicy,
    code: Code,
) -> Result<RunId, Problem> {
    let version = match &play.version {
        Some(version) => version.clone(),
        None => make_version(host, caller, agent).await?,
    };
    let mut request = DeploymentTransition::new(version, Transition::Promote);
    loop {
        match prepare(host, caller, agent, request.clone(), policy).await {
            Err(problem) if problem.code == code => {
                let run = tell(host, caller, agent, &problem).await?;
                settled(host, caller, &run).await?;
                return Ok(run);
            }
            Err(problem) => return Err(problem),
            // The gate stands before the last step.
            Ok(prepared) if prepared.changed.record.state == DeploymentState::Active => {
                return Err(Problem::invalid("nothing refused the promotion"));
            }
            Ok(prepared) => {
                if prepared.changed.record.state == DeploymentState::Staged {
                    request.eval_run_id.clone_from(&play.eval_run_id);
                }
                prepared.commit(host, None).await?;
            }
        }
    }
}

/// A run whose one node follows the channel, and the version that it was given.
async fn resolved(
    host: &Host,
    caller: &Caller,
    agent: &AgentId,
    play: &Play,
) -> Result<Value, Problem> {
    if host.app.agents.snapshot().find(&caller.scope.realm(), agent, None).is_none() {
        return Err(Problem::invalid_at(
            "agentId",
            "there is no such agent, or none that you may see",
        ));
    }
    let channel = play.channel.as_deref().unwrap_or(CHANNEL);
    let bound = bound(agent, channel).to_string();
    let (owner, mode) = (caller.owner(), caller.scope.mode);
    let catalog = host.app.engine.catalog();
    let (workflow, _) = catalog
        .register(&owner, mode, bound.as_bytes(), host.now())
        .await
        .map_err(|error| Problem::internal(&error))?;
    let order = Order {
        configurable: Object::from_iter([("ai".to_owned(), json!({ "provider": "scripted" }))]),
        ..Order::new(Target::Workflow(workflow), owner, mode)
    };
    let run = host.app.engine.create(order, None).await?.run;
    settled(host, caller, &run).await?;
    let state = host.app.engine.store().open(&run).await?;
    let pin = state.and_then(|state| state.birth.agents.get(&NODE.into()).cloned());
    Ok(json!({ "runId": run, "resolvedAgentVersion": pin.map(|pin| pin.version) }))
}

/// A workflow of one node that an agent's channel performs.
fn bound(agent: &AgentId, channel: &str) -> Value {
    json!({
        "id": "conformance-channel-pin", "name": "Channel pin", "version": "1.0",
        "nodes": [{
            "id": NODE, "typeId": "core.identity", "name": "Bound", "position": { "x": 0, "y": 0 },
            "config": {}, "inputs": {}, "agent": { "agentId": agent, "channel": channel },
        }],
        "edges": [], "triggers": [], "variables": [], "metadata": {}, "settings": {},
    })
}

/// Installs one more version of an agent that is a pack of its own, as the suite's is.
async fn make_version(
    host: &Host,
    caller: &Caller,
    agent: &AgentId,
) -> Result<PackVersion, Problem> {
    let unfit = || Problem::invalid_at("agentId", "cannot be a pack's name, so name a version");
    let name = agent.as_str().parse().map_err(|_| unfit())?;
    let snapshot = host.app.agents.snapshot();
    let count = snapshot.versions(&caller.scope.realm(), agent).count();
    let mut files: BTreeMap<String, Arc<[u8]>> = scaffold(&name)
        .into_iter()
        .map(|(path, text)| (path.to_owned(), text.into_bytes().into()))
        .collect();
    let manifest = files.get("pack.json").map(|bytes| serde_json::from_slice(bytes));
    let mut manifest: Value = manifest.and_then(Result::ok).ok_or_else(unfit)?;
    let text = format!("1.0.{count}");
    manifest["version"] = json!(text);
    manifest["agents"][0]["agentId"] = json!(agent);
    // The suite's fixture hands it no task.
    manifest["agents"][0]["handoff"] = json!({});
    files.insert("pack.json".to_owned(), manifest.to_string().into_bytes().into());
    let archive = bundle(&files).map_err(|error| Problem::internal(&error))?;
    let owner = PackOwner::Realm(caller.scope.realm());
    let offer = Offer::plain(Arc::from(archive));
    host.app.agents.install(owner, offer, Unsigned::Allowed, host.now()).await?;
    text.parse().map_err(|_| unfit())
}

/// A run that tells why a transition was not made, for those who must be able to point at one.
async fn tell(
    host: &Host,
    caller: &Caller,
    agent: &AgentId,
    refused: &Problem,
) -> Result<RunId, Problem> {
    let (owner, mode) = (caller.owner(), caller.scope.mode);
    let audit = audit_refusal(agent, refused.code.name(), &refused.message, owner, mode);
    Ok(host.app.engine.audit(audit, host.now()).await?.run)
}
