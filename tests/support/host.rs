//! One `callboard serve` as a process of its own. It ends with the value that stands for it.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// The key that every host of these tests is started with: it may do everything.
pub(crate) const KEY: &str = "cbtest_everything";

/// Much longer than a start or an end takes on a loaded machine; reached only when something hangs.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Host {
    child: Child,
    url: String,
    log: Arc<Mutex<String>>,
    /// Speaks when standard error closes, which is when the process is gone.
    ended: mpsc::Receiver<()>,
}

impl Host {
    /// Starts a host on a free port, or on the one that `--listen` names, and waits until it serves.
    pub(crate) fn start(data: &Path, arguments: &[&str]) -> Result<Self> {
        let mut command = serve(data);
        command.args(["--api-key", KEY, "--test-seams"]).args(arguments);
        Self::of(command)
    }

    /// Starts a host, or a console, as the command says, and waits until it serves.
    pub(crate) fn of(mut command: Command) -> Result<Self> {
        let mut child = command.spawn().context("the binary does not start")?;
        let (log, ended) = collect(child.stderr.take().context("no standard error")?);
        let lines = first_line(child.stdout.take().context("no standard output")?);
        // From here on a failure ends the process too.
        let mut host = Self { child, url: String::new(), log, ended };
        match lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                let url = line.trim_end();
                let url = url.strip_prefix("listening on ").unwrap_or(url);
                let is_address = url.starts_with("http://") || url.starts_with("https://");
                ensure!(is_address, "an unexpected first line: {url}");
                url.clone_into(&mut host.url);
                Ok(host)
            }
            Err(_) => bail!("the host does not listen: {}", host.log()),
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Everything that it said on standard error so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends a signal that is not meant to end it.
    pub(crate) fn signal(&self, signal: &str) -> Result<()> {
        signal_process(self.id(), signal)
    }

    /// Sends the signal and waits for the end.
    pub(crate) fn stop(mut self, signal: &str) -> Result<ExitStatus> {
        self.signal(signal)?;
        if self.ended.recv_timeout(PATIENCE).is_err() {
            bail!("the host does not end: {}", self.log());
        }
        Ok(self.child.wait()?)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `callboard serve` on a data folder and a free port, in an environment that says nothing.
pub(crate) fn serve(data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
    command.env_clear().env("CALLBOARD_LISTEN", "127.0.0.1:0").args(["serve", "--data"]).arg(data);
    command.current_dir(data.parent().unwrap_or(Path::new("/")));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn signal_process(id: u32, signal: &str) -> Result<()> {
    let status = Command::new("kill").arg(format!("-{signal}")).arg(id.to_string()).status()?;
    if status.success() { Ok(()) } else { bail!("no signal {signal} to {id}") }
}

type Collected = (Arc<Mutex<String>>, mpsc::Receiver<()>);

fn collect(mut from: impl Read + Send + 'static) -> Collected {
    let text = Arc::new(Mutex::new(String::new()));
    let sink = Arc::clone(&text);
    let (end, ended) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let read = String::from_utf8_lossy(&bytes[..count]).into_owned();
            sink.lock().unwrap_or_else(PoisonError::into_inner).push_str(&read);
        }
        // Nobody waits for a host that is dropped.
        let _ = end.send(());
    });
    (text, ended)
}

/// Reads on after the first line, so that the pipe stays open for the host.
fn first_line(from: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (send, line) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let mut lines = BufReader::new(from).lines();
        if let Some(Ok(first)) = lines.next() {
            // Nobody listens if the start was given up.
            let _ = send.send(first);
        }
        lines.count()
    });
    line
}
