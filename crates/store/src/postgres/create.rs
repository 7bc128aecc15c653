//! Creating runs: birth records, heads, tags and whatever must be true with them, as one statement for all.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use callboard_core::Birth;
use callboard_engine::{Claim, Outcome, Queue, StoreError};
use callboard_protocol::RunId;

use super::fault::Fault;
use super::latch;
use super::outcome::{KEEP, refuse_known};
use super::rows::{millis, signed, value};
use super::session::{Params, Session};
use super::text::{self, stored};
use crate::sealed::{SealedRun, unknown_run};

/// Digests of definitions that were written: their text is not sent again.
#[derive(Default)]
pub(super) struct KnownDefinitions(Mutex<HashSet<String>>);

/// Most hosts have fewer; where there are more, some are sent again.
const MOST_KNOWN: usize = 4096;

impl KnownDefinitions {
    pub(super) fn forget(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes those that are not known to be there. In a transaction of its own: what is known is committed.
    pub(super) async fn write(&self, session: &Session, runs: &[&SealedRun]) -> Result<(), Fault> {
        let mut unknown: BTreeMap<&str, &Arc<str>> = BTreeMap::new();
        {
            let known = self.lock();
            let runs = runs.iter().filter(|run| !known.contains(&run.birth.definition));
            unknown.extend(runs.map(|run| (run.birth.definition.as_str(), &run.definition)));
        }
        if unknown.is_empty() {
            return Ok(());
        }
        let digests: Vec<&str> = unknown.keys().copied().collect();
        let sources: Vec<Cow<'_, str>> = unknown.values().map(|source| stored(source)).collect();
        let sql = "INSERT INTO definitions (digest, source) SELECT * FROM unnest($1::text[], $2::text[])
             ON CONFLICT (digest) DO UPDATE SET unused_since = NULL WHERE definitions.unused_since IS NOT NULL";
        session.execute(sql, &[&digests, &sources]).await?;
        let mut known = self.lock();
        if known.len() + digests.len() > MOST_KNOWN {
            known.clear();
        }
        known.extend(digests.into_iter().map(str::to_owned));
        Ok(())
    }
}

fn statement() -> String {
    format!(
        "WITH given AS MATERIALIZED (SELECT * FROM unnest(
             $1::text[], $2::text[], $3::text[], $4::boolean[], $5::text[], $6::text[], $7::integer[], $8::integer[],
             $9::bigint[], $10::bigint[], $11::text[], $12::bigint[], $13::bigint[], $14::text[], $15::bigint[],
             $16::bigint[], $17::bigint[], $18::bigint[], $19::boolean[], $20::text[], $21::text[], $22::text[],
             $23::bigint[], $24::text[], $25::text[], $26::bytea[], $27::bytea[], $28::text[], $29::bytea[],
             $30::bytea[], $31::integer[], $32::text[], $33::bigint[], $34::text[], $35::integer[]
         ) AS given (run_id, tenant, workspace, test, workflow_id, scope_id, engine_version, stamped_version,
             created_at, updated_at, status, version, wake_at, holder, epoch, lease_until, prefix_of, prefix_length,
             is_replay, roster_id, trigger_source, charged_to, forked_from, parent, record, sealed_inputs,
             sealed_delivery, digest, key, request, outcome_status, body, expires_at, queue_agents, priority)),
         kept AS (
             INSERT INTO outcomes (key, request, status, body, made_at, expires_at)
             SELECT key, request, outcome_status, body, created_at, expires_at FROM given
             WHERE key IS NOT NULL ORDER BY key
             {KEEP} RETURNING key),
         born AS (
             INSERT INTO runs (run_id, tenant, workspace, test, workflow_id, scope_id, engine_version,
                 stamped_version, created_at, updated_at, status, version, wake_at, holder, epoch, lease_until,
                 prefix_of, prefix_length, is_replay, roster_id, trigger_source, charged_to, forked_from, parent,
                 agents, priority)
             SELECT run_id, tenant, workspace, test, workflow_id, scope_id, engine_version, stamped_version,
                 created_at, updated_at, status, version, wake_at, holder, epoch, lease_until, prefix_of,
                 prefix_length, is_replay, roster_id, trigger_source, charged_to, forked_from, parent, queue_agents,
                 priority
             FROM given WHERE key IS NULL OR key IN (SELECT key FROM kept)
             RETURNING id, run_id, tenant, test, created_at),
         recorded AS (
             INSERT INTO births (run, record, sealed_inputs, sealed_delivery, definition)
             SELECT born.id, record, sealed_inputs, sealed_delivery,
                 (SELECT definitions.id FROM definitions WHERE definitions.digest = given.digest)
             FROM born JOIN given USING (run_id)),
         tagged AS (
             INSERT INTO run_tags (run, place, tag, tenant, test, created_at)
             SELECT born.id, tags.place, tags.tag, born.tenant, born.test, born.created_at
             FROM unnest($36::text[], $37::integer[], $38::text[]) AS tags (run_id, place, tag)
             JOIN born USING (run_id)),
         performed AS (
             INSERT INTO run_agents (run, agent, tenant, test, created_at)
             SELECT born.id, agents.agent, born.tenant, born.test, born.created_at
             FROM unnest($39::text[], $40::text[]) AS agents (run_id, agent) JOIN born USING (run_id))
         SELECT run_id FROM born"
    )
}

/// What one run is refused with; none for one that began.
pub(super) type Refusals = Vec<Option<StoreError>>;

/// Creates runs whose definitions are there; answers who was refused, which is only for an outcome that is known. A name
/// that is taken fails the statement as a whole.
pub(super) async fn create(session: &Session, runs: &[&SealedRun]) -> Result<Refusals, Fault> {
    let mut prefixes = Vec::with_capacity(runs.len());
    for run in runs {
        prefixes.push(prefix(session, &run.birth).await?);
    }
    let born = insert(session, runs, &prefixes).await?;
    let mut refusals = Refusals::with_capacity(runs.len());
    for run in runs {
        let is_born = born.contains(&*stored(run.birth.run_id.as_str()));
        refusals.push(match (&run.outcome, is_born) {
            (_, true) => None,
            (Some(outcome), false) => {
                let known = refuse_known(session, outcome, run.birth.created_at).await;
                Some(known.err().map_or_else(
                    || StoreError::Unavailable("an outcome is being replaced".to_owned()),
                    StoreError::from,
                ))
            }
            (None, false) => Some(StoreError::Conflict { run: run.birth.run_id.clone() }),
        });
    }
    Ok(refusals)
}

/// What stands in tables of its own beside a run, by the run's name.
#[derive(Default)]
struct Named<'a> {
    tagged: Vec<Cow<'a, str>>,
    places: Vec<i32>,
    tags: Vec<Cow<'a, str>>,
    performed: Vec<Cow<'a, str>>,
    agents: Vec<Cow<'a, str>>,
}

impl<'a> Named<'a> {
    fn of(runs: &[&'a SealedRun]) -> Self {
        let mut named = Self::default();
        for birth in runs.iter().map(|run| &run.birth) {
            for (place, tag) in (0..).zip(&birth.tags) {
                named.tagged.push(stored(birth.run_id.as_str()));
                named.places.push(place);
                named.tags.push(stored(tag));
            }
            for agent in birth.agent_ids() {
                named.performed.push(stored(birth.run_id.as_str()));
                named.agents.push(stored(agent));
            }
        }
        named
    }
}

/// One column of all runs.
macro_rules! each {
    ($runs:ident, |$run:ident| $value:expr) => {
        &$runs.iter().map(|$run| $value).collect::<Vec<_>>()
    };
}

/// Answers which runs began, by their stored names.
async fn insert(
    session: &Session,
    runs: &[&SealedRun],
    prefixes: &[Option<Prefix>],
) -> Result<HashSet<String>, Fault> {
    let births: Vec<&Birth> = runs.iter().map(|run| &run.birth).collect();
    let outcomes: Vec<Option<&Outcome>> = runs.iter().map(|run| run.outcome.as_ref()).collect();
    let until = |run: &SealedRun| run.lease.as_ref().map(|lease| lease.until);
    let named = Named::of(runs);
    let params: Params<'_> = &[
        each!(births, |it| stored(it.run_id.as_str())),
        each!(births, |it| stored(it.owner.tenant.as_str())),
        each!(births, |it| it.owner.workspace.as_ref().map(|it| stored(it.as_str()))),
        each!(births, |it| it.test),
        each!(births, |it| stored(it.workflow_id.as_str())),
        each!(births, |it| it.scope_id.as_deref().map(stored)),
        each!(births, |it| narrow(it.engine_version)),
        each!(births, |it| narrow(it.stamped_version())),
        each!(births, |it| it.created_at.as_millis()),
        each!(runs, |run| run.head.updated_at.as_millis()),
        each!(runs, |run| run.head.status.as_str()),
        each!(runs, |run| signed(run.head.version)),
        each!(runs, |run| millis(until(run).or(run.head.wake_at))),
        each!(runs, |run| run.lease.as_ref().map(|lease| stored(lease.host.as_str()))),
        each!(runs, |run| if run.lease.is_some() { signed(Claim::FIRST_EPOCH) } else { 0 }),
        each!(runs, |run| millis(until(run))),
        each!(prefixes, |prefix| prefix.map(|prefix| prefix.of)),
        each!(prefixes, |prefix| prefix.map_or(0, |prefix| prefix.length)),
        each!(births, |it| it.is_replay()),
        each!(births, |it| it.attribution.as_ref().map(|it| stored(it.roster_id.as_str()))),
        each!(births, |it| it.attribution.as_ref().map(|it| stored(&it.trigger_source))),
        each!(births, |it| it.charged_to.as_ref().map(|it| stored(it.as_str()))),
        each!(prefixes, |prefix| prefix.map(|prefix| prefix.source)),
        each!(births, |it| it.parent.as_ref().map(|it| stored(it.run_id.as_str()))),
        each!(runs, |run| run.record.as_str()),
        each!(runs, |run| run.sealed_inputs.as_deref()),
        each!(runs, |run| run.sealed_delivery.as_deref()),
        each!(births, |it| it.definition.as_str()),
        each!(outcomes, |it| it.map(|it| it.key.as_slice())),
        each!(outcomes, |it| it.map(|it| it.request.as_slice())),
        each!(outcomes, |it| it.map(|it| i32::from(it.status))),
        each!(outcomes, |it| it.map(|it| stored(&it.body))),
        each!(outcomes, |it| it.map(|it| it.expires_at.as_millis())),
        each!(births, |it| Queue::agents_of(it)),
        each!(births, |it| it.rank()),
        &named.tagged,
        &named.places,
        &named.tags,
        &named.performed,
        &named.agents,
    ];
    let rows = session.rows(&statement(), params).await?;
    rows.iter().map(|row| value(row, 0)).collect()
}

/// Engine versions are small.
fn narrow(version: u32) -> i32 {
    i32::try_from(version).unwrap_or(i32::MAX)
}

/// The error of a creation that failed as a whole, where it failed for a name that is taken.
pub(super) fn refusal(fault: Fault, runs: &[&SealedRun]) -> Fault {
    let taken = match fault.taken() {
        Some(("runs_run_id", detail)) => {
            let is_named = |run: &&&SealedRun| {
                detail.contains(&format!("=({})", stored(run.birth.run_id.as_str())))
            };
            let named = runs.iter().find(is_named).or(runs.first());
            named.map(|run| run.birth.run_id.clone())
        }
        _ => None,
    };
    taken.map_or(fault, |run| StoreError::Conflict { run }.into())
}

/// Where a fork's log begins.
#[derive(Clone, Copy)]
struct Prefix {
    /// The run that was forked.
    source: i64,
    /// The run that holds the events.
    of: i64,
    length: i64,
}

/// The run whose log a fork's begins with, and how much of it. One that lies within its source's own
/// prefix is read from where that comes from, so that a fork of a fork costs no further step.
async fn prefix(session: &Session, birth: &Birth) -> Result<Option<Prefix>, Fault> {
    let Some(fork) = &birth.fork else { return Ok(None) };
    let length = signed(fork.from);
    // Nobody removes the source before the fork is there.
    let lock = "SELECT 1 FROM runs WHERE run_id = $1 FOR NO KEY UPDATE";
    session.rows(lock, &[&stored(fork.source.as_str())]).await?;
    let sql = "WITH RECURSIVE above (id, prefix_of, prefix_length, depth) AS (
             SELECT id, prefix_of, prefix_length, 0 FROM runs WHERE run_id = $1
             UNION ALL
             SELECT runs.id, runs.prefix_of, runs.prefix_length, above.depth + 1
             FROM above JOIN runs ON runs.id = above.prefix_of WHERE $2 <= above.prefix_length)
         SELECT id FROM above ORDER BY depth";
    let rows = session.rows(sql, &[&stored(fork.source.as_str()), &length]).await?;
    let (Some(source), Some(of)) = (rows.first(), rows.last()) else {
        return Err(unknown_run(&fork.source).into());
    };
    Ok(Some(Prefix { source: value(source, 0)?, of: value(of, 0)?, length }))
}

/// Runs that must be alone are created one after the other. One that did not ask for it comes as if it came after.
pub(super) async fn refuse_busy_scope(session: &Session, birth: &Birth) -> Result<(), Fault> {
    let Some(scope) = &birth.scope_id else { return Ok(()) };
    let tenant = birth.owner.tenant.as_str();
    let mode = if birth.test { "test" } else { "live" };
    latch::hold(session, &["scope", tenant, mode, scope]).await?;
    let sql = "SELECT run_id FROM runs
         WHERE tenant = $1 AND test = $2 AND scope_id = $3 AND scope_id IS NOT NULL AND ended_at IS NULL LIMIT 1";
    match session.row(sql, &[&stored(tenant), &birth.test, &stored(scope)]).await? {
        Some(row) => {
            let active = RunId::from(text::given(value(&row, 0)?));
            Err(StoreError::ScopeBusy { active }.into())
        }
        None => Ok(()),
    }
}
