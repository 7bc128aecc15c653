//! Which hosts a database has: each says regularly that it is there, and what it holds.

use callboard_engine::{Clock as _, DrivingLoad, HostSeen, StoreError, SystemClock};
use callboard_protocol::{HostId, Timestamp};

use super::PostgresStore;
use super::rows::{name, time, unsigned, value};
use super::session::Session;
use super::text::stored;

/// Those that were not seen for a day are forgotten, whoever notices.
const BEAT: &str = "WITH forgotten AS (DELETE FROM hosts WHERE seen_at < $5::bigint - 86400000 AND id <> $1)
     INSERT INTO hosts (id, version, address, started_at, seen_at, runs, most_runs, bytes, most_bytes, latency_ms,
         is_listening)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
     ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, runs = excluded.runs, bytes = excluded.bytes,
         latency_ms = excluded.latency_ms, is_listening = excluded.is_listening";

/// Those that answer first; a person reads no more.
const LIST: &str = "SELECT id, version, address, started_at, seen_at, runs, most_runs, bytes, most_bytes, latency_ms,
         is_listening
     FROM hosts ORDER BY started_at, id LIMIT 1000";

impl PostgresStore {
    /// Says that a host is there. When it was seen, how soon the database answers and whether it hears others is found
    /// out here.
    pub async fn beat(&self, host: &HostSeen) -> Result<(), StoreError> {
        let session = Session::borrow(&self.inner.pool).await?;
        let began = SystemClock.counted();
        session.rows("SELECT 1", &[]).await?;
        let latency = signed(SystemClock.counted().since(began).as_millis());
        let DrivingLoad { runs, most_runs, bytes, most_bytes } = host.load;
        let amounts = [runs, most_runs, bytes, most_bytes].map(signed);
        session
            .execute(
                BEAT,
                &[
                    &stored(host.id.as_str()),
                    &host.version,
                    &host.address,
                    &host.started_at.as_millis(),
                    &self.inner.clock.now().as_millis(),
                    &amounts[0],
                    &amounts[1],
                    &amounts[2],
                    &amounts[3],
                    &latency,
                    &self.hints().is_listening(),
                ],
            )
            .await?;
        Ok(())
    }

    /// Says that a host is not there any more.
    pub async fn leave(&self, host: &HostId) -> Result<(), StoreError> {
        let sql = "DELETE FROM hosts WHERE id = $1";
        self.inner.session().await?.execute(sql, &[&stored(host.as_str())]).await?;
        Ok(())
    }

    pub(super) async fn list_hosts(&self) -> Result<Vec<HostSeen>, StoreError> {
        let now = self.inner.clock.now();
        let mut hosts = Vec::new();
        for row in self.inner.session().await?.rows(LIST, &[]).await? {
            let amount = |column| {
                Ok::<_, StoreError>(usize::try_from(unsigned(&row, column)?).unwrap_or(usize::MAX))
            };
            let seen_at: Timestamp = time(&row, 4)?;
            hosts.push(HostSeen {
                id: name(&row, 0)?.into(),
                version: value(&row, 1)?,
                address: value(&row, 2)?,
                started_at: time(&row, 3)?,
                seen_at,
                is_gone: now.since(seen_at) > HostSeen::GONE_AFTER,
                load: DrivingLoad {
                    runs: amount(5)?,
                    most_runs: amount(6)?,
                    bytes: amount(7)?,
                    most_bytes: amount(8)?,
                },
                latency_ms: unsigned(&row, 9)?,
                is_listening: value(&row, 10)?,
            });
        }
        Ok(hosts)
    }
}

fn signed(amount: impl TryInto<i64>) -> i64 {
    amount.try_into().unwrap_or(i64::MAX)
}
