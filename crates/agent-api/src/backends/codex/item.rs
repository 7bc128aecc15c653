//! One item of a turn, as both faces of Codex write it.

use serde::Deserialize;

use crate::facet::{ToolBytes, ToolEnd, ToolFacet};
use crate::json::{self, Raw};

/// `codex exec` writes its keys in snake case, the server in camel case.
#[derive(Deserialize)]
pub(super) struct Item<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) id: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) text: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) tool: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) changes: Raw<'a>,
    #[serde(borrow, default)]
    status: Raw<'a>,
    #[serde(alias = "exitCode", borrow, default)]
    exit_code: Raw<'a>,
    #[serde(alias = "aggregatedOutput", borrow, default)]
    aggregated_output: Raw<'a>,
    #[serde(borrow, default)]
    result: Raw<'a>,
}

impl Item<'_> {
    /// Whether the use of a tool was not allowed.
    pub(super) fn is_declined(&self) -> bool {
        json::string(self.status).as_deref() == Some("declined")
    }

    pub(super) fn end(&self) -> ToolEnd {
        let status = json::string(self.status);
        ToolEnd::failed_if(matches!(status.as_deref(), Some("failed" | "declined")))
    }

    /// Adds how much the tool said, and how it exited.
    pub(super) fn weighed(&self, facet: ToolFacet) -> ToolFacet {
        let bytes = ToolBytes {
            stdout: json::bytes(self.aggregated_output),
            result: json::bytes(self.result),
            ..ToolBytes::default()
        };
        ToolFacet { exit_code: json::integer(self.exit_code), bytes, ..facet }
    }
}

/// Names the item in its thread.
pub(super) fn named(facet: ToolFacet, thread: Option<String>) -> ToolFacet {
    ToolFacet { backend_item_id: facet.tool_use_id.clone(), thread_id: thread, ..facet }
}
