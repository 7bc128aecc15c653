//! The store in memory, with a switch that makes it fail the way databases do.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use callboard_engine::{InMemoryStore, Intercept, InterceptedStore, Kind, StoreCall, StoreError};

/// What goes wrong with writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    #[default]
    None,
    Away,
    Full,
    Damaged,
    /// Nothing, but not at once.
    Late,
    /// Only for those who ask the store how it is.
    Panic,
}

pub(crate) type FlakyStore = InterceptedStore<Switch>;

pub(crate) fn flaky_store() -> Arc<FlakyStore> {
    let switch = Arc::new(Switch::default());
    Arc::new(InterceptedStore::new(switch.inner(), switch))
}

#[derive(Debug, Default)]
pub(crate) struct Switch {
    inner: Arc<InMemoryStore>,
    fault: Mutex<Fault>,
}

impl Switch {
    /// The store itself, for what never fails in these tests.
    pub(crate) fn inner(&self) -> Arc<InMemoryStore> {
        Arc::clone(&self.inner)
    }

    pub(crate) fn fail(&self, fault: Fault) {
        *self.fault.lock().expect("no poison") = fault;
    }

    pub(crate) fn fault(&self) -> Fault {
        *self.fault.lock().expect("no poison")
    }

    fn refuse(&self) -> Result<(), StoreError> {
        match self.fault() {
            Fault::None | Fault::Late | Fault::Panic => Ok(()),
            Fault::Away => Err(StoreError::Unavailable("secret-host:5432 refused".to_owned())),
            Fault::Full => Err(StoreError::Full),
            Fault::Damaged => {
                let what = "row 7 of secret-table".to_owned();
                Err(StoreError::Unreadable { what, why: "bad bytes".to_owned() })
            }
        }
    }
}

#[async_trait]
impl Intercept for Switch {
    async fn before(&self, call: &StoreCall<'_>) -> Result<(), StoreError> {
        match call.name {
            "commit" | "begin_effect" | "settle_effect" => self.refuse()?,
            // Secrets are what tests want to find unreadable.
            "get" if self.fault() == Fault::Damaged || call.kind == Some(Kind::Secret) => {
                self.refuse()?;
            }
            _ => {}
        }
        let appends = call.batch.is_some_and(|batch| !batch.appends.is_empty());
        if self.fault() == Fault::Late && appends {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(())
    }
}
