//! Installed programs on a stage with a scripted model server, and what the tests do with each of them.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::api::Api;
use crate::host::Host;
use crate::server::{ModelServer, Mood, Use};
use crate::stage::{RUNNER, Stage, WRITER, events, gone, seen, told, written};
use crate::{failure, order};

/// What every run is asked for.
pub(crate) const TASK: &str = "a canary task";

/// Reached only when something hangs.
const PATIENCE: Duration = Duration::from_secs(180);

/// What is special about one program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    /// The name of its kind.
    pub(crate) kind: &'static str,
    /// The name under which it is installed.
    pub(crate) name: &'static str,
    pub(crate) model: Option<&'static str>,
    /// Does its tasks.
    pub(crate) agent: &'static str,
    /// A tool that the agent may use, and what the log calls it.
    pub(crate) uses: Use,
    pub(crate) told: &'static str,
    /// Part of the name of the file that a session is saved in.
    pub(crate) saved_as: fn(session: &str) -> String,
    /// How the names begin of all that it keeps sessions in.
    pub(crate) sessions: &'static str,
}

pub(crate) const CLAUDE: Program = Program {
    kind: "claude-code",
    name: "claude",
    model: None,
    agent: WRITER,
    uses: Use { tool: "Glob", input: "{\"pattern\":\"*\"}" },
    told: "cli:claude-code.Glob",
    saved_as: |session| format!("{session}.jsonl"),
    sessions: "projects",
};

pub(crate) const CODEX: Program = Program {
    kind: "codex",
    name: "codex",
    model: None,
    agent: RUNNER,
    uses: Use { tool: "exec_command", input: "{\"cmd\":\"echo hello\"}" },
    told: "cli:codex.command_execution",
    saved_as: |session| format!("{session}.jsonl"),
    sessions: "sessions",
};

pub(crate) const GEMINI: Program = Program {
    kind: "gemini-cli",
    name: "gemini",
    // Otherwise it asks another model first which one to ask.
    model: Some("gemini-2.5-flash"),
    agent: RUNNER,
    uses: Use { tool: "list_directory", input: "{\"dir_path\":\".\"}" },
    told: "cli:gemini-cli.list_directory",
    saved_as: |session| format!("-{}.jsonl", session.split('-').next().unwrap_or_default()),
    sessions: "chats",
};

pub(crate) const OPENCODE: Program = Program {
    kind: "opencode",
    name: "opencode",
    model: Some("mock/m"),
    agent: RUNNER,
    uses: Use { tool: "bash", input: "{\"command\":\"echo hello\",\"description\":\"greets\"}" },
    told: "cli:opencode.bash",
    saved_as: |_| "opencode.db".to_owned(),
    sessions: "opencode.db",
};

/// Where an installed program is; none, with a line that says so, where it is missing and not required.
fn installed(program: &str) -> Option<PathBuf> {
    let tools = std::env::var_os("CALLBOARD_CLI_TOOLS").map(PathBuf::from);
    let usual = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/cli-tools");
    let bins = [tools, Some(usual)].into_iter().flatten().map(|it| it.join("node_modules/.bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = bins.chain(std::env::split_paths(&path)).map(|folder| folder.join(program));
    if let Some(found) = places.find(|place| place.exists()) {
        return Some(found);
    }
    let required = std::env::var("CALLBOARD_TEST_REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|part| part.trim() == "cli");
    assert!(!is_required, "{program} is required and not there");
    // Past the capture of test output: a skipped test must be seen.
    let told = writeln!(std::io::stderr(), "skipped: {program} is not installed");
    told.expect("standard error is open");
    None
}

/// One program with its model server.
pub(crate) struct Real {
    pub(crate) program: Program,
    pub(crate) stage: Stage,
    pub(crate) server: ModelServer,
    path: PathBuf,
    /// What stands in `[cli]`, and what in the section of the program.
    settings: String,
    section: &'static str,
    variables: Vec<(&'static str, String)>,
}

/// A run whose session is gone.
pub(crate) struct Lost {
    pub(crate) host: Host,
    pub(crate) run: String,
    /// How often the model was asked before.
    pub(crate) heard: usize,
}

impl Real {
    /// None where it is not installed.
    pub(crate) async fn new(program: Program) -> Result<Option<Self>> {
        let Some(path) = installed(program.name) else { return Ok(None) };
        let server = ModelServer::start(Mood::Says("")).await?;
        let stage = Stage::new(&["exit 7\n".to_owned()])?;
        fs::create_dir(stage.path("home"))?;
        let address = server.address().to_owned();
        let variables = vec![
            ("ANTHROPIC_API_KEY", "sk-dummy".to_owned()),
            ("ANTHROPIC_BASE_URL", address.clone()),
            ("CLAUDE_CODE_MAX_RETRIES", "1".to_owned()),
            ("OPENAI_API_KEY", "sk-dummy".to_owned()),
            ("GEMINI_API_KEY", "sk-dummy".to_owned()),
            ("GEMINI_BASE_URL", address),
        ];
        let (settings, section) = (String::new(), "");
        Ok(Some(Self { program, stage, server, path, settings, section, variables }))
    }

    /// The same in a home that lasts, with a file in it.
    pub(crate) fn at_home(mut self, name: &str, text: &str) -> Result<Self> {
        let home = self.stage.path("home");
        let path = home.join(name);
        fs::create_dir_all(path.parent().context("a file in a folder")?)?;
        fs::write(path, text.replace("ADDRESS", self.server.address()))?;
        self.settings = format!("home = {home:?}\n");
        Ok(self)
    }

    /// The same through a script that adds arguments.
    pub(crate) fn with_arguments(mut self, arguments: &str) -> Result<Self> {
        let script = self.stage.path("bin").join("with-arguments");
        let arguments = arguments.replace("ADDRESS", self.server.address());
        fs::write(&script, format!("#!/bin/sh\nexec {:?} {arguments} \"$@\"\n", self.path))?;
        fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        self.path = script;
        Ok(self)
    }

    /// The same with a file that a variable names.
    pub(crate) fn with_file(mut self, variable: &'static str, text: &str) -> Result<Self> {
        let path = self.stage.path("settings.json");
        fs::write(&path, text.replace("ADDRESS", self.server.address()))?;
        self.variables.push((variable, path.to_string_lossy().into_owned()));
        self.settings = format!("env = [{variable:?}]\n");
        Ok(self)
    }

    /// The same that asks a person, and is held until there is an answer.
    pub(crate) fn with_approvals(mut self) -> Self {
        self.settings.push_str("hold_ms = 600000\n");
        self.section = "approvals = true\n";
        self
    }

    pub(crate) fn host(&self) -> Result<Host> {
        let Program { kind, model, .. } = self.program;
        let mut file = format!(
            "[models]\ndefault = \"cli/{kind}\"\n[cli]\n{}[cli.{kind}]\nprogram = {:?}\n{}",
            self.settings, self.path, self.section
        );
        if let Some(model) = model {
            file.push_str(&format!("model = {model:?}\n"));
        }
        let variables: Vec<(&str, &str)> =
            self.variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.stage.host_of(&file, &variables)
    }

    /// The program itself, started by a person with servers of tools, of which it may use one.
    pub(crate) fn with_servers(&self, servers: &Value, tool: &str) -> Result<Value> {
        let file = self.stage.path("servers.json");
        fs::write(&file, servers.to_string())?;
        let mut command = Command::new(&self.path);
        command.args(["-p", TASK, "--output-format", "json", "--strict-mcp-config"]);
        command.args(["--allowedTools", tool, "--mcp-config"]).arg(&file);
        command.env_clear().env("HOME", self.stage.path("home"));
        command.env("PATH", std::env::var("PATH").unwrap_or_default());
        command.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
        command.envs(self.variables.iter().map(|(name, value)| (name, value.as_str())));
        command.current_dir(self.stage.path("home")).stdin(std::process::Stdio::null());
        let output = command.output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        serde_json::from_str(&said)
            .with_context(|| format!("{said}{}", String::from_utf8_lossy(&output.stderr)))
    }

    pub(crate) async fn create(&self, host: &Host, agent: &str) -> Result<(Api, String)> {
        let api = Api::of(host.url())?;
        let key = format!("after-{}", self.server.heard().len());
        let run = api.create(&order(agent), &key).await?;
        Ok((api, run))
    }

    pub(crate) async fn run(&self, host: &Host, mood: Mood) -> Result<(String, Vec<Value>)> {
        self.server.be(mood);
        let (api, run) = self.create(host, self.program.agent).await?;
        let status = api.finish(&run).await?;
        Ok((status, events(&api, &run).await?))
    }

    /// Text arrives, and a provider that refuses is told apart from a program that fails.
    pub(crate) async fn speaks(&self, host: &Host) -> Result<()> {
        let (status, log) = self.run(host, Mood::Says("Hello from the model.")).await?;
        assert_eq!(status, "completed", "{log:?}\n{}", host.log());
        let result = &told(&log, "run.completed")[0]["outputs"]["result"];
        assert_eq!(result, "Hello from the model.");
        let chunks = told(&log, "output.chunk");
        let text: String = chunks.iter().filter_map(|chunk| chunk["chunk"].as_str()).collect();
        assert_eq!(text, "Hello from the model.");
        assert_eq!(told(&log, "callboard.agent.session").len(), 1);
        ensure!(told(&log, "provider.usage")[0]["outputTokens"].as_u64() > Some(0), "{log:?}");
        let (status, log) = self.run(host, Mood::Answers(400)).await?;
        assert_eq!((status.as_str(), failure(&log).0.as_str()), ("failed", "validation_error"));
        ensure!(!serde_json::to_string(&log)?.contains("canary body"));
        Ok(())
    }

    /// A tool is told in a pair, and its result reaches the model.
    pub(crate) async fn uses_a_tool(&self, host: &Host) -> Result<()> {
        let Program { uses, told: name, .. } = self.program;
        let (status, log) = self.run(host, Mood::Uses(uses, "That was it.")).await?;
        assert_eq!(status, "completed", "{log:?}\n{}", host.log());
        assert_eq!(told(&log, "run.completed")[0]["outputs"]["result"], "That was it.");
        let (called, returned) = (told(&log, "agent.toolCalled"), told(&log, "agent.toolReturned"));
        assert_eq!((called.len(), returned.len()), (1, 1), "{log:?}");
        assert_eq!(called[0]["toolName"], name);
        assert_eq!(called[0]["callId"], returned[0]["callId"]);
        Ok(())
    }

    /// Cancelling leaves no process behind.
    pub(crate) async fn is_cancelled(&self, host: &Host) -> Result<()> {
        let (api, run) = self.stalls(host).await?;
        let processes = self.processes()?;
        api.act(&run, "/cancel").await?;
        assert_eq!(api.finish(&run).await?, "cancelled");
        gone(&processes).await
    }

    /// A host that is killed in the middle goes on with the session when it starts again.
    pub(crate) async fn is_resumed(&self, host: Host) -> Result<Host> {
        let (api, run) = self.stalls(&host).await?;
        self.saves(&api, &run).await?;
        let processes = self.processes()?;
        host.stop("KILL")?;
        let before = self.server.heard().len();
        self.server.be(Mood::Says("I went on."));
        let host = self.host()?;
        gone(&processes).await?;
        let api = Api::of(host.url())?;
        assert_eq!(api.finish(&run).await?, "completed", "{}", api.log(&run).await?);
        let log = events(&api, &run).await?;
        assert_eq!(told(&log, "run.completed")[0]["outputs"]["result"], "I went on.");
        // The conversation from before is still there.
        let heard = self.server.heard().split_off(before);
        ensure!(heard.iter().any(|body| body.matches(TASK).count() == 2), "{heard:?}");
        Ok(host)
    }

    /// A host that is killed in the middle, with a session that is gone when it starts again.
    pub(crate) async fn loses_its_session(&self, host: Host) -> Result<Lost> {
        let (api, run) = self.stalls(&host).await?;
        self.saves(&api, &run).await?;
        self.kill(host).await?;
        for folder in ["tmp", "home"] {
            forget(&self.stage.path(folder), self.program.sessions)?;
        }
        self.server.be(Mood::Says("I begin anew."));
        let heard = self.server.heard().len();
        Ok(Lost { host: self.host()?, run, heard })
    }

    /// Ends a host with all that it has started: whoever is alive would write its session again.
    pub(crate) async fn kill(&self, host: Host) -> Result<()> {
        let processes = self.processes()?;
        host.stop("KILL")?;
        for group in &processes {
            Command::new("kill").args(["-KILL", "--", &format!("-{group}")]).status()?;
        }
        gone(&processes).await
    }

    /// Waits until the program has named its session and asked its model, which never ends its answer.
    async fn stalls(&self, host: &Host) -> Result<(Api, String)> {
        self.server.be(Mood::Stalls("Working"));
        let before = self.server.heard().len();
        let (api, run) = self.create(host, self.program.agent).await?;
        seen(&api, &run, "callboard.agent.session").await?;
        self.hears(before, TASK).await?;
        Ok((api, run))
    }

    /// Waits until the model is asked something that holds a text.
    pub(crate) async fn hears(&self, before: usize, text: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !self.server.heard().iter().skip(before).any(|body| body.contains(text)) {
            if Instant::now() > deadline {
                bail!("nobody asks for {text:?}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Waits until the session is saved: programs say its name a while before.
    pub(crate) async fn saves(&self, api: &Api, run: &str) -> Result<()> {
        let told = told(&events(api, run).await?, "callboard.agent.session");
        let session = told[0]["sessionId"].as_str().context("a session")?;
        written(&self.stage.path(""), &(self.program.saved_as)(session), TASK).await
    }

    /// The processes that the host has written down.
    fn processes(&self) -> Result<Vec<u32>> {
        let mut found = Vec::new();
        for record in fs::read_dir(self.stage.path("data/coding-agents"))? {
            // One that ends now has no record any more.
            let Ok(record) = fs::read(record?.path()) else { continue };
            let record: Value = serde_json::from_slice(&record)?;
            found.push(u32::try_from(record["group"].as_u64().context("a group")?)?);
        }
        ensure!(!found.is_empty(), "no process is written down");
        Ok(found)
    }
}

/// The settings with which Codex asks the scripted server.
pub(crate) const CODEX_SETTINGS: &str = "model = \"mock\"\nmodel_provider = \"mock\"\n\
     [model_providers.mock]\nname = \"mock\"\nbase_url = \"ADDRESS/v1\"\n\
     wire_api = \"responses\"\nenv_key = \"OPENAI_API_KEY\"\n\
     request_max_retries = 0\nstream_max_retries = 0\n";

/// The settings with which OpenCode asks the scripted server.
pub(crate) fn opencode_settings() -> String {
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible", "name": "mock",
        "options": { "baseURL": "ADDRESS/v1", "apiKey": "sk-dummy" },
        "models": { "m": { "name": "m" } },
    });
    json!({ "provider": { "mock": provider } }).to_string()
}

/// Removes everything below a folder whose name begins so.
fn forget(folder: &Path, name: &str) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_folder = entry.file_type()?.is_dir();
        match (entry.file_name().to_string_lossy().starts_with(name), is_folder) {
            (true, true) => fs::remove_dir_all(entry.path())?,
            (true, false) => fs::remove_file(entry.path())?,
            (false, true) => forget(&entry.path(), name)?,
            (false, false) => {}
        }
    }
    Ok(())
}
