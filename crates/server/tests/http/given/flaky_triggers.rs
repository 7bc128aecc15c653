//! The trigger bridge's part of the store that fails.

use async_trait::async_trait;
use callboard_engine::{
    Arrival, DueArrivals, Kept, NewRun, Scope, Settled, SigningSecrets, StoreError, Subscription,
    Triggers,
};
use callboard_protocol::Timestamp;

use super::FlakyStore;

#[async_trait]
impl Triggers for FlakyStore {
    async fn add_subscription(
        &self,
        subscription: Subscription,
        secrets: SigningSecrets,
    ) -> Result<(), StoreError> {
        self.write()?;
        self.inner().add_subscription(subscription, secrets).await
    }
    async fn subscriptions(&self, scope: &Scope) -> Result<Vec<Subscription>, StoreError> {
        self.inner().subscriptions(scope).await
    }
    async fn subscription(
        &self,
        scope: &Scope,
        id: &str,
    ) -> Result<Option<Subscription>, StoreError> {
        self.inner().subscription(scope, id).await
    }
    async fn open_subscription(
        &self,
        id: &str,
    ) -> Result<Option<(Subscription, SigningSecrets)>, StoreError> {
        self.inner().open_subscription(id).await
    }
    async fn change_subscription(
        &self,
        subscription: Subscription,
        expected: u64,
        secrets: Option<SigningSecrets>,
        telling: Option<NewRun>,
    ) -> Result<(), StoreError> {
        self.write()?;
        self.inner().change_subscription(subscription, expected, secrets, telling).await
    }
    async fn keep_arrival(
        &self,
        arrival: Arrival,
        run: Option<NewRun>,
    ) -> Result<Kept, StoreError> {
        self.write()?;
        self.inner().keep_arrival(arrival, run).await
    }
    async fn remove_subscription(&self, scope: &Scope, id: &str) -> Result<bool, StoreError> {
        self.write()?;
        self.inner().remove_subscription(scope, id).await
    }
    async fn note_refused(&self, arrival: Arrival, most: usize) -> Result<(), StoreError> {
        self.write()?;
        self.inner().note_refused(arrival, most).await
    }
    async fn due_arrivals(&self, at: Timestamp, most: usize) -> Result<DueArrivals, StoreError> {
        self.inner().due_arrivals(at, most).await
    }
    async fn settle_arrival(&self, settled: Settled, expected: u64) -> Result<(), StoreError> {
        self.write()?;
        self.inner().settle_arrival(settled, expected).await
    }
    async fn arrival(
        &self,
        scope: &Scope,
        subscription: &str,
        id: &str,
    ) -> Result<Option<Arrival>, StoreError> {
        self.inner().arrival(scope, subscription, id).await
    }
    async fn dead_arrivals(
        &self,
        scope: &Scope,
        subscription: &str,
        since: Timestamp,
        after: Option<(Timestamp, String)>,
        limit: usize,
    ) -> Result<Vec<Arrival>, StoreError> {
        self.inner().dead_arrivals(scope, subscription, since, after, limit).await
    }
    async fn forget_arrivals(
        &self,
        delivered_before: Timestamp,
        dead_before: Timestamp,
    ) -> Result<(), StoreError> {
        self.inner().forget_arrivals(delivered_before, dead_before).await
    }
}
