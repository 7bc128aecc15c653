//! A private PostgreSQL from the operating system's packages, with its flushes on.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

const USER: &str = "callboard";

/// Dropping it ends the server.
#[derive(Debug)]
pub(super) struct Server {
    folder: TempDir,
    programs: PathBuf,
    port: u16,
    child: Child,
}

/// Whom the server runs as: PostgreSQL refuses to be root.
fn owner() -> Result<Option<(u32, u32)>> {
    let number = |arguments: &[&str]| -> Result<u32> {
        let output = Command::new("id").args(arguments).output()?;
        Ok(String::from_utf8(output.stdout)?.trim().parse()?)
    };
    if number(&["-u"])? != 0 {
        return Ok(None);
    }
    Ok(Some((number(&["-u", "postgres"])?, number(&["-g", "postgres"])?)))
}

fn command(program: &Path) -> Result<Command> {
    let mut command = Command::new(program);
    if let Some((user, group)) = owner()? {
        command.uid(user).gid(group);
    }
    command.current_dir("/").env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    Ok(command)
}

impl Server {
    pub(super) async fn start() -> Result<Self> {
        let mut versions: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
            .context("PostgreSQL is not installed")?
            .flatten()
            .map(|version| version.path().join("bin"))
            .collect();
        versions.sort();
        let programs = versions.pop().context("PostgreSQL is not installed")?;
        let folder = tempfile::Builder::new().prefix("callboard-bench-").tempdir()?;
        if let Some((user, group)) = owner()? {
            chown(folder.path(), Some(user), Some(group))?;
        }
        let data = folder.path().join("data");
        let made = command(&programs.join("initdb"))?
            .args(["--encoding=UTF8", "--auth=trust", "--username", USER, "--pgdata"])
            .arg(&data)
            .output()?;
        ensure!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let log = fs::File::create(folder.path().join("log"))?;
        let child = command(&programs.join("postgres"))?
            .arg("-D")
            .arg(&data)
            .args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"])
            .args(["-c", "unix_socket_directories=", "-c", "shared_buffers=256MB"])
            .args(["-c", "max_wal_size=4GB"])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        let server = Self { folder, programs, port, child };
        let mut tries = 0;
        while let Err(error) = server.query("postgres", "SELECT 1") {
            tries += 1;
            ensure!(tries < 200, "{error:#}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(server)
    }

    pub(super) fn address(&self, database: &str) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/{database}", self.port)
    }

    /// What one statement answers, as text.
    pub(super) fn query(&self, database: &str, sql: &str) -> Result<String> {
        let output = command(&self.programs.join("psql"))?
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d"])
            .arg(self.address(database))
            .args(["-c", sql])
            .output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    /// Runs a script of pgbench on two connections for so long; answers how often it came through.
    pub(super) fn repeat(&self, database: &str, script: &str, time: Duration) -> Result<f64> {
        let path = self.folder.path().join("script");
        fs::write(&path, script)?;
        let output = command(&self.programs.join("pgbench"))?
            .args(["-n", "-c", "2", "-j", "2", "-M", "prepared", "-T"])
            .arg(time.as_secs().max(1).to_string())
            .arg("-f")
            .arg(&path)
            .arg(self.address(database))
            .output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let rate = said.lines().find_map(|line| line.strip_prefix("tps = ")).context("no tps")?;
        Ok(rate.split(' ').next().context("no tps")?.parse()?)
    }

    /// Processor time of the server and of all that it started, also of what has ended since.
    pub(super) fn processor_time(&self) -> Result<Duration> {
        let own = self.child.id().to_string();
        let mut ticks = 0;
        for process in fs::read_dir("/proc")?.flatten() {
            // Processes come and go while they are looked at.
            let Ok(line) = fs::read_to_string(process.path().join("stat")) else { continue };
            let Some((_, fields)) = line.rsplit_once(')') else { continue };
            let fields: Vec<&str> = fields.split_whitespace().collect();
            let is_server = process.file_name().to_string_lossy() == own;
            let counted = match fields.get(1) {
                _ if is_server => fields.get(11..15),
                Some(parent) if *parent == own => fields.get(11..13),
                _ => None,
            };
            for field in counted.into_iter().flatten() {
                ticks += field.parse::<u64>()?;
            }
        }
        Ok(Duration::from_millis(ticks * 10))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}
