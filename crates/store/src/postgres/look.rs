//! A look at a database that changes nothing and needs no key.

use callboard_engine::{Clock as _, SystemClock};

use super::connect::{Address, ConnectError};
use super::{PostgresStore, migrate};

/// What is to be known of a database without being one of its hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// Host, port and name, without user and password.
    pub address: String,
    /// The server's version.
    pub server: String,
    /// None before the first host has started.
    pub schema: Option<i32>,
    /// The schema that this build brings a database to.
    pub known_schema: i32,
    /// How far its clock is ahead of this machine's.
    pub ahead_ms: i64,
}

impl PostgresStore {
    /// Asks once, without waiting for a database that comes late.
    pub async fn look(address: &str) -> Result<Look, ConnectError> {
        let address = Address::parse(address)?;
        let refused = |error: tokio_postgres::Error| ConnectError::of(&error);
        let client = address.connect_once().await?;
        let sql = "SELECT current_setting('server_version'),
             (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        // Behind a pooler a connection is kept for as long as a transaction.
        client.batch_execute("BEGIN READ ONLY").await.map_err(refused)?;
        let before = SystemClock.wall().as_millis();
        let row = client.query_one(sql, &[]).await.map_err(refused)?;
        let here = before + (SystemClock.wall().as_millis() - before) / 2;
        let there: i64 = row.try_get(1).map_err(refused)?;
        let schema = migrate::schema(&client).await.map_err(refused)?;
        Ok(Look {
            address: address.shown(),
            server: row.try_get(0).map_err(refused)?,
            schema: Some(schema).filter(|schema| *schema > 0),
            known_schema: migrate::newest(&migrate::runner()),
            ahead_ms: there - here,
        })
    }
}
