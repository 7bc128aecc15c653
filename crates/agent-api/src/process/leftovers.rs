//! A record of running groups, so that a host that crashed leaves nothing behind.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::group::{Kernel, Push, Signals};
use super::scratch::private_folder;

/// A folder with one file per running agent.
///
/// Give it to [`crate::CliConfig::leftovers`] and call [`Leftovers::clean_up`] when the host starts. A file names
/// a process group by its number and by the moment its leader started, so that a number that was given to
/// another process since is left alone. Without `/proc` they cannot be distinguished, and nothing is ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftovers {
    folder: PathBuf,
}

/// The version answers for a stored form: another version is left alone, whatever it says. Fields that are
/// added must be optional; a reader ignores those that it does not know.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    version: u32,
    group: i32,
    /// In the kernel's ticks since boot.
    started: u64,
    boot: String,
    host: i32,
    host_started: u64,
}

const VERSION: u32 = 1;

impl Leftovers {
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Ends what earlier hosts left running; answers how many groups that were. What a host that is still
    /// alive runs is not touched.
    pub fn clean_up(&self) -> io::Result<usize> {
        self.end(|processes, entry| processes.judge(entry))
    }

    /// Ends what the process `host` runs, also while it lives: for whoever watches it and finds it frozen.
    pub fn end_of(&self, host: u32) -> io::Result<usize> {
        self.end(|processes, entry| {
            if u32::try_from(entry.host).is_ok_and(|id| id == host) {
                processes.judge_group(entry)
            } else {
                Judgement::HostLives
            }
        })
    }

    fn end(&self, judge: impl Fn(&Processes, &Entry) -> Judgement) -> io::Result<usize> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            other => other?,
        };
        let proc = Processes::look();
        let mut ended = 0;
        for file in entries {
            let path = file?.path();
            if path.extension().is_none_or(|extension| extension != "agent") {
                continue;
            }
            let Some(entry) = read(&path) else { continue };
            match judge(&proc, &entry) {
                Judgement::HostLives => continue,
                Judgement::Left => {
                    Kernel.push(entry.group, Push::Force);
                    ended += 1;
                }
                Judgement::Gone => {}
            }
            match fs::remove_file(&path) {
                // Its host has noticed the end as well.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => other?,
            }
        }
        Ok(ended)
    }

    /// Remembers a group until the record is dropped.
    pub(crate) fn record(&self, group: i32) -> io::Result<Option<Record>> {
        let host = i32::try_from(std::process::id()).unwrap_or_default();
        let (Some(boot), Some(leader), Some(us)) = (boot(), process(group), process(host)) else {
            return Ok(None);
        };
        let entry = Entry {
            version: VERSION,
            group,
            started: leader.started,
            boot,
            host,
            host_started: us.started,
        };
        private_folder(&self.folder)?;
        let path = self.folder.join(format!("{group}-{}.agent", leader.started));
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        file.write_all(&serde_json::to_vec(&entry)?)?;
        Ok(Some(Record { path }))
    }
}

/// A file that is removed when its group is over.
#[derive(Debug)]
pub(crate) struct Record {
    path: PathBuf,
}

impl Record {
    /// Leaves the file for the next host, because the group may still run.
    pub(crate) fn keep(mut self) {
        self.path = PathBuf::new();
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if self.path.as_os_str().is_empty() {
            return;
        }
        // A file that stays names a group that is gone, which the next clean-up finds out.
        let _ = fs::remove_file(&self.path);
    }
}

fn read(path: &Path) -> Option<Entry> {
    let entry: Entry = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    (entry.version == VERSION && entry.group > 1).then_some(entry)
}

#[derive(Debug, PartialEq, Eq)]
enum Judgement {
    HostLives,
    Left,
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    id: i32,
    group: i32,
    started: u64,
    is_dead: bool,
}

/// The processes of this moment.
#[derive(Debug, Default)]
struct Processes {
    boot: Option<String>,
    all: Vec<Process>,
}

impl Processes {
    fn look() -> Self {
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let all = all.filter_map(|entry| process(entry.file_name().to_str()?.parse().ok()?));
        Self { boot: boot(), all: all.collect() }
    }

    fn find(&self, id: i32) -> Option<Process> {
        self.all.iter().copied().find(|process| process.id == id)
    }

    fn judge(&self, entry: &Entry) -> Judgement {
        if self.boot.as_ref() != Some(&entry.boot) {
            return Judgement::Gone;
        }
        // One that has exited and is not reaped yet does nothing any more.
        let is_host = |host: Process| host.started == entry.host_started && !host.is_dead;
        if self.find(entry.host).is_some_and(is_host) {
            return Judgement::HostLives;
        }
        self.judge_group(entry)
    }

    /// Whether the group still runs, whoever its host is.
    fn judge_group(&self, entry: &Entry) -> Judgement {
        if self.boot.as_ref() != Some(&entry.boot) {
            return Judgement::Gone;
        }
        let was_given_away =
            self.find(entry.group).is_some_and(|leader| leader.started != entry.started);
        let has_members = self.all.iter().any(|process| {
            process.group == entry.group && process.started >= entry.started && !process.is_dead
        });
        if has_members && !was_given_away { Judgement::Left } else { Judgement::Gone }
    }
}

/// Which boot of the machine this is.
fn boot() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

fn process(id: i32) -> Option<Process> {
    parse_stat(id, &fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
}

/// Reads group and start from a line of `/proc/<pid>/stat`. The name in parentheses may hold anything.
fn parse_stat(id: i32, stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some(Process {
        id,
        is_dead: *fields.first()? == "Z",
        group: fields.get(2)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry {
            version: VERSION,
            group: 50,
            started: 500,
            boot: "b".into(),
            host: 10,
            host_started: 100,
        }
    }

    fn alive(id: i32, group: i32, started: u64) -> Process {
        Process { id, group, started, is_dead: false }
    }

    fn judge(all: &[Process], boot: &str) -> Judgement {
        Processes { boot: Some(boot.into()), all: all.to_vec() }.judge(&entry())
    }

    #[test]
    fn a_group_is_left_when_its_host_is_gone() {
        assert_eq!(judge(&[alive(50, 50, 500)], "b"), Judgement::Left);
        // The shim has exited, what it started has not.
        assert_eq!(judge(&[alive(51, 50, 501)], "b"), Judgement::Left);
    }

    #[test]
    fn a_number_that_now_means_somebody_else_is_left_alone() {
        assert_eq!(judge(&[alive(50, 50, 900), alive(51, 50, 901)], "b"), Judgement::Gone);
        assert_eq!(judge(&[alive(50, 50, 500)], "after another boot"), Judgement::Gone);
        assert_eq!(judge(&[alive(50, 7, 500)], "b"), Judgement::Gone);
        assert_eq!(judge(&[], "b"), Judgement::Gone);
    }

    #[test]
    fn what_a_living_host_runs_is_not_touched() {
        let ours = [alive(10, 10, 100), alive(50, 50, 500)];
        assert_eq!(judge(&ours, "b"), Judgement::HostLives);
        // It is ended all the same by whoever finds the host frozen.
        let processes = Processes { boot: Some("b".into()), all: ours.to_vec() };
        assert_eq!(processes.judge_group(&entry()), Judgement::Left);
        // Killed, and its parent has not looked yet.
        let dead = Process { is_dead: true, ..alive(10, 10, 100) };
        assert_eq!(judge(&[dead, alive(50, 50, 500)], "b"), Judgement::Left);
        // The host's number was given away: it is dead.
        let others = [alive(10, 10, 999), alive(50, 50, 500)];
        assert_eq!(judge(&others, "b"), Judgement::Left);
    }

    #[test]
    fn a_stat_line_is_read_past_any_name() {
        let stat = "51 (a) b (c) S 1 50 50 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 501 0 0";
        assert_eq!(parse_stat(51, stat), Some(alive(51, 50, 501)));
        assert_eq!(parse_stat(51, "51 (x) S 1"), None);
        assert_eq!(parse_stat(51, ""), None);
    }
}
