//! One module per command: what may be typed for it, and what it does.

pub(crate) mod agents;
pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod confine;
pub(crate) mod console;
pub(crate) mod db;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod guard;
pub(crate) mod heartbeats;
pub(crate) mod hosts;
pub(crate) mod inbox;
pub(crate) mod keys;
pub(crate) mod memory;
pub(crate) mod nodes;
pub(crate) mod org_chart;
pub(crate) mod packs;
pub(crate) mod roster;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod schedules;
pub(crate) mod secrets;
pub(crate) mod serve;
pub(crate) mod spend;
pub(crate) mod triggers;
pub(crate) mod workflows;
