//! `callboard packs`: agents to install, from their first file to a signature that others can check.

mod download;
mod install;
mod list;
mod new;
mod pack;
mod remove;
mod sign;
mod verify;

use std::path::Path;

use clap::{Args, Subcommand};

use callboard_agents::{AuthorError, PackError};

use crate::args::Connection;
use crate::exit::{CommandError, Exit};

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  callboard packs new vendor.acme.desk --dir desk
  callboard packs pack desk --out desk.tgz
  callboard packs sign desk.tgz --key acme.key --generate
  callboard packs verify desk.tgz --trust acme.key.pub
  callboard packs install desk.tgz"
)]
pub(crate) struct PacksArgs {
    #[command(subcommand)]
    command: PacksCommand,
}

#[derive(Debug, Subcommand)]
enum PacksCommand {
    /// Create a pack: one agent with a prompt and both schemas
    New(new::NewArgs),
    /// Create an archive of a pack's folder, reproducibly
    Pack(pack::PackArgs),
    /// Sign an archive with an Ed25519 key
    Sign(sign::SignArgs),
    /// Run the checks of an installation, and print each of them
    Verify(verify::VerifyArgs),
    /// Install a pack on a host, for the tenant of the key
    Install(install::InstallArgs),
    /// List the packs that this key can see
    List(list::ListArgs),
    /// Remove an installed version; runs that started with it continue
    Remove(remove::RemoveArgs),
}

pub(crate) async fn run(args: PacksArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        PacksCommand::New(args) => new::run(&args),
        PacksCommand::Pack(args) => pack::run(&args),
        PacksCommand::Sign(args) => sign::run(&args),
        PacksCommand::Verify(args) => verify::run(args).await,
        PacksCommand::Install(args) => install::run(args, earlier).await,
        PacksCommand::List(args) => list::run(args, earlier).await,
        PacksCommand::Remove(args) => remove::run(args, earlier).await,
    }
}

/// A pack by its path: an archive, or a folder that becomes one.
fn read_archive(path: &str) -> Result<Vec<u8>, CommandError> {
    let file = Path::new(path);
    if file.is_dir() {
        return callboard_agents::collect(file).map_err(|error| not_made(&error));
    }
    std::fs::read(file).map_err(|error| {
        let exit = match error.kind() {
            std::io::ErrorKind::NotFound => Exit::NotFound,
            _ => Exit::Failed,
        };
        CommandError::new(exit, format!("cannot read {path}: {error}"))
            .hint("name a folder or an archive, or a registry with --registry")
    })
}

fn refused(error: &PackError) -> CommandError {
    CommandError::failed(format!("{error} ({})", error.code())).hint(error.hint())
}

fn not_made(error: &AuthorError) -> CommandError {
    match error {
        AuthorError::Pack(error) => refused(error),
        AuthorError::Unreadable { .. }
        | AuthorError::NotPlain(_)
        | AuthorError::Name(_)
        | AuthorError::Unwritable(_) => CommandError::failed(error.to_string()),
    }
}
