//! The real binary as a child process.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command as Blocking, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::workspace;

/// Long enough for a cold start on a loaded machine; a host that needs more is broken.
const START: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    Debug,
    Release,
}

/// Builds the binary and says where it is.
pub(crate) fn build(root: &Path, profile: Profile) -> Result<PathBuf> {
    let (argument, folder): (&[&str], &str) = match profile {
        Profile::Debug => (&[], "debug"),
        Profile::Release => (&["--release"], "release"),
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Blocking::new(cargo)
        .args(["build", "--quiet", "--package", "callboard"])
        .args(argument)
        .current_dir(root)
        .status()?;
    ensure!(status.success(), "the binary does not build");
    Ok(workspace::target(root)?.join(folder).join("callboard"))
}

/// A running host. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Host {
    child: Child,
    pub(crate) address: SocketAddr,
    /// From the start of the process to the line that says it serves.
    pub(crate) ready_in: Duration,
    errors: PathBuf,
    // Kept open: a host that prints more must not meet a closed pipe.
    _output: Lines<BufReader<ChildStdout>>,
}

impl Host {
    /// Starts `callboard serve` on a free port, with its data and its standard error in `folder`.
    pub(crate) async fn start(binary: &Path, folder: &Path, arguments: &[&str]) -> Result<Self> {
        Self::start_with(binary, folder, arguments, &[]).await
    }

    /// With variables beside those that it inherits.
    pub(crate) async fn start_with(
        binary: &Path,
        folder: &Path,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<Self> {
        let errors = folder.join("stderr.txt");
        let started = Instant::now();
        let mut child = Command::new(binary)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .arg("--data")
            .arg(folder.join("data"))
            .args(arguments)
            .current_dir(folder)
            .env("CALLBOARD_LOG", "warn")
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::OpenOptions::new().create(true).append(true).open(&errors)?)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {}", binary.display()))?;
        let mut output = BufReader::new(child.stdout.take().context("no standard output")?).lines();
        let line = match timeout(START, output.next_line()).await {
            Ok(Ok(Some(line))) => line,
            _ => bail!(
                "the host did not come up: {}",
                fs::read_to_string(&errors).unwrap_or_default().trim()
            ),
        };
        let ready_in = started.elapsed();
        let address = line
            .strip_prefix("listening on http://")
            .with_context(|| format!("the first line is {line:?}"))?;
        Ok(Self { child, address: address.trim().parse()?, ready_in, errors, _output: output })
    }

    pub(crate) fn id(&self) -> Result<u32> {
        self.child.id().context("the host has ended")
    }

    /// What the host wrote on standard error so far.
    pub(crate) fn complaints(&self) -> String {
        fs::read_to_string(&self.errors).unwrap_or_default()
    }

    /// Asks the host to stop and waits until it has.
    pub(crate) async fn stop(mut self) -> Result<()> {
        let id = self.id()?.to_string();
        ensure!(
            Blocking::new("kill").args(["-TERM", &id]).status()?.success(),
            "cannot signal the host"
        );
        let status =
            timeout(START, self.child.wait()).await.context("the host does not stop")??;
        ensure!(status.success(), "the host stopped with {status}");
        Ok(())
    }
}
