//! `callboard packs sign`: a signature inside the archive.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use owo_colors::OwoColorize;
use serde_json::json;

use callboard_agents::SigningKey;

use super::not_made;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard packs sign desk.tgz --key acme.key --generate
  callboard packs sign desk.tgz --key acme.key --key-id acme-1

The signature covers the exact bytes of pack.json. It goes into the archive as keys/pack.json.sig and
beside it as FILE.sig. A second one covers keys/files.sha256, the digests of all files, so that nobody can
replace a prompt. Keys are those of `openssl genpkey -algorithm ed25519`.")]
pub(crate) struct SignArgs {
    /// Archive to sign; it is replaced by the signed one
    #[arg(value_name = "FILE")]
    archive: PathBuf,
    /// Private key, PEM
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Id under which others trust the key [default: derived from the key]
    #[arg(long, value_name = "ID")]
    key_id: Option<String>,
    /// Create the key first; never overwrites one
    #[arg(long)]
    generate: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &SignArgs) -> Result<Exit, CommandError> {
    let unreadable = |path: &Path, error: io::Error| {
        CommandError::usage(format!("cannot read {}: {error}", path.display()))
    };
    let archive = fs::read(&args.archive).map_err(|error| unreadable(&args.archive, error))?;
    let key = if args.generate {
        generate(&args.key)?
    } else {
        let text = fs::read_to_string(&args.key).map_err(|error| {
            unreadable(&args.key, error).hint("add --generate to make a new key there")
        })?;
        SigningKey::from_pem(&text).ok_or_else(|| {
            CommandError::usage(format!("{} holds no Ed25519 private key", args.key.display()))
                .hint("make one with --generate, or with `openssl genpkey -algorithm ed25519`")
        })?
    };
    let key_id = args.key_id.clone().unwrap_or_else(|| key.id());
    let signed = callboard_agents::sign(Arc::from(archive), &key, &key_id)
        .map_err(|error| not_made(&error))?;
    replace(&args.archive, &signed.archive)?;
    let beside = with_ending(&args.archive, ".sig");
    replace(&beside, &signed.signature)?;
    if args.json {
        output::json(&json!({
            "archive": args.archive, "keyId": key_id, "signature": beside,
            "integrity": signed.integrity.as_str(),
        }))?;
        return Ok(Exit::Done);
    }
    output::line(&format!("{} {} signed", "✓".green(), args.archive.display()))?;
    output::field("key", &key_id)?;
    output::field("signature", &beside.display().to_string())?;
    output::field("integrity", signed.integrity.as_str())?;
    Ok(Exit::Done)
}

/// Makes a key that only its owner can read, and its public half for everybody.
fn generate(path: &Path) -> Result<SigningKey, CommandError> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)
        .map_err(|error| CommandError::failed(format!("no randomness: {error}")))?;
    let key = SigningKey::from_seed(seed);
    let unwritable = |path: &Path, error: io::Error| {
        let error = CommandError::usage(format!("cannot write {}: {error}", path.display()));
        error.hint("leave out --generate to use a key that is there")
    };
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(key.to_pem().as_bytes()))
        .map_err(|error| unwritable(path, error))?;
    let public = with_ending(path, ".pub");
    fs::write(&public, key.public_pem()).map_err(|error| unwritable(&public, error))?;
    output::note(&format!("new key in {}; keep it to yourself", path.display()));
    output::note(&format!("its public half in {}, for those who trust you", public.display()));
    Ok(key)
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Puts new contents in place at once, so that an interrupted command leaves the old or the new file.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), CommandError> {
    let half = with_ending(path, ".part");
    fs::write(&half, bytes)
        .and_then(|()| fs::rename(&half, path))
        .map_err(|error| CommandError::failed(format!("cannot write {}: {error}", path.display())))
}
