//! A private PostgreSQL from the operating system's packages: on loopback, in a temporary folder, one for each test
//! process. It ends with the process, however that ends.

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio_postgres::NoTls;
use tokio_util::task::TaskTracker;

pub(crate) const USER: &str = "callboard";
pub(crate) const PASSWORD: &str = "not-a-secret";

pub(crate) struct Server {
    pub(crate) port: u16,
    /// Its standard input is the server's life.
    _shell: Child,
}

/// The server of this process; none where PostgreSQL is not installed.
pub(crate) fn server() -> anyhow::Result<Option<&'static Server>> {
    static SERVER: OnceLock<Result<Option<Server>, String>> = OnceLock::new();
    let started = SERVER.get_or_init(|| Server::start().map_err(|error| format!("{error:#}")));
    started.as_ref().map(Option::as_ref).map_err(|error| anyhow::anyhow!("no PostgreSQL: {error}"))
}

impl Server {
    fn start() -> anyhow::Result<Option<Self>> {
        let Some(programs) = programs() else {
            let required = std::env::var("CALLBOARD_TEST_REQUIRE").unwrap_or_default();
            ensure!(!required.contains("postgres"), "PostgreSQL is not installed");
            // Written to the terminal itself: a test that passes shows nothing else.
            writeln!(io::stderr(), "PostgreSQL is not installed: its tests are skipped")?;
            return Ok(None);
        };
        let folder = tempfile::Builder::new().prefix("callboard-pg-").tempdir()?.keep();
        let owner = owner()?;
        if let Some((user, group)) = owner {
            chown(&folder, Some(user), Some(group))?;
        }
        let command = |program: &Path| {
            let mut command = Command::new(program);
            if let Some((user, group)) = owner {
                command.uid(user).gid(group);
            }
            command
                .current_dir("/")
                .env_clear()
                .env("PATH", "/usr/bin:/bin")
                .env("LC_ALL", "C.UTF-8");
            command
        };
        let password = folder.join("password");
        std::fs::write(&password, PASSWORD)?;
        let made = command(&programs.join("initdb"))
            .args(["--no-sync", "--encoding=UTF8", "--auth=scram-sha-256", "--username", USER])
            .arg("--pwfile")
            .arg(&password)
            .arg("--pgdata")
            .arg(folder.join("data"))
            .output()?;
        ensure!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        // When this process ends, so does the shell's input, and then the server and its folder.
        let script = "\"$1\" -D \"$2/data\" -p \"$3\" -k \"$2\" -c listen_addresses=127.0.0.1 -c fsync=off \
             -c full_page_writes=off -c max_connections=400 -c shared_buffers=64MB >\"$2/log\" 2>&1 & \
             read -r _; kill -INT $!; wait $!; rm -rf \"$2\"";
        let shell = command(Path::new("/bin/sh"))
            .args(["-c", script, "sh"])
            .arg(programs.join("postgres"))
            .arg(&folder)
            .arg(port.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Some(Self { port, _shell: shell }))
    }

    pub(crate) fn address(&self, database: &str) -> String {
        format!("postgres://{USER}:{PASSWORD}@127.0.0.1:{}/{database}", self.port)
    }

    /// Runs statements in a database of this server.
    pub(crate) async fn execute(&self, database: &str, sql: &str) -> anyhow::Result<()> {
        let (client, connection) = connect(&self.address(database)).await?;
        let ran = client.batch_execute(sql).await;
        drop(client);
        connection.await??;
        Ok(ran?)
    }

    /// A database that nobody else uses, made as a copy of `template`. Answers its address.
    pub(crate) async fn database(&self, template: &str) -> anyhow::Result<String> {
        static DATABASES: AtomicU32 = AtomicU32::new(0);
        let name = format!("db{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        let sql = format!("CREATE DATABASE {name} TEMPLATE {template}");
        let mut tries = 0;
        // A template is copied only while nobody is connected to it, and other tests copy it, too.
        while let Err(error) = self.execute("postgres", &sql).await {
            tries += 1;
            ensure!(tries < 100, "{error:#}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(self.address(&name))
    }
}

type Connection = tokio::task::JoinHandle<Result<(), tokio_postgres::Error>>;

/// A connection that no store knows of; a server that is still starting is waited for.
pub(crate) async fn connect(address: &str) -> anyhow::Result<(tokio_postgres::Client, Connection)> {
    let mut tries = 0;
    loop {
        match tokio_postgres::connect(address, NoTls).await {
            Ok((client, connection)) => return Ok((client, TaskTracker::new().spawn(connection))),
            Err(error) => {
                tries += 1;
                ensure!(tries < 400, "{error:#}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Ends every other connection to the database of this address, as a restart of the server would.
pub(crate) async fn end_connections(address: &str) -> anyhow::Result<()> {
    let (client, _connection) = connect(address).await?;
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()";
    client.query(end, &[]).await?;
    Ok(())
}

/// The folder with the server's programs: the newest that is installed.
pub(crate) fn programs() -> Option<PathBuf> {
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    folders.sort();
    folders.reverse();
    folders.extend(std::env::split_paths(&on_path));
    folders
        .into_iter()
        .find(|folder| folder.join("initdb").exists() && folder.join("postgres").exists())
}

/// Whom the server runs as: PostgreSQL refuses to be root.
pub(crate) fn owner() -> anyhow::Result<Option<(u32, u32)>> {
    let own = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self")?);
    if own != 0 {
        return Ok(None);
    }
    let users = std::fs::read_to_string("/etc/passwd")?;
    let find = |name: &str| {
        let mut fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let fields = fields.find(|fields| fields.first() == Some(&name))?;
        Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
    };
    find("postgres").or_else(|| find("nobody")).map(Some).context("no user to run PostgreSQL as")
}
