//! Benchmarks of the release binary, in one run with what the machine can do without it.

mod bare;
mod console;
mod definitions;
mod fires;
mod lists;
mod live;
mod load;
pub(crate) mod measure;
pub(crate) mod paths;
mod postgres;
mod raw;
pub(crate) mod report;
mod stages;
mod steps;
mod together;
mod watch;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::ValueEnum as _;

use crate::child::{self, Profile};
use crate::{say, workspace};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Measure less of everything, in a few minutes
    #[arg(long)]
    quick: bool,
    /// Put the figures into docs/background/performance.md
    #[arg(long)]
    write: bool,
    /// The binary to measure; built in the release profile when not given
    #[arg(long, value_name = "PATH")]
    bin: Option<PathBuf>,
    /// Measure one part alone
    #[arg(long, value_name = "PART", conflicts_with = "write")]
    only: Option<Part>,
    /// Another binary, such as that of an earlier commit, to compare what clients do with, by turns
    #[arg(long, value_name = "PATH")]
    against: Option<PathBuf>,
    /// Measure hosts on a PostgreSQL of Debian's packages instead, beside the same rows without a host
    #[arg(long, conflicts_with_all = ["write", "only", "against"])]
    postgres: bool,
    /// Serve the bytes of a file; what the benchmark compares reads with
    #[arg(long, value_name = "PATH", hide = true)]
    serve_bare: Option<PathBuf>,
}

/// What can be measured alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// No-op runs beside bare SQLite, chains, streams, fan-out
    Runs,
    /// Posts and schedules
    Fires,
    /// Live agents
    Live,
    /// What clients do: create, follow, poll, read, list
    Paths,
    /// Lists with each filter, among few runs and among many
    Lists,
    /// Pages of the console beside the API
    Console,
}

/// How much of everything.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// Runs at concurrency 1, 16 and 64.
    pub(crate) runs: [usize; 3],
    /// How often raw limit and host are measured by turns.
    pub(crate) turns: usize,
    /// Runs in the database when memory is read again.
    pub(crate) held_runs: usize,
    pub(crate) streams: usize,
    pub(crate) starts: usize,
    /// How often the short and the long loop are timed.
    pub(crate) rounds: usize,
    /// Signed posts from outside, and as many creations to compare them with.
    pub(crate) posts: usize,
    /// Schedules that are due at one moment, and others that only wait.
    pub(crate) due: usize,
    pub(crate) waiting: usize,
    /// Runs that remember a thousand things each.
    pub(crate) fills: usize,
    /// Runs in the database when lists are read again.
    pub(crate) listed: usize,
    pub(crate) quick: bool,
}

const FULL: Scale = Scale {
    runs: [2_000, 8_000, 20_000],
    turns: 3,
    held_runs: 10_000,
    streams: 2_000,
    starts: 7,
    rounds: 9,
    posts: 20_000,
    due: 10_000,
    waiting: 100_000,
    fills: 100,
    listed: 1_000_000,
    quick: false,
};

const QUICK: Scale = Scale {
    runs: [300, 1_500, 4_000],
    turns: 1,
    held_runs: 10_000,
    streams: 500,
    starts: 3,
    rounds: 5,
    posts: 4_000,
    due: 2_000,
    waiting: 10_000,
    fills: 10,
    listed: 30_000,
    quick: true,
};

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if let Some(path) = &options.serve_bare {
        bare::serve(path)?;
        return Ok(ExitCode::SUCCESS);
    }
    let root = workspace::root()?;
    // A binary that was given, measured a little: it is only tried whether everything runs.
    let is_trial = options.postgres && options.quick && options.bin.is_some();
    if cfg!(debug_assertions) && !is_trial {
        // The generator shares the cores with the host: an unoptimised one would measure itself.
        return again_in_release(&root, options);
    }
    let binary = match &options.bin {
        Some(path) => path.canonicalize().with_context(|| path.display().to_string())?,
        None => child::build(&root, Profile::Release)?,
    };
    let against = options.against.as_ref().map(|path| path.canonicalize()).transpose()?;
    let scale = if options.quick { QUICK } else { FULL };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Beside the build output, so that the disk is the project's and not a memory file system.
    let folder = tempfile::tempdir_in(workspace::target(&root)?)?;
    if options.postgres {
        say::line(runtime.block_on(postgres::measure(&binary, folder.path(), scale))?);
        return Ok(ExitCode::SUCCESS);
    }
    let figures = runtime.block_on(measure::all(
        &binary,
        against.as_deref(),
        folder.path(),
        scale,
        options.only,
    ))?;
    let table = report::table(&figures);
    say::line(&table);
    if options.write {
        report::write(&root, &table)?;
        say::line(format_args!("written to {}", report::PAGE));
    }
    Ok(ExitCode::SUCCESS)
}

fn again_in_release(root: &Path, options: &Options) -> Result<ExitCode> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // Together with the host: alone this program would give its dependencies other features, and have them built again.
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--package", "callboard", "--package", "xtask"])
        .current_dir(root)
        .status()?;
    anyhow::ensure!(built.success(), "the binaries do not build");
    let mut command = Command::new(workspace::target(root)?.join("release/xtask"));
    command.arg("bench").current_dir(root);
    if options.quick {
        command.arg("--quick");
    }
    if options.write {
        command.arg("--write");
    }
    if options.postgres {
        command.arg("--postgres");
    }
    if let Some(part) = options.only.and_then(|part| part.to_possible_value()) {
        command.arg("--only").arg(part.get_name());
    }
    if let Some(binary) = &options.bin {
        command.arg("--bin").arg(binary.canonicalize()?);
    }
    if let Some(binary) = &options.against {
        command.arg("--against").arg(binary.canonicalize()?);
    }
    let status = command.status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
