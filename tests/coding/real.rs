//! The real programs against a scripted model server on loopback: what the fakes promise, they keep.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::api::Api;
use crate::host::Host;
use crate::server::{ModelServer, Mood};
use crate::stage::{RUNNER, Stage, WRITER, events, gone, seen, told, written};
use crate::{failure, order};

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
struct Real {
    stage: Stage,
    server: ModelServer,
    config: String,
}

impl Real {
    async fn new(kind: &str, program: &Path, config: &str) -> Result<Self> {
        let server = ModelServer::start(Mood::Says("Hello from the model.")).await?;
        let config = format!(
            "[models]\ndefault = \"cli/{kind}\"\n{config}\n[cli.{kind}]\nprogram = {:?}\n",
            program.to_str().context("a plain path")?
        );
        Ok(Self { stage: Stage::new(&["exit 7\n".to_owned()])?, server, config })
    }

    fn host(&self) -> Result<Host> {
        let config = self.config.replace("HOME", &self.stage.path("home").to_string_lossy());
        let address = self.server.address();
        self.stage.host_of(
            &config,
            &[
                ("ANTHROPIC_API_KEY", "sk-dummy"),
                ("ANTHROPIC_BASE_URL", address),
                ("CLAUDE_CODE_MAX_RETRIES", "1"),
                ("OPENAI_API_KEY", "sk-dummy"),
                ("GEMINI_API_KEY", "sk-dummy"),
                ("GEMINI_BASE_URL", address),
            ],
        )
    }

    /// Writes a file into the home that the program is given.
    fn at_home(&self, name: &str, text: &str) -> Result<()> {
        let path = self.stage.path("home").join(name);
        fs::create_dir_all(path.parent().context("a file in a folder")?)?;
        Ok(fs::write(path, text.replace("ADDRESS", self.server.address()))?)
    }

    async fn run(&self, host: &Host, agent: &str, mood: Mood) -> Result<(String, Vec<Value>)> {
        self.server.be(mood);
        let api = Api::of(host.url())?;
        let run = api.create(&order(agent), &format!("{:?}", self.server.heard().len())).await?;
        let status = api.finish(&run).await?;
        Ok((status, events(&api, &run).await?))
    }

    /// Text arrives, and a provider that refuses is told apart from a program that fails.
    async fn basics(&self, host: &Host, agent: &str) -> Result<()> {
        let (status, log) = self.run(host, agent, Mood::Says("Hello from the model.")).await?;
        assert_eq!(status, "completed", "{log:?}\n{}", host.log());
        let result = &told(&log, "run.completed")[0]["outputs"]["result"];
        assert_eq!(result, "Hello from the model.");
        let chunks = told(&log, "output.chunk");
        let text: String = chunks.iter().filter_map(|chunk| chunk["chunk"].as_str()).collect();
        assert_eq!(text, "Hello from the model.");
        assert_eq!(told(&log, "callboard.agent.session").len(), 1);
        ensure!(told(&log, "provider.usage")[0]["outputTokens"].as_u64() > Some(0), "{log:?}");
        let (status, log) = self.run(host, agent, Mood::Answers(400)).await?;
        assert_eq!((status.as_str(), failure(&log).0.as_str()), ("failed", "validation_error"));
        ensure!(!serde_json::to_string(&log)?.contains("canary body"));
        Ok(())
    }

    /// Waits until the program speaks and never ends.
    async fn stalled(&self, host: &Host, agent: &str) -> Result<(Api, String)> {
        self.server.be(Mood::Stalls("Working"));
        let api = Api::of(host.url())?;
        let run = api.create(&order(agent), &format!("s{}", self.server.heard().len())).await?;
        seen(&api, &run, "output.chunk").await?;
        Ok((api, run))
    }

    /// The processes that the host has written down.
    fn processes(&self) -> Result<Vec<u32>> {
        let records = fs::read_dir(self.stage.path("data/coding-agents"))?;
        let mut found = Vec::new();
        for record in records {
            let record: Value = serde_json::from_slice(&fs::read(record?.path())?)?;
            found.push(u32::try_from(record["group"].as_u64().context("a group")?)?);
        }
        ensure!(!found.is_empty(), "no process is written down");
        Ok(found)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_code_works_is_cancelled_and_resumes() -> Result<()> {
    let Some(program) = installed("claude") else { return Ok(()) };
    let real = Real::new("claude-code", &program, "").await?;
    let host = real.host()?;
    real.basics(&host, WRITER).await?;
    let (status, log) = real.run(&host, WRITER, Mood::Uses("Glob", "Nothing there.")).await?;
    assert_eq!(status, "completed", "{log:?}");
    let (called, returned) = (told(&log, "agent.toolCalled"), told(&log, "agent.toolReturned"));
    assert_eq!((called.len(), returned.len()), (1, 1), "{log:?}");
    assert_eq!(called[0]["toolName"], "cli:claude-code.Glob");
    // A shell is not on the list: it is not even offered.
    let (_, log) = real.run(&host, WRITER, Mood::Uses("Bash", "Well, no.")).await?;
    assert_eq!(told(&log, "agent.toolCalled").len(), 0, "{log:?}");
    for body in real.server.heard() {
        let body: Value = serde_json::from_str(&body)?;
        let offered = body["tools"].as_array().cloned().unwrap_or_default();
        let names: Vec<&str> = offered.iter().filter_map(|tool| tool["name"].as_str()).collect();
        let more = ["Bash", "Edit", "Write", "WebFetch", "Task"];
        ensure!(!names.iter().any(|name| more.contains(name)), "{names:?}");
    }

    let (api, run) = real.stalled(&host, WRITER).await?;
    let processes = real.processes()?;
    api.act(&run, "/cancel").await?;
    assert_eq!(api.finish(&run).await?, "cancelled");
    gone(&processes).await?;

    let (api, run) = real.stalled(&host, WRITER).await?;
    // Claude says its session's name a while before it saves it.
    written(&real.stage.path("tmp"), &format!("{}.jsonl", session(&api, &run).await?)).await?;
    let processes = real.processes()?;
    host.stop("KILL")?;
    real.server.be(Mood::Says("I went on."));
    let host = real.host()?;
    gone(&processes).await?;
    let api = Api::of(host.url())?;
    assert_eq!(api.finish(&run).await?, "completed", "{}", api.log(&run).await?);
    let log = events(&api, &run).await?;
    assert_eq!(told(&log, "run.completed")[0]["outputs"]["result"], "I went on.");
    let last = real.server.heard().pop().unwrap_or_default();
    // The conversation from before is still there.
    assert_eq!(last.matches("a canary task").count(), 2, "{last}");

    let (_, run) = real.stalled(&host, WRITER).await?;
    let processes = real.processes()?;
    host.stop("KILL")?;
    // Whoever is alive would write its session again.
    for group in &processes {
        Command::new("kill").args(["-KILL", "--", &format!("-{group}")]).status()?;
    }
    gone(&processes).await?;
    forget_sessions(&real.stage.path("tmp"))?;
    real.server.be(Mood::Says("I begin anew."));
    let host = real.host()?;
    let api = Api::of(host.url())?;
    // It had only talked, so it may say it again.
    assert_eq!(api.finish(&run).await?, "completed", "{}", api.log(&run).await?);
    let log = events(&api, &run).await?;
    assert_eq!(told(&log, "run.completed")[0]["outputs"]["result"], "I begin anew.");
    Ok(())
}

/// The session that a run's coding agent works in.
async fn session(api: &Api, run: &str) -> Result<String> {
    let told = told(&events(api, run).await?, "callboard.agent.session");
    Ok(told[0]["sessionId"].as_str().context("a session")?.to_owned())
}

/// Removes what Claude keeps of its conversations.
fn forget_sessions(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        if entry.file_name() == "projects" {
            fs::remove_dir_all(entry.path())?;
        } else {
            forget_sessions(&entry.path())?;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_works_in_the_home_that_it_is_given() -> Result<()> {
    let Some(program) = installed("codex") else { return Ok(()) };
    let real = Real::new("codex", &program, "[cli]\nhome = \"HOME\"").await?;
    real.at_home(
        ".codex/config.toml",
        "model = \"mock\"\nmodel_provider = \"mock\"\n\
         [model_providers.mock]\nname = \"mock\"\nbase_url = \"ADDRESS/v1\"\n\
         wire_api = \"responses\"\nenv_key = \"OPENAI_API_KEY\"\n\
         request_max_retries = 0\nstream_max_retries = 0\n",
    )?;
    let host = real.host()?;
    real.basics(&host, RUNNER).await
}

#[tokio::test(flavor = "multi_thread")]
async fn gemini_cli_works_in_a_home_of_its_own() -> Result<()> {
    let Some(program) = installed("gemini") else { return Ok(()) };
    let mut real = Real::new("gemini-cli", &program, "").await?;
    real.config.push_str("model = \"gemini-2.5-flash\"\n");
    let host = real.host()?;
    real.basics(&host, WRITER).await
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_works_with_a_provider_of_its_file() -> Result<()> {
    let Some(program) = installed("opencode") else { return Ok(()) };
    let mut real = Real::new("opencode", &program, "[cli]\nhome = \"HOME\"").await?;
    real.config.push_str("model = \"mock/m\"\n");
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible", "name": "mock",
        "options": { "baseURL": "ADDRESS/v1", "apiKey": "sk-dummy" },
        "models": { "m": { "name": "m" } },
    });
    let file = json!({ "provider": { "mock": provider } });
    real.at_home(".config/opencode/opencode.json", &file.to_string())?;
    let host = real.host()?;
    real.basics(&host, RUNNER).await
}
