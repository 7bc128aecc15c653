//! A published agent, live, against a provider that follows a script: its log as the protocol's schemas have it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::KEY;
use super::expectations::Observed;
use super::session::Session;
use crate::child::Host;
use crate::wire::Request;

const WITHIN: Duration = Duration::from_secs(20);
const AGENT: &str = "core.openwop.agents.code-reviewer.default";
const ARCHIVE: &str = "v1/packs/core.openwop.agents.code-reviewer/-/1.0.1.tgz";
const PROVIDER_KEY: &str = "sk-ant-interop-0123456789abcdef";
const MODEL: &str = "claude-sonnet-4-5";

pub(crate) async fn check(session: &mut Session, binary: &Path, registry: &Path) -> Result<()> {
    let provider = Provider::start().await?;
    let before = session.address();
    let outcome = tokio::select! {
        outcome = reviewed(session, binary, registry, &provider) => outcome,
        failed = provider.serve() => failed,
    };
    session.turn_to(before);
    session.book.enter("agents: a published reviewer works with a model over HTTP", outcome);
    let outcome = session.settle();
    session.book.enter("agents: the reviewer's log matches the schemas", outcome);
    Ok(())
}

async fn reviewed(
    session: &mut Session,
    binary: &Path,
    registry: &Path,
    provider: &Provider,
) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let address = format!("http://{}", provider.address);
    let model = format!("anthropic/{MODEL}");
    let variables = [
        ("ANTHROPIC_API_KEY", PROVIDER_KEY),
        ("ANTHROPIC_BASE_URL", address.as_str()),
        ("CALLBOARD_MODEL", model.as_str()),
    ];
    let host = Host::start_with(binary, folder.path(), &["--api-key", KEY], &variables).await?;
    session.turn_to(host.address);
    install(binary, host.address, &registry.join(ARCHIVE))?;
    let log = live(session).await?;
    ensure!(provider.asked() == 2, "the model was asked {} times", provider.asked());
    replayed(session, &log).await?;
    ensure!(provider.asked() == 2, "a replay asked the model");
    host.stop().await
}

fn install(binary: &Path, host: SocketAddr, archive: &Path) -> Result<()> {
    let announced = std::fs::read(archive.with_extension("json"))?;
    let announced: Value = serde_json::from_slice(&announced)?;
    let integrity = announced["integrity"].as_str().context("no digest is announced")?;
    let said = Command::new(binary)
        .args(["packs", "install", "--integrity", integrity])
        .arg(archive)
        .env("CALLBOARD_URL", format!("http://{host}"))
        .env("CALLBOARD_API_KEY", KEY)
        .output()?;
    ensure!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    Ok(())
}

async fn live(session: &mut Session) -> Result<Observed> {
    let inputs = json!({ "diff": "+let x = y.unwrap();", "strictness": "strict" });
    let run = session.create(&json!({ "agentId": AGENT, "inputs": inputs })).await?;
    let log = session.observe(&run, WITHIN).await?;
    log.is_a_log()?;
    log.in_order(&[
        "run.started",
        "agent.invocation.started",
        "agent.promptResolved",
        "prompt.composed",
        "agent.reasoning.delta",
        "provider.usage",
        "agent.reasoned",
        "agent.toolCalled",
        "agent.toolReturned",
        "output.chunk",
        "provider.usage",
        "agent.reasoned",
        "agent.decided",
        "agent.invocation.completed",
        "run.completed",
    ])?;
    let started = log.only("agent.invocation.started")?;
    ensure!(started["resolvedProvider"] == "anthropic", "{started}");
    ensure!(started["resolvedModel"] == MODEL && started["toolSurfaceCount"] == 1, "{started}");
    let completed = log.only("agent.invocation.completed")?;
    ensure!(completed["outcome"] == "completed", "{completed}");
    ensure!(completed["schemaValidated"] == true && completed["confidence"] == 0.9, "{completed}");
    let returned = log.only("agent.toolReturned")?;
    ensure!(returned["error"]["code"] == "tool_refused", "a private address: {returned}");
    let outputs = &log.only("run.completed")?["outputs"];
    ensure!(outputs["blockingCount"] == 1, "{outputs}");
    let cost = &log.snapshot["metrics"]["openwopCost"];
    ensure!(cost["tokens"] == json!({ "input": 240, "output": 80 }), "{cost}");
    ensure!(cost["usd"].as_f64().is_some_and(|usd| usd > 0.0), "{cost}");
    let all = json!(log.events).to_string() + &log.snapshot.to_string();
    ensure!(!all.contains(PROVIDER_KEY), "the provider's key is in the log");
    Ok(log)
}

async fn replayed(session: &mut Session, source: &Observed) -> Result<()> {
    let body = json!({ "fromSeq": 0, "mode": "replay" });
    let path = format!("/v1/runs/{}:fork", source.run);
    let forked = session.expect(201, Request::post(path, &body)).await?;
    let run = forked["runId"].as_str().context("a fork without runId")?.to_owned();
    let again = session.observe(&run, WITHIN).await?;
    ensure!(again.kinds() == source.kinds(), "the replay tells something else");
    for kind in ["agent.invocation.started", "provider.usage", "agent.toolReturned"] {
        ensure!(again.payloads(kind) == source.payloads(kind), "{kind} differs");
    }
    Ok(())
}

/// Anthropic's messages, as the script has them: a page is fetched first, then the review is written.
struct Provider {
    listener: TcpListener,
    address: SocketAddr,
    asked: AtomicUsize,
}

impl Provider {
    async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address, asked: AtomicUsize::new(0) })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// Answers one request after the other; only a broken script ends it.
    async fn serve(&self) -> Result<()> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            let mut stream = BufReader::new(stream);
            let (head, request) = read(&mut stream).await?;
            ensure!(head.starts_with("post /v1/messages"), "another question: {head}");
            ensure!(head.contains(&format!("x-api-key: {PROVIDER_KEY}")), "another key");
            self.asked.fetch_add(1, Ordering::Relaxed);
            let body = answer(&request)?;
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\
                 connection: close\r\n\r\n",
                body.len()
            );
            let mut stream = stream.into_inner();
            stream.write_all((head + &body).as_bytes()).await?;
        }
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Result<(String, Value)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        ensure!(stream.read_line(&mut head).await? > 0, "half a request");
    }
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.context("no length")?.trim().parse()?];
    stream.read_exact(&mut body).await?;
    Ok((head, serde_json::from_slice(&body)?))
}

fn answer(request: &Value) -> Result<String> {
    ensure!(request["model"] == MODEL && request["stream"] == true, "another model");
    let said = request["messages"].to_string();
    let (blocks, reason) = if said.contains("tool_result") {
        let review = json!({
            "findings": [{
                "severity": "blocking", "category": "correctness",
                "location": { "file": "src/lib.rs", "line": 1 },
                "message": "This unwrap panics when there is no value.",
            }],
            "summary": "One thing must change.", "blockingCount": 1, "confidence": 0.9,
        });
        let text = json!({ "type": "text_delta", "text": review.to_string() });
        (vec![(json!({ "type": "text", "text": "" }), text)], "end_turn")
    } else {
        let tools = request["tools"].as_array().context("no tools")?;
        let names = tools.iter().filter_map(|tool| tool["name"].as_str());
        let Some(name) = names.into_iter().find(|name| name.ends_with("http_fetch")) else {
            bail!("the reviewer cannot fetch: {}", request["tools"]);
        };
        let thought = json!({ "type": "thinking_delta", "thinking": "What is y?" });
        let call = json!({ "type": "tool_use", "id": "toolu_1", "name": name, "input": {} });
        let page = json!({ "url": "https://127.0.0.1/src/lib.rs" }).to_string();
        let arguments = json!({ "type": "input_json_delta", "partial_json": page });
        let thinking = (json!({ "type": "thinking", "thinking": "" }), thought);
        (vec![thinking, (call, arguments)], "tool_use")
    };
    let usage = json!({ "input_tokens": 120, "output_tokens": 1 });
    let message = json!({ "id": "msg_1", "role": "assistant", "usage": usage });
    let mut events = vec![json!({ "type": "message_start", "message": message })];
    for (index, (block, delta)) in blocks.into_iter().enumerate() {
        let start =
            json!({ "type": "content_block_start", "index": index, "content_block": block });
        let delta = json!({ "type": "content_block_delta", "index": index, "delta": delta });
        let stop = json!({ "type": "content_block_stop", "index": index });
        events.extend([start, delta, stop]);
    }
    let usage = json!({ "output_tokens": 40 });
    let delta = json!({ "stop_reason": reason });
    events.push(json!({ "type": "message_delta", "delta": delta, "usage": usage }));
    events.push(json!({ "type": "message_stop" }));
    let frame = |event: &Value| {
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
    };
    Ok(events.iter().map(frame).collect())
}
