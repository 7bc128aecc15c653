//! An answer on its way to a question: what is said, by whom, and how it came.

use callboard_protocol::{NodeId, Principal};
use serde_json::Value;

/// How an answer reached us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Via {
    /// A caller with a key of its own, who answers for nobody else.
    Key,
    /// The same, with a role that the question names.
    Holder { role: String },
    /// A caller whose key may answer for people, whom it names.
    Delegate,
    /// The holder of a signed link to this one interrupt.
    Token { interrupt_id: String },
}

/// An answer to a node's question.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolution {
    pub node: NodeId,
    pub value: Value,
    pub by: Option<Principal>,
    pub via: Via,
}
