//! Files that came along with a delivery: they rest in it until it is a run, and with the run from then on.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use callboard_protocol::{AttachmentRef, RunId, hex};

use super::ingest::TriggerIngest;
use super::records::Triggers;
use crate::records::{Key, Kind, Record, RecordChange, RecordQuery, Within};
use crate::store::{Scope, StoreError};

/// What the files of one run are found by.
const RUN: &str = "run";

/// One file.
///
/// An older host leaves the files of a delivery that it settles out of the run; nothing else is lost.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    pub handle: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    pub bytes: u64,
    /// In base64, as JSON has it.
    content: String,
}

/// What is in it is the sender's and nobody else's.
impl std::fmt::Debug for Attachment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Attachment({} of {} bytes)", self.handle, self.bytes)
    }
}

impl Attachment {
    pub fn new(filename: Option<String>, media_type: Option<String>, content: &[u8]) -> Self {
        let handle = format!("sha256:{}", hex(Sha256::digest(content)));
        let bytes = content.len() as u64;
        Self { handle, filename, media_type, bytes, content: STANDARD.encode(content) }
    }

    /// As a run sees it.
    pub fn reference(&self) -> AttachmentRef {
        AttachmentRef {
            handle: self.handle.clone(),
            filename: self.filename.clone(),
            media_type: self.media_type.clone(),
            bytes: self.bytes,
        }
    }

    pub fn content(&self) -> Vec<u8> {
        STANDARD.decode(&self.content).unwrap_or_default()
    }

    pub fn base64(&self) -> &str {
        &self.content
    }
}

/// What keeps the files of a delivery with the run that it has become, for as long as that is kept.
pub(super) fn of_run(
    run: &RunId,
    place: &Scope,
    files: &[Attachment],
) -> Result<Vec<RecordChange>, StoreError> {
    let put = |(ordinal, file): (usize, &Attachment)| {
        let key = Key::of([run.as_str(), &format!("{ordinal:04}")]);
        let put = RecordChange::put(Kind::Attachment, key, place.clone(), file)?;
        Ok(put.indexed(RUN, run.as_str()).of_run(run))
    };
    files.iter().enumerate().map(put).collect()
}

impl Triggers {
    /// The files of a run, in the order in which they came; none if there is no such run for this caller.
    pub async fn attachments(
        &self,
        scope: &Scope,
        run: &RunId,
    ) -> Result<Option<Vec<Attachment>>, StoreError> {
        if !self.may_see(scope, run).await? {
            return Ok(None);
        }
        let query = RecordQuery::all(Kind::Attachment, Within::Everywhere).with(RUN, run.as_str());
        let found = self.scan(&query).await?;
        found.iter().map(Record::read).collect::<Result<_, _>>().map(Some)
    }
}

impl TriggerIngest {
    /// The files that came along with what a run was made of.
    pub async fn attachments(
        &self,
        scope: &Scope,
        run: &RunId,
    ) -> Result<Option<Vec<Attachment>>, StoreError> {
        self.inner.triggers.attachments(scope, run).await
    }
}
