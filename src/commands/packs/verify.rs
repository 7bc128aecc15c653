//! `callboard packs verify`: the result of every check of an installation.

mod show;
mod source;

use std::path::Path;

use clap::Args;

use callboard_agents::{
    Announced, Host, Offer, PackError, Policy, TrustedKey, TrustedKeys, Unsigned, Verification,
    verify,
};

use crate::exit::{CommandError, Exit};
use crate::wire::tools;
use source::Source;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard packs verify desk
  callboard packs verify desk.tgz --trust acme.key.pub
  callboard packs verify core.openwop.agents.react@1.0.3 --registry https://packs.openwop.dev
  callboard packs verify --all --registry ./registry

The keys of the OpenWOP registry are trusted. A folder need not be signed. With --all the exit code says
whether every digest and signature is right; a pack that this host could not install is no failure.")]
pub(crate) struct VerifyArgs {
    /// Folder or archive; with --registry a name, or NAME@VERSION
    #[arg(value_name = "PATH", required_unless_present = "all")]
    pack: Option<String>,
    /// The newest version of every pack of a registry
    #[arg(long, requires = "registry", conflicts_with = "pack")]
    all: bool,
    /// Registry: its address, or a folder in the same layout
    #[arg(long, value_name = "DIR|URL")]
    registry: Option<String>,
    /// Digest that the archive must have, as its publisher announced it
    #[arg(long, value_name = "SRI", conflicts_with = "registry")]
    integrity: Option<String>,
    /// Trust this public key for every name; ID=FILE where the key has a name of its own
    #[arg(long, value_name = "[ID=]FILE")]
    trust: Vec<String>,
    /// Accept a pack without a signature over all of it; an invalid signature is refused even so
    #[arg(long)]
    allow_unsigned: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One pack as it was asked for, with what was found.
struct Checked {
    what: String,
    verification: Verification,
}

pub(super) async fn run(args: VerifyArgs) -> Result<Exit, CommandError> {
    let keys = args.trust.iter().try_fold(TrustedKeys::built_in(), |keys, text| {
        Ok::<_, CommandError>(keys.with(read_key(text)?))
    })?;
    let unsigned = if args.allow_unsigned { Unsigned::Allowed } else { Unsigned::Refused };
    let host = Host { tools: tools::built_in_names().await?, ..Host::default() };
    let policy = Policy { keys, unsigned, host, ..Policy::default() };
    let source = args.registry.as_deref().map(Source::open).transpose()?;
    match (&source, &args.pack) {
        (Some(source), None) => {
            let checked = source.check_all(&policy).await?;
            show::table(&checked, &policy, args.json)
        }
        (Some(source), Some(pack)) => {
            let checked = source.check(pack, &policy).await?;
            show::one(&checked, &policy, args.json)
        }
        (None, Some(path)) => {
            let checked = check_path(path, args.integrity, policy.clone())?;
            show::one(&checked, &policy, args.json)
        }
        // The argument parser makes this unreachable.
        (None, None) => Err(CommandError::usage("name a pack to check")),
    }
}

fn check_path(
    path: &str,
    integrity: Option<String>,
    policy: Policy,
) -> Result<Checked, CommandError> {
    let archive = super::read_archive(path)?;
    let unsigned = if Path::new(path).is_dir() { Unsigned::Allowed } else { policy.unsigned };
    let policy = Policy { unsigned, ..policy };
    let integrity = integrity.map(Announced::Caller);
    let offer = Offer { integrity, ..Offer::plain(archive.into()) };
    let verification = verify(Ok(offer), &policy);
    Ok(Checked { what: path.to_owned(), verification })
}

/// Whoever names a key here believes it for whatever is checked here.
const EVERY_NAME: [&str; 4] = ["core.*", "vendor.*", "community.*", "private.*"];

fn read_key(text: &str) -> Result<TrustedKey, CommandError> {
    let (id, file) = match text.split_once('=') {
        Some((id, file)) => (Some(id), file),
        None => (None, text),
    };
    let pem = std::fs::read_to_string(file)
        .map_err(|error| CommandError::usage(format!("cannot read {file}: {error}")))?;
    let wrong = |error: callboard_agents::KeyTextError| {
        CommandError::usage(error.to_string()).hint("--trust takes a public key, as FILE.pub")
    };
    let key = TrustedKey::parse(id.unwrap_or(file), &pem, &EVERY_NAME).map_err(wrong)?;
    match id {
        Some(_) => Ok(key),
        None => Ok(key.under_its_own_name()),
    }
}

fn not_fetched(error: &PackError) -> CommandError {
    let exit = match error {
        PackError::Unknown { .. } | PackError::VersionNotFound { .. } => Exit::NotFound,
        PackError::Fetch { .. } => Exit::Unreachable,
        _ => Exit::Failed,
    };
    CommandError::new(exit, format!("{error} ({})", error.code())).hint(error.hint())
}
