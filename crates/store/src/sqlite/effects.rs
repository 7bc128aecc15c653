//! Outward calls: claimed once, settled once.

use rusqlite::{Connection, params};

use callboard_engine::{Begun, Claim, EffectClaim, EffectKey, SettledEffect, StoreError};

use super::append::Stored;
use super::fault::Fault;
use super::rows::{execute, time};
use crate::seal::Seal;
use crate::sealed::{SealedEffect, StoredEffect, open_effect, unknown_run};

fn stored(db: &Connection, seal: &Seal, key: &EffectKey) -> Result<Option<StoredEffect>, Fault> {
    let sql = "SELECT claimed_at, request, result FROM effects WHERE effect_id = ?1";
    let mut select = db.prepare_cached(sql)?;
    let mut rows = select.query([key.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(open_effect(seal, key, time(row, 0)?, row.get(1)?, row.get(2)?)?))
}

pub(super) fn find(
    db: &Connection,
    seal: &Seal,
    key: &EffectKey,
) -> Result<Option<SettledEffect>, Fault> {
    Ok(stored(db, seal, key)?.and_then(|stored| stored.settled().ok()))
}

pub(super) fn begin(db: &Connection, seal: &Seal, effect: &EffectClaim) -> Result<Begun, Fault> {
    let holder = held(db, &effect.claim)?;
    let key = &effect.key;
    match stored(db, seal, key)?.map(StoredEffect::settled) {
        Some(Ok(settled)) => return Ok(Begun::Known(settled)),
        Some(Err(StoredEffect { request, claimed_at, .. })) if !effect.repeat => {
            return Ok(Begun::Unknown { request, since: claimed_at });
        }
        Some(Err(_)) | None => {}
    }
    let SealedEffect { request, outcome } = SealedEffect::seal(effect, seal)?;
    execute(
        db,
        "INSERT INTO effects (effect_id, run, claimed_at, request, result)
         VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (effect_id) DO UPDATE SET
             claimed_at = excluded.claimed_at, request = excluded.request, result = excluded.result",
        params![key.as_str(), holder.id, effect.at.as_millis(), request, outcome],
    )?;
    Ok(Begun::Fresh)
}

/// The run of a claim that is held.
fn held(db: &Connection, claim: &Claim) -> Result<Stored, Fault> {
    let run = &claim.run;
    let holder = Stored::read(db, run)?.ok_or_else(|| unknown_run(run))?;
    if !holder.is_held_by(claim) {
        return Err(StoreError::LeaseLost { run: run.clone() }.into());
    }
    Ok(holder)
}

/// None forgets the claim.
pub(super) fn settle(
    db: &Connection,
    claim: &Claim,
    key: &EffectKey,
    sealed: Option<&[u8]>,
) -> Result<(), Fault> {
    held(db, claim)?;
    let key = key.as_str();
    match sealed {
        Some(sealed) => {
            let sql = "UPDATE effects SET result = ?2 WHERE effect_id = ?1 AND result IS NULL";
            execute(db, sql, params![key, sealed])?;
        }
        None => {
            let sql = "DELETE FROM effects WHERE effect_id = ?1 AND result IS NULL";
            execute(db, sql, params![key])?;
        }
    }
    Ok(())
}
