//! How often what hosts keep in memory was changed. A request asks before it is answered, so that it never goes by what
//! another host has changed since; those who come while somebody asks share the next answer.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;

use callboard_engine::{Cache, Generations, RecordWrite, StoreError};

use super::Inner;
use super::fault::Fault;
use super::rows::{unsigned, value};
use super::session::Session;
use crate::sealed::SealedChange;

const READ: &str = "SELECT cache, generation FROM generations";
const RAISE: &str = "INSERT INTO generations (cache, generation) SELECT unnest($1::text[]), 1
     ON CONFLICT (cache) DO UPDATE SET generation = generations.generation + 1";

/// What hosts keep in memory and these changes are about.
pub(super) fn caches(changes: &[SealedChange]) -> BTreeSet<Cache> {
    let written = changes.iter().map(|sealed| &sealed.change);
    let written = written.filter(|change| !matches!(change.write, RecordWrite::Nothing));
    written.filter_map(|change| change.kind.cache()).collect()
}

/// With the changes themselves: whoever reads the new number reads what it stands for.
pub(super) async fn raise(session: &Session, changes: &[SealedChange]) -> Result<(), Fault> {
    let names: Vec<&str> = caches(changes).into_iter().map(Cache::as_str).collect();
    if !names.is_empty() {
        session.execute(RAISE, &[&names]).await?;
    }
    Ok(())
}

/// One reader for all who ask at the same time.
#[derive(Debug, Default)]
pub(super) struct Reader {
    asked: AtomicU64,
    last: Mutex<Last>,
}

#[derive(Debug)]
struct Last {
    /// Who asked before this one is answered by the read.
    answers_below: u64,
    /// A failure is shared, too, or each of a hundred would wait for its own.
    found: Result<Generations, String>,
}

impl Default for Last {
    fn default() -> Self {
        Self { answers_below: 0, found: Ok(Generations::default()) }
    }
}

impl Reader {
    /// As they were at some moment after this was called.
    pub(super) async fn read(&self, inner: &Inner) -> Result<Generations, StoreError> {
        let mine = self.asked.fetch_add(1, Ordering::AcqRel);
        let mut last = self.last.lock().await;
        if last.answers_below <= mine {
            let answers_below = self.asked.load(Ordering::Acquire);
            let found = read(inner).await.map_err(|error| error.to_string());
            *last = Last { answers_below, found };
        }
        last.found.clone().map_err(StoreError::Unavailable)
    }
}

async fn read(inner: &Inner) -> Result<Generations, StoreError> {
    let rows = inner.session().await?.rows(READ, &[]).await?;
    let mut found = Generations::default();
    for row in &rows {
        let (cache, generation) = (value::<String>(row, 0)?, unsigned(row, 1)?);
        if cache == Cache::Keys.as_str() {
            found.keys = generation;
        } else if cache == Cache::Packs.as_str() {
            found.packs = generation;
        }
    }
    Ok(found)
}
