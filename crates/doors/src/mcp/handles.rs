//! Which run a call of a client stands for, so that cancelling the call cancels the run.
//!
//! A connection that ends cancels nothing: only a client that says so does.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use rmcp::model::RequestId;

use crate::caller::Caller;

/// Calls of one client that are remembered.
const MOST: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Handles {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    by_call: BTreeMap<String, Handle>,
    /// The oldest first.
    order: VecDeque<String>,
}

#[derive(Debug, Clone)]
enum Handle {
    /// Cancelled before its run was there.
    Cancelled,
    Runs(Caller, String),
}

impl Handles {
    /// Answers whether the call has been cancelled already.
    pub(crate) fn runs(&self, call: &RequestId, caller: &Caller, run: &str) -> bool {
        let handle = Handle::Runs(caller.clone(), run.to_owned());
        matches!(self.put(call, handle), Some(Handle::Cancelled))
    }

    pub(crate) async fn cancel(&self, call: RequestId) {
        let Some(Handle::Runs(caller, run)) = self.put(&call, Handle::Cancelled) else { return };
        if let Err(error) = caller.cancel(&run).await {
            tracing::debug!(%error, "a call was cancelled whose run is not");
        }
    }

    /// The call has its answer.
    pub(crate) fn forget(&self, call: &RequestId) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let call = call.to_string();
        inner.by_call.remove(&call);
        inner.order.retain(|other| *other != call);
    }

    fn put(&self, call: &RequestId, handle: Handle) -> Option<Handle> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let call = call.to_string();
        let before = inner.by_call.insert(call.clone(), handle);
        if before.is_none() {
            inner.order.push_back(call);
        }
        while inner.order.len() > MOST {
            let oldest = inner.order.pop_front();
            oldest.and_then(|oldest| inner.by_call.remove(&oldest));
        }
        before
    }
}
