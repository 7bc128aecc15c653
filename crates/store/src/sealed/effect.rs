//! Outward calls with request and outcome sealed.

use callboard_engine::{EffectClaim, EffectKey, RequestDigest, SettledEffect, StoreError};
use callboard_protocol::Timestamp;

use super::unreadable;
use crate::seal::Seal;

/// Where an outcome stands, for its seal.
fn place(key: &EffectKey) -> String {
    format!("effect/{key}")
}

/// The place of a request's digest, for its encryption: guesses of the request cannot be tested against it.
fn request_place(key: &EffectKey) -> String {
    format!("effect-request/{key}")
}

fn close(seal: &Seal, key: &EffectKey, place: &str, text: &str) -> Result<Vec<u8>, StoreError> {
    let sealed = seal.seal(place, text);
    sealed
        .map_err(|error| StoreError::Unavailable(format!("effect {key} cannot be sealed: {error}")))
}

pub(crate) fn seal_outcome(
    seal: &Seal,
    key: &EffectKey,
    outcome: &str,
) -> Result<Vec<u8>, StoreError> {
    close(seal, key, &place(key), outcome)
}

/// A claim of a call as it goes to the disk.
pub(crate) struct SealedEffect {
    pub(crate) request: Vec<u8>,
    pub(crate) outcome: Option<Vec<u8>>,
}

impl SealedEffect {
    pub(crate) fn seal(effect: &EffectClaim, seal: &Seal) -> Result<Self, StoreError> {
        let key = &effect.key;
        let outcome = effect.outcome.as_deref();
        Ok(Self {
            request: close(seal, key, &request_place(key), effect.request.as_str())?,
            outcome: outcome.map(|outcome| seal_outcome(seal, key, outcome)).transpose()?,
        })
    }
}

/// A call as it stands.
pub(crate) struct StoredEffect {
    pub(crate) request: RequestDigest,
    pub(crate) claimed_at: Timestamp,
    outcome: Option<String>,
}

pub(crate) fn open_effect(
    seal: &Seal,
    key: &EffectKey,
    claimed_at: Timestamp,
    request: Option<Vec<u8>>,
    outcome: Option<Vec<u8>>,
) -> Result<StoredEffect, StoreError> {
    let open = |place: String, sealed: Vec<u8>| {
        let opened = seal.open(&place, &sealed);
        opened.map_err(|error| unreadable(format!("effect {key}"), error))
    };
    let request = request.map(|sealed| open(request_place(key), sealed)).transpose()?;
    Ok(StoredEffect {
        request: RequestDigest::stored(request.unwrap_or_default()),
        claimed_at,
        outcome: outcome.map(|sealed| open(place(key), sealed)).transpose()?,
    })
}

impl StoredEffect {
    pub(crate) fn settled(self) -> Result<SettledEffect, Self> {
        match self.outcome {
            Some(outcome) => Ok(SettledEffect { request: self.request, outcome }),
            None => Err(self),
        }
    }
}
