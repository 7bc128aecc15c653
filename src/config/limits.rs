//! `[limits]`: what the host stops at.

use std::ops::RangeInclusive;

use super::source::{Source, Value};
use crate::exit::CommandError;

/// The section, with the defaults of the documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) max_node_executions: u64,
    pub(crate) max_body_bytes: u64,
    /// Requests and open streams; past it the host answers 503.
    pub(crate) inflight: u64,
    /// Per key; zero is off.
    pub(crate) requests_per_second: u64,
    pub(crate) max_run_duration_ms: u64,
    /// Turns that supervisors of one run may take.
    pub(crate) max_loop_iterations: u64,
    /// Runs that may lie below one run, on all levels together.
    pub(crate) max_family_runs: u64,
    /// How long one call of a tool may take.
    pub(crate) tool_timeout_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_node_executions: 100,
            max_body_bytes: 4 * 1024 * 1024,
            inflight: 4096,
            requests_per_second: 0,
            // A year: an approval may wait for weeks.
            max_run_duration_ms: 31_536_000_000,
            max_loop_iterations: 100,
            max_family_runs: 5000,
            tool_timeout_ms: 60_000,
        }
    }
}

impl Limits {
    const KEYS: [&str; 8] = [
        "max_node_executions",
        "max_body_bytes",
        "inflight",
        "requests_per_second",
        "max_run_duration_ms",
        "max_loop_iterations",
        "max_family_runs",
        "tool_timeout_ms",
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
            "requests_per_second" => (&mut self.requests_per_second, 0..=1_000_000),
            // The protocol's own minimum is a second.
            "max_run_duration_ms" => (&mut self.max_run_duration_ms, 1000..=MOST),
            "max_loop_iterations" => (&mut self.max_loop_iterations, 1..=MOST),
            "max_family_runs" => (&mut self.max_family_runs, 1..=MOST),
            "tool_timeout_ms" => (&mut self.tool_timeout_ms, 1..=MOST),
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
