//! Point reads of those who ask at the same time, as one statement: a hundred callers cost the database little more than
//! one. Each is answered by a read that began after it asked.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{Semaphore, oneshot};

use callboard_engine::StoreError;

use super::Inner;
use super::fault::Fault;
use super::session::Session;
use super::writer::same;
use crate::seal::Seal;

/// How many such statements of one kind are under way at most: who comes meanwhile shares the next.
const AT_ONCE: usize = 2;

/// One kind of question.
pub(super) trait Question: Clone + Send + Sync + 'static {
    type Answer: Send;
    /// So many of them go into one statement.
    const MOST: usize;

    /// Answers them in their order. What cannot be read of one is the error of that one alone.
    fn read(
        session: &Session,
        seal: &Seal,
        questions: &[Self],
    ) -> impl Future<Output = Result<Vec<Result<Self::Answer, Fault>>, Fault>> + Send;
}

struct Asked<Q: Question> {
    question: Q,
    reply: oneshot::Sender<Result<Q::Answer, StoreError>>,
}

pub(super) struct Gather<Q: Question> {
    waiting: Mutex<Vec<Asked<Q>>>,
    turns: Semaphore,
}

impl<Q: Question> Default for Gather<Q> {
    fn default() -> Self {
        Self { waiting: Mutex::default(), turns: Semaphore::new(AT_ONCE) }
    }
}

impl<Q: Question> fmt::Debug for Gather<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gather").finish_non_exhaustive()
    }
}

impl<Q: Question> Gather<Q> {
    /// Whoever gets a turn asks for all who wait. One that goes away in its turn leaves the others to ask again.
    pub(super) async fn ask(&self, inner: &Inner, question: &Q) -> Result<Q::Answer, StoreError> {
        loop {
            let (reply, mut answer) = oneshot::channel();
            self.lock().push(Asked { question: question.clone(), reply });
            // Losing the turn loses nothing: the question waits with the others.
            let turn = tokio::select! {
                biased;
                answered = &mut answer => match answered {
                    Ok(answer) => return answer,
                    Err(_) => continue,
                },
                turn = self.turns.acquire() => turn,
            };
            if turn.is_err() {
                return Err(StoreError::Unavailable("the store has been closed".to_owned()));
            }
            loop {
                match answer.try_recv() {
                    Ok(answer) => return answer,
                    Err(TryRecvError::Closed) => break,
                    Err(TryRecvError::Empty) => {}
                }
                let asked = self.take();
                if asked.is_empty() {
                    // Another one's turn has taken it.
                    match (&mut answer).await {
                        Ok(answer) => return answer,
                        Err(_) => break,
                    }
                }
                answer_all(inner, asked).await;
            }
        }
    }

    fn take(&self) -> Vec<Asked<Q>> {
        let mut waiting = self.lock();
        waiting.retain(|asked| !asked.reply.is_closed());
        let most = waiting.len().min(Q::MOST);
        waiting.drain(..most).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Asked<Q>>> {
        // A question is in the list or it is not.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn answer_all<Q: Question>(inner: &Inner, asked: Vec<Asked<Q>>) {
    let (questions, replies): (Vec<Q>, Vec<_>) =
        asked.into_iter().map(|asked| (asked.question, asked.reply)).unzip();
    let read = async { Q::read(&inner.session().await?, &inner.seal, &questions).await };
    match read.await {
        Ok(answers) => {
            for (reply, answer) in replies.into_iter().zip(answers) {
                // A caller that went away does not need the answer.
                let _unheard = reply.send(answer.map_err(StoreError::from));
            }
        }
        Err(fault) => {
            for reply in replies {
                let _unheard = reply.send(Err(same(&fault)));
            }
        }
    }
}
