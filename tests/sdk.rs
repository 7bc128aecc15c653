//! The clients that the protocol publishes for Python, one for each of its majors, against one host; and our own, whose types are
//! generated from the host's document.

mod support;
#[path = "sdk/typed.rs"]
mod typed;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use support::definitions;
use support::host::{Host, KEY};

/// The Python of a client; none, with a line that says so, where it is missing and not required.
fn python(client: &str) -> Option<PathBuf> {
    find(client, "bin/python")
}

/// A file or folder of what was installed for a client.
fn find(client: &str, file: &str) -> Option<PathBuf> {
    let named = std::env::var_os("CALLBOARD_SDK").map(PathBuf::from);
    let usual = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/sdk");
    let places = [named, Some(usual)].into_iter().flatten();
    let mut places = places.map(|folder| folder.join(client).join(file));
    let found = places.find(|place| place.exists());
    if found.is_none() {
        let required = std::env::var("CALLBOARD_TEST_REQUIRE").unwrap_or_default();
        let is_required = required.split(',').any(|part| part.trim() == "sdk");
        assert!(!is_required, "the client {client} is required and not there");
        // Past the capture of test output: a skipped test must be seen.
        drop(writeln!(std::io::stderr(), "skipped: the client {client} is not installed"));
    }
    found
}

/// Runs the client of a major; answers the run that it leaves for the other.
fn drive(python: &Path, major: &str, host: &Host, others: Option<&str>) -> Result<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk/drive.py");
    let mut command = Command::new(python);
    command.arg(script).args([major, host.url(), KEY]).args(others);
    let output = command.output().context("Python does not start")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "the client of major {major}: {said}\n{errors}\n{}",
        host.log()
    );
    said.lines().last().map(str::to_owned).context("no run was left")
}

/// V-41, V-40: each client has every operation of its major answered, and goes on with what the other has begun.
#[test]
fn the_published_clients_drive_everything_they_have() -> Result<()> {
    let (Some(first), Some(second)) = (python("1.8.0"), python("2.7.0")) else { return Ok(()) };
    let folder = tempfile::tempdir()?;
    let workflows = folder.path().join("workflows");
    std::fs::create_dir(&workflows)?;
    definitions::write(&workflows)?;
    let workflows = workflows.to_str().context("a folder with a plain name")?;
    let arguments = ["--workflows", workflows, "--allow-private-egress"];
    let host = Host::start(&folder.path().join("data"), &arguments)?;
    let left = drive(&first, "1", &host, None)?;
    ensure!(left.starts_with("run_"), "{left}");
    let left = drive(&second, "2", &host, Some(&left))?;
    ensure!(left.starts_with("default/run_"), "{left}");
    drive(&first, "1", &host, Some(&left))?;
    ensure!(host.stop("TERM")?.success(), "the host did not end well");
    Ok(())
}
