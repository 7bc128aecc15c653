//! The doors of the real binary: what clients of other protocols get, what strangers do not, and what is left when a host dies
//! in the middle.
#![cfg(test)]

#[path = "doors/chat.rs"]
mod chat;
#[path = "support/definitions.rs"]
mod definitions;
#[path = "support/host.rs"]
mod host;
#[path = "doors/mcp.rs"]
mod mcp;
#[path = "doors/model.rs"]
mod model;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tempfile::TempDir;

use definitions::{edge, node, workflow};
use host::{Host, KEY};

/// A key of another tenant of the same host, and one that may only read.
const RIVAL: &str = "cbtest_rival";
const READER: &str = "cbtest_reader";

/// A host with workflows for every way a run can go, and the starter pack.
struct Stage {
    folder: TempDir,
    /// The address of a model; none leaves agents to the scripted one.
    model: Option<String>,
    host: Host,
}

impl Stage {
    fn set() -> Result<Self> {
        Self::of(None)
    }

    /// A stage whose agents have a model that takes its time.
    fn with_model(takes: Duration) -> Result<Self> {
        Self::of(Some(model::start(takes)?))
    }

    fn of(model: Option<String>) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let workflows = folder.path().join("workflows");
        std::fs::create_dir(&workflows)?;
        definitions::write(&workflows)?;
        for definition in [echo(), long()] {
            let name = definition["id"].as_str().context("an id")?;
            std::fs::write(workflows.join(format!("{name}.json")), definition.to_string())?;
        }
        let host = start(&folder, model.as_deref())?;
        Ok(Self { folder, model, host })
    }

    /// The host dies, and another takes its place.
    fn die_and_start_again(self) -> Result<Self> {
        let Self { folder, model, host } = self;
        host.stop("KILL")?;
        let host = start(&folder, model.as_deref())?;
        Ok(Self { folder, model, host })
    }

    /// A request to the API beside the doors.
    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
        let http = Client::builder().no_proxy().timeout(Duration::from_secs(70)).build()?;
        let request = http.request(method, format!("{}{path}", self.host.url())).bearer_auth(KEY);
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        Ok(request.send().await?.error_for_status()?.json().await?)
    }

    async fn get(&self, path: &str) -> Result<Value> {
        self.ask(Method::GET, path, None).await
    }

    /// Runs a script with a published client; none where that is not installed and not required.
    fn drive(&self, client: &str, arguments: &[&str]) -> Result<Option<String>> {
        let Some(python) = python(client) else { return Ok(None) };
        let script = format!("tests/doors/{}.py", client.split('-').next().unwrap_or_default());
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
        let mut command = Command::new(python);
        command.arg(script).args([self.host.url(), KEY]).args(arguments);
        let output = command.output().context("Python does not start")?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{said}\n{errors}\n{}", self.host.log());
        Ok(Some(said))
    }
}

fn start(folder: &TempDir, model: Option<&str>) -> Result<Host> {
    let (data, workflows) = (folder.path().join("data"), folder.path().join("workflows"));
    let workflows = workflows.to_str().context("a folder with a plain name")?;
    let packs = concat!(env!("CARGO_MANIFEST_DIR"), "/packs");
    let (rival, reader) = (format!("{RIVAL}=rival"), format!("{READER}=default+runs:read"));
    let folders = ["--packs", packs, "--workflows", workflows];
    let keys = ["--api-key", rival.as_str(), "--api-key", reader.as_str()];
    let arguments = [&folders[..], &keys].concat();
    let Some(address) = model else { return Host::start(&data, &arguments) };
    let mut command = host::serve(&data);
    command.args(["--api-key", KEY]).args(arguments);
    command.env("CALLBOARD_MODEL", "anthropic/claude-sonnet-4-5");
    command.env("ANTHROPIC_API_KEY", "sk-dummy").env("ANTHROPIC_BASE_URL", address);
    Host::of(command)
}

/// Returns what it is given.
fn echo() -> Value {
    let mut said = node("say", "core.identity", json!({}));
    said["inputs"] = json!({ "text": { "type": "variable", "variableName": "text" } });
    let mut definition = workflow("echo", vec![said], vec![]);
    definition["variables"] = json!([{ "name": "text", "type": "string", "required": true }]);
    definition
}

/// Has more events than a door reads at once.
fn long() -> Value {
    let nodes = (0..60).map(|step| node(&format!("n{step}"), "core.noop", json!({}))).collect();
    let edges = (1..60).map(|step| edge(&format!("n{}", step - 1), &format!("n{step}"))).collect();
    workflow("long", nodes, edges)
}

/// The Python of a published client; none, with a line that says so, where it is missing and not required.
fn python(client: &str) -> Option<PathBuf> {
    let named = std::env::var_os("CALLBOARD_SDK").map(PathBuf::from);
    let usual = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/sdk");
    let mut places = [named, Some(usual)].into_iter().flatten();
    let found = places.find_map(|folder| {
        let python = folder.join(client).join("bin/python");
        python.exists().then_some(python)
    });
    if found.is_none() {
        let required = std::env::var("CALLBOARD_TEST_REQUIRE").unwrap_or_default();
        let is_required = required.split(',').any(|part| part.trim() == "sdk");
        assert!(!is_required, "{client} is required and not there");
        // Past the capture of test output: a skipped test must be seen.
        drop(writeln!(std::io::stderr(), "skipped: {client} is not installed"));
    }
    found
}
