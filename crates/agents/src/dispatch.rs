//! The floor of RFC 0070: an agent of a pack gets a task and gives a result, both as its manifest promises.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use callboard_core::{
    AgentFact, AgentPin, Answered, Confidence, Fact, Inadmissible, Outcome, Question, RetryClass,
    escalation_threshold, falls_short,
};
use callboard_engine::{Activity, Call, Deployments, Directory, EngineError, Realm, StoreError};
use callboard_protocol::{AgentId, AgentRef, Failure, Object, ProviderUsage, RunId};

use crate::deployment::{Deployment, Draw, PinError, pin};
use crate::inventory::{AgentRegistry, InstalledAgent};
use crate::memory::bind;
use crate::model::{ModelTable, Scripted, scripted_answer};
use crate::pack::Schema;
use crate::task::TaskReader;

/// Knows the agents of each tenant, and which version of one a run gets.
#[derive(Debug)]
pub struct AgentDirectory {
    pub registry: Arc<AgentRegistry>,
    pub deployments: Deployments,
}

impl AgentDirectory {
    async fn deployment(&self, realm: &Realm, agent: &AgentId) -> Result<Deployment, StoreError> {
        let stored = self.deployments.deployment(realm, agent).await?;
        stored.map_or_else(|| Ok(Deployment::default()), |it| Deployment::read(agent, &it.state))
    }
}

#[async_trait]
impl Directory for AgentDirectory {
    async fn pin(
        &self,
        realm: &Realm,
        agent: &AgentRef,
        run: &RunId,
    ) -> Result<Option<AgentPin>, EngineError> {
        let id = AgentId::from(agent.agent_id.as_str());
        let deployment = match agent.channel {
            Some(_) => self.deployment(realm, &id).await?,
            None => Deployment::default(),
        };
        let snapshot = self.registry.snapshot();
        match pin(&snapshot, realm, &deployment, agent, Draw::of(run)) {
            Ok(pin) => Ok(Some(pin)),
            Err(PinError::UnknownAgent { .. } | PinError::UnknownVersion { .. }) => Ok(None),
            Err(refusal @ (PinError::NoActiveDeployment { .. } | PinError::Both)) => {
                Err(EngineError::Inadmissible(Inadmissible {
                    code: refusal.code(),
                    path: String::new(),
                    message: refusal.to_string(),
                    details: Object::from_iter([(
                        "agentId".to_owned(),
                        agent.agent_id.clone().into(),
                    )]),
                }))
            }
        }
    }
}

/// A directory of a host that asks models: what it was not configured with, no run may name.
#[derive(Debug)]
pub struct WithModels {
    pub directory: AgentDirectory,
    pub table: ModelTable,
}

#[async_trait]
impl Directory for WithModels {
    async fn pin(
        &self,
        realm: &Realm,
        agent: &AgentRef,
        run: &RunId,
    ) -> Result<Option<AgentPin>, EngineError> {
        self.directory.pin(realm, agent, run).await
    }

    fn admit_models(&self, configurable: &Object) -> Result<(), Inadmissible> {
        self.table.admit(configurable).map_err(|error| Inadmissible {
            code: "validation_error",
            path: "configurable.ai".to_owned(),
            message: error.to_string(),
            details: Object::new(),
        })
    }
}

/// Performs nodes that an agent is pinned to, with the scripted model: deterministic, free, and said so.
#[derive(Debug)]
pub struct AgentDispatch {
    registry: Arc<AgentRegistry>,
    read_task: TaskReader,
}

impl AgentDispatch {
    pub fn new(registry: Arc<AgentRegistry>, read_task: TaskReader) -> Self {
        Self { registry, read_task }
    }

    fn find(&self, realm: &Realm, pin: &AgentPin) -> Option<InstalledAgent> {
        self.registry.snapshot().find_kept(realm, pin).cloned()
    }
}

#[async_trait]
impl Activity for AgentDispatch {
    async fn perform(&self, call: Call) -> Outcome {
        let Some(pin) = &call.agent else {
            return failed("internal_error", "no agent is pinned to this node".to_owned());
        };
        let Some(found) = self.find(&call.scope().realm(), pin) else {
            let message = format!("agent {} {} is not installed", pin.agent_id, pin.version);
            return failed("agent_not_installed", message);
        };
        if let Some(answered) = &call.answer {
            return ratified(&call, &found, answered).await;
        }
        let read = (self.read_task)(&pin.agent_id, &call.inputs);
        let task = Value::Object(read.task);
        if let Err(outcome) = hand_over(found.agent.task.as_ref(), &task, Handoff::Task) {
            return outcome;
        }
        let schema = found.agent.result.as_ref().map(|schema| &*schema.source);
        let (used, result) = match read.result {
            Some(result) => (None, result),
            None => (Some(stand_in()), scripted_answer(schema, &found.agent.manifest.persona)),
        };
        if let Err(outcome) = hand_over(found.agent.result.as_ref(), &result, Handoff::Result) {
            return outcome;
        }
        if call.record(facts(&call.configurable, &found, &result, used)).await.is_err() {
            // Nobody listens to an attempt that no longer counts.
            return Outcome::Done { outputs: Object::new() };
        }
        let threshold = threshold(&call.configurable, &found);
        match Confidence::read(result.get("confidence")) {
            Some(observed) if falls_short(Some(observed), threshold) => Outcome::Suspend(
                Question::low_confidence(&pin.agent_id, threshold, observed, Some(result)),
            ),
            _ => conclude(&call, &found, result).await,
        }
    }
}

/// What a person made of a result that the agent was not sure enough of.
async fn ratified(call: &Call, found: &InstalledAgent, answered: &Answered) -> Outcome {
    let result = match answered.result() {
        Ok(result) => result,
        Err(failure) => return Outcome::Failed { failure, class: RetryClass::Final },
    };
    if let Err(outcome) = hand_over(found.agent.result.as_ref(), &result, Handoff::Result) {
        return outcome;
    }
    let decided = AgentFact::Decided { decision: result.clone(), confidence: None };
    // The second decision of this visit: the first was the agent's own.
    let fact = Fact::Agent { place: 1, fact: decided };
    if call.record(vec![fact]).await.is_err() {
        return Outcome::Done { outputs: Object::new() };
    }
    conclude(call, found, result).await
}

/// The result is the node's, and what the agent remembers of it.
async fn conclude(call: &Call, found: &InstalledAgent, result: Value) -> Outcome {
    if let Some(memory) = bind(call, &found.agent.manifest)
        && let Err(error) = memory.keep(&result).await
    {
        return error.outcome();
    }
    Outcome::Done { outputs: outputs(result) }
}

/// How sure this agent must be in this run.
fn threshold(configurable: &Object, found: &InstalledAgent) -> Confidence {
    let manifest = found.agent.manifest.confidence.and_then(|it| it.default_threshold);
    escalation_threshold(configurable, manifest.and_then(Confidence::of))
}

/// An agent's events about its work, reasoning first.
fn facts(
    configurable: &Object,
    found: &InstalledAgent,
    result: &Value,
    used: Option<AgentFact>,
) -> Vec<Fact> {
    let verbosity = configurable.get("reasoningVerbosity").and_then(Value::as_str);
    let reasoned = (verbosity != Some("off")).then(|| AgentFact::Reasoned {
        reasoning: format!(
            "{} answered from the scripted model, which thinks nothing.",
            found.agent.manifest.persona
        ),
        verbosity: Some(verbosity.unwrap_or("summary").to_owned()),
    });
    let confidence = Confidence::read(result.get("confidence")).map(Confidence::get);
    let decided = AgentFact::Decided { decision: result.clone(), confidence };
    let facts = used.into_iter().chain(reasoned).chain([decided]);
    facts.map(|fact| Fact::Agent { place: 0, fact }).collect()
}

/// Names the stand-in as the model that answered, so that the run and its result say so.
fn stand_in() -> AgentFact {
    AgentFact::Used(ProviderUsage {
        provider: Scripted::PROVIDER.to_owned(),
        model: Scripted::MODEL.to_owned(),
        input_tokens: 0,
        output_tokens: 0,
        total_tokens: Some(0),
        cost_estimate_usd: Some(0.0),
        currency: Some("USD".to_owned()),
        cache_hit: None,
        cache_read_tokens: None,
        cache_write_tokens: None,
        node_id: None,
        trace_id: None,
    })
}

/// Which way a value is handed over.
#[derive(Debug, Clone, Copy)]
enum Handoff {
    Task,
    Result,
}

/// Refuses what its schema does not admit; the complaint names places and rules, never values.
fn hand_over(schema: Option<&Schema>, value: &Value, what: Handoff) -> Result<(), Outcome> {
    let violations = schema.map(|schema| schema.violations(value)).unwrap_or_default();
    if violations.is_empty() {
        return Ok(());
    }
    let (code, of) = match what {
        Handoff::Task => ("handoff_task_schema_violation", "task"),
        Handoff::Result => ("handoff_return_schema_violation", "result"),
    };
    Err(failed(code, format!("the {of} does not match its schema: {}", violations.join("; "))))
}

/// A result's keys are the node's outputs; one that has none stands under `result`.
fn outputs(result: Value) -> Object {
    match result {
        Value::Object(fields) => fields,
        other => Object::from_iter([("result".to_owned(), other)]),
    }
}

fn failed(code: &str, message: String) -> Outcome {
    Outcome::Failed { failure: Failure::new(code, message), class: RetryClass::Final }
}
