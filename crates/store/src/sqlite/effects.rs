//! Outward calls: claimed once, settled once.

use rusqlite::{Connection, OptionalExtension, params};

use callboard_engine::{Begun, EffectClaim, EffectId, StoreError};
use callboard_protocol::Timestamp;

use super::append::Stored;
use super::fault::Fault;
use super::rows::execute;
use crate::seal::Seal;

/// Where an outcome stands, for its seal.
pub(super) fn place(id: &EffectId) -> String {
    format!("effect/{id}")
}

pub(super) fn find(db: &Connection, seal: &Seal, id: &EffectId) -> Result<Option<String>, Fault> {
    let sealed: Option<Vec<u8>> = db
        .prepare_cached("SELECT result FROM effects WHERE effect_id = ?1")?
        .query_row([id.as_str()], |row| row.get(0))
        .optional()?
        .flatten();
    sealed.map(|sealed| opened(seal, id, &sealed)).transpose()
}

fn opened(seal: &Seal, id: &EffectId, sealed: &[u8]) -> Result<String, Fault> {
    let outcome = seal.open(&place(id), sealed);
    outcome.map_err(|error| Fault::unreadable(format!("the outcome of effect {id}"), error))
}

pub(super) fn begin(db: &Connection, seal: &Seal, effect: &EffectClaim) -> Result<Begun, Fault> {
    let run = &effect.claim.run;
    let holder = Stored::read(db, run)?.ok_or_else(|| Fault::unknown_run(run))?;
    if !holder.is_held_by(&effect.claim) {
        return Err(StoreError::LeaseLost { run: run.clone() }.into());
    }
    let known: Option<(i64, Option<Vec<u8>>)> = db
        .prepare_cached("SELECT claimed_at, result FROM effects WHERE effect_id = ?1")?
        .query_row([effect.id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match known {
        Some((_, Some(sealed))) => Ok(Begun::Known(opened(seal, &effect.id, &sealed)?)),
        Some((since, None)) if !effect.repeat => {
            Ok(Begun::Unknown { since: Timestamp::from_millis(since) })
        }
        Some((_, None)) | None => {
            execute(
                db,
                "INSERT INTO effects (effect_id, run, claimed_at) VALUES (?1, ?2, ?3)
                 ON CONFLICT (effect_id) DO UPDATE SET claimed_at = excluded.claimed_at",
                params![effect.id.as_str(), holder.id, effect.at.as_millis()],
            )?;
            Ok(Begun::Fresh)
        }
    }
}

pub(super) fn settle(db: &Connection, id: &EffectId, sealed: &[u8]) -> Result<(), Fault> {
    let sql = "UPDATE effects SET result = ?2 WHERE effect_id = ?1 AND result IS NULL";
    execute(db, sql, params![id.as_str(), sealed])?;
    Ok(())
}

pub(super) fn abandon(db: &Connection, id: &EffectId) -> Result<(), Fault> {
    let sql = "DELETE FROM effects WHERE effect_id = ?1 AND result IS NULL";
    execute(db, sql, params![id.as_str()])?;
    Ok(())
}
