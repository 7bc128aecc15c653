//! Waiting for an unavailable store: the holder of a run goes on once it answers again.
//!
//! Nothing here knows when to stop. A claim that may be another host's by now is lost ([`crate::claim`]), and with it
//! ends its driver and everything that waits on its behalf. Callers that hold no claim do not wait: they get the error.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use callboard_core::backoff;

use crate::clock::Clock;
use crate::engine::{Engine, EngineError};
use crate::intercept::{Intercept, InterceptedStore, StoreCall};
use crate::store::{Store, StoreError};

/// Before the second try: a connection that broke is often back at once.
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// Between two tries at most: a store that comes back is in use again soon after.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Whether the same call may succeed later, with nothing done about it.
pub(crate) fn may_pass(error: &StoreError) -> bool {
    matches!(error, StoreError::Full | StoreError::Unavailable(_))
}

/// Waits before the next try, longer after each failure.
pub(crate) async fn wait_after(clock: &dyn Clock, failures: u32) {
    let wait = backoff(FIRST_WAIT, LONGEST_WAIT, failures);
    clock.sleep_until(clock.now().plus(wait)).await;
}

/// A store for activities: each call is repeated until it is answered. What they write may be written twice without
/// harm: an effect is claimed and settled under its key, everything else replaces what was there.
pub fn patient(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Arc<dyn Store> {
    Arc::new(InterceptedStore::new(store, Arc::new(Patience { clock })))
}

#[derive(Debug)]
struct Patience {
    clock: Arc<dyn Clock>,
}

#[async_trait]
impl Intercept for Patience {
    async fn again(&self, call: &StoreCall<'_>, error: &StoreError, failures: u32) -> bool {
        // A repeated claim of an effect must be distinguished from another executor's: `Call::once` repeats it itself.
        if !may_pass(error) || call.name == "begin_effect" {
            return false;
        }
        tracing::warn!(%error, call = call.name, "the store is away; trying again");
        wait_after(&*self.clock, failures).await;
        true
    }
}

impl Engine {
    /// Asks until the store answers, on behalf of a run's holder. Asking twice must do no harm.
    pub(crate) async fn patiently<T, Asked>(
        &self,
        ask: impl Fn() -> Asked,
    ) -> Result<T, EngineError>
    where
        Asked: Future<Output = Result<T, EngineError>>,
    {
        let mut failures = 0;
        loop {
            match ask().await {
                Err(EngineError::Store(error)) if may_pass(&error) => {
                    tracing::warn!(%error, "the store is away; trying again");
                    wait_after(&*self.inner.clock, failures).await;
                    failures = failures.saturating_add(1);
                }
                answered => return answered,
            }
        }
    }
}
