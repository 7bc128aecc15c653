//! Outward calls: claimed once, settled once, by whoever holds the run.

use callboard_engine::{Begun, Claim, EffectClaim, EffectKey, SettledEffect, StoreError};

use super::fault::Fault;
use super::rows::{signed, time, value};
use super::session::{Params, Session};
use super::text::stored;
use crate::seal::Seal;
use crate::sealed::{SealedEffect, StoredEffect, open_effect, unknown_run};

/// The run of a claim that is held, kept from others until the statement is done; `$1` to `$3` are the claim.
macro_rules! held {
    () => {
        "WITH held AS MATERIALIZED (
             SELECT id FROM runs WHERE run_id = $1 AND holder = $2 AND epoch = $3 AND lease_until IS NOT NULL
             FOR NO KEY UPDATE)"
    };
}

const BEGIN: &str = concat!(
    held!(),
    ", begun AS (
         INSERT INTO effects (effect_id, run, claimed_at, request, result)
         SELECT $4, held.id, $5, $6, $7 FROM held
         ON CONFLICT (effect_id) DO UPDATE SET
             claimed_at = excluded.claimed_at, request = excluded.request, result = excluded.result
         WHERE $8 AND effects.result IS NULL
         RETURNING 1)
     SELECT EXISTS (SELECT 1 FROM begun) FROM held"
);

const SETTLE: &str = concat!(
    held!(),
    ", settled AS (
         UPDATE effects SET result = $5 FROM held WHERE effect_id = $4 AND result IS NULL)
     SELECT 1 FROM held"
);

const FORGET: &str = concat!(
    held!(),
    ", forgotten AS (DELETE FROM effects USING held WHERE effect_id = $4 AND result IS NULL)
     SELECT 1 FROM held"
);

async fn read(
    session: &Session,
    seal: &Seal,
    key: &EffectKey,
) -> Result<Option<StoredEffect>, Fault> {
    let sql = "SELECT claimed_at, request, result FROM effects WHERE effect_id = $1";
    let Some(row) = session.row(sql, &[&key.as_str()]).await? else { return Ok(None) };
    Ok(Some(open_effect(seal, key, time(&row, 0)?, value(&row, 1)?, value(&row, 2)?)?))
}

pub(super) async fn find(
    session: &Session,
    seal: &Seal,
    key: &EffectKey,
) -> Result<Option<SettledEffect>, Fault> {
    Ok(read(session, seal, key).await?.and_then(|stored| stored.settled().ok()))
}

pub(super) async fn begin(
    session: &Session,
    seal: &Seal,
    effect: &EffectClaim,
) -> Result<Begun, Fault> {
    let sealed = SealedEffect::seal(effect, seal)?;
    let EffectClaim { key, claim, at, repeat, .. } = effect;
    let (run, host) = (stored(claim.run.as_str()), stored(claim.host.as_str()));
    let (epoch, at) = (signed(claim.epoch), at.as_millis());
    let (request, outcome) = (sealed.request.as_slice(), sealed.outcome.as_deref());
    let params: Params<'_> =
        &[&&*run, &&*host, &epoch, &key.as_str(), &at, &request, &outcome, repeat];
    let Some(row) = session.row(BEGIN, params).await? else {
        return Err(not_held(session, claim).await?);
    };
    if value(&row, 0)? {
        return Ok(Begun::Fresh);
    }
    match read(session, seal, key).await?.map(StoredEffect::settled) {
        Some(Ok(settled)) => Ok(Begun::Known(settled)),
        Some(Err(open)) => Ok(Begun::Unknown { request: open.request, since: open.claimed_at }),
        // It was forgotten meanwhile, by the same holder.
        None => Err(StoreError::Unavailable(format!("effect {key} is being forgotten")).into()),
    }
}

/// None forgets the claim.
pub(super) async fn settle(
    session: &Session,
    claim: &Claim,
    key: &EffectKey,
    sealed: Option<&[u8]>,
) -> Result<(), Fault> {
    let (run, host) = (stored(claim.run.as_str()), stored(claim.host.as_str()));
    let (epoch, key) = (signed(claim.epoch), key.as_str());
    let held = match sealed {
        Some(sealed) => session.row(SETTLE, &[&&*run, &&*host, &epoch, &key, &sealed]).await?,
        None => session.row(FORGET, &[&&*run, &&*host, &epoch, &key]).await?,
    };
    match held {
        Some(_) => Ok(()),
        None => Err(not_held(session, claim).await?),
    }
}

/// Why a claim does not count.
async fn not_held(session: &Session, claim: &Claim) -> Result<Fault, Fault> {
    let sql = "SELECT 1 FROM runs WHERE run_id = $1";
    let is_there = session.row(sql, &[&stored(claim.run.as_str())]).await?.is_some();
    let run = claim.run.clone();
    Ok(if is_there { StoreError::LeaseLost { run }.into() } else { unknown_run(&run).into() })
}
