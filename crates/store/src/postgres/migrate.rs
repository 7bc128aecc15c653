//! The schema's versions: brought to ours by one host at a time.

use refinery::Runner;
use tokio_postgres::Client;

use super::connect::ConnectError;
use super::latch;

mod embedded {
    refinery::embed_migrations!("migrations-postgres");
}

/// Our migrations, applied together or not at all.
pub(super) fn runner() -> Runner {
    embedded::migrations::runner().set_grouped(true)
}

pub(super) fn newest(runner: &Runner) -> i32 {
    runner.get_migrations().iter().map(refinery::Migration::version).max().unwrap_or(0)
}

/// Keeps other hosts from migrating until this connection's transaction ends. Taken before anything is looked at.
pub(super) async fn hold(guard: &Client) -> Result<(), tokio_postgres::Error> {
    guard.batch_execute("BEGIN").await?;
    let schema = guard.query_one("SELECT current_schema()::text", &[]).await?;
    let schema: Option<String> = schema.try_get(0)?;
    let number = latch::number(&["migration", &schema.unwrap_or_default()]);
    guard.query("SELECT pg_advisory_xact_lock($1)", &[&number]).await?;
    Ok(())
}

/// The schema that a database has; zero before its first migration.
pub(super) async fn schema(client: &Client) -> Result<i32, tokio_postgres::Error> {
    let history = "SELECT to_regclass('refinery_schema_history') IS NOT NULL";
    let is_there: bool = client.query_one(history, &[]).await?.try_get(0)?;
    if !is_there {
        return Ok(0);
    }
    let sql = "SELECT coalesce(max(version), 0) FROM refinery_schema_history";
    client.query_one(sql, &[]).await?.try_get(0)
}

/// Under the guard. A database that is at our schema is only looked at: whoever serves needs no right to change it.
pub(super) async fn run(
    found: i32,
    client: &mut Client,
    runner: &Runner,
) -> Result<(), ConnectError> {
    let known = newest(runner);
    if found > known {
        return Err(ConnectError::Newer { found, known });
    }
    if found < known {
        let failed = |error: refinery::Error| ConnectError::Migration {
            to: known,
            // Its kind alone says "error applying migration", without the reason.
            why: std::error::Error::source(&error).map_or_else(|| error.to_string(), reason),
        };
        runner.run_async(client).await.map_err(failed)?;
        tracing::info!(schema = known, "database migrated");
    }
    Ok(())
}

fn reason(error: &(dyn std::error::Error + 'static)) -> String {
    let of_database = error.downcast_ref::<tokio_postgres::Error>();
    let of_database = of_database.and_then(tokio_postgres::Error::as_db_error);
    of_database.map_or_else(|| error.to_string(), |error| error.message().to_owned())
}
