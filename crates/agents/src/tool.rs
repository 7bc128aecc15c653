//! The port to tools: what one is, what a call of it carries, and how a call fails.

mod arguments;
mod card;
mod credentials;
mod declared;
mod files;
mod folder;
mod hooks;
mod memory;
mod recorded;
mod result;
mod surface;
mod workflow;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use callboard_core::TraceContext;
use callboard_engine::{Call, EffectId, Scope};
use callboard_protocol::{
    Failure, NodeId, Object, RunId, SafetyTier, Tenant, ToolApproval, ToolAuth, ToolEgress,
    ToolEntry, ToolReplay, ToolSource, ToolTransport,
};

use crate::memory::Notebook;
use crate::pack::Schema;

pub use arguments::args_hash;
pub use callboard_core::{provider_name, untrusted};
pub use card::{BrokenSchema, ToolCard};
pub use credentials::Credentials;
pub(crate) use declared::declared_tools;
pub use files::file_tools;
pub use folder::run_folder;
pub use hooks::{Granted, Grants, HookRefusal, RatePolicy, ToolHooks, ToolUse};
pub use memory::memory_tools;
pub(crate) use recorded::RecordedTool;
pub use result::ToolOutput;
pub use surface::{AdmittedCall, NotAdmitted, ToolOffer, ToolSurface};
pub use workflow::WorkflowTools;

/// Something that an agent can have done.
#[async_trait]
pub trait Tool: fmt::Debug + Send + Sync {
    fn descriptor(&self) -> &ToolDescriptor;

    /// Performs one call, whose arguments have been checked against the input schema. Dropping the future
    /// stops the work. A tool keeps to `call.within` by itself: it knows what a late answer means.
    async fn invoke(&self, call: ToolInvocation<'_>) -> Result<Value, ToolFault>;
}

/// What is known of a tool before it is called.
#[derive(Debug, Clone)]
pub struct ToolDescriptor {
    /// The name that packs use, such as `openwop:core.files.read`.
    pub id: String,
    pub title: String,
    pub description: String,
    pub input: Schema,
    pub source: ToolSource,
    pub tier: SafetyTier,
    pub transport: ToolTransport,
    pub egress: ToolEgress,
    pub replay: ToolReplay,
    /// What the run's principal must hold; empty is nothing.
    pub required_scopes: Vec<String>,
}

impl ToolDescriptor {
    /// Whether a call that was perhaps made may be repeated without asking a person.
    pub fn is_repeatable(&self) -> bool {
        match self.tier {
            SafetyTier::Pure | SafetyTier::Read => true,
            SafetyTier::Write | SafetyTier::Exec => self.replay == ToolReplay::Idempotent,
        }
    }

    /// The tool as the catalogue shows it.
    pub fn entry(&self) -> ToolEntry {
        let scopes = self.required_scopes.clone();
        ToolEntry {
            tool_id: self.id.clone(),
            source: self.source,
            title: self.title.clone(),
            description: self.description.clone(),
            input_schema: Arc::clone(&self.input.source),
            auth: (!scopes.is_empty()).then_some(ToolAuth { scopes }),
            egress: self.egress,
            approval: ToolApproval::Never,
            replay_policy: self.replay,
            safety_tier: self.tier,
        }
    }
}

/// One call of a tool.
#[derive(Debug)]
pub struct ToolInvocation<'a> {
    pub tenant: &'a Tenant,
    pub run: &'a RunId,
    pub node: &'a NodeId,
    /// The folder of the run's files. It may not be there yet: a tool that writes makes it.
    pub workspace: &'a Path,
    /// The key under which this call is one call, however often it is made.
    pub effect: &'a EffectId,
    /// The memory of the agent that calls; none where no agent does.
    pub notebook: Option<Notebook<'a>>,
    /// What the run may send along; none where no run calls.
    pub credentials: Option<&'a Credentials<'a>>,
    /// The attempt that calls, for tools that start runs; none where no run calls.
    pub caller: Option<&'a Call>,
    pub arguments: Object,
    /// The caller's place in a trace; none where no run calls.
    pub trace: Option<&'a TraceContext>,
    /// How long the call may take.
    pub within: Duration,
}

/// Why a call gave no result. The texts are for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolFault {
    /// The call breaks a rule of the tool or of the host: nothing was done, and the same call is refused again.
    #[error("{0}")]
    Refused(String),
    /// The tool ran and reported an error. Its text is untrusted.
    #[error("{0}")]
    Failed(String),
    /// Nobody could be asked: nothing was done, and another time may be better.
    #[error("{0}")]
    Unavailable(String),
    /// The call went out and no answer came: it may have been done.
    #[error("{0}")]
    Unanswered(String),
}

impl ToolFault {
    pub fn refused(why: impl Into<String>) -> Self {
        Self::Refused(why.into())
    }

    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused(_) => "tool_refused",
            Self::Failed(_) => "tool_failed",
            Self::Unavailable(_) => "tool_unavailable",
            Self::Unanswered(_) => "tool_unanswered",
        }
    }

    /// The recorded reason of a call without a result.
    pub fn failure(&self) -> Failure {
        Failure::new(self.code(), self.to_string())
    }
}

/// Where the tools that runs of a scope can have are found.
#[async_trait]
pub trait Toolbox: fmt::Debug + Send + Sync {
    /// The tool of exactly this name.
    async fn find(&self, scope: &Scope, name: &str) -> Option<Arc<dyn Tool>>;

    async fn list(&self, scope: &Scope) -> Vec<ToolDescriptor>;
}

/// Tools that every tenant has, and that never change.
#[derive(Debug, Clone, Default)]
pub struct FixedTools(BTreeMap<String, Arc<dyn Tool>>);

impl FromIterator<Arc<dyn Tool>> for FixedTools {
    fn from_iter<I: IntoIterator<Item = Arc<dyn Tool>>>(tools: I) -> Self {
        Self(tools.into_iter().map(|tool| (tool.descriptor().id.clone(), tool)).collect())
    }
}

#[async_trait]
impl Toolbox for FixedTools {
    async fn find(&self, _: &Scope, name: &str) -> Option<Arc<dyn Tool>> {
        self.0.get(name).cloned()
    }

    async fn list(&self, _: &Scope) -> Vec<ToolDescriptor> {
        self.0.values().map(|tool| tool.descriptor().clone()).collect()
    }
}

/// Several toolboxes as one; of two tools with one name the first box's counts.
#[derive(Debug, Clone, Default)]
pub struct Toolboxes(pub Vec<Arc<dyn Toolbox>>);

#[async_trait]
impl Toolbox for Toolboxes {
    async fn find(&self, scope: &Scope, name: &str) -> Option<Arc<dyn Tool>> {
        for toolbox in &self.0 {
            if let Some(tool) = toolbox.find(scope, name).await {
                return Some(tool);
            }
        }
        None
    }

    async fn list(&self, scope: &Scope) -> Vec<ToolDescriptor> {
        let mut all = BTreeMap::new();
        for toolbox in &self.0 {
            for tool in toolbox.list(scope).await {
                all.entry(tool.id.clone()).or_insert(tool);
            }
        }
        all.into_values().collect()
    }
}

#[cfg(test)]
mod given;
