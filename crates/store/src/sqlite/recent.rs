//! The newest events of active runs, as readers get them: following one needs no database read.
//!
//! Nobody sees less here than the database would show: a log is locked from the moment an append to it
//! was accepted until the outcome of the commit is known.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use callboard_core::{Birth, Born};
use callboard_engine::{Found, Page, Recorded, Row, Scope};
use callboard_protocol::{RunId, RunStatus};

/// Runs that are kept: more than those that a busy host drives at one time.
const RUNS: usize = 1024;

/// Bytes that are kept of one run, the newest. Its fold takes as much at most. Times `RUNS` that
/// bounds the memory at 32 MB; a log of some tens of plain events fits whole.
const BYTES: usize = 16 * 1024;

/// What an event takes besides its payload: its fields, with the short texts that they point to.
const PLAIN: usize = 256;

#[derive(Default)]
pub(super) struct Recent(Mutex<Shelf>);

#[derive(Default)]
struct Shelf {
    logs: HashMap<RunId, Arc<RwLock<Log>>>,
    /// In the order of their coming; the first leaves first.
    runs: VecDeque<RunId>,
}

/// A log between an accepted append and the end of its commit.
pub(super) type HeldLog = OwnedRwLockWriteGuard<Log>;

/// The end of one log.
pub(super) struct Log {
    run: RunId,
    scope: Scope,
    /// What its events are stamped with.
    stamped_version: u32,
    engine_version: u32,
    born: Born,
    status: RunStatus,
    version: u64,
    fold: Fold,
    events: VecDeque<Recorded>,
    bytes: usize,
}

/// The stored fold of a log.
enum Fold {
    /// None that has seen every event.
    Behind,
    Kept(String),
    /// In the database alone, because it is long.
    Stored,
}

impl Recent {
    /// Takes a run up that was just created. A fork begins with events that are elsewhere, so it is not kept.
    pub(super) fn begin(&self, birth: &Birth, status: RunStatus) {
        if birth.fork.is_some() {
            return;
        }
        let log = Log {
            run: birth.run_id.clone(),
            scope: Scope::of(birth),
            stamped_version: birth.stamped_version(),
            engine_version: birth.engine_version,
            born: birth.born(),
            status,
            version: 0,
            fold: Fold::Behind,
            events: VecDeque::new(),
            bytes: 0,
        };
        let mut shelf = self.shelf();
        if shelf.runs.len() >= RUNS
            && let Some(oldest) = shelf.runs.pop_front()
        {
            shelf.logs.remove(&oldest);
        }
        shelf.runs.push_back(birth.run_id.clone());
        shelf.logs.insert(birth.run_id.clone(), Arc::new(RwLock::new(log)));
    }

    /// Lets go of a run that is not there any more.
    pub(super) fn forget(&self, run: &RunId) {
        let mut shelf = self.shelf();
        if shelf.logs.remove(run).is_some() {
            shelf.runs.retain(|kept| kept != run);
        }
    }

    /// Locks a log that is being appended to, if it is kept. One that is locked already, by a reader or by an
    /// earlier append of the same commit, is given up: from here on the database answers.
    pub(super) fn hold(&self, run: &RunId) -> Option<HeldLog> {
        let mut shelf = self.shelf();
        let log = Arc::clone(shelf.logs.get(run)?);
        let held = log.try_write_owned();
        if held.is_err() {
            shelf.logs.remove(run);
        }
        held.ok()
    }

    /// Reads as the database would; none if only the database can answer.
    pub(super) async fn page(
        &self,
        scope: &Scope,
        run: &RunId,
        from: u64,
        limit: usize,
    ) -> Option<Page> {
        self.visible(scope, run).await?.page(from, limit)
    }

    /// The same of the run as it stands.
    pub(super) async fn find(&self, scope: &Scope, run: &RunId) -> Option<Found> {
        self.visible(scope, run).await?.found()
    }

    async fn visible(&self, scope: &Scope, run: &RunId) -> Option<OwnedRwLockReadGuard<Log>> {
        let log = self.log(run)?;
        let read = Arc::clone(&log).read_owned().await;
        // It may have been given up while this waited for a commit.
        let is_kept = self.log(run).is_some_and(|kept| Arc::ptr_eq(&kept, &log));
        // A run that the caller may not see takes as long as one that does not exist.
        (is_kept && scope.includes(&read.scope)).then_some(read)
    }

    fn log(&self, run: &RunId) -> Option<Arc<RwLock<Log>>> {
        self.shelf().logs.get(run).cloned()
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        // A panic while the lock was held costs at most a run that is read from the database.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    /// Adds what has been committed.
    pub(super) fn extend(&mut self, rows: Vec<Row>, status: RunStatus, fold: Option<String>) {
        match fold {
            Some(text) if text.len() > BYTES => self.fold = Fold::Stored,
            Some(text) => self.fold = Fold::Kept(text),
            None if !rows.is_empty() => self.fold = Fold::Behind,
            None => {}
        }
        for row in rows {
            self.bytes += row.payload.len() + PLAIN;
            self.events.push_back(Recorded {
                run: self.run.clone(),
                sequence: self.version,
                at: row.at,
                kind: row.kind,
                node: row.node,
                payload: row.payload,
                engine_version: self.stamped_version,
                cause: row.cause,
            });
            self.version += 1;
        }
        while self.bytes > BYTES
            && let Some(oldest) = self.events.pop_front()
        {
            self.bytes -= oldest.payload.len() + PLAIN;
        }
        self.status = status;
    }

    fn found(&self) -> Option<Found> {
        let snapshot = match &self.fold {
            Fold::Behind => None,
            Fold::Kept(text) => Some(text.clone()),
            Fold::Stored => return None,
        };
        Some(Found {
            status: self.status,
            version: self.version,
            engine_version: self.engine_version,
            born: self.born.clone(),
            snapshot,
        })
    }

    fn page(&self, from: u64, limit: usize) -> Option<Page> {
        let first = self.version - self.events.len() as u64;
        let skipped = usize::try_from(from.checked_sub(first)?).ok()?;
        let events = self.events.iter().skip(skipped).take(limit).cloned().collect();
        Some(Page { status: self.status, version: self.version, events })
    }
}

#[cfg(test)]
mod tests {
    use callboard_protocol::Timestamp;

    use super::*;

    fn birth(id: &str) -> anyhow::Result<Birth> {
        Ok(serde_json::from_value(serde_json::json!({
            "runId": id, "workflowId": "greet", "definition": "d", "owner": { "tenant": "acme" },
            "createdAt": Timestamp::default(), "engineVersion": 1,
            "limits": { "nodeExecutions": 1, "durationMs": 1 },
        }))?)
    }

    fn recent(id: &str) -> anyhow::Result<(Recent, RunId, Scope)> {
        let (recent, birth) = (Recent::default(), birth(id)?);
        recent.begin(&birth, RunStatus::Pending);
        Ok((recent, birth.run_id.clone(), Scope::of(&birth)))
    }

    fn row(payload: &str) -> Row {
        let at = Timestamp::default();
        Row {
            at,
            kind: "noted".into(),
            node: None,
            payload: payload.into(),
            private: None,
            cause: None,
        }
    }

    #[tokio::test]
    async fn a_reader_waits_for_the_commit_that_it_came_into() -> anyhow::Result<()> {
        let (recent, run, scope) = recent("r1")?;
        let mut held = recent.hold(&run).ok_or_else(|| anyhow::anyhow!("not held"))?;
        let read = recent.page(&scope, &run, 0, 10);
        tokio::pin!(read);
        assert!(futures_util::poll!(&mut read).is_pending());
        held.extend(vec![row("1")], RunStatus::Completed, None);
        drop(held);
        let page = read.await.ok_or_else(|| anyhow::anyhow!("not kept"))?;
        assert_eq!((page.status, page.version, page.events.len()), (RunStatus::Completed, 1, 1));
        Ok(())
    }

    #[tokio::test]
    async fn a_log_that_is_appended_to_twice_in_one_commit_is_left_to_the_database()
    -> anyhow::Result<()> {
        let (recent, run, scope) = recent("r1")?;
        let first = recent.hold(&run);
        let read = recent.page(&scope, &run, 0, 10);
        tokio::pin!(read);
        assert!(futures_util::poll!(&mut read).is_pending());
        assert!(first.is_some() && recent.hold(&run).is_none());
        drop(first);
        assert!(read.await.is_none(), "whoever waited must not see the first append alone");
        assert!(recent.page(&scope, &run, 0, 10).await.is_none());
        Ok(())
    }

    #[tokio::test]
    async fn of_a_long_log_the_end_is_kept() -> anyhow::Result<()> {
        let (recent, run, scope) = recent("r1")?;
        let rows = (0..3).map(|_| row(&"x".repeat(BYTES / 2 - PLAIN))).collect();
        recent.hold(&run).ok_or_else(|| anyhow::anyhow!("not held"))?.extend(
            rows,
            RunStatus::Running,
            None,
        );
        assert!(recent.page(&scope, &run, 0, 10).await.is_none());
        let page = recent.page(&scope, &run, 1, 10).await;
        let sequences = |page: Page| page.events.iter().map(|e| e.sequence).collect::<Vec<_>>();
        assert_eq!(page.map(sequences), Some(vec![1, 2]));
        let beyond = recent.page(&scope, &run, 9, 10).await;
        assert_eq!(beyond.map(|page| (page.version, page.events.len())), Some((3, 0)));
        Ok(())
    }

    #[tokio::test]
    async fn small_events_take_room_too() -> anyhow::Result<()> {
        let (recent, run, scope) = recent("r1")?;
        let rows = (0..1_000).map(|_| row("{}")).collect();
        recent.hold(&run).ok_or_else(|| anyhow::anyhow!("not held"))?.extend(
            rows,
            RunStatus::Running,
            None,
        );
        assert!(recent.page(&scope, &run, 900, 10).await.is_none());
        assert!(recent.page(&scope, &run, 950, 10).await.is_some());
        Ok(())
    }

    #[tokio::test]
    async fn a_run_is_found_with_the_fold_of_its_last_event() -> anyhow::Result<()> {
        let (recent, run, scope) = recent("r1")?;
        let found = async || recent.find(&scope, &run).await.map(|it| (it.version, it.snapshot));
        let append = |fold: Option<String>| -> anyhow::Result<()> {
            let mut held = recent.hold(&run).ok_or_else(|| anyhow::anyhow!("not held"))?;
            held.extend(vec![row("1")], RunStatus::Running, fold);
            Ok(())
        };
        assert_eq!(found().await, Some((0, None)));
        append(Some("{}".into()))?;
        assert_eq!(found().await, Some((1, Some("{}".into()))));
        append(None)?;
        assert_eq!(found().await, Some((2, None)), "the fold has not seen the second event");
        append(Some("x".repeat(BYTES + 1)))?;
        assert_eq!(found().await, None, "a long one is read where it is stored");
        let other = Scope { tenant: "other".into(), ..scope.clone() };
        assert!(recent.find(&other, &run).await.is_none());
        Ok(())
    }

    #[tokio::test]
    async fn the_oldest_run_makes_room() -> anyhow::Result<()> {
        let (recent, run, scope) = recent("r0")?;
        for number in 1..=RUNS {
            assert!(recent.page(&scope, &run, 0, 1).await.is_some());
            recent.begin(&birth(&format!("r{number}"))?, RunStatus::Pending);
        }
        assert!(recent.page(&scope, &run, 0, 1).await.is_none());
        Ok(())
    }
}
