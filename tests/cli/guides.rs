//! The guides as a new user follows them: every block of a page, copied and pasted in a fresh folder.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::support::host::{Host, serve};

/// Nobody is asked what the outside looks like: the host refuses to go there.
const OUTSIDE: (&str, &str) = ("https://status.example.com", "https://status.invalid");

/// Where pages say that the host is.
const ADDRESS: &str = "http://127.0.0.1:8787";

/// A page's commands, one after the other, and the flags of the host that it begins with, if it needs one.
struct Guide {
    flags: Option<Vec<String>>,
    commands: String,
}

impl Guide {
    fn read(name: &str) -> Result<Self> {
        let commands = blocks(name, "sh")?;
        let (first, rest) = commands.split_once('\n').context("a page with commands")?;
        let flags = first.strip_prefix("callboard serve ").and_then(|it| it.strip_suffix(" &"));
        let flags = flags.map(|it| it.split_whitespace().map(ToOwned::to_owned).collect());
        let rest = if flags.is_some() { rest } else { &commands };
        Ok(Self { flags, commands: rest.replace(OUTSIDE.0, OUTSIDE.1) })
    }
}

/// All the blocks of a page in one language, one after the other.
pub(crate) fn blocks(name: &str, language: &str) -> Result<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
    let page = std::fs::read_to_string(&page)?;
    let begins = format!("```{language}");
    let mut blocks = String::new();
    let mut lines = page.lines();
    while lines.any(|line| line == begins) {
        for line in lines.by_ref().take_while(|line| *line != "```") {
            blocks.push_str(line);
            blocks.push('\n');
        }
    }
    Ok(blocks)
}

/// A folder with what a release brings along.
pub(crate) fn fresh_folder() -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for shipped in ["packs", "examples"] {
        std::os::unix::fs::symlink(here.join(shipped), folder.path().join(shipped))?;
    }
    Ok(folder)
}

/// A shell that gives up at the first command that fails, in an environment that says nothing.
pub(crate) fn shell(folder: &TempDir, commands: &str) -> Result<Command> {
    let binary = Path::new(env!("CARGO_BIN_EXE_callboard"));
    let path = std::env::var("PATH")?;
    let path = format!("{}:{path}", binary.parent().context("a folder")?.display());
    let mut shell = Command::new("sh");
    shell.env_clear().env("PATH", path);
    shell.args(["-euxc", commands]).current_dir(folder.path());
    Ok(shell)
}

/// Follows a page to its end; answers all that was shown.
fn follow(name: &str) -> Result<String> {
    let guide = Guide::read(name)?;
    let folder = fresh_folder()?;
    let Some(flags) = guide.flags else { return shown(shell(&folder, &guide.commands)?) };
    let mut command = serve(&folder.path().join("data"));
    command.args(&flags);
    let host = Host::of(command)?;
    paste(&folder, &host, &guide.commands.replace(ADDRESS, host.url()))
}

/// Every command must succeed.
fn paste(folder: &TempDir, host: &Host, commands: &str) -> Result<String> {
    let mut shell = shell(folder, commands)?;
    shell.env("CALLBOARD_URL", host.url());
    shown(shell).with_context(|| host.log())
}

/// What a shell printed, which must succeed.
fn shown(mut shell: Command) -> Result<String> {
    let output = shell.output()?;
    let shown = String::from_utf8(output.stdout)?;
    if !output.status.success() {
        bail!("{shown}\n{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(shown)
}

#[test]
fn a_member_is_hired_works_through_a_night_and_is_answered() -> Result<()> {
    let shown = follow("guides/roster.md")?;
    ensure!(shown.contains("look answered; the run is"), "{shown}");
    let page = shown.split("persona    Sally").nth(1).context("her page")?;
    for line in ["owns       desk, triage-desk", "triage-desk, At 09:00"] {
        ensure!(page.contains(line), "{line}: {page}");
    }
    Ok(())
}

#[test]
fn a_schedule_is_made_looked_at_and_paused() -> Result<()> {
    let shown = follow("guides/schedules.md")?;
    ensure!(shown.contains("Monday to Friday"), "{shown}");
    Ok(())
}

#[test]
fn the_document_for_generators_is_fetched() -> Result<()> {
    ensure!(follow("guides/clients.md")?.contains("createRun"), "no operation");
    Ok(())
}

#[test]
fn a_client_of_the_model_context_protocol_lists_and_calls_tools() -> Result<()> {
    let shown = follow("guides/mcp.md")?;
    for part in
        ["agent_community_callboard_starter_triager", "\"status\":\"completed\"", "UNTRUSTED"]
    {
        ensure!(shown.contains(part), "{part}: {shown}");
    }
    Ok(())
}

#[test]
fn an_agent_is_asked_as_a_model() -> Result<()> {
    let shown = follow("guides/chat.md")?;
    for part in
        ["\"object\":\"chat.completion\"", "chat.completion.chunk", "[DONE]", "response.completed"]
    {
        ensure!(shown.contains(part), "{part}: {shown}");
    }
    Ok(())
}

#[test]
fn something_comes_in_over_a_queue_and_over_a_signed_post() -> Result<()> {
    let shown = follow("guides/triggers.md")?;
    ensure!(shown.contains(r#"{"outcome":"delivered","runId":"#), "{shown}");
    Ok(())
}

#[test]
fn what_github_sends_is_filtered_and_taken_once() -> Result<()> {
    let shown = follow("guides/github.md")?;
    for outcome in ["pong", "delivered", "duplicate", "filtered"] {
        ensure!(shown.contains(&format!(r#""outcome":"{outcome}""#)), "{outcome}: {shown}");
    }
    Ok(())
}

#[test]
fn slack_tries_the_address_and_sends_a_mention() -> Result<()> {
    let shown = follow("guides/slack.md")?;
    ensure!(shown.contains(r#"{"challenge":"3eZbrw"#), "{shown}");
    ensure!(shown.contains(r#"{"outcome":"delivered","runId":"#), "{shown}");
    Ok(())
}

#[test]
fn a_mail_comes_in_with_its_attachment() -> Result<()> {
    let shown = follow("guides/mail.md")?;
    for part in [r#""outcome":"delivered""#, r#""outcome":"duplicate""#, r#""filename":"bill.txt""#]
    {
        ensure!(shown.contains(part), "{part}: {shown}");
    }
    Ok(())
}

#[test]
fn a_first_workflow_is_written_drawn_applied_run_and_scheduled() -> Result<()> {
    let shown = follow("start/first-workflow.md")?;
    for line in [
        "Hello, Ada!",
        "letters created",
        "core.approvalGate",
        "approval: Send this answer?",
        "Your question is with callboard",
        "\"path\": \"answer.txt\"",
        "no model was asked",
        "At 09:00",
    ] {
        ensure!(shown.contains(line), "{line}: {shown}");
    }
    Ok(())
}

#[test]
fn all_that_the_guide_to_workflows_shows_can_be_done() -> Result<()> {
    let shown = follow("guides/workflows.md")?;
    ensure!(shown.contains("orders replaced") && shown.contains("flowchart TD"), "{shown}");
    Ok(())
}

#[test]
fn each_form_of_an_expression_has_the_value_that_its_page_says() -> Result<()> {
    let shown = follow("reference/expressions.md")?;
    ensure!(shown.contains("1 passed, 0 failed"), "{shown}");
    Ok(())
}

#[test]
fn the_cases_of_the_examples_pass() -> Result<()> {
    let shown = follow("guides/testing.md")?;
    ensure!(shown.contains("4 passed, 0 failed"), "{shown}");
    Ok(())
}
