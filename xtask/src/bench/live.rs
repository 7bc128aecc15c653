//! Live agents: with a model that answers at once, with one that speaks slowly, and over a long conversation.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{self, Sender};
use tokio::task::JoinSet;

use super::Scale;
use super::load::{self, Sample};
use super::measure::{KEY, processor_time, put};
use super::watch;
use crate::child::Host;
use crate::say;

const AGENT: &str = "vendor.bench.live.agent";
const TALKER: &str = "vendor.bench.live.talker";
/// Conversations whose costs per turn are compared.
pub(crate) const TURNS: [usize; 2] = [20, 200];
/// How often the first word is timed.
const FIRST_WORDS: usize = 20;
const CALLERS: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) runs: Option<Sample>,
    /// Processor time of the host per run.
    pub(crate) cpu_per_run: Duration,
    /// From the provider's first byte to its word at a client of the run's stream, in order.
    pub(crate) first_words: Vec<Duration>,
    pub(crate) per_turn: [Duration; 2],
}

pub(crate) async fn all(binary: &Path, folder: &Path, scale: Scale) -> Result<Live> {
    say::line("live agents");
    let home = folder.join("live");
    fs::create_dir(&home)?;
    let provider = TcpListener::bind("127.0.0.1:0").await?;
    let config = home.join("callboard.toml");
    let address = provider.local_addr()?;
    fs::write(
        &config,
        format!(
            "[agents]\nlive = \"on\"\n[models]\ndefault = \"scripted/instant\"\n\
             [providers.slow]\nkind = \"openai-compatible\"\nbase_url = \"http://{address}/v1\"\n\
             [limits]\nmax_node_executions = 100000\n"
        ),
    )?;
    let pack = pack(&home)?;
    let config = config.to_str().context("the folder's path is no UTF-8")?;
    let arguments = ["--api-key", KEY, "--config", config, "--packs", pack.as_str()];
    let host = Host::start(binary, &home, &arguments).await?;
    let mut live = Live::default();
    let order = json!({ "agentId": AGENT, "inputs": { "text": "Say something." } });
    // Warms up what every run after the first finds ready.
    load::drive(host.address, &order, CALLERS, scale.runs[0] / 2).await?;
    for _ in 0..scale.turns {
        let cpu = processor_time(host.id()?)?;
        let sample = load::drive(host.address, &order, CALLERS, scale.runs[1] / 2).await?;
        if live.runs.as_ref().is_none_or(|best| best.per_second() < sample.per_second()) {
            live.cpu_per_run =
                (processor_time(host.id()?)? - cpu) / u32::try_from(sample.ends.len())?;
            live.runs = Some(sample);
        }
    }
    live.first_words = first_words(&host, provider).await?;
    for (place, turns) in TURNS.into_iter().enumerate() {
        let id = format!("bench-talk-{turns}");
        put(host.address, &conversation(&id, turns)).await?;
        let mut times = Vec::new();
        for _ in 0..scale.rounds {
            let (elapsed, _) = load::time_unread(host.address, &id).await?;
            times.push(elapsed / u32::try_from(turns)?);
        }
        times.sort();
        live.per_turn[place] = load::percentile(&times, 0.5);
    }
    host.stop().await?;
    Ok(live)
}

/// One agent that says what comes to its model's mind, and one that keeps up a conversation.
fn pack(home: &Path) -> Result<String> {
    let folder = home.join("pack");
    fs::create_dir(&folder)?;
    let agent = |id: &str, conversation: bool| {
        json!({
            "agentId": id, "persona": "Bench", "modelClass": "general",
            "systemPrompt": "Answer in one sentence.", "toolAllowlist": [],
            "memoryShape": { "conversation": conversation },
        })
    };
    let manifest = json!({
        "name": "vendor.bench.live", "version": "1.0.0", "engines": { "openwop": ">=1.1.0 <2.0.0" },
        "agents": [agent(AGENT, false), agent(TALKER, true)],
        "runtime": { "language": "remote", "entry": "pack.json" },
    });
    fs::write(folder.join("pack.json"), manifest.to_string())?;
    Ok(folder.to_str().context("the folder's path is no UTF-8")?.to_owned())
}

/// A loop whose body is the agent that remembers what was said.
fn conversation(id: &str, turns: usize) -> Value {
    let node = |id: &str, kind: &str, config: Value| {
        json!({ "id": id, "typeId": kind, "name": id, "position": { "x": 0, "y": 0 },
            "config": config, "inputs": {} })
    };
    let mut speaks = node("speaks", "core.identity", json!({}));
    speaks["agent"] = json!({ "agentId": TALKER });
    let edge = |id: &str, from: &str, to: &str| json!({ "id": id, "sourceNodeId": from, "targetNodeId": to });
    json!({
        "id": id, "name": id, "version": "1.0",
        "nodes": [node("again", "core.loop", json!({ "count": turns })), speaks],
        "edges": [edge("on", "again", "speaks"), edge("back", "speaks", "again")],
        "triggers": [], "variables": [], "metadata": {},
        "settings": { "maxLoopbackIterations": turns + 1 },
    })
}

/// The provider says a word and then nothing for a while; a client of the stream waits for that word.
async fn first_words(host: &Host, provider: TcpListener) -> Result<Vec<Duration>> {
    let (tell, mut spoken) = mpsc::channel(FIRST_WORDS);
    let mut speaking = JoinSet::new();
    speaking.spawn(speak(provider, tell));
    let order = json!({ "agentId": AGENT, "inputs": { "text": "Say something." },
        "configurable": { "ai": { "provider": "slow", "model": "slow" } } });
    let mut lags = Vec::new();
    for _ in 0..FIRST_WORDS {
        let run = watch::create_as(host.address, &order).await?;
        let mut frames = watch::open(host.address, &run).await?;
        let mut arrived = None;
        while let Some(frame) = frames.next().await? {
            let is_word = frame.comment.is_none() && frame.json()?["type"] == "output.chunk";
            arrived = arrived.or(is_word.then(Instant::now));
        }
        let said = spoken.recv().await.context("the provider was not asked")?;
        let arrived = arrived.context("no word arrived")?;
        lags.push(arrived.saturating_duration_since(said));
    }
    speaking.abort_all();
    ensure!(spoken.try_recv().is_err(), "the provider was asked more than once a run");
    lags.sort();
    Ok(lags)
}

/// Answers one request after the other, as a server of an OpenAI-compatible model does.
async fn speak(provider: TcpListener, tell: Sender<Instant>) -> io::Result<()> {
    let chunk = |delta: Value, finish: Option<&str>| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        let chunk = json!({ "id": "c", "object": "chat.completion.chunk", "model": "slow",
            "choices": [choice] });
        format!("data: {chunk}\n\n")
    };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let word = chunk(json!({ "role": "assistant", "content": "Well" }), None);
    let end = chunk(json!({}), Some("stop"));
    loop {
        let (mut stream, _) = provider.accept().await?;
        // The request is small, and what it says does not matter.
        let mut request = [0; 16_384];
        let _ = stream.read(&mut request).await?;
        let _ = tell.try_send(Instant::now());
        stream.write_all(format!("{head}{word}").as_bytes()).await?;
        tokio::time::sleep(Duration::from_millis(100)).await;
        stream.write_all(format!("{end}data: [DONE]\n\n").as_bytes()).await?;
        stream.shutdown().await?;
    }
}
