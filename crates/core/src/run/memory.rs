//! What a run sees of memory: what stood there when it began, what it wrote itself, and what children left that
//! completed. Nothing that others write meanwhile.

use callboard_protocol::{Event, MemoryId, MemoryWritten, NodeId, Remembered};

use super::Run;
use crate::birth::MemoryBirth;
use crate::node::NodeKind;

/// The longest name of a memory, as the protocol bounds it.
const MAX_MEMORY_REF: usize = 256;
/// The tag of the summaries that runs leave.
const SUMMARY: &str = "run-summary";

/// Whether a text can name a memory: not too long, without control characters, and not climbing out of its place. What
/// it says otherwise is its owner's business: it is a key, and never a path.
pub fn is_memory_ref(name: &str) -> bool {
    !name.is_empty()
        && name.chars().count() <= MAX_MEMORY_REF
        && !name.chars().any(char::is_control)
        && !name.starts_with(['/', '\\'])
        && name.split(['/', '\\']).all(|part| !matches!(part, "." | ".."))
}

/// Which versions of which entries exist for a reader: those of the journal up to a position, and some beyond it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryView {
    pub as_of: u64,
    pub also: Vec<Remembered>,
}

impl Run {
    /// What a read sees now.
    pub fn memory_view(&self) -> MemoryView {
        let MemoryBirth { as_of, also, .. } = self.memory_handed_on();
        MemoryView { as_of, also }
    }

    /// What a supervisor sees in its turn: all but what the turn itself has remembered, which is for the next one.
    /// None for other nodes.
    pub fn memory_of_turn(&self, node: &NodeId) -> Option<MemoryView> {
        let index = self.plan.index(node)?;
        if self.plan.node(index).kind != NodeKind::Supervisor {
            return None;
        }
        let mut view = self.memory_view();
        view.also.retain(|version| !self.nodes[index].remembered.contains(version));
        Some(view)
    }

    /// What a run that begins here sees of memory: a child, or a branch.
    pub fn memory_handed_on(&self) -> MemoryBirth {
        let before = &self.birth.memory;
        let mut also = self.remembered.clone();
        also.extend(before.also.iter().cloned());
        MemoryBirth { also: also.into_iter().collect(), ..before.clone() }
    }

    /// What a parent takes over from this run when it completes.
    pub fn memory_left(&self) -> Vec<Remembered> {
        self.remembered.iter().cloned().collect()
    }

    /// The event of the summary that a run leaves when it completes, where its definition asks for one. A replay repeats
    /// its source's and has none of its own.
    pub(super) fn next_summary(&self) -> Option<Event> {
        let memory_ref = self.plan.definition().metadata.memory_summary.as_ref()?;
        let is_elsewhere = self.birth.is_replay()
            && !self.script.current().is_some_and(|original| is_summary(&original.event));
        if self.announced.summary || is_elsewhere {
            return None;
        }
        Some(Event::MemoryWritten(MemoryWritten {
            memory_ref: memory_ref.clone(),
            memory_id: MemoryId::from(format!("mem_{}", self.told_id())),
            version: 1,
            node_id: None,
            agent_id: None,
            tags: vec![SUMMARY.to_owned(), format!("workflow:{}", self.birth.workflow_id)],
        }))
    }

    /// A write is known by its entry and version, so that reporting it again adds no event.
    pub(super) fn memory_fact(&self, written: &MemoryWritten) -> Option<Event> {
        let is_known = self.remembered.contains(&written.remembered());
        (!is_known).then(|| Event::MemoryWritten(written.clone()))
    }

    pub(super) fn fold_written(&mut self, written: &MemoryWritten) {
        let index = written.node_id.as_ref().and_then(|node| self.plan.index(node));
        if let Some(index) = index {
            self.nodes[index].remembered.push(written.remembered());
        }
        self.announced.summary |= written.node_id.is_none();
        self.fold_memory([written.remembered()]);
    }

    pub(super) fn fold_memory(&mut self, written: impl IntoIterator<Item = Remembered>) {
        self.remembered.extend(written);
    }
}

/// Whether this is the run's own summary: every other write names the node that made it.
pub fn is_summary(event: &Event) -> bool {
    matches!(event, Event::MemoryWritten(written) if written.node_id.is_none())
}
