//! The protocol's second major, beside the first on one origin and over one log.
//!
//! Handlers and log know the first only. What comes in is turned into a request of the first, what goes out is turned
//! into the words of the second: names, ids, owners, seats of payloads, error codes. Nothing else may answer an
//! unversioned path, so that no bare id leaves this host there.

pub(crate) mod answer;
pub(crate) mod body;
pub(crate) mod configurable;
pub(crate) mod discovery;
pub(crate) mod edge;
pub(crate) mod effect_seams;
pub(crate) mod effects;
mod error_codes;
pub(crate) mod event;
pub(crate) mod event_names;
pub(crate) mod id;
pub(crate) mod owner;
mod payload;
pub(crate) mod post;
pub(crate) mod problem;
pub(crate) mod run_projection;
mod seats;
pub(crate) mod snapshot;
#[cfg(test)]
mod tests;
pub(crate) mod version;
