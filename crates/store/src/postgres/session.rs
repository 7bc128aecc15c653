//! One borrowed connection, and how long it is waited for.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deadpool_postgres::{Object, Pool};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{NoTls, Row};

use callboard_engine::StoreError;

use super::fault::Fault;

/// A statement takes longer only where the database is in trouble or somebody holds a lock.
const STATEMENT: Duration = Duration::from_secs(5);

/// No transaction of ours waits longer for a lock, or idles longer.
const BEGIN: &str = "BEGIN; SET LOCAL lock_timeout = '3s'; \
     SET LOCAL idle_in_transaction_session_timeout = '5s'";

pub(super) type Params<'p> = &'p [&'p (dyn ToSql + Sync)];

/// How connections run statements.
#[derive(Debug, Clone)]
pub(super) enum Statements {
    /// Each is prepared once for each connection, under a name.
    Named,
    /// Behind a pooler each transaction is on another connection: no name outlives it. The types of a statement's
    /// values are asked for once.
    Unnamed(Arc<KnownTypes>),
}

/// The types of values by statements.
#[derive(Debug, Default)]
pub(super) struct KnownTypes(Mutex<HashMap<String, Arc<[Type]>>>);

/// Shapes of statements; there are some hundred.
const MOST_SHAPES: usize = 4096;

impl KnownTypes {
    fn find(&self, sql: &str) -> Option<Arc<[Type]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(sql).cloned()
    }

    fn keep(&self, sql: &str, types: &[Type]) -> Arc<[Type]> {
        let types: Arc<[Type]> = types.into();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_SHAPES {
            known.clear();
        }
        known.insert(sql.to_owned(), Arc::clone(&types));
        types
    }
}

/// Connections for one purpose.
#[derive(Clone)]
pub(super) struct Connections {
    pub(super) pool: Pool,
    pub(super) statements: Statements,
}

impl Connections {
    /// Those that are borrowed end when they are given back.
    pub(super) fn close(&self) {
        self.pool.close();
    }
}

/// A connection. One whose statement or transaction was left halfway is closed, not given to the next.
pub(super) struct Session {
    client: Option<Object>,
    statements: Statements,
    is_halfway: AtomicBool,
    has_begun: AtomicBool,
}

type Answer<T> = Result<T, tokio_postgres::Error>;

impl Session {
    pub(super) async fn borrow(connections: &Connections) -> Result<Self, StoreError> {
        match connections.pool.get().await {
            Ok(client) => Ok(Self {
                client: Some(client),
                statements: connections.statements.clone(),
                is_halfway: AtomicBool::new(false),
                has_begun: AtomicBool::new(false),
            }),
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
        let work = async {
            match &self.statements {
                Statements::Named => client.query(&client.prepare_cached(sql).await?, params).await,
                Statements::Unnamed(known) => {
                    let types = self.types(client, known, sql).await?;
                    client.query_typed(sql, &typed(params, &types)).await
                }
            }
        };
        self.limited(work).await
    }

    /// In one transaction: a name holds as long as that.
    async fn types(&self, client: &Object, known: &KnownTypes, sql: &str) -> Answer<Arc<[Type]>> {
        if let Some(types) = known.find(sql) {
            return Ok(types);
        }
        let is_alone = !self.has_begun.load(Ordering::Acquire);
        if is_alone {
            client.batch_execute("BEGIN").await?;
        }
        let types = match client.prepare(sql).await {
            // Dropping the statement gives its name back, before the transaction ends.
            Ok(statement) => Ok(known.keep(sql, statement.params())),
            Err(error) => Err(error),
        };
        if is_alone {
            client.batch_execute("ROLLBACK").await?;
        }
        types
    }

    /// The first row, where there is one.
    pub(super) async fn row(&self, sql: &str, params: Params<'_>) -> Result<Option<Row>, Fault> {
        Ok(self.rows(sql, params).await?.into_iter().next())
    }

    /// Answers how many rows were changed.
    pub(super) async fn execute(&self, sql: &str, params: Params<'_>) -> Result<u64, Fault> {
        let client = self.client()?;
        let work = async {
            match &self.statements {
                Statements::Named => {
                    client.execute(&client.prepare_cached(sql).await?, params).await
                }
                Statements::Unnamed(known) => {
                    let types = self.types(client, known, sql).await?;
                    client.execute_typed(sql, &typed(params, &types)).await
                }
            }
        };
        self.limited(work).await
    }

    /// Statements without values, in one transaction where they open none.
    pub(super) async fn batch(&self, sql: &str) -> Result<(), Fault> {
        self.limited(self.client()?.batch_execute(sql)).await
    }

    /// Begins a transaction. Dropping the session before [`Self::commit`] ends it and the connection.
    pub(super) async fn begin(&self) -> Result<(), Fault> {
        self.batch(BEGIN).await?;
        self.has_begun.store(true, Ordering::Release);
        self.is_halfway.store(true, Ordering::Release);
        Ok(())
    }

    pub(super) async fn commit(&self) -> Result<(), Fault> {
        self.batch("COMMIT").await?;
        self.has_begun.store(false, Ordering::Release);
        self.is_halfway.store(false, Ordering::Release);
        Ok(())
    }

    pub(super) async fn roll_back(&self) -> Result<(), Fault> {
        self.batch("ROLLBACK").await?;
        self.has_begun.store(false, Ordering::Release);
        self.is_halfway.store(false, Ordering::Release);
        Ok(())
    }
}

/// Values with the types that their statement wants.
fn typed<'p>(params: Params<'p>, types: &[Type]) -> Vec<(&'p (dyn ToSql + Sync), Type)> {
    params.iter().copied().zip(types.iter().cloned()).collect()
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
