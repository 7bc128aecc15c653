//! What this host knows about node types: which core computes itself, which an activity performs,
//! and which need a capability that nobody here has.

mod not_run;
mod published;
mod pure;
mod table;

use callboard_protocol::{Failure, Object, Timestamp, TypeId, WorkflowNode};

use crate::work::Work;

pub use not_run::why_not_run;
pub use published::{OWN_CONFIG, PublishedType, published_type};
pub(crate) use published::{unfit_config, unfit_config_of};
pub(crate) use pure::{Given, MOST_ITEMS, Meter, PureNode, bound_items, read_time, wrong_kind};
pub use table::{NODE_TYPES, NodeType, nearest_type};

/// How a node comes to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeKind {
    /// Passes its inputs on: start, end, parallel, merge.
    Pass,
    Noop,
    Identity,
    Delay,
    /// Waits like a delay and passes its inputs on: the tests' wait that touches nothing.
    Hold,
    Fail,
    SetVariable,
    GetVariable,
    Conditional,
    Loop,
    ChannelWrite,
    /// Asks a person and waits.
    Gate,
    /// Talks with a person, turn by turn.
    Talk,
    /// Starts a run of its own and waits for its end.
    Child,
    /// Decides what happens next.
    Supervisor,
    /// Carries out what a supervisor has decided.
    Dispatch,
    /// Does the same with every item of a list: computes a body, or runs a workflow.
    Each,
    /// Runs the workflow that its input names.
    Invoke,
    /// States a fact that the host decided together with the run.
    Statement,
    /// Reports what an agent might, as it is configured to.
    MockAgent,
    /// Proposes what its span says about cost; the span keeps what is allowed.
    CostEmit,
    /// Declares a requirement that no host meets: the engine must refuse to run it.
    RequiresMissing,
    /// Reads or writes memory, and passes the outcome on.
    Memory,
    /// Keeps memory from growing without end.
    Upkeep,
    /// Computed from its configuration and inputs alone.
    Pure(PureNode),
    /// Waits for a time, as `core.flow.wait` says it.
    Wait,
    /// Records a line of the workflow's own.
    Log,
    /// An activity outside core performs it.
    Activity,
}

/// The requirement of `conformance.requiresMissing`. Nothing may ever provide it.
pub(crate) const NEVER_PROVIDED: &str = "conformance.never-provided";

/// What `core.identity` is configured with where it is to read or write memory.
const MEMORY_ACTION: &str = "memoryAction";

/// The type of nodes that only the host's own definitions have: `config.type` and `config.payload` are an event.
pub const STATEMENT: &str = "callboard.statement";

/// The type of nodes with which the host tidies memory by itself.
pub const UPKEEP: &str = "callboard.memory";

/// Where `core.delay` finds how long it waits.
pub(crate) const DELAY_KEYS: [&str; 3] = ["durationMs", "ms", "delayMs"];

/// Whether a reserved type is configured as its published alias is, and not as this host's own.
fn has_only(node: &WorkflowNode, alias: &str, own: &[&str]) -> bool {
    node.config.contains_key(alias) && !own.iter().any(|key| node.config.contains_key(*key))
}

impl NodeKind {
    pub(crate) fn of(node: &WorkflowNode) -> Self {
        match node.type_id.as_str() {
            "core.identity" if node.config.contains_key(MEMORY_ACTION) => Self::Memory,
            "core.conditional" if has_only(node, "predicate", &["condition"]) => {
                PureNode::find("core.flow.if").map_or(Self::Conditional, Self::Pure)
            }
            "core.parallel" if has_only(node, "routes", &[]) => {
                PureNode::find("core.flow.router").map_or(Self::Pass, Self::Pure)
            }
            "core.delay" if has_only(node, "mode", &DELAY_KEYS) => Self::Wait,
            "core.flow.wait" => Self::Wait,
            "core.obs.log" => Self::Log,
            // The key is the host's secret, and core has none.
            "core.crypto.hmac-sign" | "core.crypto.hmac-verify"
                if node.credentials_ref.is_some() =>
            {
                Self::Activity
            }
            "core.start" | "core.end" | "core.parallel" | "core.merge" => Self::Pass,
            "core.noop" => Self::Noop,
            "core.identity" => Self::Identity,
            "core.delay" => Self::Delay,
            "core.conformance.hold" => Self::Hold,
            "core.fail" => Self::Fail,
            "core.setVariable" => Self::SetVariable,
            "core.getVariable" => Self::GetVariable,
            "core.conditional" => Self::Conditional,
            "core.loop" => Self::Loop,
            "core.channelWrite" => Self::ChannelWrite,
            "core.approvalGate" | "core.clarificationGate" | "core.interrupt" => Self::Gate,
            "core.hitl.approval-request" | "core.hitl.ask-user" | "core.hitl.form-request" => {
                Self::Gate
            }
            "core.conversationGate" => Self::Talk,
            "core.subWorkflow" => Self::Child,
            "core.orchestrator.supervisor" => Self::Supervisor,
            "core.dispatch" => Self::Dispatch,
            "callboard.each" => Self::Each,
            "core.flow.sub-workflow-invoke" => Self::Invoke,
            "core.conformance.mock-agent" => Self::MockAgent,
            "conformance.cost.emit" => Self::CostEmit,
            "conformance.requiresMissing" => Self::RequiresMissing,
            STATEMENT => Self::Statement,
            UPKEEP => Self::Upkeep,
            type_id => PureNode::find(type_id).map_or(Self::Activity, Self::Pure),
        }
    }

    /// Whether core itself computes the outcome.
    pub(crate) fn is_pure(self) -> bool {
        !self.is_performed()
    }

    /// Whether an activity comes to the outcome.
    pub(crate) fn is_performed(self) -> bool {
        matches!(self, Self::Activity | Self::Memory | Self::Upkeep)
    }

    /// Whether a node of this kind waits for runs of its own, which go their own way meanwhile.
    pub(crate) fn waits_for_children(self) -> bool {
        matches!(self, Self::Child | Self::Dispatch | Self::Each | Self::Invoke)
    }

    /// Whether nobody may write such a node: what it states would be believed.
    pub(crate) fn is_the_hosts_own(self) -> bool {
        matches!(self, Self::Statement | Self::Upkeep)
    }

    /// Whether the type exists for conformance tests alone.
    pub(crate) fn is_conformance_only(self) -> bool {
        matches!(self, Self::RequiresMissing | Self::CostEmit | Self::MockAgent | Self::Hold)
    }
}

/// Whether the activity of a node of this type receives the name of the secret in its definition.
pub(crate) fn takes_credentials(type_id: &TypeId) -> bool {
    matches!(
        type_id.as_str(),
        "callboard.reply.email"
            | "callboard.reply.github"
            | "callboard.reply.slack"
            | "core.crypto.hmac-sign"
            | "core.crypto.hmac-verify"
            | "core.openwop.http.fetch"
            | "core.openwop.http.graphql-mutation"
            | "core.openwop.http.graphql-query"
            | "core.openwop.http.openapi-call"
            | "core.openwop.http.pagination-cursor"
            | "core.openwop.http.pagination-link-header"
            | "core.openwop.http.pagination-offset"
            | "core.openwop.integration.chat-message-generic"
            | "core.openwop.integration.email-send"
            | "core.openwop.integration.slack-message"
    )
}

/// The capability that a reserved or foreign node type needs, for the refusal's details.
pub fn required_capability(type_id: &TypeId) -> &'static str {
    match type_id.as_str() {
        "core.orchestrator.supervisor" => "orchestrator",
        "core.dispatch" => "dispatch",
        "core.conversationGate" => "conversationPrimitive",
        "core.conformance.mock-agent" => "agents",
        text if text.starts_with("core.ai.") => "aiProviders",
        text if text.starts_with("conformance.") || text.starts_with("core.conformance.") => {
            "testing"
        }
        _ => "nodePacks",
    }
}

/// What `core.crypto.hmac-sign` and `core.crypto.hmac-verify` come to with a key that is the host's secret.
pub fn keyed_hash(
    type_id: &TypeId,
    config: &Object,
    inputs: &Object,
    key: &str,
) -> Result<Object, Failure> {
    let mut work = Work::default();
    let mut meter = Meter::new(&mut work);
    let given = Given { config, inputs, at: Timestamp::default(), name: &String::new };
    match type_id.as_str() {
        "core.crypto.hmac-verify" => pure::verify(&given, key, &mut meter),
        _ => pure::sign(&given, key, &mut meter),
    }
}
