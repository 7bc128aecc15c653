//! Registered definitions that were read before. One process holds the folder, so they are true until it changes one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use callboard_engine::StoredWorkflow;
use callboard_protocol::{Tenant, WorkflowId};

/// Definitions that are kept. Most hosts have fewer; where there are more, they are read again now and then.
const KEPT: usize = 256;

/// A longer text is read each time, so that all of them stay below 16 MB.
const LONGEST: usize = 64 * 1024;

/// A tenant and its own name for a workflow.
pub(super) type Name = (Tenant, WorkflowId);

#[derive(Default)]
pub(super) struct Definitions(Arc<RwLock<Known>>);

#[derive(Default)]
pub(super) struct Known(Mutex<HashMap<Name, StoredWorkflow>>);

impl Definitions {
    /// Nothing changes while this is held, so what was read meanwhile may be kept.
    pub(super) async fn reading(&self) -> OwnedRwLockReadGuard<Known> {
        Arc::clone(&self.0).read_owned().await
    }

    /// To be held until it is known what became of the change.
    pub(super) async fn changing(&self) -> OwnedRwLockWriteGuard<Known> {
        Arc::clone(&self.0).write_owned().await
    }
}

impl Known {
    pub(super) fn find(&self, name: &Name) -> Option<StoredWorkflow> {
        self.lock().get(name).cloned()
    }

    pub(super) fn keep(&self, name: Name, workflow: StoredWorkflow) {
        if workflow.source.len() > LONGEST {
            return;
        }
        let mut known = self.lock();
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(name, workflow);
    }

    pub(super) fn forget(&self, name: &Name) {
        self.lock().remove(name);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, StoredWorkflow>> {
        // A panic elsewhere cannot leave this map half-changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
