//! A collector on this machine decodes what a host sends of its runs: protocol buffers, as most collectors take them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::anthropic::Anthropic;
use crate::support::host::{Host, KEY, serve};
use crate::terminal::Terminal;

const SECRET: &str = "sk-ant-traces";
/// Requests that arrived and that no test has looked at; there are a few.
const WAITING: usize = 16;
/// Reached only when something hangs.
const PATIENCE: Duration = Duration::from_secs(60);
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

const TALK: &str = r#"
id: talk
nodes:
  - id: say
    type: core.ai.chatCompletion
    config: {provider: anthropic, model: claude-sonnet-4-5}
    inputs: {messages: [{role: user, content: A question of mine.}]}
"#;

/// One span as it arrived.
#[derive(Debug, Default)]
struct Arrived {
    trace: String,
    parent: String,
    name: String,
    kind: u64,
    attributes: BTreeMap<String, String>,
}

/// The fields of a message, each with its bytes; numbers as eight bytes.
fn fields(mut bytes: &[u8]) -> Result<Vec<(u64, Vec<u8>)>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let value = match tag & 7 {
            0 => varint(&mut bytes)?.to_le_bytes().to_vec(),
            1 => bytes.split_off(..8).context("eight bytes")?.to_vec(),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?)?;
                bytes.split_off(..length).context("as many bytes as were said")?.to_vec()
            }
            other => anyhow::bail!("a wire type {other}"),
        };
        found.push((tag >> 3, value));
    }
    Ok(found)
}

fn varint(bytes: &mut &[u8]) -> Result<u64> {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = *bytes.split_off_first().context("a number that ends")?;
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return Ok(value);
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The spans of an `ExportTraceServiceRequest`.
fn spans(request: &[u8]) -> Result<Vec<Arrived>> {
    let mut level = vec![request.to_vec()];
    for (inside, wanted) in [("resource spans", 1), ("scope spans", 2), ("spans", 2)] {
        let mut below = Vec::new();
        for message in &level {
            let read = fields(message).context(inside)?;
            below.extend(read.into_iter().filter(|(field, _)| *field == wanted).map(|it| it.1));
        }
        level = below;
    }
    level.iter().map(|span| arrived(span)).collect()
}

fn arrived(span: &[u8]) -> Result<Arrived> {
    let mut arrived = Arrived::default();
    for (field, value) in fields(span)? {
        match field {
            1 => arrived.trace = hex(&value),
            4 => arrived.parent = hex(&value),
            5 => arrived.name = String::from_utf8(value)?,
            6 => arrived.kind = number(&value),
            9 => {
                let pair = fields(&value)?;
                let key = String::from_utf8(pair[0].1.clone())?;
                let held = fields(&pair[1].1)?.into_iter().next();
                let text = match held {
                    Some((1, text)) => String::from_utf8(text)?,
                    Some((2 | 3, value)) => number(&value).to_string(),
                    _ => String::new(),
                };
                arrived.attributes.insert(key, text);
            }
            _ => {}
        }
    }
    Ok(arrived)
}

/// Takes what is posted, and hands on each request's spans.
fn collector() -> Result<(String, Receiver<Vec<Arrived>>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    let (sender, arrived) = sync_channel(WAITING);
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let taken = || -> Result<Vec<Arrived>> {
                let mut reader = BufReader::new(socket);
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    ensure!(reader.read_line(&mut head)? > 0, "cut off");
                }
                let head = head.to_ascii_lowercase();
                ensure!(head.contains("content-type: application/x-protobuf"), "{head}");
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let mut body = vec![0; length.context("a length")?.parse()?];
                reader.read_exact(&mut body)?;
                reader.get_mut().write_all(
                    b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
                )?;
                spans(&body)
            };
            // The test misses what cannot be read.
            if let Ok(spans) = taken() {
                let _ = sender.send(spans);
            }
        }
    });
    Ok((url, arrived))
}

fn start(
    terminal: &Terminal,
    provider: &Anthropic,
    collector: &str,
    more: &[(&str, &str)],
) -> Result<Host> {
    let mut command = serve(&terminal.folder().join("data"));
    command.args(["--api-key", KEY, "--test-seams", "--workflows", "workflows"]);
    command.env("ANTHROPIC_API_KEY", SECRET).env("ANTHROPIC_BASE_URL", provider.address());
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", collector).envs(more.iter().copied());
    Host::of(command)
}

async fn talk(host: &Host) -> Result<String> {
    let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build()?;
    let asked = http.post(format!("{}/v1/runs", host.url())).bearer_auth(KEY);
    let asked = asked.json(&json!({ "workflowId": "talk" }));
    let asked = asked.header("traceparent", format!("00-{TRACE}-{CALLER}-01"));
    let answer: serde_json::Value = asked.send().await?.json().await?;
    Ok(answer["runId"].as_str().context("a run")?.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_gets_a_span_for_the_model_call_and_its_content_only_where_asked() -> Result<()>
{
    let terminal = Terminal::new()?;
    let provider = Anthropic::start(&[SECRET])?;
    terminal.write("workflows/talk.yaml", TALK)?;
    let (url, arrived) = collector()?;
    let host = start(&terminal, &provider, &url, &[])?;
    let run = talk(&host).await?;
    let spans = arrived.recv_timeout(PATIENCE)?;
    let find = |name: &str| spans.iter().find(|span| span.name == name).context(name.to_owned());
    let own = find("openwop.run")?;
    ensure!(own.parent == CALLER && own.trace == TRACE, "{spans:?}");
    let chat = find("chat claude-sonnet-4-5")?;
    ensure!(chat.trace == TRACE && chat.kind == 3, "{chat:?}");
    for (name, value) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "anthropic"),
        ("gen_ai.request.model", "claude-sonnet-4-5"),
        ("gen_ai.response.model", "claude-sonnet-4-5"),
        ("gen_ai.usage.input_tokens", "120"),
        ("gen_ai.usage.output_tokens", "30"),
        ("openwop.run_id", run.as_str()),
    ] {
        ensure!(chat.attributes.get(name).map(String::as_str) == Some(value), "{name}: {chat:?}");
    }
    ensure!(!format!("{spans:?}").contains("A question of mine."), "{spans:?}");
    host.stop("TERM")?;

    let capture = [("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")];
    let host = start(&terminal, &provider, &url, &capture)?;
    talk(&host).await?;
    let spans = arrived.recv_timeout(PATIENCE)?;
    let chat = spans.iter().find(|span| span.name.starts_with("chat ")).context("a call")?;
    let said = |name: &str| chat.attributes.get(name).cloned().unwrap_or_default();
    ensure!(said("gen_ai.input.messages").contains("A question of mine."), "{chat:?}");
    ensure!(said("gen_ai.output.messages").contains(r#""role":"assistant""#), "{chat:?}");
    host.stop("TERM")?;
    Ok(())
}

/// Nobody listens where the collector should be: the run ends as ever, and what was lost is counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_away_is_counted_and_costs_a_run_nothing() -> Result<()> {
    let terminal = Terminal::new()?;
    let provider = Anthropic::start(&[SECRET])?;
    terminal.write("workflows/talk.yaml", TALK)?;
    let nobody = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let host = start(&terminal, &provider, &format!("http://{nobody}"), &[])?;
    let run = talk(&host).await?;
    let shown = terminal.at(host.url()).output(&["runs", "show", &run])?;
    ensure!(shown.contains(&run), "{shown}");
    let wanted = r#"callboard_traces_dropped_total{reason="collector"} 1"#;
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let text = reqwest::Client::builder().no_proxy().build()?;
        let text = text.get(format!("{}/metrics", host.url())).send().await?.text().await?;
        if text.lines().any(|line| line == wanted) {
            break;
        }
        ensure!(std::time::Instant::now() < deadline, "{text}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    host.stop("TERM")?;
    Ok(())
}
