//! K-10: every act of every screen, as the request that it makes of the host. A form that is not ours is refused
//! elsewhere; here each is one of the session's own.

use serde_json::{Value, json};

use crate::host::{Browser, MadeUp};

const OURS: &str = "/v1/host/callboard";

/// One act: where its form goes, what is in it, and what is asked of the host.
struct Done {
    at: &'static str,
    form: &'static [(&'static str, &'static str)],
    asks: String,
    body: Option<Value>,
}

fn done(
    at: &'static str,
    form: &'static [(&'static str, &'static str)],
    asks: impl Into<String>,
    body: Option<Value>,
) -> Done {
    Done { at, form, asks: asks.into(), body }
}

async fn check(host: MadeUp, acts: Vec<Done>) {
    let mut browser = Browser::signed_in(host).await;
    let token = browser.get("/console/settings").await.form_token();
    for Done { at, form, asks, body } in acts {
        browser.host.calls.lock().unwrap().clear();
        let form: Vec<(&str, &str)> =
            [("_form", token.as_str())].into_iter().chain(form.iter().copied()).collect();
        let shown = browser.post(at, &form).await;
        assert_eq!(browser.host.changes(), [(asks, body)], "{at} {form:?}: {}", shown.text);
    }
}

#[expect(clippy::too_many_lines, reason = "one row for each act")]
#[tokio::test]
async fn runs() {
    let host = MadeUp::default();
    host.say(
        "/v1/runs/r",
        json!({ "runId": "r", "workflowId": "desk", "status": "failed", "lastSequence": 9 }),
    );
    let why = json!({ "reason": "from the console" });
    check(
        host,
        vec![
            done("/console/runs/r/cancel", &[], "POST /v1/runs/r/cancel", Some(why)),
            done("/console/runs/r/pause", &[], "POST /v1/runs/r:pause", Some(json!({}))),
            done("/console/runs/r/resume", &[], "POST /v1/runs/r:resume", Some(json!({}))),
            done(
                "/console/runs/r/signal",
                &[("channel", "notes/1"), ("value", "[1]")],
                format!("POST {OURS}/runs/r/channels/notes%2F1"),
                Some(json!({ "value": [1] })),
            ),
            done(
                "/console/runs/r/signal",
                &[("channel", "notes"), ("value", "ship it")],
                format!("POST {OURS}/runs/r/channels/notes"),
                Some(json!({ "value": "ship it" })),
            ),
            done(
                "/console/runs/r/fork",
                &[
                    ("mode", "branch"),
                    ("fromSeq", "4"),
                    ("model", "mock/large"),
                    ("configurable", r#"{"promptOverrides": {"system": "prompt:brief"}}"#),
                    ("tags", "second, try"),
                ],
                "POST /v1/runs/r:fork",
                Some(json!({ "mode": "branch", "fromSeq": 4, "runOptionsOverlay": {
                    "configurable": { "model": "mock/large", "promptOverrides": { "system": "prompt:brief" } }, "tags": ["second", "try"] } })),
            ),
            done(
                "/console/runs/r/fork",
                &[("mode", "replay")],
                "POST /v1/runs/r:fork",
                Some(json!({ "mode": "replay" })),
            ),
            done(
                "/console/runs/r/retry",
                &[("latest", "1"), ("from", "ask"), ("inputs", r#"{"n": 2}"#)],
                format!("POST {OURS}/runs/r/retry"),
                Some(json!({ "latest": true, "from": "ask", "inputs": { "n": 2 } })),
            ),
            done(
                "/console/runs/r/annotate",
                &[("kind", "rating"), ("rating", "4"), ("note", "fine")],
                "POST /v1/runs/r/annotations",
                Some(json!({ "signal": { "kind": "rating", "rating": 4 }, "note": "fine" })),
            ),
            done(
                "/console/runs/several",
                &[("run", "r"), ("run", "s"), ("act", "cancel")],
                "POST /v1/runs:bulk-cancel",
                Some(json!({ "runIds": ["r", "s"], "reason": "from the console" })),
            ),
            done(
                "/console/runs/several",
                &[("run", "r"), ("act", "retry")],
                format!("POST {OURS}/runs/r/retry"),
                None,
            ),
        ],
    )
    .await;
}

#[expect(clippy::too_many_lines, reason = "one row for each act")]
#[tokio::test]
async fn agents_and_workflows() {
    let host = MadeUp::default();
    host.say("/v1/agents/a", json!({ "agentId": "a", "persona": "A" }));
    let task = json!({ "type": "object", "required": ["message"], "properties": { "message": { "type": "string" }, "n": { "type": "integer" } } });
    host.say(&format!("{OURS}/agents/a"), json!({ "agentId": "a", "taskSchema": task }));
    let variables = json!([{ "name": "message", "type": "string", "required": true }]);
    host.say("/v1/workflows/w", json!({ "id": "w", "name": "W", "variables": variables }));
    let deploy = |body: Value| Some(body);
    check(
        host,
        vec![
            done(
                "/console/agents/a/run",
                &[("v/message", "Hello"), ("v/n", "3")],
                "POST /v1/runs",
                Some(json!({ "agentId": "a", "inputs": { "message": "Hello", "n": 3 } })),
            ),
            done(
                "/console/agents/a/deploy",
                &[("version", "2"), ("transition", "promote"), ("toState", "active")],
                "POST /v1/agents/a/deployments",
                deploy(json!({ "version": "2", "transition": "promote", "toState": "active" })),
            ),
            done(
                "/console/agents/a/deploy",
                &[("version", "2"), ("transition", "pause")],
                "POST /v1/agents/a/deployments",
                deploy(json!({ "version": "2", "transition": "pause" })),
            ),
            done(
                "/console/agents/a/deploy",
                &[("version", "2"), ("transition", "rollback")],
                "POST /v1/agents/a/deployments",
                deploy(json!({ "version": "2", "transition": "rollback" })),
            ),
            done(
                "/console/agents/a/deploy",
                &[("version", "2"), ("transition", "adjust-canary"), ("canaryPercent", "10")],
                "POST /v1/agents/a/deployments",
                deploy(
                    json!({ "version": "2", "transition": "adjust-canary", "canaryPercent": 10 }),
                ),
            ),
            done(
                "/console/agents/-/remove-pack",
                &[("name", "p"), ("version", "1")],
                format!("DELETE {OURS}/packs/p/1"),
                None,
            ),
            done(
                "/console/workflows/w/start",
                &[("v/message", "Hi"), ("tags", "x")],
                "POST /v1/runs",
                Some(json!({ "workflowId": "w", "inputs": { "message": "Hi" }, "tags": ["x"] })),
            ),
            // As it was written, so that the host can say in which line it is wrong.
            done(
                "/console/workflows",
                &[("definition", "id: w\r\nnodes:\r\n  a: core.noop\r\n")],
                format!("POST {OURS}/workflows"),
                Some(json!("id: w\nnodes:\n  a: core.noop\n")),
            ),
            done("/console/workflows/w/remove", &[], format!("DELETE {OURS}/workflows/w"), None),
        ],
    )
    .await;
}

#[tokio::test]
async fn members() {
    let member = format!("{OURS}/roster/host%3As");
    check(
        MadeUp::default(),
        vec![
            done(
                "/console/roster",
                &[("persona", "Sally"), ("agent", "a"), ("workflow", "x"), ("workflow", "y")],
                format!("POST {OURS}/roster"),
                Some(json!({ "persona": "Sally", "agentRef": { "agentId": "a" }, "workflows": ["x", "y"] })),
            ),
            done(
                "/console/roster/host:s/change",
                &[("act", "edit"), ("persona", "Sal"), ("description", "d"), ("workflow", "x")],
                format!("PATCH {member}"),
                Some(json!({ "persona": "Sal", "description": "d", "workflows": ["x"] })),
            ),
            done(
                "/console/roster/host:s/change",
                &[("enabled", "false")],
                format!("PATCH {member}"),
                Some(json!({ "enabled": false })),
            ),
            done(
                "/console/roster/host:s/fire",
                &[("workflowId", "x"), ("inputs", r#"{"n": 1}"#)],
                format!("POST {member}/fire"),
                Some(json!({ "workflowId": "x", "inputs": { "n": 1 } })),
            ),
            done(
                "/console/roster/host:s/work",
                &[("title", "T"), ("workflowId", "x"), ("inputs", "")],
                format!("POST {member}/work"),
                Some(json!({ "title": "T", "inputs": {}, "workflowId": "x" })),
            ),
            done(
                "/console/roster/host:s/work/k",
                &[("state", "doing")],
                format!("PATCH {member}/work/k"),
                Some(json!({ "state": "doing" })),
            ),
            done(
                "/console/roster/host:s/budget",
                &[("maxCostUsd", "2.5"), ("maxTokens", ""), ("act", "set")],
                format!("PUT {member}/budget"),
                Some(json!({ "maxCostUsd": 2.5 })),
            ),
            done(
                "/console/roster/host:s/budget",
                &[("act", "reset")],
                format!("DELETE {member}/budget"),
                None,
            ),
            done("/console/roster/host:s/dismiss", &[], format!("DELETE {member}"), None),
        ],
    )
    .await;
}

#[expect(clippy::too_many_lines, reason = "one row for each act")]
#[tokio::test]
async fn triggers_and_schedules() {
    let (trigger, schedule) =
        (format!("{OURS}/trigger-subscriptions"), format!("{OURS}/schedules"));
    check(
        MadeUp::default(),
        vec![
            done(
                "/console/triggers",
                &[("source", "queue"), ("workflowId", "w"), ("inputMapping", r#"{"m": "queue.m"}"#)],
                format!("POST {trigger}"),
                Some(json!({ "source": "queue", "workflowId": "w", "inputMapping": { "m": "queue.m" } })),
            ),
            done(
                "/console/triggers/t",
                &[("act", "deliver"), ("id", "1"), ("payload", r#"{"m": 1}"#)],
                format!("POST {trigger}/t/deliver"),
                Some(json!({ "id": "1", "payload": { "m": 1 } })),
            ),
            done(
                "/console/triggers/t",
                &[("act", "replay"), ("delivery", "d")],
                format!("POST {trigger}/t/dead-letters/d/replay"),
                None,
            ),
            done(
                "/console/triggers/t",
                &[("act", "replay-all")],
                format!("POST {trigger}/t/dead-letters/replay"),
                None,
            ),
            done(
                "/console/triggers/t",
                &[("act", "drop"), ("delivery", "d")],
                format!("DELETE {trigger}/t/dead-letters/d"),
                None,
            ),
            done(
                "/console/triggers/t",
                &[("act", "rotate")],
                format!("POST {trigger}/t/rotate-secret"),
                None,
            ),
            done(
                "/console/triggers/t",
                &[("act", "paused")],
                format!("PATCH {trigger}/t"),
                Some(json!({ "state": "paused" })),
            ),
            done("/console/triggers/t", &[("act", "remove")], format!("DELETE {trigger}/t"), None),
            done(
                "/console/schedules",
                &[("workflowId", "w"), ("cron", "0 7 * * *"), ("timezone", "UTC")],
                format!("POST {schedule}"),
                Some(json!({ "workflowId": "w", "cron": "0 7 * * *", "timezone": "UTC" })),
            ),
            done("/console/schedules/s", &[("act", "run")], format!("POST {schedule}/s/run-now"), None),
            done(
                "/console/schedules/s",
                &[("act", "pause")],
                format!("PATCH {schedule}/s"),
                Some(json!({ "enabled": false })),
            ),
            done("/console/schedules/s", &[("act", "remove")], format!("DELETE {schedule}/s"), None),
        ],
    )
    .await;
}

#[tokio::test]
async fn memory_files_and_money() {
    let files = "/v1/host/workspace/files";
    check(
        MadeUp::default(),
        vec![
            done(
                "/console/memory/m",
                &[("act", "edit"), ("content", "a\r\nb"), ("expected", "3")],
                format!("PUT {OURS}/memory/m"),
                Some(json!({ "content": "a\nb", "expectedVersion": 3 })),
            ),
            done(
                "/console/memory/m",
                &[("act", "restore"), ("version", "1"), ("expected", "3")],
                format!("POST {OURS}/memory/m/restore"),
                Some(json!({ "version": 1, "expectedVersion": 3 })),
            ),
            done(
                "/console/memory/m",
                &[("act", "forget")],
                format!("DELETE {OURS}/memory/m"),
                None,
            ),
            done(
                "/console/file",
                &[
                    ("path", "a/b.md"),
                    ("contentType", "text/markdown"),
                    ("content", "x"),
                    ("etag", "e"),
                ],
                format!("PUT {files}/a/b.md"),
                Some(json!({ "content": "x", "contentType": "text/markdown" })),
            ),
            done(
                "/console/file",
                &[("path", "a/b.md"), ("act", "remove")],
                format!("DELETE {files}/a/b.md"),
                None,
            ),
            done(
                "/console/money/host:s",
                &[("maxTokens", "50"), ("maxCostUsd", "")],
                format!("PUT {OURS}/roster/host%3As/budget"),
                Some(json!({ "maxTokens": 50 })),
            ),
        ],
    )
    .await;
}

#[expect(clippy::too_many_lines, reason = "one row for each act")]
#[tokio::test]
async fn settings() {
    check(
        MadeUp::default(),
        vec![
            done(
                "/console/settings/keys",
                &[("name", "ci"), ("role", ""), ("scope", "runs:read"), ("scope", "runs:create")],
                format!("POST {OURS}/keys"),
                Some(json!({ "name": "ci", "scopes": ["runs:read", "runs:create"] })),
            ),
            done(
                "/console/settings/keys",
                &[("name", "view"), ("role", "viewer")],
                format!("POST {OURS}/keys"),
                Some(json!({ "name": "view", "scopes": ["role:viewer"] })),
            ),
            done(
                "/console/settings/keys/k",
                &[("act", "rotate")],
                format!("POST {OURS}/keys/k/rotate"),
                None,
            ),
            done(
                "/console/settings/keys/k",
                &[("act", "revoke")],
                format!("DELETE {OURS}/keys/k"),
                None,
            ),
            done(
                "/console/settings/secrets",
                &[("name", "github"), ("value", "v")],
                format!("PUT {OURS}/secrets/github"),
                Some(json!({ "value": "v" })),
            ),
            done(
                "/console/settings/secrets",
                &[("name", "github"), ("act", "remove")],
                format!("DELETE {OURS}/secrets/github"),
                None,
            ),
            done(
                "/console/settings/webhooks",
                &[("url", "https://x.example"), ("events", "run.*, node.failed"), ("durable", "1")],
                "POST /v1/webhooks",
                Some(json!({ "url": "https://x.example", "events": ["run.*", "node.failed"], "durable": true })),
            ),
            done(
                "/console/settings/webhooks",
                &[("id", "w"), ("act", "remove")],
                "DELETE /v1/webhooks/w",
                None,
            ),
            done(
                "/console/settings/webhooks/w",
                &[("act", "replay-all")],
                format!("POST {OURS}/webhooks/w/dead-letters/replay"),
                None,
            ),
            done(
                "/console/settings/providers/anthropic",
                &[],
                format!("POST {OURS}/providers/anthropic/probe"),
                None,
            ),
        ],
    )
    .await;
}

/// What a form refuses does not reach the host, and is said at its field.
#[tokio::test]
async fn an_agent_is_not_given_a_task_that_its_schema_refuses() {
    let host = MadeUp::default();
    host.say("/v1/agents/a", json!({ "agentId": "a", "persona": "A" }));
    let task = json!({ "type": "object", "required": ["message"], "properties": { "message": { "type": "string", "title": "What came in" } } });
    host.say(&format!("{OURS}/agents/a"), json!({ "taskSchema": task, "prompt": "Be brief." }));
    let mut browser = Browser::signed_in(host).await;
    let page = browser.get("/console/agents/a").await;
    for shown in ["What came in", "name=\"v/message\"", "Be brief."] {
        assert!(page.text.contains(shown), "{shown}: {}", page.text);
    }
    let refused = browser.post("/console/agents/a/run", &[("_form", &page.form_token())]).await;
    assert_eq!(refused.status, 422);
    assert!(refused.text.contains("is a required property"), "{}", refused.text);
    assert_eq!(browser.host.changes(), []);
}

/// The newest version leads to the one before, and offers nothing to be restored.
#[tokio::test]
async fn versions_of_a_file_lead_to_each_other() {
    let host = MadeUp::default();
    let file = json!({ "path": "a.md", "contentType": "text/markdown", "content": "x", "version": 2, "etag": "e2" });
    host.say("/v1/host/workspace/files/a.md", file);
    let mut browser = Browser::signed_in(host).await;
    let newest = browser.get("/console/file?path=a.md").await.text;
    assert!(newest.contains("version=1\">the version before"), "{newest}");
    let old = browser.get("/console/file?path=a.md&version=2").await.text;
    assert!(old.contains("the newest") && !old.contains("Restore this version"), "{old}");
}
