//! The switches of the protocol's second major, on the real binary.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::support::host::KEY;
use crate::terminal::Terminal;

/// Much longer than any of this takes; reached only when something hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// Many more than any of these tests sends to one receiver.
const MOST_REQUESTS: usize = 256;

struct Api {
    http: reqwest::Client,
    url: String,
}

impl Api {
    fn of(url: &str) -> Result<Self> {
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build()?;
        Ok(Self { http, url: url.to_owned() })
    }

    async fn get(&self, path: &str) -> Result<(u16, Value)> {
        let request = self.http.get(format!("{}{path}", self.url)).bearer_auth(KEY);
        let answer = request.header("OpenWOP-Version", "2.0").send().await?;
        Ok((answer.status().as_u16(), answer.json().await?))
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let request = self.http.post(format!("{}{path}", self.url)).bearer_auth(KEY);
        Ok(request.json(body).send().await?.error_for_status()?.json().await?)
    }
}

/// V-01: one switch ends the first major for everybody but the host's own commands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_work_on_a_host_without_the_first_major() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&["--without-v1"])?;
    let api = Api::of(host.url())?;
    let (_, document) = api.get("/.well-known/openwop").await?;
    assert_eq!(document["protocolVersions"], json!(["2.0"]));
    assert_eq!(document["preferredVersion"], "2.0");
    let (status, refusal) = api.get("/v1/runs").await?;
    assert_eq!((status, &refusal["error"]), (404, &json!("not_found")));
    let here = terminal.at(host.url());
    let followed = here.output(&["run", "noop", "--follow"])?;
    ensure!(followed.contains("completed"), "{followed}");
    let listed: Value = serde_json::from_str(&here.output(&["runs", "list", "--json"])?)?;
    let run = listed["runs"][0]["runId"].as_str().context("no run is listed")?;
    let shown = here.output(&["runs", "show", run])?;
    ensure!(shown.contains("completed"), "{shown}");
    let events = here.output(&["runs", "events", run])?;
    ensure!(events.contains("run completed"), "{events}");
    // An archive is sent once, as a stream.
    here.output(&["packs", "new", "vendor.acme.desk", "--dir", "desk"])?;
    here.output(&["packs", "install", "desk", "--allow-unsigned"])?;
    let unknown = here.run(&["runs", "show", "run_00000000000000000000000000000000"])?;
    ensure!(unknown.contains("no run"), "{unknown}");
    Ok(())
}

/// V-35; floor: webhook-durable-delivery. A receiver fails twice and then takes what it is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_is_made_again_at_the_pace_that_was_set() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&["--webhook-retry-ms", "80", "--allow-private-egress"])?;
    let api = Api::of(host.url())?;
    let (_, document) = api.get("/.well-known/openwop").await?;
    let policy = &document["webhooks"]["retryPolicy"];
    assert_eq!((&policy["maxAttempts"], &policy["backoff"]), (&json!(10), &json!("exponential")));
    // Nine waits, each twice the one before, and ten answers at the last moment.
    assert_eq!(policy["maxElapsedMs"], 80 * 511 + 50_000);
    let receiver = Receiver::failing(2)?;
    let kinds = ["run.started", "node.started", "node.completed", "run.completed"];
    let made = api.post("/webhooks", &json!({ "url": receiver.url, "events": kinds })).await?;
    let created = api.post("/runs", &json!({ "workflowId": "noop" })).await?;
    let mut letters: Vec<Letter> = Vec::new();
    while letters.iter().filter(|letter| letter.is_taken).count() < kinds.len() {
        letters.push(receiver.letters.recv_timeout(PATIENCE)?);
    }
    for letter in &letters {
        assert_eq!(letter.body["runId"], created["runId"]);
    }
    let place = |letter: &Letter| letter.body["event"]["sequence"].clone();
    let first = place(&letters[0]);
    let same: Vec<&Letter> = letters.iter().filter(|letter| place(letter) == first).collect();
    ensure!(same.last().is_some_and(|last| last.is_taken), "the first event never arrives");
    let waits: Vec<Duration> = same.windows(2).map(|two| two[1].at - two[0].at).collect();
    for (made, wait) in waits.iter().enumerate() {
        ensure!(*wait >= Duration::from_millis(80 << made), "{waits:?}");
    }
    let taken = letters.iter().filter(|letter| letter.is_taken);
    let mut arrived: Vec<&str> = taken.filter_map(|it| it.body["event"]["type"].as_str()).collect();
    arrived.sort_unstable();
    let mut expected = kinds;
    expected.sort_unstable();
    assert_eq!(arrived, expected, "each logged event arrives once");
    let webhook = made["webhookId"].as_str().context("no id")?.replace('/', "~2F");
    let (status, letters) = api.get(&format!("/webhooks/{webhook}/dead-letters")).await?;
    assert_eq!((status, &letters["deliveries"]), (200, &json!([])));
    Ok(())
}

/// V-31, V-38; seams: effect-identity-business-key, effect-seam-no-refire. What the ledger says went over the wire.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_cut_is_made_again_under_one_identity() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&["--allow-private-egress"])?;
    let api = Api::of(host.url())?;
    let receiver = Receiver::cutting(1)?;
    let seam = "/conformance/seams/sample/test/idempotency/effect-retry";
    let fired = api.post(seam, &json!({ "providerUrl": receiver.url })).await?;
    let (run, effect) = (fired["runId"].as_str().context("no run")?, &fired["effectId"]);
    let (status, ledger) = api.get(&format!("/runs/{}/effects", run.replace('/', "~2F"))).await?;
    assert_eq!((status, &ledger["runId"]), (200, &json!(run)));
    let rows = ledger["effects"].as_array().context("no rows")?;
    let told: Vec<_> =
        rows.iter().map(|row| (&row["effectId"], &row["attempt"], &row["state"])).collect();
    let (first, second) = (json!(1), json!(2));
    let (released, completed) = (json!("released"), json!("completed"));
    assert_eq!(told, [(effect, &first, &released), (effect, &second, &completed)]);
    let keys: Vec<String> = receiver.keys.try_iter().collect();
    assert_eq!(keys.len(), 2, "{keys:?}");
    for (row, key) in rows.iter().zip(&keys) {
        assert_eq!(row["providerKey"], json!(key));
        ensure!(key == &keys[0] && !key.is_empty(), "{keys:?}");
    }
    // One way out is taken once, and a replay does not take it again.
    let fire = json!({ "seam": "http-nodes", "receiverUrl": receiver.url });
    let fired = api.post("/conformance/seams/sample/effect-seams/fire", &fire).await?;
    let source = fired["runId"].as_str().context("no run")?.replace('/', "~2F");
    let (_, ledger) = api.get(&format!("/runs/{source}/effects")).await?;
    assert_eq!(ledger["effects"].as_array().map(Vec::len), Some(1), "{ledger}");
    let forked = api.post(&format!("/runs/{source}:fork"), &json!({ "mode": "replay" })).await?;
    let forked = forked["runId"].as_str().context("no fork")?.replace('/', "~2F");
    let (_, polled) = api.get(&format!("/runs/{forked}/events/poll?timeout=30")).await?;
    assert_eq!(polled["isTerminal"], true, "{polled}");
    let (_, ledger) = api.get(&format!("/runs/{forked}/effects")).await?;
    assert_eq!(ledger["effects"], json!([]));
    assert_eq!(receiver.keys.try_iter().count(), 1, "the replay called nobody");
    let nowhere = json!({ "seam": "nowhere" });
    assert!(api.post("/conformance/seams/sample/effect-seams/fire", &nowhere).await.is_err());
    Ok(())
}

/// V-37, V-38; seams: effect-seam-no-refire. Every row of the manifest can be gone through, and no replay does it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_way_out_is_taken_once_and_not_by_a_replay() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&["--allow-private-egress"])?;
    let api = Api::of(host.url())?;
    let (_, manifest) = api.get("/host/effect-seams").await?;
    let rows = manifest["seams"].as_array().context("no rows")?;
    let names: Vec<&str> = rows.iter().filter_map(|row| row["seam"].as_str()).collect();
    // No coding agent is set up here, so there is no such way out.
    assert_eq!(names, ["http-nodes", "model-calls", "tools", "webhooks", "run-callbacks"]);
    for name in names {
        let receiver = Receiver::failing(0)?;
        let fire = json!({ "seam": name, "receiverUrl": receiver.url });
        let fired = api.post("/conformance/seams/sample/effect-seams/fire", &fire).await?;
        let source = fired["runId"].as_str().context("no run")?.replace('/', "~2F");
        let (_, ledger) = api.get(&format!("/runs/{source}/effects")).await?;
        // What is told of a run is no call of its nodes.
        let is_told = ["webhooks", "run-callbacks"].contains(&name);
        let made = ledger["effects"].as_array().map_or(0, Vec::len);
        assert_eq!(made == 0, is_told, "{name}: {ledger}");
        // The suite's model is no address.
        let posts = usize::from(name != "model-calls");
        assert_eq!(receiver.letters.try_iter().count(), posts, "{name}");
        let (_, polled) = api.get(&format!("/runs/{source}/events/poll?timeout=30")).await?;
        assert_eq!(polled["isTerminal"], true, "{name}: {polled}");
        let replay = json!({ "mode": "replay" });
        let forked = api.post(&format!("/runs/{source}:fork"), &replay).await?;
        let forked = forked["runId"].as_str().context("no fork")?.replace('/', "~2F");
        let (_, polled) = api.get(&format!("/runs/{forked}/events/poll?timeout=30")).await?;
        assert_eq!(polled["isTerminal"], true, "{name}: {polled}");
        let (_, ledger) = api.get(&format!("/runs/{forked}/effects")).await?;
        assert_eq!(ledger["effects"], json!([]), "{name}");
        assert_eq!(receiver.letters.try_iter().count(), 0, "{name}");
    }
    Ok(())
}

struct Letter {
    at: Instant,
    body: Value,
    is_taken: bool,
}

/// What a receiver answers before it takes what it is sent.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    Fails,
    /// Ends the connection without a word.
    Cuts,
}

/// In trouble so many times, and well from then on.
struct Receiver {
    url: String,
    letters: mpsc::Receiver<Letter>,
    /// The idempotency keys of all requests.
    keys: mpsc::Receiver<String>,
}

impl Receiver {
    fn failing(times: usize) -> Result<Self> {
        Self::start(times, Trouble::Fails)
    }

    fn cutting(times: usize) -> Result<Self> {
        Self::start(times, Trouble::Cuts)
    }

    fn start(times: usize, trouble: Trouble) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}/hook", listener.local_addr()?);
        let (sender, letters) = mpsc::sync_channel(MOST_REQUESTS);
        let (key_sender, keys) = mpsc::sync_channel(MOST_REQUESTS);
        std::thread::spawn(move || {
            for (made, socket) in listener.incoming().flatten().enumerate() {
                let trouble = (made < times).then_some(trouble);
                let (at, is_taken) = (Instant::now(), trouble.is_none());
                let Ok((key, body)) = answer(socket, trouble) else { continue };
                // Nobody reads what comes after the test's end.
                let _ = key_sender.send(key);
                let _ = sender.send(Letter { at, body, is_taken });
            }
        });
        Ok(Self { url, letters, keys })
    }
}

fn answer(socket: TcpStream, trouble: Option<Trouble>) -> Result<(String, Value)> {
    let mut reader = BufReader::new(socket);
    let (mut length, mut key) = (0, String::new());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            if line.trim_end().is_empty() {
                break;
            }
            continue;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse()?,
            "idempotency-key" => value.clone_into(&mut key),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let status = match trouble {
        None => "204 No Content",
        Some(Trouble::Fails) => "500 Internal Server Error",
        Some(Trouble::Cuts) => return Ok((key, Value::Null)),
    };
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    reader.into_inner().write_all(answer.as_bytes())?;
    Ok((key, serde_json::from_slice(&body).unwrap_or_default()))
}
