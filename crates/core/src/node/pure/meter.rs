//! What one node may look at, in units of work, and what it may make, in bytes.

use callboard_protocol::Failure;
use serde_json::Value;

use crate::bounds::{HEAVIEST, too_heavy, weight};
use crate::work::Work;

/// What a value weighs beside its text, as the run weighs it.
pub(super) const EACH: usize = 16;

#[derive(Debug)]
pub(crate) struct Meter<'w> {
    work: &'w mut Work,
    left: usize,
}

impl<'w> Meter<'w> {
    pub(crate) fn new(work: &'w mut Work) -> Self {
        Self { work, left: HEAVIEST }
    }

    /// Counts work before it is done.
    pub(super) fn look(&mut self, units: u64) -> Result<(), Failure> {
        Ok(self.work.spend(units)?)
    }

    /// Pays for bytes before they are made.
    pub(super) fn make(&mut self, bytes: usize) -> Result<(), Failure> {
        self.left = self.left.checked_sub(bytes).ok_or_else(too_heavy)?;
        self.look(bytes as u64)
    }

    pub(super) fn copy(&mut self, value: &Value) -> Result<Value, Failure> {
        self.make(weight(value))?;
        Ok(value.clone())
    }

    pub(super) fn copy_all(&mut self, values: &[Value]) -> Result<Vec<Value>, Failure> {
        self.make(EACH)?;
        values.iter().map(|value| self.copy(value)).collect()
    }

    /// Adds to a text.
    pub(super) fn push(&mut self, text: &mut String, part: &str) -> Result<(), Failure> {
        self.make(part.len())?;
        text.push_str(part);
        Ok(())
    }
}
