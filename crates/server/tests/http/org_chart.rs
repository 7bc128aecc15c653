//! Who stands where: RFC 0087, `contract/roster.md` §12.

use axum::http::Method;
use callboard_server::ServerConfig;
use serde_json::{Value, json};

use crate::agents::{REVIEWER, TRIAGER, host};
use crate::given::{LAB, LIVE, READER, RIVAL, Reply, Setup, TestHost};
use crate::roster::{hire, register, sally};
use crate::schemas::{check, openwop};

const READ: &str = "/v1/agents/org-chart";
const MANAGE: &str = "/v1/host/callboard/org-chart";

async fn put(host: &TestHost, key: &str, body: &Value) -> Reply {
    host.call(Method::PUT, MANAGE).key(key).json(body).send().await
}

/// Sally leads marketing; Bob works in its newsroom and reports to her.
async fn drawn(host: &TestHost) -> (String, String, Value) {
    let sally = sally(host).await;
    register(host, LIVE, "news", REVIEWER).await;
    let body = json!({ "persona": "Bob", "agentRef": { "agentId": REVIEWER }, "workflows": ["news", "campaign"] });
    let bob = hire(host, body).await.text_at("rosterId");
    let chart = json!({
        "departments": [
            { "departmentId": "marketing", "name": "Marketing", "parentDepartmentId": null,
              "roles": [{ "roleId": "lead", "name": "Lead" }] },
            { "departmentId": "newsroom", "name": "Newsroom", "parentDepartmentId": "marketing",
              "roles": [{ "roleId": "writer", "name": "Writer" }] },
        ],
        "members": [
            { "rosterId": sally, "departmentId": "marketing", "roleId": "lead", "reportsTo": null },
            { "rosterId": bob, "departmentId": "newsroom", "roleId": "writer", "reportsTo": sally },
        ],
    });
    let reply = put(host, LIVE, &chart).await;
    assert_eq!((reply.status, &reply.json["version"]), (200, &json!(1)), "{reply:?}");
    (sally, bob, chart)
}

#[tokio::test(start_paused = true)]
async fn a_chart_is_read_exactly_as_the_protocol_has_it() {
    let host = host().await;
    let empty = host.get(READ).send().await;
    let owner = json!({ "tenantId": "acme" });
    assert_eq!(empty.json, json!({ "owner": owner, "departments": [], "members": [] }));
    let (_, _, chart) = drawn(&host).await;
    let reply = host.get(READ).send().await;
    let mut expected = chart.clone();
    expected["owner"] = owner;
    assert_eq!((reply.status, &reply.json), (200, &expected));
    let whole = host.get(&format!("{READ}/marketing")).send().await;
    assert_eq!(whole.json["responsibilities"], json!(["campaign", "news"]), "each once");
    assert_eq!(whole.json["members"], chart["members"]);
    let alone = host.get(&format!("{READ}/marketing?recursive=false")).send().await;
    assert_eq!(alone.json["responsibilities"], json!(["campaign"]));
    assert_eq!(alone.json["department"], chart["departments"][0]);
    if let Some(folder) = openwop() {
        check(&folder, "agent-org-chart.schema.json", &reply.json);
        check(&folder, "org-chart-responsibility-view.schema.json", &whole.json);
    }
    for query in ["recursive=maybe", "depth=2"] {
        let refused = host.get(&format!("{READ}/marketing?{query}")).send().await;
        assert_eq!(refused.refusal(), (400, "validation_error"), "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_chart_that_does_not_hold_together_is_refused() {
    let host = host().await;
    let (sally, _, chart) = drawn(&host).await;
    let theirs = json!({ "persona": "Eve", "agentRef": { "agentId": TRIAGER } });
    let theirs = host.post("/v1/host/callboard/roster", &theirs).key(RIVAL).send().await;
    let eve = theirs.text_at("rosterId");
    let mut placed = chart["members"][0].clone();
    placed["canDispatch"] = json!(true);
    for (place, wrong) in [
        ("/departments/1/parentDepartmentId", json!("nowhere")),
        ("/departments/0/parentDepartmentId", json!("newsroom")),
        ("/departments/1/departmentId", json!("marketing")),
        ("/departments/1/roles/0/roleId", json!("lead")),
        ("/departments/0/name", json!("")),
        ("/members/0/departmentId", json!("nowhere")),
        ("/members/0/roleId", json!("nobody")),
        ("/members/0/reportsTo", json!(chart["members"][1]["rosterId"])),
        ("/members/0/reportsTo", json!(sally)),
        ("/members/1/reportsTo", json!("host:nobody")),
        ("/members/1/rosterId", json!(sally)),
        ("/members/1/rosterId", json!("host:nobody")),
        ("/members/1/rosterId", json!(eve)),
        ("/members/0", placed),
    ] {
        let mut body = chart.clone();
        *body.pointer_mut(place).expect("there") = wrong.clone();
        let reply = put(&host, LIVE, &body).await;
        assert_eq!(reply.refusal(), (400, "validation_error"), "{place} {wrong}");
    }
    let unknown = put(&host, LIVE, &json!({ "members": [], "chart": 1 })).await;
    assert_eq!(unknown.refusal(), (400, "validation_error"));
    assert_eq!(host.get(MANAGE).send().await.json["version"], 1, "nothing of it was kept");
}

#[tokio::test(start_paused = true)]
async fn of_two_who_draw_at_once_the_second_looks_again() {
    let host = host().await;
    let (_, _, mut chart) = drawn(&host).await;
    chart["version"] = json!(0);
    assert_eq!(put(&host, LIVE, &chart).await.refusal(), (409, "version_conflict"));
    chart["version"] = json!(1);
    assert_eq!(put(&host, LIVE, &chart).await.json["version"], 2);
    assert_eq!(put(&host, READER, &chart).await.status, 403, "a right to read is none to draw");
}

#[tokio::test(start_paused = true)]
async fn whoever_is_dismissed_leaves_the_chart() {
    let host = host().await;
    let (sally, bob, _) = drawn(&host).await;
    let path = format!("/v1/host/callboard/roster/{sally}");
    assert_eq!(host.call(Method::DELETE, &path).send().await.status, 204);
    let chart = host.get(READ).send().await.json;
    assert_eq!(
        chart["members"],
        json!([{ "rosterId": bob, "departmentId": "newsroom", "roleId": "writer", "reportsTo": null }])
    );
}

/// A second tenant gets the same bytes as for an unknown id.
#[tokio::test(start_paused = true)]
async fn a_chart_of_others_looks_like_none() {
    let host = host().await;
    drawn(&host).await;
    let theirs = host.get(READ).key(RIVAL).send().await.json;
    assert_eq!(theirs["departments"], json!([]));
    let foreign = host.get(&format!("{READ}/marketing")).key(RIVAL).send().await;
    let unknown = host.get(&format!("{READ}/nowhere")).key(RIVAL).send().await;
    assert_eq!(foreign.refusal(), (404, "not_found"));
    assert_eq!(foreign.json["message"], unknown.json["message"]);
    let lab = host.get(&format!("{READ}/marketing")).key(LAB).send().await;
    assert_eq!(lab.refusal(), (404, "not_found"), "another workspace draws its own");
    assert_eq!(host.get(READ).anonymous().send().await.status, 401);
}

#[tokio::test(start_paused = true)]
async fn a_host_without_charts_says_so() {
    let mut config = ServerConfig::default();
    if let Some(agents) = &mut config.agents {
        agents.org_chart = None;
    }
    let host = TestHost::of(Setup { config, ..Setup::default() }).await;
    for path in [READ.to_owned(), format!("{READ}/marketing"), MANAGE.to_owned()] {
        let reply = host.get(&path).send().await;
        assert_eq!(reply.refusal(), (501, "capability_not_provided"), "{path}");
    }
    let document = host.get("/.well-known/openwop").anonymous().send().await.json;
    assert_eq!(document["agents"].get("orgChart"), None);
}

/// `org-position-no-authority-escalation`: standing at the top lets nobody do more.
#[tokio::test(start_paused = true)]
async fn where_somebody_stands_allows_nothing() {
    let host = host().await;
    let (sally, bob, mut chart) = drawn(&host).await;
    let before = host.get(&format!("/v1/agents/{TRIAGER}")).send().await.json;
    let fire = async |member: &str, workflow: &str| {
        let path = format!("/v1/host/callboard/roster/{member}/fire");
        host.post(&path, &json!({ "workflowId": workflow })).send().await.status
    };
    assert_eq!(fire(&sally, "news").await, 403, "her report owns it, she does not");
    chart["members"][1]["reportsTo"] = json!(null);
    chart["members"][0]["reportsTo"] = json!(bob);
    assert_eq!(put(&host, LIVE, &chart).await.status, 200);
    assert_eq!(fire(&sally, "news").await, 403);
    let after = host.get(&format!("/v1/agents/{TRIAGER}")).send().await.json;
    assert_eq!(after["toolAllowlist"], before["toolAllowlist"]);
}
