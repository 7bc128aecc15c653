//! Live agents whose provider and whose tools are real and go wrong: how each run ends.

#![cfg(test)]

#[path = "../../../agents/tests/live/coder.rs"]
mod coder;
mod faults;
mod folders;
#[expect(dead_code, reason = "the tests of agents use all of it")]
#[path = "../../../agents/tests/live/given.rs"]
mod given;
#[expect(dead_code, reason = "the tests of models use all of it")]
#[path = "../models/given.rs"]
mod provider;
mod retrieval;
#[expect(dead_code, reason = "the engine's own tests use all of it")]
#[path = "../../../engine/tests/it/sim.rs"]
mod sim;
mod speech;
mod tools;
