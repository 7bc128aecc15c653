//! Records with their bodies and blobs sealed.

use std::sync::Arc;

use callboard_engine::{Key, Kind, RecordChange, RecordWrite, StoreError};

use super::unreadable;
use crate::seal::Seal;

/// A change as it goes to the disk: its body and its blob, if it has them, are sealed.
pub(crate) struct SealedChange {
    pub(crate) change: RecordChange,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) blob: Option<Vec<u8>>,
}

impl SealedChange {
    fn seal(change: RecordChange, seal: &Seal) -> Result<Self, StoreError> {
        let RecordWrite::Put { body, blob, .. } = &change.write else {
            return Ok(Self { change, body: None, blob: None });
        };
        let (kind, key) = (change.kind, change.key.as_str());
        let unsealed = |error| {
            StoreError::Unavailable(format!("{} {key} cannot be sealed: {error}", kind.as_str()))
        };
        let body = seal.seal(&place(kind, key), body).map_err(unsealed)?;
        let blob = blob.as_ref().map(|blob| seal.seal_bytes(&blob_place(kind, key), blob));
        let blob = blob.transpose().map_err(unsealed)?;
        Ok(Self { change, body: Some(body), blob })
    }

    pub(crate) fn seal_all(
        changes: Vec<RecordChange>,
        seal: &Seal,
    ) -> Result<Vec<Self>, StoreError> {
        changes.into_iter().map(|change| Self::seal(change, seal)).collect()
    }

    /// What kind of record is other than before, if any is.
    pub(crate) fn changed(&self) -> Option<Kind> {
        (!matches!(self.change.write, RecordWrite::Nothing)).then_some(self.change.kind)
    }
}

/// Where a record's body stands, for its seal.
fn place(kind: Kind, key: &str) -> String {
    format!("records/{}/{key}", kind.as_str())
}

/// Where a record's blob stands, for its seal.
fn blob_place(kind: Kind, key: &str) -> String {
    format!("record_blobs/{}/{key}", kind.as_str())
}

/// Empty where it cannot be opened, so that one damaged record does not hide the others.
pub(crate) fn open_body(seal: &Seal, kind: Kind, key: &str, sealed: &[u8]) -> Arc<str> {
    let body = seal.open(&place(kind, key), sealed).unwrap_or_else(|error| {
        let kind = kind.as_str();
        tracing::error!(kind, key, %error, "the body of a record cannot be opened");
        String::new()
    });
    Arc::from(body)
}

pub(crate) fn open_blob(
    seal: &Seal,
    kind: Kind,
    key: &Key,
    sealed: &[u8],
) -> Result<Arc<[u8]>, StoreError> {
    let opened = seal.open_bytes(&blob_place(kind, key.as_str()), sealed);
    let what = || format!("the blob of {} {key}", kind.as_str());
    opened.map(Arc::from).map_err(|error| unreadable(what(), error))
}
