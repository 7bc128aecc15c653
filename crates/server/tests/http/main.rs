//! The router called in process, on a store in memory and a clock that only tests move.
//!
//! Where a test stands for a row of the contract's checklist, its name or its comment says which.

#![expect(clippy::expect_used, reason = "a test that cannot go on says so by panicking")]

mod agents;
mod annotations;
mod artifacts;
mod auth;
mod budgets;
mod bundle;
mod callbacks;
mod channels;
mod chat;
mod children;
mod create;
mod deployments;
mod diff;
mod discovery;
mod doors;
mod envelope;
mod events;
mod everything;
mod files;
mod fires;
mod forks;
mod given;
mod heartbeats;
mod idempotency;
mod inbox;
mod interrupts;
mod isolation;
mod keys;
mod live;
mod load;
mod loops;
mod makers;
mod memory;
mod models;
mod observe;
mod orchestras;
mod org_chart;
mod ownership;
mod packs;
mod pause;
mod prompt_packs;
mod prompt_replays;
mod prompts;
mod refusals;
mod roster;
mod runs;
mod schedules;
mod schemas;
mod seams;
mod secrets;
mod serve;
mod snapshots;
mod stream;
mod table;
mod talks;
mod tools;
mod trigger_ends;
mod trigger_rows;
mod triggers;
mod webhooks;
mod work;
mod workflows;
