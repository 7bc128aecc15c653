//! What people write: from the text of a workflow, in YAML or JSON, with defaults and short forms, to the canonical
//! definition of the protocol, or to everything that is wrong with it.
//!
//! Nothing here runs anything. [`read`] is the only way in; [`node_types`] is the table of what a step can be.

mod draw;
mod expand;
mod form;
mod host;
mod json;
mod known;
mod nodes;
mod problem;
mod read;
mod schema;
mod shape;
mod starter;
mod template;
mod testing;
mod tree;
mod write;
mod yaml;

pub use draw::{mermaid, svg, terminal};
pub use host::HostNames;
pub use known::{nearest, unknown_name};
pub use nodes::{Field, NodeType, Outputs, PUBLISHED, node_type, node_types};
pub use problem::{Problem, ProblemKind, Problems};
pub use read::{Format, MOST_BYTES, Reading, Source, expand, read};
pub use schema::editor_schema;
pub use starter::{Starter, starter, starters};
pub use testing::{Cases, Verdict};
pub use tree::{Data, Spot, Tree};
pub use write::pretty;

/// Reads any document that people write beside definitions, with the limits and positions of a definition's.
pub fn read_tree(text: &str, format: Format) -> Result<Tree, Problem> {
    read::tree_of(text, format)
}
