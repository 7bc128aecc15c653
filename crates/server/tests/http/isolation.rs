//! What one tenant or kind of key asks about another's members, schedules, subscriptions and work: the bytes of an unknown id.

use axum::http::Method;
use callboard_server::{Access, operations};
use serde_json::{Value, json};

use crate::agents::{TRIAGER, host, task};
use crate::given::{LIVE, RIVAL, Reply, TEST, TestHost};
use crate::roster::{register, sally};

/// The parameters that name something of a tenant, with a name that is nobody's.
const NAMED: [(&str, &str); 5] = [
    ("{rosterId}", "host:nobody-1"),
    ("{scheduleId}", "sched_0"),
    ("{subscriptionId}", "tsub_0"),
    ("{workId}", "work_0"),
    ("{deliveryId}", "dlv_0"),
];

/// A body that the operation would take from the owner.
fn body(name: &str) -> Option<Value> {
    let verb = |end: &str| name.ends_with(end);
    Some(match name {
        _ if verb("/fire") => json!({ "workflowId": "campaign" }),
        _ if verb("/deliver") => json!({ "id": "a", "payload": {} }),
        _ if name.starts_with("PATCH") && verb("{workId}") => json!({ "state": "done" }),
        _ if name.starts_with("PATCH") && verb("{scheduleId}") => json!({ "enabled": false }),
        _ if name.starts_with("PATCH") && verb("{subscriptionId}") => json!({ "state": "paused" }),
        _ if name.starts_with("PATCH") && verb("{rosterId}") => json!({ "persona": "X" }),
        _ if name.starts_with("POST") && verb("/work") => json!({ "title": "x" }),
        _ => return None,
    })
}

/// One of everything, by the parameter that names it.
async fn possessions(host: &TestHost) -> Vec<(&'static str, String)> {
    let member = sally(host).await;
    let work = json!({ "title": "x", "inputs": task() });
    let work = host.post(&format!("/v1/host/callboard/roster/{member}/work"), &work);
    let schedule = json!({ "workflowId": "campaign", "cron": "0 9 * * *", "rosterId": member });
    let schedule = host.post("/v1/host/callboard/schedules", &schedule).send().await;
    let queue = json!({ "source": "queue", "workflowId": "campaign" });
    let queue = host.post("/v1/host/callboard/trigger-subscriptions", &queue).send().await;
    let queue = queue.json["subscription"]["subscriptionId"].as_str().expect("an id").to_owned();
    vec![
        ("{rosterId}", member),
        ("{scheduleId}", schedule.text_at("id")),
        ("{subscriptionId}", queue),
        ("{workId}", work.send().await.text_at("workId")),
        ("{deliveryId}", "dlv_0".to_owned()),
    ]
}

fn seen(reply: &Reply) -> (u16, Vec<u8>, Vec<String>) {
    let names = reply.headers.keys().map(ToString::to_string).collect();
    (reply.status, reply.bytes.to_vec(), names)
}

#[tokio::test(start_paused = true)]
async fn every_operation_on_something_of_others_answers_as_on_nothing() {
    let host = host().await;
    let ours = possessions(&host).await;
    let mut count = 0;
    for (operation, key) in operations().flat_map(|it| [(it, RIVAL), (it, TEST)]) {
        let is_guarded = matches!(operation.access, Access::Scope(_) | Access::OneOf(_));
        if !is_guarded || !NAMED.iter().any(|(name, _)| operation.path.contains(name)) {
            continue;
        }
        let method: Method = operation.method.as_str().parse().expect("a method");
        let ask = async |path: &str| {
            let call = host.call(method.clone(), path).key(key);
            match body(operation.name) {
                Some(body) => call.json(&body).send().await,
                None => call.send().await,
            }
        };
        let named = |names: &[(&str, String)]| {
            names.iter().fold(operation.path.to_owned(), |path, (name, id)| path.replace(name, id))
        };
        let nothing: Vec<(&str, String)> =
            NAMED.iter().map(|(name, id)| (*name, (*id).to_owned())).collect();
        let (theirs, none) = (ask(&named(&ours)).await, ask(&named(&nothing)).await);
        assert_eq!(seen(&theirs), seen(&none), "{} {key}", operation.name);
        assert!(theirs.status >= 400, "{} {key}: {theirs:?}", operation.name);
        count += 1;
    }
    assert!(count >= 36, "only {count} questions name something of a tenant");
}

/// What a body names is looked for in the caller's own tenant: somebody else's is told in the words for nobody's.
#[tokio::test(start_paused = true)]
async fn what_a_body_names_of_others_is_nobodys() {
    let host = host().await;
    let member = sally(&host).await;
    register(&host, RIVAL, "theirs", TRIAGER).await;
    let told = async |path: &str, body: Value, name: &str| {
        let reply = host.post(path, &body).key(RIVAL).send().await;
        (reply.status, reply.json.to_string().replace(name, "NAME"))
    };
    for path in ["/v1/host/callboard/schedules", "/v1/host/callboard/trigger-subscriptions"] {
        let of_member = async |id: &str| {
            let body = match path.ends_with("schedules") {
                true => json!({ "workflowId": "theirs", "cron": "0 9 * * *", "rosterId": id }),
                false => json!({ "source": "queue", "workflowId": "theirs", "rosterId": id }),
            };
            told(path, body, id).await
        };
        let of_workflow = async |id: &str| {
            let body = match path.ends_with("schedules") {
                true => json!({ "workflowId": id, "cron": "0 9 * * *" }),
                false => json!({ "source": "queue", "workflowId": id }),
            };
            told(path, body, id).await
        };
        assert_eq!(of_member(&member).await, of_member("host:nobody-1").await, "{path}");
        assert_eq!(of_workflow("campaign").await, of_workflow("nobodys").await, "{path}");
        assert_eq!((of_member(&member).await.0, of_workflow("campaign").await.0), (400, 400));
    }
    for key in [LIVE, RIVAL] {
        let listed = host.get("/v1/host/callboard/schedules").key(key).send().await.json;
        assert_eq!(listed["schedules"], json!([]), "and nothing was kept");
    }
}

#[tokio::test(start_paused = true)]
async fn a_test_keys_members_are_apart_from_the_live_ones() {
    let host = host().await;
    let sally = sally(&host).await;
    register(&host, TEST, "campaign", TRIAGER).await;
    let roster = "/v1/host/callboard/roster";
    let hire =
        json!({ "persona": "Tess", "agentRef": { "agentId": TRIAGER }, "workflows": ["campaign"] });
    let tess = host.post(roster, &hire).key(TEST).send().await.text_at("rosterId");
    for (key, own) in [(LIVE, &sally), (TEST, &tess)] {
        let listed = host.get(roster).key(key).send().await.json;
        assert_eq!((&listed["total"], &listed["roster"][0]["rosterId"]), (&json!(1), &json!(own)));
        let said = json!({ "text": "@Sally look at this" });
        let reply = host.post("/v1/host/callboard/chat", &said).key(key).send().await;
        assert_eq!(reply.status == 201, key == LIVE, "{reply:?}");
        let fire = json!({ "workflowId": "campaign", "inputs": task() });
        let reply = host.post(&format!("{roster}/{own}/fire"), &fire).key(key).send().await;
        assert_eq!(reply.status, 201, "{reply:?}");
    }
    for path in ["/v1/host/callboard/schedules", "/v1/host/callboard/trigger-subscriptions"] {
        let body = match path.ends_with("schedules") {
            true => json!({ "workflowId": "campaign", "cron": "0 9 * * *", "rosterId": sally }),
            false => json!({ "source": "queue", "workflowId": "campaign", "rosterId": sally }),
        };
        let reply = host.post(path, &body).key(TEST).send().await;
        assert_eq!(reply.refusal(), (400, "validation_error"), "{path}");
    }
    let dismissed = host.call(Method::DELETE, &format!("{roster}/{sally}")).key(TEST).send().await;
    assert_eq!(dismissed.refusal(), (404, "not_found"));
    assert_eq!(host.get(&format!("{roster}/{sally}")).send().await.status, 200);
}
