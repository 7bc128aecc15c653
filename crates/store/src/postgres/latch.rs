//! Locks by name, held until the transaction ends: for what no row stands for yet. The only place that has them, since
//! relatives of PostgreSQL lack them.

use sha2::{Digest, Sha256};

use super::fault::Fault;
use super::session::Session;

/// Waits until nobody else holds the name, and holds it.
pub(super) async fn hold(session: &Session, name: &[&str]) -> Result<(), Fault> {
    session.rows("SELECT pg_advisory_xact_lock($1)", &[&number(name)]).await?;
    Ok(())
}

/// Two names that share a number only wait for each other.
pub(super) fn number(name: &[&str]) -> i64 {
    let mut hash = Sha256::new();
    for part in name {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let digest: [u8; 32] = hash.finalize().into();
    let (first, _) = digest.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
    i64::from_be_bytes(*first)
}
