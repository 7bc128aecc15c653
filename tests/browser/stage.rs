//! A host with workflows and the starter pack, and a browser that is signed in there.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::api::Api;
use crate::driver::{Browser, installed};
use crate::support::definitions::{self, node, workflow};
use crate::support::host::{Host, KEY};

pub(crate) const TRIAGER: &str = "community.callboard.starter.triager";

/// A key of another tenant of the same host.
pub(crate) const RIVAL: &str = "cbtest_rival";

/// Every screen that is a link on every page.
pub(crate) const SCREENS: [&str; 20] = [
    "/",
    "/console/runs",
    "/console/inbox",
    "/console/agents",
    "/console/roster",
    "/console/workflows",
    "/console/workflows/-/new",
    "/console/triggers",
    "/console/schedules",
    "/console/memory",
    "/console/files",
    "/console/money",
    "/console/settings",
    "/console/settings?tab=keys",
    "/console/settings?tab=secrets",
    "/console/settings?tab=webhooks",
    "/console/settings?tab=host",
    "/console/settings?tab=tools",
    "/console/settings?tab=providers",
    "/console/settings?tab=audit",
];

#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) browser: Browser,
    pub(crate) host: Host,
    pub(crate) api: Api,
    pub(crate) folder: TempDir,
}

impl Stage {
    /// None where there is no browser.
    pub(crate) async fn set() -> Result<Option<Self>> {
        let Some(stage) = Self::before_signing_in().await? else { return Ok(None) };
        stage.sign_in(KEY).await?;
        Ok(Some(stage))
    }

    pub(crate) async fn before_signing_in() -> Result<Option<Self>> {
        let Some(programs) = installed() else { return Ok(None) };
        let folder = tempfile::tempdir()?;
        let host = start_host(folder.path(), "127.0.0.1:0")?;
        let api = Api::of(host.url())?;
        let browser = Browser::start(&programs).await?;
        Ok(Some(Self { browser, host, api, folder }))
    }

    pub(crate) async fn sign_in(&self, key: &str) -> Result<()> {
        self.go("/console/login").await?;
        self.browser.fill("#key", key).await?;
        self.browser.press("Sign in").await?;
        self.browser.until("!location.pathname.startsWith('/console/login')").await
    }

    /// Kills the host and starts it again where it was.
    pub(crate) fn restart(self) -> Result<Self> {
        let listen = self.host.url().trim_start_matches("http://").to_owned();
        self.host.stop("KILL")?;
        let host = start_host(self.folder.path(), &listen)?;
        Ok(Self { host, ..self })
    }

    pub(crate) async fn go(&self, path: &str) -> Result<()> {
        self.browser.open(&format!("{}{path}", self.host.url())).await
    }

    /// Waits until the address is this one.
    pub(crate) async fn at(&self, path: &str) -> Result<()> {
        self.browser
            .until(&format!("location.pathname + location.search === {}", json!(path)))
            .await
    }

    pub(crate) async fn run(&self, body: Value) -> Result<String> {
        let key = format!("{body}");
        self.api.create(&body, &key[..key.len().min(100)]).await
    }

    /// Waits until a run has come to a state.
    pub(crate) async fn becomes(&self, run: &str, status: &str) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            match self.api.status(run).await?.as_str() {
                known if known == status => return Ok(()),
                known @ ("completed" | "failed" | "cancelled") => {
                    bail!("{run} is {known}, not {status}: {}", self.api.log(run).await?)
                }
                known if Instant::now() > deadline => bail!("{run} is still {known}"),
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    /// The log as the API has it.
    pub(crate) async fn sequences(&self, run: &str) -> Result<Vec<u64>> {
        let log: Value = serde_json::from_str(&self.api.log(run).await?)?;
        let events = log["events"].as_array().context("events")?;
        Ok(events.iter().filter_map(|event| event["sequence"].as_u64()).collect())
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let response = self.api.post(path, body).send().await?;
        let status = response.status();
        let text = response.text().await?;
        ensure!(status.is_success(), "{path}: {status} {text}");
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }
}

/// The host of these tests, on a folder that outlives it.
pub(crate) fn start_host(folder: &Path, listen: &str) -> Result<Host> {
    let workflows = folder.join("workflows");
    if !workflows.exists() {
        std::fs::create_dir(&workflows)?;
        definitions::write(&workflows)?;
        for definition in ours() {
            let name = format!("{}.json", definition["id"].as_str().unwrap_or_default());
            std::fs::write(workflows.join(name), definition.to_string())?;
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (packs, examples): (PathBuf, PathBuf) =
        (root.join("packs"), root.join("examples/workflows"));
    let text = |path: &Path| path.to_str().map(str::to_owned).context("a plain name");
    let config = folder.join("callboard.toml");
    // A run of ten thousand events must be allowed.
    std::fs::write(&config, "[limits]\nmax_node_executions = 20000\n")?;
    let rival = format!("{RIVAL}=rivals");
    let arguments = [
        "--api-key",
        &rival,
        "--config",
        &text(&config)?,
        "--listen",
        listen,
        "--workflows",
        &text(&workflows)?,
        "--workflows",
        &text(&examples)?,
        "--packs",
        &text(&packs)?,
    ];
    Host::start(&folder.join("data"), &arguments)
}

/// What these tests run beside the usual workflows.
fn ours() -> Vec<Value> {
    let schema = json!({
        "type": "object",
        "required": ["pieces"],
        "additionalProperties": false,
        "properties": {
            "pieces": { "type": "integer", "minimum": 1, "maximum": 9, "title": "Pieces" },
            "colour": { "enum": ["red", "blue"], "title": "Colour" },
            "note": { "type": "string", "minLength": 3, "title": "Note" },
        },
    });
    let order =
        json!({ "kind": "custom", "data": { "customKind": "order" }, "resumeSchema": schema });
    // Four events a round.
    let long = workflow(
        "long",
        vec![
            node("each", "core.loop", json!({ "count": 2600 })),
            node("step", "core.noop", json!({})),
            node("gate", "core.approvalGate", json!({ "title": "Enough?", "actions": ["accept"] })),
        ],
        vec![
            definitions::edge("each", "step"),
            definitions::edge("step", "each"),
            definitions::edge("step", "gate"),
        ],
    );
    let pace = workflow(
        "pace",
        vec![
            node("each", "core.loop", json!({ "count": 60 })),
            node("step", "core.delay", json!({ "durationMs": 50 })),
            node("end", "core.end", json!({})),
        ],
        vec![
            definitions::edge("each", "step"),
            definitions::edge("step", "each"),
            definitions::edge("step", "end"),
        ],
    );
    vec![pace, workflow("order", vec![node("fill", "core.interrupt", order)], vec![]), long]
}
