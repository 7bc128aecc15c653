//! Pictures of the console: a host with a morning's work, looked at in a browser by the browser tests.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Args;

use crate::workspace;

/// What the documentation shows lies beside its page.
const FOLDER: &str = "docs/guides/console";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Every screen at three widths, light and dark, into this folder, to be looked at
    #[arg(long, value_name = "FOLDER")]
    all: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let root = workspace::root()?;
    let folder = options.all.clone().unwrap_or_else(|| root.join(FOLDER));
    std::fs::create_dir_all(&folder).with_context(|| format!("{}", folder.display()))?;
    let mut command = Command::new("cargo");
    command.current_dir(&root).args(["test", "--quiet", "--test", "browser", "--"]);
    command.arg("pictures").env("CALLBOARD_SCREENSHOTS", folder.canonicalize()?);
    command.env("CALLBOARD_TEST_REQUIRE", "browser");
    if options.all.is_some() {
        command.env("CALLBOARD_SCREENSHOTS_ALL", "1");
    }
    let made = command.status().context("cargo does not start")?;
    Ok(if made.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
