//! A model that repeats what it must not: nothing of it is told, in one piece or in several.

use callboard_agents::{Turn, args_hash};
use callboard_core::SecretText;
use callboard_engine::{KeyMode, Recorded, Scope, Secrets};
use callboard_protocol::Timestamp;
use serde_json::{Value, json};

use crate::given::{Script, World, calls, kinds, offered, results, says, task, told};

/// Deltas come word by word, so the value never comes in one piece.
const KEY: &str = "correct horse battery staple";

/// Thinks, says and passes on the key that it was asked with.
fn chattering() -> Script {
    |request| match results(request) {
        0 => {
            let key = request.key.as_ref().map(SecretText::reveal).unwrap_or_default();
            let turn = calls(request, &[(&offered(request, "count"), json!({ "note": key }))]);
            Ok(Turn { thinking: format!("my key is {key}"), text: format!("{key} it is!"), ..turn })
        }
        _ => Ok(says(&format!("{KEY} then: {{\"queue\": \"{KEY}\"}}"))),
    }
}

async fn run(configurable: Value) -> Vec<Recorded> {
    let world = World::new(chattering()).await;
    let key = SecretText::new(KEY.to_owned());
    let name = "team-key".into();
    let place = Scope { tenant: "default".into(), workspace: None, mode: KeyMode::Live };
    let secrets = Secrets::new(world.store.clone());
    secrets.put_secret(&place, &name, key.into(), Timestamp::default()).await.unwrap();
    world.run(task(), configurable).await
}

fn own_key() -> Value {
    json!({ "ai": { "credentialRef": "team-key" } })
}

/// Somebody takes the name of a secret for the secret.
#[tokio::test(start_paused = true)]
async fn a_key_in_the_place_of_its_name_is_repeated_by_no_error() {
    let key = format!("sk-{}", "CANARY0aB8mYjPpQe7oai9Lt7Nw2QrZ");
    let log = run(json!({ "ai": { "credentialRef": key } })).await;
    let end = log.last().map(crate::given::payload).unwrap();
    assert_eq!(end["error"]["code"], "credential_not_found");
    for event in &log {
        assert!(!event.payload.contains("CANARY"), "{}: {}", event.kind, event.payload);
    }
}

///
#[tokio::test(start_paused = true)]
async fn a_key_that_a_model_repeats_is_in_no_event_however_it_comes() {
    let log = run(own_key()).await;
    assert_eq!(kinds(&log).last(), Some(&"run.completed"));
    for event in &log {
        for part in ["correct", "horse", "battery", "staple"] {
            assert!(!event.payload.contains(part), "{}: {}", event.kind, event.payload);
        }
    }
    let chunks: String = told(&log, "output.chunk")
        .iter()
        .filter_map(|chunk| chunk["chunk"].as_str().map(str::to_owned))
        .collect();
    assert!(chunks.starts_with("[REDACTED:team-key] it is![REDACTED:team-key] then"), "{chunks}");
    let called = &told(&log, "agent.toolCalled")[0];
    assert_eq!(called["inputs"], json!({ "note": "[REDACTED:team-key]" }));
    assert_eq!(called["argsHash"], args_hash(&called["inputs"], |_| {}));
}

#[tokio::test(start_paused = true)]
async fn the_same_words_are_no_secret_to_a_run_that_did_not_resolve_it() {
    let log = run(json!({})).await;
    assert!(log.iter().any(|event| event.payload.contains(KEY)));
}
