//! The questions of all runs in one list.

use super::{StoredRun, Tables};
use crate::store::{InboxFilter, InboxItem, Scope};

impl Tables {
    pub(super) fn inbox(&self, scope: &Scope, filter: &InboxFilter) -> Vec<InboxItem> {
        let is_theirs = |run: &&StoredRun| {
            filter.member.as_ref().is_none_or(|member| run.member() == Some(member))
        };
        let runs = self.runs.values().filter(|run| scope.sees(&run.birth)).filter(is_theirs);
        let mut items: Vec<InboxItem> =
            runs.flat_map(StoredRun::questions).filter(|item| passes(item, filter)).collect();
        items.sort_by_key(InboxItem::place);
        items.truncate(filter.limit);
        items
    }
}

impl StoredRun {
    fn questions(&self) -> impl Iterator<Item = InboxItem> + '_ {
        self.interrupts.iter().map(|interrupt| InboxItem {
            run: self.birth.run_id.clone(),
            workflow: self.birth.workflow_id.clone(),
            interrupt: interrupt.clone(),
        })
    }
}

fn passes(item: &InboxItem, filter: &InboxFilter) -> bool {
    filter.kind.is_none_or(|kind| kind == item.interrupt.kind)
        && filter.workflow.as_ref().is_none_or(|workflow| *workflow == item.workflow)
        && filter.run.as_ref().is_none_or(|run| *run == item.run)
        && filter.after.as_ref().is_none_or(|after| item.place() > *after)
}
