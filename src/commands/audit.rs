//! `callboard audit`: what changed access or policy, and whether the log of it is as it was written.

use clap::{Args, Subcommand};
use comfy_table::Cell;
use serde::Deserialize;
use serde_json::{Value, json};

use callboard_protocol::Timestamp;

use crate::args::{Connection, HostArgs};
use crate::exit::{CommandError, Exit};
use crate::screen::listing::Listing;
use crate::screen::{output, words};

/// Entries that one request walks: an answer comes long before the client gives up.
const AT_ONCE: u64 = 20_000;
/// Entries of a page of an export; the most that the host gives.
const PAGE: u32 = 200;

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  callboard audit list
  callboard audit verify
  callboard audit export > audit.jsonl

All of them need a key with the scope audit:read. An entry tells who did what when, never a secret's value."
)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// List the newest entries
    List(ListArgs),
    /// Have every entry checked against the next and against the signed checkpoints
    Verify(VerifyArgs),
    /// Write every entry with its hash, the oldest first, one JSON line each
    Export(ExportArgs),
}

pub(crate) async fn run(args: AuditArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        AuditCommand::List(args) => list(args, earlier).await,
        AuditCommand::Verify(args) => verify(args, earlier).await,
        AuditCommand::Export(args) => export(args, earlier).await,
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard audit list --limit 200 --json")]
struct ListArgs {
    /// How many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=200))]
    limit: u32,
    /// Only entries before this one
    #[arg(long, value_name = "SEQUENCE")]
    before: Option<u64>,
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Deserialize)]
struct Kept {
    sequence: u64,
    entry: Option<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    at: Timestamp,
    actor: String,
    action: String,
    subject: String,
}

async fn list(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let found = client.audit_entries("newest", args.before, args.limit).await?;
    let headers = ["sequence", "at", "who", "what", "of"];
    Listing::new("entries", headers, "no entries").show(found, args.host.json, |kept: Kept| {
        let Some(entry) = kept.entry else {
            let lost = ["", "", "cannot be read", ""].map(Cell::new);
            let [at, who, what, of] = lost;
            return [Cell::new(kept.sequence), at, who, what, of];
        };
        [
            Cell::new(kept.sequence),
            Cell::new(entry.at),
            Cell::new(words::plain(&entry.actor)),
            Cell::new(words::plain(&entry.action)),
            Cell::new(words::plain(&entry.subject)),
        ]
    })
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard audit verify --from 1000

Exit code 1 says that an entry was changed, is missing or stands in another's place, or that a
checkpoint does not verify; each is named. Keep exports elsewhere: whoever holds the host's key and
the whole database could write both anew.")]
struct VerifyArgs {
    /// The first sequence
    #[arg(long, value_name = "SEQUENCE", default_value_t = 0)]
    from: u64,
    /// The last sequence [default: the newest]
    #[arg(long, value_name = "SEQUENCE")]
    to: Option<u64>,
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Walked {
    chain_valid: bool,
    checkpoints: Vec<Value>,
    anomalies: Vec<Anomaly>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Anomaly {
    at_seq: u64,
    actual_prev_hash: String,
}

async fn verify(args: VerifyArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let newest = client.audit_entries("newest", None, 1).await?;
    let newest = newest["entries"][0]["sequence"].as_u64().unwrap_or(0);
    let last = args.to.unwrap_or(newest).max(args.from);
    let (mut from, mut checkpoints, mut wrong) = (args.from, 0, Vec::new());
    let mut is_valid = true;
    loop {
        let to = last.min(from.saturating_add(AT_ONCE - 1));
        let walked: Walked = serde_json::from_value(client.verify_audit(from, to).await?)
            .map_err(|error| CommandError::failed(format!("the host's answer: {error}")))?;
        is_valid &= walked.chain_valid;
        checkpoints += walked.checkpoints.len();
        wrong.extend(walked.anomalies);
        if to >= last {
            break;
        }
        from = to + 1;
    }
    tell(&args, (last, checkpoints), is_valid, &wrong)
}

fn tell(
    args: &VerifyArgs,
    (last, checkpoints): (u64, usize),
    is_valid: bool,
    wrong: &[Anomaly],
) -> Result<Exit, CommandError> {
    let entries: Vec<u64> = wrong.iter().map(|it| it.at_seq).collect();
    if args.host.json {
        output::json(&json!({ "isValid": is_valid, "lastSequence": last,
            "checkpoints": checkpoints, "wrongEntries": entries }))?;
    }
    if is_valid {
        let text = format!(
            "the audit log is as it was written: {last} entries, {checkpoints} checkpoints"
        );
        return if args.host.json { Ok(Exit::Done) } else { output::done(&text) };
    }
    for wrong in wrong {
        let what = if wrong.actual_prev_hash.is_empty() {
            "is missing, cannot be read or stands in another's place"
        } else {
            "does not follow from what was written before it, or its checkpoint does not"
        };
        output::note(&format!("entry {} {what}", wrong.at_seq));
    }
    let named: Vec<String> = entries.iter().take(5).map(ToString::to_string).collect();
    let error = format!("the audit log was changed: entry {}", named.join(", "));
    Err(CommandError::failed(error)
        .hint("keep a copy of the data folder, and compare with an earlier export or backup"))
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard audit export > audit.jsonl")]
struct ExportArgs {
    /// Only entries after this one
    #[arg(long, value_name = "SEQUENCE")]
    after: Option<u64>,
    #[command(flatten)]
    host: HostArgs,
}

async fn export(args: ExportArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let mut after = args.after;
    loop {
        let page = client.audit_entries("oldest", after, PAGE).await?;
        for entry in page["entries"].as_array().into_iter().flatten() {
            output::json_line(entry)?;
        }
        match page["next"].as_u64() {
            Some(next) => after = Some(next),
            None => return Ok(Exit::Done),
        }
    }
}
