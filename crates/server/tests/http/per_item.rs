//! One workflow over several items, through the whole host (RFC 0126).

use serde_json::{Value, json};

use crate::given::{Setup, TestHost, TestSeams};

const SEAM: &str = "/v1/host/sample/dispatch/per-item";

async fn host() -> TestHost {
    TestHost::of(Setup { seams: TestSeams::On, ..Setup::default() }).await
}

fn inputs(children: &Value) -> Vec<Value> {
    let children = children.as_array().expect("children");
    children.iter().map(|child| child["inputs"].clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn each_child_gets_its_own_input_also_when_it_is_replayed() {
    let host = host().await;
    for replay in [false, true] {
        let body = json!({
            "nextWorkerIds": ["conformance.child", "conformance.child"],
            "inputMapping": { "contactId": "from-mapping", "region": "us" },
            "nextWorkerInputs": [{ "contactId": "c-1" }, { "contactId": "c-2" }],
            "replay": replay,
        });
        let reply = host.post(SEAM, &body).send().await;
        let expected = [
            json!({ "contactId": "c-1", "region": "us" }),
            json!({ "contactId": "c-2", "region": "us" }),
        ];
        assert_eq!(inputs(&reply.json["children"]), expected, "{reply:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn too_few_inputs_start_nobody() {
    let host = host().await;
    let body = json!({
        "nextWorkerIds": ["conformance.child", "conformance.child"],
        "nextWorkerInputs": [{ "contactId": "c-1" }],
    });
    let reply = host.post(SEAM, &body).send().await;
    assert_eq!((reply.status, reply.text_at("error").as_str()), (400, "validation_error"));
    let runs = host.get("/v1/host/callboard/runs?limit=100").send().await;
    assert_eq!(runs.json["runs"].as_array().map(Vec::len), Some(1), "the parent alone");
}
