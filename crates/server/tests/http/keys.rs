//! Keys over HTTP, and the first one.

use std::sync::Arc;

use axum::http::Method;
use callboard_server::{KeyRing, SCOPES, TestKeys};
use serde_json::json;

use crate::given::{LIVE, OPS, RIVAL, Setup, TEST, TestHost, flaky_store};
use crate::observe::Lines;

const KEYS: &str = "/v1/host/callboard/keys";

#[tokio::test]
async fn the_list_shows_everything_but_the_secret() {
    let host = TestHost::of(Setup { keys: &["cb_live=acme"], ..Setup::default() }).await;
    let body = json!({ "name": "ci", "scopes": ["runs:read", "runs:create"] });
    let made = host.post(KEYS, &body).send().await;
    assert_eq!(made.status, 201);
    let listed = host.get(KEYS).send().await;
    insta::assert_json_snapshot!(listed.json, { ".keys[].createdAt" => "[time]", ".keys[0].lastUsedAt" => "[time]", ".keys[1].id" => "[id]", ".keys[1].madeBy" => "[maker]" }, @r#"
    {
      "keys": [
        {
          "createdAt": "[time]",
          "id": "static-9a08bb59",
          "lastUsedAt": "[time]",
          "name": "configured",
          "origin": "configured"
        },
        {
          "createdAt": "[time]",
          "id": "[id]",
          "madeBy": "[maker]",
          "name": "ci",
          "origin": "stored",
          "scopes": [
            "runs:create",
            "runs:read"
          ]
        }
      ]
    }
    "#);
}

#[tokio::test]
async fn a_made_key_can_do_what_it_was_made_for() {
    let host = TestHost::start().await;
    let made = host.post(KEYS, &json!({ "name": "n", "scopes": ["runs:create"] })).send().await;
    let key = made.text_at("key");
    assert_eq!(
        host.post("/v1/runs", &json!({ "workflowId": "noop" })).key(&key).send().await.status,
        201
    );
    assert_eq!(host.get("/v1/runs/x").key(&key).send().await.status, 403);
}

#[tokio::test]
async fn a_key_lives_where_its_maker_lives() {
    let host = TestHost::start().await;
    let made = host.post(KEYS, &json!({ "name": "n" })).key(OPS).send().await;
    let run = host.run_as(&made.text_at("key"), json!({ "workflowId": "noop" })).await;
    let snapshot = host.get(&format!("/v1/runs/{run}")).key(OPS).send().await;
    assert_eq!(snapshot.json["owner"]["workspace"], "ops");
    assert_eq!(snapshot.json["owner"]["principal"], format!("key:{}", made.text_at("id")));
    let test = host.post(KEYS, &json!({ "name": "n" })).key(TEST).send().await;
    assert!(test.text_at("key").starts_with("cbtest_"));
}

#[tokio::test]
async fn wrong_wishes_are_refused() {
    let host = TestHost::start().await;
    for body in [
        json!({}),
        json!({ "name": "" }),
        json!({ "name": "n", "scopes": ["runs:reed"] }),
        json!({ "name": "n", "scopes": [] }),
        json!({ "name": "n", "expiresAt": "2001-01-01T00:00:00Z" }),
        json!({ "name": "n", "expiresAt": "tomorrow" }),
        json!({ "name": "n", "roles": ["nobody"] }),
        json!({ "name": "n", "roles": [] }),
        json!({ "name": "n", "workspace": "o/ps" }),
        json!({ "name": "n", "owner": "rival" }),
    ] {
        assert_eq!(
            host.post(KEYS, &body).send().await.refusal(),
            (400, "validation_error"),
            "{body}"
        );
    }
    assert_eq!(host.get(&format!("{KEYS}?verbose=1")).send().await.status, 400);
    let every: Vec<&str> = SCOPES.to_vec();
    assert_eq!(host.post(KEYS, &json!({ "name": "n", "scopes": every })).send().await.status, 201);
}

#[tokio::test]
async fn a_foreign_key_and_an_unknown_one_look_the_same() {
    let host = TestHost::start().await;
    let foreign = host.post(KEYS, &json!({ "name": "n" })).key(RIVAL).send().await.text_at("id");
    let delete = async |id: &str| host.call(Method::DELETE, &format!("{KEYS}/{id}")).send().await;
    let (foreign, unknown) = (delete(&foreign).await, delete("key_0").await);
    assert_eq!(foreign.refusal(), (404, "not_found"));
    assert_eq!(foreign.bytes, unknown.bytes);
    assert_eq!(delete("static-9a08bb59").await.refusal(), (409, "key_reserved"));
}

#[tokio::test]
async fn a_rotated_key_has_a_new_secret_and_the_old_one_is_gone() {
    let host = TestHost::start().await;
    let old = host.post(KEYS, &json!({ "name": "n", "scopes": ["runs:read"] })).send().await;
    let path = format!("{KEYS}/{}/rotate", old.text_at("id"));
    let new = host.call(Method::POST, &path).send().await;
    assert_eq!(new.status, 201, "{new:?}");
    assert_eq!(host.get("/v1/runs/x").key(&old.text_at("key")).send().await.error(), "key_revoked");
    assert_eq!(host.get("/v1/runs/x").key(&new.text_at("key")).send().await.status, 404);
    assert_eq!(
        host.get(KEYS).key(&new.text_at("key")).send().await.status,
        403,
        "the scopes are the same"
    );
    assert_eq!(
        host.call(Method::POST, &path).send().await.status,
        404,
        "a revoked key has nothing to hand on"
    );
}

#[tokio::test(start_paused = true)]
async fn revoking_ends_open_streams_at_once() {
    let host = TestHost::start().await;
    let made = host.post(KEYS, &json!({ "name": "n" })).send().await;
    let run = host.waiting_run().await;
    let path = format!("/v1/runs/{run}/events");
    let mut stream = host.get(&path).key(&made.text_at("key")).open().await;
    let mut other = host.get(&path).key(LIVE).open().await;
    assert_eq!(stream.next().await.map(|frame| frame.event), Some("run.started".to_owned()));
    assert_eq!(other.next().await.map(|frame| frame.event), Some("run.started".to_owned()));
    let path = format!("{KEYS}/{}", made.text_at("id"));
    assert_eq!(host.call(Method::DELETE, &path).send().await.status, 204);
    assert_eq!(stream.next().await, None);
    assert_eq!(
        other.next().await.map(|frame| frame.comment),
        Some("keepalive".to_owned()),
        "others go on"
    );
}

#[tokio::test(start_paused = true)]
async fn revoking_ends_streams_that_still_have_much_to_read() {
    let host = TestHost::start().await;
    let made = host.post(KEYS, &json!({ "name": "n" })).send().await;
    let run = host.run("chain", json!({})).await;
    host.end_of(&run).await;
    let call = host.get(&format!("/v1/runs/{run}/events")).key(&made.text_at("key"));
    let stream = call.open().await;
    let path = format!("{KEYS}/{}", made.text_at("id"));
    assert_eq!(host.call(Method::DELETE, &path).send().await.status, 204);
    assert!(stream.rest().await.is_empty());
}

#[tokio::test]
async fn another_process_may_change_keys_and_a_reload_sees_it() {
    use callboard_engine::Keys;
    let host = TestHost::start().await;
    let made = host.post(KEYS, &json!({ "name": "n" })).send().await;
    let (id, key) = (made.text_at("id"), made.text_at("key"));
    Keys::new(host.store.inner())
        .revoke_key(&"acme".into(), &id.as_str().into(), host.now())
        .await
        .expect("revoked");
    host.keys.catch_up(1).await.expect("reloaded");
    assert_eq!(host.get("/v1/runs/x").key(&key).send().await.error(), "key_revoked");
}

#[tokio::test]
async fn the_first_key_is_made_once_and_only_where_there_is_none() {
    let store = flaky_store();
    let at = callboard_protocol::Timestamp::from_millis(0);
    let ring = KeyRing::load(Arc::clone(&store) as _, Vec::new(), TestKeys::ByPrefix)
        .await
        .expect("loads");
    let (_, first) = ring.bootstrap(at).await.expect("made").expect("there was none");
    assert!(first.reveal().starts_with("cb_"));
    assert!(!format!("{first:?}").contains(first.reveal()));
    assert_eq!(ring.bootstrap(at).await.expect("looked"), None);
    let again = KeyRing::load(store, Vec::new(), TestKeys::ByPrefix).await.expect("loads");
    assert_eq!(again.bootstrap(at).await.expect("looked"), None, "a stored key counts");
    let configured = vec!["k=acme".parse().expect("a key")];
    let ring = KeyRing::load(flaky_store(), configured, TestKeys::ByPrefix).await.expect("loads");
    assert_eq!(ring.bootstrap(at).await.expect("looked"), None, "a configured key counts");
}

#[tokio::test]
async fn a_host_for_tests_takes_every_key_as_a_test_key() {
    let host = TestHost::of(Setup { test_keys: TestKeys::All, ..Setup::default() }).await;
    let body = json!({ "workflowId": "chat", "configurable": { "mockProvider": { "id": "stream-text" } } });
    assert_eq!(host.post("/v1/runs", &body).key(LIVE).send().await.status, 201);
}

#[tokio::test]
async fn who_makes_and_revokes_keys_is_audited_without_their_text() {
    let lines = Lines::of_the_process();
    let host = TestHost::start().await;
    let made = host.post(KEYS, &json!({ "name": "ci" })).send().await;
    let id = made.text_at("id");
    host.call(Method::DELETE, &format!("{KEYS}/{id}")).send().await;
    let audited = lines.audited();
    let line = |what: &str| {
        json!({ "message": what, "subject": id, "principal": "key:static-9a08bb59",
            "openwop.tenant_id": "acme" })
    };
    assert_eq!(audited, [line("key made"), line("key revoked")]);
    assert!(!lines.text().contains(&made.text_at("key")));
}
