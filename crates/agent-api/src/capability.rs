//! The names of what a backend can do. They never change once shipped.

use std::collections::BTreeSet;

pub const RUN: &str = "agent_api.run";
pub const EVENTS: &str = "agent_api.events";
/// At least one event of a run that does something is seen before the process exits.
pub const EVENTS_LIVE: &str = "agent_api.events.live";
pub const CONTROL_CANCEL: &str = "agent_api.control.cancel.v1";
pub const TOOLS_STRUCTURED: &str = "agent_api.tools.structured.v1";
pub const TOOLS_RESULTS: &str = "agent_api.tools.results.v1";
pub const FINAL_TEXT: &str = "agent_api.artifacts.final_text.v1";
pub const SESSION_HANDLE: &str = "agent_api.session.handle.v1";
/// An extension key: `{"selector": "last"}` or `{"selector": "id", "id": "…"}`.
pub const SESSION_RESUME: &str = "agent_api.session.resume.v1";
/// An extension key, with the same value as [`SESSION_RESUME`].
pub const SESSION_FORK: &str = "agent_api.session.fork.v1";
/// An extension key: a string of at most 128 bytes.
pub const MODEL: &str = "agent_api.config.model.v1";
/// An extension key: `{"dirs": ["…"]}`.
pub const ADD_DIRS: &str = "agent_api.exec.add_dirs.v1";
/// An extension key: a boolean, true unless said otherwise.
pub const NON_INTERACTIVE: &str = "agent_api.exec.non_interactive";
/// An extension key: a boolean. Offered only by a backend that was configured to.
pub const EXTERNAL_SANDBOX: &str = "agent_api.exec.external_sandbox.v1";
pub const MCP_LIST: &str = "agent_api.tools.mcp.list.v1";
pub const MCP_GET: &str = "agent_api.tools.mcp.get.v1";
pub const MCP_ADD: &str = "agent_api.tools.mcp.add.v1";
pub const MCP_REMOVE: &str = "agent_api.tools.mcp.remove.v1";

/// The end of `backend.<kind>.exec.tools.v1`, an extension key: a list of [`crate::Grant`] names.
pub(crate) const TOOLS_SUFFIX: &str = "exec.tools.v1";
/// The end of `backend.<kind>.session.new_id.v1`, an extension key: the id that a new session shall have.
pub(crate) const NEW_ID_SUFFIX: &str = "session.new_id.v1";

/// What one backend instance offers; the same for every request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentCapabilities {
    pub ids: BTreeSet<String>,
}

impl AgentCapabilities {
    #[must_use]
    pub fn contains(&self, id: &str) -> bool {
        self.ids.contains(id)
    }
}

impl<S: Into<String>> FromIterator<S> for AgentCapabilities {
    fn from_iter<I: IntoIterator<Item = S>>(ids: I) -> Self {
        Self { ids: ids.into_iter().map(Into::into).collect() }
    }
}
