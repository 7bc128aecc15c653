//! What the agent of the conformance suite is configured to report, in order.

mod fact;

use serde::Deserialize;
use serde_json::{Value, json};

use callboard_protocol::{Failure, WorkflowNode, parse_value};

use crate::confidence::Confidence;
use crate::plan::PlanError;

pub(crate) use fact::MockFact;

/// The compiled configuration of `core.conformance.mock-agent`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MockAgent {
    pub(crate) agent_id: String,
    /// What is reported before a person may be asked.
    pub(crate) facts: Vec<MockFact>,
    /// What was decided, and how sure it is of that.
    pub(crate) decided: Option<(Value, Option<Confidence>)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    agent_id: Option<String>,
    /// `true`, or what was thought.
    mock_reasoning: Option<Value>,
    #[serde(default)]
    mock_tool_calls: Vec<ToolCall>,
    mock_handoff: Option<Handoff>,
    mock_decision: Option<Decision>,
    mock_confidence: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Reasoning {
    summary: String,
    trace: Option<String>,
    #[serde(rename = "tokenCount")]
    _token_count: Option<u64>,
    #[serde(default)]
    stream_chunks: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ToolCall {
    tool_id: String,
    arguments: Option<Value>,
    #[serde(default, deserialize_with = "given")]
    result: Option<Value>,
    error: Option<ToolError>,
    duration_ms: Option<u64>,
}

#[derive(Deserialize)]
struct ToolError {
    #[serde(alias = "code")]
    error: String,
    message: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Handoff {
    to_agent_id: String,
    reason: Option<String>,
    #[serde(rename = "context")]
    _context: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Decision {
    decision: Value,
    confidence: Option<f64>,
    #[serde(rename = "reasoning")]
    _reasoning: Option<String>,
}

impl MockAgent {
    pub(crate) fn of(node: &WorkflowNode) -> Result<Self, PlanError> {
        let refuse = |field: &str, message: String| PlanError {
            path: format!("nodes.{}.config{field}", node.id),
            message,
        };
        let config: Config = parse_value(node.config.clone().into())
            .map_err(|error| refuse("", error.to_string()))?;
        let named = || node.agent.as_ref().map(|agent| agent.agent_id.clone());
        let nameless = || format!("host:mock-agent:{}", node.id);
        let agent_id = config.agent_id.or_else(named).unwrap_or_else(nameless);
        let short = [Some(&agent_id), config.mock_handoff.as_ref().map(|to| &to.to_agent_id)];
        if short.into_iter().flatten().any(|id| id.chars().count() < 3) {
            return Err(refuse("", "an agent's id has at least 3 characters".into()));
        }
        let mut facts = Vec::new();
        match config.mock_reasoning {
            None | Some(Value::Bool(false)) => {}
            Some(Value::Bool(true)) => facts.extend(Reasoning::stub().facts()),
            Some(told) => {
                let read = parse_value::<Reasoning>(told);
                let read = read.map_err(|error| refuse(".mockReasoning", error.to_string()))?;
                facts.extend(read.facts());
            }
        }
        for (place, call) in config.mock_tool_calls.into_iter().enumerate() {
            let told = call.facts(&format!("{}:{place}", node.id));
            let needs = || "needs either a result or an error".to_owned();
            facts.extend(told.ok_or_else(|| refuse(&format!(".mockToolCalls[{place}]"), needs()))?);
        }
        if let Some(to) = config.mock_handoff {
            facts.push(MockFact::Handoff { to_agent_id: to.to_agent_id, reason: to.reason });
        }
        let decided = match (config.mock_decision, config.mock_confidence) {
            (Some(made), _) => Some((made.decision, made.confidence)),
            (None, Some(confidence)) => Some((json!({ "kind": "mock" }), Some(confidence))),
            (None, None) => None,
        };
        let decided =
            decided.map(|(decision, confidence)| (decision, confidence.and_then(Confidence::of)));
        if let Some((decision, confidence)) = &decided {
            let confidence = confidence.map(Confidence::get);
            facts.push(MockFact::Decided { decision: decision.clone(), confidence });
        }
        Ok(Self { agent_id, facts, decided })
    }
}

impl Reasoning {
    fn stub() -> Self {
        let summary = "The mock agent thought as it was told to.".to_owned();
        Self { summary, trace: None, _token_count: None, stream_chunks: Vec::new() }
    }

    fn facts(self) -> Vec<MockFact> {
        let verbosity = || Some("summary".to_owned());
        let whole = self.stream_chunks.concat();
        let deltas = self.stream_chunks.into_iter().zip(0..).map(|(delta, sequence)| {
            MockFact::ReasoningDelta { delta, sequence, verbosity: verbosity() }
        });
        let mut facts: Vec<MockFact> = deltas.collect();
        let reasoning = match facts.is_empty() {
            true => self.trace.unwrap_or(self.summary),
            false => whole,
        };
        facts.push(MockFact::Reasoned { reasoning, verbosity: verbosity() });
        facts
    }
}

impl ToolCall {
    /// The call and its return; none where the configuration does not say what came back.
    fn facts(self, call_id: &str) -> Option<[MockFact; 2]> {
        if self.result.is_some() == self.error.is_some() {
            return None;
        }
        let (tool_name, call_id) = (self.tool_id, call_id.to_owned());
        let returned = MockFact::ToolReturned {
            tool_name: tool_name.clone(),
            call_id: call_id.clone(),
            outcome: self.result,
            error: self.error.map(|told| Failure::new(told.error, told.message)),
            duration_ms: self.duration_ms,
        };
        Some([MockFact::ToolCalled { tool_name, call_id, inputs: self.arguments }, returned])
    }
}

/// A value that was given, null included.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
