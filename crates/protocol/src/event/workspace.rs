//! Events about a workspace's files: names only, never the content.

use serde::{Deserialize, Serialize};

use crate::{FileVersion, NodeId};

/// `workspace.updated`: a file has a new version, or was removed. Closed in the protocol's schema; the node stands on
/// the envelope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceUpdated {
    #[serde(skip)]
    pub node_id: Option<NodeId>,
    pub path: String,
    pub version: u64,
}

impl WorkspaceUpdated {
    /// The version that was written.
    pub fn file(&self) -> FileVersion {
        FileVersion { path: self.path.clone(), version: self.version }
    }
}
