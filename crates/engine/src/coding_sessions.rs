//! Session files of coding agents: kept while their run lasts.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use callboard_protocol::{RunId, Tenant};

use crate::records::{Key, Kind, RecordChange, RecordQuery, Within};
use crate::store::{Batch, Claim, KeyMode, Scope, Store, StoreError};

/// Keeps the session files of one home as one text.
#[derive(Debug, Clone)]
pub struct CodingSessions {
    store: Arc<dyn Store>,
}

/// The files themselves are the record's blob, so that looking for what may go reads none of them.
#[derive(Serialize, Deserialize)]
struct Body {
    run: RunId,
}

fn key(tenant: &Tenant, run: &RunId, home: &str) -> Key {
    Key::of([tenant.as_str(), run.as_str(), home])
}

impl CodingSessions {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Replaces what was kept of this home before. Only the holder of the run may: one of a past epoch must not write
    /// over what the present holder kept, and a run that has ended has no holder. A run of another tenant keeps nothing
    /// either.
    pub async fn keep_session(
        &self,
        tenant: &Tenant,
        claim: &Claim,
        home: &str,
        files: String,
    ) -> Result<(), StoreError> {
        let run = &claim.run;
        let Some(place) = self.place_of(tenant, run).await? else { return Ok(()) };
        let body = Body { run: run.clone() };
        let session = RecordChange::put(Kind::CodingSession, key(tenant, run, home), place, &body)?
            .of_run(run)
            .with_blob(files.into_bytes().into());
        let batch = Batch { claims: vec![claim.clone()], ..Batch::of_records([session]) };
        match self.store.commit(batch).await {
            Err(StoreError::LeaseLost { .. }) => Ok(()),
            kept => kept,
        }
    }

    pub async fn kept_session(
        &self,
        tenant: &Tenant,
        run: &RunId,
        home: &str,
    ) -> Result<Option<String>, StoreError> {
        let key = key(tenant, run, home);
        let Some(files) = self.store.blob(Kind::CodingSession, &key).await? else {
            return Ok(None);
        };
        let files = String::from_utf8(files.to_vec());
        let files = files.map_err(|error| StoreError::Unreadable {
            what: format!("a session of run {run}"),
            why: error.to_string(),
        });
        files.map(Some)
    }

    /// Forgets the files of runs that are over; answers how many homes those were.
    pub async fn forget_sessions(&self) -> Result<usize, StoreError> {
        let kept =
            self.store.scan(&RecordQuery::all(Kind::CodingSession, Within::Everywhere)).await?;
        if kept.is_empty() {
            return Ok(0);
        }
        let runs = kept.iter().map(|record| Ok(record.read::<Body>()?.run));
        let statuses = self.store.statuses(&runs.collect::<Result<Vec<_>, StoreError>>()?).await?;
        let over = kept
            .into_iter()
            .zip(statuses)
            .filter(|(_, status)| status.is_none_or(|run| run.status.is_terminal()));
        let gone: Vec<RecordChange> =
            over.map(|(record, _)| RecordChange::delete(Kind::CodingSession, record.key)).collect();
        let count = gone.len();
        self.store.commit(Batch::of_records(gone)).await?;
        Ok(count)
    }

    /// Where the run is, if it is the tenant's.
    async fn place_of(&self, tenant: &Tenant, run: &RunId) -> Result<Option<Scope>, StoreError> {
        for mode in [KeyMode::Live, KeyMode::Test] {
            let place = Scope { tenant: tenant.clone(), workspace: None, mode };
            if self.store.find(&place, run).await?.is_some() {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }
}
