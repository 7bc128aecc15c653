//! The engine in memory, in simulated time.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod clocks;
mod crashes;
mod crowd;
mod deployments;
mod divergence;
mod engine;
mod families;
mod files;
mod gates;
mod heartbeats;
mod memory;
mod metrics;
mod orchestras;
mod patience;
mod queues;
mod replays;
mod retention;
mod retries;
mod roster;
mod schedules;
mod secrets;
mod sim;
mod simulation;
mod stuck;
mod sub_runs;
mod triggers;
mod unreadable;
mod webhooks;
mod work;
mod world;
