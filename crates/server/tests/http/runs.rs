//! Reading, listing and cancelling runs: R45, R47, R79 and the host's own list.

use serde_json::{Value, json};

use crate::given::{LIVE, RIVAL, TestHost};

/// R79.
#[tokio::test(start_paused = true)]
async fn a_run_that_did_not_change_is_not_sent_again() {
    let host = TestHost::start().await;
    let run = host.waiting_run().await;
    let path = format!("/v1/runs/{run}");
    let first = host.get(&path).send().await;
    let tag = first.header("etag").to_owned();
    assert!(tag.starts_with('"'), "strong: {tag}");
    assert_eq!(host.get(&path).send().await.header("etag"), tag, "stable while nothing changes");
    for sent in [tag.clone(), format!("W/{tag}"), format!("\"x\", {tag}"), "*".to_owned()] {
        let reply = host.get(&path).header("if-none-match", &sent).send().await;
        assert_eq!(
            (reply.status, reply.bytes.len(), reply.header("etag")),
            (304, 0, tag.as_str()),
            "{sent}"
        );
    }
    host.post(&format!("{path}/cancel"), &json!({})).send().await;
    host.end_of(&run).await;
    let after = host.get(&path).header("if-none-match", &tag).send().await;
    assert_eq!(after.status, 200);
    assert_ne!(after.header("etag"), tag);
    assert_eq!(host.get("/v1/runs/run_0").header("if-none-match", "*").send().await.status, 404);
}

/// R79: compressed for those who ask, with the same content.
#[tokio::test(start_paused = true)]
async fn answers_are_compressed_for_those_who_ask() {
    let host = TestHost::start().await;
    let run = host.run("chain", json!({})).await;
    host.end_of(&run).await;
    let path = format!("/v1/runs/{run}");
    let plain = host.get(&path).send().await;
    assert_eq!((plain.header("content-encoding"), plain.header("vary")), ("", "accept-encoding"));
    let packed = host.get(&path).header("accept-encoding", "gzip").send().await;
    assert_eq!(
        (packed.header("content-encoding"), packed.header("vary")),
        ("gzip", "accept-encoding")
    );
    assert_eq!(packed.bytes[..2], [0x1f, 0x8b]);
    assert_eq!(packed.header("etag"), plain.header("etag"));
    let stream = host.get(&format!("{path}/events")).header("accept-encoding", "gzip").open().await;
    assert!(!stream.rest().await.is_empty(), "streams are never compressed");
}

/// R45.
#[tokio::test(start_paused = true)]
async fn cancelling_ends_a_run_and_is_idempotent() {
    let host = TestHost::start().await;
    let run = host.waiting_run().await;
    let path = format!("/v1/runs/{run}/cancel");
    let reply = host.post(&path, &json!({ "reason": "enough" })).send().await;
    assert_eq!(reply.status, 200);
    assert!(matches!(reply.text_at("status").as_str(), "cancelled" | "cancelling"), "{reply:?}");
    assert_eq!(reply.text_at("runId"), run);
    let events = host.end_of(&run).await;
    let last = events.last().expect("an end");
    assert_eq!(last["type"], "run.cancelled");
    assert_eq!(last["payload"]["reason"], "enough");
    let again = host.call(axum::http::Method::POST, &path).send().await;
    assert_eq!(
        (again.status, again.text_at("status").as_str()),
        (200, "cancelled"),
        "no body is an empty one"
    );
    assert_eq!(host.post("/v1/runs/run_0/cancel", &json!({})).send().await.status, 404);
    assert_eq!(host.post(&path, &json!({ "why": "x" })).send().await.status, 400);
}

/// R45: a run that completed keeps its end.
#[tokio::test(start_paused = true)]
async fn cancelling_what_has_ended_changes_nothing() {
    let host = TestHost::start().await;
    let run = host.run("noop", json!({})).await;
    let events = host.end_of(&run).await;
    let reply = host.post(&format!("/v1/runs/{run}/cancel"), &json!({})).send().await;
    assert_eq!((reply.status, reply.text_at("status").as_str()), (200, "completed"));
    assert_eq!(host.end_of(&run).await, events);
}

/// R47.
#[tokio::test(start_paused = true)]
async fn bulk_cancel_answers_for_each_in_order() {
    let host = TestHost::start().await;
    let foreign = host.run_as(RIVAL, json!({ "workflowId": "wait" })).await;
    let (first, second) = (host.waiting_run().await, host.run("noop", json!({})).await);
    host.end_of(&second).await;
    let ids = json!([second, "run_0", foreign, first, first]);
    let reply =
        host.post("/v1/runs:bulk-cancel", &json!({ "runIds": ids, "reason": "r" })).send().await;
    assert_eq!(reply.status, 200);
    let results = reply.json["results"].as_array().expect("results");
    let asked: Vec<&Value> = results.iter().map(|item| &item["runId"]).collect();
    assert_eq!(json!(asked), ids);
    let ok: Vec<bool> = results.iter().map(|item| item["ok"] == json!(true)).collect();
    assert_eq!(ok, [false, false, false, true, true]);
    assert_eq!(results[0]["error"]["code"], "run_terminal");
    assert_eq!(results[4]["status"], "cancelled", "what is cancelled already is no mistake");
    assert_eq!(results[1]["error"], results[2]["error"], "hidden and unknown look the same");
    assert_eq!(results[1]["error"]["code"], "not_found");
    host.end_of(&first).await;
    let none = host.post("/v1/runs:bulk-cancel", &json!({ "runIds": ["run_0"] })).send().await;
    assert_eq!(none.status, 200, "also when none succeeded");
}

/// R47.
#[tokio::test]
async fn bulk_cancel_takes_1_to_100_ids() {
    let host = TestHost::start().await;
    for body in [
        json!({}),
        json!({ "runIds": [] }),
        json!({ "runIds": vec!["x"; 101] }),
        json!({ "runIds": "x" }),
        json!({ "runIds": [7] }),
        json!({ "runIds": ["x"], "surprise": 1 }),
    ] {
        let reply = host.post("/v1/runs:bulk-cancel", &body).send().await;
        assert_eq!(reply.refusal(), (400, "validation_error"), "{body}");
        assert_eq!(reply.json["details"]["maxRunIds"], 100, "{body}");
    }
    let most = json!({ "runIds": vec!["x"; 100] });
    assert_eq!(host.post("/v1/runs:bulk-cancel", &most).send().await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn runs_are_listed_newest_first_in_pages() {
    let host = TestHost::start().await;
    let mut made = Vec::new();
    for number in 0..5 {
        tokio::time::advance(std::time::Duration::from_millis(10)).await;
        made.push(
            host.run_as(LIVE, json!({ "workflowId": "noop", "tags": [format!("n{number}")] }))
                .await,
        );
    }
    made.reverse();
    let mut listed = Vec::new();
    let mut path = "/v1/host/callboard/runs?limit=2".to_owned();
    loop {
        let page = host.get(&path).send().await;
        assert_eq!(page.status, 200, "{page:?}");
        let runs = page.json["runs"].as_array().cloned().unwrap_or_default();
        assert!((1..=2).contains(&runs.len()));
        listed.extend(runs.iter().map(|run| run["runId"].as_str().unwrap_or_default().to_owned()));
        match page.json["nextCursor"].as_str() {
            Some(cursor) => path = format!("/v1/host/callboard/runs?limit=2&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(listed, made);
    let tagged = host.get("/v1/host/callboard/runs?tag=n3").send().await;
    assert_eq!(tagged.json["runs"].as_array().map(Vec::len), Some(1));
}

#[tokio::test(start_paused = true)]
async fn lists_are_filtered_and_strict_about_their_query() {
    let host = TestHost::start().await;
    let done = host.run("noop", json!({})).await;
    host.end_of(&done).await;
    let waiting = host.waiting_run().await;
    let ids = async |query: &str| {
        let reply = host.get(&format!("/v1/host/callboard/runs?{query}")).send().await;
        assert_eq!(reply.status, 200, "{query}");
        let runs = reply.json["runs"].as_array().cloned().unwrap_or_default();
        runs.iter()
            .map(|run| run["runId"].as_str().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids("status=completed").await, [done.as_str()]);
    assert_eq!(ids("workflowId=wait").await, [waiting.as_str()]);
    assert_eq!(ids("since=2025-01-01T00:00:00Z&limit=200").await.len(), 2);
    assert!(ids("until=2025-01-01T00:00:00Z").await.is_empty());
    for query in [
        "limit=0",
        "limit=201",
        "limit=x",
        "status=dancing",
        "since=noon",
        "cursor=%21",
        "cursor=",
        "cursor=AAAA",
        "page=2",
        "limit=1&limit=2",
        "text=",
        "minCostUsd=-1",
        "minCostUsd=inf",
    ] {
        let reply = host.get(&format!("/v1/host/callboard/runs?{query}")).send().await;
        assert_eq!(reply.refusal(), (400, "validation_error"), "{query}");
    }
    assert_eq!(
        host.get(&format!("/v1/runs/{done}?page=2")).send().await.status,
        200,
        "protocol routes do not mind"
    );
}

/// What has no index is searched for page by page: each request reads so many runs and says where it goes on.
#[tokio::test(start_paused = true)]
async fn a_text_is_searched_for_in_bounded_steps() {
    let host = TestHost::start().await;
    let order = json!({ "workflowId": "wait", "inputs": { "delayMs": 471_147 }, "tags": ["Old"] });
    let oldest = host.run_as(LIVE, order).await;
    for _ in 0..205 {
        tokio::time::advance(std::time::Duration::from_millis(10)).await;
        host.run("noop", json!({})).await;
    }
    let search = async |query: &str| {
        let reply = host.get(&format!("/v1/host/callboard/runs?{query}")).send().await;
        assert_eq!(reply.status, 200, "{query}: {reply:?}");
        let runs = reply.json["runs"].as_array().cloned().unwrap_or_default();
        let ids = runs.iter().map(|run| run["runId"].as_str().unwrap_or_default().to_owned());
        (ids.collect::<Vec<_>>(), reply.json["nextCursor"].as_str().map(str::to_owned))
    };
    let (first, cursor) = search("text=471147").await;
    assert!(first.is_empty(), "two hundred runs were read, and it is in none of them");
    let (second, end) = search(&format!("text=471147&cursor={}", cursor.unwrap())).await;
    assert_eq!((second, end), (vec![oldest.clone()], None), "by the value of a variable");
    assert_eq!(search("text=471147&tag=Old").await.0, [oldest.as_str()], "an index leads");
    for query in [
        format!("text={}&workflowId=wait", oldest.to_uppercase()),
        "text=old&status=running".to_owned(),
    ] {
        assert_eq!(search(&query).await, (vec![oldest.clone()], None), "by a name: {query}");
    }
    let (page, more) = search("text=noop&limit=3").await;
    assert!(page.len() == 3 && more.is_some(), "{page:?}");
    assert_eq!(search("triggerSource=schedule").await, (vec![], None));
    assert_eq!(search("minCostUsd=0").await.0, Vec::<String>::new(), "no model was asked");
}
