//! What hosts of a database tell each other: runs that moved, work that is due, caches that are behind. Sent after the
//! commit, gathered, on a connection of its own. Only hints: whoever hears one reads the database, and what gets lost
//! is found by the next look.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use callboard_engine::{Changes, Clock as _, Heard, SystemClock};
use callboard_protocol::{RunId, Timestamp, hex};

use super::connect::Address;
use super::latch;

/// Between two notifications of one host: what comes meanwhile goes with the next.
const GATHERED: Duration = Duration::from_millis(5);
/// A listener that does not hear its own notification has lost its ears: a pooler swallows them in silence.
const PING: Duration = Duration::from_secs(5);
const DEAF_AFTER: Duration = Duration::from_secs(12);
/// Nobody is told anything for so long after the last word of another host; a newcomer speaks first.
const ALONE_AFTER: Duration = Duration::from_secs(30);
const RECONNECT: Duration = Duration::from_secs(1);
/// For one notification to be taken.
const PATIENCE: Duration = Duration::from_secs(5);

/// PostgreSQL takes payloads below 8,000 bytes.
const LARGEST: usize = 7_900;
/// Heard and not yet looked at; more than a second's worth of a busy cluster.
const UNREAD: usize = 1_024;

/// One notification. An old reader ignores what it does not know; what an old writer does not say is false or empty.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Message {
    from: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    runs: BTreeMap<RunId, u64>,
    /// Runs whose child has moved.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    woken: Vec<RunId>,
    /// More has moved than can be said.
    #[serde(skip_serializing_if = "is_false")]
    more: bool,
    #[serde(skip_serializing_if = "is_false")]
    due: bool,
    #[serde(skip_serializing_if = "is_false")]
    caches: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Message {
    fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.woken.is_empty() && !self.more && !self.due && !self.caches
    }

    /// What does not fit is not said: that there is more.
    fn into_text(mut self) -> String {
        let text = serde_json::to_string(&self).unwrap_or_default();
        if text.len() <= LARGEST {
            return text;
        }
        (self.runs, self.woken, self.more) = (BTreeMap::new(), Vec::new(), true);
        serde_json::to_string(&self).unwrap_or_default()
    }
}

/// The hints of one host.
pub(super) struct Hints {
    /// Names this process among those that listen.
    name: String,
    changes: Arc<Changes>,
    outbox: Mutex<Message>,
    filled: Notify,
    inbox: Mutex<Heard>,
    heard: Notify,
    /// Something may have been missed: all that is watched is to be looked at.
    pub(super) missed: Notify,
    is_listening: AtomicBool,
    /// When another host was heard last.
    company: Mutex<Option<Timestamp>>,
}

impl Hints {
    pub(super) fn new(name: [u8; 8], changes: Arc<Changes>) -> Self {
        Self {
            name: hex(name),
            changes,
            outbox: Mutex::default(),
            filled: Notify::new(),
            inbox: Mutex::default(),
            heard: Notify::new(),
            missed: Notify::new(),
            is_listening: AtomicBool::new(false),
            company: Mutex::default(),
        }
    }

    /// Whether notifications of other hosts reach this one.
    pub(super) fn is_listening(&self) -> bool {
        self.is_listening.load(Ordering::Relaxed)
    }

    /// A run's log has grown to this version: said here, and to the others.
    pub(super) fn moved(&self, run: &RunId, version: u64) {
        self.changes.announce(run, version);
        self.say(|message| {
            message.runs.insert(run.clone(), version);
        });
    }

    /// A child of this run has moved.
    pub(super) fn woke(&self, run: &RunId) {
        self.say(|message| message.woken.push(run.clone()));
    }

    /// A run is due that this host may not take.
    pub(super) fn due(&self) {
        self.say(|message| message.due = true);
    }

    /// What hosts keep in memory is behind.
    pub(super) fn caches(&self) {
        self.say(|message| message.caches = true);
    }

    fn say(&self, what: impl FnOnce(&mut Message)) {
        if !self.has_company() {
            return;
        }
        let mut outbox = lock(&self.outbox);
        // What no notification has room for is not gathered either.
        if outbox.runs.len() + outbox.woken.len() > LARGEST / 16 {
            (outbox.runs, outbox.woken, outbox.more) = (BTreeMap::new(), Vec::new(), true);
        }
        what(&mut outbox);
        drop(outbox);
        self.filled.notify_one();
    }

    fn has_company(&self) -> bool {
        lock(&self.company).is_some_and(|last| counted().since(last) < ALONE_AFTER)
    }

    /// Returns what other hosts have said since the last call, as soon as there is something.
    pub(super) async fn heard(&self) -> Heard {
        loop {
            let heard = std::mem::take(&mut *lock(&self.inbox));
            if heard != Heard::default() {
                return heard;
            }
            self.heard.notified().await;
        }
    }

    fn hear(&self, message: Message) {
        *lock(&self.company) = Some(counted());
        for (run, version) in &message.runs {
            self.changes.announce(run, *version);
        }
        if message.more {
            self.missed.notify_one();
        }
        let mut inbox = lock(&self.inbox);
        inbox.due |= message.due || message.more;
        inbox.log_grew |= message.more || !message.runs.is_empty();
        inbox.caches_changed |= message.caches;
        inbox.woken.extend(message.woken);
        drop(inbox);
        self.heard.notify_one();
    }

    /// Everything may have changed while nobody listened.
    fn hear_all(&self) {
        let mut inbox = lock(&self.inbox);
        (inbox.due, inbox.log_grew, inbox.caches_changed) = (true, true, true);
        drop(inbox);
        self.missed.notify_one();
        self.heard.notify_one();
    }

    /// Returns once there is something to say.
    async fn filled(&self) {
        while lock(&self.outbox).is_empty() {
            self.filled.notified().await;
        }
    }
}

/// By the clock that nobody puts forward.
fn counted() -> Timestamp {
    SystemClock.counted()
}

/// A panic while one of these locks was held cannot leave what it guards half-changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Speaks and listens until the store is closed; a connection that breaks is made anew.
pub(super) async fn talk(hints: Arc<Hints>, address: Address) {
    if address.is_pooled {
        tracing::info!("behind a pooler no hints arrive: other hosts' changes are polled for");
        return;
    }
    let mut was_deaf = false;
    loop {
        let ended = match address.listen(UNREAD).await {
            Ok((client, notifications)) => converse(&hints, &client, notifications).await,
            Err(error) => Err(error),
        };
        hints.is_listening.store(false, Ordering::Relaxed);
        if let Err(error) = ended {
            tracing::debug!(%error, "no hints from other hosts; connecting again");
        } else if !std::mem::replace(&mut was_deaf, true) {
            tracing::warn!(
                "notifications of the database do not arrive here (a connection pooler?): other hosts' changes are polled for"
            );
        }
        tokio::time::sleep(RECONNECT).await;
    }
}

/// Answers once it has not heard itself for too long.
async fn converse(
    hints: &Hints,
    client: &Client,
    mut notifications: mpsc::Receiver<String>,
) -> Result<(), tokio_postgres::Error> {
    let schema = client.query_typed_one("SELECT current_schema()::text", &[]).await?;
    let schema: Option<String> = schema.try_get(0)?;
    let number = latch::number(&["hints", &schema.unwrap_or_default()]);
    let channel = format!("callboard_{:016x}", number.cast_unsigned());
    client.batch_execute(&format!("SET synchronous_commit = off; LISTEN {channel}")).await?;
    hints.hear_all();
    let (mut heard_itself, mut not_before) = (counted(), counted());
    let mut ping = tokio::time::interval(PING);
    while counted().since(heard_itself) < DEAF_AFTER {
        // Losing a branch loses nothing: what is to be said stays in the outbox, what was heard in the channel.
        tokio::select! {
            text = notifications.recv() => {
                let Some(text) = text else { return Ok(()) };
                match serde_json::from_str::<Message>(&text) {
                    Ok(message) if message.from == hints.name => {
                        heard_itself = counted();
                        hints.is_listening.store(true, Ordering::Relaxed);
                    }
                    Ok(message) => hints.hear(message),
                    Err(_) => hints.hear_all(),
                }
            }
            _ = ping.tick() => notify(client, &channel, Message::default(), hints).await?,
            () = filled_after(hints, not_before) => {
                let message = std::mem::take(&mut *lock(&hints.outbox));
                notify(client, &channel, message, hints).await?;
                not_before = counted().plus(GATHERED);
            }
        }
    }
    Ok(())
}

/// Returns once there is something to say, and not before that time.
async fn filled_after(hints: &Hints, not_before: Timestamp) {
    hints.filled().await;
    tokio::time::sleep(not_before.since(counted())).await;
}

async fn notify(
    client: &Client,
    channel: &str,
    message: Message,
    hints: &Hints,
) -> Result<(), tokio_postgres::Error> {
    let text = Message { from: hints.name.clone(), ..message }.into_text();
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
        [(&channel, Type::TEXT), (&text, Type::TEXT)];
    let sent = client.query_typed("SELECT pg_notify($1, $2)", &params);
    // Who does not answer for so long has not taken it either; the silence ends the conversation.
    tokio::time::timeout(PATIENCE, sent).await.map_or(Ok(()), |sent| sent.map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints() -> Hints {
        Hints::new([1; 8], Arc::default())
    }

    #[test]
    fn what_does_not_fit_is_said_to_be_more() {
        let long = |number: u64| (RunId::from(format!("run_{number:032}")), number);
        let message = Message { runs: (0..10).map(long).collect(), ..Message::default() };
        assert!(message.into_text().contains("run_00000000000000000000000000000009"));
        let message =
            Message { runs: (0..1_000).map(long).collect(), due: true, ..Message::default() };
        let text = message.into_text();
        let read: Message = serde_json::from_str(&text).unwrap();
        assert!(read.runs.is_empty() && read.more && read.due, "{text}");
    }

    #[tokio::test]
    async fn what_is_heard_is_gathered_and_answers_at_once() {
        let hints = hints();
        assert!(!hints.has_company());
        hints.due();
        assert!(lock(&hints.outbox).is_empty(), "nobody is there to be told");
        let run = RunId::from("run_1");
        let runs = BTreeMap::from([(run.clone(), 7)]);
        hints.hear(Message { runs, ..Message::default() });
        hints.hear(Message { woken: vec![run.clone()], ..Message::default() });
        let heard = hints.heard().await;
        assert!(heard.log_grew && !heard.due && heard.woken == [run.clone()], "{heard:?}");
        assert_eq!(hints.changes.listen(&run).known(), Some(7));
        hints.due();
        assert!(lock(&hints.outbox).due);
    }
}
