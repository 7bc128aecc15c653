//! The hot path: creations and appends that bring nothing else. One task for each kind sends whatever waits as one
//! statement, so that a hundred requests cost little more than one, and a host that freezes holds no lock.
//!
//! A request is answered after the commit that holds it. One that is refused is refused alone; what fails as a whole is
//! done again one by one.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use callboard_engine::StoreError;
use callboard_protocol::Timestamp;

use super::create::{self, KnownDefinitions, Refusals};
use super::fault::{Fault, of_postgres};
use super::hints::Hints;
use super::retry::Patience;
use super::session::{Connections, Session};
use super::{append, outcome};
use crate::sealed::{SealedAppend, SealedRun};

/// How many requests may wait: a limit of memory above the number of callers that a host admits at once.
const QUEUE: usize = 1024;

/// A batch costs little more per request beyond this, and the first of it would wait for the last.
const MOST_PER_COMMIT: usize = 256;

/// After so many kept outcomes some that have expired are forgotten.
const OUTCOMES_PER_SWEEP: usize = 256;

/// What both lanes need.
pub(super) struct Shared {
    /// One connection for each lane.
    pub(super) pool: Connections,
    pub(super) definitions: Arc<KnownDefinitions>,
    pub(super) hints: Arc<Hints>,
}

/// One kind of request that is written in arrays.
pub(super) trait Request: Send + Sync + Sized + 'static {
    /// What no two requests of one statement may share.
    fn names(&self) -> impl Iterator<Item = Vec<u8>>;

    fn write(
        session: &Session,
        shared: &Shared,
        requests: &[&Self],
    ) -> impl Future<Output = Result<Refusals, Fault>> + Send;

    /// The error where the statement failed as a whole for this request alone.
    fn failure(&self, fault: Fault) -> StoreError;

    /// What follows the commit, before the caller is answered.
    fn announce(&self, hints: &Hints);

    /// When the request was made, where it keeps an outcome.
    fn kept_outcome(&self) -> Option<Timestamp>;
}

impl Request for SealedRun {
    fn names(&self) -> impl Iterator<Item = Vec<u8>> {
        let run = self.birth.run_id.as_str().as_bytes().to_vec();
        [run].into_iter().chain(self.outcome.as_ref().map(|outcome| outcome.key.to_vec()))
    }

    async fn write(
        session: &Session,
        shared: &Shared,
        requests: &[&Self],
    ) -> Result<Refusals, Fault> {
        shared.definitions.write(session, requests).await?;
        create::create(session, requests).await
    }

    fn failure(&self, fault: Fault) -> StoreError {
        create::refusal(fault, &[self]).into()
    }

    /// Whoever waits for the first event need not ask the database whether there is one.
    fn announce(&self, hints: &Hints) {
        hints.moved(&self.birth.run_id, self.head.version);
    }

    fn kept_outcome(&self) -> Option<Timestamp> {
        self.outcome.as_ref().map(|_| self.birth.created_at)
    }
}

impl Request for SealedAppend {
    fn names(&self) -> impl Iterator<Item = Vec<u8>> {
        std::iter::once(self.append.run.as_str().as_bytes().to_vec())
    }

    async fn write(session: &Session, _: &Shared, requests: &[&Self]) -> Result<Refusals, Fault> {
        append::append(session, requests).await
    }

    fn failure(&self, fault: Fault) -> StoreError {
        fault.into()
    }

    fn announce(&self, hints: &Hints) {
        hints.moved(&self.append.run, self.version());
        self.append.wakes.iter().for_each(|run| hints.woke(run));
    }

    fn kept_outcome(&self) -> Option<Timestamp> {
        None
    }
}

struct Job<R> {
    request: R,
    reply: oneshot::Sender<Result<(), StoreError>>,
}

/// The queue of one kind of request and the task that empties it.
pub(super) struct Lane<R> {
    /// None once the lane was closed.
    jobs: Mutex<Option<mpsc::Sender<Job<R>>>>,
}

impl<R: Request> Lane<R> {
    pub(super) fn start(shared: Arc<Shared>, tasks: &TaskTracker) -> Self {
        let (jobs, queue) = mpsc::channel(QUEUE);
        tasks.spawn(write_until_closed(shared, queue));
        Self { jobs: Mutex::new(Some(jobs)) }
    }

    pub(super) async fn write(&self, request: R) -> Result<(), StoreError> {
        let closed = || StoreError::Unavailable("the store has been closed".to_owned());
        let jobs = self.lock().clone().ok_or_else(closed)?;
        let (reply, answer) = oneshot::channel();
        jobs.send(Job { request, reply }).await.map_err(|_| closed())?;
        drop(jobs);
        answer.await.map_err(|_| closed())?
    }

    /// The task finishes what waits, and ends.
    pub(super) fn close(&self) {
        self.lock().take();
    }

    fn lock(&self) -> MutexGuard<'_, Option<mpsc::Sender<Job<R>>>> {
        // An option is taken or it is not; a panic elsewhere cannot leave it between the two.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn write_until_closed<R: Request>(shared: Arc<Shared>, mut queue: mpsc::Receiver<Job<R>>) {
    let (mut waiting, mut unswept) = (Vec::new(), 0);
    loop {
        if waiting.is_empty() {
            if queue.recv_many(&mut waiting, MOST_PER_COMMIT).await == 0 {
                return;
            }
        } else {
            let room = MOST_PER_COMMIT.saturating_sub(waiting.len());
            waiting.extend(std::iter::from_fn(|| queue.try_recv().ok()).take(room));
        }
        let (batch, later) = without_namesakes(waiting);
        waiting = later;
        let kept = commit(&shared, batch).await;
        unswept += kept.len();
        if let Some(at) = kept.last()
            && unswept >= OUTCOMES_PER_SWEEP
        {
            unswept = 0;
            forget_outcomes(&shared, *at).await;
        }
    }
}

/// Parts requests that one statement can hold from those that must wait for the next one.
fn without_namesakes<R: Request>(jobs: Vec<Job<R>>) -> (Vec<Job<R>>, Vec<Job<R>>) {
    let mut taken = HashSet::new();
    jobs.into_iter().partition(|job| {
        let names: Vec<_> = job.request.names().collect();
        let is_free = names.iter().all(|name| !taken.contains(name));
        taken.extend(names);
        is_free
    })
}

/// Answers when outcomes were kept.
async fn commit<R: Request>(shared: &Shared, jobs: Vec<Job<R>>) -> Vec<Timestamp> {
    let requests: Vec<&R> = jobs.iter().map(|job| &job.request).collect();
    let answers = write(shared, &requests).await;
    let kept = requests.iter().filter_map(|request| request.kept_outcome()).collect();
    for (job, answer) in jobs.into_iter().zip(answers) {
        if answer.is_ok() {
            job.request.announce(&shared.hints);
        }
        // A caller that went away does not need the answer.
        let _unheard = job.reply.send(answer);
    }
    kept
}

/// What is not forgotten now is forgotten later.
async fn forget_outcomes(shared: &Shared, at: Timestamp) {
    if let Ok(session) = Session::borrow(&shared.pool).await
        && let Err(error) = outcome::forget_some(&session, at).await
    {
        let error = StoreError::from(error);
        tracing::debug!(%error, "expired outcomes not forgotten");
    }
}

async fn write<R: Request>(shared: &Shared, requests: &[&R]) -> Vec<Result<(), StoreError>> {
    let answer = |refusal: Option<StoreError>| refusal.map_or(Ok(()), Err);
    let fault = match try_write(shared, requests).await {
        Ok(refusals) => return refusals.into_iter().map(answer).collect(),
        Err(fault) => fault,
    };
    match requests {
        [one] => vec![Err(one.failure(fault))],
        // The database has looked at the statement and refused it: for one of them, most likely.
        _ if fault.code().is_some() => {
            let mut answers = Vec::with_capacity(requests.len());
            for one in requests {
                answers.push(match try_write(shared, &[*one]).await {
                    Ok(refusals) => refusals.into_iter().try_for_each(answer),
                    Err(fault) => Err(one.failure(fault)),
                });
            }
            answers
        }
        _ => requests.iter().map(|_| Err(same(&fault))).collect(),
    }
}

/// The same failure for one of several requests that shared it.
pub(super) fn same(fault: &Fault) -> StoreError {
    match fault {
        Fault::Sql(error) => of_postgres(error),
        Fault::Store(StoreError::Unavailable(why)) => StoreError::Unavailable(why.clone()),
        Fault::Store(error) => StoreError::Unavailable(error.to_string()),
    }
}

async fn try_write<R: Request>(shared: &Shared, requests: &[&R]) -> Result<Refusals, Fault> {
    let mut patience = Patience::default();
    loop {
        let session = Session::borrow(&shared.pool).await?;
        let written = R::write(&session, shared, requests).await;
        drop(session);
        match written {
            Err(fault) if patience.lasts(&fault).await => shared.definitions.forget(),
            written => return written,
        }
    }
}
