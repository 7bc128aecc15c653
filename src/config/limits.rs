//! `[limits]`: what the host stops at.

use std::ops::RangeInclusive;

use super::source::{Source, Value};
use crate::exit::CommandError;

/// The section, with the defaults of the documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) max_node_executions: u64,
    pub(crate) max_body_bytes: u64,
    /// Requests and open streams of key holders; past it the host answers 503.
    pub(crate) inflight: u64,
    /// The same for those who show no key.
    pub(crate) unkeyed_inflight: u64,
    /// Bytes of bodies in memory, of key holders and of others.
    pub(crate) body_bytes_inflight: u64,
    pub(crate) unkeyed_body_bytes_inflight: u64,
    /// Bytes of large answers that wait for their readers.
    pub(crate) answer_bytes_inflight: u64,
    pub(crate) connections: u64,
    /// Posts to each subscription; zero is off.
    pub(crate) signed_posts_per_minute: u64,
    pub(crate) unsigned_posts_per_minute: u64,
    /// Per key; zero is off.
    pub(crate) requests_per_second: u64,
    pub(crate) max_run_duration_ms: u64,
    /// Turns that supervisors of one run may take.
    pub(crate) max_loop_iterations: u64,
    /// Runs that may lie below one run, on all levels together.
    pub(crate) max_family_runs: u64,
    /// How long one call of a tool may take.
    pub(crate) tool_timeout_ms: u64,
    /// How long one decision about a run may take.
    pub(crate) decision_timeout_ms: u64,
    /// Runs that are driven at once; the others wait for their turn.
    pub(crate) max_driven_runs: u64,
    /// What those may hold together.
    pub(crate) max_driven_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_node_executions: 100,
            max_body_bytes: 4 * 1024 * 1024,
            inflight: 4096,
            unkeyed_inflight: 256,
            body_bytes_inflight: 256 * 1024 * 1024,
            unkeyed_body_bytes_inflight: 32 * 1024 * 1024,
            answer_bytes_inflight: 256 * 1024 * 1024,
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
            max_driven_bytes: 256 * 1024 * 1024,
        }
    }
}

impl Limits {
    const KEYS: [&str; 18] = [
        "max_node_executions",
        "max_body_bytes",
        "inflight",
        "unkeyed_inflight",
        "body_bytes_inflight",
        "unkeyed_body_bytes_inflight",
        "answer_bytes_inflight",
        "connections",
        "signed_posts_per_minute",
        "unsigned_posts_per_minute",
        "requests_per_second",
        "max_run_duration_ms",
        "max_loop_iterations",
        "max_family_runs",
        "tool_timeout_ms",
        "decision_timeout_ms",
        "max_driven_runs",
        "max_driven_bytes",
    ];

    /// The field of a key, with the values that make sense for it.
    fn field(&mut self, key: &str) -> Option<(&mut u64, RangeInclusive<u64>)> {
        /// Numbers above this cannot be written exactly in JSON, and discovery shows some of these.
        const MOST: u64 = (1 << 53) - 1;
        Some(match key {
            "max_node_executions" => (&mut self.max_node_executions, 1..=MOST),
            // A definition of one node needs some hundred bytes; a gigabyte would not fit into memory many times.
            "max_body_bytes" => (&mut self.max_body_bytes, 1024..=1 << 30),
            "inflight" => (&mut self.inflight, 1..=1_000_000),
            "unkeyed_inflight" => (&mut self.unkeyed_inflight, 1..=1_000_000),
            // Below a mebibyte, ordinary requests would be refused.
            "body_bytes_inflight" => (&mut self.body_bytes_inflight, 1 << 20..=1 << 40),
            "unkeyed_body_bytes_inflight" => {
                (&mut self.unkeyed_body_bytes_inflight, 1 << 20..=1 << 40)
            }
            "answer_bytes_inflight" => (&mut self.answer_bytes_inflight, 1 << 20..=1 << 40),
            "connections" => (&mut self.connections, 16..=1_000_000),
            "signed_posts_per_minute" => (&mut self.signed_posts_per_minute, 0..=1_000_000),
            "unsigned_posts_per_minute" => (&mut self.unsigned_posts_per_minute, 0..=1_000_000),
            "requests_per_second" => (&mut self.requests_per_second, 0..=1_000_000),
            // The protocol's own minimum is a second.
            "max_run_duration_ms" => (&mut self.max_run_duration_ms, 1000..=MOST),
            "max_loop_iterations" => (&mut self.max_loop_iterations, 1..=MOST),
            "max_family_runs" => (&mut self.max_family_runs, 1..=MOST),
            "tool_timeout_ms" => (&mut self.tool_timeout_ms, 1..=MOST),
            // Shorter ones would give up runs on a busy machine.
            "decision_timeout_ms" => (&mut self.decision_timeout_ms, 500..=600_000),
            "max_driven_runs" => (&mut self.max_driven_runs, 1..=1_000_000),
            // The largest run must fit.
            "max_driven_bytes" => (&mut self.max_driven_bytes, 64 << 20..=1 << 40),
            _ => return None,
        })
    }
}

impl Source<'_> {
    pub(super) fn limits(&self, value: &Value<'_>) -> Result<Limits, CommandError> {
        let mut limits = Limits::default();
        for (key, value) in self.section(value, "limits")? {
            let name = key.get_ref().as_ref();
            let path = format!("limits.{name}");
            let Some((field, admitted)) = limits.field(name) else {
                return Err(self.unknown(key.span().start, &path, name, &Limits::KEYS));
            };
            *field = self.whole(value, &path, admitted)?;
        }
        Ok(limits)
    }
}
