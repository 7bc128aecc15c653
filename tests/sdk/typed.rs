//! The clients of `clients/`: types are generated from the host's own document, the programs compile, and run.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use crate::support::definitions;
use crate::support::host::{Host, KEY};
use crate::{find, python};

const PYTHON: &str = "openapi-python-client-0.29.1";
const TYPESCRIPT: &str = "openapi-typescript-7.13.0";

/// A host, and a folder in which a client is made for it.
struct Stage {
    folder: TempDir,
    host: Host,
}

impl Stage {
    async fn set() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let workflows = folder.path().join("workflows");
        fs::create_dir(&workflows)?;
        definitions::write(&workflows)?;
        let host = start(&folder, "127.0.0.1:0")?;
        let http = reqwest::Client::builder().no_proxy().build()?;
        let document = http.get(format!("{}/v1/openapi.json", host.url())).send().await?;
        let document = document.bytes().await?;
        fs::write(folder.path().join("openapi.json"), document)?;
        Ok(Self { folder, host })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Copies a client beside what is generated for it.
    fn copy(&self, client: &str) -> Result<()> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(client);
        for file in fs::read_dir(source)? {
            let file = file?;
            fs::copy(file.path(), self.folder.path().join(file.file_name()))?;
        }
        Ok(())
    }

    /// What a program says, which must succeed.
    fn say(&self, command: &mut Command) -> Result<String> {
        command.current_dir(self.folder.path());
        let output = command.output().with_context(|| format!("{command:?}"))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{command:?}: {said}\n{errors}\n{}", self.host.log());
        Ok(said + &errors)
    }

    /// Runs an example to its end, then follows a run whose host dies in the middle: no event is lost or seen twice.
    async fn play(self, program: &dyn Fn() -> Command) -> Result<()> {
        let said = self.say(program().args([self.host.url(), KEY]))?;
        ensure!(said.lines().any(|line| line == "all of it"), "{said}");
        let run = self.start_run("delay").await?;
        let mut follower = program();
        follower.args([self.host.url(), KEY, &run]).current_dir(self.folder.path());
        let mut follower = follower.stdout(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(follower.stdout.take().context("its output")?).lines();
        let mut seen = vec![lines.next().context("a first event")??];
        let address = self.host.url().trim_start_matches("http://").to_owned();
        self.host.stop("KILL")?;
        let host = start(&self.folder, &address)?;
        for line in lines {
            seen.push(line?);
        }
        ensure!(follower.wait()?.success(), "{seen:?}\n{}", host.log());
        ensure!(seen.last().is_some_and(|last| last.ends_with(" run.completed")), "{seen:?}");
        let sequences: Vec<usize> =
            seen.iter().filter_map(|line| line.split(' ').next()?.parse().ok()).collect();
        assert_eq!(sequences, (0..seen.len()).collect::<Vec<_>>(), "{seen:?}");
        ensure!(host.stop("TERM")?.success(), "the host did not end well");
        Ok(())
    }

    async fn start_run(&self, workflow: &str) -> Result<String> {
        let body = serde_json::json!({ "workflowId": workflow, "inputs": { "delayMs": 4000 } });
        let http = reqwest::Client::builder().no_proxy().build()?;
        let made = http.post(format!("{}/v1/runs", self.host.url())).bearer_auth(KEY).json(&body);
        let made: serde_json::Value = made.send().await?.error_for_status()?.json().await?;
        made["runId"].as_str().map(str::to_owned).context("a run")
    }
}

fn start(folder: &TempDir, address: &str) -> Result<Host> {
    let workflows = folder.path().join("workflows");
    let workflows = workflows.to_str().context("a folder with a plain name")?;
    Host::start(&folder.path().join("data"), &["--workflows", workflows, "--listen", address])
}

/// Every operation of the document has a function, and nothing was left out.
#[tokio::test]
async fn a_python_client_is_generated_without_a_warning_and_runs() -> Result<()> {
    let Some(python) = python(PYTHON) else { return Ok(()) };
    let programs = python.parent().context("a folder of programs")?.to_owned();
    let stage = Stage::set().await?;
    stage.copy("python")?;
    let path = format!("{}:{}", programs.display(), std::env::var("PATH")?);
    let mut generate = Command::new(programs.join("openapi-python-client"));
    generate.args(["generate", "--path", "openapi.json", "--meta", "none", "--fail-on-warning"]);
    let said = stage.say(generate.env("PATH", path))?;
    ensure!(!said.to_lowercase().contains("warning"), "{said}");
    let document: serde_json::Value =
        serde_json::from_slice(&fs::read(stage.path("openapi.json"))?)?;
    let paths = document["paths"].as_object().context("paths")?.values();
    let operations: usize =
        paths.map(|item| item.as_object().map_or(0, serde_json::Map::len)).sum();
    assert_eq!(modules(&stage.path("callboard_client/api"))?, operations);
    let check = ["--strict", "--follow-imports=silent", "callboard.py", "example.py"];
    stage.say(Command::new(programs.join("mypy")).args(check))?;
    stage
        .play(&|| {
            let mut command = Command::new(&python);
            command.arg("example.py");
            command
        })
        .await
}

/// Modules of operations, one for each.
fn modules(folder: &Path) -> Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            count += modules(&entry.path())?;
        } else if entry.file_name() != "__init__.py" {
            count += 1;
        }
    }
    Ok(count)
}

#[tokio::test]
async fn types_for_typescript_are_generated_without_a_warning_and_hold() -> Result<()> {
    let Some(programs) = find(TYPESCRIPT, "node_modules/.bin") else { return Ok(()) };
    let modules = programs.parent().context("a folder of modules")?.to_owned();
    let stage = Stage::set().await?;
    stage.copy("typescript")?;
    std::os::unix::fs::symlink(modules, stage.path("node_modules"))?;
    let mut generate = Command::new(programs.join("openapi-typescript"));
    let said = stage.say(generate.args(["openapi.json", "--output", "api.ts"]))?;
    ensure!(!said.to_lowercase().contains("warn"), "{said}");
    stage.say(Command::new(programs.join("tsc")).args(["--project", "."]))?;
    stage
        .play(&|| {
            let mut command = Command::new("node");
            command.arg("out/example.js");
            command
        })
        .await
}
