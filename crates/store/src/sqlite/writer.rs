//! The one writer thread. All queued requests are committed together, with one flush to the disk.
//!
//! A request is answered only after the commit that holds it, so an acknowledged write is on the
//! disk. A request that is refused rolls back alone; a commit that fails is reported to every caller in it.
//!
//! Most refusals come before the first change, and then there is nothing to roll back. So a batch is first
//! tried without savepoints, for which SQLite would copy every page that a request touches; only when
//! a request is refused too late is it repeated with savepoints.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use callboard_engine::StoreError;

use super::fault::{Fault, of_sqlite};
use super::mark::Mark;

/// How many requests may wait. Above the number of callers that a host admits at once, so it is
/// a limit of memory and delays no caller; with a full queue callers wait.
const QUEUE: usize = 1024;

/// How many requests one commit holds at most. A flush is shared well before this; more would only
/// make the first of them wait for the last.
const MOST_PER_COMMIT: usize = 256;

type Jobs = mpsc::Sender<Box<dyn Job>>;

pub(super) struct Writer {
    /// None once the writer was asked to stop.
    jobs: Mutex<Option<Jobs>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub(super) fn start(db: Connection, mark: Mark) -> io::Result<Self> {
        let (jobs, queue) = mpsc::channel(QUEUE);
        let thread = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || write_until_closed(&db, mark, queue))?;
        Ok(Self { jobs: Mutex::new(Some(jobs)), thread: Mutex::new(Some(thread)) })
    }

    /// Runs `work` in the next commit and answers after it. What it did may be undone and done again.
    pub(super) async fn write<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: Fn(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        self.write_then((), move |db, ()| work(db), |(), value| value).await
    }

    /// As `write`, on what is given. Once committed, `then` makes the answer, even if the caller has lost interest.
    pub(super) async fn write_then<G, T, A, W, N>(
        &self,
        given: G,
        work: W,
        then: N,
    ) -> Result<A, StoreError>
    where
        G: Send + 'static,
        T: Send + 'static,
        A: Send + 'static,
        W: Fn(&Connection, &G) -> Result<T, Fault> + Send + 'static,
        N: FnOnce(G, T) -> A + Send + 'static,
    {
        let jobs = lock(&self.jobs).clone().ok_or_else(stopped)?;
        let (reply, answer) = oneshot::channel();
        let job = Request { given, work, result: None, then, reply };
        jobs.send(Box::new(job)).await.map_err(|_| stopped())?;
        drop(jobs);
        answer.await.map_err(|_| stopped())?
    }

    pub(super) fn is_running(&self) -> Result<(), StoreError> {
        match &*lock(&self.jobs) {
            Some(jobs) if !jobs.is_closed() => Ok(()),
            _ => Err(stopped()),
        }
    }

    /// Lets the thread finish what waits, and waits for it.
    pub(super) async fn stop(&self) {
        if let Some(thread) = self.close() {
            // No one is left to receive the thread's result.
            let _ended = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }

    fn close(&self) -> Option<JoinHandle<()>> {
        lock(&self.jobs).take();
        lock(&self.thread).take()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(thread) = self.close() {
            let _ended = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // An option is taken or it is not; a panic elsewhere cannot leave it between the two.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stopped() -> StoreError {
    StoreError::Unavailable("the store has been closed".to_owned())
}

fn write_until_closed(db: &Connection, mut mark: Mark, mut queue: mpsc::Receiver<Box<dyn Job>>) {
    let mut batch = Vec::with_capacity(MOST_PER_COMMIT);
    while queue.blocking_recv_many(&mut batch, MOST_PER_COMMIT) > 0 {
        gather(&mut queue, &mut batch);
        commit_and_answer(db, &mut mark, &mut batch);
    }
}

/// Lets those share the flush who are about to ask. While others need the processors, each turn that they get brings
/// more requests; when none comes, no one has waited.
fn gather(queue: &mut mpsc::Receiver<Box<dyn Job>>, batch: &mut Vec<Box<dyn Job>>) {
    // Somebody alone is served at once.
    let mut before = 1;
    while batch.len() > before && batch.len() < MOST_PER_COMMIT {
        before = batch.len();
        thread::yield_now();
        while batch.len() < MOST_PER_COMMIT
            && let Ok(job) = queue.try_recv()
        {
            batch.push(job);
        }
    }
}

/// Leaves the batch empty and the connection ready for the next one, whatever happened.
fn commit_and_answer(db: &Connection, mark: &mut Mark, batch: &mut Vec<Box<dyn Job>>) {
    let mut committed = commit(db, batch, Isolation::None);
    if matches!(committed, Err(Uncommitted::RefusedLate)) {
        committed = commit(db, batch, Isolation::Savepoints);
    }
    let failure = committed.err();
    if failure.is_none() {
        mark.keep(db);
    }
    for job in batch.drain(..) {
        job.answer(failure.as_ref());
    }
}

/// What keeps the requests of one transaction apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Isolation {
    None,
    Savepoints,
}

/// Why nothing of a batch was committed.
#[derive(Debug)]
enum Uncommitted {
    /// A request was refused after it had changed something, and nothing kept it apart.
    RefusedLate,
    Failed(rusqlite::Error),
}

impl From<rusqlite::Error> for Uncommitted {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(error)
    }
}

fn commit(
    db: &Connection,
    batch: &mut [Box<dyn Job>],
    isolation: Isolation,
) -> Result<(), Uncommitted> {
    db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let mut run_all = || -> Result<(), Uncommitted> {
        for job in &mut *batch {
            job.run(db, isolation)?;
        }
        db.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    };
    let committed = run_all();
    if committed.is_err() && !db.is_autocommit() {
        // If even this fails, the next batch cannot begin and gets the error.
        let _rolled_back = db.execute_batch("ROLLBACK");
    }
    committed
}

/// One request on its way through a commit.
trait Job: Send {
    /// Does the work or undoes it. An error means that the whole transaction is to be given up.
    fn run(&mut self, db: &Connection, isolation: Isolation) -> Result<(), Uncommitted>;

    /// Tells the caller. When the commit failed, no result of it may get out: what a request saw of
    /// the others in its batch never happened either.
    fn answer(self: Box<Self>, failure: Option<&Uncommitted>);
}

struct Request<G, T, A, W, N> {
    given: G,
    work: W,
    result: Option<Result<T, StoreError>>,
    then: N,
    reply: oneshot::Sender<Result<A, StoreError>>,
}

impl<G, T, A, W, N> Job for Request<G, T, A, W, N>
where
    G: Send,
    T: Send,
    A: Send,
    W: Fn(&Connection, &G) -> Result<T, Fault> + Send,
    N: FnOnce(G, T) -> A + Send,
{
    fn run(&mut self, db: &Connection, isolation: Isolation) -> Result<(), Uncommitted> {
        // The results of an earlier attempt are void, and so is whatever it holds.
        self.result = None;
        let is_kept_apart = isolation == Isolation::Savepoints;
        if is_kept_apart {
            db.prepare_cached("SAVEPOINT request")?.execute([])?;
        }
        let changes_before = db.total_changes();
        let result = match (self.work)(db, &self.given) {
            // A full disk can make SQLite give up the transaction by itself.
            Err(Fault::Sql(error)) if db.is_autocommit() => return Err(error.into()),
            result => result.map_err(StoreError::from),
        };
        if result.is_err() && db.total_changes() > changes_before {
            if !is_kept_apart {
                return Err(Uncommitted::RefusedLate);
            }
            db.prepare_cached("ROLLBACK TO request")?.execute([])?;
        }
        if is_kept_apart {
            db.prepare_cached("RELEASE request")?.execute([])?;
        }
        self.result = Some(result);
        Ok(())
    }

    fn answer(self: Box<Self>, failure: Option<&Uncommitted>) {
        let Self { given, result, then, reply, .. } = *self;
        let result = match failure {
            Some(Uncommitted::Failed(error)) => Err(of_sqlite(error)),
            Some(Uncommitted::RefusedLate) | None => result.unwrap_or_else(|| Err(stopped())),
        };
        // A caller that went away does not need the answer.
        let _unheard = reply.send(result.map(|value| then(given, value)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Answer = oneshot::Receiver<Result<(), StoreError>>;

    fn job(
        work: impl Fn(&Connection) -> Result<(), Fault> + Send + 'static,
    ) -> (Box<dyn Job>, Answer) {
        let (reply, answer) = oneshot::channel();
        let work = move |db: &Connection, (): &()| work(db);
        (Box::new(Request { given: (), work, result: None, then: |(), ()| (), reply }), answer)
    }

    fn execute(sql: &'static str) -> (Box<dyn Job>, Answer) {
        job(move |db| Ok(db.execute_batch(sql)?))
    }

    /// Commits the jobs together; returns the answer of each and the numbers that are stored afterwards.
    fn check(jobs: Vec<(Box<dyn Job>, Answer)>) -> anyhow::Result<(Vec<String>, Vec<i64>)> {
        let db = Connection::open_in_memory()?;
        db.execute_batch(
            "CREATE TABLE events (position INTEGER PRIMARY KEY);
             CREATE TABLE numbers (number INTEGER PRIMARY KEY,
                 parent INTEGER REFERENCES numbers (number) DEFERRABLE INITIALLY DEFERRED)",
        )?;
        let folder = tempfile::tempdir()?;
        let mut mark = Mark::open(folder.path(), &db)?;
        let (mut batch, mut answers): (Vec<_>, Vec<_>) = jobs.into_iter().unzip();
        commit_and_answer(&db, &mut mark, &mut batch);
        let told = answers.iter_mut().map(|answer| {
            Ok(answer.try_recv()?.map_or_else(|e| e.to_string(), |()| "done".into()))
        });
        let told = told.collect::<anyhow::Result<_>>()?;
        let mut select = db.prepare("SELECT number FROM numbers ORDER BY number")?;
        let stored = select.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        Ok((told, stored))
    }

    #[test]
    fn a_refused_request_rolls_back_alone() -> anyhow::Result<()> {
        let refused = job(|db| {
            db.execute_batch("INSERT INTO numbers VALUES (2, NULL)")?;
            Err(StoreError::Conflict { run: "r1".into() }.into())
        });
        let twice =
            execute("INSERT INTO numbers VALUES (3, NULL); INSERT INTO numbers VALUES (3, NULL)");
        let (told, stored) = check(vec![
            execute("INSERT INTO numbers VALUES (1, NULL)"),
            refused,
            twice,
            execute("INSERT INTO numbers VALUES (4, NULL)"),
        ])?;
        assert_eq!(
            (told[0].as_str(), told[1].as_str(), told[3].as_str()),
            ("done", "the log of r1 has moved on", "done")
        );
        assert!(told[2].starts_with("the database cannot be reached: UNIQUE"), "{told:?}");
        assert_eq!(stored, [1, 4]);
        Ok(())
    }

    #[test]
    fn a_commit_that_fails_is_told_to_everybody_in_it() -> anyhow::Result<()> {
        let saw_the_first = job(|_| Err(StoreError::Conflict { run: "r1".into() }.into()));
        let (told, stored) = check(vec![
            execute("INSERT INTO numbers VALUES (1, NULL)"),
            saw_the_first,
            execute("INSERT INTO numbers VALUES (2, 99)"),
        ])?;
        assert!(
            told.iter().all(|told| told.starts_with("the database cannot be reached: ")),
            "{told:?}"
        );
        assert_eq!(stored, [0; 0]);
        Ok(())
    }

    #[test]
    fn a_transaction_that_sqlite_gave_up_is_lost_for_everybody_in_it() -> anyhow::Result<()> {
        let gives_up = job(|db| {
            db.execute_batch("ROLLBACK")?;
            Err(rusqlite::Error::SqliteFailure(
                rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL),
                None,
            )
            .into())
        });
        let (told, stored) = check(vec![
            execute("INSERT INTO numbers VALUES (1, NULL)"),
            gives_up,
            execute("INSERT INTO numbers VALUES (2, NULL)"),
        ])?;
        assert_eq!(told, ["no space left for the database"; 3]);
        assert_eq!(stored, [0; 0]);
        Ok(())
    }
}
