//! A person's terminal: a folder, an environment that says nothing, and what a command showed there.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use regex::Regex;
use tempfile::TempDir;

use crate::support::definitions;
use crate::support::host::{Host, KEY};

/// What differs from one run of the tests to the next, and what stands in its place.
const VARYING: [(&str, &str); 11] = [
    (r"run_[0-9a-f]{32}", "[run]"),
    (r"run_[0-9a-f]+…", "[run]…"),
    (r"key_[0-9a-f]{32}", "[key-id]"),
    (r"cb(test)?_[A-Za-z0-9_-]{43}", "[key]"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "[time]"),
    // A number before the time is the event's, and stays.
    (r"(?m)^( *\d+ )? *\d+\.\d\ds ", "$1  [at] "),
    (r"\b(\d+ ms|\d+\.\d\d s) *", "[took] "),
    // The column is as wide as its longest time.
    (r"TOOK +", "TOOK  "),
    (r"\d+\.\d GiB free", "[space] free"),
    (r"(?m) +$", ""),
    // Which are installed is up to the machine.
    (r"(?m)(^[✓!○] coding agent .*\n)+", "○ coding agent   [whichever]\n"),
];

#[derive(Debug, Clone)]
pub(crate) struct Terminal {
    folder: Rc<TempDir>,
    url: Option<String>,
}

impl Terminal {
    /// A fresh folder with the test's workflows in `workflows/`.
    pub(crate) fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        for name in ["workflows", "tmp"] {
            std::fs::create_dir(folder.path().join(name))?;
        }
        definitions::write(&folder.path().join("workflows"))?;
        Ok(Self { folder: Rc::new(folder), url: None })
    }

    /// The same terminal, with a host's address and key in its environment.
    pub(crate) fn at(&self, url: &str) -> Self {
        Self { folder: self.folder.clone(), url: Some(url.to_owned()) }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn host(&self, arguments: &[&str]) -> Result<Host> {
        let workflows = self.path("workflows");
        let workflows = workflows.to_str().context("a folder with a plain name")?;
        Host::start(&self.path("data"), &[&["--workflows", workflows], arguments].concat())
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> Result<()> {
        Ok(std::fs::write(self.path(name), text)?)
    }

    pub(crate) fn read(&self, name: &str) -> Result<String> {
        Ok(std::fs::read_to_string(self.path(name))?)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
        command.env_clear().env("COLUMNS", "100").env("TMPDIR", self.path("tmp"));
        if let Ok(path) = std::env::var("PATH") {
            command.env("PATH", path);
        }
        if let Some(url) = &self.url {
            command.env("CALLBOARD_URL", url).env("CALLBOARD_API_KEY", KEY);
        }
        command.args(arguments).current_dir(self.folder());
        command
    }

    /// Exit code, standard output and standard error as one text that is the same every time.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<String> {
        self.run_with("", arguments)
    }

    /// The same with this text on standard input.
    pub(crate) fn run_with(&self, input: &str, arguments: &[&str]) -> Result<String> {
        let mut command = assert_cmd::Command::from_std(self.command(arguments));
        let output = command.write_stdin(input).output()?;
        let code = output.status.code().context("ended by a signal")?;
        let (out, err) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
        self.settle(&format!("exit: {code}\n--- stdout\n{out}--- stderr\n{err}"))
    }

    /// Standard output of a command that must succeed.
    pub(crate) fn output(&self, arguments: &[&str]) -> Result<String> {
        let output = self.command(arguments).output()?;
        if !output.status.success() {
            bail!(
                "{arguments:?} ended with {}: {}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Waits until the run's log says that something is asked.
    pub(crate) fn wait_for_question(&self, run: &str) -> Result<()> {
        let mut follower = self.command(&["runs", "events", run, "--follow", "--json"]);
        let mut follower = follower.stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(follower.stdout.take().context("no standard output")?).lines();
        let is_asked = lines.map_while(Result::ok).any(|line| line.contains("node.suspended"));
        follower.kill()?;
        follower.wait()?;
        if is_asked { Ok(()) } else { bail!("{run} asks nothing") }
    }

    fn settle(&self, text: &str) -> Result<String> {
        let mut text = text.replace(&self.folder().display().to_string(), "[folder]");
        if let Some(url) = &self.url {
            text = text.replace(url, "[host]");
        }
        for (varying, stands_for) in VARYING {
            text = Regex::new(varying)?.replace_all(&text, stands_for).into_owned();
        }
        Ok(text)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }
}
