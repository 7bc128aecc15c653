//! Values that workflows keep from run to run.

use callboard_backends::Reach;
use serde_json::{Value, json};

use crate::World;

async fn kv(world: &World, type_id: &str, config: Value, inputs: Value) -> Value {
    world.one(&format!("core.storage.kv-{type_id}"), config, &inputs).await
}

#[tokio::test]
async fn a_value_is_kept_from_run_to_run_until_it_expires_or_is_deleted() {
    let world = World::new(Reach::Public);
    let key = json!({ "key": "k" });
    let none = json!({ "found": false, "value": null, "ttlRemainingMs": null });
    assert_eq!(kv(&world, "get", json!({}), key.clone()).await, none);
    let set = json!({ "key": "k", "value": { "a": 1 } });
    let first = kv(&world, "set", json!({}), set.clone()).await;
    assert_eq!(first, json!({ "ok": true, "replaced": false }));
    let again = kv(&world, "set", json!({ "ttlSeconds": 60 }), set).await;
    assert_eq!(again["replaced"], true);
    let found = kv(&world, "get", json!({}), key.clone()).await;
    assert_eq!((&found["found"], &found["value"]), (&json!(true), &json!({ "a": 1 })));
    assert!(found["ttlRemainingMs"].as_u64().is_some_and(|left| left <= 60_000), "{found}");
    assert_eq!(kv(&world, "get", json!({ "namespace": "other" }), key.clone()).await, none);
    assert_eq!(kv(&world, "delete", json!({}), key.clone()).await, json!({ "deleted": true }));
    assert_eq!(kv(&world, "delete", json!({}), key.clone()).await, json!({ "deleted": false }));
    assert_eq!(kv(&world, "get", json!({}), key).await, none);
}

#[tokio::test]
async fn a_swap_takes_place_only_where_the_value_is_as_expected() {
    let world = World::new(Reach::Public);
    let swap = |expect: Value, set: Value| json!({ "key": "k", "expect": expect, "set": set });
    let first = kv(&world, "cas", json!({}), swap(json!(null), json!("a"))).await;
    assert_eq!(first["swapped"], true);
    let late = kv(&world, "cas", json!({}), swap(json!(null), json!("b"))).await;
    assert_eq!(late, json!({ "swapped": false, "actual": "a" }));
    let counted = kv(&world, "atomic-increment", json!({}), json!({ "key": "k" })).await;
    assert_eq!(counted["failed"]["code"], "not_a_counter");
    let counted =
        kv(&world, "atomic-increment", json!({ "delta": -2 }), json!({ "key": "n" })).await;
    assert_eq!(counted, json!({ "value": -2, "previous": 0 }));
}

#[tokio::test]
async fn keys_are_listed_page_by_page() {
    let world = World::new(Reach::Public);
    for key in ["a/1", "a/2", "a/3", "b"] {
        kv(&world, "set", json!({}), json!({ "key": key, "value": 1 })).await;
    }
    let config = json!({ "prefix": "a/", "limit": 2 });
    let first = kv(&world, "list", config.clone(), json!({})).await;
    assert_eq!(first, json!({ "keys": ["a/1", "a/2"], "nextCursor": "a/2" }));
    let rest = kv(&world, "list", config, json!({ "cursor": "a/2" })).await;
    assert_eq!(rest, json!({ "keys": ["a/3"], "nextCursor": null }));
}

#[tokio::test]
async fn what_cannot_be_kept_is_refused_in_words() {
    let world = World::new(Reach::Public);
    let large = json!({ "key": "k", "value": "x".repeat(300 << 10) });
    let cases = [
        ("set", large, "value_too_large"),
        ("set", json!({ "key": "k" }), "validation_error"),
        ("set", json!({ "key": "", "value": 1 }), "validation_error"),
        ("set", json!({ "key": 7, "value": 1 }), "validation_error"),
        ("get", json!({ "key": "x".repeat(600) }), "validation_error"),
        ("list", json!({ "cursor": 7 }), "validation_error"),
    ];
    for (type_id, inputs, code) in cases {
        let failed = kv(&world, type_id, json!({}), inputs).await;
        assert_eq!(failed["failed"]["code"], code, "{failed}");
    }
}
