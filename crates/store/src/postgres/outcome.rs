//! Outcomes of idempotent requests: kept once per key, forgotten after they expire.

use callboard_engine::{Digest, Outcome, StoreError};
use callboard_protocol::Timestamp;

use super::fault::Fault;
use super::rows::{name, time, value};
use super::session::Session;
use super::text;

/// What must be true for an outcome to take the place of another: compared in the statement that writes.
pub(super) const KEEP: &str = "ON CONFLICT (key) DO UPDATE
     SET request = excluded.request, status = excluded.status, body = excluded.body, made_at = excluded.made_at,
         expires_at = excluded.expires_at
     WHERE outcomes.expires_at <= excluded.made_at";

pub(super) async fn find(
    session: &Session,
    key: &Digest,
    at: Timestamp,
) -> Result<Option<Outcome>, Fault> {
    let sql =
        "SELECT request, status, body, expires_at FROM outcomes WHERE key = $1 AND expires_at > $2";
    let found = session.row(sql, &[&key.as_slice(), &at.as_millis()]).await?;
    let Some(row) = found else { return Ok(None) };
    let request: Vec<u8> = value(&row, 0)?;
    let unreadable = |_| Fault::unreadable("the outcome of a request", "it is of another length");
    Ok(Some(Outcome {
        key: *key,
        request: Digest::try_from(request).map_err(unreadable)?,
        status: u16::try_from(value::<i32>(&row, 1)?).unwrap_or_default(),
        body: name(&row, 2)?,
        expires_at: time(&row, 3)?,
    }))
}

pub(super) async fn refuse_known(
    session: &Session,
    outcome: &Outcome,
    at: Timestamp,
) -> Result<(), Fault> {
    match find(session, &outcome.key, at).await? {
        Some(done) => Err(StoreError::AlreadyDone(Box::new(done)).into()),
        None => Ok(()),
    }
}

/// Refuses when the key has an outcome that is still good; replaces one that has expired.
pub(super) async fn keep(session: &Session, outcome: &Outcome, at: Timestamp) -> Result<(), Fault> {
    let sql = format!(
        "INSERT INTO outcomes (key, request, status, body, made_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6) {KEEP}"
    );
    let (key, request) = (outcome.key.as_slice(), outcome.request.as_slice());
    let (status, body) = (i32::from(outcome.status), text::stored(&outcome.body));
    let (at_millis, until) = (at.as_millis(), outcome.expires_at.as_millis());
    let kept =
        session.execute(&sql, &[&key, &request, &status, &&*body, &at_millis, &until]).await?;
    if kept == 0 {
        refuse_known(session, outcome, at).await?;
        // It expired between the two statements.
        return Err(StoreError::Unavailable("an outcome is being replaced".to_owned()).into());
    }
    Ok(())
}

/// Forgets some of what has expired by then.
pub(super) async fn forget_some(session: &Session, at: Timestamp) -> Result<(), Fault> {
    let sql = "DELETE FROM outcomes WHERE key IN
         (SELECT key FROM outcomes WHERE expires_at <= $1 ORDER BY expires_at LIMIT 500 FOR UPDATE SKIP LOCKED)";
    session.execute(sql, &[&at.as_millis()]).await?;
    Ok(())
}
