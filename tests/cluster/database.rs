//! A PostgreSQL that one test has to itself: it may crash and come back.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::host::signal_process;
use crate::server::{self, PASSWORD, USER};

/// Reached only when something hangs.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Database {
    folder: PathBuf,
    programs: PathBuf,
    pub(crate) port: u16,
    /// Their standard input is the server's life. One that has crashed leaves its shell.
    shells: Vec<Child>,
}

/// A command of PostgreSQL, as somebody who is not root.
fn command(program: &Path) -> Result<Command> {
    let mut command = Command::new(program);
    if let Some((user, group)) = server::owner()? {
        command.uid(user).gid(group);
    }
    command.current_dir("/").env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C.UTF-8");
    Ok(command)
}

fn run(mut command: Command) -> Result<()> {
    let output = command.output()?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn folder() -> Result<PathBuf> {
    let folder = tempfile::Builder::new().prefix("callboard-pg-").tempdir()?.keep();
    if let Some((user, group)) = server::owner()? {
        chown(&folder, Some(user), Some(group))?;
    }
    Ok(folder)
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

impl Database {
    /// None where PostgreSQL is not installed.
    pub(crate) fn start() -> Result<Option<Self>> {
        // Says so, or fails where it is required.
        if server::server()?.is_none() {
            return Ok(None);
        }
        let programs = server::programs().context("no programs")?;
        let folder = folder()?;
        let password = folder.join("password");
        std::fs::write(&password, PASSWORD)?;
        let mut make = command(&programs.join("initdb"))?;
        make.args(["--no-sync", "--encoding=UTF8", "--auth=scram-sha-256", "--username", USER]);
        make.arg("--pwfile").arg(&password).arg("--pgdata").arg(folder.join("data"));
        run(make)?;
        let mut database = Self { folder, programs, port: free_port()?, shells: Vec::new() };
        database.come_up()?;
        Ok(Some(database))
    }

    pub(crate) fn come_up(&mut self) -> Result<()> {
        // When this process ends, so does the shell's input, and then the server and its folder.
        let script = "folder=$1 program=$2 port=$3; shift 3; \
             \"$program\" -D \"$folder/data\" -p \"$port\" -c unix_socket_directories= -c listen_addresses=127.0.0.1 \
             -c fsync=off -c max_connections=200 -c shared_buffers=32MB \"$@\" >>\"$folder/log\" 2>&1 & \
             read -r _; kill -INT $! 2>/dev/null; wait $!; rm -rf \"$folder\"";
        let mut shell = command(Path::new("/bin/sh"))?;
        shell.args(["-c", script, "sh"]).arg(&self.folder).arg(self.programs.join("postgres"));
        shell.arg(self.port.to_string());
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        self.shells.push(shell.spawn()?);
        Ok(())
    }

    /// Ends the server as a power cut would, and waits until nothing of it is left.
    pub(crate) fn crash(&self) -> Result<()> {
        let status = std::fs::read_to_string(self.folder.join("data/postmaster.pid"))?;
        let server: u32 = status.lines().next().context("no process")?.trim().parse()?;
        let children = std::fs::read_to_string(format!("/proc/{server}/task/{server}/children"))?;
        signal_process(server, "KILL")?;
        // What served the connections notices it and goes, too; before that no other server starts here.
        let deadline = Instant::now() + PATIENCE;
        let is_there = |child: &str| Path::new("/proc").join(child).exists();
        while children.split_whitespace().any(is_there) {
            ensure!(Instant::now() < deadline, "the server does not end");
            std::thread::yield_now();
        }
        // It is not waited for by its shell, so its number would still look taken.
        Ok(std::fs::remove_file(self.folder.join("data/postmaster.pid"))?)
    }

    pub(crate) fn address(&self) -> String {
        format!("postgres://{USER}:{PASSWORD}@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        for shell in &mut self.shells {
            drop(shell.stdin.take());
        }
        for shell in &mut self.shells {
            let _ended = shell.wait();
        }
    }
}
