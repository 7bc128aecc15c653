//! A process that dies before or after one of its writes, and tells what it wrote until then.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use tokio::sync::Notify;

use callboard_engine::{Intercept, Kind, RecordWrite, StoreCall, StoreError};

/// Which write of a process is its last, and whether that one is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Death {
    Before(usize),
    After(usize),
}

#[derive(Debug, Default)]
pub(super) struct Process {
    state: Mutex<State>,
    died: Notify,
}

#[derive(Debug, Default)]
struct State {
    death: Option<Death>,
    /// The names of the calls that wrote.
    writes: Vec<&'static str>,
    kinds: BTreeSet<Kind>,
    is_dead: bool,
}

impl Process {
    pub(super) fn new(death: Option<Death>) -> Arc<Self> {
        let process = Self::default();
        process.doom(death);
        Arc::new(process)
    }

    /// Counts writes from here on.
    pub(super) fn doom(&self, death: Option<Death>) {
        let mut state = self.state();
        state.writes.clear();
        state.death = death;
    }

    pub(super) async fn died(&self) {
        self.died.notified().await;
    }

    pub(super) fn writes(&self) -> Vec<&'static str> {
        self.state().writes.clone()
    }

    /// The kinds of records that were put or deleted.
    pub(super) fn kinds(&self) -> BTreeSet<Kind> {
        self.state().kinds.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    async fn die_if(&self, is_last: impl FnOnce(&mut State) -> bool) {
        let is_over = {
            let mut state = self.state();
            if !state.is_dead && is_last(&mut state) {
                state.is_dead = true;
                self.died.notify_one();
            }
            state.is_dead
        };
        if is_over {
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl Intercept for Process {
    async fn before(&self, call: &StoreCall<'_>) -> Result<(), StoreError> {
        let is_last = |state: &mut State| {
            if !call.is_write() {
                return false;
            }
            state.writes.push(call.name);
            let changes = call.batch.iter().flat_map(|batch| &batch.records);
            let written = changes.filter(|change| !matches!(change.write, RecordWrite::Nothing));
            state.kinds.extend(written.map(|change| change.kind));
            state.death == Some(Death::Before(state.writes.len()))
        };
        self.die_if(is_last).await;
        Ok(())
    }

    async fn after(&self, call: &StoreCall<'_>) -> Result<(), StoreError> {
        // The store in memory answers at once, so the call that was counted last is this one.
        let is_last = |state: &mut State| {
            call.is_write() && state.death == Some(Death::After(state.writes.len()))
        };
        self.die_if(is_last).await;
        Ok(())
    }
}
