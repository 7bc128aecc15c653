//! Runs: made, appended to, listed, claimed.

use std::sync::Arc;

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};

use callboard_core::{Birth, Entry, Head};
use callboard_protocol::{MemoryId, ProviderUsage, RosterId, RunId, Timestamp};

use super::effects::StoredEffect;
use super::{InMemoryStore, StoredRun, Tables, index, unknown};
use crate::concurrency::{AtWork, Queue};
use crate::effects::{Begun, EffectClaim, EffectKey, SettledEffect};
use crate::logs::{LogPosition, Window};
use crate::memory::{CrowdedMemory, MemoryQuery, MemoryRecord};
use crate::records::{DueRecords, Key, Kind, Record, RecordQuery, Within};
use crate::retention::Removable;
use crate::roster::{Spent, USAGE};
use crate::store::{
    Append, Batch, Chosen, Claim, ClaimRequest, Claimed, CounterChange, CounterQuery, Digest,
    Filter, Found, InboxFilter, InboxItem, Listed, NewRun, Opened, Outcome, Page, Realm, Row,
    Scope, Standing, Store, StoreError, Tenure, Turns,
};

#[async_trait]
impl Store for InMemoryStore {
    async fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        for (run, version) in self.tables().commit(batch)? {
            self.changes.announce(&run, version);
        }
        Ok(())
    }

    async fn get(&self, kind: Kind, key: &Key) -> Result<Option<Record>, StoreError> {
        Ok(self.tables().records.get(kind, key).cloned())
    }

    async fn scan(&self, query: &RecordQuery) -> Result<Vec<Record>, StoreError> {
        Ok(self.tables().records.scan(query))
    }

    async fn blob(&self, kind: Kind, key: &Key) -> Result<Option<Arc<[u8]>>, StoreError> {
        Ok(self.tables().records.blob(kind, key))
    }

    async fn due(&self, kind: Kind, at: Timestamp, most: usize) -> Result<DueRecords, StoreError> {
        Ok(self.tables().records.due(kind, at, most))
    }

    async fn open(&self, run: &RunId) -> Result<Option<Opened>, StoreError> {
        let tables = self.tables();
        let Some(run) = tables.runs.get(run) else { return Ok(None) };
        let definition = tables.definitions.get(&run.birth.definition).cloned().unwrap_or_default();
        Ok(Some(Opened { birth: run.birth.clone(), definition, entries: run.entries(0)? }))
    }

    async fn tail(&self, run: &RunId, version: u64) -> Result<Vec<Entry>, StoreError> {
        self.tables().runs.get(run).ok_or_else(|| unknown(run))?.entries(index(version))
    }

    async fn statuses(&self, runs: &[RunId]) -> Result<Vec<Option<Standing>>, StoreError> {
        let tables = self.tables();
        let standing =
            |run: &StoredRun| Standing { status: run.head.status, epoch: run.tenure.epoch };
        Ok(runs.iter().map(|run| tables.runs.get(run).map(standing)).collect())
    }

    async fn counters(&self, of: &CounterQuery) -> Result<Vec<(Key, String, f64)>, StoreError> {
        let tables = self.tables();
        let (found, most) = match of {
            CounterQuery::Of(key) => (tables.counters.range(key.clone()..=key.clone()), usize::MAX),
            CounterQuery::Below { key, most } => {
                let (first, last) = key.bounds_below();
                (tables.counters.range(Key::stored(first)..Key::stored(last)), *most)
            }
        };
        let named = found.flat_map(|(key, named)| {
            named.iter().map(|(name, value)| (key.clone(), (*name).to_owned(), *value))
        });
        Ok(named.take(most).collect())
    }

    async fn find(&self, scope: &Scope, run: &RunId) -> Result<Option<Found>, StoreError> {
        let tables = self.tables();
        Ok(tables.visible(scope, run).map(|run| Found {
            status: run.head.status,
            version: run.head.version,
            engine_version: run.birth.engine_version,
            born: run.birth.born(),
            snapshot: run
                .snapshot
                .as_ref()
                .filter(|(seen, _)| *seen == run.head.version)
                .map(|(_, text)| text.clone()),
        }))
    }

    async fn read(
        &self,
        scope: &Scope,
        run: &RunId,
        from: u64,
        limit: usize,
    ) -> Result<Option<Page>, StoreError> {
        let tables = self.tables();
        Ok(tables.visible(scope, run).map(|run| {
            let rows = run.rows.iter().enumerate().skip(index(from)).take(limit);
            Page {
                status: run.head.status,
                version: run.head.version,
                events: rows.map(|(sequence, row)| run.recorded(sequence, row)).collect(),
            }
        }))
    }

    async fn newest(&self) -> Result<LogPosition, StoreError> {
        Ok(LogPosition(self.tables().log.len() as u64))
    }

    async fn read_all(
        &self,
        within: &Within,
        after: LogPosition,
        most: u64,
    ) -> Result<Window, StoreError> {
        Ok(self.tables().read_all(within, after, most))
    }

    async fn list(&self, scope: &Scope, filter: &Filter) -> Result<Vec<Listed>, StoreError> {
        Ok(self.tables().list(scope, filter))
    }

    async fn inbox(
        &self,
        scope: &Scope,
        filter: &InboxFilter,
    ) -> Result<Vec<InboxItem>, StoreError> {
        Ok(self.tables().inbox(scope, filter))
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed, StoreError> {
        Ok(self.tables().claim(request))
    }

    async fn renew(&self, claims: &[Claim], until: Timestamp) -> Result<Vec<RunId>, StoreError> {
        let mut tables = self.tables();
        let mut lost = Vec::new();
        for claim in claims {
            match tables.held(claim) {
                Some(run) => run.set(run.tenure.held(claim.host.clone(), until)),
                None => lost.push(claim.run.clone()),
            }
        }
        Ok(lost)
    }

    async fn release(
        &self,
        claim: &Claim,
        seen: Option<u64>,
        wake_at: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        let mut tables = self.tables();
        // A claim that is no longer held has nothing to give back, which is what the caller wanted.
        let Some(run) = tables.held(claim) else { return Ok(false) };
        run.set(run.tenure.released(run.head.version, seen, wake_at));
        Ok(run.tenure.is_due_at_once())
    }

    async fn changed(&self, run: &RunId, version: u64) {
        let mut listener = self.changes.listen(run);
        let stored = self.tables().runs.get(run).map_or(0, |run| run.head.version);
        if stored <= version {
            listener.beyond(version).await;
        }
    }

    /// No secret at all, but another one for every purpose: a store for tests guards nothing.
    fn derive(&self, purpose: &str) -> [u8; 32] {
        Sha256::digest(purpose).into()
    }

    async fn find_effect(&self, key: &EffectKey) -> Result<Option<SettledEffect>, StoreError> {
        Ok(self.tables().effects.get(key).and_then(StoredEffect::settled))
    }

    async fn begin_effect(&self, effect: &EffectClaim) -> Result<Begun, StoreError> {
        self.tables().begin_effect(effect)
    }

    async fn settle_effect(
        &self,
        claim: &Claim,
        key: &EffectKey,
        outcome: Option<String>,
    ) -> Result<(), StoreError> {
        let mut tables = self.tables();
        tables.check_claim(claim)?;
        match outcome {
            Some(outcome) => {
                if let Some(effect) = tables.effects.get_mut(key) {
                    effect.outcome.get_or_insert(outcome);
                }
            }
            None => tables.effects.retain(|known, effect| known != key || effect.outcome.is_some()),
        }
        Ok(())
    }

    async fn memory_position(&self, _: &Realm) -> Result<u64, StoreError> {
        Ok(self.tables().journal.position())
    }

    async fn recall(
        &self,
        scope: &Scope,
        query: &MemoryQuery,
    ) -> Result<Vec<MemoryRecord>, StoreError> {
        Ok(self.tables().journal.recall(scope, query))
    }

    async fn memory_history(
        &self,
        scope: &Scope,
        id: &MemoryId,
    ) -> Result<Vec<MemoryRecord>, StoreError> {
        Ok(self.tables().journal.history(scope, id))
    }

    async fn crowded_memory(&self, most: u64) -> Result<Vec<CrowdedMemory>, StoreError> {
        Ok(self.tables().journal.crowded(most))
    }

    async fn remove_ended(
        &self,
        removable: &Removable,
        read_until: Option<LogPosition>,
        limit: usize,
    ) -> Result<Vec<RunId>, StoreError> {
        Ok(self.tables().remove_ended(removable, read_until, limit))
    }

    async fn spent(
        &self,
        scope: &Scope,
        member: &RosterId,
        since: Timestamp,
    ) -> Result<Spent, StoreError> {
        let tables = self.tables();
        let runs = tables.runs.values().filter(|run| {
            scope.sees(&run.birth)
                && run.member() == Some(member)
                && run.birth.created_at >= since
                && !run.birth.is_replay()
        });
        let usages = runs.flat_map(|run| run.rows.iter().filter(|row| row.kind == USAGE));
        let mut spent = Spent::default();
        for row in usages {
            let usage: Result<ProviderUsage, _> = serde_json::from_str(&row.payload);
            spent.add(usage.map(|usage| Spent::of(&usage)).unwrap_or_default());
        }
        Ok(spent)
    }

    async fn outcome(&self, key: &Digest, at: Timestamp) -> Result<Option<Outcome>, StoreError> {
        Ok(self.tables().outcomes.get(key).filter(|outcome| outcome.expires_at > at).cloned())
    }
}

impl Tables {
    pub(super) fn visible(&self, scope: &Scope, run: &RunId) -> Option<&StoredRun> {
        self.runs.get(run).filter(|run| scope.sees(&run.birth))
    }

    pub(super) fn refuse_repetition(
        &self,
        outcome: Option<&Outcome>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let done = outcome
            .and_then(|outcome| self.outcomes.get(&outcome.key))
            .filter(|done| done.expires_at > at);
        done.map_or(Ok(()), |done| Err(StoreError::AlreadyDone(Box::new(done.clone()))))
    }

    fn refuse_busy_scope(&self, birth: &Birth) -> Result<(), StoreError> {
        let active = self.runs.values().find(|run| {
            !run.head.status.is_terminal()
                && birth.scope_id.is_some()
                && run.birth.scope_id == birth.scope_id
                && run.birth.owner.tenant == birth.owner.tenant
                && run.birth.test == birth.test
        });
        active.map_or(Ok(()), |run| Err(StoreError::ScopeBusy { active: run.birth.run_id.clone() }))
    }

    fn keep(&mut self, outcome: Option<Outcome>) {
        self.outcomes.extend(outcome.map(|outcome| (outcome.key, outcome)));
    }

    /// All of it or nothing: whatever could refuse is asked before anything is changed. Answers the runs whose logs
    /// have grown, with how many events they hold now.
    pub(super) fn commit(&mut self, batch: Batch) -> Result<Vec<(RunId, u64)>, StoreError> {
        let Batch { births, appends, records, memory, claims, counters, outcome, facts: _ } = batch;
        if let Some((outcome, at)) = &outcome {
            self.refuse_repetition(Some(outcome), *at)?;
        }
        births.iter().try_for_each(|new| self.check_birth(new))?;
        appends.iter().try_for_each(|append| self.check_append(append))?;
        claims.iter().try_for_each(|claim| self.check_claim(claim))?;
        self.records.check(&records)?;
        self.journal.check(&memory)?;
        births.into_iter().for_each(|new| self.bear(new));
        let grown = appends.into_iter().map(|append| self.append(append)).collect();
        self.records.apply(records);
        self.journal.apply(memory);
        for CounterChange { key, name, add } in counters {
            *self.counters.entry(key).or_default().entry(name).or_default() += add;
        }
        self.keep(outcome.map(|(outcome, _)| outcome));
        Ok(grown)
    }

    fn held(&mut self, claim: &Claim) -> Option<&mut StoredRun> {
        self.runs.get_mut(&claim.run).filter(|run| run.tenure.is_held_by(claim))
    }

    pub(super) fn check_claim(&self, claim: &Claim) -> Result<(), StoreError> {
        let is_held = self.runs.get(&claim.run).is_some_and(|run| run.tenure.is_held_by(claim));
        if is_held { Ok(()) } else { Err(StoreError::LeaseLost { run: claim.run.clone() }) }
    }

    fn check_birth(&self, new: &NewRun) -> Result<(), StoreError> {
        self.refuse_repetition(new.outcome.as_ref(), new.birth.created_at)?;
        if self.runs.contains_key(&new.birth.run_id) {
            return Err(StoreError::Conflict { run: new.birth.run_id.clone() });
        }
        if new.exclusive {
            self.refuse_busy_scope(&new.birth)?;
        }
        match &new.birth.fork {
            Some(fork) if !self.runs.contains_key(&fork.source) => Err(unknown(&fork.source)),
            _ => Ok(()),
        }
    }

    fn bear(&mut self, new: NewRun) {
        let rows = self.history(&new.birth);
        self.definitions.entry(new.birth.definition.clone()).or_insert(new.definition);
        self.keep(new.outcome);
        let tenure = Tenure { wake_at: new.head.wake_at, ..Tenure::default() };
        let mut run = StoredRun {
            ordinal: self.runs.len(),
            birth: new.birth,
            head: new.head,
            rows,
            tenure,
            snapshot: None,
            interrupts: Vec::new(),
        };
        if let Some(lease) = new.lease {
            let first = Tenure { epoch: Claim::FIRST_EPOCH, ..Tenure::default() };
            run.set(first.held(lease.host, lease.until));
        }
        self.runs.insert(run.birth.run_id.clone(), run);
    }

    /// What a fork takes over. A database would share it; here it is copied.
    fn history(&self, birth: &Birth) -> Vec<Row> {
        let fork = birth.fork.as_ref();
        let source = fork.and_then(|fork| Some((self.runs.get(&fork.source)?, fork.from)));
        source.map_or_else(Vec::new, |(source, from)| {
            source.rows.iter().take(index(from)).cloned().collect()
        })
    }

    fn check_append(&self, append: &Append) -> Result<(), StoreError> {
        let Append { run: id, expected, fence, head, outcome, children, .. } = append;
        self.refuse_repetition(outcome.as_ref(), head.updated_at)?;
        let run = self.runs.get(id).ok_or_else(|| unknown(id))?;
        if fence.as_ref().is_some_and(|fence| !run.tenure.is_held_by(&fence.claim)) {
            return Err(StoreError::LeaseLost { run: id.clone() });
        }
        if run.head.version != *expected {
            return Err(StoreError::Conflict { run: id.clone() });
        }
        children.iter().try_for_each(|child| self.check_birth(child))
    }

    /// Appends what was checked; answers the log's new version.
    fn append(&mut self, append: Append) -> (RunId, u64) {
        let Append { run: id, expected, fence, rows, head, .. } = append;
        append.children.into_iter().for_each(|child| self.bear(child));
        let Some(run) = self.runs.get_mut(&id) else { return (id, expected) };
        run.rows.extend(rows);
        let version = run.rows.len() as u64;
        self.log.extend((expected..version).map(|sequence| (id.clone(), sequence)));
        run.head = Head { version, ..head };
        run.set(run.tenure.after_append(&head, fence.as_ref()));
        if let Some(snapshot) = append.snapshot {
            run.snapshot = Some((version, snapshot));
        }
        if let Some(interrupts) = append.interrupts {
            run.interrupts = interrupts;
        }
        self.keep(append.outcome);
        if let Some(waiting) = append.wakes.and_then(|waiting| self.runs.get_mut(&waiting)) {
            waiting.set(waiting.tenure.with_wake_requested(waiting.head.status));
        }
        (id, version)
    }

    fn list(&self, scope: &Scope, filter: &Filter) -> Vec<Listed> {
        let before =
            filter.before.as_ref().map(|run| self.visible(scope, run).map(StoredRun::place));
        let mut runs: Vec<&StoredRun> = self
            .runs
            .values()
            .filter(|run| scope.sees(&run.birth) && run.passes(filter))
            .filter(|run| {
                before.is_none_or(|before| before.is_some_and(|before| run.place() < before))
            })
            .collect();
        runs.sort_by_key(|run| std::cmp::Reverse(run.place()));
        runs.into_iter().take(filter.limit).map(StoredRun::listed).collect()
    }

    fn claim(&mut self, request: &ClaimRequest) -> Claimed {
        let next = self
            .runs
            .values()
            .filter_map(|run| run.head.wake_at)
            .filter(|wake_at| *wake_at > request.at)
            .min();
        let held = self.runs.values().filter(|run| run.tenure.lease_until.is_some());
        let at_work = AtWork::of(held.map(|run| (Queue::of(&run.birth), 1)));
        let mut due: Vec<&mut StoredRun> = self
            .runs
            .values_mut()
            .filter(|run| run.is_claimable(request.at, request.lapsed_at))
            .collect();
        due.sort_by_key(|run| (run.head.wake_at, run.ordinal));
        let mut turns = Turns::new(request, at_work);
        for run in due {
            turns.offer(run.due(), run);
        }
        let Chosen { runs, has_more, held_back } = turns.chosen();
        let claims = runs.into_iter().map(|(tenant, run)| {
            let (claim, tenure) = run.tenure.claimed(run.birth.run_id.clone(), request);
            run.set(tenure);
            (claim, tenant)
        });
        let (claims, tenants) = claims.unzip();
        Claimed { claims, tenants, has_more, next, held_back }
    }
}
