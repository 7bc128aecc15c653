//! What hosts do, seen from inside the database that they share, and what somebody else may do there.

use std::time::Duration;

use anyhow::Result;
use tokio_postgres::Client;

use crate::server::connect;

/// Connections of hosts to the database of this client.
pub(crate) async fn connections(client: &Client) -> Result<i64> {
    let sql = "SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name = 'callboard'";
    Ok(client.query_one(sql, &[]).await?.try_get(0)?)
}

/// Transactions of hosts that are open, with nothing going on in them, for longer than this.
pub(crate) async fn idle_transactions(address: &str, longer_than: Duration) -> Result<i64> {
    let (client, _connection) = connect(address).await?;
    let sql = "SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name = 'callboard'
             AND state LIKE 'idle in transaction%' AND state_change < now() - make_interval(secs => $1)";
    Ok(client.query_one(sql, &[&longer_than.as_secs_f64()]).await?.try_get(0)?)
}

/// Locks a table against everybody until the answer is dropped.
pub(crate) async fn lock(address: &str, table: &str) -> Result<Client> {
    let (client, _connection) = connect(address).await?;
    client.batch_execute(&format!("BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")).await?;
    Ok(client)
}

/// Makes the database look as if a later version had migrated it.
pub(crate) async fn pretend_schema(address: &str, version: i32) -> Result<()> {
    let (client, _connection) = connect(address).await?;
    let sql = "INSERT INTO refinery_schema_history (version, name, applied_on, checksum)
         SELECT $1, 'later', applied_on, checksum FROM refinery_schema_history LIMIT 1";
    client.execute(sql, &[&version]).await?;
    Ok(())
}

/// From now on a commit is acknowledged when the replica has it, too. Waits until the replica follows.
pub(crate) async fn replicate_synchronously(address: &str) -> Result<()> {
    let (client, _connection) = connect(address).await?;
    client.batch_execute("ALTER SYSTEM SET synchronous_standby_names = '*'").await?;
    client.batch_execute("SELECT pg_reload_conf()").await?;
    let sql = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
    for _ in 0..600 {
        if client.query_one(sql, &[]).await?.try_get::<_, i64>(0)? > 0 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    anyhow::bail!("no replica follows")
}
