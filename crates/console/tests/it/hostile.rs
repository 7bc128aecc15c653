//! K-07: whatever a model, a tool, a webhook or a tenant can write stays text, on every page.

use serde_json::{Value, json};

use crate::host::{Browser, MadeUp};

const EVIL: &str =
    "\"'></textarea></script></style><script>alert(1)</script><img src=x onerror=alert(1)>&\u{0}";

/// A value in which every text is hostile, but keeps what a page branches on.
fn poisoned(value: &Value) -> Value {
    const KEPT: [&str; 10] = [
        "status",
        "type",
        "kind",
        "state",
        "timestamp",
        "createdAt",
        "startedAt",
        "source",
        "origin",
        "runId",
    ];
    match value {
        Value::String(_) => json!(EVIL),
        Value::Array(items) => items.iter().map(poisoned).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| {
                let value =
                    if KEPT.contains(&name.as_str()) { value.clone() } else { poisoned(value) };
                (name.clone(), value)
            })
            .collect(),
        other => other.clone(),
    }
}

fn event(sequence: usize, kind: &str) -> Value {
    json!({
        "sequence": sequence, "type": kind, "nodeId": "n", "timestamp": "2026-01-31T06:00:00Z", "eventId": "e",
        "payload": {
            "workflowId": "w", "persona": "p", "reason": "r", "message": "m", "toolName": "t", "callId": "c", "inputs": { "a": "b" },
            "outcome": { "x": "y" }, "error": { "code": "c", "message": "m" }, "lastError": { "code": "c", "message": "m" }, "reasoning": "r",
            "decision": { "d": "e" }, "chunk": "c", "agentId": "a", "resolvedModel": "m", "resolvedProvider": "p", "kind": "approval", "key": "k",
            "data": { "title": "t", "question": "q" }, "resumeValue": "v", "childRunId": "r", "childWorkflowId": "w", "channel": "c", "value": "v",
            "name": "n", "next": "n", "provider": "p", "model": "m", "voter": "v", "action": "a", "question": "q", "typeId": "t",
            "initialTurn": { "content": "c" }, "turn": { "role": "r", "content": "c" }, "outputs": { "o": "p" }, "artifactId": "a",
            "originalModel": "m", "fallbackModel": "f", "fromAgentId": "a", "toAgentId": "b", "resolvedBy": "x", "triggerSource": "t",
        },
    })
}

const KINDS: [&str; 50] = [
    "run.started",
    "run.completed",
    "run.failed",
    "run.cancelled",
    "run.paused",
    "run.resumed",
    "run.dead_lettered",
    "run.unknown",
    "roster.run.initiated",
    "trigger.delivery.attempted",
    "node.started",
    "node.completed",
    "node.failed",
    "node.retried",
    "node.skipped",
    "node.cancelled",
    "node.dispatched",
    "node.unknown",
    "agent.invocation.started",
    "agent.invocation.completed",
    "agent.reasoned",
    "agent.decided",
    "agent.toolCalled",
    "agent.toolReturned",
    "agent.handoff",
    "agent.unknown",
    "interrupt.requested",
    "interrupt.resolved",
    "callboard.vote",
    "callboard.ask",
    "callboard.unknown",
    "conversation.opened",
    "conversation.exchanged",
    "conversation.closed",
    "callboard.cancel.requested",
    "callboard.child.changed",
    "callboard.model.fallback",
    "output.chunk",
    "provider.usage",
    "envelope.retry.attempted",
    "envelope.unknown",
    "channel.written",
    "variable.changed",
    "memory.written",
    "artifact.created",
    "log.appended",
    "cap.breached",
    "replay.diverged",
    "acme.odd",
    "",
];

#[expect(clippy::too_many_lines, reason = "one line for each answer of the host")]
fn host() -> MadeUp {
    let host = MadeUp::default();
    let ext = |path: &str| format!("/v1/host/callboard/{path}");
    let run = json!({
        "runId": "run_1", "workflowId": "w", "status": "failed", "createdAt": "2026-01-31T06:00:00Z", "startedAt": "2026-01-31T06:00:00Z",
        "lastSequence": KINDS.len() - 1, "error": { "code": "c", "message": "m", "details": { "a": "b" } }, "tags": ["t"], "variables": { "v": "x", "o": { "p": "q" } },
        "channels": { "c": "d" }, "nodeStates": { "n": { "status": "failed" } }, "metadata": { "m": "n" }, "configurable": { "c": "d" },
        "metrics": { "openwopCost": { "usd": 0.1, "tokens": { "input": 1, "output": 2 }, "model": "m", "provider": "p" } },
        "fork": { "sourceRunId": "s", "mode": "branch", "fromSeq": 1 }, "childRuns": [{ "runId": "c", "workflowId": "w", "status": "running" }],
        "triggerSource": "t", "rosterId": "r",
    });
    let member = json!({ "rosterId": "m", "persona": "p", "label": "l", "description": "d", "agentRef": { "agentId": "a" }, "workflows": ["w"], "enabled": true });
    let asked = json!({ "runId": "run_1", "workflowId": "w", "nodeId": "n", "interruptId": "i", "kind": "approval", "mayDecide": true, "requestedAt": "2026-01-31T06:00:00Z",
        "data": { "title": "t", "description": "d", "actions": ["accept", "edit-accept", "reject"], "artifactData": { "a": "b" } }, "votes": [{ "voter": "v", "action": "a" }] });
    let trigger = json!({ "subscriptionId": "t", "source": "queue", "state": "active", "workflowId": "w", "rosterId": "r", "verification": "v", "binding": { "deliverUrl": "u" }, "inputMapping": { "a": "b" } });
    let schedule = json!({ "id": "s", "workflowId": "w", "cron": "c", "timezone": "z", "rosterId": "r", "description": "d", "enabled": true, "overlap": "o", "missedFirePolicy": "m", "lastFire": { "outcome": "failed", "reason": "r", "runId": "x" } });
    let agent = json!({ "agentId": "a", "persona": "p", "description": "d", "modelClass": "m", "packName": "n", "packVersion": "v", "toolAllowlist": ["t"], "degraded": ["x"], "roster": [{ "rosterId": "r", "persona": "p" }] });
    let definition = json!({ "id": "w", "name": "n", "version": "v", "description": "d", "nodes": [{ "id": "n", "name": "m", "typeId": "t" }], "edges": [], "variables": [{ "name": "x", "type": "string", "description": "d", "defaultValue": "y" }] });
    let memory = json!({ "id": "m", "memoryRef": "r", "content": "c\nd", "tags": ["t"], "version": 2, "writtenAt": "2026-01-31T06:00:00Z", "author": { "runId": "r", "agentId": "a" } });
    let events: Vec<Value> =
        KINDS.iter().enumerate().map(|(place, kind)| event(place, kind)).collect();
    let say = |path: &str, answer: Value| host.say(path, poisoned(&answer));
    say("/v1/runs/run_1", run.clone());
    say("/v1/runs/run_1/events/poll", json!({ "events": events }));
    say(
        "/v1/runs/run_1/annotations",
        json!({ "annotations": [{ "annotationId": "a", "signal": { "kind": "label", "label": "l" }, "note": "n" }] }),
    );
    say(
        "/v1/runs/run_1/debug-bundle",
        json!({ "run": run, "events": events, "host": { "name": "n" } }),
    );
    say(
        "/v1/runs/run_1:diff",
        json!({ "divergedAtSeq": 1, "eventDiffs": [{ "seq": 1, "op": "changed", "aEvent": event(1, "acme"), "bEvent": event(1, "acme") }], "stateDiff": { "s": "t" } }),
    );
    say(&ext("runs"), json!({ "runs": [run], "nextCursor": "c" }));
    say(
        &ext("runs/run_1/ancestry"),
        json!({ "runs": [{ "runId": "p" }], "member": { "persona": "p", "rosterId": "r", "triggerSource": "t" } }),
    );
    say(&ext("inbox"), json!({ "interrupts": [asked] }));
    say(
        &ext("workflows"),
        json!({ "workflows": [{ "workflowId": "w", "name": "n", "version": "v", "origin": "registered", "description": "d" }] }),
    );
    say("/v1/workflows/w", definition);
    say("/v1/agents", json!({ "agents": [agent] }));
    say("/v1/agents/a", agent);
    say(
        "/v1/agents/a/deployments",
        json!([{ "version": "v", "state": "active", "channels": ["c"] }]),
    );
    say(
        &ext("packs"),
        json!({ "packs": [{ "name": "n", "version": "v", "integrity": "i", "scope": "tenant" }] }),
    );
    say(&ext("roster"), json!({ "roster": [member] }));
    say(&ext("roster/m"), member.clone());
    say(
        &ext("roster/m/activity"),
        json!({ "runs": [run], "next": [{ "scheduleId": "s", "workflowId": "w", "description": "d" }], "triggers": [trigger], "waiting": [asked], "today": { "source": "member", "spent": { "costUsd": 1 }, "limits": { "maxCostUsd": 2 } } }),
    );
    say(
        &ext("roster/m/work"),
        json!({ "work": [{ "workId": "w", "title": "t", "workflowId": "w", "state": "todo", "reason": "r", "inputs": { "a": "b" }, "runId": "r" }] }),
    );
    say(
        &ext("org-chart"),
        json!({ "chart": { "departments": [{ "departmentId": "d", "name": "n" }], "members": [{ "rosterId": "m", "departmentId": "d", "role": "r" }] } }),
    );
    say(&ext("schedules"), json!({ "schedules": [schedule], "nextCursor": "n" }));
    say(&ext("schedules/s"), schedule);
    say(&ext("trigger-subscriptions"), json!({ "subscriptions": [trigger] }));
    say(&ext("trigger-subscriptions/t"), trigger);
    say(
        "/v1/trigger-subscriptions/t/dead-letters",
        json!({ "deliveries": [{ "attemptEventId": "d", "reason": "r", "attempt": { "a": "b" } }] }),
    );
    say(&ext("memory"), json!({ "entries": [memory], "nextCursor": "c" }));
    say(&ext("memory/m/history"), json!({ "versions": [memory, memory] }));
    say(
        "/v1/host/workspace/files",
        json!({ "files": [{ "path": "p", "contentType": "t", "version": 1 }] }),
    );
    say(
        "/v1/host/workspace/files/p",
        json!({ "path": "p", "contentType": "t", "content": "c", "version": 2, "etag": "e" }),
    );
    say(
        &ext("keys"),
        json!({ "keys": [{ "id": "k", "name": "n", "origin": "stored", "scopes": ["s"] }] }),
    );
    say(&ext("secrets"), json!({ "secrets": [{ "name": "n", "audiences": ["a"] }] }));
    say(
        &ext("webhooks"),
        json!({ "webhooks": [{ "webhookId": "w", "url": "u", "events": ["e"], "durable": true, "state": "active", "secretFingerprint": "f" }] }),
    );
    say(
        &ext("webhooks/w/dead-letters"),
        json!({ "deadLetters": [{ "eventType": "e", "runId": "r", "reason": "r" }] }),
    );
    say(
        &ext("webhooks/w/deliveries"),
        json!({ "deliveries": [{ "eventType": "e", "runId": "r", "attempts": 1 }] }),
    );
    say(
        &ext("trigger-subscriptions/t/deliveries"),
        json!({ "deliveries": [{ "deliveryId": "d", "state": "s", "runId": "r", "reason": "r" }] }),
    );
    say(
        &ext("trigger-subscriptions/t/dead-letters/d"),
        json!({ "delivery": { "deliveryId": "d", "reason": "r" }, "event": { "a": "b" } }),
    );
    let used = json!({ "calls": 1, "inputTokens": 2, "outputTokens": 1, "costUsd": 1 });
    let named = json!([{ "name": "n", "used": used }]);
    say(
        &ext("spend"),
        json!({ "total": used, "days": [{ "day": "d", "used": used }], "byAgent": named, "byMember": named, "byModel": named,
            "byWorkflow": named, "dearestRuns": [run], "today": { "limits": { "maxCostUsd": 2 }, "spent": { "costUsd": 1 } } }),
    );
    say(
        &ext("hosts"),
        json!({ "hosts": [{ "hostId": "h", "version": "v", "claims": { "runs": 1 } }], "database": {}, "providers": [{ "name": "n" }] }),
    );
    say(
        &ext("runs/run_1/calls/1"),
        json!({ "call": { "provider": "p", "model": "m", "nodeId": "n" }, "isWhole": false,
            "request": { "system": "s", "messages": [{ "role": "r", "text": "t" }, { "role": "r", "calls": [{ "name": "n", "arguments": { "a": "b" } }] },
                { "role": "r", "result": { "name": "n", "content": "c" } }], "tools": [{ "name": "n", "description": "d", "parameters": { "a": "b" } }] },
            "answer": { "text": "t", "thinking": "t", "stop": "s", "toolCalls": [{ "name": "n", "arguments": { "a": "b" } }] } }),
    );
    say(&ext("capabilities"), json!({ "implementation": { "name": "n" }, "limits": { "l": 1 } }));
    say(
        "/v1/openapi.json",
        json!({ "paths": { "/p": { "get": { "summary": "s", "x-openwop-scope": "x",
            "parameters": [{ "in": "query", "name": "n", "description": "d" }] } } } }),
    );
    say(
        "/v1/tools",
        json!([{ "toolId": "t", "description": "d", "source": "s", "inputSchema": { "a": "b" } }]),
    );
    host
}

#[tokio::test]
async fn hostile_text_stays_text_on_every_page() {
    let mut browser = Browser::signed_in(host()).await;
    for path in [
        "/",
        "/console/runs",
        "/console/runs?status=%22%3E%3Cscript%3E&tag=%3Cimg%20src%3Dx%3E",
        "/console/runs/run_1",
        "/console/runs/run_1?tab=waterfall",
        "/console/runs/run_1?tab=graph",
        "/console/runs/run_1?tab=log&from=0&node=%3Cimg%20src%3Dx%3E",
        "/console/runs/run_1?tab=log&from=0",
        "/console/runs/run_1?tab=state",
        "/console/runs/run_1?fork=1",
        "/console/runs/run_1/calls/1",
        "/console/runs/run_1/report",
        "/console/compare?a=run_1&b=run_1",
        "/console/inbox",
        "/console/workflows",
        "/console/workflows/w",
        "/console/workflows/-/new?of=w",
        "/console/agents",
        "/console/agents/a",
        "/console/roster",
        "/console/roster/m",
        "/console/schedules",
        "/console/schedules/s",
        "/console/triggers",
        "/console/triggers/t",
        "/console/triggers/t/letters/d",
        "/console/memory?text=%3Cscript%3E",
        "/console/memory/m",
        "/console/files",
        "/console/file?path=p",
        "/console/money",
        "/console/settings?tab=http",
        "/console/settings",
        "/console/settings?tab=keys",
        "/console/settings?tab=secrets",
        "/console/settings?tab=webhooks",
        "/console/settings?tab=host",
        "/console/settings?tab=tools",
        "/console/settings?tab=providers",
        "/console/settings/webhooks/w",
        "/console/find?q=%3Cscript%3E",
        "/console/login?next=%22%3E%3Cscript%3E",
        "/console/enter?code=%22%3E%3Cscript%3E",
    ] {
        let shown = browser.get(path).await;
        assert_eq!(shown.status, 200, "{path}: {}", shown.text);
        let scripts = shown.text.matches("<script").count();
        let own = shown.text.matches("<script src=\"/console/assets/").count();
        assert_eq!(scripts, own, "{path}");
        assert!(!shown.text.contains("<img"), "{path}");
        assert!(!shown.text.contains("\"'>"), "{path}: a quote ended an attribute");
    }
}
