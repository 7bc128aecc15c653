//! Hosts on one PostgreSQL under random faults, for as long as asked: the test of the binary that does it, in a loop of
//! its own.

use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::workspace;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// For how long faults happen; what was done is looked through afterwards
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=10_080))]
    minutes: u64,
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(2..=20))]
    hosts: u64,
    /// Other faults at other moments; a failure names it
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Build in the release profile
    #[arg(long)]
    release: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["test", "--quiet", "--package", "callboard", "--test", "cluster"]);
    if options.release {
        command.arg("--release");
    }
    command.args(["--", "--nocapture", "hosts_under_random_faults"]);
    command.current_dir(workspace::root()?).env("CALLBOARD_TEST_REQUIRE", "postgres");
    command.env("CALLBOARD_SOAK_MINUTES", options.minutes.to_string());
    command.env("CALLBOARD_SOAK_HOSTS", options.hosts.to_string());
    if let Some(seed) = options.seed {
        command.env("CALLBOARD_TEST_SEED", seed.to_string());
    }
    Ok(if command.status()?.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
