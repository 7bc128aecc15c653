//! What the agent of the conformance suite reports.

use callboard_protocol::{
    AgentDecided, AgentHandoff, AgentReasoned, AgentReasoningDelta, AgentToolCalled,
    AgentToolReturned, Event, Failure, NodeId, RunId,
};
use serde_json::Value;

/// Something that the agent of the conformance suite is configured to report.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum MockFact {
    Reasoned {
        reasoning: String,
        verbosity: Option<String>,
    },
    Decided {
        decision: Value,
        confidence: Option<f64>,
    },
    /// A piece of thinking that is still going on; pieces count from zero in each block.
    ReasoningDelta {
        delta: String,
        sequence: u32,
        verbosity: Option<String>,
    },
    ToolCalled {
        tool_name: String,
        call_id: String,
        inputs: Option<Value>,
    },
    ToolReturned {
        tool_name: String,
        call_id: String,
        outcome: Option<Value>,
        error: Option<Failure>,
        duration_ms: Option<u64>,
    },
    Handoff {
        to_agent_id: String,
        reason: Option<String>,
    },
}

impl MockFact {
    /// The same with ids of tool calls that no other run and no other visit has.
    pub(crate) fn scoped(&self, run: &RunId, visit: u32) -> Self {
        let scope = |call_id: &str| format!("{run}:{call_id}:{visit}");
        let mut fact = self.clone();
        if let Self::ToolCalled { call_id, .. } | Self::ToolReturned { call_id, .. } = &mut fact {
            *call_id = scope(call_id);
        }
        fact
    }

    pub(crate) fn event(&self, node: NodeId, agent_id: String) -> Event {
        let node_id = Some(node);
        match self.clone() {
            Self::Reasoned { reasoning, verbosity } => Event::AgentReasoned(AgentReasoned {
                node_id,
                agent_id,
                reasoning,
                verbosity,
                torn: false,
            }),
            Self::Decided { decision, confidence } => {
                Event::AgentDecided(AgentDecided { node_id, agent_id, decision, confidence })
            }
            Self::ReasoningDelta { delta, sequence, verbosity } => {
                Event::AgentReasoningDelta(AgentReasoningDelta {
                    node_id,
                    agent_id,
                    delta,
                    sequence,
                    verbosity,
                })
            }
            Self::ToolCalled { tool_name, call_id, inputs } => {
                Event::AgentToolCalled(AgentToolCalled {
                    node_id,
                    agent_id,
                    tool_name,
                    call_id,
                    inputs,
                    args_hash: None,
                    principal: None,
                    transport: None,
                })
            }
            Self::ToolReturned { tool_name, call_id, outcome, error, duration_ms } => {
                Event::AgentToolReturned(AgentToolReturned {
                    node_id,
                    agent_id,
                    tool_name,
                    call_id,
                    outcome,
                    error,
                    status: None,
                    duration_ms,
                })
            }
            Self::Handoff { to_agent_id, reason } => Event::AgentHandoff(AgentHandoff {
                node_id,
                from_agent_id: agent_id,
                to_agent_id,
                reason,
            }),
        }
    }
}
