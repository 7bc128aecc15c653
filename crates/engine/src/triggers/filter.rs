//! Filters: which deliveries start a run. What is left out is counted and noted, without its content.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use callboard_core::holds_of;
use callboard_protocol::{Object, Timestamp, TriggerEvent};

use super::ingest::TriggerIngest;
use super::preset::Terms;
use super::records::Triggers;
use super::subscription::Subscription;
use crate::records::{Expected, Kind, Record, RecordChange};
use crate::store::{Scope, StoreError};

/// Those left out last that are listed: enough to see whether a filter is right.
const MOST_FILTERED: usize = 100;
/// How often noting one is decided anew because others were faster.
const MOST_TRIES: usize = 8;
/// What may be called without naming the webhook that it is a part of.
const OF_WEBHOOK: [&str; 2] = ["body", "headers"];

/// Whether a delivery is wanted, or why that cannot be said, in words that hold nothing of the content.
pub(super) fn wants(terms: &Terms, event: &TriggerEvent) -> Result<bool, String> {
    let Some(filter) = &terms.filter else { return Ok(true) };
    let Ok(Value::Object(event)) = serde_json::to_value(event) else { return Ok(true) };
    let short = OF_WEBHOOK.into_iter().filter_map(|name| Some((name, of_webhook(&event, name)?)));
    let names = event.iter().map(|(name, value)| (name.as_str(), value)).chain(short);
    holds_of(filter, names).map_err(|failure| {
        let code = failure.code;
        format!("the filter cannot be evaluated of this delivery ({code})")
    })
}

/// `body` and `headers` are those of the webhook.
pub(super) fn of_webhook<'a>(event: &'a Object, name: &str) -> Option<&'a Value> {
    let webhook = event.get("webhook").filter(|_| OF_WEBHOOK.contains(&name))?;
    webhook.get(name)
}

/// What a filter has left out: how many, and the last of them, oldest first.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FilteredPosts {
    pub count: u64,
    pub last: Vec<(String, Timestamp)>,
}

impl Triggers {
    /// Counts a delivery that the filter left out. One that is lost among very many at once is no loss.
    pub async fn note_filtered(
        &self,
        subscription: &Subscription,
        id: String,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let key = Subscription::key(&subscription.id);
        for _ in 0..MOST_TRIES {
            let standing = self.get(Kind::FilteredPosts, &key).await?;
            let expected = standing
                .as_ref()
                .map_or(Expected::Absent, |record| Expected::Version(record.version));
            let posts = standing.as_ref().map(Record::read).transpose()?;
            let mut posts: FilteredPosts = posts.unwrap_or_default();
            if posts.last.iter().any(|(known, _)| *known == id) {
                return Ok(());
            }
            posts.count += 1;
            posts.last.push((id.clone(), at));
            posts.last.drain(..posts.last.len().saturating_sub(MOST_FILTERED));
            let place = subscription.place.clone();
            let put = RecordChange::put(Kind::FilteredPosts, key.clone(), place, &posts)?;
            let is_there = RecordChange::check(Kind::Subscription, key.clone(), Expected::Present);
            match self.commit(vec![is_there, put.expecting(expected)], None).await {
                Err(StoreError::Moved { .. }) => {}
                done => return done,
            }
        }
        Ok(())
    }

    /// What the filter of a subscription has left out.
    pub async fn filtered(&self, scope: &Scope, id: &str) -> Result<FilteredPosts, StoreError> {
        let found = self.get(Kind::FilteredPosts, &Subscription::key(id)).await?;
        let found = found.filter(|record| scope.includes(&record.place));
        Ok(found.as_ref().map(Record::read).transpose()?.unwrap_or_default())
    }
}

impl TriggerIngest {
    pub(super) async fn note_filtered(
        &self,
        subscription: &Subscription,
        id: String,
    ) -> Result<(), StoreError> {
        metrics::counter!("callboard_trigger_filtered_total").increment(1);
        self.inner.triggers.note_filtered(subscription, id, self.now()).await
    }

    /// What the filter of a subscription has left out.
    pub async fn filtered(&self, scope: &Scope, id: &str) -> Result<FilteredPosts, StoreError> {
        self.inner.triggers.filtered(scope, id).await
    }
}
