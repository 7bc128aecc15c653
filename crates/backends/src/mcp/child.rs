//! A server that is a program: its small environment, its process group, its end.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use callboard_agent_api::{Launcher, find_program};

use super::{McpServer, McpWay};
use crate::folders::{private, within};

/// What any program needs of its host. Everything else stays with the host, above all its secrets.
const PASSED_ON: [&str; 20] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TERM",
    "USER",
    "LOGNAME",
    "SHELL",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// How long a server gets to end by itself once its connection is closed, and again once it was asked to.
const PATIENCE: Duration = Duration::from_secs(1);

/// A program with everything that it started. Dropping it ends them all.
#[derive(Debug)]
pub(super) struct Program {
    leader: Child,
    group: Option<Pid>,
}

/// The host's variables that are passed on, with those that the operator set on top.
pub(super) fn environment(
    host: &BTreeMap<String, String>,
    own: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let passed_on = host.iter().filter(|(name, _)| PASSED_ON.contains(&name.as_str()));
    passed_on.chain(own).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// What is started, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) program: String,
    pub(super) arguments: Vec<String>,
    pub(super) environment: BTreeMap<String, String>,
    /// None: where the host runs.
    pub(super) folder: Option<PathBuf>,
}

impl Start {
    /// Puts a launcher before a program that has a home of its own. What the operator names in the command is theirs
    /// to give: a folder to work in, a script with what lies beside it.
    pub(super) fn locked_in(
        mut self,
        launcher: &Launcher,
        home: &Path,
        server: &McpServer,
    ) -> io::Result<Self> {
        home.parent().map_or(Ok(()), private)?;
        within(home)?;
        let McpWay::Command { environment: own, .. } = &server.way else { return Ok(self) };
        for name in ["HOME", "TMPDIR"].into_iter().filter(|name| !own.contains_key(*name)) {
            self.environment.insert(name.to_owned(), home.to_string_lossy().into_owned());
        }
        let program = find_program(Path::new(&self.program), &self.environment)?;
        let mut launcher = launcher.clone();
        let mut grant = |flag: &str, path: &Path| {
            launcher.command.extend([flag.to_owned(), path.to_string_lossy().into_owned()]);
        };
        server.read.iter().for_each(|path| grant("--read", path));
        server.write.iter().for_each(|path| grant("--write", path));
        let mut is_relative = self.program.contains('/') && !self.program.starts_with('/');
        for argument in self.arguments.iter().map(Path::new).filter(|path| path.exists()) {
            is_relative |= argument.is_relative();
            let real = std::path::absolute(argument)?;
            match real.parent().filter(|_| !real.is_dir()) {
                Some(folder) => grant("--read", folder),
                None => grant("--write", &real),
            }
        }
        // Many programs read their working directory, so one that names no file in it is started in an empty one.
        self.folder = (!is_relative).then(|| home.to_owned());
        let mut words = launcher.wrap(&program, &self.arguments, &[home]).into_iter();
        self.program = words.next().unwrap_or_default();
        self.arguments = words.collect();
        Ok(self)
    }

    /// Starts the program, and hands over what it is listened to and talked to through.
    pub(super) fn run(&self) -> io::Result<(Program, ChildStdout, ChildStdin)> {
        let mut command = Command::new(&self.program);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        let mut leader = command
            .args(&self.arguments)
            .env_clear()
            .envs(&self.environment)
            .process_group(0)
            .kill_on_drop(true)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Servers write whatever they like there, secrets included.
            .stderr(Stdio::null())
            .spawn()?;
        let pipes = leader.stdout.take().zip(leader.stdin.take());
        let (output, input) = pipes.ok_or_else(|| io::Error::other("the program has no pipes"))?;
        let group = leader.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Ok((Program { leader, group }, output, input))
    }
}

impl Program {
    /// Waits for the end of a program whose input was closed, and helps it along.
    pub(super) async fn end(mut self) {
        if tokio::time::timeout(PATIENCE, self.leader.wait()).await.is_err() {
            self.push(Signal::TERM);
            // What is still there after that is forced when this is dropped.
            let _ = tokio::time::timeout(PATIENCE, self.leader.wait()).await;
        }
    }

    fn push(&self, signal: Signal) {
        if let Some(group) = self.group {
            // A group that is gone already is what we want.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.push(Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_the_host_stay_with_the_host() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
        };
        let host = map(&[
            ("PATH", "/bin"),
            ("ANTHROPIC_API_KEY", "k"),
            ("CALLBOARD_API_KEYS", "k"),
            ("AWS_SECRET_ACCESS_KEY", "k"),
        ]);
        let own = map(&[("PATH", "/own"), ("GITHUB_TOKEN", "t")]);
        assert_eq!(environment(&host, &own), map(&[("GITHUB_TOKEN", "t"), ("PATH", "/own")]));
    }
}
