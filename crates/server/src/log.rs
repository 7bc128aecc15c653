//! A run's log, read a page at a time to its present end.

use std::sync::Arc;

use callboard_engine::{Page, Scope, Store, StoreError};
use callboard_protocol::RunId;

use crate::app::Host;
use crate::keys::Caller;

/// Events per read: enough to make a long log cheap, few enough to keep one page small.
pub(crate) const PAGE: usize = 256;

/// Who reads with it holds one page, however long the log is.
#[derive(Debug)]
pub(crate) struct Pages {
    store: Arc<dyn Store>,
    scope: Scope,
    run: RunId,
    /// None behind the last page.
    next: Option<u64>,
}

impl Pages {
    pub(crate) fn new(host: &Host, caller: &Caller, run: &RunId, from: u64) -> Self {
        let store = Arc::clone(host.app.engine.store());
        Self { store, scope: caller.scope.clone(), run: run.clone(), next: Some(from) }
    }

    /// None: that was all of it, or there is no such run for this caller.
    pub(crate) async fn next(&mut self) -> Result<Option<Page>, StoreError> {
        let Some(from) = self.next.take() else { return Ok(None) };
        let page = self.store.read(&self.scope, &self.run, from, PAGE).await?;
        let full = page.as_ref().filter(|page| page.events.len() == PAGE);
        self.next = full.and_then(|page| Some(page.events.last()?.sequence + 1));
        Ok(page)
    }

    /// Nothing more is wanted.
    pub(crate) fn stop(&mut self) {
        self.next = None;
    }

    pub(crate) fn are_over(&self) -> bool {
        self.next.is_none()
    }
}

/// For readers that need the log whole.
pub async fn read_rest(
    host: &Host,
    caller: &Caller,
    run: &RunId,
    from: u64,
) -> Result<Option<Page>, StoreError> {
    let mut pages = Pages::new(host, caller, run, from);
    let Some(mut all) = pages.next().await? else { return Ok(None) };
    while let Some(page) = pages.next().await? {
        (all.status, all.version) = (page.status, page.version);
        all.events.extend(page.events);
    }
    Ok(Some(all))
}
