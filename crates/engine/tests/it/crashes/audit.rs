//! The audit log: no crash leaves a change without its entry, an entry without its change, or a chain that does not hold.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::SecretText;
use callboard_engine::{
    AuditFact, AuditLog, AuditQuery, CHECKPOINT_SECONDS, CheckpointLoop, KeyOrder, Secrets, Store,
    audited,
};

use super::scenario::{Host, Scenario};
use crate::sim::scope;

pub(super) struct Audited;

#[async_trait(?Send)]
impl Scenario for Audited {
    fn steps(&self) -> usize {
        5
    }

    async fn act(&self, host: &Host, step: usize) {
        let store = audited(host.store.clone(), host.engine.clock().clone());
        let secrets = Secrets::new(store.clone());
        let put = async |name: &str| {
            let value = SecretText::new("value".to_owned()).into();
            secrets.put_secret(&scope(), &name.into(), value, host.now()).await.unwrap();
        };
        match step {
            0 => put("openai").await,
            1 => put("github").await,
            2 => drop(secrets.remove_secret(&scope(), &"github".into()).await.unwrap()),
            3 => {
                let fact = AuditFact::new(scope(), "request.refused", "listKeys");
                AuditLog::new(store).note(fact).await.unwrap();
            }
            _ => {
                host.rest(CHECKPOINT_SECONDS + 1).await;
                let checkpoints = CheckpointLoop::new(host.engine.clone());
                checkpoints.tick(host.now()).await.unwrap();
            }
        }
    }

    /// Whoever asks again changes a secret again; each change has an entry, and no entry tells of what was not done.
    async fn observe(&self, store: Arc<dyn Store>) -> Value {
        let log = AuditLog::new(store.clone());
        let query = AuditQuery { order: KeyOrder::Ascending, after: None, limit: 100 };
        let entries = log.entries(&scope(), &query).await.unwrap();
        let told = |action: &str, subject: &str| {
            let is_it = |kept: &&callboard_engine::KeptEntry| {
                kept.entry["action"] == action && kept.entry["subject"] == subject
            };
            entries.iter().filter(is_it).count()
        };
        let walked = log.verify(&scope().realm(), 0, u64::MAX).await.unwrap();
        let names = Secrets::new(store).secrets(&scope()).await.unwrap();
        json!({
            "made": [told("secret.made", "openai"), told("secret.made", "github")],
            "removed": told("secret.removed", "github"),
            "refused": told("request.refused", "listKeys") > 0,
            "holds": walked.chain_valid,
            "anomalies": walked.anomalies.len(),
            "isCovered": walked.checkpoints.last().map(|it| it.at_sequence)
                == entries.last().map(|last| last.sequence),
            "secrets": names.into_iter().map(|it| it.name).collect::<Vec<_>>(),
        })
    }
}
