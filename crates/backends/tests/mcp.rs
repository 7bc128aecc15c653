//! MCP servers that live, die, hang and flood, as programs and over HTTP on loopback.

#![cfg(test)]

#[path = "../fake-mcp/dialogue.rs"]
mod dialogue;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use callboard_agents::{Tool, ToolFault, ToolInvocation, ToolSurface, Toolbox};
use callboard_backends::{
    Egress, McpServer, McpServers, McpSurroundings, McpWay, Reach, SystemLookup,
};
use callboard_core::{Attempt, TraceContext};
use callboard_engine::{Clock, EffectId, KeyMode, Scope};
use callboard_protocol::{SafetyTier, Tenant, Timestamp, ToolSource, ToolTransport};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;

use dialogue::Reaction;

/// Time that a test moves.
#[derive(Debug, Default)]
struct Hands(Mutex<i64>);

impl Hands {
    fn forward(&self, by: Duration) {
        *self.0.lock().unwrap() += i64::try_from(by.as_millis()).unwrap();
    }
}

#[async_trait]
impl Clock for Hands {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(*self.0.lock().unwrap())
    }

    async fn sleep_until(&self, _: Timestamp) {
        std::future::pending().await
    }
}

struct Given {
    servers: McpServers,
    clock: Arc<Hands>,
    tenant: Tenant,
}

fn command(program: &str) -> McpWay {
    let environment = [("OWN_TOKEN".to_owned(), "t".to_owned())].into();
    McpWay::Command { program: program.to_owned(), arguments: Vec::new(), environment }
}

fn given(reach: Reach, way: McpWay) -> Given {
    let clock = Arc::new(Hands::default());
    let environment = ["PATH", "OPENAI_API_KEY", "CALLBOARD_API_KEYS"]
        .map(|name| (name.to_owned(), "secret".to_owned()));
    let surroundings = McpSurroundings {
        egress: Egress::new(reach, Arc::new(SystemLookup)),
        environment: BTreeMap::from(environment),
        clock: clock.clone(),
        launcher: None,
        homes: std::env::temp_dir(),
    };
    let server = McpServer {
        name: "fake".to_owned(),
        way,
        required_scopes: vec!["tools:fake".to_owned()],
        read: Vec::new(),
        write: Vec::new(),
    };
    let servers = McpServers::new(vec![server], &surroundings);
    Given { servers, clock, tenant: "acme".into() }
}

fn program() -> Given {
    given(Reach::Public, command(env!("CARGO_BIN_EXE_fake-mcp")))
}

impl Given {
    fn scope(&self) -> Scope {
        Scope { tenant: self.tenant.clone(), workspace: None, mode: KeyMode::Live }
    }

    async fn find(&self, tool: &str) -> Option<Arc<dyn Tool>> {
        self.servers.find(&self.scope(), &format!("mcp:fake.{tool}")).await
    }

    async fn call(&self, tool: &str, arguments: Value) -> Result<Value, ToolFault> {
        let found = self.find(tool).await.unwrap();
        invoke(&*found, arguments, Duration::from_secs(20)).await
    }
}

async fn invoke(tool: &dyn Tool, arguments: Value, within: Duration) -> Result<Value, ToolFault> {
    traced(tool, arguments, within, None).await
}

async fn traced(
    tool: &dyn Tool,
    arguments: Value,
    within: Duration,
    trace: Option<&TraceContext>,
) -> Result<Value, ToolFault> {
    let (tenant, run, node) = ("acme".into(), "run".into(), "agent".into());
    let attempt = Attempt { node: "agent".into(), visit: 0, number: 0 };
    let effect = EffectId::new(&tenant, &run, &attempt, 0, "x");
    let Value::Object(arguments) = arguments else { panic!("an object") };
    let workspace = std::path::Path::new("/nowhere");
    let (tenant, run, node, effect) = (&tenant, &run, &node, &effect);
    let notebook = None;
    tool.invoke(ToolInvocation {
        tenant,
        run,
        node,
        workspace,
        effect,
        notebook,
        credentials: None,
        caller: None,
        arguments,
        trace,
        within,
    })
    .await
}

#[tokio::test]
async fn tools_are_listed_with_their_tiers_and_unusable_ones_left_out() {
    let given = program();
    assert!(given.servers.list(&given.scope()).await.is_empty(), "a list waits for nobody");
    assert_eq!(given.servers.look().await, [("fake".to_owned(), Ok(9))]);
    let listed = given.servers.list(&given.scope()).await;
    let ids: Vec<&str> = listed.iter().map(|tool| tool.id.as_str()).collect();
    assert_eq!(ids[..3], ["mcp:fake.die", "mcp:fake.echo", "mcp:fake.environment"]);
    assert!(!ids.iter().any(|id| id.contains("far") || id.contains("not a name")), "{ids:?}");
    for tool in &listed {
        let tier = if tool.id == "mcp:fake.echo" { SafetyTier::Read } else { SafetyTier::Write };
        assert_eq!(
            (tool.tier, tool.source, tool.transport),
            (tier, ToolSource::Mcp, ToolTransport::Mcp)
        );
        assert_eq!(tool.required_scopes, ["tools:fake"]);
    }
    given.servers.close().await;
}

/// M-91: a server learns which run calls it, in the way of W3C.
#[tokio::test]
async fn m91_a_call_says_where_in_a_trace_it_belongs() {
    let given = program();
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let found = given.find("write").await.unwrap();
    for state in [None, Some("vendor=1")] {
        let trace = TraceContext::read(parent, state).unwrap();
        let within = Duration::from_secs(20);
        let meta = traced(&*found, json!({}), within, Some(&trace)).await.unwrap();
        let meta: Value = serde_json::from_str(meta.as_str().unwrap()).unwrap();
        assert_eq!(meta["traceparent"], parent);
        assert_eq!(meta["tracestate"].as_str(), state);
    }
    given.servers.close().await;
}

#[tokio::test]
async fn a_call_carries_its_arguments_and_its_key() {
    let given = program();
    assert_eq!(given.call("echo", json!({ "text": "hello" })).await, Ok("hello".into()));
    let meta = given.call("write", json!({})).await.unwrap();
    let attempt = Attempt { node: "agent".into(), visit: 0, number: 0 };
    let effect = EffectId::new(&"acme".into(), &"run".into(), &attempt, 0, "x");
    let meta: Value = serde_json::from_str(meta.as_str().unwrap()).unwrap();
    assert_eq!(meta["callboard/effectId"], effect.as_str());
    given.servers.close().await;
}

#[tokio::test]
async fn a_surface_offers_them_and_checks_their_arguments() {
    let given = program();
    let allowed =
        ["mcp:fake.echo".to_owned(), "mcp:fake.gone".to_owned(), "mcp:other.x".to_owned()];
    let surface = ToolSurface::assemble(&given.servers, &given.scope(), &allowed).await;
    assert_eq!(surface.unresolved(), ["mcp:fake.gone", "mcp:other.x"]);
    assert!(surface.admit("mcp_fake_echo", json!({ "text": "x" })).is_ok());
    assert!(surface.admit("mcp_fake_echo", json!({ "text": 1 })).is_err());
    assert!(surface.admit("mcp_fake_write", json!({})).is_err());
    given.servers.close().await;
}

#[tokio::test]
async fn each_kind_of_answer_becomes_a_value() {
    let given = program();
    assert_eq!(given.call("structure", json!({})).await, Ok(json!({ "a": 1 })));
    let parts = given.call("picture", json!({})).await.unwrap();
    assert_eq!(parts[1], json!({ "type": "image", "mimeType": "image/png", "base64Bytes": 4 }));
    let failed = given.call("fail", json!({})).await;
    assert_eq!(failed, Err(ToolFault::Failed("it went wrong".to_owned())));
    given.servers.close().await;
}

#[tokio::test]
async fn a_program_gets_a_small_environment_without_the_hosts_secrets() {
    let given = program();
    assert_eq!(given.call("environment", json!({})).await, Ok("OWN_TOKEN PATH".into()));
    given.servers.close().await;
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_leaves_it_open_and_is_started_again() {
    let given = program();
    let die = given.find("die").await.unwrap();
    let died = invoke(&*die, json!({}), Duration::from_secs(20)).await;
    assert!(matches!(died, Err(ToolFault::Unanswered(_))), "{died:?}");
    assert_eq!(given.call("echo", json!({ "text": "again" })).await, Ok("again".into()));
    // What was found before the death reaches the new server too.
    let died = invoke(&*die, json!({}), Duration::from_secs(20)).await;
    assert!(matches!(died, Err(ToolFault::Unanswered(_))), "{died:?}");
    given.servers.close().await;
}

#[tokio::test]
async fn a_tool_that_hangs_or_floods_is_given_up_and_the_others_go_on() {
    let given = program();
    for tool in ["hang", "flood"] {
        let tool = given.find(tool).await.unwrap();
        let silence = invoke(&*tool, json!({}), Duration::from_millis(300)).await;
        assert_eq!(silence, Err(ToolFault::Unanswered("no answer in time".to_owned())));
    }
    assert_eq!(given.call("echo", json!({ "text": "still" })).await, Ok("still".into()));
    given.servers.close().await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_so_and_tried_again_later() {
    let given = given(Reach::Public, command("/nowhere/no-such-server"));
    let missing = given.servers.look().await;
    let error = missing[0].1.as_ref().unwrap_err().to_string();
    assert!(error.starts_with("/nowhere/no-such-server cannot be started"), "{error}");
    assert!(given.find("echo").await.is_none());
    given.clock.forward(Duration::from_secs(2));
    assert!(given.find("echo").await.is_none());
    given.servers.close().await;
}

#[tokio::test]
async fn a_program_that_speaks_something_else_is_given_up() {
    let given = given(Reach::Public, command("/bin/true"));
    let error = given.servers.look().await[0].1.clone().unwrap_err().to_string();
    assert!(
        error == "it ended before it said what it can do" || error == "it cannot be reached",
        "{error}"
    );
}

/// Whatever a program started is in its group and ends with it.
#[tokio::test]
async fn a_closed_server_takes_everything_that_it_started_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let script = format!(
        "sleep 1000 & echo $! > {}; exec {}",
        pid.display(),
        env!("CARGO_BIN_EXE_fake-mcp")
    );
    let way = McpWay::Command {
        program: "/bin/sh".to_owned(),
        arguments: vec!["-c".to_owned(), script],
        environment: [("PATH".to_owned(), std::env::var("PATH").unwrap())].into(),
    };
    let given = given(Reach::Public, way);
    assert_eq!(given.call("echo", json!({ "text": "x" })).await, Ok("x".into()));
    let grandchild: i32 = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    given.servers.close().await;
    let grandchild = rustix::process::Pid::from_raw(grandchild).unwrap();
    // It was killed; somebody reaps it soon.
    let gone = async {
        while is_running(grandchild) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.unwrap();
}

fn is_running(pid: rustix::process::Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.is_ok_and(|stat| !stat.contains(") Z ")) && rustix::process::test_kill_process(pid).is_ok()
}

#[tokio::test]
async fn stopping_ends_the_servers() {
    let given = program();
    given.servers.tick().await;
    let scope = given.scope();
    assert!(!given.servers.list(&scope).await.is_empty());
    let stop = tokio_util::sync::CancellationToken::new();
    stop.cancel();
    let servers = Arc::new(given.servers);
    Arc::clone(&servers).run(stop).await;
    assert!(servers.list(&scope).await.is_empty());
}

/// The same dialogue over streamable HTTP, each answer as plain JSON.
async fn over_http() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&asked);
    TaskTracker::new().spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            TaskTracker::new().spawn(speak(socket, Arc::clone(&heard)));
        }
    });
    (address, asked)
}

async fn speak(mut socket: TcpStream, heard: Arc<Mutex<Vec<String>>>) {
    let mut text = String::new();
    let (head, body) = loop {
        let mut buffer = [0; 4096];
        match socket.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => text.push_str(&String::from_utf8_lossy(&buffer[..count])),
        }
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
            break (head.to_owned(), body.to_owned());
        }
    };
    heard.lock().unwrap().push(head.clone());
    let answer = if head.starts_with("POST ") {
        match dialogue::react(&serde_json::from_str(&body).unwrap_or_default()) {
            Reaction::Answer(answers) => {
                let body = answers.last().map(Value::to_string).unwrap_or_default();
                let length = body.len();
                format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
                )
            }
            Reaction::Silence if body.contains("\"id\"") => return std::future::pending().await,
            Reaction::Silence => "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_owned(),
            Reaction::Death => return,
        }
    } else {
        "HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n".to_owned()
    };
    let _ = socket.write_all(answer.as_bytes()).await;
}

fn url(address: SocketAddr) -> McpWay {
    let headers = [("x-token".to_owned(), "s3cret".to_owned())].into();
    McpWay::Url { url: format!("http://{address}/mcp"), headers }
}

#[tokio::test]
async fn a_server_behind_an_address_is_called_with_the_operators_headers() {
    let (address, asked) = over_http().await;
    let given = given(Reach::Anywhere, url(address));
    assert_eq!(given.call("echo", json!({ "text": "hello" })).await, Ok("hello".into()));
    let died = given.call("die", json!({})).await;
    assert!(matches!(died, Err(ToolFault::Unanswered(_))), "{died:?}");
    assert_eq!(given.call("echo", json!({ "text": "again" })).await, Ok("again".into()));
    let asked = asked.lock().unwrap();
    assert!(asked.iter().all(|head| head.contains("x-token: s3cret")), "{asked:?}");
}

#[tokio::test]
async fn a_private_address_is_refused_by_the_same_rules_as_any_other() {
    let (address, asked) = over_http().await;
    let given = given(Reach::Public, url(address));
    let refused = given.servers.look().await[0].1.clone().unwrap_err();
    assert!(!refused.to_string().contains("s3cret"));
    assert!(asked.lock().unwrap().is_empty(), "somebody connected");
}

#[test]
fn debug_output_holds_nothing_of_the_operators_secrets() {
    let ways = [command("server"), url("127.0.0.1:1".parse().unwrap())];
    let shown = format!("{ways:?}");
    for secret in ["OWN_TOKEN", "s3cret", "127.0.0.1"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}
