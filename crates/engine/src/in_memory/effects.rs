//! Outward calls, in memory.

use callboard_protocol::Timestamp;

use super::Tables;
use crate::effects::{Begun, EffectClaim, RequestDigest, SettledEffect};
use crate::store::StoreError;

pub(super) struct StoredEffect {
    request: RequestDigest,
    claimed_at: Timestamp,
    pub(super) outcome: Option<String>,
}

impl StoredEffect {
    pub(super) fn settled(&self) -> Option<SettledEffect> {
        let outcome = self.outcome.clone()?;
        Some(SettledEffect { request: self.request.clone(), outcome })
    }
}

impl Tables {
    pub(super) fn begin_effect(&mut self, effect: &EffectClaim) -> Result<Begun, StoreError> {
        self.check_claim(&effect.claim)?;
        let known = self.effects.get(&effect.key);
        if let Some(settled) = known.and_then(StoredEffect::settled) {
            return Ok(Begun::Known(settled));
        }
        if let Some(open) = known.filter(|_| !effect.repeat) {
            return Ok(Begun::Unknown { request: open.request.clone(), since: open.claimed_at });
        }
        let EffectClaim { key, request, at, outcome, .. } = effect.clone();
        self.effects.insert(key, StoredEffect { request, claimed_at: at, outcome });
        Ok(Begun::Fresh)
    }
}
