//! Snapshots of large runs: built once for all who follow the run, and bounded in what they hold together.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use axum::body::Bytes;
use callboard_protocol::RunId;

use crate::app::Host;
use crate::keys::Caller;
use crate::problem::Problem;
use crate::share::{Holder, Part};

/// From this size on a run is shown only as it stands now, not as it was after each step: a reader that is behind would
/// be sent it again and again.
pub(super) const LARGE: usize = 64 * 1024;

/// The snapshots that are being sent.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    /// Held while one is built, so that readers who want the same do not all build it.
    building: tokio::sync::Mutex<()>,
    newest: Mutex<BTreeMap<RunId, Weak<Snapshot>>>,
}

/// A run after its first `version` events, as JSON.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) version: u64,
    json: String,
    _room: Part,
}

impl Snapshots {
    /// The run as it stands, at `version` or later. None: too much waits for its readers already.
    pub(super) async fn newest(
        &self,
        host: &Host,
        caller: &Caller,
        run: &RunId,
        version: u64,
    ) -> Result<Option<Arc<Snapshot>>, Problem> {
        if let Some(found) = self.find(run, version) {
            return Ok(Some(found));
        }
        let _alone = self.building.lock().await;
        if let Some(found) = self.find(run, version) {
            return Ok(Some(found));
        }
        let seen = host.app.engine.snapshot(&caller.scope, run).await?;
        let seen = seen.ok_or_else(|| Problem::no_such("run"))?;
        let Ok(room) = host.load.answer(Holder::key(caller), seen.json.len() as u64) else {
            return Ok(None);
        };
        let snapshot = Arc::new(Snapshot { version: seen.version, json: seen.json, _room: room });
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.retain(|_, kept| kept.strong_count() > 0);
        newest.insert(run.clone(), Arc::downgrade(&snapshot));
        Ok(Some(snapshot))
    }

    fn find(&self, run: &RunId, version: u64) -> Option<Arc<Snapshot>> {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.get(run)?.upgrade().filter(|kept| kept.version >= version)
    }
}

impl Snapshot {
    /// The sequence of the last event in it.
    pub(super) fn id(&self) -> u64 {
        self.version.saturating_sub(1)
    }

    pub(super) fn text(&self) -> &str {
        &self.json
    }

    /// The fields behind the opening brace, without a copy.
    pub(super) fn fields(self: &Arc<Self>) -> Bytes {
        Bytes::from_owner(Fields(Arc::clone(self)))
    }
}

struct Fields(Arc<Snapshot>);

impl AsRef<[u8]> for Fields {
    fn as_ref(&self) -> &[u8] {
        self.0.json.as_bytes().get(1..).unwrap_or_default()
    }
}
