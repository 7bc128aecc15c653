//! One borrowed connection, and how long it is waited for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::{Object, Pool};
use tokio_postgres::types::ToSql;
use tokio_postgres::{NoTls, Row};

use callboard_engine::StoreError;

use super::fault::Fault;

/// A statement takes longer only where the database is in trouble or somebody holds a lock.
const STATEMENT: Duration = Duration::from_secs(5);

/// No transaction of ours waits longer for a lock, or idles longer.
const BEGIN: &str = "BEGIN; SET LOCAL lock_timeout = '3s'; \
     SET LOCAL idle_in_transaction_session_timeout = '5s'";

pub(super) type Params<'p> = &'p [&'p (dyn ToSql + Sync)];

/// A connection. One whose statement or transaction was left halfway is closed, not given to the next.
pub(super) struct Session {
    client: Option<Object>,
    is_halfway: AtomicBool,
}

impl Session {
    pub(super) async fn borrow(pool: &Pool) -> Result<Self, StoreError> {
        match pool.get().await {
            Ok(client) => Ok(Self { client: Some(client), is_halfway: AtomicBool::new(false) }),
            Err(deadpool_postgres::PoolError::Backend(error)) => Err(Fault::Sql(error).into()),
            Err(error) => Err(StoreError::Unavailable(error.to_string())),
        }
    }

    fn client(&self) -> Result<&Object, StoreError> {
        self.client.as_ref().ok_or_else(|| StoreError::Unavailable("no connection".to_owned()))
    }

    /// Ends what takes too long. Whoever is dropped while it waits leaves its statement halfway, too.
    async fn limited<T>(
        &self,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Fault> {
        let was_halfway = self.is_halfway.swap(true, Ordering::AcqRel);
        let done = tokio::time::timeout(STATEMENT, work).await.map_err(|_| {
            StoreError::Unavailable("the database has not answered in time".to_owned())
        })?;
        self.is_halfway.store(was_halfway, Ordering::Release);
        Ok(done?)
    }

    pub(super) async fn rows(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Fault> {
        let client = self.client()?;
        let work = async { client.query(&client.prepare_cached(sql).await?, params).await };
        self.limited(work).await
    }

    /// The first row, where there is one.
    pub(super) async fn row(&self, sql: &str, params: Params<'_>) -> Result<Option<Row>, Fault> {
        Ok(self.rows(sql, params).await?.into_iter().next())
    }

    /// Answers how many rows were changed.
    pub(super) async fn execute(&self, sql: &str, params: Params<'_>) -> Result<u64, Fault> {
        let client = self.client()?;
        let work = async { client.execute(&client.prepare_cached(sql).await?, params).await };
        self.limited(work).await
    }

    /// Statements without values, in one transaction where they open none.
    pub(super) async fn batch(&self, sql: &str) -> Result<(), Fault> {
        self.limited(self.client()?.batch_execute(sql)).await
    }

    /// Begins a transaction. Dropping the session before [`Self::commit`] ends it and the connection.
    pub(super) async fn begin(&self) -> Result<(), Fault> {
        self.batch(BEGIN).await?;
        self.is_halfway.store(true, Ordering::Release);
        Ok(())
    }

    pub(super) async fn commit(&self) -> Result<(), Fault> {
        self.batch("COMMIT").await?;
        self.is_halfway.store(false, Ordering::Release);
        Ok(())
    }

    pub(super) async fn roll_back(&self) -> Result<(), Fault> {
        self.batch("ROLLBACK").await?;
        self.is_halfway.store(false, Ordering::Release);
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let halfway = if *self.is_halfway.get_mut() { self.client.take() } else { None };
        if let Some(client) = halfway {
            let client = Object::take(client);
            let cancel = client.cancel_token();
            drop(client);
            // Without this the server works on for nobody. A server with TLS is not asked: it notices by itself.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move { cancel.cancel_query(NoTls).await });
            }
        }
    }
}
