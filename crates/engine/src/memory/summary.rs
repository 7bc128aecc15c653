//! The summary that a completed run leaves in memory, where its definition asks for one.

use callboard_core::{Entry, Run, is_summary};
use callboard_protocol::Event;

use super::draft::cleaned;
use super::recall::rows_of;
use super::{MemoryDraft, MemoryRow};

/// As much of the outputs as a summary holds: enough for an agent to go on from, and little enough for many of them.
const MOST_OUTPUTS: usize = 2_000;

/// The journal's row of a summary among these entries. It says what readers of the run may see; a replay's entry is its
/// source's, which is there already.
pub(crate) fn summary_rows(run: &Run, entries: &[Entry]) -> Vec<MemoryRow> {
    let summary = entries.iter().find(|entry| is_summary(&entry.event));
    let Some(Event::MemoryWritten(written)) = summary.map(|entry| &entry.event) else {
        return Vec::new();
    };
    if run.birth().is_replay() {
        return Vec::new();
    }
    let text = cleaned(&text_of(run, entries));
    let draft =
        MemoryDraft { tags: written.tags.clone(), ..MemoryDraft::new(&written.memory_ref, &text) };
    rows_of(run, entries, &[(written.remembered(), draft)])
}

fn text_of(run: &Run, entries: &[Entry]) -> String {
    let head = format!("Run {} of workflow {} completed.", run.id(), run.birth().workflow_id);
    let completed = entries.iter().find(|entry| matches!(entry.event, Event::RunCompleted(_)));
    let Some(completed) = completed else { return head };
    let payload = run.masked(&completed.event).unwrap_or_else(|| completed.event.payload());
    match &payload["outputs"] {
        outputs if outputs.as_object().is_none_or(serde_json::Map::is_empty) => head,
        outputs => {
            let outputs: String = outputs.to_string().chars().take(MOST_OUTPUTS).collect();
            format!("{head} Outputs: {outputs}")
        }
    }
}
