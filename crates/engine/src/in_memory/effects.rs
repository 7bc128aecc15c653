//! Outward calls, in memory.

use callboard_protocol::Timestamp;

use super::{Tables, unknown};
use crate::effects::{Begun, EffectClaim};
use crate::store::StoreError;

pub(super) struct StoredEffect {
    pub(super) claimed_at: Timestamp,
    pub(super) outcome: Option<String>,
}

impl Tables {
    pub(super) fn begin_effect(&mut self, effect: &EffectClaim) -> Result<Begun, StoreError> {
        let run = &effect.claim.run;
        let holder = self.runs.get(run).ok_or_else(|| unknown(run))?;
        if !holder.is_held_by(&effect.claim) {
            return Err(StoreError::LeaseLost { run: run.clone() });
        }
        match self.effects.get_mut(&effect.id) {
            Some(StoredEffect { outcome: Some(outcome), .. }) => Ok(Begun::Known(outcome.clone())),
            Some(open) if !effect.repeat => Ok(Begun::Unknown { since: open.claimed_at }),
            Some(_) | None => {
                let claimed = StoredEffect { claimed_at: effect.at, outcome: None };
                self.effects.insert(effect.id.clone(), claimed);
                Ok(Begun::Fresh)
            }
        }
    }
}
