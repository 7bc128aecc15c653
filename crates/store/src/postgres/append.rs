//! Appending to logs: events, heads, snapshots and the fate of leases, as one statement for all.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::Value;

use callboard_engine::{Append, Claim, StoreError, Tenure, USAGE};
use callboard_protocol::{HostId, ProviderUsage, RunId, RunStatus};

use super::create::Refusals;
use super::fault::Fault;
use super::rows::{millis, optional_name, optional_time, signed, unsigned, value};
use super::session::Session;
use super::text::stored;
use crate::sealed::{SealedAppend, cause_text, unknown_run};

/// The comparison of version and claim is in the update that moves the head: whoever is not in `moved` was refused, and
/// nothing of it is written.
const APPEND: &str = "WITH given AS MATERIALIZED (SELECT * FROM unnest(
         $1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::text[], $7::bigint[], $8::bigint[],
         $9::text[], $10::boolean[], $11::bigint[], $12::text[], $13::bigint[], $14::text[], $15::text[],
         $16::text[], $17::text[], $18::text[]
     ) WITH ORDINALITY AS given (run_id, expected, version, claimed_by, epoch, status, updated_at, ended_at, ended_as,
         leaves_holder, wake_at, holder, lease_until, snapshot, child_run, child_node, retrying, wakes, n)),
     moved AS (
         UPDATE runs SET status = given.status, version = given.version, updated_at = given.updated_at,
             ended_at = given.ended_at, ended_as = given.ended_as,
             priority = CASE WHEN given.status = 'cancelling' THEN 1000 ELSE runs.priority END,
             wake_at = CASE WHEN given.leaves_holder AND runs.holder IS NOT NULL
                 THEN runs.wake_at ELSE given.wake_at END,
             holder = CASE WHEN given.leaves_holder THEN runs.holder ELSE given.holder END,
             lease_until = CASE WHEN given.leaves_holder AND runs.holder IS NOT NULL
                 THEN runs.lease_until ELSE given.lease_until END
         FROM given
         WHERE runs.run_id = given.run_id AND runs.version = given.expected
             AND (given.epoch IS NULL OR (runs.epoch = given.epoch AND runs.holder = given.claimed_by
                 AND runs.lease_until IS NOT NULL))
         RETURNING runs.id, runs.tenant, runs.test, runs.workspace, given.n),
     logged AS (
         INSERT INTO events (run, sequence, at, kind, node, cause, payload, sealed, input_tokens, output_tokens,
             cost_usd)
         SELECT moved.id, rows.sequence, rows.at, rows.kind, rows.node, rows.cause, rows.payload, rows.sealed,
             rows.input_tokens, rows.output_tokens, rows.cost_usd
         FROM unnest($19::bigint[], $20::bigint[], $21::bigint[], $22::text[], $23::text[], $24::text[], $25::text[],
             $26::bytea[], $27::bigint[], $28::bigint[], $29::double precision[])
             AS rows (n, sequence, at, kind, node, cause, payload, sealed, input_tokens, output_tokens, cost_usd)
         JOIN moved USING (n)),
     kept AS (
         INSERT INTO snapshots (run, version, body, child_run, child_node, retrying)
         SELECT moved.id, version, snapshot, child_run, child_node, retrying FROM moved JOIN given USING (n)
         WHERE snapshot IS NOT NULL
         ON CONFLICT (run) DO UPDATE SET version = excluded.version, body = excluded.body,
             child_run = excluded.child_run, child_node = excluded.child_node, retrying = excluded.retrying),
     unplaced AS (
         INSERT INTO log_pending (run, first, count, tenant, test, workspace)
         SELECT moved.id, expected, version - expected, tenant, test, workspace FROM moved JOIN given USING (n)
         WHERE version > expected ORDER BY n),
     woken AS (
         INSERT INTO wakes (run)
         SELECT waiting.id FROM moved JOIN given USING (n) JOIN runs AS waiting ON waiting.run_id = given.wakes
         WHERE waiting.ended_at IS NULL),
     over AS (
         DELETE FROM wakes USING moved, given
         WHERE given.n = moved.n AND given.ended_at IS NOT NULL AND wakes.run = moved.id)
     SELECT n FROM moved";

/// Appends to logs of different runs; answers who was refused and why.
pub(super) async fn append(
    session: &Session,
    appends: &[&SealedAppend],
) -> Result<Refusals, Fault> {
    let moved = update(session, appends).await?;
    let is_refused = |n: usize| !moved.contains(&signed(n as u64 + 1));
    let refused: Vec<&Append> =
        (0..).zip(appends).filter(|(n, _)| is_refused(*n)).map(|(_, it)| &it.append).collect();
    let mut why = reasons(session, &refused).await?.into_iter();
    Ok((0..appends.len()).map(|n| if is_refused(n) { why.next() } else { None }).collect())
}

/// Why appends were refused, asked of those alone. The lease comes before the version.
async fn reasons(session: &Session, refused: &[&Append]) -> Result<Vec<StoreError>, Fault> {
    if refused.is_empty() {
        return Ok(Vec::new());
    }
    let runs: Vec<&RunId> = refused.iter().map(|append| &append.run).collect();
    let standing = tenures(session, &runs, Lock::None).await?;
    let reason = |append: &&Append| {
        let run = append.run.clone();
        let Some(tenure) = standing.get(run.as_str()) else { return unknown_run(&run) };
        match &append.fence {
            Some(fence) if !tenure.is_held_by(&fence.claim) => StoreError::LeaseLost { run },
            _ => StoreError::Conflict { run },
        }
    };
    Ok(refused.iter().map(reason).collect())
}

/// Whether a look at runs keeps others from changing them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    None,
    UntilCommit,
}

/// Who holds runs, by their names.
async fn tenures(
    session: &Session,
    runs: &[&RunId],
    lock: Lock,
) -> Result<HashMap<String, Tenure>, Fault> {
    let names: Vec<Cow<'_, str>> = runs.iter().map(|run| stored(run.as_str())).collect();
    let mut sql =
        "SELECT run_id, epoch, holder, lease_until, wake_at FROM runs WHERE run_id = ANY($1)"
            .to_owned();
    if lock == Lock::UntilCommit {
        sql.push_str(" ORDER BY id FOR NO KEY UPDATE");
    }
    let mut found = HashMap::new();
    for row in session.rows(&sql, &[&names]).await? {
        let tenure = Tenure {
            epoch: unsigned(&row, 1)?,
            holder: optional_name(&row, 2)?.map(HostId::from),
            lease_until: optional_time(&row, 3)?,
            wake_at: optional_time(&row, 4)?,
            is_wake_requested: false,
        };
        found.insert(super::rows::name(&row, 0)?, tenure);
    }
    Ok(found)
}

/// Refuses where another process, or none, holds a run by now; nobody takes one over until the commit.
pub(super) async fn check_claims(session: &Session, claims: &[Claim]) -> Result<(), Fault> {
    if claims.is_empty() {
        return Ok(());
    }
    let runs: Vec<&RunId> = claims.iter().map(|claim| &claim.run).collect();
    let standing = tenures(session, &runs, Lock::UntilCommit).await?;
    let is_held = |claim: &&Claim| {
        standing.get(claim.run.as_str()).is_some_and(|tenure| tenure.is_held_by(claim))
    };
    match claims.iter().find(|claim| !is_held(claim)) {
        Some(lost) => Err(StoreError::LeaseLost { run: lost.run.clone() }.into()),
        None => Ok(()),
    }
}

/// Who holds the run afterwards, as the engine says it. From outside a claim, a holder stays what it is: these are the
/// values for a run that nobody holds.
fn tenure_after(append: &Append) -> Tenure {
    let before = match &append.fence {
        None => Tenure::default(),
        Some(fence) => Tenure {
            epoch: fence.claim.epoch,
            holder: Some(fence.claim.host.clone()),
            ..Tenure::default()
        },
    };
    before.after_append(&append.head, append.fence.as_ref())
}

/// Answers the places of those that were not refused, from one on.
async fn update(session: &Session, appends: &[&SealedAppend]) -> Result<HashSet<i64>, Fault> {
    macro_rules! each {
        (|$it:ident| $value:expr) => {
            &appends.iter().map(|sealed| &sealed.append).map(|$it| $value).collect::<Vec<_>>()
        };
    }
    let tenures: Vec<Tenure> = appends.iter().map(|sealed| tenure_after(&sealed.append)).collect();
    let waits: Vec<Waited> = appends.iter().map(|sealed| Waited::of(&sealed.append)).collect();
    let versions: Vec<i64> = appends.iter().map(|sealed| signed(sealed.version())).collect();
    let ended = |it: &Append| it.head.status.is_terminal();
    let events = Events::of(appends);
    let rows = session
        .rows(
            APPEND,
            &[
                each!(|it| stored(it.run.as_str())),
                each!(|it| signed(it.expected)),
                &versions,
                each!(|it| it.fence.as_ref().map(|fence| stored(fence.claim.host.as_str()))),
                each!(|it| it.fence.as_ref().map(|fence| signed(fence.claim.epoch))),
                each!(|it| it.head.status.as_str()),
                each!(|it| it.head.updated_at.as_millis()),
                each!(|it| ended(it).then(|| it.head.updated_at.as_millis())),
                each!(|it| ended(it).then(|| it.head.status.as_str())),
                each!(|it| it.fence.is_none() && !ended(it)),
                &tenures.iter().map(|it| millis(it.wake_at)).collect::<Vec<_>>(),
                &tenures
                    .iter()
                    .map(|it| it.holder.as_ref().map(|host| stored(host.as_str())))
                    .collect::<Vec<_>>(),
                &tenures.iter().map(|it| millis(it.lease_until)).collect::<Vec<_>>(),
                each!(|it| it.snapshot.as_deref().map(stored)),
                &waits.iter().map(|it| it.child_run.as_deref().map(stored)).collect::<Vec<_>>(),
                &waits.iter().map(|it| it.child_node.as_deref().map(stored)).collect::<Vec<_>>(),
                &waits.iter().map(|it| it.retrying.as_deref().map(stored)).collect::<Vec<_>>(),
                each!(|it| it.wakes.as_ref().map(|run| stored(run.as_str()))),
                &events.append,
                &events.sequence,
                &events.at,
                &events.kind,
                &events.node,
                &events.cause,
                &events.payload,
                &events.sealed,
                &events.input_tokens,
                &events.output_tokens,
                &events.cost_usd,
            ],
        )
        .await?;
    rows.iter().map(|row| value(row, 0)).collect()
}

/// The events of all appends, column by column.
#[derive(Default)]
struct Events<'a> {
    /// The place of the append, from one on.
    append: Vec<i64>,
    sequence: Vec<i64>,
    at: Vec<i64>,
    kind: Vec<Cow<'a, str>>,
    node: Vec<Option<Cow<'a, str>>>,
    cause: Vec<Option<String>>,
    payload: Vec<&'a str>,
    sealed: Vec<Option<&'a [u8]>>,
    input_tokens: Vec<Option<i64>>,
    output_tokens: Vec<Option<i64>>,
    cost_usd: Vec<Option<f64>>,
}

impl<'a> Events<'a> {
    fn of(appends: &[&'a SealedAppend]) -> Self {
        let mut events = Self::default();
        for (n, SealedAppend { append, sealed, .. }) in (1..).zip(appends) {
            for ((row, sealed), sequence) in append.rows.iter().zip(sealed).zip(append.expected..) {
                let usage = (row.kind == USAGE)
                    .then(|| serde_json::from_str::<ProviderUsage>(&row.payload).ok())
                    .flatten();
                events.append.push(n);
                events.sequence.push(signed(sequence));
                events.at.push(row.at.as_millis());
                events.kind.push(stored(&row.kind));
                events.node.push(row.node.as_ref().map(|node| stored(node.as_str())));
                let cause = row.cause.as_ref().map(cause_text);
                events.cause.push(cause.map(|cause| stored(&cause).into_owned()));
                events.payload.push(&row.payload);
                events.sealed.push(sealed.as_deref());
                events.input_tokens.push(usage.as_ref().map(|usage| signed(usage.input_tokens)));
                events.output_tokens.push(usage.as_ref().map(|usage| signed(usage.output_tokens)));
                events.cost_usd.push(usage.and_then(|usage| usage.cost_estimate_usd));
            }
        }
        events
    }
}

/// What a run at rest waits for, as its fold says it.
#[derive(Default)]
pub(super) struct Waited {
    pub(super) child_run: Option<String>,
    pub(super) child_node: Option<String>,
    pub(super) retrying: Option<String>,
}

/// The parts of a fold that lists look at.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Folded {
    #[serde(default)]
    node_states: serde_json::Map<String, Value>,
    #[serde(default)]
    child_runs: Vec<Value>,
}

impl Waited {
    fn of(append: &Append) -> Self {
        let is_shown = matches!(append.head.status, RunStatus::Running | RunStatus::Cancelling);
        let snapshot = append.snapshot.as_deref().filter(|_| is_shown);
        snapshot.map(Self::in_fold).unwrap_or_default()
    }

    /// As the fold of a run says it that has not come to its end.
    pub(super) fn in_fold(snapshot: &str) -> Self {
        let Ok(folded) = serde_json::from_str::<Folded>(snapshot) else { return Self::default() };
        let is_live = |child: &&Value| {
            let status = child["status"].as_str().and_then(RunStatus::from_name);
            status.is_some_and(|status| !status.is_terminal())
        };
        let live = folded.child_runs.iter().find(is_live);
        let text = |name: &str| live.and_then(|child| Some(child[name].as_str()?.to_owned()));
        let mut nodes = folded.node_states.iter();
        Self {
            child_run: text("runId"),
            child_node: text("nodeId"),
            retrying: nodes
                .find(|(_, it)| it["status"] == "retrying")
                .map(|(node, _)| node.clone()),
        }
    }
}
