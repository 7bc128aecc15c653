//! The real binary at its edges: a polite end, a start that must be refused, a disk that is full.

#[path = "support/api.rs"]
mod api;
mod support;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tempfile::TempDir;

use api::Api;
use support::definitions;
use support::host::{Host, KEY, serve, signal_process};

/// The promise to supervisors, from the signal to the end.
const ENDS_WITHIN: Duration = Duration::from_secs(13);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_with_open_streams_and_running_delays_is_clean_and_the_next_start_goes_on()
-> Result<()> {
    for signal in ["TERM", "INT"] {
        let folder = scene()?;
        let host = start(&folder)?;
        let api = Api::of(host.url())?;
        let mut runs = Vec::new();
        let mut streams = Vec::new();
        for number in 0..10 {
            let delay = if number == 0 { 60_000 } else { 2_500 };
            let body = json!({ "workflowId": "delay", "inputs": { "delayMs": delay } });
            let run = api.create(&body, &format!("{signal}-{number}")).await?;
            streams.push(open_stream(host.url(), &run).await?);
            runs.push(run);
        }
        let asked = Instant::now();
        let status = host.stop(signal)?;
        assert_eq!(status.code(), Some(0), "SIG{signal}");
        assert!(asked.elapsed() < ENDS_WITHIN, "SIG{signal}: {:?}", asked.elapsed());
        drop(streams);
        let host = start(&folder)?;
        let api = Api::of(host.url())?;
        api.act(&runs[0], "/cancel").await?;
        let mut ends = Vec::new();
        for run in &runs {
            ends.push(api.finish(run).await?);
        }
        assert_eq!(ends[0], "cancelled");
        assert!(ends[1..].iter().all(|end| end == "completed"), "SIG{signal}: {ends:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_cannot_hold_up_the_end() -> Result<()> {
    let folder = scene()?;
    let host = start(&folder)?;
    let address = host.url().strip_prefix("http://").context("an address")?;
    let mut idle = Vec::new();
    for request in [
        "",
        "GET /v1/runs HTTP/1.1\r\nHost: x\r\n",
        "POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{",
    ] {
        let mut socket = std::net::TcpStream::connect(address)?;
        std::io::Write::write_all(&mut socket, request.as_bytes())?;
        idle.push(socket);
    }
    let asked = Instant::now();
    assert_eq!(host.stop("TERM")?.code(), Some(0));
    assert!(asked.elapsed() < ENDS_WITHIN, "{:?}", asked.elapsed());
    Ok(())
}

/// A terminal that closes, a supervisor that asks for the files to be read again, a client that goes away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_that_ask_for_no_end_are_none() -> Result<()> {
    let folder = scene()?;
    let host = start(&folder)?;
    let api = Api::of(host.url())?;
    let body = json!({ "workflowId": "delay", "inputs": { "delayMs": 500 } });
    for signal in ["HUP", "USR1", "USR2", "PIPE", "HUP"] {
        let run = api.create(&body, &format!("before-{signal}-{}", host.log().len())).await?;
        host.signal(signal)?;
        assert_eq!(api.finish(&run).await?, "completed", "SIG{signal}");
    }
    assert!(host.log().contains("files reloaded"), "{}", host.log());
    assert_eq!(host.stop("TERM")?.code(), Some(0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_writes_keeps_reading_and_recovers() -> Result<()> {
    let folder = scene()?;
    let data = folder.path().join("data");
    let Some(disk) = SmallDisk::mount(&data, "size=4m")? else { return Ok(()) };
    let host = start(&folder)?;
    let api = Api::of(host.url())?;
    let body = json!({ "workflowId": "noop", "inputs": {} });
    let run = api.create(&body, "before").await?;
    api.finish(&run).await?;
    let log = api.log(&run).await?;
    let ballast = data.join("ballast");
    let _ = fs::write(&ballast, vec![0_u8; 8 * 1024 * 1024]);
    let large = json!({ "workflowId": "noop", "inputs": { "text": "x".repeat(200_000) } });
    let mut refusal = None;
    for number in 0..50 {
        if let Err(error) = api.create(&large, &format!("full-{number}")).await {
            refusal = Some(error.to_string());
            break;
        }
    }
    let refusal = refusal.context("a full disk takes everything")?;
    assert!(
        refusal.contains("507") || refusal.contains("503") || refusal.contains("500"),
        "{refusal}"
    );
    assert_eq!(api.log(&run).await?, log, "reads go on");
    fs::remove_file(&ballast)?;
    let after = api.create(&body, "after").await?;
    assert_eq!(api.finish(&after).await?, "completed", "it recovers by itself");
    assert_eq!(api.create(&body, "before").await?, run, "nothing acknowledged is lost");
    host.stop("TERM")?;
    drop(disk);
    Ok(())
}

#[test]
fn a_start_without_any_space_is_refused() -> Result<()> {
    let folder = scene()?;
    let data = folder.path().join("data");
    let Some(_disk) = SmallDisk::mount(&data, "size=16k")? else { return Ok(()) };
    let refused = refused_start(&data)?;
    assert!(refused.contains("make room"), "{refused}");
    Ok(())
}

#[test]
fn a_second_process_on_the_same_folder_is_refused() -> Result<()> {
    let folder = scene()?;
    let host = start(&folder)?;
    let refused = refused_start(&folder.path().join("data"))?;
    assert!(refused.contains("another process is using the data folder"), "{refused}");
    host.stop("TERM")?;
    start(&folder)?;
    Ok(())
}

#[test]
fn a_folder_that_cannot_be_written_is_refused() -> Result<()> {
    let folder = scene()?;
    let data = folder.path().join("data");
    let file = folder.path().join("file");
    fs::write(&file, "no folder")?;
    let refused = refused_start(&file)?;
    assert!(refused.contains("cannot be used"), "{refused}");
    fs::create_dir(&data)?;
    fs::set_permissions(&data, fs::Permissions::from_mode(0o500))?;
    // Root may write where the mode forbids it, so for root the disk itself has to refuse.
    let may_write = tempfile::tempfile_in(&data).is_ok();
    let disk = if may_write { SmallDisk::mount(&data, "ro")? } else { None };
    if disk.is_some() || !may_write {
        let refused = refused_start(&data)?;
        assert!(refused.contains("cannot be used"), "{refused}");
    }
    Ok(())
}

#[test]
fn a_damaged_database_is_reported_and_left_alone() -> Result<()> {
    let folder = scene()?;
    let database = folder.path().join("data").join("callboard.db");
    start(&folder)?.stop("TERM")?;
    let whole = fs::read(&database)?;
    let mut scribbled = whole.clone();
    scribbled[..16].copy_from_slice(b"not a database !");
    let cut = whole[..whole.len() / 2].to_vec();
    for damaged in [scribbled, cut] {
        fs::write(&database, &damaged)?;
        let refused = refused_start(&folder.path().join("data"))?;
        assert!(refused.contains("is damaged"), "{refused}");
        assert_eq!(fs::read(&database)?, damaged, "nothing was changed");
    }
    fs::write(&database, &whole)?;
    start(&folder)?;
    Ok(())
}

#[test]
fn a_port_that_is_taken_is_refused() -> Result<()> {
    let folder = scene()?;
    let taken = std::net::TcpListener::bind("127.0.0.1:0")?;
    let data = folder.path().join("data");
    let output = serve(&data).args(["--listen", &taken.local_addr()?.to_string()]).output()?;
    let said = String::from_utf8(output.stderr)?;
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("error: cannot listen on"), "{said}");
    assert!(said.contains("\nhint: another process listens there"), "{said}");
    ensure!(!data.exists(), "a start that cannot listen leaves nothing behind");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_key_is_printed_once_and_stored_only_as_a_hash() -> Result<()> {
    let folder = scene()?;
    let data = folder.path().join("data");
    let (first, _) = start_without_key(&data)?;
    let key = first
        .lines()
        .find_map(|line| line.strip_prefix("api key: "))
        .context("no key was printed")?;
    assert!(key.starts_with("cb_"), "{key}");
    assert_eq!(first.matches(key).count(), 1, "{first}");
    assert_eq!(fs::metadata(&data)?.permissions().mode() & 0o777, 0o700);
    let (second, status) = start_without_key(&data)?;
    assert!(!second.contains("api key"), "{second}");
    assert_eq!(status, Some(0));
    for entry in fs::read_dir(&data)? {
        let path = entry?.path();
        let bytes = fs::read(&path)?;
        ensure!(!contains(&bytes, key.as_bytes()), "{} holds the key", path.display());
    }
    let host = start(&folder)?;
    let client = reqwest::Client::builder().no_proxy().build()?;
    let answer = client
        .get(format!("{}/v1/host/callboard/keys", host.url()))
        .bearer_auth(key)
        .send()
        .await?;
    assert_eq!(answer.status(), 200);
    assert!(!host.log().contains(KEY), "a configured key is in the log: {}", host.log());
    Ok(())
}

fn scene() -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    fs::create_dir(folder.path().join("workflows"))?;
    definitions::write(&folder.path().join("workflows"))?;
    Ok(folder)
}

fn start(folder: &TempDir) -> Result<Host> {
    let workflows = folder.path().join("workflows");
    Host::start(
        &folder.path().join("data"),
        &["--workflows", workflows.to_str().context("a plain name")?],
    )
}

/// Starts where a start must fail, and answers what was said.
fn refused_start(data: &Path) -> Result<String> {
    let output: Output = serve(data).args(["--api-key", KEY]).output()?;
    let said = String::from_utf8(output.stderr)?;
    ensure!(output.status.code() == Some(1), "ended with {:?}: {said}", output.status);
    ensure!(output.stdout.is_empty(), "it says that it listens");
    ensure!(
        said.starts_with("error: ") && said.contains("\nhint: ") && !said.contains("panicked"),
        "{said}"
    );
    Ok(said)
}

/// A start as a new user does it; answers standard error and the exit code.
fn start_without_key(data: &Path) -> Result<(String, Option<i32>)> {
    let mut child = serve(data).spawn()?;
    let mut line = String::new();
    let stdout = child.stdout.take().context("no standard output")?;
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line)?;
    signal_process(child.id(), "TERM")?;
    let output = child.wait_with_output()?;
    ensure!(line.starts_with("listening on http://127.0.0.1:"), "{line:?}");
    Ok((String::from_utf8(output.stderr)?, output.status.code()))
}

async fn open_stream(url: &str, run: &str) -> Result<reqwest::Response> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let mut stream =
        client.get(format!("{url}/v1/runs/{run}/events")).bearer_auth(KEY).send().await?;
    stream.chunk().await?.context("the stream begins")?;
    Ok(stream)
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// A file system of its own, unmounted when it is dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// None where mounting is not permitted, with one line that says so.
    fn mount(path: &Path, options: &str) -> Result<Option<Self>> {
        fs::create_dir_all(path)?;
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(path).output();
        if mount.is_ok_and(|mount| mount.status.success()) {
            return Ok(Some(Self(path.to_owned())));
        }
        skipped("mounting a small file system is not permitted here")?;
        Ok(None)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Past the capture of test output: a skipped test must be seen.
fn skipped(why: &str) -> Result<()> {
    let required = std::env::var("CALLBOARD_TEST_REQUIRE").unwrap_or_default();
    ensure!(!required.split(',').any(|part| part.trim() == "mount"), "{why}");
    Ok(std::io::stderr().write_all(format!("skipped: {why}\n").as_bytes())?)
}
