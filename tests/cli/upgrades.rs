//! Folders that earlier releases have made, in `tests/upgrade`: this one goes on with each.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::support::host::{Host, serve};
use crate::terminal::Terminal;

fn archives() -> Result<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upgrade");
    let paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    Ok(paths.into_iter().filter(|path| path.to_string_lossy().ends_with(".tar.gz")).collect())
}

#[test]
fn a_folder_of_every_release_is_opened_and_gone_on_with() -> Result<()> {
    let archives = archives()?;
    ensure!(!archives.is_empty(), "no folder of an earlier release is kept");
    for archive in archives {
        goes_on(&archive).with_context(|| archive.display().to_string())?;
    }
    Ok(())
}

fn goes_on(archive: &Path) -> Result<()> {
    let terminal = Terminal::new()?;
    let unpacked = Command::new("gzip").arg("-dc").arg(archive).output()?;
    fs::write(terminal.folder().join("kept.tar"), unpacked.stdout)?;
    let key = archive.to_string_lossy().replace(".tar.gz", ".key");
    let restored = terminal.run(&["db", "restore", "kept.tar", "--key", &key, "--data", "data"])?;
    ensure!(restored.starts_with("exit: 0\n"), "{restored}");

    let mut command = serve(&terminal.folder().join("data"));
    command.args(["--api-key", "kept-key"]);
    let host = Host::of(command)?;
    let said = |arguments: &[&str]| -> Result<Value> {
        let mut command = terminal.command(arguments);
        command.env("CALLBOARD_URL", host.url()).env("CALLBOARD_API_KEY", "kept-key");
        let output = command.output()?;
        let problem = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{arguments:?}: {problem}");
        Ok(serde_json::from_slice(&output.stdout).unwrap_or_default())
    };
    let runs = said(&["runs", "list", "--json"])?;
    let of = |workflow: &str| -> Result<String> {
        let runs = runs["runs"].as_array().context("runs")?;
        let run = runs.iter().find(|run| run["workflowId"] == workflow).context("no such run")?;
        Ok(run["runId"].as_str().context("an id")?.to_owned())
    };
    ensure!(said(&["runs", "show", &of("kept-noop")?, "--json"])?["status"] == "completed");
    let waiting = of("kept-gate")?;
    said(&["inbox", "answer", &waiting, "ask", "--action", "accept"])?;
    // Follows to the end.
    said(&["runs", "events", &waiting, "--follow", "--json"])?;
    ensure!(said(&["runs", "show", &waiting, "--json"])?["status"] == "completed");
    let secrets = said(&["secrets", "list", "--json"])?;
    ensure!(secrets.to_string().contains("kept"), "{secrets}");
    let schedules = said(&["schedules", "list", "--json"])?;
    ensure!(schedules.to_string().contains("kept-noop"), "{schedules}");
    Ok(())
}
