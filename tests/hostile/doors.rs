//! Strangers at the doors that need no key: what they send is bounded, and whoever has a key is not in their way.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::api::Api;
use crate::support::definitions;
use crate::support::host::Host;

/// Reached only when something hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A host with the usual workflows and these limits, its address, and a form.
pub(crate) struct Scene {
    _folder: TempDir,
    pub(crate) host: Host,
    pub(crate) api: Api,
    form: String,
}

impl Scene {
    pub(crate) async fn set(limits: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let workflows = folder.path().join("workflows");
        std::fs::create_dir(&workflows)?;
        definitions::write(&workflows)?;
        std::fs::write(folder.path().join("callboard.toml"), format!("[limits]\n{limits}"))?;
        let workflows = workflows.to_str().context("a plain name")?;
        let host = Host::start(&folder.path().join("data"), &["--workflows", workflows])?;
        let api = Api::of(host.url())?;
        let body = json!({ "source": "form", "workflowId": "noop" });
        let made: Value = api.post("/v1/trigger-subscriptions", &body).send().await?.json().await?;
        let form = made["binding"]["ingestUrl"].as_str().context("an address")?;
        let path = form.find("/v1/").context("a path")?;
        let form = form[path..].to_owned();
        Ok(Self { _folder: folder, host, api, form })
    }

    pub(crate) fn connect(&self) -> Result<TcpStream> {
        let address = self.host.url().strip_prefix("http://").context("an address")?;
        let socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(socket)
    }

    /// The head of a post to the form.
    fn head(&self, length: usize) -> String {
        format!(
            "POST {} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n",
            self.form
        )
    }

    /// What a gauge of the host stands at.
    pub(crate) async fn gauge(&self, name: &str) -> Result<f64> {
        let page = self.api.get("/metrics").await?;
        let line = page.lines().find(|line| line.starts_with(&format!("{name} ")));
        let value = line.and_then(|line| line.split(' ').nth(1));
        Ok(value.map(str::parse).transpose()?.unwrap_or(0.0))
    }

    /// Whoever has a key is served, on a connection of its own.
    pub(crate) async fn assert_served(&self, when: &str) -> Result<()> {
        let api = Api::of(self.host.url())?;
        let run = api.create(&json!({ "workflowId": "noop", "inputs": {} }), when).await;
        let run = run.with_context(|| format!("not served {when}"))?;
        ensure!(api.finish(&run).await? == "completed", "{when}");
        Ok(())
    }
}

/// The answer so far: up to the end of its head and whatever came with it.
fn read_answer(socket: &mut TcpStream) -> Result<String> {
    let mut answer = Vec::new();
    let mut bytes = [0; 4096];
    while !answer.windows(4).any(|four| four == b"\r\n\r\n") {
        match socket.read(&mut bytes)? {
            0 => bail!("closed without an answer: {}", String::from_utf8_lossy(&answer)),
            count => answer.extend_from_slice(&bytes[..count]),
        }
    }
    Ok(String::from_utf8(answer)?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_never_end_hold_no_more_memory_than_strangers_may() -> Result<()> {
    const BUDGET: usize = 8 * 1024 * 1024;
    let scene = Scene::set(&format!(
        "unkeyed_body_bytes_inflight = {BUDGET}\nunsigned_posts_per_minute = 0\n"
    ))
    .await?;
    let short = vec![b'x'; 100_000];
    let mut refused = 0;
    let mut sockets = Vec::new();
    for _ in 0..300 {
        let mut socket = scene.connect()?;
        socket.write_all(scene.head(short.len() + 1).as_bytes())?;
        // A host that has refused it may have stopped reading.
        let _ = socket.write_all(&short);
        sockets.push(socket);
        if sockets.len() % 50 == 0 {
            let held = scene.gauge("callboard_http_body_bytes").await?;
            ensure!(held <= BUDGET as f64, "{held} bytes are held");
        }
    }
    scene.assert_served("beside bodies that never end").await?;
    for socket in &mut sockets {
        let answer = read_answer(socket)?;
        ensure!(answer.contains("connection: close"), "{answer}");
        match answer.split(' ').nth(1) {
            Some("429" | "503") => refused += 1,
            Some("408") => {}
            _ => bail!("{answer}"),
        }
    }
    ensure!(refused > 200, "only {refused} were refused");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_slow_connections_are_not_in_the_way_of_key_holders() -> Result<()> {
    let scene = Scene::set("connections = 256\nunkeyed_inflight = 64\n").await?;
    let body = format!("{}x", scene.head(1000));
    let beginnings = ["", "GET /v1/runs HTTP/1.1\r\nHost: localhost\r\n", body.as_str()];
    let mut sockets = Vec::new();
    for number in 0..2000 {
        let mut socket = scene.connect()?;
        // One that had to give way at once is closed already.
        let _ = socket.write_all(beginnings[number % 3].as_bytes());
        sockets.push(socket);
        // Fewer than a process may have open where nobody raised that.
        if sockets.len() > 600 {
            sockets.remove(0);
        }
        if number % 200 == 199 {
            scene.assert_served(&format!("beside {number} slow connections")).await?;
        }
    }
    let open = scene.gauge("callboard_http_connections").await?;
    ensure!(open <= 260.0, "{open} connections are open");
    ensure!(scene.host.stop("TERM")?.code() == Some(0), "and it ends as it should");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_stranger_cannot_start_runs_without_end() -> Result<()> {
    let scene = Scene::set("").await?;
    let http = reqwest::Client::builder().no_proxy().build()?;
    let (mut started, mut refused) = (0, 0);
    let began = Instant::now();
    for _ in 0..300 {
        let post = http.post(format!("{}{}", scene.host.url(), scene.form)).json(&json!({}));
        let answer = post.send().await?;
        match answer.status().as_u16() {
            202 => started += 1,
            429 => {
                refused += 1;
                ensure!(answer.headers().contains_key("retry-after"), "{answer:?}");
            }
            status => bail!("{status}"),
        }
    }
    let may = 60 + began.elapsed().as_secs() + 1;
    ensure!(started <= may && started >= 60 && refused > 0, "{started} of {may}, {refused}");
    scene.assert_served("beside a stranger in a hurry").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_another_site_reads_nothing() -> Result<()> {
    let scene = Scene::set("").await?;
    let http = reqwest::Client::builder().no_proxy().build()?;
    for path in ["/metrics", "/.well-known/openwop", "/healthz"] {
        let ask = async |host: &str| {
            let request = http.get(format!("{}{path}", scene.host.url())).header("host", host);
            anyhow::Ok(request.send().await?.status().as_u16())
        };
        assert_eq!(ask("evil.example:8787").await?, 421, "{path}");
        assert_eq!(ask("localhost:8787").await?, 200, "{path}");
    }
    Ok(())
}
