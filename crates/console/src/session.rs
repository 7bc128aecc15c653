//! Who is signed in: a random id in the browser, its hash with the key's id here, and one-time codes that lead to one.
//!
//! A session holds no credential. It names a key, which the host judges anew at every request.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use callboard_protocol::{KeyId, Timestamp};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// How long a one-time code waits.
pub const CODE_LASTS: Duration = Duration::from_secs(10 * 60);
/// Browsers that one key is signed in with; the oldest gives way.
const MOST_PER_KEY: usize = 32;
/// Codes that wait at one time; the oldest gives way. Only holders of keys can ask for them.
const MOST_CODES: usize = 256;

/// The hash of a session's id or of a code.
pub type Hash = [u8; 32];

/// A random text that only its holder knows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub key: KeyId,
    pub created: Timestamp,
    pub seen: Timestamp,
}

/// How long sessions last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    /// A session that nobody uses for this long is over.
    pub idle: Duration,
    /// However busy, a session ends.
    pub longest: Duration,
}

impl Default for Lifetime {
    /// A working day, and a week.
    fn default() -> Self {
        let hour = Duration::from_secs(60 * 60);
        Self { idle: hour * 8, longest: hour * 24 * 7 }
    }
}

/// Where sessions are kept. Whoever implements it may forget those that are over.
#[async_trait]
pub trait Sessions: fmt::Debug + Send + Sync {
    async fn begin(&self, hash: &Hash, session: Session) -> Result<(), SessionsError>;

    async fn find(&self, hash: &Hash) -> Result<Option<Session>, SessionsError>;

    /// Notes that a session was used. One that was ended meanwhile stays ended.
    async fn touch(&self, hash: &Hash, session: Session) -> Result<(), SessionsError>;

    async fn end(&self, hash: &Hash) -> Result<(), SessionsError>;

    /// Every session of a key: "sign out everywhere".
    async fn end_all_of(&self, key: &KeyId) -> Result<(), SessionsError>;
}

/// Sessions can be neither read nor written now. The reason is for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("sessions cannot be reached: {0}")]
pub struct SessionsError(pub String);

/// Sessions that end with the process.
#[derive(Debug, Default)]
pub struct InMemory {
    all: Mutex<HashMap<Hash, Session>>,
    lifetime: Lifetime,
}

impl InMemory {
    pub fn new(lifetime: Lifetime) -> Self {
        Self { all: Mutex::default(), lifetime }
    }
}

/// One-time codes. They live for minutes, so they need not outlive the process.
#[derive(Debug, Default)]
pub(crate) struct Codes(Mutex<HashMap<Hash, (KeyId, Timestamp)>>);

impl Secret {
    /// None: the system gives no random numbers.
    pub fn generate() -> Option<Self> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).ok()?;
        Some(Self(URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// What somebody sent; nothing longer than what we hand out.
    pub(crate) fn read(text: &str) -> Option<Self> {
        (text.len() == 43 && text.is_ascii()).then(|| Self(text.to_owned()))
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub(crate) fn hash(&self) -> Hash {
        Sha256::digest(self.0.as_bytes()).into()
    }

    /// What forms of this session carry: derived, so that it need not be kept, and useless as a session.
    pub(crate) fn form_token(&self) -> String {
        let digest = Sha256::new().chain_update(b"callboard form\0").chain_update(&self.0);
        URL_SAFE_NO_PAD.encode(digest.finalize())
    }

    pub(crate) fn accepts(&self, form_token: &str) -> bool {
        self.form_token().as_bytes().ct_eq(form_token.as_bytes()).into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Session {
    pub(crate) fn is_over(&self, now: Timestamp, lifetime: Lifetime) -> bool {
        now > self.ends(lifetime)
    }

    /// When it is over, unless it is used before.
    pub fn ends(&self, lifetime: Lifetime) -> Timestamp {
        self.seen.plus(lifetime.idle).min(self.created.plus(lifetime.longest))
    }
}

#[async_trait]
impl Sessions for InMemory {
    async fn begin(&self, hash: &Hash, session: Session) -> Result<(), SessionsError> {
        let mut all = lock(&self.all);
        all.retain(|_, other| !other.is_over(session.seen, self.lifetime));
        all.insert(*hash, session.clone());
        let of_key = all.iter().filter(|(_, other)| other.key == session.key);
        if of_key.clone().count() > MOST_PER_KEY {
            let oldest = of_key.min_by_key(|(_, other)| other.seen).map(|(hash, _)| *hash);
            oldest.map(|hash| all.remove(&hash));
        }
        Ok(())
    }

    async fn find(&self, hash: &Hash) -> Result<Option<Session>, SessionsError> {
        Ok(lock(&self.all).get(hash).cloned())
    }

    async fn touch(&self, hash: &Hash, session: Session) -> Result<(), SessionsError> {
        if let Some(known) = lock(&self.all).get_mut(hash) {
            *known = session;
        }
        Ok(())
    }

    async fn end(&self, hash: &Hash) -> Result<(), SessionsError> {
        lock(&self.all).remove(hash);
        Ok(())
    }

    async fn end_all_of(&self, key: &KeyId) -> Result<(), SessionsError> {
        lock(&self.all).retain(|_, session| session.key != *key);
        Ok(())
    }
}

impl Codes {
    pub(crate) fn put(&self, code: &Secret, key: KeyId, now: Timestamp) {
        let mut all = lock(&self.0);
        all.retain(|_, (_, until)| *until > now);
        if all.len() >= MOST_CODES {
            let oldest = all.iter().min_by_key(|(_, (_, until))| *until).map(|(hash, _)| *hash);
            oldest.map(|hash| all.remove(&hash));
        }
        all.insert(code.hash(), (key, now.plus(CODE_LASTS)));
    }

    /// Once.
    pub(crate) fn take(&self, code: &Secret, now: Timestamp) -> Option<KeyId> {
        let (key, until) = lock(&self.0).remove(&code.hash())?;
        (until > now).then_some(key)
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(0).plus(Duration::from_secs(seconds))
    }

    #[test]
    fn a_code_works_once_and_for_ten_minutes() {
        let codes = Codes::default();
        let (code, late) = (Secret::generate().unwrap(), Secret::generate().unwrap());
        codes.put(&code, "key_1".into(), at(0));
        codes.put(&late, "key_1".into(), at(0));
        assert_eq!(codes.take(&code, at(599)), Some("key_1".into()));
        assert_eq!(codes.take(&code, at(599)), None, "twice");
        assert_eq!(codes.take(&late, at(600)), None, "too late");
    }

    #[test]
    fn a_session_ends_when_idle_and_after_a_week() {
        let session =
            |created, seen| Session { key: "k".into(), created: at(created), seen: at(seen) };
        let (hour, usual) = (3600, Lifetime::default());
        assert!(!session(0, 0).is_over(at(8 * hour), usual));
        assert!(session(0, 0).is_over(at(8 * hour + 1), usual));
        assert!(session(0, 7 * 24 * hour).is_over(at(7 * 24 * hour + 1), usual));
        let brief = Lifetime { idle: Duration::from_secs(60), longest: Duration::from_secs(90) };
        assert!(!session(0, 0).is_over(at(60), brief));
        assert!(session(0, 0).is_over(at(61), brief));
        assert!(session(0, 90).is_over(at(91), brief));
    }

    #[tokio::test]
    async fn one_key_holds_only_so_many_sessions() -> Result<(), SessionsError> {
        let sessions = InMemory::default();
        let hash = |number: u8| [number; 32];
        for number in 0..40 {
            let seen = at(number.into());
            sessions.begin(&hash(number), Session { key: "k".into(), created: seen, seen }).await?;
        }
        assert_eq!(sessions.find(&hash(0)).await?, None);
        let newest = sessions.find(&hash(39)).await?.unwrap();
        sessions.end_all_of(&"k".into()).await?;
        sessions.touch(&hash(39), newest).await?;
        assert_eq!(sessions.find(&hash(39)).await?, None, "being used does not bring it back");
        Ok(())
    }

    #[test]
    fn a_form_token_is_its_sessions_and_no_other() {
        let (mine, other) = (Secret::generate().unwrap(), Secret::generate().unwrap());
        assert!(mine.accepts(&mine.form_token()));
        assert!(!mine.accepts(&other.form_token()));
        assert!(!mine.accepts(mine.reveal()) && !mine.accepts(""));
    }
}
