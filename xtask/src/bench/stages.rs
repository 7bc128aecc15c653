//! Where the processor time of a host goes while it is under load: `perf` looks at it some hundred times a second, and
//! each look counts for the stage that is on the stack.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::process::{Child, Command};

/// Often enough for one per cent of a second of load, seldom enough not to be the load.
const LOOKS_PER_SECOND: &str = "499";
/// Stacks of futures within futures are deep. They are unwound by what every binary says of its frames, so that neither
/// frame pointers nor debug information are needed.
const STACK: &str = "dwarf,32768";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Accept,
    SocketRead,
    Http,
    Gate,
    Answer,
    Engine,
    Store,
    SocketWrite,
    Runtime,
    Other,
}

pub(crate) const STAGES: [(Stage, &str); 10] = [
    (Stage::Accept, "accept"),
    (Stage::SocketRead, "read"),
    (Stage::Http, "HTTP"),
    (Stage::Gate, "gate"),
    (Stage::Answer, "parse and answer"),
    (Stage::Engine, "engine"),
    (Stage::Store, "store"),
    (Stage::SocketWrite, "write"),
    (Stage::Runtime, "wait and wake"),
    (Stage::Other, "other"),
];

/// Calls of the kernel. Whatever happens in one of them counts for it.
const CALLS: [(&str, Stage); 14] = [
    ("sys_accept", Stage::Accept),
    ("sys_recv", Stage::SocketRead),
    ("sys_send", Stage::SocketWrite),
    ("eventfd_write", Stage::Runtime),
    ("sock_write_iter", Stage::SocketWrite),
    ("sys_pwrite64", Stage::Store),
    ("sys_pread64", Stage::Store),
    ("sys_fdatasync", Stage::Store),
    ("sys_fsync", Stage::Store),
    ("sys_fcntl", Stage::Store),
    ("sys_futex", Stage::Runtime),
    ("sys_epoll", Stage::Runtime),
    ("sys_sched_yield", Stage::Runtime),
    ("sys_read", Stage::Runtime),
];

/// Parts of the program. The innermost one counts: a library's frame belongs to whoever called it.
const PARTS: [(&str, Stage); 13] = [
    ("sqlite3", Stage::Store),
    ("rusqlite", Stage::Store),
    ("callboard_store", Stage::Store),
    ("callboard_engine", Stage::Engine),
    ("callboard_core", Stage::Engine),
    ("callboard_server::gate", Stage::Gate),
    ("callboard_server::keys", Stage::Gate),
    ("callboard_server::rate", Stage::Gate),
    ("callboard_server::share", Stage::Gate),
    ("callboard_server::load", Stage::Gate),
    ("callboard_server::observe", Stage::Gate),
    ("callboard_server::serve", Stage::Http),
    ("callboard_", Stage::Answer),
];

/// How many looks found the host in each stage, in the order of `STAGES`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Shares {
    looks: [u32; STAGES.len()],
}

impl Shares {
    fn add(&mut self, stage: Stage) {
        if let Some(place) = STAGES.iter().position(|(known, _)| *known == stage) {
            self.looks[place] += 1;
        }
    }

    /// The stages as parts of what one operation takes; none where nothing was seen.
    pub(crate) fn of(&self, whole: Duration) -> Vec<(&'static str, Duration)> {
        let all: u32 = self.looks.iter().sum();
        let named = STAGES.iter().zip(self.looks).filter(|(_, looks)| *looks > 0);
        named.map(|((_, name), looks)| (*name, whole * looks / all)).collect()
    }
}

/// A look at a process that goes on.
#[derive(Debug)]
pub(crate) struct Watched {
    perf: Child,
    data: std::path::PathBuf,
}

/// None where the machine has no `perf`, or does not let it look.
pub(crate) async fn watch(process: u32, folder: &Path) -> Result<Option<Watched>> {
    let works = Command::new("perf")
        .args(["record", "-q", "-e", "cpu-clock", "-o", "/dev/null", "true"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .await;
    if !works.is_ok_and(|status| status.success()) {
        return Ok(None);
    }
    let data = folder.join("perf.data");
    let perf = Command::new("perf")
        .args(["record", "-q", "-e", "cpu-clock", "-F", LOOKS_PER_SECOND, "--call-graph", STACK])
        .arg("-p")
        .arg(process.to_string())
        .arg("-o")
        .arg(&data)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    Ok(Some(Watched { perf, data }))
}

impl Watched {
    pub(crate) async fn end(mut self) -> Result<Shares> {
        let id = self.perf.id().context("perf has ended by itself")?;
        let asked = Command::new("kill").args(["-INT", &id.to_string()]).status().await?;
        anyhow::ensure!(asked.success(), "perf cannot be ended");
        self.perf.wait().await?;
        let told = Command::new("perf")
            .args(["script", "--no-inline", "-F", "comm,ip,sym", "-i"])
            .arg(&self.data)
            .stderr(Stdio::null())
            .output()
            .await?;
        let _gone = std::fs::remove_file(&self.data);
        Ok(shares(&String::from_utf8_lossy(&told.stdout)))
    }
}

/// Reads what `perf script` says: a line with the thread's name, one line for each frame, the innermost first, and an empty
/// line.
fn shares(told: &str) -> Shares {
    let mut shares = Shares::default();
    for look in told.split("\n\n").filter(|look| !look.trim().is_empty()) {
        let frames: Vec<&str> = look.lines().skip(1).map(symbol).collect();
        shares.add(stage(&frames));
    }
    shares
}

/// A frame is its address and its name.
fn symbol(frame: &str) -> &str {
    frame.trim_start().split_once(' ').map_or("", |(_, name)| name)
}

fn stage(frames: &[&str]) -> Stage {
    let named = |known: &[(&str, Stage)], frame: &str| {
        known.iter().find(|(name, _)| frame.contains(name)).map(|(_, stage)| *stage)
    };
    let call = frames.iter().find_map(|frame| named(&CALLS, frame));
    // The store's thread waits for work as others do; whatever else it does is its own.
    let part = || frames.iter().find_map(|frame| named(&PARTS, frame));
    let library = || {
        frames
            .iter()
            .find_map(|frame| named(&[("hyper", Stage::Http), ("tokio", Stage::Runtime)], frame))
    };
    call.or_else(part).or_else(library).unwrap_or(Stage::Other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_counts_for_the_innermost_part_and_calls_of_the_kernel_for_themselves() {
        for (frames, expected) in [
            (&["tcp_sendmsg", "__x64_sys_sendto", "hyper::write"][..], Stage::SocketWrite),
            (
                &["eventfd_write", "__x64_sys_write", "tokio::wake", "callboard_engine::go"],
                Stage::Runtime,
            ),
            (
                &[
                    "malloc",
                    "serde_json::to_vec",
                    "callboard_engine::drive",
                    "callboard_server::gate",
                ],
                Stage::Engine,
            ),
            (
                &["memcpy", "<callboard_server::keys::KeyRing>::look_up", "callboard_server::gate"],
                Stage::Gate,
            ),
            (&["sqlite3VdbeExec", "callboard_store::sqlite"], Stage::Store),
            (&["memcpy", "hyper::proto", "tokio::run"], Stage::Http),
            (&["__libc_start"], Stage::Other),
            (&[], Stage::Other),
        ] {
            assert_eq!(stage(frames), expected, "{frames:?}");
        }
    }

    #[test]
    fn looks_become_parts_of_an_operation() {
        let told = "tokio-rt\n\t 7f hyper::proto\n\t 80 tokio::run\n\ntokio-rt\n\t ff tcp\n\t fe __x64_sys_sendto\n\n\
                    store-writer\n\t 1 sqlite3VdbeExec\n\ntokio-rt\n\t 2 hyper::x\n\n";
        let parts = shares(told).of(Duration::from_micros(40));
        let micros = Duration::from_micros;
        assert_eq!(parts, [("HTTP", micros(20)), ("store", micros(10)), ("write", micros(10))]);
        assert!(shares("").of(Duration::from_secs(1)).is_empty());
    }
}
