//! What a person sees at once: what became no run, who somebody is, what is proposed, and rows as soon as they are there.

use serde_json::json;

use crate::host::{Browser, MadeUp};

const OURS: &str = "/v1/host/callboard";
const AT: &str = "2026-01-31T06:00:00Z";

#[tokio::test]
async fn letters_that_became_no_run_are_on_the_overview_and_the_hosts_own_runs_are_not() {
    let host = MadeUp::default();
    let run = |id: &str, workflow: &str| json!({ "runId": id, "workflowId": workflow, "status": "completed", "createdAt": AT, "tags": ["t1"] });
    host.say(
        &format!("{OURS}/runs"),
        json!({ "runs": [run("run_a", "callboard-trigger"), run("run_b", "desk")] }),
    );
    let trigger = json!({ "subscriptionId": "t1", "workflowId": "desk", "state": "active" });
    host.say(&format!("{OURS}/trigger-subscriptions"), json!({ "subscriptions": [trigger] }));
    let letters = json!({ "deliveries": [{ "attemptEventId": "d1" }, { "attemptEventId": "d2" }] });
    host.say("/v1/trigger-subscriptions/t1/dead-letters", letters);
    let mut browser = Browser::signed_in(host).await;
    let page = browser.get("/").await.text;
    assert!(page.contains("href=\"/console/triggers/t1\">desk</a>"), "{page}");
    assert!(page.contains("2 letters") && !page.contains("Nothing failed"), "{page}");
    assert!(page.contains("run_b") && !page.contains("run_a"), "{page}");
}

#[tokio::test]
async fn members_stand_under_their_names_wherever_something_is_for_them() {
    let host = MadeUp::default();
    let roster = json!({ "roster": [{ "rosterId": "host:sally-1", "persona": "Sally" }] });
    host.say(&format!("{OURS}/roster"), roster);
    let mut trigger = json!({ "subscriptionId": "t1", "source": "queue", "workflowId": "desk", "rosterId": "host:sally-1", "state": "active" });
    host.say(&format!("{OURS}/trigger-subscriptions/t1"), trigger.clone());
    trigger["rosterId"] = json!("host:gone-2");
    host.say(&format!("{OURS}/trigger-subscriptions"), json!({ "subscriptions": [trigger] }));
    let schedule =
        json!({ "id": "s1", "workflowId": "desk", "rosterId": "host:sally-1", "enabled": true });
    host.say(&format!("{OURS}/schedules"), json!({ "schedules": [schedule] }));
    let mut browser = Browser::signed_in(host).await;
    for path in ["/console/triggers/t1", "/console/schedules"] {
        let page = browser.get(path).await.text;
        let named = "href=\"/console/roster/host%3Asally-1\" title=\"host:sally-1\">Sally</a>";
        assert!(page.contains(named), "{path}: {page}");
    }
    let page = browser.get("/console/triggers").await.text;
    assert!(page.contains(">host:gone-2</a>"), "who has left is still told apart: {page}");
}

#[tokio::test]
async fn a_text_that_is_proposed_can_be_read_in_the_inbox() {
    let host = MadeUp::default();
    let data = json!({ "title": "Send it?", "actions": ["accept"], "artifactData": "Dear <b>Ada</b>,\nyour parcel is here." });
    let asked = json!({ "interruptId": "i", "runId": "r", "nodeId": "n", "kind": "approval", "workflowId": "desk", "requestedAt": AT, "mayDecide": true, "data": data });
    host.say(&format!("{OURS}/inbox"), json!({ "interrupts": [asked] }));
    let mut browser = Browser::signed_in(host).await;
    let page = browser.get("/console/inbox").await.text;
    assert!(page.contains("Dear &lt;b&gt;Ada&lt;/b&gt;,\nyour parcel is here."), "{page}");
}

/// What comes from the API as one piece goes to the browser as one, and nothing of it is lost or out of order.
#[tokio::test]
async fn events_that_come_together_are_sent_together() {
    let host = MadeUp::default();
    let run =
        json!({ "runId": "r", "workflowId": "desk", "status": "completed", "lastSequence": 5 });
    host.say("/v1/runs/r", run);
    let frame = |sequence: u64| {
        let event = json!({ "sequence": sequence, "type": "node.started", "nodeId": "ask", "payload": {}, "timestamp": AT });
        format!("id: {sequence}\nevent: node.started\ndata: {event}\n\n")
    };
    let (whole, half) = ((0..4).map(frame).collect::<String>(), frame(4));
    let (begun, rest) = half.split_at(20);
    *host.frames.lock().unwrap() = vec![format!("{whole}{begun}"), rest.to_owned()];
    let mut browser = Browser::signed_in(host).await;
    let pieces = browser.pieces("/console/runs/r/live?tab=log").await;
    let with_rows: Vec<Vec<&str>> = pieces
        .iter()
        .map(|piece| piece.lines().filter(|line| line.starts_with("id: ")).collect())
        .filter(|ids: &Vec<&str>| !ids.is_empty())
        .collect();
    assert!(with_rows[0].starts_with(&["id: 0", "id: 1", "id: 2", "id: 3"]), "{with_rows:?}");
    assert_eq!(with_rows.concat(), ["id: 0", "id: 1", "id: 2", "id: 3", "id: 4"]);
    assert!(pieces.last().unwrap().contains("event: done"), "{pieces:?}");
}

/// What nodes do by themselves costs an open page no call of the API; what its header tells is read again.
#[tokio::test(start_paused = true)]
async fn a_page_reads_the_run_again_only_for_what_its_header_tells() {
    let reads_of = async |kind: &str| {
        let host = MadeUp::default();
        let run = json!({ "runId": "r", "workflowId": "desk", "status": "running", "lastSequence": 0, "startedAt": AT });
        host.say("/v1/runs/r", run);
        let event =
            json!({ "sequence": 1, "type": kind, "nodeId": "ask", "payload": {}, "timestamp": AT });
        *host.frames.lock().unwrap() = vec![format!("id: 1\nevent: {kind}\ndata: {event}\n\n")];
        *host.lingers.lock().unwrap() = true;
        let mut browser = Browser::signed_in(host).await;
        let pieces = browser.pieces("/console/runs/r/live?tab=log&after=0").await.concat();
        assert!(pieces.contains("id: 1\n"), "{pieces}");
        let calls = browser.host.calls.lock().unwrap();
        calls.iter().filter(|(path, _)| path == "GET /v1/runs/r").count()
    };
    // One when it is opened, one when the stream has ended.
    assert_eq!(reads_of("node.started").await, 2);
    assert_eq!(reads_of("run.paused").await, 3);
}

/// Turns at the database are given in order. A stream that waits for one takes it when it comes, also while its page asks the host
/// for something else: with as many open pages as turns, all of them would wait for ever.
#[tokio::test(start_paused = true)]
async fn a_stream_that_waits_for_its_turn_does_not_hold_up_its_own_page() {
    let turns = std::sync::Arc::new(tokio::sync::Semaphore::new(1));
    let host = MadeUp { turns: Some(turns.clone()), ..MadeUp::default() };
    host.say("/v1/runs/r", json!({ "runId": "r", "workflowId": "desk", "status": "running" }));
    let event = json!({ "sequence": 1, "type": "run.paused", "payload": {}, "timestamp": AT });
    *host.frames.lock().unwrap() = vec![format!("id: 1\nevent: run.paused\ndata: {event}\n\n")];
    let mut browser = Browser::signed_in(host).await;
    // Somebody else has the turn from before the stream asks for it until after the page does.
    let other = async {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        let turn = turns.acquire().await.unwrap();
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        drop(turn);
    };
    let page = async {
        let pieces = browser.pieces("/console/runs/r/live?tab=log&after=0");
        tokio::time::timeout(std::time::Duration::from_secs(60), pieces).await
    };
    let (pieces, ()) = tokio::join!(page, other);
    let pieces = pieces.expect("the stream comes to its end").concat();
    assert!(pieces.contains("id: 1\n"), "{pieces}");
}
