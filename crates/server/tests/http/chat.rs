//! Runs that begin with a mention.

use callboard_server::ServerConfig;
use serde_json::json;

use crate::agents::{REVIEWER, TRIAGER, host, kinds};
use crate::given::{LIVE, READER, RIVAL, Reply, Setup, TestHost};
use crate::roster::{hire, patch, sally};

const CHAT: &str = "/v1/host/callboard/chat";

async fn say(host: &TestHost, text: &str) -> Reply {
    host.post(CHAT, &json!({ "text": text })).send().await
}

#[tokio::test(start_paused = true)]
async fn a_mention_of_a_member_starts_its_agent_for_it() {
    let host = host().await;
    let id = sally(&host).await;
    for text in ["please, @sally: fix the printer", &format!("please, @{id}: fix the printer")] {
        let reply = say(&host, text).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        let run = reply.text_at("runId");
        assert_eq!(reply.json, json!({ "runId": run }));
        let events = host.end_of(&run).await;
        assert_eq!(kinds(&events)[..2], ["run.started", "roster.run.initiated"]);
        assert_eq!(events[1]["payload"]["rosterId"], id);
        assert_eq!(events[1]["payload"]["workflowId"], format!("agent.{id}"));
        assert_eq!(kinds(&events).last(), Some(&"run.completed"), "{events:?}");
        let snapshot = host.get(&format!("/v1/runs/{run}")).send().await.json;
        let agent = json!({ "agentId": TRIAGER, "name": "Sally", "sourceManifestId": TRIAGER });
        assert_eq!(snapshot["agent"], agent);
        // The triager's task must have a `message`.
        let task = json!({ "message": "please, fix the printer" });
        assert_eq!(events[0]["payload"]["inputs"], task);
    }
    // A pause holds triggers back, not people.
    let paused =
        patch(&host, &format!("/v1/host/callboard/roster/{id}"), json!({ "enabled": false })).await;
    assert_eq!(paused.status, 200);
    assert_eq!(say(&host, "@Sally once more").await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn an_agent_is_mentioned_by_its_id_or_its_persona() {
    let host = host().await;
    for text in [format!("@{TRIAGER} the printer burns"), "@Triager the printer burns".to_owned()] {
        let run = say(&host, &text).await.text_at("runId");
        let events = host.end_of(&run).await;
        assert_eq!(kinds(&events).last(), Some(&"run.completed"), "{events:?}");
        assert!(!kinds(&events).contains(&"roster.run.initiated"));
        let task = json!({ "message": "the printer burns" });
        assert_eq!(events[0]["payload"]["inputs"], task);
    }
    // Whoever was hired under the name is meant then.
    let body =
        json!({ "persona": "Triager", "agentRef": { "agentId": REVIEWER }, "workflows": [] });
    assert_eq!(hire(&host, body).await.status, 201);
    let run = say(&host, "@Triager look").await.text_at("runId");
    let events = host.end_of(&run).await;
    assert_eq!(events[1]["payload"]["agentId"], REVIEWER);
}

#[tokio::test(start_paused = true)]
async fn a_mention_of_nobody_starts_nothing() {
    let host = host().await;
    sally(&host).await;
    for text in ["@Nobody help", "@Sallyanne help", "Sally, help", "mail bob@sally", "@", ""] {
        assert_eq!(say(&host, text).await.refusal(), (404, "agent_not_found"), "{text:?}");
    }
    let theirs = host.post(CHAT, &json!({ "text": "@Sally help" })).key(RIVAL).send().await;
    assert_eq!(theirs.refusal(), (404, "agent_not_found"));
    let nobody = host.post(CHAT, &json!({ "text": "@Nobody help" })).key(RIVAL).send().await;
    assert_eq!(theirs.json, nobody.json, "somebody else's is nobody");
    for body in [json!({}), json!({ "text": 1 }), json!({ "text": "@Sally", "to": "Sally" })] {
        let reply = host.post(CHAT, &body).send().await;
        assert_eq!(reply.refusal(), (400, "validation_error"), "{body}");
    }
    let reply = host.post(CHAT, &json!({ "text": "@Sally help" })).key(READER).send().await;
    assert_eq!(reply.refusal(), (403, "forbidden"));
    assert_eq!(reply.json["details"]["scopeRequired"], "runs:create");
    let runs = host.get("/v1/host/callboard/runs").send().await;
    assert_eq!(runs.json["runs"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn the_same_message_twice_under_one_key_is_one_run() {
    let host = host().await;
    sally(&host).await;
    let body = json!({ "text": "@Sally help" });
    let send = || host.post(CHAT, &body).key(LIVE).header("idempotency-key", "m-1");
    let first = send().send().await;
    assert_eq!(first.status, 201, "{first:?}");
    assert_eq!(send().send().await.json, first.json);
}

/// Agents can be mentioned where nobody can be hired.
#[tokio::test(start_paused = true)]
async fn a_host_without_a_roster_still_has_agents_to_mention() {
    let mut config = ServerConfig::default();
    if let Some(agents) = &mut config.agents {
        agents.roster = None;
    }
    let packs = vec![crate::agents::starter()];
    let host = TestHost::of(Setup { config, packs, ..Setup::default() }).await;
    let reply = host.post(CHAT, &json!({ "text": "@Triager help" })).key(LIVE).send().await;
    assert_eq!(reply.status, 201, "{reply:?}");
}
