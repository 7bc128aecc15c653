//! Live agents on an engine in memory: what they tell, what they may do, and what a crash costs.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "tests stop at the first surprise")]

mod answers;
mod bracket;
mod branches;
mod budgets;
mod coder;
mod coding;
mod conversation;
mod crashes;
mod doubt;
mod fallback;
mod fates;
mod files;
mod given;
mod memory;
mod order;
mod permission;
mod published;
mod secrets;
#[expect(dead_code, reason = "the engine's own tests use all of it")]
#[path = "../../../engine/tests/it/sim.rs"]
mod sim;
mod strangers;
mod surface;
mod tools;
mod unknown;
