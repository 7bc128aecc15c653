//! Who is signed in at the console: the hash of each session's id, with the key that it stands for.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use callboard_protocol::{KeyId, Timestamp};

use crate::audit_log::AuditFact;
use crate::records::{Expected, Key, Kind, Record, RecordChange, RecordQuery, Within};
use crate::store::{Batch, Digest, KeyMode, Scope, Store, StoreError};

/// Browsers that one key is signed in with; the one that was not seen for longest gives way.
const MOST_PER_KEY: usize = 32;
/// Sessions that are over and go when another begins: more than begin, so that none stay for good.
const MOST_OVER: usize = 64;
/// What sessions are found by: the key that they stand for.
const OF_KEY: &str = "key";

/// Sessions in the store, so that a restart signs nobody out and every host on one database knows them.
#[derive(Debug, Clone)]
pub struct ConsoleSessions {
    store: Arc<dyn Store>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsoleSession {
    pub key: KeyId,
    pub created_at: Timestamp,
    pub seen_at: Timestamp,
}

impl ConsoleSession {
    /// From `ends_at` on it is of no use to anybody and goes when it is convenient.
    fn put(&self, hash: &Digest, ends_at: Timestamp) -> Result<RecordChange, StoreError> {
        // It is the host's own: the key says whose it is, and keys of the configuration have no record.
        let place = Scope { tenant: "".into(), workspace: None, mode: KeyMode::Live };
        let put = RecordChange::put(Kind::ConsoleSession, key(hash), place, self)?;
        Ok(put.due(Some(ends_at)).indexed(OF_KEY, self.key.as_str()))
    }
}

impl ConsoleSessions {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Begins a session of a key that lives there, and removes those that are over.
    pub async fn begin(
        &self,
        hash: &Digest,
        session: &ConsoleSession,
        ends_at: Timestamp,
        place: Option<Scope>,
    ) -> Result<(), StoreError> {
        let over = self.store.due(Kind::ConsoleSession, session.created_at, MOST_OVER).await?;
        let mut of_key = self.of_key(&session.key).await?;
        // What cannot be read goes first.
        of_key.sort_by_key(|record| record.read::<ConsoleSession>().ok().map(|it| it.seen_at));
        let too_many = (of_key.len() + 1).saturating_sub(MOST_PER_KEY);
        let mut gone: Vec<Key> = over
            .records
            .into_iter()
            .chain(of_key.into_iter().take(too_many))
            .map(|it| it.key)
            .collect();
        gone.sort();
        gone.dedup();
        gone.retain(|gone| *gone != key(hash));
        let deleted = gone.into_iter().map(delete);
        let batch = Batch::of_records(deleted.chain([session.put(hash, ends_at)?]));
        let signed_in = |place| AuditFact::new(place, "console.signed-in", &session.key);
        let facts = place.map(signed_in).into_iter().collect();
        self.store.commit(Batch { facts, ..batch }).await
    }

    pub async fn find(&self, hash: &Digest) -> Result<Option<ConsoleSession>, StoreError> {
        let found = self.store.get(Kind::ConsoleSession, &key(hash)).await?;
        found.as_ref().map(Record::read).transpose()
    }

    /// Notes that a session was used. One that was ended meanwhile stays ended.
    pub async fn touch(
        &self,
        hash: &Digest,
        session: &ConsoleSession,
        ends_at: Timestamp,
    ) -> Result<(), StoreError> {
        let seen = session.put(hash, ends_at)?.expecting(Expected::Present);
        match self.store.commit(Batch::of_records([seen])).await {
            Err(StoreError::Moved { .. }) => Ok(()),
            other => other,
        }
    }

    pub async fn end(&self, hash: &Digest) -> Result<(), StoreError> {
        self.store.commit(Batch::of_records([delete(key(hash))])).await
    }

    /// Ends every session of a key.
    pub async fn end_all_of(&self, key: &KeyId) -> Result<(), StoreError> {
        let all = self.of_key(key).await?.into_iter().map(|record| delete(record.key));
        self.store.commit(Batch::of_records(all)).await
    }

    async fn of_key(&self, key: &KeyId) -> Result<Vec<Record>, StoreError> {
        let all = RecordQuery::all(Kind::ConsoleSession, Within::Everywhere);
        self.store.scan(&all.with(OF_KEY, key.as_str())).await
    }
}

fn key(hash: &Digest) -> Key {
    let text: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    Key::of([text.as_str()])
}

fn delete(key: Key) -> RecordChange {
    RecordChange::delete(Kind::ConsoleSession, key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_memory::InMemoryStore;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn session(of: &str, seen: i64) -> ConsoleSession {
        ConsoleSession { key: of.into(), created_at: at(seen), seen_at: at(seen) }
    }

    #[tokio::test]
    async fn one_key_holds_only_so_many_and_what_is_over_goes() {
        let store = Arc::new(InMemoryStore::default());
        let sessions = ConsoleSessions::new(store.clone());
        for number in 0..40_u8 {
            let new = session("a", number.into());
            sessions.begin(&[number; 32], &new, at(1000), None).await.unwrap();
        }
        assert_eq!(sessions.find(&[7; 32]).await.unwrap(), None, "the longest unseen");
        assert_eq!(sessions.find(&[8; 32]).await.unwrap(), Some(session("a", 8)));
        sessions.begin(&[99; 32], &session("b", 1001), at(5000), None).await.unwrap();
        let all = RecordQuery::all(Kind::ConsoleSession, Within::Everywhere);
        assert_eq!(store.scan(&all).await.unwrap().len(), 1, "all others are over");
    }

    #[tokio::test]
    async fn what_was_ended_does_not_come_back_by_being_used() {
        let sessions = ConsoleSessions::new(Arc::new(InMemoryStore::default()));
        sessions.begin(&[1; 32], &session("a", 0), at(100), None).await.unwrap();
        sessions.touch(&[1; 32], &session("a", 9), at(109)).await.unwrap();
        assert_eq!(sessions.find(&[1; 32]).await.unwrap(), Some(session("a", 9)));
        sessions.end(&[1; 32]).await.unwrap();
        sessions.touch(&[1; 32], &session("a", 10), at(110)).await.unwrap();
        assert_eq!(sessions.find(&[1; 32]).await.unwrap(), None);
    }
}
