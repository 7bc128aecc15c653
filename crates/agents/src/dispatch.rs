//! The floor of RFC 0070: an agent of a pack gets a task and gives a result, both as its manifest promises.

mod script;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use callboard_core::{AgentFact, AgentPin, Fact, Outcome, RetryClass};
use callboard_engine::{Activity, Call, Directory, EngineError};
use callboard_protocol::{AgentId, AgentRef, Failure, Object, PackVersion, Tenant};

use crate::conformance;
use crate::inventory::{AgentRegistry, InstalledAgent};
use crate::pack::Schema;

pub use script::answer as scripted_answer;

#[async_trait]
impl Directory for AgentRegistry {
    async fn pin(
        &self,
        tenant: &Tenant,
        agent: &AgentRef,
    ) -> Result<Option<AgentPin>, EngineError> {
        let version = agent.version.as_deref().map(str::parse::<PackVersion>).transpose();
        // What is no version is nobody's.
        let Ok(version) = version else { return Ok(None) };
        let id = AgentId::from(agent.agent_id.as_str());
        let snapshot = self.snapshot();
        let found = snapshot.find(tenant, &id, version.as_ref());
        Ok(found.map(|found| AgentPin {
            agent_id: agent.agent_id.clone(),
            version: found.version().to_string(),
            channel: agent.channel.clone(),
            task: callboard_core::TaskSource::default(),
        }))
    }
}

/// Performs nodes that an agent is pinned to, with the scripted model: deterministic, free, and said so.
#[derive(Debug)]
pub struct AgentDispatch {
    registry: Arc<AgentRegistry>,
}

impl AgentDispatch {
    pub fn new(registry: Arc<AgentRegistry>) -> Self {
        Self { registry }
    }

    fn find(&self, tenant: &Tenant, pin: &AgentPin) -> Option<InstalledAgent> {
        let id = AgentId::from(pin.agent_id.as_str());
        let version = pin.version.parse().ok()?;
        self.registry.snapshot().find_kept(tenant, &id, &version).cloned()
    }
}

#[async_trait]
impl Activity for AgentDispatch {
    async fn perform(&self, call: Call) -> Outcome {
        let Some(pin) = &call.agent else {
            return failed("internal_error", "no agent is pinned to this node".to_owned());
        };
        let Some(found) = self.find(&call.tenant, pin) else {
            let message = format!("agent {} {} is not installed", pin.agent_id, pin.version);
            return failed("agent_not_installed", message);
        };
        let probe = conformance::probe(&pin.agent_id, &call.inputs);
        let task = Value::Object(probe.task);
        if let Err(outcome) = hand_over(found.agent.task.as_ref(), &task, Handoff::Task) {
            return outcome;
        }
        let schema = found.agent.result.as_ref().map(|schema| &*schema.source);
        let result = match probe.result {
            Some(result) => result,
            None => script::answer(schema, &found.agent.manifest.persona),
        };
        if let Err(outcome) = hand_over(found.agent.result.as_ref(), &result, Handoff::Result) {
            return outcome;
        }
        if call.tell(facts(&call.configurable, &found, &result)).await.is_err() {
            // Nobody listens to an attempt that no longer counts.
            return Outcome::Done { outputs: Object::new() };
        }
        Outcome::Done { outputs: outputs(result) }
    }
}

/// What an agent tells of its work, thinking first.
fn facts(configurable: &Object, found: &InstalledAgent, result: &Value) -> Vec<Fact> {
    let verbosity = configurable.get("reasoningVerbosity").and_then(Value::as_str);
    let reasoned = (verbosity != Some("off")).then(|| AgentFact::Reasoned {
        reasoning: format!(
            "{} answered from the scripted model, which thinks nothing.",
            found.agent.manifest.persona
        ),
        verbosity: Some(verbosity.unwrap_or("summary").to_owned()),
    });
    let confidence = result.get("confidence").and_then(Value::as_f64);
    let confidence = confidence.filter(|confidence| (0.0..=1.0).contains(confidence));
    let decided = AgentFact::Decided { decision: result.clone(), confidence };
    let told = reasoned.into_iter().chain([decided]);
    (0..).zip(told).map(|(index, fact)| Fact::Agent { index, fact }).collect()
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
