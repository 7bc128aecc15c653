//! Counting a database that hosts share, as one of its moments.

use tokio_postgres::{Client, Error};

use super::connect::{Address, ConnectError};
use super::{PostgresStore, migrate};
use crate::status::{self, Status, TABLES, unsigned};

/// Other hosts write meanwhile; who counts a large table for long is ended.
const BEGIN: &str =
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = '60s'";

impl PostgresStore {
    /// Asks once, without waiting for a database that comes late.
    pub async fn status(address: &str) -> Result<Status, ConnectError> {
        let address = Address::parse(address)?;
        let client = address.connect_once().await?;
        let mut status = Status {
            database: address.shown(),
            schema: None,
            known_schema: migrate::newest(&migrate::runner()),
            bytes: 0,
            tables: Vec::new(),
            runs: Vec::new(),
            records: Vec::new(),
        };
        count(&client, &mut status).await.map_err(|error| ConnectError::of(&error))?;
        Ok(status)
    }
}

/// A newer schema may lack what is counted here; then only its number is said.
async fn count(client: &Client, status: &mut Status) -> Result<(), Error> {
    client.batch_execute(BEGIN).await?;
    status.schema = Some(migrate::schema(client).await?).filter(|schema| *schema > 0);
    let size = "SELECT pg_database_size(current_database())";
    status.bytes = unsigned(client.query_one(size, &[]).await?.try_get(0)?);
    if status.schema.is_none_or(|schema| schema > status.known_schema) {
        return Ok(());
    }
    for table in TABLES {
        let row = client.query_one(&status::count(table), &[]).await?;
        status.tables.push((table, unsigned(row.try_get(0)?)));
    }
    status.runs = grouped(client, status::RUNS).await?;
    status.records = grouped(client, status::RECORDS).await?;
    Ok(())
}

async fn grouped(client: &Client, sql: &str) -> Result<Vec<(String, u64)>, Error> {
    let rows = client.query(sql, &[]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, unsigned(row.try_get(1)?)))).collect()
}
