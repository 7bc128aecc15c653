//! `[limits]`: limits of the host.

use serde::Deserialize;

use super::tenants::{EveryStart, EveryTenant};
use super::values::whole;

/// Numbers above this cannot be written exactly in JSON, and discovery shows some of these.
const EXACT: u64 = (1 << 53) - 1;
const MILLION: u64 = 1_000_000;
/// Below a mebibyte, ordinary requests would be refused.
const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;

/// The section, with the defaults of the documentation.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Limits {
    #[serde(deserialize_with = "whole::<_, _, 1, EXACT>")]
    pub(crate) max_node_executions: u64,
    /// A definition of one node needs some hundred bytes; a gigabyte would not fit into memory many times.
    #[serde(deserialize_with = "whole::<_, _, 1024, { 1 << 30 }>")]
    pub(crate) max_body_bytes: u64,
    /// Requests and open streams of key holders; past it the host answers 503.
    #[serde(deserialize_with = "whole::<_, _, 1, MILLION>")]
    pub(crate) inflight: u64,
    /// The same for those who show no key.
    #[serde(deserialize_with = "whole::<_, _, 1, MILLION>")]
    pub(crate) unkeyed_inflight: u64,
    /// Bytes of bodies in memory, of key holders and of others.
    #[serde(deserialize_with = "whole::<_, _, MIB, TIB>")]
    pub(crate) body_bytes_inflight: u64,
    #[serde(deserialize_with = "whole::<_, _, MIB, TIB>")]
    pub(crate) unkeyed_body_bytes_inflight: u64,
    /// Bytes of large answers that wait for their readers.
    #[serde(deserialize_with = "whole::<_, _, MIB, TIB>")]
    pub(crate) answer_bytes_inflight: u64,
    #[serde(deserialize_with = "whole::<_, _, 16, MILLION>")]
    pub(crate) connections: u64,
    /// Posts to each subscription; zero is off.
    #[serde(deserialize_with = "whole::<_, _, 0, MILLION>")]
    pub(crate) signed_posts_per_minute: u64,
    #[serde(deserialize_with = "whole::<_, _, 0, MILLION>")]
    pub(crate) unsigned_posts_per_minute: u64,
    /// Per key; zero is off.
    #[serde(deserialize_with = "whole::<_, _, 0, MILLION>")]
    pub(crate) requests_per_second: u64,
    /// The protocol's own minimum is a second.
    #[serde(deserialize_with = "whole::<_, _, 1000, EXACT>")]
    pub(crate) max_run_duration_ms: u64,
    /// Turns that supervisors of one run may take.
    #[serde(deserialize_with = "whole::<_, _, 1, EXACT>")]
    pub(crate) max_loop_iterations: u64,
    /// Runs that may lie below one run, on all levels together.
    #[serde(deserialize_with = "whole::<_, _, 1, EXACT>")]
    pub(crate) max_family_runs: u64,
    /// How long one call of a tool may take.
    #[serde(deserialize_with = "whole::<_, _, 1, EXACT>")]
    pub(crate) tool_timeout_ms: u64,
    /// How long one decision about a run may take. Shorter ones would give up runs on a busy machine.
    #[serde(deserialize_with = "whole::<_, _, 500, 600_000>")]
    pub(crate) decision_timeout_ms: u64,
    /// Runs that are driven at once; the others wait for their turn.
    #[serde(deserialize_with = "whole::<_, _, 1, MILLION>")]
    pub(crate) max_driven_runs: u64,
    /// What those may hold together. The largest run must fit.
    #[serde(deserialize_with = "whole::<_, _, { 64 << 20 }, TIB>")]
    pub(crate) max_driven_bytes: u64,
    pub(crate) concurrency: EveryTenant,
    pub(crate) runs_per_minute: EveryStart,
    /// Of each tenant.
    #[serde(deserialize_with = "whole::<_, _, 1, EXACT>")]
    pub(crate) stored_runs: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_node_executions: 100,
            max_body_bytes: 4 * MIB,
            inflight: 4096,
            unkeyed_inflight: 256,
            body_bytes_inflight: 256 * MIB,
            unkeyed_body_bytes_inflight: 32 * MIB,
            answer_bytes_inflight: 256 * MIB,
            // Twice the requests and streams that there may be: some connections wait for their next request.
            connections: 8192,
            signed_posts_per_minute: 0,
            // A form that people fill in gets one in a second at most.
            unsigned_posts_per_minute: 60,
            requests_per_second: 0,
            // A year: an approval may wait for weeks.
            max_run_duration_ms: 31_536_000_000,
            max_loop_iterations: 100,
            max_family_runs: 5000,
            tool_timeout_ms: 60_000,
            decision_timeout_ms: 10_000,
            max_driven_runs: 4096,
            max_driven_bytes: 256 * MIB,
            concurrency: EveryTenant::default(),
            runs_per_minute: EveryStart::default(),
            stored_runs: None,
        }
    }
}
