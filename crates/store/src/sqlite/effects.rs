//! Outward calls: claimed once, settled once.

use rusqlite::{Connection, OptionalExtension, params};

use callboard_engine::{
    Begun, Claim, EffectClaim, EffectKey, RequestDigest, SettledEffect, StoreError,
};
use callboard_protocol::Timestamp;

use super::append::Stored;
use super::fault::Fault;
use super::rows::execute;
use crate::seal::Seal;

/// Where an outcome stands, for its seal.
pub(super) fn place(key: &EffectKey) -> String {
    format!("effect/{key}")
}

/// The place of a request's digest, for its encryption: guesses of the request cannot be tested against it.
fn request_place(key: &EffectKey) -> String {
    format!("effect-request/{key}")
}

/// A call as it stands.
struct StoredEffect {
    request: RequestDigest,
    claimed_at: Timestamp,
    outcome: Option<String>,
}

impl StoredEffect {
    fn read(db: &Connection, seal: &Seal, key: &EffectKey) -> Result<Option<Self>, Fault> {
        type Row = (i64, Option<Vec<u8>>, Option<Vec<u8>>);
        let row: Option<Row> = db
            .prepare_cached("SELECT claimed_at, request, result FROM effects WHERE effect_id = ?1")?
            .query_row([key.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()?;
        let Some((claimed_at, request, result)) = row else { return Ok(None) };
        let open = |place: String, sealed: Vec<u8>| {
            let opened = seal.open(&place, &sealed);
            opened.map_err(|error| Fault::unreadable(format!("effect {key}"), error))
        };
        let request = request.map(|sealed| open(request_place(key), sealed)).transpose()?;
        Ok(Some(Self {
            request: RequestDigest::stored(request.unwrap_or_default()),
            claimed_at: Timestamp::from_millis(claimed_at),
            outcome: result.map(|sealed| open(place(key), sealed)).transpose()?,
        }))
    }

    fn settled(self) -> Result<SettledEffect, Self> {
        match self.outcome {
            Some(outcome) => Ok(SettledEffect { request: self.request, outcome }),
            None => Err(self),
        }
    }
}

pub(super) fn find(
    db: &Connection,
    seal: &Seal,
    key: &EffectKey,
) -> Result<Option<SettledEffect>, Fault> {
    Ok(StoredEffect::read(db, seal, key)?.and_then(|stored| stored.settled().ok()))
}

pub(super) fn begin(db: &Connection, seal: &Seal, effect: &EffectClaim) -> Result<Begun, Fault> {
    let holder = held(db, &effect.claim)?;
    let key = &effect.key;
    match StoredEffect::read(db, seal, key)?.map(StoredEffect::settled) {
        Some(Ok(settled)) => return Ok(Begun::Known(settled)),
        Some(Err(StoredEffect { request, claimed_at, .. })) if !effect.repeat => {
            return Ok(Begun::Unknown { request, since: claimed_at });
        }
        Some(Err(_)) | None => {}
    }
    let close = |place: String, text: &str| {
        let sealed = seal.seal(&place, text);
        sealed.map_err(|error| {
            StoreError::Unavailable(format!("effect {key} cannot be sealed: {error}"))
        })
    };
    let request = close(request_place(key), effect.request.as_str())?;
    let outcome = effect.outcome.as_deref();
    let outcome = outcome.map(|outcome| close(place(key), outcome)).transpose()?;
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
    let holder = Stored::read(db, run)?.ok_or_else(|| Fault::unknown_run(run))?;
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
