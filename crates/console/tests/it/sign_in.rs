//! Sessions: how they begin, what they need, how they end.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use callboard_console::Lifetime;
use serde_json::json;

use crate::host::{Browser, KEY, MadeUp};

#[tokio::test]
async fn a_key_signs_in_and_a_wrong_one_does_not() {
    let mut browser = Browser::at(MadeUp::default());
    let page = browser.get("/console/runs?status=failed").await;
    assert_eq!(page.status, 303);
    assert_eq!(page.header("location"), "/console/login?next=%2Fconsole%2Fruns%3Fstatus%3Dfailed");
    let wrong = browser.post("/console/login", &[("key", "cb_wrong")]).await;
    assert_eq!(wrong.status, 401);
    assert!(
        wrong.text.contains("This host does not know the key.")
            && wrong.header("set-cookie").is_empty()
    );
    let right = browser.post("/console/login", &[("key", KEY), ("next", "/console/runs")]).await;
    assert_eq!((right.status, right.header("location")), (303, "/console/runs"));
    let cookie = right.header("set-cookie");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains("Secure") && !cookie.contains(KEY), "{cookie}");
    browser.host.say("/v1/host/callboard/runs", json!({ "runs": [] }));
    assert_eq!(browser.get("/console/runs").await.status, 200);
}

/// The browser is told to forget the session when the host does.
#[tokio::test]
async fn the_operator_says_how_long_somebody_stays_signed_in() {
    let lifetime = Lifetime { idle: Duration::from_secs(60), longest: Duration::from_secs(90) };
    let mut browser = Browser::with(MadeUp::default(), lifetime);
    let shown = browser.post("/console/login", &[("key", KEY)]).await;
    assert!(shown.header("set-cookie").contains("Max-Age=90;"), "{}", shown.header("set-cookie"));
}

#[tokio::test]
async fn a_link_signs_in_once_and_looking_does_not_use_it_up() {
    let mut browser = Browser::at(MadeUp::default());
    let link = browser.console.link("key_1".into()).unwrap();
    let code = link.split_once("code=").map(|(_, code)| code.to_owned()).unwrap();
    for _ in 0..2 {
        assert_eq!(browser.get(&link).await.status, 200);
    }
    assert_eq!(browser.post("/console/enter", &[("code", &code)]).await.status, 303);
    let again = browser.post("/console/enter", &[("code", &code)]).await;
    assert_eq!(again.status, 410);
}

#[tokio::test]
async fn a_link_is_made_for_whoever_shows_a_key() {
    let mut browser = Browser::at(MadeUp::default());
    let ask = |key: &str| {
        let request =
            Request::post("/console/codes").header("authorization", format!("Bearer {key}"));
        request.body(Body::empty()).unwrap()
    };
    assert_eq!(browser.send(ask("cb_wrong")).await.status, 401);
    let made = browser.send(ask(KEY)).await;
    assert_eq!(made.status, 201);
    assert!(made.text.contains("/console/enter?code="), "{}", made.text);
    let without = Request::post("/console/codes").body(Body::empty()).unwrap();
    assert_eq!(browser.send(without).await.status, 401);
}

/// K-04
#[tokio::test]
async fn a_session_ends_with_its_key() {
    let mut browser = Browser::signed_in(MadeUp::default()).await;
    assert_eq!(browser.get("/console/settings").await.status, 200);
    *browser.host.revoked.lock().unwrap() = true;
    assert_eq!(browser.get("/console/settings").await.status, 303);
    *browser.host.revoked.lock().unwrap() = false;
    assert_eq!(
        browser.get("/console/settings").await.status,
        303,
        "it does not come back with the key"
    );
}

#[tokio::test]
async fn signing_out_ends_the_session() {
    let mut browser = Browser::signed_in(MadeUp::default()).await;
    let token = browser.get("/console/settings").await.form_token();
    assert_eq!(browser.post("/console/logout", &[("_form", &token)]).await.status, 303);
    assert_eq!(browser.get("/console/settings").await.status, 303);
}

/// K-05
#[tokio::test]
async fn forms_of_others_change_nothing() {
    let mut browser = Browser::signed_in(MadeUp::default()).await;
    let token = browser.get("/console/settings").await.form_token();
    let path = "/console/runs/run_1/cancel";
    for (origin, token) in [
        ("http://127.0.0.1:8787", ""),
        ("http://127.0.0.1:8787", "stolen_from_another_session_stolen_from_ano"),
        ("http://evil.example", token.as_str()),
        ("null", token.as_str()),
    ] {
        let shown = browser.post_from(origin, path, &[("_form", token)]).await;
        assert_eq!(shown.status, 403, "{origin}");
    }
    let without = Request::post(path)
        .header("host", "127.0.0.1:8787")
        .body(Body::from(format!("_form={token}")));
    assert_eq!(browser.send(without.unwrap()).await.status, 403, "no origin");
    assert_eq!(browser.host.changes(), []);
    browser.host.say("/v1/runs/run_1/cancel", json!({}));
    assert_eq!(browser.post(path, &[("_form", &token)]).await.status, 303);
    let asked = json!({ "reason": "from the console" });
    assert_eq!(browser.host.changes(), [("POST /v1/runs/run_1/cancel".to_owned(), Some(asked))]);
}

/// K-06
#[tokio::test]
async fn every_answer_is_protected() {
    let mut browser = Browser::signed_in(MadeUp::default()).await;
    for path in ["/console/settings", "/console/login", "/console/nothing", "/console/runs/run_0"] {
        let shown = browser.get(path).await;
        let policy = shown.header("content-security-policy");
        assert!(
            policy.contains("default-src 'self'") && policy.contains("frame-ancestors 'none'"),
            "{path}: {policy}"
        );
        assert!(!policy.contains("unsafe"), "{path}");
        assert_eq!(shown.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(shown.header("referrer-policy"), "same-origin", "{path}");
        assert_eq!(shown.header("cache-control"), "no-store", "{path}");
        assert!(!shown.text.contains(" style=") && !shown.text.contains(" onclick"), "{path}");
    }
}

/// K-02, K-03: what the host does not find for this key looks the same, whatever is asked for.
#[tokio::test]
async fn refusals_are_the_hosts() {
    let mut browser = Browser::signed_in(MadeUp::default()).await;
    let (foreign, unknown) = (
        browser.get("/console/runs/run_of_others").await,
        browser.get("/console/runs/run_unknown").await,
    );
    assert_eq!((foreign.status, unknown.status), (404, 404));
    assert_eq!(foreign.text, unknown.text);
}

/// No button that would be refused.
#[tokio::test]
async fn a_key_that_may_little_is_offered_little() {
    let scopes = Some(vec!["runs:read".to_owned()]);
    let mut browser = Browser::signed_in(MadeUp { scopes, ..MadeUp::default() }).await;
    browser
        .host
        .say("/v1/runs/run_1", json!({ "runId": "run_1", "workflowId": "w", "status": "running" }));
    let shown = browser.get("/console/runs/run_1").await;
    assert_eq!(shown.status, 200);
    for word in ["Cancel", "Pause", "Fork", "/console/inbox", "/console/triggers"] {
        assert!(!shown.text.contains(word), "{word}");
    }
    let asked: Vec<String> =
        browser.host.calls.lock().unwrap().iter().map(|(path, _)| path.clone()).collect();
    assert!(
        !asked.iter().any(|path| path.contains("inbox") || path.contains("workflows")),
        "{asked:?}"
    );
}

#[tokio::test]
async fn an_unsure_answer_is_shown_with_its_task_and_reason() {
    let mut browser = Browser::signed_in(MadeUp::default()).await;
    let asked = json!({
        "runId": "run_1", "workflowId": "w", "nodeId": "sort", "interruptId": "run_1:sort:0", "kind": "low-confidence",
        "mayDecide": true, "requestedAt": "2026-01-31T06:00:00Z",
        "data": { "agentId": "desk.triager", "observed": 0.3, "threshold": 0.7, "decision": { "kind": "a bug" },
            "task": { "message": "The printer burns" }, "reason": "It speaks of smoke" },
    });
    browser.host.say("/v1/host/callboard/inbox", json!({ "interrupts": [asked] }));
    let page = browser.get("/console/inbox/run_1/sort").await.text;
    let parts =
        ["The task", "The printer burns", "What is proposed", "a bug", "It speaks of smoke"];
    let mut rest = page.as_str();
    for part in parts {
        let (_, after) = rest.split_once(part).unwrap_or_else(|| panic!("{part}: {page}"));
        rest = after;
    }
}

/// K-08: what a page without script needs is there: links, forms, filters in the address.
#[tokio::test]
async fn a_question_is_answered_without_script() {
    let mut browser = Browser::signed_in(MadeUp::default()).await;
    let asked = json!({
        "runId": "run_1", "workflowId": "w", "nodeId": "ask", "interruptId": "run_1:ask:0", "kind": "clarification", "mayDecide": true,
        "requestedAt": "2026-01-31T06:00:00Z",
        "data": { "questions": [{ "id": "size", "question": "How large?", "schema": { "type": "integer", "maximum": 9 } }] },
    });
    browser.host.say("/v1/host/callboard/inbox", json!({ "interrupts": [asked] }));
    let page = browser.get("/console/inbox/run_1/ask").await;
    assert!(page.text.contains("How large?"), "{}", page.text);
    let token = page.form_token();
    let answer = |value: &'static str| {
        [
            ("_form", token.clone()),
            ("interruptId", "run_1:ask:0".to_owned()),
            ("action", String::new()),
            ("v/size", value.to_owned()),
        ]
    };
    let send = async |browser: &mut Browser, value: &'static str| {
        let form = answer(value);
        let form: Vec<(&str, &str)> =
            form.iter().map(|(name, value)| (*name, value.as_str())).collect();
        browser.post("/console/inbox/run_1/ask", &form).await
    };
    let refused = send(&mut browser, "12").await;
    assert_eq!(refused.status, 422, "K-13");
    assert!(refused.text.contains("greater than the maximum of 9"), "{}", refused.text);
    assert_eq!(browser.host.changes(), []);
    browser.host.say("/v1/runs/run_1/interrupts/ask", json!({}));
    assert_eq!(send(&mut browser, "7").await.status, 303);
    let sent = json!({ "resumeValue": { "answers": { "size": 7 } } });
    assert_eq!(
        browser.host.changes(),
        [("POST /v1/runs/run_1/interrupts/ask".to_owned(), Some(sent))]
    );
    browser.host.say("/v1/host/callboard/inbox", json!({ "interrupts": [] }));
    assert_eq!(
        send(&mut browser, "7").await.status,
        410,
        "the second tab is told that it is settled"
    );
}

/// K-17: a host that is not ours is shown as far as it answers, and every screen says what it lacks.
#[tokio::test]
async fn a_host_that_knows_only_the_protocol_is_shown_as_far_as_it_answers() {
    let host = MadeUp::default();
    let run =
        json!({ "runId": "run_1", "workflowId": "w", "status": "running", "lastSequence": 0 });
    host.say("/v1/runs/run_1", run);
    let started = json!({ "sequence": 0, "type": "run.started", "timestamp": "2026-01-31T06:00:00Z", "payload": { "workflowId": "w" } });
    host.say("/v1/runs/run_1/events/poll", json!({ "events": [started] }));
    host.say("/v1/agents", json!({ "agents": [{ "agentId": "a", "persona": "Ada" }] }));
    host.say("/v1/workflows/w", json!({ "id": "w", "name": "W", "nodes": [], "edges": [] }));
    let mut browser = Browser::signed_in(host).await;
    for (path, shown) in [
        ("/", "No run began in the last day"),
        ("/console/runs", "does not list its runs"),
        ("/console/inbox", "has no inbox"),
        ("/console/runs/run_1", "started"),
        ("/console/runs/run_1?tab=log", "run.started"),
        ("/console/agents", "Ada"),
        ("/console/workflows/w", "Start it"),
        ("/console/money", "No run cost anything"),
        ("/console/settings", "first admin key"),
        ("/console/settings?tab=http", "no OpenAPI document"),
    ] {
        let page = browser.get(path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        assert!(page.text.contains(shown), "{path}: {}", page.text);
    }
}

#[tokio::test]
async fn the_interface_is_shown_as_the_host_describes_it() {
    let host = MadeUp::default();
    let read = json!({ "summary": "Read a run", "x-openwop-scope": "runs:read",
        "parameters": [{ "in": "query", "name": "after" }, { "in": "path", "name": "unseen" }] });
    let alive = json!({ "summary": "Whether it lives" });
    let paths = json!({ "/v1/runs/{runId}": { "get": read }, "/healthz": { "get": alive } });
    host.say("/v1/openapi.json", json!({ "paths": paths }));
    let mut browser = Browser::signed_in(host).await;
    let page = browser.get("/console/settings?tab=http").await;
    assert_eq!(page.status, 200, "{}", page.text);
    for shown in ["/v1/runs/{runId}", "Read a run", "runs:read", "after", "no key", "/openapi.json"]
    {
        assert!(page.text.contains(shown), "{shown}: {}", page.text);
    }
    assert!(!page.text.contains("unseen"), "{}", page.text);
}
