//! Interoperability: the protocol's own fixtures and schemas against the built binary, over HTTP.

mod agents;
mod book;
mod deployments;
mod discovery;
mod expectations;
mod families;
mod files;
mod fires;
mod fixtures;
mod live;
mod memory;
mod models;
mod observations;
mod orchestras;
mod platform;
mod questions;
mod refusals;
mod requests;
mod roster;
mod schemas;
mod session;
mod streams;
mod talks;
mod transitions;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::child::{self, Host, Profile};
use crate::{say, workspace};
use book::Book;
use schemas::Schemas;
use session::Session;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The binary to test; built in the debug profile when not given
    #[arg(long, value_name = "PATH")]
    bin: Option<PathBuf>,
    /// Report only the checks whose name holds this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// Keys that the host is started with. The names say what they may do.
pub(crate) const KEY: &str = "cbtest_interop";
pub(crate) const READER: &str = "cbtest_reader";
pub(crate) const CANCELLER: &str = "cbtest_canceller";
pub(crate) const STRANGER: &str = "cbtest_stranger";

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let root = workspace::root()?;
    let data = workspace::openwop(&root);
    if !data.is_dir() {
        say::line(format_args!("interop: skipped, {} is not there", data.display()));
        let missing = workspace::requires("openwop");
        return Ok(if missing { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    }
    let data = data.canonicalize()?;
    let binary = match &options.bin {
        Some(path) => path.canonicalize().with_context(|| path.display().to_string())?,
        None => child::build(&root, Profile::Debug)?,
    };
    let schemas = Schemas::load(&data.join("schemas"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let book = runtime.block_on(async {
        let folder = tempfile::tempdir()?;
        let fixtures = data.join("fixtures");
        let fixtures_path = fixtures.to_str().context("the path of the fixtures is no UTF-8")?;
        let reader = format!("{READER}=default+runs:read");
        let canceller = format!("{CANCELLER}=default+runs:cancel");
        let stranger = format!("{STRANGER}=elsewhere");
        let mut arguments = vec!["--workflows", fixtures_path, "--test-seams"];
        for key in [KEY, &reader, &canceller, &stranger] {
            arguments.extend(["--api-key", key]);
        }
        let host = Host::start(&binary, folder.path(), &arguments).await?;
        let mut session = Session::new(host.address, schemas, Book::new(options.only.clone()));
        discovery::check(&mut session, &fixtures).await?;
        fixtures::check(&mut session).await?;
        questions::check(&mut session).await?;
        families::check(&mut session).await?;
        talks::check(&mut session).await?;
        memory::check(&mut session).await?;
        files::check(&mut session).await?;
        orchestras::check(&mut session).await?;
        platform::check(&mut session).await?;
        models::check(&mut session).await?;
        streams::check(&mut session).await?;
        requests::check(&mut session).await?;
        transitions::check(&mut session).await?;
        observations::check(&mut session).await?;
        refusals::check(&mut session).await?;
        agents::check(&mut session, &binary, &data.join("registry")).await?;
        live::check(&mut session, &binary, &data.join("registry")).await?;
        deployments::check(&mut session).await?;
        roster::check(&mut session).await?;
        fires::check(&mut session).await?;
        session.close();
        let book = session.book;
        if book.failed > 0 {
            say::line(format_args!("the host said: {}", host.complaints().trim()));
        }
        host.stop().await?;
        anyhow::Ok(book)
    })?;
    say::line(format_args!("{} passed, {} failed", book.passed, book.failed));
    Ok(if book.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
