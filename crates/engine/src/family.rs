//! How many runs lie below one run: depth alone does not bound a workflow that starts itself twice.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use callboard_core::Birth;
use callboard_protocol::RunId;

/// The families that grow, by the run at their top. Each member keeps its place in the family, so that after a
/// restart counting begins no lower than the member that asks.
#[derive(Debug, Default)]
pub(crate) struct Families(Mutex<HashMap<RunId, u64>>);

impl Families {
    /// The place of one more run below this one, if its family may still grow.
    pub(crate) fn join(&self, above: &Birth, most: u64) -> Option<u64> {
        let known = above.parent.as_ref().map_or(0, |parent| parent.place);
        let mut families = self.families();
        let members = families.entry(above.root().clone()).or_default();
        *members = known.max(*members);
        if *members >= most {
            return None;
        }
        *members += 1;
        Some(*members)
    }

    /// A family is counted until the run at its top has ended.
    pub(crate) fn leave(&self, birth: &Birth) {
        if birth.parent.is_none() {
            self.families().remove(&birth.run_id);
        }
    }

    fn families(&self) -> MutexGuard<'_, HashMap<RunId, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
