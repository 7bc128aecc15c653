//! Secrets in runs: resolved for the call, and told by nothing that the run tells.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::{AgentFact, Fact, Outcome, Question, RetryClass, SecretText};
use callboard_engine::{
    Activities, Activity, Call, CallFailure, Effect, Engine, InMemoryStore, KeyMode, OnUnknown,
    Once, Recorded, Scope, Secrets,
};
use callboard_protocol::{ChunkMeta, Failure, InterruptKind, Object, RunId};

use crate::sim::{Fate, SimClock, doomed_store, ended, host_with, order, scope};

const VALUE: &str = "CANARY-NEVER-TOLD-\"0aB8\"\nmYjPpQe7";

/// Resolves `config.secret` and tells it in every way there is.
#[derive(Debug)]
struct Gossip;

#[async_trait]
impl Activity for Gossip {
    async fn perform(&self, call: Call) -> Outcome {
        let name = call.config["secret"].as_str().unwrap().into();
        let secret = match call.secret(&name).await {
            Ok(secret) => secret.reveal().to_owned(),
            Err(error) => {
                let CallFailure { failure, class } = error.into();
                return Outcome::Failed { failure, class };
            }
        };
        let object = json!({ "said": secret, &secret: [secret] }).as_object().cloned().unwrap();
        match call.config["way"].as_str().unwrap() {
            "outputs" => Outcome::Done { outputs: object },
            "failure" => Outcome::Failed {
                failure: Failure::new(secret.clone(), format!("no: {secret}")).with_details(object),
                class: RetryClass::Final,
            },
            // Its time ran out.
            "question" if call.answer.is_some() => Outcome::Done { outputs: Object::new() },
            "question" => Outcome::Suspend(Question {
                kind: InterruptKind::Custom,
                data: json!({ "customKind": "acme.ask", "payload": object }),
                resume_schema: Some(json!({ "title": secret }).as_object().cloned().unwrap()),
                timeout_ms: Some(1_000),
            }),
            "facts" => {
                let text = || Some(secret.clone());
                let meta = ChunkMeta {
                    finish_reason: text(),
                    model: text(),
                    usage: None,
                    provider: text(),
                };
                let chunk =
                    Fact::Chunk { index: 0, text: secret.clone(), is_last: true, meta: Some(meta) };
                let reasoned = AgentFact::Reasoned { reasoning: secret.clone(), verbosity: text() };
                let decided = AgentFact::Decided { decision: json!(object), confidence: None };
                let pin = Fact::Pin { change_id: secret, version: 1 };
                let facts = vec![
                    chunk,
                    Fact::Agent { place: 0, fact: reasoned },
                    Fact::Agent { place: 0, fact: decided },
                    pin,
                ];
                call.record(facts).await.unwrap();
                Outcome::Done { outputs: Object::new() }
            }
            _ => {
                let effect = Effect {
                    index: 0,
                    provider: "acme",
                    request: &Value::Null,
                    on_unknown: OnUnknown::Repeat,
                    is_recorded: false,
                };
                let said = secret.clone();
                let kept = call.once(effect, |_: Once| async move { Ok(json!(said)) }).await;
                // Known by its length, which nobody cleans.
                let length = kept.unwrap().as_str().unwrap().len();
                Outcome::Done { outputs: Object::from_iter([("length".to_owned(), json!(length))]) }
            }
        }
    }
}

struct World {
    store: Arc<InMemoryStore>,
    engine: Engine,
}

async fn world(way: &str, secret: &str) -> World {
    let store = Arc::new(InMemoryStore::default());
    for (tenant, mode, name) in [
        ("default", KeyMode::Live, "of-default"),
        ("default", KeyMode::Test, "of-tests"),
        ("globex", KeyMode::Live, "of-globex"),
    ] {
        let end = if name == "of-default" { "" } else { "!" };
        let (value, at) = (SecretText::new(format!("{VALUE}{end}")), Default::default());
        let place = Scope { tenant: tenant.into(), workspace: None, mode };
        Secrets::new(store.clone())
            .put_secret(&place, &name.into(), value.into(), at)
            .await
            .unwrap();
    }
    let definition = json!({
        "id": "gossip", "name": "gossip", "version": "1.0", "edges": [], "triggers": [],
        "variables": [], "metadata": {}, "settings": {},
        "nodes": [{ "id": "only", "typeId": "acme.gossip", "name": "only",
            "position": { "x": 0, "y": 0 }, "config": { "way": way, "secret": secret },
            "inputs": {} }],
    });
    let activities = Activities::default().with("acme.gossip", Arc::new(Gossip));
    let doomed = doomed_store(store.clone(), Fate::Live);
    let definitions = [definition.to_string()];
    let clock = SimClock::new();
    let engine = host_with("one", doomed, store.clone(), clock, &definitions, activities);
    World { store, engine }
}

impl World {
    async fn run(&self) -> RunId {
        let order = order("gossip", Object::new(), Object::new());
        self.engine.create(order, None).await.unwrap().run
    }

    async fn log(&self) -> Vec<Recorded> {
        ended(&self.store, &self.run().await).await
    }
}

fn text(log: &[Recorded]) -> String {
    log.iter().map(|event| format!("{} {}\n", event.kind, event.payload)).collect()
}

fn is_clean(text: &str) -> bool {
    !text.contains("CANARY") && !text.contains("mYjPpQe7")
}

/// R74, SR-1.
#[tokio::test(start_paused = true)]
async fn no_way_of_telling_a_secret_reaches_the_log() {
    for way in ["outputs", "failure", "question", "facts", "effect"] {
        let world = world(way, "of-default").await;
        let run = world.run().await;
        let log = ended(&world.store, &run).await;
        let told = text(&log);
        assert!(is_clean(&told), "{way}: {told}");
        assert!(way == "effect" || told.contains("[REDACTED:of-default]"), "{way}: {told}");
        let seen = world.engine.snapshot(&scope(), &run).await.unwrap().unwrap();
        assert!(is_clean(&seen.json), "{way}: {}", seen.json);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_of_an_outward_call_is_clean_before_it_is_used() {
    let log = world("effect", "of-default").await.log().await;
    let completed = log.iter().find(|event| event.kind == "node.completed").unwrap();
    let payload: Value = serde_json::from_str(&completed.payload).unwrap();
    let outputs = payload["outputs"].clone();
    assert_eq!(outputs["length"], "[REDACTED:of-default]".len(), "{payload}");
}

#[tokio::test(start_paused = true)]
async fn a_secret_of_somebody_else_is_one_that_nobody_has() {
    for name in ["of-globex", "of-tests", "of-nobody"] {
        let log = world("outputs", name).await.log().await;
        let failed = log.iter().find(|event| event.kind == "node.failed").unwrap();
        let payload: Value = serde_json::from_str(&failed.payload).unwrap();
        let error = payload["error"].clone();
        assert_eq!(error["code"], "credential_not_found", "{payload}");
        assert_eq!(error["message"], format!("there is no secret {name}"));
    }
}
