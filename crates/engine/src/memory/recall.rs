//! An attempt's way to memory: it reads what its run sees, and writes through the run's log.

use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use callboard_core::{Attempt, Entry, Fact, MemoryView, Run, redact_text};
use callboard_protocol::{
    Event, MemoryEntry, MemoryId, MemoryWritten, Remembered, RunId, Timestamp,
};

use super::draft::cleaned;
use super::{
    Memory, MemoryAuthor, MemoryDraft, MemoryError, MemoryQuery, MemoryRecord, MemoryRow, Place,
    Seen, check_memory_ref,
};
use crate::activity::{FactSender, Kept, Unrecorded};
use crate::clock::Clock;
use crate::store::{Scope, StoreError};

/// How many entries a read gets that asks for no number.
const USUAL_LIMIT: usize = 100;
/// How much of a digest names an entry: enough that no two ever share it.
const ID_BYTES: usize = 18;

/// What the run sees now, kept up to date by its driver.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shared(Arc<RwLock<MemoryView>>);

impl Shared {
    pub(crate) fn holding(view: MemoryView) -> Self {
        let shared = Self::default();
        shared.set(view);
        shared
    }

    pub(crate) fn set(&self, view: MemoryView) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = view;
    }

    fn get(&self) -> MemoryView {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Reads and writes memory for one attempt.
#[derive(Debug, Clone)]
pub struct MemoryAccess {
    journal: Memory,
    clock: Arc<dyn Clock>,
    fact_sender: FactSender,
    shared: Shared,
    scope: Scope,
    scope_id: String,
    family: Option<RunId>,
    anchors: Vec<Timestamp>,
    run: RunId,
    /// The runs whose histories this one goes on with, the latest first.
    forebears: Vec<RunId>,
    attempt: Attempt,
    agent: Option<String>,
}

/// What a read asks for. Empty fields filter nothing; no limit is the usual one.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    pub tag: Option<String>,
    pub text: Option<String>,
    pub limit: usize,
}

impl MemoryAccess {
    pub(crate) fn new(
        run: &Run,
        attempt: Attempt,
        agent: Option<String>,
        journal: Memory,
        clock: Arc<dyn Clock>,
        (fact_sender, shared): (FactSender, Shared),
    ) -> Self {
        let birth = run.birth();
        Self {
            journal,
            clock,
            fact_sender,
            shared,
            scope: Scope::of(birth),
            scope_id: birth.memory.scope_id.clone(),
            family: birth.memory.family.clone(),
            anchors: birth.memory.anchors.clone(),
            run: birth.run_id.clone(),
            forebears: birth.forebears(),
            attempt,
            agent,
        }
    }

    /// The entries under a name, newest first. A malformed name has none.
    pub async fn list(
        &self,
        memory_ref: &str,
        wanted: Wanted,
    ) -> Result<Vec<MemoryEntry>, StoreError> {
        let limit = if wanted.limit == 0 { USUAL_LIMIT } else { wanted.limit };
        let Some(query) = self.query(memory_ref, limit.min(USUAL_LIMIT)) else {
            return Ok(Vec::new());
        };
        let query = MemoryQuery { tag: wanted.tag, text: wanted.text, ..query };
        let found = self.journal.recall(&self.scope, &query).await?;
        Ok(found.into_iter().map(MemoryRecord::entry).collect())
    }

    /// The entries under a name that the run wrote, or took over from its family, newest first.
    pub async fn list_own(
        &self,
        memory_ref: &str,
        limit: usize,
    ) -> Result<Vec<MemoryEntry>, StoreError> {
        let Some(mut query) = self.query(memory_ref, limit) else { return Ok(Vec::new()) };
        if let Some(seen) = &mut query.seen {
            seen.view.as_of = 0;
        }
        let found = self.journal.recall(&self.scope, &query).await?;
        Ok(found.into_iter().map(MemoryRecord::entry).collect())
    }

    /// One entry, in the version that the run sees.
    pub async fn get(
        &self,
        memory_ref: &str,
        id: &MemoryId,
    ) -> Result<Option<MemoryRecord>, StoreError> {
        let Some(query) = self.query(memory_ref, 1) else { return Ok(None) };
        let query = MemoryQuery { id: Some(id.clone()), ..query };
        Ok(self.journal.recall(&self.scope, &query).await?.into_iter().next())
    }

    /// Remembers something, once: the `ordinal`-th write of a visit is the same write when the attempt is made
    /// again. What looks like a credential does not get as far as the journal.
    pub async fn put(&self, ordinal: u32, draft: MemoryDraft) -> Result<MemoryEntry, MemoryError> {
        let written = self.write(vec![(ordinal, draft)], None).await?.pop();
        let nothing = || MemoryError::Invalid("nothing is to be remembered".to_owned());
        let written = written.ok_or_else(nothing)?;
        let id = written.id.clone();
        // Something that lives for a moment was written all the same, and so was what only a later turn sees. What the
        // run wrote before it has nothing to do with it, and would make each write cost what all before it wrote.
        let mut query = self.seeing(Place::Anywhere, 1);
        (query.id, query.at) = (Some(id.clone()), Timestamp::default());
        query.seen.iter_mut().for_each(|seen| seen.view.also = vec![written.clone()]);
        // Somebody may have forgotten it at once; that is theirs to say.
        let kept = self.journal.recall(&self.scope, &query).await?.into_iter().next();
        kept.map(MemoryRecord::entry).ok_or(MemoryError::Moved(id))
    }

    /// Writes drafts and their events in one append, with whatever else is to be recorded.
    pub(super) async fn write(
        &self,
        drafts: Vec<(u32, MemoryDraft)>,
        fact: Option<Fact>,
    ) -> Result<Vec<Remembered>, MemoryError> {
        let (mut facts, mut kept, mut versions) = (Vec::new(), Vec::new(), Vec::new());
        for (ordinal, draft) in drafts {
            let mut draft = draft.checked(self.clock.now())?;
            draft.content = cleaned(&draft.content);
            draft.tags.iter_mut().for_each(|tag| *tag = redact_text(tag));
            let (id, version) = match &draft.replaces {
                Some(replaced) => (replaced.id.clone(), replaced.version + 1),
                None => (self.new_id(ordinal), 1),
            };
            let written = MemoryWritten {
                memory_ref: draft.memory_ref.clone(),
                memory_id: id,
                version,
                node_id: Some(self.attempt.node.clone()),
                agent_id: self.agent.clone(),
                tags: draft.tags.clone(),
            };
            versions.push(written.remembered());
            kept.push((written.remembered(), draft));
            facts.push(Fact::Memory(written));
        }
        facts.extend(fact);
        let kept = Kept { memory: kept, files: Vec::new() };
        match self.fact_sender.send(self.attempt.clone(), facts, kept).await {
            Ok(()) => Ok(versions),
            Err(Unrecorded::Superseded(superseded)) => Err(superseded.into()),
            Err(Unrecorded::Moved) => {
                let moved = versions.pop().map_or_else(|| self.new_id(0), |version| version.id);
                Err(MemoryError::Moved(moved))
            }
        }
    }

    /// What the run sees under a name and what still stands there, oldest first.
    pub(super) async fn survey(
        &self,
        memory_ref: &str,
        most: usize,
    ) -> Result<Vec<MemoryRecord>, StoreError> {
        let Some(query) = self.query(memory_ref, most) else { return Ok(Vec::new()) };
        let mut found = self.journal.recall(&self.scope, &query).await?;
        found.retain(|record| record.superseded_by.is_none());
        found.reverse();
        Ok(found)
    }

    pub(super) fn run(&self) -> &RunId {
        &self.run
    }

    fn query(&self, memory_ref: &str, limit: usize) -> Option<MemoryQuery> {
        check_memory_ref(memory_ref).ok()?;
        let (scope_id, memory_ref) = (self.scope_id.clone(), memory_ref.to_owned());
        Some(self.seeing(Place::Exactly { scope_id, memory_ref }, limit))
    }

    fn seeing(&self, place: Place, limit: usize) -> MemoryQuery {
        let (family, anchors) = (self.family.clone(), self.anchors.clone());
        let seen = Seen { view: self.shared.get(), family, anchors };
        MemoryQuery { seen: Some(seen), ..MemoryQuery::new(place, self.clock.now(), limit) }
    }

    /// Follows from the place of the write, so that writing again after a crash is writing the same entry. What a run
    /// wrote there whose history this one goes on with is that entry.
    pub(super) fn new_id(&self, ordinal: u32) -> MemoryId {
        let own = self.id_of(&self.run, ordinal);
        if self.forebears.is_empty() {
            return own;
        }
        let written = self.shared.get().also;
        let mut earlier = self.forebears.iter().map(|run| self.id_of(run, ordinal));
        earlier.find(|id| written.iter().any(|known| known.id == *id)).unwrap_or(own)
    }

    fn id_of(&self, run: &RunId, ordinal: u32) -> MemoryId {
        let (visit, ordinal) = (self.attempt.visit.to_string(), ordinal.to_string());
        let tenant = self.scope.tenant.as_str();
        let parts = [tenant, run.as_str(), self.attempt.node.as_str(), &visit, &ordinal];
        let mut hash = Sha256::new();
        hash.update("callboard:memory:v1");
        for part in parts {
            hash.update([0]);
            hash.update(part);
        }
        let digest = hash.finalize();
        format!("mem_{}", BASE64_URL_SAFE_NO_PAD.encode(&digest[..ID_BYTES])).into()
    }
}

/// The journal's rows that belong to what was just decided.
pub(crate) fn rows_of(
    run: &Run,
    entries: &[Entry],
    drafts: &[(Remembered, MemoryDraft)],
) -> Vec<MemoryRow> {
    let memory = &run.birth().memory;
    let row = |entry: &Entry| {
        let Event::MemoryWritten(written) = &entry.event else { return None };
        let (_, draft) = drafts.iter().find(|(named, _)| *named == written.remembered())?;
        Some(MemoryRow {
            id: written.memory_id.clone(),
            expected: written.version - 1,
            scope_id: memory.scope_id.clone(),
            memory_ref: draft.memory_ref.clone(),
            family: memory.family.clone(),
            content: draft.content.clone(),
            tags: draft.tags.clone(),
            at: entry.at,
            expires_at: draft.lifetime.expires_at(entry.at),
            author: MemoryAuthor {
                run_id: Some(run.id().clone()),
                node_id: written.node_id.clone(),
                agent_id: written.agent_id.clone(),
                principal: None,
            },
            sources: draft.absorbs.iter().map(|absorbed| absorbed.id.clone()).collect(),
            due: draft.due.clone(),
            absorbs: draft.absorbs.clone(),
        })
    };
    entries.iter().filter_map(row).collect()
}
