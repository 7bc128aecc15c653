//! The audit log: walked again, and read page by page.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use callboard_engine::{AuditFact, AuditQuery, KeptEntry, KeyOrder};
use serde::Serialize;

use crate::answer::Answer;
use crate::app::Host;
use crate::keys::Caller;
use crate::page::PageSize;
use crate::problem::Problem;
use crate::query::Parameters;

/// Entries that one request walks at most: few enough for the time that a client waits.
const MOST_WALKED: u64 = 100_000;

fn sequence(query: &Parameters, name: &str) -> Result<Option<u64>, Problem> {
    query.read(name, "a sequence from 0 on", |text| text.parse().ok())
}

/// As the protocol says it; without a range, the first entries that one request may walk.
pub(super) async fn verify(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    let query = Parameters::open(&uri)?;
    let realm = caller.scope.realm();
    let from = sequence(&query, "fromSeq")?.unwrap_or(0);
    let newest = host.app.audit.newest(&realm).await?.unwrap_or(u64::MAX);
    let farthest = from.saturating_add(MOST_WALKED);
    let to = sequence(&query, "toSeq")?.unwrap_or(newest.max(from).min(farthest));
    if to < from {
        return Err(Problem::invalid_at("toSeq", "must not be less than fromSeq"));
    }
    if to.min(newest) > farthest {
        let what = format!("asks for too much at once; {MOST_WALKED} entries are the most");
        return Err(Problem::invalid_at("toSeq", &what));
    }
    Answer::json(StatusCode::OK, &host.app.audit.verify(&realm, from, to).await?)
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct EntryList {
    entries: Vec<KeptEntry>,
    /// The sequence to go on after, where more follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

/// The newest first, or all from the first one on for who keeps a copy elsewhere.
pub(super) async fn list(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    let query = Parameters::closed(&uri, &["order", "after", "limit"])?;
    let order = query.read("order", "oldest or newest", |text| match text {
        "oldest" => Some(KeyOrder::Ascending),
        "newest" => Some(KeyOrder::Descending),
        _ => None,
    })?;
    let size = PageSize::read(&query)?;
    let after = sequence(&query, "after")?;
    let order = order.unwrap_or(KeyOrder::Descending);
    if order == KeyOrder::Ascending && after.is_none() {
        let exported = AuditFact::new(caller.scope.clone(), "audit.exported", "audit");
        host.app.audit.note(exported).await?;
    }
    let asked = AuditQuery { order, after, limit: size.and_one() };
    let mut entries = host.app.audit.entries(&caller.scope, &asked).await?;
    let next = size.cut(&mut entries).map(|last| last.sequence);
    Answer::json(StatusCode::OK, &EntryList { entries, next })
}
