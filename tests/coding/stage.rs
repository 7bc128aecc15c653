//! A host whose coding agents are scripts that write down how they were started and then do what the test says.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::api::Api;
use crate::support::host::{Host, KEY, serve};

/// Answers with text.
pub(crate) const WRITER: &str = "vendor.acme.desk.writer";
/// Answers with a queue.
pub(crate) const SORTER: &str = "vendor.acme.desk.sorter";
/// May use a shell of Codex, and of OpenCode.
pub(crate) const RUNNER: &str = "vendor.acme.desk.runner";

/// May use the shell of an agent of the operator's own.
pub(crate) const ASKER: &str = "vendor.acme.desk.asker";

/// Answers with a queue, and may use what [`RUNNER`] may.
pub(crate) const PLANNER: &str = "vendor.acme.desk.planner";

/// Reached only when something hangs.
const PATIENCE: Duration = Duration::from_secs(180);

/// Notes arguments, environment, folder, process and prompt under the number of the start, then plays the script of
/// that number, or the last one before it.
const FAKE: &str = r#"#!/bin/sh
stage=STAGE
n=0; while [ -e "$stage/argv.$n" ]; do n=$((n + 1)); done
for word in "$@"; do printf '%s\n' "$word"; done > "$stage/argv.$n"
env > "$stage/env.$n"; pwd > "$stage/cwd.$n"; cat > "$stage/prompt.$n"
echo $$ > "$stage/pid.$n"
play=$n; while [ ! -e "$stage/play.$play" ]; do play=$((play - 1)); done
. "$stage/play.$play"
"#;

pub(crate) struct Stage {
    folder: TempDir,
}

impl Stage {
    /// The scripts are those of the first start, the second and so on; the last is played for all that follow.
    pub(crate) fn new(plays: &[String]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        for name in ["bin", "tmp", "play", "pack"] {
            fs::create_dir(folder.path().join(name))?;
        }
        let stage = Self { folder };
        for (number, play) in plays.iter().enumerate() {
            fs::write(stage.play(&format!("play.{number}")), play)?;
        }
        let script = FAKE.replace("STAGE", stage.text("play")?.as_str());
        for program in ["claude", "codex", "gemini", "opencode", "aider"] {
            let path = stage.path("bin").join(program);
            fs::write(&path, &script)?;
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        }
        pack(&stage.path("pack"))?;
        Ok(stage)
    }

    /// A stage with one more program, which notes where it is with `STAGE` replaced.
    pub(crate) fn with_program(name: &str, script: &str) -> Result<Self> {
        let stage = Self::new(&[])?;
        let path = stage.path("bin").join(name);
        fs::write(&path, script.replace("STAGE", stage.text("play")?.as_str()))?;
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        Ok(stage)
    }

    /// A host whose agents are `cli/claude-code`, unless a run says otherwise.
    pub(crate) fn host(&self) -> Result<Host> {
        self.host_with(&[])
    }

    /// The same, with more in its environment.
    pub(crate) fn host_with(&self, variables: &[(&str, &str)]) -> Result<Host> {
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", self.text("bin")?);
        let ours = [("PATH", path.as_str()), ("CALLBOARD_MODEL", "cli/claude-code")];
        self.host_of("", &[&ours, variables].concat())
    }

    /// A host with this file and these variables.
    pub(crate) fn host_of(&self, file: &str, variables: &[(&str, &str)]) -> Result<Host> {
        fs::write(self.path("callboard.toml"), enable_all(file))?;
        let mut command = serve(&self.path("data"));
        command.args(["--api-key", KEY, "--packs", &self.text("pack")?]);
        command.env("PATH", std::env::var("PATH").unwrap_or_default());
        command.env("TMPDIR", self.path("tmp")).envs(variables.iter().copied());
        Host::of(command)
    }

    /// A host that is told everything by its file, in an environment that says nothing.
    pub(crate) fn host_by_file(&self, text: &str) -> Result<Host> {
        fs::write(self.path("callboard.toml"), enable_all(text))?;
        Host::start(&self.path("data"), &["--packs", &self.text("pack")?])
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> Result<String> {
        self.path(name).to_str().map(str::to_owned).context("a folder with a plain name")
    }

    fn play(&self, name: &str) -> PathBuf {
        self.path("play").join(name)
    }

    /// What the fake wrote down.
    pub(crate) fn noted(&self, name: &str) -> Result<String> {
        fs::read_to_string(self.play(name)).with_context(|| name.to_owned())
    }

    pub(crate) fn argv(&self, start: usize) -> Result<Vec<String>> {
        Ok(self.noted(&format!("argv.{start}"))?.lines().map(str::to_owned).collect())
    }

    /// How often a coding agent was started.
    pub(crate) fn starts(&self) -> usize {
        (0..).take_while(|start| self.play(&format!("argv.{start}")).exists()).count()
    }

    /// Lets a fake go on that waits with [`wait`].
    pub(crate) fn go(&self) -> Result<()> {
        Ok(fs::write(self.play("go"), "")?)
    }

    /// Waits until the fake has written a number.
    pub(crate) async fn number(&self, name: &str) -> Result<u32> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match fs::read_to_string(self.play(name)) {
                Ok(text) if text.ends_with('\n') => return Ok(text.trim().parse()?),
                _ if Instant::now() > deadline => bail!("{name} is never written"),
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }
}

/// The file with a section for each agent: no run may name one that has none.
fn enable_all(file: &str) -> String {
    let missing = ["claude-code", "codex", "gemini-cli", "opencode", "aider"]
        .map(|kind| format!("[cli.{kind}]\n"))
        .into_iter()
        .filter(|section| !file.contains(section.as_str()));
    format!("{file}\n{}", missing.collect::<String>())
}

/// Shell words that print lines.
pub(crate) fn say(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("printf '%s\\n' '{line}'\n")).collect()
}

pub(crate) fn init(session: &str) -> Value {
    json!({ "type": "system", "subtype": "init", "session_id": session })
}

pub(crate) fn delta(kind: &str, text: &str) -> Value {
    let delta = json!({ "type": format!("{kind}_delta"), kind: text });
    json!({ "type": "stream_event", "event": { "type": "content_block_delta", "delta": delta } })
}

pub(crate) fn tool_use(id: &str, name: &str) -> Value {
    let block = json!({ "type": "tool_use", "id": id, "name": name, "input": { "canary": 1 } });
    json!({ "type": "assistant", "message": { "id": "m", "content": [block] } })
}

pub(crate) fn tool_result(id: &str) -> Value {
    let block = json!({ "type": "tool_result", "tool_use_id": id, "content": "canary output" });
    json!({ "type": "user", "message": { "content": [block] } })
}

pub(crate) fn done(text: &str) -> Value {
    json!({
        "type": "result", "subtype": "success", "is_error": false, "result": text,
        "total_cost_usd": 0.5, "usage": { "input_tokens": 10, "output_tokens": 7 },
    })
}

/// Shell words that wait for [`Stage::go`].
pub(crate) fn wait() -> String {
    "while [ ! -e \"$stage/go\" ]; do sleep 0.05; done\n".to_owned()
}

/// Shell words that leave a child running and never end.
pub(crate) fn hang() -> String {
    "sleep 1000 & echo $! > \"$stage/child\"; wait\n".to_owned()
}

/// Waits until the log holds an event of this kind.
pub(crate) async fn seen(api: &Api, run: &str, kind: &str) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if events(api, run).await?.iter().any(|event| event["type"] == kind) {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("no {kind}: {}", api.log(run).await?);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) async fn events(api: &Api, run: &str) -> Result<Vec<Value>> {
    let log: Value = serde_json::from_str(&api.log(run).await?)?;
    Ok(log["events"].as_array().cloned().unwrap_or_default())
}

/// The payloads of a kind, in order.
pub(crate) fn told(events: &[Value], kind: &str) -> Vec<Value> {
    let told = events.iter().filter(|event| event["type"] == kind);
    told.map(|event| event["payload"].clone()).collect()
}

/// Whether a process runs; one that is dead and not yet reaped does not.
fn is_running(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Waits until processes are gone.
pub(crate) async fn gone(processes: &[u32]) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while processes.iter().any(|process| is_running(*process)) {
        if Instant::now() > deadline {
            bail!("still running: {processes:?}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Waits until a file whose name holds `name` holds `text`, somewhere below a folder.
pub(crate) async fn written(folder: &Path, name: &str, text: &str) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !holds(folder, name, text) {
        if Instant::now() > deadline {
            bail!("{name} is never written");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Of a file of lines only whole ones count. What is gone by the time that it is looked at is not there.
fn holds(folder: &Path, name: &str, text: &str) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            return holds(&path, name, text);
        }
        let known = entry.file_name().to_string_lossy().into_owned();
        if !known.contains(name) {
            return false;
        }
        let found = fs::read(&path).unwrap_or_default();
        let whole = match found.iter().rposition(|byte| *byte == b'\n') {
            Some(end) if known.ends_with(".jsonl") => &found[..end],
            None if known.ends_with(".jsonl") => &[],
            _ => &found[..],
        };
        whole.windows(text.len()).any(|part| part == text.as_bytes())
    })
}

fn pack(folder: &Path) -> Result<()> {
    let agent = |id: &str, tools: &[&str]| {
        json!({
            "agentId": id, "persona": "Coder", "modelClass": "coding",
            "systemPrompt": "You write.", "toolAllowlist": tools,
        })
    };
    let reads = ["openwop:core.files.read", "openwop:core.rag.unknown"];
    let mut sorter = agent(SORTER, &[]);
    sorter["handoff"] = json!({ "returnSchemaRef": "result.json" });
    let shell = [
        "openwop:core.files.read",
        "openwop:core.files.write",
        "cli:codex.shell",
        "cli:opencode.shell",
    ];
    let asker = agent(ASKER, &["cli:goose.shell"]);
    let mut planner = agent(PLANNER, &shell);
    planner["handoff"] = json!({ "returnSchemaRef": "result.json" });
    let manifest = json!({
        "name": "vendor.acme.desk", "version": "1.0.0",
        "agents": [agent(WRITER, &reads), sorter, agent(RUNNER, &shell), asker, planner],
        "engines": { "openwop": ">=1.1.0 <2.0.0" },
        "runtime": { "language": "remote", "entry": "pack.json" },
    });
    let result = json!({
        "type": "object", "required": ["queue"], "additionalProperties": false,
        "properties": { "queue": { "type": "string" } },
    });
    fs::write(folder.join("pack.json"), manifest.to_string())?;
    fs::write(folder.join("result.json"), result.to_string())?;
    Ok(())
}
