//! What people do with deliveries: look at those on their way, send again what was given up, or forget it.

use callboard_protocol::{Timestamp, WebhookId};

use super::delivery::{DeadLetter, Planned};
use super::delivery_loop::DeliveryLoop;
use super::records::{MOST_TRIES, Webhooks, below};
use super::webhook::Webhook;
use crate::logs::LogPosition;
use crate::records::{Expected, Kind, Record, RecordChange};
use crate::store::{Batch, Scope, StoreError};

/// Letters that are sent again or forgotten at once.
pub const MOST_LETTERS: usize = 100;

/// Which dead letters of a webhook are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Letters {
    One(u64),
    /// The newest hundred.
    All,
}

impl Letters {
    fn include(self, letter: &DeadLetter) -> bool {
        match self {
            Self::One(id) => letter.id == id,
            Self::All => true,
        }
    }
}

/// The outcome of a request to send dead letters again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resent {
    /// So many are on their way.
    Letters(usize),
    /// The webhook has failed for good and gets nothing more.
    Failed,
}

/// A delivery that waits for its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingDelivery {
    pub planned: Planned,
    pub due_at: Option<Timestamp>,
}

impl Webhooks {
    async fn letters(
        &self,
        scope: &Scope,
        id: &WebhookId,
        which: Letters,
    ) -> Result<Option<(Webhook, Vec<(Record, DeadLetter)>)>, StoreError> {
        let found = self.record(id).await?.filter(|record| scope.includes(&record.place));
        let Some(record) = found else { return Ok(None) };
        let (webhook, _) = Webhook::open(&record)?;
        let page = below(Kind::WebhookDeadLetter, id).descending().limit(MOST_LETTERS);
        let mut letters = Vec::new();
        for record in self.store.scan(&page).await? {
            let letter: DeadLetter = record.read()?;
            if which.include(&letter) {
                letters.push((record, letter));
            }
        }
        Ok(Some((webhook, letters)))
    }

    /// Puts letters back among the deliveries, each once; none if the caller has no such webhook.
    pub async fn resend_letters(
        &self,
        scope: &Scope,
        id: &WebhookId,
        which: Letters,
        at: Timestamp,
    ) -> Result<Option<Resent>, StoreError> {
        for _ in 0..MOST_TRIES {
            let Some((webhook, letters)) = self.letters(scope, id, which).await? else {
                return Ok(None);
            };
            if webhook.circuit.has_failed() {
                return Ok(Some(Resent::Failed));
            }
            let planned: Vec<Planned> =
                letters.iter().map(|(_, letter)| again(id, letter)).collect();
            if planned.is_empty() {
                return Ok(Some(Resent::Letters(0)));
            }
            let planned: Vec<&Planned> = planned.iter().collect();
            let mut changes = self.plan_for(id, &planned, at).await?;
            let gone = letters.iter().map(|(record, _)| {
                RecordChange::delete(record.kind, record.key.clone()).expecting(Expected::Present)
            });
            changes.extend(gone);
            match self.store.commit(Batch::of_records(changes)).await {
                Err(StoreError::Moved { .. }) => {}
                done => return done.map(|()| Some(Resent::Letters(letters.len()))),
            }
        }
        Err(StoreError::Moved { what: id.to_string() })
    }

    /// Forgets letters; answers how many, or none if the caller has no such webhook.
    pub async fn drop_letters(
        &self,
        scope: &Scope,
        id: &WebhookId,
        which: Letters,
    ) -> Result<Option<usize>, StoreError> {
        let Some((_, letters)) = self.letters(scope, id, which).await? else { return Ok(None) };
        let count = letters.len();
        let gone =
            letters.into_iter().map(|(record, _)| RecordChange::delete(record.kind, record.key));
        if count > 0 {
            self.store.commit(Batch::of_records(gone)).await?;
        }
        Ok(Some(count))
    }

    /// What is on its way, the next first; none if the caller has no such webhook.
    pub async fn pending(
        &self,
        scope: &Scope,
        id: &WebhookId,
        limit: usize,
    ) -> Result<Option<Vec<PendingDelivery>>, StoreError> {
        if self.record(id).await?.is_none_or(|record| !scope.includes(&record.place)) {
            return Ok(None);
        }
        let page = self.store.scan(&below(Kind::WebhookDelivery, id).limit(limit)).await?;
        let read = page
            .iter()
            .map(|record| Ok(PendingDelivery { planned: record.read()?, due_at: record.due_at }));
        read.collect::<Result<_, StoreError>>().map(Some)
    }
}

/// A letter as a delivery that was never tried.
fn again(webhook: &WebhookId, letter: &DeadLetter) -> Planned {
    Planned {
        webhook: webhook.clone(),
        event: LogPosition(letter.id),
        run: letter.run.clone(),
        sequence: letter.sequence,
        kind: letter.kind.clone(),
        workspace: letter.workspace.clone(),
        attempts: 0,
    }
}

impl DeliveryLoop {
    /// Sends dead letters again; none if the caller has no such webhook.
    pub async fn resend(
        &self,
        scope: &Scope,
        id: &WebhookId,
        which: Letters,
    ) -> Result<Option<Resent>, StoreError> {
        let resent = self.webhooks().resend_letters(scope, id, which, self.now()).await?;
        self.wake();
        Ok(resent)
    }

    pub async fn drop_letters(
        &self,
        scope: &Scope,
        id: &WebhookId,
        which: Letters,
    ) -> Result<Option<usize>, StoreError> {
        self.webhooks().drop_letters(scope, id, which).await
    }

    pub async fn pending(
        &self,
        scope: &Scope,
        id: &WebhookId,
        limit: usize,
    ) -> Result<Option<Vec<PendingDelivery>>, StoreError> {
        self.webhooks().pending(scope, id, limit).await
    }
}
