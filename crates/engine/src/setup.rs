//! What a visit goes by that could change while it lasts: recorded once, the same for every attempt at it.

use serde_json::Value;

use callboard_core::{Outcome, RetryClass};
use callboard_protocol::{Failure, RunId};

use crate::activity::Call;
use crate::effects::RequestDigest;
use crate::once::OnceError;

/// Stands behind every outward call of a visit.
const SETUP: u32 = u32::MAX;
/// Nobody is asked: the record is compared with nothing.
const NOBODY: &str = "callboard:setup";

impl Call {
    /// What an earlier attempt at this visit recorded; in a branch that goes on in the middle of the visit, also what
    /// the run recorded that it goes on from.
    pub async fn setup(&self) -> Result<Option<Value>, OnceError> {
        if let Some(own) = self.setup_of(&self.run).await? {
            return Ok(Some(own));
        }
        let is_begun = self.facts_recorded > 0;
        for run in self.forebears.iter().filter(|_| is_begun) {
            if let Some(inherited) = self.setup_of(run).await? {
                // It becomes the branch's own, for those who branch again.
                self.keep_setup(&inherited).await?;
                return Ok(Some(inherited));
            }
        }
        Ok(None)
    }

    /// Records what all later attempts at this visit go by. The first record stays.
    pub async fn keep_setup(&self, setup: &Value) -> Result<(), OnceError> {
        let mut setup = setup.clone();
        self.redact(&mut setup);
        let key = self.effect_key(&self.run, SETUP);
        let request = RequestDigest::of(NOBODY, &Value::Null);
        self.claim_effect(&key, &request, false, Some(setup.to_string())).await.map(drop)
    }

    async fn setup_of(&self, run: &RunId) -> Result<Option<Value>, OnceError> {
        let found = self.store.find_effect(&self.effect_key(run, SETUP)).await;
        let Some(found) = found.map_err(|error| self.unstored(&error))? else { return Ok(None) };
        serde_json::from_str(&found.outcome).map(Some).map_err(|error| {
            let failure = Failure::new("internal_error", format!("a kept setup: {error}"));
            OnceError::Ended(Outcome::Failed { failure, class: RetryClass::Final })
        })
    }
}
