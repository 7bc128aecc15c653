//! Whether a run has room for one more value.

use callboard_protocol::Failure;

use super::Run;
use crate::bounds::{FULLEST, too_full, weight, weight_of};

impl Run {
    /// Refuses a value that the run cannot hold beside what it holds.
    pub(super) fn has_room(&self, more: usize) -> Result<(), Failure> {
        // Most runs never take as much as they may hold, and need not be weighed.
        let is_full = self.values.taken + more > FULLEST && self.held() + more > FULLEST;
        if is_full { Err(too_full()) } else { Ok(()) }
    }

    /// The work of weighing all values of a run, which each event of a full one asks for.
    pub(super) fn weighing(&self) -> u64 {
        if self.values.taken > FULLEST { FULLEST as u64 / 4 } else { 0 }
    }

    fn held(&self) -> usize {
        let nodes = self.nodes.iter().map(|it| weight_of(&it.inputs) + weight_of(&it.outputs));
        let channels = self.values.channels.values().map(|channel| weight(&channel.value));
        let children = self.children.iter().map(|child| weight_of(&child.outputs));
        weight_of(&self.values.variables) + nodes.chain(channels).chain(children).sum::<usize>()
    }
}
