//! `core.conformance.side-effect`: an outward call that conformance tests can count.

use async_trait::async_trait;
use serde_json::json;

use callboard_core::Outcome;
use callboard_engine::{Activity, Call, Effect, OnUnknown, Once, OnceError};
use callboard_protocol::Object;

/// Makes one recorded call to nobody. What counts is whether it is made.
#[derive(Debug)]
pub struct SideEffect;

#[async_trait]
impl Activity for SideEffect {
    async fn perform(&self, call: Call) -> Outcome {
        let effect = Effect { index: 0, provider: "conformance", on_unknown: OnUnknown::Ask };
        let made = call.once(effect, |once: Once| async move {
            metrics::counter!("callboard_conformance_effects_total").increment(1);
            Ok(json!({ "effectId": once.id.as_str() }))
        });
        match made.await {
            Ok(value) => Outcome::Done { outputs: value.as_object().cloned().unwrap_or_default() },
            Err(OnceError::Ended(outcome)) => outcome,
            // Nobody listens to an attempt that no longer counts.
            Err(OnceError::Superseded) => Outcome::Done { outputs: Object::new() },
        }
    }
}
