//! Runs that retention leaves alone.

use axum::http::Method;
use callboard_engine::Store as _;
use callboard_protocol::Timestamp;
use serde_json::json;

use crate::given::{LAB, READER, RIVAL, TestHost};

fn keep(run: &str) -> String {
    format!("/v1/host/callboard/runs/{run}/keep")
}

#[tokio::test(start_paused = true)]
async fn a_kept_run_outlives_retention_until_it_is_released() {
    let host = TestHost::start().await;
    let kept = host.run("noop", json!({})).await;
    let other = host.run("noop", json!({})).await;
    // The run with the newest event of all stays in any case.
    let newest = host.run("noop", json!({})).await;
    for run in [&kept, &other, &newest] {
        host.end_of(run).await;
    }
    let reply = host.call(Method::PUT, &keep(&kept)).send().await;
    assert_eq!(
        (reply.status, reply.json["runId"].as_str()),
        (200, Some(kept.as_str())),
        "{reply:?}"
    );
    let listed = host.get("/v1/host/callboard/kept-runs").send().await;
    assert_eq!(listed.json["runs"][0]["runId"], json!(kept), "{listed:?}");

    let later = Timestamp::from_millis(host.now().as_millis() + 1);
    let store = host.store.inner();
    let gone = store
        .remove_ended(&callboard_engine::Removable::before(later), None, 10)
        .await
        .expect("removed");
    assert!(gone.iter().any(|run| run.as_str() == other), "{gone:?}");
    assert!(!gone.iter().any(|run| run.as_str() == kept), "{gone:?}");

    assert_eq!(host.call(Method::DELETE, &keep(&kept)).send().await.status, 204);
    assert_eq!(host.call(Method::DELETE, &keep(&kept)).send().await.status, 404);
    let gone = store
        .remove_ended(&callboard_engine::Removable::before(later), None, 10)
        .await
        .expect("removed");
    assert!(gone.iter().any(|run| run.as_str() == kept), "{gone:?}");
}

#[tokio::test(start_paused = true)]
async fn nobody_keeps_or_sees_a_run_of_others() {
    let host = TestHost::start().await;
    let run = host.run("noop", json!({})).await;
    assert_eq!(host.call(Method::PUT, &keep("run_0")).send().await.status, 404);
    assert_eq!(host.call(Method::PUT, &keep(&run)).key(READER).send().await.status, 403);
    assert_eq!(host.call(Method::PUT, &keep(&run)).send().await.status, 200);
    for stranger in [RIVAL, LAB] {
        let call = |method| host.call(method, &keep(&run)).key(stranger).send();
        assert_eq!(call(Method::PUT).await.status, 404, "{stranger}");
        assert_eq!(call(Method::DELETE).await.status, 404, "{stranger}");
        let listed = host.get("/v1/host/callboard/kept-runs").key(stranger).send().await;
        assert_eq!(listed.json["runs"], json!([]), "{stranger}");
    }
}
