//! The checks and their results.

use anyhow::Result;

use crate::say;

#[derive(Debug, Default)]
pub(crate) struct Book {
    only: Option<String>,
    pub(crate) passed: usize,
    pub(crate) failed: usize,
}

impl Book {
    pub(crate) fn new(only: Option<String>) -> Self {
        Self { only, ..Self::default() }
    }

    /// Whether this check was asked for.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|only| name.contains(only))
    }

    /// Writes one line.
    pub(crate) fn enter(&mut self, name: &str, outcome: Result<()>) {
        if !self.wants(name) {
            return;
        }
        match outcome {
            Ok(()) => {
                self.passed += 1;
                say::line(format_args!("ok    {name}"));
            }
            Err(error) => {
                self.failed += 1;
                say::line(format_args!("FAIL  {name}: {error:#}"));
            }
        }
    }
}
