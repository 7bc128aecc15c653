//! Names that nobody knows are refused when they are sent.

use serde_json::{Value, json};

use crate::agents;
use crate::given::{TestHost, workflow};
use crate::roster::{patch, sally};

const WORKFLOWS: &str = "/v1/host/callboard/workflows";

/// A workflow that declares a variable.
async fn declaring() -> TestHost {
    let host = TestHost::start().await;
    let mut definition = workflow("desk", &[("a", "core.noop")]);
    definition["variables"] = json!([{ "name": "message", "type": "string" }]);
    assert_eq!(host.post(WORKFLOWS, &definition).send().await.status, 201);
    host
}

async fn refused(host: &TestHost, path: &str, body: Value) -> (String, String) {
    let answer = host.post(path, &body).send().await;
    assert_eq!(answer.refusal(), (400, "validation_error"), "{body}");
    let detail = |key: &str| answer.json["details"][key].as_str().unwrap_or_default().to_owned();
    (detail("path"), detail("didYouMean"))
}

#[tokio::test]
async fn an_input_that_a_workflow_does_not_know_is_refused() {
    let host = declaring().await;
    let misspelt = json!({ "workflowId": "desk", "inputs": { "mesage": "hello" } });
    assert_eq!(
        refused(&host, "/v1/runs", misspelt).await,
        ("inputs.mesage".to_owned(), "message".to_owned())
    );
    let good = json!({ "workflowId": "desk", "inputs": { "message": "hello" } });
    assert_eq!(host.post("/v1/runs", &good).send().await.status, 201);
    // One that declares none takes what it is given.
    let noop = json!({ "workflowId": "noop", "inputs": { "anything": 1 } });
    assert_eq!(host.post("/v1/runs", &noop).send().await.status, 201);
}

#[tokio::test]
async fn an_option_that_nobody_reads_is_refused() {
    let host = declaring().await;
    let order = |configurable: Value| json!({ "workflowId": "desk", "configurable": configurable });
    assert_eq!(
        refused(&host, "/v1/runs", order(json!({ "recursionlimit": 3 }))).await,
        ("configurable.recursionlimit".to_owned(), "recursionLimit".to_owned())
    );
    assert_eq!(
        refused(&host, "/v1/runs", order(json!({ "ai": { "providr": "openai" } }))).await,
        ("configurable.ai.providr".to_owned(), "provider".to_owned())
    );
    let own = order(json!({ "acme.colour": "blue", "recursionLimit": 3 }));
    assert_eq!(host.post("/v1/runs", &own).send().await.status, 201);
}

#[tokio::test]
async fn what_starts_runs_later_is_checked_when_it_is_made() {
    let host = declaring().await;
    let schedule =
        json!({ "workflowId": "desk", "cron": "0 9 * * *", "inputs": { "mesage": "x" } });
    assert_eq!(
        refused(&host, "/v1/host/callboard/schedules", schedule).await,
        ("inputs.mesage".to_owned(), "message".to_owned())
    );
    let trigger =
        |mapping: Value| json!({ "source": "form", "workflowId": "desk", "inputMapping": mapping });
    let path = "/v1/host/callboard/trigger-subscriptions";
    assert_eq!(
        refused(&host, path, trigger(json!({ "massage": "form.fields.message" }))).await,
        ("inputMapping.massage".to_owned(), "message".to_owned())
    );
    assert_eq!(
        refused(&host, path, trigger(json!({ "message": "from.fields" }))).await,
        ("inputMapping.message".to_owned(), "form.fields".to_owned())
    );
    let good = trigger(json!({ "message": "form.fields.message" }));
    assert_eq!(host.post(path, &good).send().await.status, 201);
}

#[tokio::test]
async fn a_changed_schedule_is_checked_too() {
    let host = declaring().await;
    let schedules = "/v1/host/callboard/schedules";
    let made = json!({ "workflowId": "desk", "cron": "0 9 * * *", "inputs": { "message": "x" } });
    let made = host.post(schedules, &made).send().await;
    let path = format!("{schedules}/{}", made.json["id"].as_str().unwrap());
    let change = json!({ "inputs": { "mesage": "y" } });
    let answer = patch(&host, &path, change).await;
    assert_eq!(answer.refusal(), (400, "validation_error"));
    assert_eq!(answer.json["details"]["didYouMean"], "message");
    let change = json!({ "inputs": { "message": "y" } });
    assert_eq!(patch(&host, &path, change).await.status, 200);
}

#[tokio::test]
async fn what_a_member_is_fired_or_given_with_is_checked() {
    let host = agents::host().await;
    let misspelt = ("inputs.mesage".to_owned(), "message".to_owned());
    let member = format!("/v1/host/callboard/roster/{}", sally(&host).await);
    let fire = |inputs: Value| json!({ "workflowId": "campaign", "inputs": inputs });
    let path = format!("{member}/fire");
    assert_eq!(refused(&host, &path, fire(json!({ "mesage": "x" }))).await, misspelt);
    assert_eq!(host.post(&path, &fire(json!({ "message": "x" }))).send().await.status, 201);
    let path = format!("{member}/work");
    let work = json!({ "title": "read", "workflowId": "campaign", "inputs": { "mesage": "x" } });
    assert_eq!(refused(&host, &path, work).await, misspelt);
}

#[tokio::test]
async fn options_of_a_branch_are_checked_as_those_of_a_run() {
    let host = declaring().await;
    let order = json!({ "workflowId": "desk", "inputs": { "message": "x" } });
    let run = host.post("/v1/runs", &order).send().await.json["runId"].as_str().unwrap().to_owned();
    let path = format!("/v1/runs/{run}:fork");
    let branch = |configurable: Value| {
        let overlay = json!({ "configurable": configurable });
        json!({ "mode": "branch", "fromSeq": 0, "runOptionsOverlay": overlay })
    };
    assert_eq!(
        refused(&host, &path, branch(json!({ "ai": { "modle": "m" } }))).await,
        ("configurable.ai.modle".to_owned(), "model".to_owned())
    );
    let good = branch(json!({ "recursionLimit": 3 }));
    assert_eq!(host.post(&path, &good).send().await.status, 201);
}
