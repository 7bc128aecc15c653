//! K-10, K-11, K-01: every screen has its acts, an address restores its view, and nothing is built or fetched.

use std::path::Path;

use serde_json::{Value, json};

use crate::host::{Browser, MadeUp};

const OURS: &str = "/v1/host/callboard";

/// A host with one of everything.
#[expect(clippy::too_many_lines, reason = "one answer for each path")]
fn stocked() -> MadeUp {
    let host = MadeUp::default();
    let at = "2026-01-31T06:00:00Z";
    let run = json!({ "runId": "run_1", "workflowId": "desk", "status": "running", "createdAt": at, "updatedAt": at, "lastSequence": 3,
        "wait": { "reason": "retry", "since": at, "until": "2026-01-31T08:00:00Z", "nodeId": "ask" } });
    let usage = json!({ "calls": 2, "unpricedCalls": 0, "inputTokens": 100, "outputTokens": 20, "cachedTokens": 50, "costUsd": 1.5 });
    let named = |name: &str| json!([{ "name": name, "used": usage }]);
    let question = |node: &str| {
        json!({ "interruptId": node, "runId": "run_1", "nodeId": node, "kind": "approval", "workflowId": "desk",
        "requestedAt": at, "mayDecide": true, "data": { "title": "Ship it?", "actions": ["accept", "reject", "edit-accept"] } })
    };
    for (path, answer) in [
        (format!("{OURS}/runs"), json!({ "runs": [run] })),
        ("/v1/runs/run_1".to_owned(), run.clone()),
        ("/v1/runs/run_1/events/poll".to_owned(), json!({ "events": [] })),
        (
            "/v1/runs/run_2".to_owned(),
            json!({ "runId": "run_2", "workflowId": "desk", "status": "failed", "createdAt": at, "variables": { "n": 1 } }),
        ),
        (
            "/v1/workflows/desk".to_owned(),
            json!({ "id": "desk", "name": "Desk", "channels": { "notes": { "reducer": "append" } } }),
        ),
        (
            format!("{OURS}/roster/host%3Asally"),
            json!({ "rosterId": "host:sally", "persona": "Sally", "enabled": true, "workflows": ["desk"] }),
        ),
        (format!("{OURS}/inbox"), json!({ "interrupts": [question("a"), question("b")] })),
        (
            format!("{OURS}/spend"),
            json!({ "since": at, "total": usage, "days": [{ "day": at, "used": usage }], "byAgent": named("triager"),
            "byMember": named("host:sally"), "byModel": named("mock/mini"), "byWorkflow": named("desk"), "dearestRuns": [run], "runsLookedAt": 1,
            "today": { "limits": { "maxCostUsd": 3.0 }, "spent": { "costUsd": 1.5 } } }),
        ),
        (
            format!("{OURS}/hosts"),
            json!({ "hosts": [{ "hostId": "callboard-1", "version": "1", "startedAt": at, "claims": { "runs": 7, "mostRuns": 9 } }],
            "database": { "isReady": true }, "providers": [{ "name": "anthropic" }] }),
        ),
        (
            format!("{OURS}/roster"),
            json!({ "roster": [{ "rosterId": "host:sally", "persona": "Sally" }] }),
        ),
        (
            format!("{OURS}/roster/host%3Asally/budget"),
            json!({ "limits": { "maxTokens": 10 }, "allowance": {}, "spent": {} }),
        ),
        ("/v1/agents/triager".to_owned(), json!({ "agentId": "triager", "persona": "Triager" })),
        (
            "/v1/agents/triager/deployments".to_owned(),
            json!([{ "version": "1.0.0", "state": "active" }, { "version": "1.1.0", "state": "staged" }]),
        ),
        (
            format!("{OURS}/trigger-subscriptions/t1"),
            json!({ "subscriptionId": "t1", "source": "queue", "workflowId": "desk", "state": "active" }),
        ),
        (
            "/v1/trigger-subscriptions/t1/dead-letters".to_owned(),
            json!({ "deliveries": [{ "attemptEventId": "d1", "reason": "retries_exhausted", "deadLetteredAt": at }] }),
        ),
        (
            format!("{OURS}/trigger-subscriptions/t1/deliveries"),
            json!({ "deliveries": [{ "deliveryId": "d2", "state": "delivered", "attempts": 2, "receivedAt": at, "latencyMs": 1250, "runId": "run_1" }] }),
        ),
        (
            format!("{OURS}/trigger-subscriptions/t1/dead-letters/d1"),
            json!({ "delivery": { "deliveryId": "d1", "reason": "no such input" }, "event": { "queue": { "n": 4 } } }),
        ),
        (
            format!("{OURS}/webhooks/w1/dead-letters"),
            json!({ "deadLetters": [{ "deliveryId": "del_4", "runId": "run_1", "eventType": "run.completed", "sequence": 3, "attempts": 10, "reason": "answered 500", "deadLetteredAt": at }] }),
        ),
        (format!("{OURS}/webhooks/w1/deliveries"), json!({ "deliveries": [] })),
        (
            format!("{OURS}/memory/m1/history"),
            json!({ "versions": [{ "version": 2, "content": "new\nsame", "writtenAt": at }, { "version": 1, "content": "old\nsame", "writtenAt": at }] }),
        ),
        (
            format!("{OURS}/runs/run_1/calls/2"),
            json!({ "call": { "callId": 2, "provider": "mock", "model": "mini", "inputTokens": 1, "outputTokens": 2 }, "isWhole": true, "troubledBefore": 0,
            "request": { "system": "Be brief.", "messages": [{ "role": "user", "text": "The lift has stopped." }], "tools": [], "maxOutputTokens": 9 }, "answer": { "text": "Call Otis.", "stop": "stop" } }),
        ),
        (
            format!("{OURS}/audit"),
            json!({ "entries": [{ "sequence": 9, "entry": { "sequence": 9, "at": at, "actor": "key:k1", "action": "key.revoked", "subject": "key_2", "operation": "revokeKey", "details": { "name": "ci" } } }, { "sequence": 8, "entry": null }], "next": 8 }),
        ),
        (
            "/v1/audit/verify".to_owned(),
            json!({ "fromSeq": 0, "toSeq": 9, "chainValid": false, "checkpointsValid": true, "checkpoints": [], "anomalies": [{ "atSeq": 7 }] }),
        ),
        ("/v1/tools".to_owned(), json!([{ "toolId": "mcp:github:search", "source": "mcp" }])),
    ] {
        host.say(&path, answer);
    }
    host
}

/// K-10
#[expect(clippy::too_many_lines, reason = "what to find on each screen")]
#[tokio::test]
async fn every_screen_shows_and_does_what_it_should() {
    let mut browser = Browser::signed_in(stocked()).await;
    for (path, expected) in [
        (
            "/",
            vec![
                "What waits longest",
                "tries again",
                "Spent today",
                "callboard-1",
                "anthropic",
                "$3",
            ],
        ),
        (
            "/console/runs",
            vec![
                "tries again",
                "value=\"cancel\"",
                "value=\"retry\"",
                "value=\"compare\"",
                "/console/runs/export",
                "name=\"text\"",
                "name=\"minCostUsd\"",
                "name=\"triggerSource\"",
            ],
        ),
        ("/console/runs/run_1?tab=state", vec!["/signal\"", "notes · append", "/annotate\""]),
        ("/console/runs/run_2", vec!["?retry=1", "value=\"replay\""]),
        (
            "/console/runs/run_2?retry=1",
            vec!["name=\"latest\"", "name=\"inputs\"", "runs retry run_2"],
        ),
        (
            "/console/roster/host:sally",
            vec!["value=\"edit\"", "/fire\"", "/work\"", "/dismiss\"", "/budget\""],
        ),
        (
            "/console/runs/run_1",
            vec![
                "is tried again",
                "/cancel\"",
                "/pause\"",
                "?fork=3",
                "/report\"",
                "/bundle\"",
                "Show as curl",
            ],
        ),
        (
            "/console/runs/run_1/calls/2",
            vec!["Be brief.", "The lift has stopped.", "Call Otis.", "runs request run_1 2"],
        ),
        (
            "/console/inbox",
            vec![
                "value=\"accept\"",
                "value=\"reject\"",
                "action=\"/console/inbox/several\"",
                "data-key=\"a\"",
                "data-key=\"r\"",
            ],
        ),
        (
            "/console/agents/triager",
            vec![
                "value=\"promote\"",
                "value=\"pause\"",
                "value=\"rollback\"",
                "value=\"adjust-canary\"",
                "/run\"",
            ],
        ),
        (
            "/console/triggers/t1",
            vec![
                "1.2 s",
                "value=\"replay\"",
                "value=\"replay-all\"",
                "value=\"drop\"",
                "value=\"deliver\"",
            ],
        ),
        (
            "/console/triggers/t1/letters/d1",
            vec!["no such input", "&quot;n&quot;", "value=\"drop\""],
        ),
        (
            "/console/settings/webhooks/w1",
            vec!["answered 500", "value=\"replay\"", "value=\"replay-all\"", "value=\"drop\""],
        ),
        (
            "/console/memory/m1",
            vec![
                "class=\"added\"",
                "class=\"removed\"",
                "value=\"restore\"",
                "value=\"forget\"",
                "value=\"edit\"",
            ],
        ),
        (
            "/console/money",
            vec![
                "By agent",
                "triager",
                "By model",
                "mock/mini",
                "50 %",
                "30 days",
                "action=\"/console/money/host%3Asally\"",
                "Dearest runs",
                "callboard spend",
            ],
        ),
        ("/console/settings?tab=providers", vec!["anthropic", "Probe"]),
        ("/console/settings?tab=tools", vec!["MCP server github"]),
        (
            "/console/settings?tab=audit",
            vec!["key.revoked", "revokeKey", "cannot be read", "after=8", "verify=1"],
        ),
        ("/console/settings?tab=audit&verify=1", vec!["not as it was written", "entry 7"]),
    ] {
        let shown = browser.get(path).await;
        assert_eq!(shown.status, 200, "{path}: {}", shown.text);
        for needle in expected {
            assert!(shown.text.contains(needle), "{path} lacks {needle}: {}", shown.text);
        }
        assert!(
            shown.text.contains("Show as curl"),
            "{path} says how it can be had without a browser"
        );
    }
}

/// K-10: what the buttons ask of the host.
#[tokio::test]
async fn acts_ask_the_public_api() {
    let mut browser = Browser::signed_in(stocked()).await;
    let token = browser.get("/console/inbox").await.form_token();
    let both = [json!(["run_1", "a", "a"]).to_string(), json!(["run_1", "b", "gone"]).to_string()];
    let said = [
        ("_form", token.as_str()),
        ("question", &both[0]),
        ("question", &both[1]),
        ("action", "accept"),
    ];
    let answered = browser.post("/console/inbox/several", &said).await;
    assert!(
        answered.text.contains("0 of 2 were answered") || answered.text.contains("1 of 2"),
        "{}",
        answered.text
    );
    for (path, form) in [
        (
            "/console/agents/triager/deploy",
            vec![("version", "1.0.0"), ("transition", "adjust-canary"), ("canaryPercent", "10")],
        ),
        ("/console/money/host:sally", vec![("maxTokens", "50"), ("maxCostUsd", "")]),
        ("/console/money/host:sally", vec![("maxTokens", ""), ("maxCostUsd", "")]),
        ("/console/triggers/t1", vec![("act", "replay-all")]),
        ("/console/triggers/t1", vec![("act", "drop"), ("delivery", "d1")]),
        ("/console/settings/webhooks/w1", vec![("act", "replay"), ("delivery", "del_4")]),
        ("/console/settings/webhooks/w1", vec![("act", "drop"), ("delivery", "del_4")]),
        ("/console/settings/providers/anthropic", vec![]),
    ] {
        let form: Vec<(&str, &str)> = [("_form", token.as_str())].into_iter().chain(form).collect();
        browser.post(path, &form).await;
    }
    let asked: Vec<(String, Option<Value>)> = browser.host.changes();
    let expected = [
        (
            "POST /v1/runs/run_1/interrupts/a",
            Some(json!({ "resumeValue": { "action": "accept" } })),
        ),
        (
            "POST /v1/agents/triager/deployments",
            Some(json!({ "version": "1.0.0", "transition": "adjust-canary", "canaryPercent": 10 })),
        ),
        ("PUT /v1/host/callboard/roster/host%3Asally/budget", Some(json!({ "maxTokens": 50 }))),
        ("DELETE /v1/host/callboard/roster/host%3Asally/budget", None),
        ("POST /v1/host/callboard/trigger-subscriptions/t1/dead-letters/replay", None),
        ("DELETE /v1/host/callboard/trigger-subscriptions/t1/dead-letters/d1", None),
        ("POST /v1/host/callboard/webhooks/w1/dead-letters/del_4/replay", None),
        ("DELETE /v1/host/callboard/webhooks/w1/dead-letters/del_4", None),
        ("POST /v1/host/callboard/providers/anthropic/probe", None),
    ];
    assert_eq!(asked, expected.map(|(path, body)| (path.to_owned(), body)));
}

#[tokio::test]
async fn runs_are_exported_as_lines_of_json() {
    let mut browser = Browser::signed_in(stocked()).await;
    let file = browser.get("/console/runs/export?status=running").await;
    assert_eq!((file.status, file.header("content-type")), (200, "application/x-ndjson"));
    let lines: Vec<Value> =
        file.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["runId"], "run_1");
}

/// K-11: what is in the address is on the page, and in the requests that it is made from.
#[tokio::test]
async fn a_link_restores_the_view() {
    let mut browser = Browser::signed_in(stocked()).await;
    let runs = browser.get("/console/runs?status=failed&workflowId=desk&tag=red").await.text;
    for kept in [
        "<option selected>failed</option>",
        "value=\"desk\"",
        "value=\"red\"",
        "live?status=failed&amp;workflowId=desk&amp;tag=red",
    ] {
        assert!(runs.contains(kept), "{kept}: {runs}");
    }
    let log = browser.get("/console/runs/run_1?tab=log&type=node.&node=ask&from=0").await.text;
    for kept in [
        "aria-current=\"page\">Log",
        "<option value=\"node.\" selected>",
        "name=\"node\" value=\"ask\"",
    ] {
        assert!(log.contains(kept), "{kept}: {log}");
    }
    let money = browser.get("/console/money?days=30").await.text;
    assert!(money.contains("/spend?days=30"), "{money}");
}

/// K-01: what is served is what stands in this folder: no step makes it, and it names no other place.
#[test]
fn assets_need_no_node_and_no_network() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    for missing in ["build.rs", "package.json", "node_modules"] {
        assert!(!folder.join(missing).exists(), "{missing}");
        assert!(!folder.join("../..").join(missing).exists(), "{missing}");
    }
    for asset in std::fs::read_dir(folder.join("assets")).unwrap() {
        let path = asset.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!text.contains("http:") && !text.contains("https:"), "{}", path.display());
        assert!(!text.contains("@import") && !text.contains("import "), "{}", path.display());
    }
}

/// K-16, as far as it can be weighed: a run of 200 events, and what every page loads once.
#[tokio::test]
async fn pages_and_assets_are_light() {
    let host = stocked();
    let event = |sequence: u64| {
        json!({ "eventId": format!("run_1:{sequence}"), "runId": "run_1", "sequence": sequence, "type": "node.completed", "nodeId": "ask",
            "timestamp": "2026-01-31T06:00:00Z", "payload": { "durationMs": 12, "outputs": { "text": "The lift has stopped on the third floor." } } })
    };
    let events: Vec<Value> = (0..200).map(event).collect();
    host.say("/v1/runs/run_1/events/poll", json!({ "events": events }));
    let run = json!({ "runId": "run_1", "workflowId": "desk", "status": "completed", "lastSequence": 199 });
    host.say("/v1/runs/run_1", run);
    let mut browser = Browser::signed_in(host).await;
    let story = browser.get("/console/runs/run_1").await;
    assert_eq!(story.text.matches("class=\"row ").count(), 200);
    assert!(story.text.len() < 120_000, "{} bytes", story.text.len());
    let paths = story.text.split('"').filter(|part| part.starts_with("/console/assets/"));
    let paths: std::collections::BTreeSet<String> = paths.map(str::to_owned).collect();
    let mut sum = 0;
    for path in &paths {
        sum += browser.get(path).await.text.len();
    }
    assert!(sum > 10_000 && sum < 40_000, "{sum} bytes before they are compressed");
}
