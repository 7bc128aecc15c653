//! What stands beside runs: what is said of them, what became of envelopes, what is deployed, which packs are installed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_engine::{
    Annotations, DeploymentChange, Deployments, EnvelopeId, Envelopes, Filter, KeptEnvelope,
    KeptRun, KeptRuns, PackId, PackOwner, Packs, ProjectedEvent, Store, StoredPack,
};
use callboard_protocol::{
    Actor, Annotation, AnnotationTarget, Object, RunId, Signal, SignalKind, Timestamp,
};

use super::scenario::{Host, Scenario};
use crate::deployments::audit;
use crate::sim::{order, scope};

pub(super) struct Beside;

const AGENT: &str = "vendor.acme.desk.assistant";

fn flag(run: RunId) -> Annotation {
    Annotation {
        annotation_id: "ann_1".to_owned(),
        target: AnnotationTarget { run_id: run, event_id: None, node_id: None },
        signal: Signal { kind: SignalKind::Flag, rating: None, label: None, correction: None },
        actor: Actor { principal_ref: "key:one".into() },
        note: None,
        created_at: Timestamp::default(),
    }
}

fn envelope() -> EnvelopeId {
    EnvelopeId { tenant: "default".into(), run: "r".into(), correlation: "c".to_owned() }
}

fn pack(archive: u8) -> StoredPack {
    StoredPack {
        id: PackId {
            owner: PackOwner::Realm(scope().realm()),
            name: "vendor.acme.desk".parse().unwrap(),
            version: "1.0.0".parse().unwrap(),
        },
        digest: [archive; 32],
        files: BTreeMap::new(),
        signed_by: None,
        verified_by: None,
        signature: None,
        installed_at: Timestamp::default(),
        is_removed: false,
    }
}

async fn the_run(store: &dyn Store) -> RunId {
    let filter = Filter { workflow: Some("campaign".into()), limit: 1, ..Filter::default() };
    store.list(&scope(), &filter).await.unwrap().remove(0).run_id
}

async fn deploy(host: &Host) {
    let change = DeploymentChange {
        realm: scope().realm(),
        agent: AGENT.into(),
        expected: 0,
        state: "{}".to_owned(),
        at: host.now(),
    };
    let deployments = Deployments::new(host.store.clone());
    let asked =
        async |remember| host.engine.deploy(deployments, change, audit(), Some(remember)).await;
    host.once("deploy", asked).await;
}

#[async_trait(?Send)]
impl Scenario for Beside {
    fn steps(&self) -> usize {
        9
    }

    async fn act(&self, host: &Host, step: usize) {
        let packs = Packs::new(host.store.clone());
        let install = async |archive: u8| {
            packs.put_pack(pack(archive), [archive].into()).await.unwrap();
        };
        match step {
            0 => {
                let order = order("campaign", Object::new(), Object::new());
                let asked = async |remember| host.engine.create(order, Some(remember)).await;
                host.once("campaign", asked).await;
            }
            1 => {
                let flag = flag(the_run(&*host.store).await);
                Annotations::new(host.store.clone()).annotate(&scope(), flag, 10).await.unwrap();
            }
            2 => {
                let kept = KeptEnvelope { kind: "error".to_owned(), outcome: "{}".to_owned() };
                let event = ProjectedEvent { at: Timestamp::default(), body: "{}".to_owned() };
                let envelopes = Envelopes::new(host.store.clone());
                envelopes.keep_envelope(&envelope(), kept, vec![event]).await.unwrap();
            }
            3 => deploy(host).await,
            4 => install(1).await,
            5 => drop(packs.remove_pack(&pack(1).id).await.unwrap()),
            6 => install(2).await,
            7 => {
                let run_id = the_run(&*host.store).await;
                let (kept_at, kept_by) = (Timestamp::default(), "key:one".to_owned());
                let kept = KeptRun { run_id, kept_at, kept_by };
                let is_kept = KeptRuns::new(host.store.clone()).keep(&scope(), &kept).await;
                assert!(is_kept.unwrap());
            }
            _ => {
                let run = the_run(&*host.store).await;
                // Whoever asks again finds that it is done.
                let _ = KeptRuns::new(host.store.clone()).release(&scope(), &run).await.unwrap();
            }
        }
    }

    async fn observe(&self, store: Arc<dyn Store>) -> Value {
        let (packs, envelopes) = (Packs::new(store.clone()), Envelopes::new(store.clone()));
        let run = the_run(&*store).await;
        let said = Annotations::new(store.clone()).annotations(&scope(), &run).await.unwrap();
        // Whoever says it again has said it twice.
        let said: BTreeSet<_> = said.unwrap().into_iter().map(|it| it.annotation_id).collect();
        let deployed = Deployments::new(store.clone());
        let deployed = deployed.deployment(&scope().realm(), &AGENT.into()).await.unwrap();
        let offered = packs.all_packs().await.unwrap().into_iter();
        let offered = offered.map(|pack| (pack.digest[0], pack.is_removed));
        let second = packs.pack_archive(&pack(2).id, &pack(2).digest).await.unwrap();
        json!([
            said,
            envelopes.envelope(&envelope()).await.unwrap(),
            envelopes.projected(&"default".into(), &"r".into()).await.unwrap(),
            deployed.map(|deployed| (deployed.version, deployed.state)),
            offered.collect::<Vec<_>>(),
            second.map(|archive| archive.to_vec()),
            KeptRuns::new(store.clone()).list(&scope()).await.unwrap(),
        ])
    }
}
