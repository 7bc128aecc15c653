//! A PostgreSQL that one test has to itself: it may crash, come back, have a replica and speak TLS.

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
    settings: Vec<String>,
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
        let settings = Vec::new();
        let mut database =
            Self { folder, programs, settings, port: free_port()?, shells: Vec::new() };
        database.come_up()?;
        Ok(Some(database))
    }

    /// A server that follows this one.
    pub(crate) fn replica(&self) -> Result<Self> {
        let folder = folder()?;
        let mut copy = command(&self.programs.join("pg_basebackup"))?;
        copy.env("PGPASSWORD", PASSWORD).args([
            "-h",
            "127.0.0.1",
            "-U",
            USER,
            "-R",
            "-X",
            "stream",
        ]);
        copy.args(["--no-sync", "--checkpoint=fast", "-p"]).arg(self.port.to_string());
        copy.arg("-D").arg(folder.join("data"));
        run(copy)?;
        let (programs, settings) = (self.programs.clone(), self.settings.clone());
        let mut replica =
            Self { folder, programs, settings, port: free_port()?, shells: Vec::new() };
        replica.come_up()?;
        Ok(replica)
    }

    /// Makes the replica a server that takes writes.
    pub(crate) fn promote(&self) -> Result<()> {
        let mut promote = command(&self.programs.join("pg_ctl"))?;
        promote.args(["promote", "-w", "-t", "60", "-D"]).arg(self.folder.join("data"));
        run(promote)
    }

    /// A file that the server can read, for settings that name it.
    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.folder.join(name);
        std::fs::write(&path, bytes)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        if let Some((user, group)) = server::owner()? {
            chown(&path, Some(user), Some(group))?;
        }
        Ok(path)
    }

    /// Counts from the next start on.
    pub(crate) fn set(&mut self, setting: String) {
        self.settings.push(setting);
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
        for setting in &self.settings {
            shell.arg("-c").arg(setting);
        }
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
