//! What people do with what came in: look at it, and forget what was given up.

use super::delivery::{InboundDelivery, InboundState};
use super::ingest::{TriggerError, TriggerIngest};
use super::records::Triggers;
use super::subscription::Subscription;
use crate::records::{Expected, Kind, RecordChange, RecordQuery, Within};
use crate::store::{Scope, StoreError};

/// Deliveries among which the newest are looked for. They are forgotten a week after they became runs, and kept in the
/// order of their keys.
pub const MOST_DELIVERIES: usize = 1000;

impl Triggers {
    /// What came in over a subscription, newest first, among the first [`MOST_DELIVERIES`].
    pub async fn deliveries(
        &self,
        scope: &Scope,
        subscription: &str,
        limit: usize,
    ) -> Result<Vec<InboundDelivery>, StoreError> {
        let page = RecordQuery::all(Kind::InboundDelivery, Within::VisibleTo(scope.clone()))
            .below(Subscription::key(subscription))
            .limit(MOST_DELIVERIES);
        let found = self.scan(&page).await?;
        let mut found =
            found.iter().map(InboundDelivery::read).collect::<Result<Vec<_>, StoreError>>()?;
        found.sort_by_key(|delivery| std::cmp::Reverse(delivery.received_at));
        found.truncate(limit);
        Ok(found)
    }

    /// Forgets a dead letter with its content; that the same thing is not taken again is not forgotten with it.
    pub async fn drop_letter(&self, letter: &InboundDelivery) -> Result<bool, StoreError> {
        let InboundState::Dead { at, .. } = letter.state else { return Ok(false) };
        let key = InboundDelivery::letter_key(&letter.subscription, at, &letter.id);
        let gone = RecordChange::delete(Kind::InboundDeadLetter, key).expecting(Expected::Present);
        match self.commit(vec![gone], None).await {
            Err(StoreError::Moved { .. }) => Ok(false),
            done => done.map(|()| true),
        }
    }
}

impl TriggerIngest {
    pub async fn deliveries(
        &self,
        scope: &Scope,
        subscription: &str,
        limit: usize,
    ) -> Result<Vec<InboundDelivery>, TriggerError> {
        self.find(scope, subscription).await?;
        Ok(self.inner.triggers.deliveries(scope, subscription, limit).await?)
    }

    /// One dead letter with its content.
    pub async fn dead_letter(
        &self,
        scope: &Scope,
        subscription: &str,
        id: &str,
    ) -> Result<InboundDelivery, TriggerError> {
        self.find(scope, subscription).await?;
        let found = self.inner.triggers.dead_letter(scope, subscription, id).await?;
        found.ok_or(TriggerError::UnknownLetter)
    }

    pub async fn drop_letter(
        &self,
        scope: &Scope,
        subscription: &str,
        id: &str,
    ) -> Result<(), TriggerError> {
        let letter = self.dead_letter(scope, subscription, id).await?;
        let is_gone = self.inner.triggers.drop_letter(&letter).await?;
        is_gone.then_some(()).ok_or(TriggerError::UnknownLetter)
    }
}
