//! `core.conformance.side-effect`: an outward call that conformance tests can count.

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use futures_util::future::join_all;
use serde_json::{Value, json};

use callboard_core::Outcome;
use callboard_engine::{Activity, Call, Effect, OnUnknown, Once, OnceError};
use callboard_protocol::Object;

const EFFECT: Effect<'static> = Effect {
    index: 0,
    provider: "conformance",
    request: &Value::Null,
    on_unknown: OnUnknown::Ask(|said| said),
    is_recorded: false,
};

/// Makes one recorded call to nobody. What counts is whether it is made.
///
/// With `config.executors`, so many reach the call at once, as when a run is taken over from a holder that only seemed
/// lost; the outputs then say what each called it and how often it was made.
#[derive(Debug)]
pub struct SideEffect;

#[async_trait]
impl Activity for SideEffect {
    async fn perform(&self, call: Call) -> Outcome {
        if let Some(executors) = call.config.get("executors").and_then(Value::as_u64) {
            return Outcome::Done { outputs: race(&call, executors).await };
        }
        let made = call.once(EFFECT, |once: Once| async {
            let once = once;
            call.dispatch(&once, 0, None).await?;
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

async fn race(call: &Call, executors: u64) -> Object {
    let made = AtomicU64::new(0);
    let count = &made;
    let executing = (0..executors).map(|_| async move {
        let id = call.effect_id(EFFECT).to_string();
        let make = |_: Once| async move {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(Value::Null)
        };
        // Whoever finds the call claimed would ask a person; here it is enough that it was not made.
        let _claimed = call.once(EFFECT, make).await;
        id
    });
    let ids = join_all(executing).await;
    let mut outputs = Object::new();
    outputs.insert("attempted".to_owned(), ids.len().into());
    outputs.insert("mintedIds".to_owned(), ids.into());
    outputs.insert("delivered".to_owned(), made.into_inner().into());
    outputs
}
