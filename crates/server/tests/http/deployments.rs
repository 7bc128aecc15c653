//! A-90…A-96: which version of an agent serves, over HTTP.

use callboard_agents::{DeploymentPolicy, EvalGate};
use callboard_engine::{AuditRun, KeyMode};
use callboard_protocol::{AgentsCapability, DeploymentState, InstallScope, ManifestRuntime, Owner};
use callboard_server::{ServerConfig, TestKeys};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::given::{Fault, LIVE, READER, RIVAL, Reply, Setup, TestHost, TestSeams};
use crate::packs::{install, signed, version};

const AGENT: &str = "vendor.acme.desk.assistant";
const DEPLOYMENTS: &str = "/v1/agents/vendor.acme.desk.assistant/deployments";
const SEAM: &str = "/v1/host/sample/agents/deployment-transition";

/// A host on which `acme` has installed 1.0.0 and 2.0.0.
async fn stocked(setup: Setup) -> TestHost {
    let host = TestHost::of(setup).await;
    for archive in [signed(version("1.0.0")), signed(version("2.0.0"))] {
        assert_eq!(install(&host, LIVE, archive).await.0, 201);
    }
    host
}

async fn with_policy(deployments: DeploymentPolicy) -> TestHost {
    let config = ServerConfig { deployments, ..ServerConfig::default() };
    stocked(Setup { config, ..Setup::default() }).await
}

async fn change(host: &TestHost, body: Value) -> Reply {
    host.post(DEPLOYMENTS, &body).send().await
}

/// Promotes a version until it is active on `stable`.
async fn activate(host: &TestHost, version: &str) {
    for body in [
        json!({ "version": version, "transition": "promote" }),
        json!({ "version": version, "transition": "promote" }),
        json!({ "version": version, "transition": "promote", "channel": "stable" }),
    ] {
        let reply = change(host, body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }
}

async fn listed(host: &TestHost, key: &str) -> Vec<String> {
    let reply = host.get(DEPLOYMENTS).key(key).send().await;
    let records = reply.json.as_array().expect("a bare array").clone();
    records
        .iter()
        .map(|record| {
            let mut line = format!("{} {}", record["version"], record["state"]).replace('"', "");
            for field in ["canaryPercent", "channels", "rollbackPointer"] {
                if let Some(value) = record.get(field) {
                    line.push_str(&format!(" {value}"));
                }
            }
            line
        })
        .collect()
}

/// The runs that tell of changes, oldest first.
async fn tellings(host: &TestHost, key: &str) -> Vec<String> {
    let path = format!("/v1/host/callboard/runs?workflowId=callboard-deployment&tag={AGENT}");
    let runs = host.get(&path).key(key).send().await.json["runs"].clone();
    let runs = runs.as_array().cloned().unwrap_or_default();
    let ids = runs.iter().map(|run| run["runId"].as_str().unwrap_or_default().to_owned());
    ids.rev().collect()
}

fn told(events: &[Value]) -> Vec<&Value> {
    let is_told =
        |event: &&Value| event["type"].as_str().is_some_and(|kind| kind.starts_with("deployment."));
    events.iter().filter(is_told).collect()
}

#[tokio::test(start_paused = true)]
async fn a_version_goes_its_way_and_every_step_is_told() {
    let host = stocked(Setup::default()).await;
    assert_eq!(listed(&host, LIVE).await, ["2.0.0 draft", "1.0.0 draft"]);
    activate(&host, "1.0.0").await;
    activate(&host, "2.0.0").await;
    assert_eq!(listed(&host, LIVE).await, ["2.0.0 active [\"stable\"]", "1.0.0 active"]);
    for (body, expected) in [
        (json!({ "transition": "pause" }), "2.0.0 paused [\"stable\"]"),
        (json!({ "transition": "promote", "toState": "active" }), "2.0.0 active [\"stable\"]"),
        (
            json!({ "transition": "adjust-canary", "canaryPercent": 20 }),
            "2.0.0 active 20 [\"stable\"]",
        ),
        (
            json!({ "transition": "rollback", "reason": "sk-proj-abcdefghijklmnopqrstuvwxyz012345" }),
            "2.0.0 rolled-back \"1.0.0\"",
        ),
    ] {
        let mut body = body;
        body["version"] = json!("2.0.0");
        let reply = change(&host, body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(listed(&host, LIVE).await[0], expected);
    }
    let mut kinds = Vec::new();
    for run in tellings(&host, LIVE).await {
        let events = host.end_of(&run).await;
        let told = told(&events);
        assert_eq!(told.len(), 1, "{events:?}");
        // who did it is said where every run says it, and no key that was pasted anywhere gets out.
        assert!(events[0]["payload"]["owner"]["principal"].is_string(), "{events:?}");
        assert!(!json!(events).to_string().contains("sk-proj-"), "{events:?}");
        kinds.push(told[0]["type"].as_str().unwrap_or_default().to_owned());
    }
    let promoted = ["deployment.promoted"; 6].map(str::to_owned).to_vec();
    let rest = [
        "deployment.state.changed",
        "deployment.state.changed",
        "deployment.canary.adjusted",
        "deployment.rolled-back",
    ];
    assert_eq!(kinds, [promoted, rest.map(str::to_owned).to_vec()].concat());
}

/// a key that lacks the scope changes nothing and leaves no run behind.
#[tokio::test]
async fn each_transition_needs_its_own_scope() {
    let keys: &'static [&'static str] = &[
        "cb_live=acme",
        "cb_promoter=acme+deploy:promote",
        "cb_pauser=acme+deploy:pause",
        "cb_restorer=acme+deploy:rollback",
        "cb_reader=acme+manifest:read+runs:read",
    ];
    let host = stocked(Setup { keys, ..Setup::default() }).await;
    activate(&host, "1.0.0").await;
    activate(&host, "2.0.0").await;
    let before = (listed(&host, LIVE).await, tellings(&host, LIVE).await.len());
    let bodies = [
        (
            json!({ "version": "2.0.0", "transition": "adjust-canary", "canaryPercent": 5 }),
            "cb_promoter",
        ),
        (
            json!({ "version": "2.0.0", "transition": "promote", "channel": "canary" }),
            "cb_promoter",
        ),
        (json!({ "version": "2.0.0", "transition": "rollback" }), "cb_restorer"),
        (json!({ "version": "2.0.0", "transition": "pause" }), "cb_pauser"),
        (json!({ "version": "2.0.0", "transition": "deprecate" }), "cb_pauser"),
    ];
    for (body, may) in &bodies {
        for key in ["cb_promoter", "cb_pauser", "cb_restorer", "cb_reader"] {
            if key != *may {
                let reply = host.post(DEPLOYMENTS, body).key(key).send().await;
                assert_eq!(reply.refusal(), (403, "forbidden"), "{key} {body}");
            }
        }
    }
    assert_eq!((listed(&host, LIVE).await, tellings(&host, LIVE).await.len()), before);
    let lacking = host.post(DEPLOYMENTS, &bodies[3].0).key("cb_promoter").send().await;
    assert_eq!(lacking.json["details"]["scopeRequired"], "deploy:pause");
    let none = host.post(DEPLOYMENTS, &bodies[3].0).key("cb_reader").send().await;
    let accepted = ["deploy:promote", "deploy:rollback", "deploy:pause"];
    assert_eq!(none.json["details"]["scopesAccepted"], json!(accepted));
    let paused = host.post(DEPLOYMENTS, &bodies[3].0).key("cb_pauser").send().await;
    assert_eq!(paused.status, 200, "{paused:?}");
    assert_eq!(host.get(DEPLOYMENTS).key("cb_reader").send().await.status, 200);
    assert_eq!(host.get(DEPLOYMENTS).key("cb_pauser").send().await.status, 403);
}

#[tokio::test]
async fn an_agent_of_others_looks_like_none() {
    let host = stocked(Setup::default()).await;
    activate(&host, "1.0.0").await;
    let unknown = "/v1/agents/vendor.acme.desk.nobody/deployments";
    let body = json!({ "version": "1.0.0", "transition": "pause" });
    let asked = [
        (host.get(DEPLOYMENTS).key(RIVAL), host.get(unknown).key(RIVAL)),
        (host.post(DEPLOYMENTS, &body).key(RIVAL), host.post(unknown, &body).key(RIVAL)),
    ];
    for (foreign, unknown) in asked {
        let (foreign, unknown) = (foreign.send().await, unknown.send().await);
        assert_eq!(foreign.refusal(), (404, "not_found"));
        assert_eq!(foreign.bytes, unknown.bytes);
    }
    assert_eq!(host.get(DEPLOYMENTS).key(READER).send().await.status, 403);
    assert_eq!(host.get(DEPLOYMENTS).anonymous().send().await.status, 401);
}

/// Two tenants with the same agent: what one deploys is nothing to the other.
#[tokio::test]
async fn a_deployment_is_its_tenants_own() {
    let host = stocked(Setup::default()).await;
    install(&host, RIVAL, signed(version("1.0.0"))).await;
    activate(&host, "1.0.0").await;
    assert_eq!(listed(&host, RIVAL).await, ["1.0.0 draft"]);
    assert_eq!(tellings(&host, RIVAL).await, [""; 0]);
    let foreign = json!({ "version": "2.0.0", "transition": "promote" });
    let reply = host.post(DEPLOYMENTS, &foreign).key(RIVAL).send().await;
    assert_eq!((reply.status, &reply.json["details"]["path"]), (400, &json!("version")));
}

#[tokio::test]
async fn refusals_say_what_is_wrong() {
    let host = stocked(Setup::default()).await;
    activate(&host, "1.0.0").await;
    let promote = |extra: Value| {
        let mut body = json!({ "version": "2.0.0", "transition": "promote" });
        body.as_object_mut().expect("an object").extend(extra.as_object().cloned().expect("too"));
        body
    };
    for (body, status, code) in [
        (promote(json!({ "toState": "active" })), 409, "deployment_conflict"),
        (promote(json!({ "channel": "stable" })), 400, "validation_error"),
        (promote(json!({ "toState": "live" })), 400, "validation_error"),
        (promote(json!({ "canaryPercent": 101 })), 400, "validation_error"),
        (promote(json!({ "manifest": {} })), 400, "validation_error"),
        (promote(json!({ "version": "latest" })), 400, "validation_error"),
        (promote(json!({ "version": "9.0.0" })), 400, "validation_error"),
        (json!({ "version": "1.0.0", "transition": "resume" }), 400, "validation_error"),
        (json!({ "version": "1.0.0", "transition": "rollback" }), 409, "deployment_conflict"),
        (json!({ "transition": "pause" }), 400, "validation_error"),
    ] {
        assert_eq!(change(&host, body.clone()).await.refusal(), (status, code), "{body}");
    }
    let illegal = change(&host, promote(json!({ "toState": "active" }))).await;
    assert_eq!(illegal.json["details"], json!({ "fromState": "draft", "toState": "active" }));
    assert_eq!(tellings(&host, LIVE).await.len(), 3, "a refusal leaves no run");
}

///
#[tokio::test]
async fn what_the_host_does_not_offer_is_refused() {
    let mut policy = DeploymentPolicy { canary: false, ..DeploymentPolicy::default() };
    policy.states.remove(&DeploymentState::Paused);
    let host = with_policy(policy).await;
    activate(&host, "1.0.0").await;
    for body in [
        json!({ "version": "1.0.0", "transition": "adjust-canary", "canaryPercent": 99 }),
        json!({ "version": "1.0.0", "transition": "pause" }),
        json!({ "version": "1.0.0", "transition": "promote", "channel": "nightly" }),
    ] {
        assert_eq!(
            change(&host, body.clone()).await.refusal(),
            (400, "validation_error"),
            "{body}"
        );
    }
}

/// A finished run of `acme` whose log holds one event of an evaluation.
async fn evaluation(host: &TestHost, passed: bool) -> String {
    let verdict =
        json!({ "aggregateScore": 0.5, "passed": passed, "taskCount": 1, "passedCount": 1 });
    let owner = Owner { tenant: "acme".into(), workspace: None, principal: None };
    let audit = AuditRun::new("evaluation", owner, KeyMode::Live);
    let audit = audit.stating("score", "eval.completed", &verdict);
    let run = host.engine.audit(audit, host.now()).await.expect("a run").run.to_string();
    host.end_of(&run).await;
    run
}

///
#[tokio::test(start_paused = true)]
async fn a_gate_asks_for_an_evaluation_that_passed() {
    let eval_gate = Some(EvalGate::default());
    let host = with_policy(DeploymentPolicy { eval_gate, ..DeploymentPolicy::default() }).await;
    for _ in 0..2 {
        change(&host, json!({ "version": "1.0.0", "transition": "promote" })).await;
    }
    let failed = evaluation(&host, false).await;
    let passed = evaluation(&host, true).await;
    let other = host.run("noop", json!({})).await;
    host.end_of(&other).await;
    for run in [None, Some("run_0"), Some(other.as_str()), Some(failed.as_str())] {
        let mut body = json!({ "version": "1.0.0", "transition": "promote", "channel": "stable" });
        if let Some(run) = run {
            body["evalRunId"] = json!(run);
        }
        let reply = change(&host, body).await;
        assert_eq!(reply.refusal(), (403, "eval_gate_unmet"), "{run:?}");
    }
    assert_eq!(listed(&host, LIVE).await[1], "1.0.0 staged");
    let body = json!({ "version": "1.0.0", "transition": "promote", "channel": "stable",
        "evalRunId": passed });
    let reply = change(&host, body).await;
    assert_eq!((reply.status, &reply.json["evalRunId"]), (200, &json!(passed)), "{reply:?}");
    let tellings = tellings(&host, LIVE).await;
    let events = host.end_of(tellings.last().expect("a run")).await;
    assert_eq!(told(&events)[0]["payload"]["evalRunId"], json!(passed));
}

#[tokio::test(start_paused = true)]
async fn of_transitions_at_once_one_is_made() {
    let host = stocked(Setup::default()).await;
    let body = json!({ "version": "1.0.0", "transition": "promote", "toState": "test" });
    let replies = join_all((0..8).map(|_| host.post(DEPLOYMENTS, &body).send())).await;
    let made = replies.iter().filter(|reply| reply.status == 200).count();
    let late = replies.iter().filter(|reply| reply.refusal() == (409, "deployment_conflict"));
    assert_eq!((made, late.count()), (1, 7), "{replies:?}");
    assert_eq!(tellings(&host, LIVE).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_is_one_transition() {
    let host = stocked(Setup::default()).await;
    let body = json!({ "version": "1.0.0", "transition": "promote" });
    let send = async || {
        let call = host.post(DEPLOYMENTS, &body).header("idempotency-key", "k1");
        call.send().await
    };
    let (first, again) = (send().await, send().await);
    assert_eq!((first.status, again.status), (200, 200));
    assert_eq!(first.bytes, again.bytes);
    assert_eq!(first.json["state"], "test");
    assert_eq!(listed(&host, LIVE).await[1], "1.0.0 test");
}

/// A change that could not be written leaves neither the change nor the run.
#[tokio::test]
async fn a_change_that_is_not_kept_was_not_made() {
    let host = stocked(Setup::default()).await;
    host.store.fail(Fault::Full);
    let body = json!({ "version": "1.0.0", "transition": "promote" });
    assert_eq!(change(&host, body.clone()).await.refusal(), (507, "insufficient_storage"));
    host.store.fail(Fault::None);
    assert_eq!(listed(&host, LIVE).await[1], "1.0.0 draft");
    assert_eq!(change(&host, body).await.json["state"], "test");
}

/// A telling can be replayed, but nobody makes the host state something again or at all.
#[tokio::test(start_paused = true)]
async fn nobody_else_states_what_was_deployed() {
    let host = stocked(Setup::default()).await;
    change(&host, json!({ "version": "1.0.0", "transition": "promote" })).await;
    let run = tellings(&host, LIVE).await.remove(0);
    let events = host.end_of(&run).await;
    let fork = async |mode: &str| {
        let body = json!({ "fromSeq": 0, "mode": mode });
        host.post(&format!("/v1/runs/{run}:fork"), &body).send().await
    };
    let replay = fork("replay").await;
    assert_eq!(replay.status, 201, "{replay:?}");
    let replayed = host.end_of(&replay.text_at("runId")).await;
    assert_eq!(told(&replayed)[0]["payload"], told(&events)[0]["payload"]);
    assert_eq!(fork("branch").await.refusal(), (422, "capability_required"));
    let forged = crate::given::workflow("forged", &[("a", "callboard.statement")]);
    let reply = host.post("/v1/host/callboard/workflows", &forged).send().await;
    assert_eq!(reply.status, 422, "{reply:?}");
    let started = host.post("/v1/runs", &json!({ "workflowId": "callboard-deployment" }));
    assert_eq!(started.send().await.status, 400);
    assert_eq!(listed(&host, LIVE).await[1], "1.0.0 test");
}

fn said() -> AgentsCapability {
    ServerConfig::default().agents.expect("agents are dispatched")
}

#[tokio::test]
async fn discovery_says_what_is_accepted() {
    let deployments = DeploymentPolicy { canary: false, ..DeploymentPolicy::default() };
    let agents = Some(AgentsCapability {
        supported: true,
        manifest_runtime: ManifestRuntime {
            supported: true,
            handoff_validation: true,
            install_scope: InstallScope::Tenant,
        },
        live_runtime: None,
        reasoning: None,
        deployment: Some(deployments.capability()),
        ..said()
    });
    let config = ServerConfig { agents, deployments, ..ServerConfig::default() };
    // RFC 0082 §A: a channel has nowhere to lead on a host that does not say so.
    let mut bound = crate::given::workflow("bound", &[("a", "core.noop")]);
    bound["nodes"][0]["agent"] = json!({ "agentId": AGENT, "channel": "stable" });
    for (host, status) in
        [(TestHost::start().await, 400), (TestHost::configured(config.clone()).await, 201)]
    {
        let reply = host.post("/v1/host/callboard/workflows", &bound).send().await;
        assert_eq!(reply.status, status, "{reply:?}");
    }
    let host = TestHost::configured(config).await;
    let document = host.get("/.well-known/openwop").anonymous().send().await.json;
    assert_eq!(
        document["agents"]["deployment"],
        json!({ "supported": true, "channels": ["canary", "stable", "latest"], "canary": false,
            "rollback": true, "states": ["draft", "test", "staged", "active", "paused",
                "deprecated", "rolled-back"] })
    );
}

async fn play(host: &TestHost, body: Value) -> Value {
    let reply = host.post(SEAM, &body).send().await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json
}

/// S-10 and the third leg of S-11, as far as they need no dispatched run.
#[tokio::test(start_paused = true)]
async fn s10_the_suites_scenarios_go_through_the_same_code() {
    let setup = Setup { seams: TestSeams::On, test_keys: TestKeys::All, ..Setup::default() };
    let host = TestHost::of(setup).await;
    let pin = json!({ "scenario": "channel-pin", "channel": "stable" });
    assert_eq!(host.post(SEAM, &pin).send().await.refusal(), (400, "validation_error"));
    let logged = async |shown: &Value| {
        let run = shown["runId"].as_str().expect("a run");
        let path = format!("/v1/host/sample/test/runs/{run}/events?type=deployment.promoted");
        host.get(&path).send().await.json["events"].as_array().cloned().unwrap_or_default()
    };
    let first = play(&host, json!({ "scenario": "promote" })).await;
    assert_eq!(
        (&first["record"]["state"], &first["record"]["version"]),
        (&json!("active"), &json!("1.0.0"))
    );
    let events = logged(&first).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["payload"]["toState"], "active");

    assert_eq!(play(&host, pin.clone()).await["resolvedAgentVersion"], "1.0.0");
    let moved = json!({ "scenario": "promote", "agentId": "core.conformance.channel-agent",
        "channel": "stable" });
    assert_eq!(play(&host, moved).await["record"]["version"], "1.0.1");
    assert_eq!(play(&host, pin.clone()).await["resolvedAgentVersion"], "1.0.1");

    let denied = play(&host, json!({ "scenario": "unauthorized" })).await;
    assert_eq!(denied["allowed"], false);
    assert_eq!(logged(&denied).await, [Value::Null; 0]);
    let unmet = play(&host, json!({ "scenario": "eval-gate-unmet" })).await;
    assert_eq!(unmet["error"], "eval_gate_unmet");
    assert_eq!(logged(&unmet).await, [Value::Null; 0]);
    for shown in [denied, unmet] {
        let run = host.get(&format!("/v1/runs/{}", shown["runId"].as_str().expect("a run")));
        assert_eq!(run.send().await.json["status"], "failed");
    }
    assert_eq!(play(&host, pin).await["resolvedAgentVersion"], "1.0.1");
    let empty = json!({ "scenario": "channel-pin", "channel": "canary" });
    assert_eq!(host.post(SEAM, &empty).send().await.refusal(), (400, "no_active_deployment"));
    let unknown = host.post(SEAM, &json!({ "scenario": "explode" })).send().await;
    assert_eq!(unknown.status, 400);
}

/// a run gets the version that its channel leads to and keeps it when the channel moves on.
#[tokio::test(start_paused = true)]
async fn a91_a_run_follows_its_channel_and_keeps_what_it_got() {
    let runtime = ManifestRuntime {
        supported: true,
        handoff_validation: true,
        install_scope: InstallScope::Tenant,
    };
    let deployment = Some(DeploymentPolicy::default().capability());
    let agents = Some(AgentsCapability { manifest_runtime: runtime, deployment, ..said() });
    let config = ServerConfig { agents, ..ServerConfig::default() };
    let host = stocked(Setup { config, ..Setup::default() }).await;
    let mut bound =
        crate::given::workflow("bound", &[("gate", "core.approvalGate"), ("work", "core.noop")]);
    bound["nodes"][1]["agent"] = json!({ "agentId": AGENT, "channel": "stable" });
    assert_eq!(host.post("/v1/host/callboard/workflows", &bound).send().await.status, 201);
    let order = json!({ "workflowId": "bound" });
    let early = host.post("/v1/runs", &order).send().await;
    assert_eq!((early.status, early.text_at("error").as_str()), (400, "no_active_deployment"));
    let mut runs = Vec::new();
    for version in ["1.0.0", "2.0.0"] {
        activate(&host, version).await;
        let run = host.run("bound", json!({})).await;
        runs.push((run, version));
    }
    for (run, version) in runs {
        let state = host.engine.store().open(&run.as_str().into()).await.expect("readable");
        let pins = state.expect("a run").birth.agents;
        let pin = pins.get(&"work".into()).expect("a pin");
        assert_eq!((pin.version.as_str(), pin.channel.as_deref()), (version, Some("stable")));
        let shown = host.get(&format!("/v1/runs/{run}")).send().await.json;
        assert_eq!(shown["agent"]["channel"], "stable");
    }
}
