//! The catalogue of tools and the gate before them, S-19, and workflows as tools.

use std::sync::Arc;
use std::time::Duration;

use callboard_agents::{
    RatePolicy, Tool, ToolDescriptor, ToolFault, ToolHooks, ToolInvocation, Toolbox, Toolboxes,
    WorkflowTools,
};
use callboard_backends::{Egress, Reach, SystemLookup, built_in};
use callboard_core::Attempt;
use callboard_engine::{EffectId, KeyMode, Scope};
use callboard_protocol::{Object, ToolSource};
use callboard_server::Tools;
use serde_json::{Value, json};

use crate::given::{READER, Setup, TestHost, TestSeams, workflow};

/// One tool that needs a scope.
#[derive(Debug)]
struct Guarded(ToolDescriptor);

#[async_trait::async_trait]
impl Tool for Guarded {
    fn descriptor(&self) -> &ToolDescriptor {
        &self.0
    }

    async fn invoke(&self, _: ToolInvocation<'_>) -> Result<Value, ToolFault> {
        Ok(Value::Null)
    }
}

fn scope(tenant: &str) -> Scope {
    Scope { tenant: tenant.into(), workspace: None, mode: KeyMode::Live }
}

#[derive(Debug)]
struct OneGuarded(Arc<Guarded>);

#[async_trait::async_trait]
impl Toolbox for OneGuarded {
    async fn find(&self, _: &Scope, name: &str) -> Option<Arc<dyn Tool>> {
        (name == self.0.0.id).then(|| Arc::clone(&self.0) as _)
    }

    async fn list(&self, _: &Scope) -> Vec<ToolDescriptor> {
        vec![self.0.0.clone()]
    }
}

const HELD: &str = "cb_held";
const KEYS: [&str; 4] = [
    "cb_live=acme",
    "cb_rival=rival",
    "cb_reader=acme+manifest:read",
    "cb_held=acme+manifest:read+tools:mail",
];

async fn host() -> (TestHost, Arc<WorkflowTools>) {
    let built_in = built_in(&Egress::new(Reach::Public, Arc::new(SystemLookup)));
    let built_in = built_in.expect("our own schemas");
    let hash = built_in.find(&scope("acme"), "openwop:core.crypto.hash").await.expect("a tool");
    let guarded = Guarded(ToolDescriptor {
        id: "mcp:mail.send".to_owned(),
        source: ToolSource::Mcp,
        required_scopes: vec!["tools:mail".to_owned()],
        ..hash.descriptor().clone()
    });
    let workflows = Arc::new(WorkflowTools::default());
    let boxes: Vec<Arc<dyn Toolbox>> =
        vec![Arc::new(built_in), Arc::new(OneGuarded(Arc::new(guarded))), workflows.clone()];
    let tools = Tools {
        toolbox: Arc::new(Toolboxes(boxes)),
        hooks: Arc::new(ToolHooks::new(RatePolicy { calls_per_minute: 3 })),
        sources: vec![ToolSource::NodePack],
        http_client: None,
    };
    let host =
        TestHost::of(Setup { tools, keys: &KEYS, seams: TestSeams::On, ..Setup::default() }).await;
    workflows.attach(&host.engine);
    (host, workflows)
}

fn ids(tools: &Value) -> Vec<&str> {
    let tools = tools.as_array().expect("a list");
    tools.iter().filter_map(|tool| tool["toolId"].as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_catalogue_lists_what_the_caller_may_use() {
    let (host, _) = host().await;
    let all = host.get("/v1/tools").send().await;
    assert_eq!(all.status, 200);
    assert!(ids(&all.json).contains(&"mcp:mail.send"));
    let file = &all.json[1];
    assert_eq!(
        (&file["toolId"], &file["safetyTier"]),
        (&json!("openwop:core.crypto.hash"), &json!("pure"))
    );
    assert_eq!(file["inputSchema"]["required"], json!(["data"]));

    let held = host.get("/v1/tools?source=mcp").key(HELD).send().await;
    assert_eq!(ids(&held.json), ["mcp:mail.send"]);
    assert_eq!(held.json[0]["auth"], json!({ "scopes": ["tools:mail"] }));
    let without = host.get("/v1/tools").key(READER).send().await;
    assert!(!ids(&without.json).contains(&"mcp:mail.send"));
    assert_eq!(host.get("/v1/tools").anonymous().send().await.status, 401);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_one_may_not_use_looks_like_one_that_is_not_there() {
    let (host, _) = host().await;
    let read = host.get("/v1/tools/openwop%3Acore.files.read").send().await;
    assert_eq!((read.status, &read.json["toolId"]), (200, &json!("openwop:core.files.read")));
    let plain = host.get("/v1/tools/openwop:core.files.read").send().await;
    assert_eq!(plain.json, read.json);
    let held = host.get("/v1/tools/mcp:mail.send").key(HELD).send().await;
    assert_eq!(held.status, 200);
    let hidden = host.get("/v1/tools/mcp:mail.send").key(READER).send().await;
    let unknown = host.get("/v1/tools/mcp:mail.gone").key(READER).send().await;
    assert_eq!((hidden.status, &hidden.json), (404, &unknown.json));
}

#[tokio::test(start_paused = true)]
async fn discovery_advertises_the_catalogue_and_no_gate_that_nothing_goes_through() {
    let (host, _) = host().await;
    let document = host.get("/.well-known/openwop").anonymous().send().await.json;
    assert_eq!(document["toolCatalog"], json!({ "supported": true, "sources": ["node-pack"] }));
    assert_eq!(document["capabilities"]["toolCatalog"], document["toolCatalog"]);
    assert_eq!(document.get("toolHooks"), None);
    assert_eq!(document.get("httpClient"), None);
}

async fn ask(host: &TestHost, body: Value) -> (u16, Value) {
    let reply = host.post("/v1/host/sample/toolhooks/invoke", &body).send().await;
    (reply.status, reply.json)
}

/// S-19, first leg; A-60.
#[tokio::test(start_paused = true)]
async fn a_call_is_told_of_without_its_arguments() {
    let (host, _) = host().await;
    let secret = format!("sk-{}", "canary-rfc0064-do-not-leak-xyz789");
    let args = json!({ "apiKey": secret, "q": "openwop" });
    let body = json!({ "principal": "core.system", "toolName": "web.search", "args": args, "transport": "mcp" });
    let (status, told) = ask(&host, body).await;
    assert_eq!(status, 200);
    assert_eq!(
        told["toolReturned"],
        json!({ "toolName": "web.search", "status": "ok", "durationMs": 0 })
    );
    let called = &told["toolCalled"];
    assert_eq!(
        (&called["transport"], &called["principal"]),
        (&json!("mcp"), &json!("core.system"))
    );
    assert_eq!(called["argsHash"].as_str().map(str::len), Some(64));
    assert!(!told.to_string().contains(&secret[3..]), "{told}");
    let (_, bare) = ask(&host, json!({ "principal": "p", "toolName": "x" })).await;
    let empty = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    assert_eq!(bare["toolCalled"]["argsHash"], empty);
}

/// S-19, second leg; A-61.
#[tokio::test(start_paused = true)]
async fn a_scope_that_is_missing_or_unknown_forbids_the_call() {
    let (host, _) = host().await;
    let asked = |principal: &str, granted: Option<&[&str]>| {
        let mut body = json!({ "principal": principal, "toolName": "db.delete", "requiredScopes": ["tools:mail"] });
        if let Some(granted) = granted {
            body["grantedScopes"] = json!(granted);
        }
        body
    };
    for body in [
        asked("conformance-unprivileged", None),
        asked("conformance-unprivileged", Some(&[])),
        asked("key:static-5e826265", None),
        // A key of another tenant, and one that does not exist.
        asked("key:static-94f65d24", None),
        asked("key:static-9", None),
    ] {
        let (_, told) = ask(&host, body).await;
        assert_eq!(told["toolReturned"], json!({ "toolName": "db.delete", "status": "forbidden" }));
        let details =
            json!({ "scope": "tool", "toolName": "db.delete", "requiredScopes": ["tools:mail"] });
        assert_eq!(
            (&told["error"]["error"], &told["error"]["details"]),
            (&json!("forbidden"), &details)
        );
    }
    for body in [
        asked("anybody", Some(&["tools:mail"])),
        asked("key:static-9a08bb59", None),
        asked("key:static-b3aa2eb6", None),
    ] {
        let (status, told) = ask(&host, body).await;
        assert_eq!((status, &told["toolReturned"]["status"]), (200, &json!("ok")));
    }
}

/// S-19, third leg; A-62.
#[tokio::test(start_paused = true)]
async fn a_used_up_bucket_limits_one_principal_and_one_tool() {
    let (host, _) = host().await;
    let body = |principal: &str, tool: &str, exhausted: bool| json!({ "principal": principal, "toolName": tool, "simulateRateLimitExhausted": exhausted });
    let (_, told) = ask(&host, body("p", "x", true)).await;
    assert_eq!(told["toolReturned"], json!({ "toolName": "x", "status": "rate_limited" }));
    let details = json!({ "scope": "tool", "toolName": "x", "retryAfterMs": 20_000 });
    assert_eq!(told["error"]["details"], details);
    for (principal, tool) in [("p", "y"), ("q", "x")] {
        let (_, told) = ask(&host, body(principal, tool, false)).await;
        assert_eq!(told["toolReturned"]["status"], "ok");
    }
    let (_, told) = ask(&host, body("p", "x", false)).await;
    assert_eq!(told["toolReturned"]["status"], "rate_limited");
}

/// S-19, RFC 0064 §F: a tool that fails says so, and one that was not called has nothing to say.
#[tokio::test(start_paused = true)]
async fn a_call_that_goes_wrong_never_looks_like_one_that_came_to_nothing() {
    let (host, _) = host().await;
    let body =
        |tool: &str| json!({ "principal": "p", "toolName": tool, "simulateToolError": true });
    let (status, told) = ask(&host, body("web.search")).await;
    let returned = &told["toolReturned"];
    assert_eq!((status, &returned["status"]), (200, &json!("error")));
    assert_eq!(returned["error"]["code"], "tool_failed");
    assert!(returned["error"]["message"].as_str().is_some_and(|text| !text.is_empty()));
    assert!(returned["durationMs"].is_u64() && returned.get("outcome").is_none(), "{told}");
    let mut forbidden = body("db.delete");
    forbidden["requiredScopes"] = json!(["tools:mail"]);
    assert_eq!(ask(&host, forbidden).await.1["toolReturned"]["status"], "forbidden");
}

/// an executable handler is no part of anything that a caller can send.
#[tokio::test(start_paused = true)]
async fn a_handler_cannot_be_sent_along() {
    let (host, _) = host().await;
    let body = json!({ "principal": "p", "toolName": "x", "handler": "() => 1" });
    let (status, told) = ask(&host, body).await;
    assert_eq!((status, &told["error"]), (400, &json!("validation_error")));
}

const WORKFLOWS: &str = "/v1/host/callboard/workflows";
/// A-59, and the half of it that is a catalogue's. What comes of calling one stands with the agents.
#[tokio::test(start_paused = true)]
async fn a_workflow_is_a_tool_for_its_own_tenant_and_only_runs_call_it() {
    let (host, tools) = host().await;
    let registered = host.post(WORKFLOWS, &workflow("below", &[("a", "core.noop")])).send().await;
    assert_eq!(registered.status, 201, "{registered:?}");
    assert!(tools.find(&scope("rival"), "openwop:workflow.below").await.is_none());
    let tool = tools.find(&scope("acme"), "openwop:workflow.below").await.expect("a tool");
    let (tenant, run, node) = ("acme".into(), "run_1".into(), "a".into());
    let attempt = Attempt { node, visit: 0, number: 0 };
    let effect = EffectId::new(&tenant, &run, &attempt, 0, "workflow");
    let called = tool.invoke(ToolInvocation {
        tenant: &tenant,
        run: &run,
        node: &attempt.node,
        workspace: std::path::Path::new(""),
        effect: &effect,
        notebook: None,
        credentials: None,
        caller: None,
        arguments: Object::new(),
        trace: None,
        within: Duration::from_secs(30),
    });
    assert!(matches!(called.await, Err(ToolFault::Refused(_))));

    let wait = tools.find(&scope("acme"), "openwop:workflow.wait").await.expect("a tool");
    let schema = &wait.descriptor().input;
    assert!(schema.violations(&json!({ "delayMs": "long" })).len() == 1);
}
