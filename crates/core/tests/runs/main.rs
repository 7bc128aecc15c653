//! Core from the outside: definitions and commands go in, the story of a run comes out.
//!
//! Tests are data: a workflow in a few words, what happens to it and when, and the lines its log must
//! read. Rows such as F8 are those of the workflow contract's checklist.

#![expect(clippy::expect_used, reason = "tests stop at the first surprise")]

mod admission;
mod artifacts;
mod attestation;
mod attribution;
mod bounds;
mod budgets;
mod cancel;
mod channels;
mod children;
mod clock;
mod conditions;
mod confidence;
mod costs;
mod each;
mod evaluated;
mod evolution;
mod facts;
mod forks;
mod given;
mod histories;
mod hitl;
mod limits;
mod loops;
mod loose_ends;
mod masking;
mod nodes;
mod orchestration;
mod outside;
mod packs;
mod pause;
mod per_item;
mod ports;
mod prompts;
mod properties;
mod pure;
mod questions;
mod random;
mod refusals;
mod retried;
mod retries;
mod rules;
mod shapes;
mod story;
mod takeover;
mod talks;
mod trace_calls;
mod traces;
mod triggers;
mod turns;
