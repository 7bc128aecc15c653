//! One item of a turn, as both faces of Codex write it.

use std::ops::Deref;

use serde::Deserialize;

use crate::facet::{ToolBytes, ToolEnd, ToolFacet};
use crate::json::Fields;

/// The fields of an item. `codex exec` writes their names in snake case, the server in camel case.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Item<'a>(#[serde(borrow)] Fields<'a>);

impl<'a> Deref for Item<'a> {
    type Target = Fields<'a>;

    fn deref(&self) -> &Fields<'a> {
        &self.0
    }
}

impl Item<'_> {
    /// Whether the use of a tool was not allowed.
    pub(super) fn is_declined(&self) -> bool {
        self.is("status", "declined")
    }

    pub(super) fn end(&self) -> ToolEnd {
        ToolEnd::failed_if(self.is("status", "failed") || self.is_declined())
    }

    /// Adds how much the tool said, and how it exited.
    pub(super) fn weighed(&self, facet: ToolFacet) -> ToolFacet {
        let bytes = ToolBytes {
            stdout: self.bytes("aggregated_output").max(self.bytes("aggregatedOutput")),
            result: self.bytes("result"),
            ..ToolBytes::default()
        };
        let exit_code = self.read("exit_code").or_else(|| self.read("exitCode"));
        ToolFacet { exit_code, bytes, ..facet }
    }
}

/// Names the item in its thread.
pub(super) fn named(facet: ToolFacet, thread: Option<String>) -> ToolFacet {
    ToolFacet { backend_item_id: facet.tool_use_id.clone(), thread_id: thread, ..facet }
}
