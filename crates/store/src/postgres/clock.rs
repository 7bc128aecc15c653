//! The database's clock, which all hosts of a database share: leases, timers and schedules of one host mean the same on
//! another, however wrong a machine's own clock is.

use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;

use callboard_engine::{Clock, SystemClock};
use callboard_protocol::Timestamp;

use super::fault::Fault;
use super::rows::value;
use super::session::Session;

/// The quickest of these answers is the truest.
const SAMPLES: usize = 5;

/// Counts by itself between two looks at the database, and goes on without it. It never goes back.
#[derive(Debug)]
pub(super) struct DatabaseClock {
    /// How far the database is ahead of the count of this process, in milliseconds.
    lead: AtomicI64,
    /// The latest time that was answered.
    latest: AtomicI64,
}

impl DatabaseClock {
    pub(super) async fn read(session: &Session) -> Result<Self, Fault> {
        let lead = AtomicI64::new(sample(session).await?);
        Ok(Self { lead, latest: AtomicI64::new(i64::MIN) })
    }

    /// Follows the database where it and this process have drifted apart.
    pub(super) async fn adjust(&self, session: &Session) -> Result<(), Fault> {
        self.lead.store(sample(session).await?, Ordering::Relaxed);
        Ok(())
    }

    fn at(&self, counted: Timestamp) -> Timestamp {
        let at = counted.as_millis().saturating_add(self.lead.load(Ordering::Relaxed));
        Timestamp::from_millis(self.latest.fetch_max(at, Ordering::Relaxed).max(at))
    }
}

async fn sample(session: &Session) -> Result<i64, Fault> {
    let sql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let mut best: Option<(i64, i64)> = None;
    for _ in 0..SAMPLES {
        let before = SystemClock.counted().as_millis();
        let row = session.row(sql, &[]).await?;
        let after = SystemClock.counted().as_millis();
        let Some(row) = row else { continue };
        let (took, lead) = (after - before, value::<i64>(&row, 0)? - (before + after) / 2);
        if best.is_none_or(|(least, _)| took < least) {
            best = Some((took, lead));
        }
    }
    let (_, lead) = best.ok_or_else(|| Fault::unreadable("the clock", "no answer"))?;
    Ok(lead)
}

#[async_trait]
impl Clock for DatabaseClock {
    fn now(&self) -> Timestamp {
        self.at(SystemClock.counted())
    }

    async fn sleep_until(&self, at: Timestamp) {
        tokio::time::sleep(at.since(self.now())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_follows_the_database_and_never_goes_back() {
        let clock =
            DatabaseClock { lead: AtomicI64::new(75_000), latest: AtomicI64::new(i64::MIN) };
        let at = |counted| clock.at(Timestamp::from_millis(counted)).as_millis();
        assert_eq!(at(1_000), 76_000);
        clock.lead.store(74_000, Ordering::Relaxed);
        assert_eq!(at(1_500), 76_000, "waits for the database");
        assert_eq!(at(2_500), 76_500);
    }
}
