//! The doors of the real binary: what clients of other protocols get, what strangers do not, and what is left when a host dies
//! in the middle.
#![cfg(test)]

#[path = "support/definitions.rs"]
mod definitions;
#[path = "support/host.rs"]
mod host;
#[path = "doors/mcp.rs"]
mod mcp;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tempfile::TempDir;

use definitions::{node, workflow};
use host::{Host, KEY};

/// A key of another tenant of the same host, and one that may only read.
const RIVAL: &str = "cbtest_rival";
const READER: &str = "cbtest_reader";

/// A host with workflows for every way a run can go, and the starter pack.
struct Stage {
    folder: TempDir,
    host: Host,
}

impl Stage {
    fn set() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let workflows = folder.path().join("workflows");
        std::fs::create_dir(&workflows)?;
        definitions::write(&workflows)?;
        std::fs::write(workflows.join("echo.json"), echo().to_string())?;
        let host = start(&folder)?;
        Ok(Self { folder, host })
    }

    /// The host dies, and another takes its place.
    fn die_and_start_again(self) -> Result<Self> {
        let Self { folder, host } = self;
        host.stop("KILL")?;
        let host = start(&folder)?;
        Ok(Self { folder, host })
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

fn start(folder: &TempDir) -> Result<Host> {
    let packs = Path::new(env!("CARGO_MANIFEST_DIR")).join("packs");
    let (packs, workflows) = (packs, folder.path().join("workflows"));
    let (rival, reader) = (format!("{RIVAL}=rival"), format!("{READER}=default+runs:read"));
    let text = |path: &Path| path.to_str().map(str::to_owned).context("a folder with a plain name");
    Host::start(
        &folder.path().join("data"),
        &[
            "--packs",
            &text(&packs)?,
            "--workflows",
            &text(&workflows)?,
            "--api-key",
            &rival,
            "--api-key",
            &reader,
        ],
    )
}

/// Returns what it is given.
fn echo() -> Value {
    let mut said = node("say", "core.identity", json!({}));
    said["inputs"] = json!({ "text": { "type": "variable", "variableName": "text" } });
    let mut definition = workflow("echo", vec![said], vec![]);
    definition["variables"] = json!([{ "name": "text", "type": "string", "required": true }]);
    definition
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
