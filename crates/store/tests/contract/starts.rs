//! What a start finds: an empty database, one that others use, one that it must not touch, or none.

use callboard_engine::{Batch, Store as _};
use callboard_store::{ConnectError, PostgresStore, SealKey};
use futures_util::future::join_all;

use crate::given::{acme, new_run};
use crate::server::{self, Server};
use crate::{SEAL_KEY, open_postgres, postgres_database};

/// An empty database; none where PostgreSQL is not installed.
async fn empty() -> anyhow::Result<Option<(&'static Server, String)>> {
    let Some(server) = server::server()? else { return Ok(None) };
    Ok(Some((server, server.database("template0").await?)))
}

/// C-40.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn raced_starts_migrate_once() -> anyhow::Result<()> {
    let Some((_, address)) = empty().await? else { return Ok(()) };
    let started = join_all((0..6).map(|_| open_postgres(&address))).await;
    let stores = started.into_iter().collect::<Result<Vec<_>, _>>()?;
    stores[0].commit(Batch::of_run(new_run("r1"))).await?;
    assert!(stores[5].find(&acme(), &"r1".into()).await?.is_some());
    let (client, _connection) = server::connect(&address).await?;
    let history = "SELECT count(*), max(version)::bigint FROM refinery_schema_history";
    let history = client.query_one(history, &[]).await?;
    assert_eq!(history.get::<_, i64>(0), history.get::<_, i64>(1), "each version once");
    Ok(())
}

/// C-41.
#[tokio::test]
async fn a_newer_schema_is_refused() -> anyhow::Result<()> {
    let Some(address) = postgres_database().await? else { return Ok(()) };
    let (client, _connection) = server::connect(&address).await?;
    let newer = "INSERT INTO refinery_schema_history (version, name, applied_on, checksum) VALUES (999, 'later', '', '')";
    client.batch_execute(newer).await?;
    let refused = PostgresStore::connect(&address, SealKey::of_digits(SEAL_KEY)).await;
    assert!(matches!(refused, Err(ConnectError::Newer { found: 999, .. })), "{refused:?}");
    Ok(())
}

/// C-44, C-27: another key is refused before it seals anything, and the database holds none.
#[tokio::test]
async fn another_seal_key_is_refused() -> anyhow::Result<()> {
    let Some(address) = postgres_database().await? else { return Ok(()) };
    let other = SealKey::of_digits(SEAL_KEY.replace('0', "f"));
    let refused = PostgresStore::connect(&address, other).await;
    assert!(matches!(refused, Err(ConnectError::WrongKey)), "{refused:?}");
    let folder = tempfile::tempdir()?;
    let refused = PostgresStore::connect(&address, SealKey::in_folder(folder.path())).await;
    assert!(matches!(refused, Err(ConnectError::KeyMissing)), "{refused:?}");
    assert!(!folder.path().join("host.key").exists(), "nothing is made that nobody can use");
    let bad = PostgresStore::connect(&address, SealKey::of_digits("abc")).await;
    assert!(matches!(bad, Err(ConnectError::Key { .. })), "{bad:?}");
    Ok(())
}

#[tokio::test]
async fn the_first_start_makes_a_key_that_others_need() -> anyhow::Result<()> {
    let Some((_, address)) = empty().await? else { return Ok(()) };
    let folder = tempfile::tempdir()?;
    let first = PostgresStore::connect(&address, SealKey::in_folder(folder.path())).await?;
    let digits = std::fs::read_to_string(folder.path().join("host.key"))?;
    let second = PostgresStore::connect(&address, SealKey::of_digits(digits.trim_end())).await?;
    assert_eq!(first.name(), second.name());
    assert_eq!(first.derive("links"), second.derive("links"));
    Ok(())
}

/// C-30, what is known at once; no message holds a password.
#[tokio::test]
async fn what_cannot_become_better_is_named_at_once() -> anyhow::Result<()> {
    let Some(server) = server::server()? else { return Ok(()) };
    let good = server.address("nowhere");
    let wrong = server.address("postgres").replace("not-a-secret", "sesame-77");
    for (address, says) in [
        (good.as_str(), "\"nowhere\" does not exist"),
        (wrong.as_str(), "password authentication failed"),
        ("mysql://u:sesame-77@h/db", "postgres://"),
        ("postgres://u:sesame-77@h/db?sslmode=prefer", "sslmode prefer"),
        ("postgres://u:sesame-77@h:port/db", "port"),
    ] {
        let refused = PostgresStore::connect(address, SealKey::of_digits(SEAL_KEY)).await;
        let Err(error) = refused else { anyhow::bail!("{address} was connected to") };
        let said = format!("{error} {error:?} {}", error.hint());
        assert!(said.contains(says), "{said}");
        assert!(!said.contains("sesame") && !said.contains("not-a-secret"), "{said}");
    }
    Ok(())
}
