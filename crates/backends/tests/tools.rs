//! The built-in tools as an agent calls them, through a surface.

#![cfg(test)]

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use callboard_agents::{FixedTools, ToolFault, ToolInvocation, ToolSurface, Toolbox};
use callboard_backends::{Egress, Lookup, Reach, built_in};
use callboard_core::Attempt;
use callboard_engine::{EffectId, KeyMode, Scope};
use callboard_protocol::Tenant;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

/// Every name leads to this machine.
#[derive(Debug)]
struct Home;

#[async_trait]
impl Lookup for Home {
    async fn addresses(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)])
    }
}

struct Given {
    tools: FixedTools,
    folder: TempDir,
    tenant: Tenant,
}

fn given(reach: Reach) -> Given {
    let tools = built_in(&Egress::new(reach, Arc::new(Home))).unwrap();
    Given { tools, folder: tempfile::tempdir().unwrap(), tenant: "acme".into() }
}

impl Given {
    fn scope(&self) -> Scope {
        Scope { tenant: self.tenant.clone(), workspace: None, mode: KeyMode::Live }
    }

    /// Calls a tool as a model would: by its provider's name, with arguments that are checked first.
    async fn call(&self, tool: &str, arguments: Value) -> Result<Value, ToolFault> {
        let allowed = [tool.to_owned()];
        let surface = ToolSurface::assemble(&self.tools, &self.scope(), &allowed).await;
        let name = surface.offers().next().map(|offer| offer.name.to_owned()).unwrap();
        let admitted = surface
            .admit(&name, arguments)
            .map_err(|refused| ToolFault::Refused(refused.to_string()))?;
        let (run, node) = ("run".into(), "agent".into());
        let attempt = Attempt { node: "agent".into(), visit: 0, number: 0 };
        let effect = EffectId::new(&self.tenant, &run, &attempt, 0, tool);
        let call = ToolInvocation {
            tenant: &self.tenant,
            run: &run,
            node: &node,
            workspace: &self.folder.path().join("run"),
            effect: &effect,
            notebook: None,
            credentials: None,
            caller: None,
            arguments: admitted.arguments,
            trace: None,
            within: Duration::from_secs(5),
        };
        admitted.tool.invoke(call).await
    }
}

const READ: &str = "openwop:core.files.read";
const WRITE: &str = "openwop:core.files.write";
const FETCH: &str = "openwop:core.openwop.http.fetch";
const RETRIEVE: &str = "openwop:core.rag.retriever-basic";

#[tokio::test]
async fn the_names_that_published_packs_use_are_there() {
    let given = given(Reach::Public);
    let listed = given.tools.list(&given.scope()).await;
    let ids: Vec<&str> = listed.iter().map(|tool| tool.id.as_str()).collect();
    assert_eq!(
        ids,
        [
            "openwop:core.crypto.hash",
            READ,
            WRITE,
            "openwop:core.flow.aggregate-text",
            "openwop:core.flow.split-in-batches",
            "openwop:core.openwop.data.json-schema-validate",
            FETCH,
            RETRIEVE,
        ]
    );
}

#[tokio::test]
async fn a_file_is_written_and_read_back() {
    let given = given(Reach::Public);
    let empty = given.call(READ, json!({ "path": "a.md" })).await;
    assert_eq!(empty, Err(ToolFault::refused("the workspace is empty")));
    let written = given.call(WRITE, json!({ "path": "d/a.md", "content": "hé" })).await;
    assert_eq!(written, Ok(json!({ "path": "d/a.md", "bytesWritten": 3 })));
    let read = given.call(READ, json!({ "path": "d/a.md" })).await;
    assert_eq!(read, Ok(json!({ "content": "hé", "encoding": "utf8", "size": 3 })));

    let binary = json!({ "path": "b", "content": "/wA=", "encoding": "base64" });
    given.call(WRITE, binary).await.unwrap();
    let read = given.call(READ, json!({ "path": "b" })).await;
    assert_eq!(read, Ok(json!({ "content": "/wA=", "encoding": "base64", "size": 2 })));
}

#[tokio::test]
async fn a_tool_cannot_leave_its_folder() {
    let given = given(Reach::Public);
    std::fs::write(given.folder.path().join("secret"), "secret").unwrap();
    given.call(WRITE, json!({ "path": "a", "content": "" })).await.unwrap();
    for path in ["../secret", "/etc/hostname", "a/../../secret"] {
        let read = given.call(READ, json!({ "path": path })).await;
        assert!(matches!(read, Err(ToolFault::Refused(_))), "{path}: {read:?}");
        let written = given.call(WRITE, json!({ "path": path, "content": "x" })).await;
        assert!(matches!(written, Err(ToolFault::Refused(_))), "{path}: {written:?}");
    }
    assert_eq!(std::fs::read_to_string(given.folder.path().join("secret")).unwrap(), "secret");
}

#[tokio::test]
async fn passages_come_from_files_and_from_given_texts() {
    let given = given(Reach::Public);
    let refunds = json!({ "path": "policy.md", "content": "Refunds within 30 days." });
    given.call(WRITE, refunds).await.unwrap();
    let texts =
        json!([{ "text": "Shipping takes a week." }, { "source": "faq", "text": "Refunds?" }]);
    let found = given.call(RETRIEVE, json!({ "query": "refunds", "texts": texts })).await.unwrap();
    let sources: Vec<&str> = found["hits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hit| hit["source"].as_str().unwrap())
        .collect();
    assert_eq!(sources, ["faq", "policy.md"]);
}

/// Answers requests one after the other, and tells what was asked for.
async fn pages(answers: Vec<String>) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&asked);
    let mut answers = VecDeque::from(answers);
    TaskTracker::new().spawn(async move {
        while let Some(answer) = answers.pop_front() {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut text = String::new();
            while !text.ends_with("\r\n\r\n") {
                let mut buffer = [0; 1024];
                let count = socket.read(&mut buffer).await.unwrap();
                text.push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
            heard.lock().unwrap().push(text);
            let _ = socket.write_all(answer.as_bytes()).await;
        }
    });
    (address, asked)
}

fn page(kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nset-cookie: s=1\r\n\r\n{body}"
    )
}

fn moved(to: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n")
}

#[tokio::test]
async fn a_page_is_fetched_with_what_a_model_may_know_of_it() {
    let given = given(Reach::Anywhere);
    let (address, asked) =
        pages(vec![page("text/plain", "hello"), page("application/json", "{\"a\":1}")]).await;
    let url = format!("http://{address}/x");
    let arguments = json!({ "url": url, "headers": { "accept": "text/plain" } });
    let fetched = given.call(FETCH, arguments).await.unwrap();
    let expected = json!({
        "url": url, "status": 200, "headers": { "content-type": "text/plain" },
        "body": "hello", "truncated": false
    });
    assert_eq!(fetched, expected);
    assert!(asked.lock().unwrap()[0].contains("accept: text/plain\r\n"));
    let fetched = given.call(FETCH, json!({ "url": url })).await.unwrap();
    assert_eq!(fetched["body"], json!({ "a": 1 }));
}

#[tokio::test]
async fn redirects_are_followed_through_the_guard_and_not_for_ever() {
    let given = given(Reach::Anywhere);
    let (address, asked) = pages(vec![moved("/there"), page("text/plain", "here")]).await;
    let fetched = given.call(FETCH, json!({ "url": format!("http://{address}/a") })).await.unwrap();
    assert_eq!(
        (&fetched["body"], &fetched["url"]),
        (&json!("here"), &json!(format!("http://{address}/there")))
    );
    assert!(asked.lock().unwrap()[1].starts_with("GET /there "));

    for target in ["ftp://x.test/", "http://user:pw@x.test/", "file:///etc/passwd"] {
        let (address, asked) = pages(vec![moved(target)]).await;
        let refused = given.call(FETCH, json!({ "url": format!("http://{address}/") })).await;
        assert!(matches!(refused, Err(ToolFault::Refused(_))), "{target}: {refused:?}");
        assert_eq!(asked.lock().unwrap().len(), 1);
    }

    let (address, asked) = pages(vec![moved("/"); 10]).await;
    let refused = given.call(FETCH, json!({ "url": format!("http://{address}/") })).await;
    assert_eq!(refused, Err(ToolFault::refused("the address leads around in circles")));
    assert_eq!(asked.lock().unwrap().len(), 6);
}

#[tokio::test]
async fn a_private_address_cannot_be_reached_by_any_spelling() {
    let given = given(Reach::Public);
    for url in [
        "https://127.0.0.1/",
        "https://2130706433/",
        "https://[::1]/",
        "https://10.0.0.1/",
        "https://169.254.169.254/latest/meta-data",
        "https://localhost/",
        "https://inside.test/",
        "http://example.com/",
        "file:///etc/passwd",
    ] {
        let refused = given.call(FETCH, json!({ "url": url })).await;
        assert!(matches!(refused, Err(ToolFault::Refused(_))), "{url}: {refused:?}");
    }
}

#[tokio::test]
async fn only_harmless_methods_and_headers_are_admitted() {
    let given = given(Reach::Anywhere);
    for more in [
        json!({ "method": "POST" }),
        json!({ "headers": { "authorization": "x" } }),
        json!({ "headers": { "connection": "upgrade" } }),
        json!({ "headers": { "host": "x" } }),
        json!({ "body": "x" }),
    ] {
        let mut arguments = json!({ "url": "http://127.0.0.1:1/" });
        arguments.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        let refused = given.call(FETCH, arguments).await;
        assert!(matches!(refused, Err(ToolFault::Refused(_))), "{more}: {refused:?}");
    }
}

#[tokio::test]
async fn a_flood_is_cut() {
    let given = given(Reach::Anywhere);
    let (address, _) = pages(vec![page("text/plain", &"é".repeat(600_000))]).await;
    let fetched = given.call(FETCH, json!({ "url": format!("http://{address}/") })).await.unwrap();
    assert_eq!(fetched["truncated"], true);
    assert_eq!(fetched["body"].as_str().unwrap().len(), 1 << 20);
}

/// Time jumps as soon as everybody waits, so this takes none.
#[tokio::test(start_paused = true)]
async fn a_page_that_hangs_is_given_up() {
    let given = given(Reach::Anywhere);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let silence = given.call(FETCH, json!({ "url": url })).await;
    assert!(
        matches!(silence, Err(ToolFault::Unanswered(_) | ToolFault::Unavailable(_))),
        "{silence:?}"
    );
}
