//! `callboard packs install`: a pack for the tenant of the key.

use clap::Args;
use owo_colors::OwoColorize;
use serde_json::{Value, json};

use super::read_archive;
use crate::args::{Connection, HostArgs};
use crate::exit::{CommandError, Exit};
use crate::screen::{output, progress};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard packs install desk.tgz
  callboard packs install desk --allow-unsigned
  callboard packs install core.openwop.agents.react --registry https://packs.openwop.dev

Needs the scope packs:install, and admin for --allow-unsigned. The host fetches only from registries that
its operator named.")]
pub(crate) struct InstallArgs {
    /// Archive or folder; with --registry a name, or NAME@VERSION
    #[arg(value_name = "PATH")]
    pack: String,
    /// Let the host fetch it from this registry
    #[arg(long, value_name = "URL", conflicts_with = "allow_unsigned")]
    registry: Option<String>,
    /// Digest that the archive must have, as its publisher announced it
    #[arg(long, value_name = "SRI", conflicts_with = "registry")]
    integrity: Option<String>,
    /// Install, as unverified, a pack without a trusted signature over all of it
    #[arg(long)]
    allow_unsigned: bool,
    #[command(flatten)]
    host: HostArgs,
}

pub(super) async fn run(args: InstallArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let installed = match args.registry {
        Some(url) => {
            let _shown = progress::waiting(&format!("the host fetches {}", args.pack));
            client.fetch_pack(&wanted(&url, &args.pack)).await?
        }
        None => {
            let mut query = Vec::new();
            query.extend(args.allow_unsigned.then(|| ("allowUnsigned", "1".to_owned())));
            query.extend(args.integrity.map(|digest| ("integrity", digest)));
            let archive = read_archive(&args.pack)?;
            let bar = progress::bytes(&args.pack, Some(archive.len() as u64));
            client.install_pack(archive, &query, bar).await?
        }
    };
    if args.host.json {
        return output::document(&installed);
    }
    let part = |name: &str| installed[name].as_str().unwrap_or_default();
    output::line(&format!("{} {} {} installed", "✓".green(), part("name"), part("version")))?;
    output::field("verified", &verified(&installed))?;
    for agent in installed["agents"].as_array().into_iter().flatten() {
        output::field("agent", agent["agentId"].as_str().unwrap_or_default())?;
    }
    Ok(Exit::Done)
}

/// What proves that the pack is its publisher's, for a person.
pub(super) fn verified(pack: &Value) -> String {
    let by = match pack["verifiedBy"].as_str() {
        Some("registry") => "by the registry's digest",
        Some("integrity") => "by the digest that was given",
        Some(_) => "by its signature",
        None => return "no: nothing proves that its files are its publisher's".to_owned(),
    };
    match pack["signedBy"].as_str() {
        Some(key) => format!("{by}, signed by {key}"),
        None => by.to_owned(),
    }
}

fn wanted(url: &str, pack: &str) -> Value {
    match pack.split_once('@') {
        Some((name, version)) => json!({ "url": url, "name": name, "version": version }),
        None => json!({ "url": url, "name": pack }),
    }
}
