//! What is checked before a run exists: inputs, options and node types against definition and host.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use callboard_protocol::{EffectiveBudget, NodeId, Object, TypeId};

use crate::birth::{AgentPin, RunLimits};
use crate::bounds::weigh_fields;
use crate::confidence::Confidence;
use crate::node::{nearest_type, why_not_run};
use crate::plan::{ConformanceNodes, Plan};
use crate::priority::{PRIORITY, Priority};

/// A request for a run that must not be created.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}{message}", if path.is_empty() { String::new() } else { format!("{path}: ") })]
pub struct Inadmissible {
    /// `validation_error`, `capability_required` or `unsupported_mock_provider`.
    pub code: &'static str,
    pub path: String,
    pub message: String,
    pub details: Object,
}

/// The ceilings that the host's configuration sets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HostLimits {
    pub max_node_executions: u64,
    pub max_run_duration_ms: u64,
    /// Turns that supervisors of one run may take.
    pub max_loop_iterations: u64,
    /// Runs that may lie below one run, on all levels together.
    pub max_family_runs: u64,
    /// How sure a supervisor must be to be followed without asking; never below the protocol's floor.
    pub confidence_floor: Confidence,
    /// What no run may use more of.
    pub run_budget: EffectiveBudget,
    /// What a member may use in a day where nothing else was said of it: tokens and money.
    pub member_day: EffectiveBudget,
    /// What a tenant may use in a day.
    pub tenant_day: EffectiveBudget,
    /// At most [`EXECUTION_MODEL`].
    pub execution_model: u32,
    /// How many entries of its earlier turns an agent is shown: from one to [`WIDEST_WINDOW`].
    pub transcript_window: u64,
}

/// More than any model reads with care.
pub const WIDEST_WINDOW: u64 = 1_000;

/// The newest of the protocol's execution models that is wholly enforced.
pub const EXECUTION_MODEL: u32 = 5;

impl Default for HostLimits {
    fn default() -> Self {
        Self {
            max_node_executions: 100,
            // A year: an approval may wait for weeks.
            max_run_duration_ms: 31_536_000_000,
            max_loop_iterations: 100,
            max_family_runs: 5_000,
            confidence_floor: Confidence::FLOOR,
            run_budget: EffectiveBudget::default(),
            member_day: EffectiveBudget::default(),
            tenant_day: EffectiveBudget::default(),
            execution_model: EXECUTION_MODEL,
            transcript_window: WIDEST_WINDOW,
        }
    }
}

/// The mock providers that test keys may route AI calls to.
pub const MOCK_PROVIDERS: [&str; 1] = ["stream-text"];

impl Plan {
    /// Refuses a definition with a node type that this host does not run.
    pub fn admit_types(
        &self,
        performed: impl Fn(&TypeId) -> bool,
        by_agents: &BTreeMap<NodeId, AgentPin>,
        conformance: ConformanceNodes,
    ) -> Result<(), Inadmissible> {
        let missing = self.missing_type(performed, by_agents, conformance);
        let Some(missing) = missing else { return Ok(()) };
        let instead = nearest_type(missing.type_id.as_str())
            .map(|nearest| format!("; the nearest that it runs is {nearest}"));
        let why = why_not_run(missing.type_id.as_str()).map(|why| format!(": {why}"));
        let message = format!(
            "node {} has the type {}, which this host does not run{}{}",
            missing.node,
            missing.type_id,
            why.unwrap_or_default(),
            instead.unwrap_or_default()
        );
        let mut refusal = refuse("", message);
        refusal.code = "capability_required";
        refusal.details = object(json!({
            "requiredCapability": missing.capability,
            "offendingTypeId": missing.type_id,
            "nodeId": missing.node,
        }));
        Err(refusal)
    }

    /// Checks what a caller sends with a new run and resolves the limits that hold for it.
    pub fn admit(
        &self,
        inputs: &Object,
        configurable: &Object,
        host: HostLimits,
    ) -> Result<RunLimits, Inadmissible> {
        self.admit_child(inputs, &[], configurable, host)
    }

    /// As `admit`, for a run that another starts: what that one left unset may be missing here.
    pub fn admit_child(
        &self,
        inputs: &Object,
        unset: &[String],
        configurable: &Object,
        host: HostLimits,
    ) -> Result<RunLimits, Inadmissible> {
        self.admit_inputs(inputs, unset)?;
        self.check_schemas().map_err(|error| refuse(&error.path, error.message))?;
        if let Some(schema) = &self.configurable_schema {
            // The priority is the host's to read; no workflow can know of it.
            let mut own = configurable.clone();
            own.remove(PRIORITY);
            if let Some(violation) = schema.violation(&Value::Object(own)) {
                return Err(refuse(&format!("configurable{}", violation.place), violation.message));
            }
        }
        admit_reserved_keys(configurable)?;
        let node_executions = positive(configurable, "recursionLimit")?
            .map_or(host.max_node_executions, |limit| limit.min(host.max_node_executions));
        let timeout = positive(configurable, "runTimeoutMs")?;
        let workflow_timeout = self.definition().settings.timeout.filter(|millis| *millis > 0);
        let bounds = [timeout, workflow_timeout, Some(host.max_run_duration_ms)];
        let duration_ms = bounds.into_iter().flatten().min().unwrap_or(host.max_run_duration_ms);
        let loop_iterations = positive(configurable, "maxLoopIterations")?
            .map_or(host.max_loop_iterations, |limit| limit.min(host.max_loop_iterations));
        Ok(RunLimits {
            node_executions,
            duration_ms,
            loop_iterations,
            confidence_floor: host.confidence_floor,
            execution_model: host.execution_model,
            transcript_window: host.transcript_window,
        })
    }

    fn admit_inputs(&self, inputs: &Object, unset: &[String]) -> Result<(), Inadmissible> {
        weigh_fields(inputs).map_err(|failure| refuse("inputs", failure.message))?;
        for name in inputs.keys() {
            if self.channel(&name.as_str().into()).is_some() {
                return Err(refuse(
                    &format!("inputs.{name}"),
                    "is a channel; runs write to it, callers do not".into(),
                ));
            }
        }
        for variable in &self.definition().variables {
            let path = format!("inputs.{}", variable.name);
            match inputs.get(&variable.name) {
                None if unset.contains(&variable.name) => {}
                None if variable.required && variable.default_value.is_none() => {
                    return Err(refuse(&path, "is required".into()));
                }
                Some(value) if !variable.kind.admits(value) => {
                    let kind = format!("{:?}", variable.kind).to_lowercase();
                    return Err(refuse(&path, format!("must be of type {kind}")));
                }
                None | Some(_) => {}
            }
        }
        Ok(())
    }
}

/// The protocol's reserved keys have types and ranges whatever the workflow says.
fn admit_reserved_keys(configurable: &Object) -> Result<(), Inadmissible> {
    let expect = |key: &str, fits: fn(&Value) -> bool, what: &str| match configurable.get(key) {
        Some(value) if !fits(value) => {
            Err(refuse(&format!("configurable.{key}"), format!("must be {what}")))
        }
        _ => Ok(()),
    };
    expect("model", |value| value.as_str().is_some_and(|text| !text.is_empty()), "a text")?;
    expect("temperature", |value| within(value, 0.0, 2.0), "a number from 0 to 2")?;
    expect(
        "maxTokens",
        |value| value.as_u64().is_some_and(|number| number >= 1),
        "an integer of at least 1",
    )?;
    expect("escalationThreshold", |value| within(value, 0.0, 1.0), "a number from 0 to 1")?;
    expect("promptOverrides", is_map_of_texts, "an object of texts")?;
    expect(
        "reasoningVerbosity",
        |value| matches!(value.as_str(), Some("summary" | "full" | "off")),
        "summary, full or off",
    )?;
    expect(
        PRIORITY,
        |value| value.as_str().and_then(Priority::from_name).is_some(),
        "low, normal or high",
    )?;
    match configurable.get("mockProvider") {
        Some(provider) => admit_mock_provider(provider),
        None => Ok(()),
    }
}

fn admit_mock_provider(provider: &Value) -> Result<(), Inadmissible> {
    let path = "configurable.mockProvider";
    let closed = provider
        .as_object()
        .is_some_and(|fields| fields.keys().all(|key| key == "id" || key == "config"));
    let id = provider.get("id").and_then(Value::as_str).filter(|_| closed);
    let id = id.ok_or_else(|| refuse(path, "must be an object of id and config".into()))?;
    if MOCK_PROVIDERS.contains(&id) {
        return admit_stream_text(provider.get("config"));
    }
    let mut refusal = refuse(path, format!("no mock provider {id:?}"));
    refusal.code = "unsupported_mock_provider";
    refusal.details = object(json!({ "supported": MOCK_PROVIDERS }));
    Err(refusal)
}

fn admit_stream_text(config: Option<&Value>) -> Result<(), Inadmissible> {
    let path = "configurable.mockProvider.config";
    let Some(config) = config else { return Ok(()) };
    let fields = config.as_object().ok_or_else(|| refuse(path, "must be an object".into()))?;
    let tokens = fields.get("tokens");
    if tokens.is_some_and(|tokens| {
        !tokens.as_array().is_some_and(|items| items.iter().all(Value::is_string))
    }) {
        return Err(refuse(&format!("{path}.tokens"), "must be a list of texts".into()));
    }
    let delay = fields.get("delayMsPerToken");
    if delay.is_some_and(|delay| delay.as_u64().is_none_or(|millis| millis > 5_000)) {
        return Err(refuse(
            &format!("{path}.delayMsPerToken"),
            "must be an integer from 0 to 5000".into(),
        ));
    }
    Ok(())
}

fn positive(configurable: &Object, key: &str) -> Result<Option<u64>, Inadmissible> {
    match configurable.get(key) {
        None => Ok(None),
        Some(value) => match value.as_u64() {
            Some(number) if number >= 1 => Ok(Some(number)),
            _ => Err(refuse(
                &format!("configurable.{key}"),
                "must be an integer of at least 1".into(),
            )),
        },
    }
}

fn within(value: &Value, low: f64, high: f64) -> bool {
    value.as_f64().is_some_and(|number| (low..=high).contains(&number))
}

fn is_map_of_texts(value: &Value) -> bool {
    value.as_object().is_some_and(|fields| fields.values().all(Value::is_string))
}

pub(crate) fn refuse(path: &str, message: String) -> Inadmissible {
    let mut details = Object::new();
    if !path.is_empty() {
        details.insert("path".into(), path.into());
    }
    Inadmissible { code: "validation_error", path: path.to_owned(), message, details }
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(fields) => fields,
        _ => Object::new(),
    }
}
