//! What supervisors decide, and what nodes that carry it out are configured to do.

mod decision;
mod plan;

pub use decision::{DecisionKind, OrchestratorDecision};
pub(crate) use plan::{
    AskUserRouting, DispatchPlan, FanOut, JoinMode, Mapping, OnWorkerFailure, SupervisorPlan,
};

/// How many workers of one decision are at work at the same time, at most; the others wait for their turn.
pub const MAX_FAN_OUT: u32 = 16;
