//! `callboard keys`: the API keys of a tenant.

mod whoami;

use clap::{Args, Subcommand};
use comfy_table::{Cell, Color};
use serde::Deserialize;
use serde_json::{Value, json};

use callboard_engine::{Clock, SystemClock};
use callboard_protocol::Timestamp;

use crate::args::{Connection, HostArgs};
use crate::client::Kind;
use crate::exit::{CommandError, Exit};
use crate::screen::listing::Listing;
use crate::screen::{output, words};

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  callboard keys create --name ci --scope runs:create --scope runs:read
  callboard keys list
  callboard keys rotate key_0199f2c4

All but whoami need a key with the scope admin."
)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// Create a key; it is shown once
    Create(CreateArgs),
    /// List the keys of this tenant, without their secret text
    List(ListArgs),
    /// Show the key that is in use: its id, tenant and scopes
    Whoami(whoami::WhoamiArgs),
    /// Revoke a key at once
    Revoke(RevokeArgs),
    /// Replace a key by a new one with the same rights; the old one stops working at once
    Rotate(RotateArgs),
    /// Start signing links to interrupts with a new secret
    RotateLinks(RotateLinksArgs),
}

pub(crate) async fn run(args: KeysArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        KeysCommand::Create(args) => create(args, earlier).await,
        KeysCommand::List(args) => list(args, earlier).await,
        KeysCommand::Whoami(args) => whoami::run(args, earlier).await,
        KeysCommand::Revoke(args) => revoke(args, earlier).await,
        KeysCommand::Rotate(args) => rotate(args, earlier).await,
        KeysCommand::RotateLinks(args) => rotate_links(args, earlier).await,
    }
}

/// Shows a new key. The text goes to standard output alone, so that it can be piped where it belongs.
fn show_new(made: &Value, as_json: bool) -> Result<Exit, CommandError> {
    if as_json {
        output::json(made)?;
        return Ok(Exit::Done);
    }
    let part = |name: &str| made.get(name).and_then(Value::as_str).unwrap_or_default();
    output::line(part("key"))?;
    output::note(&format!("key {} made; this is the only time its text is shown", part("id")));
    Ok(Exit::Done)
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard keys create --name ci --scope runs:create --scope runs:read
  callboard keys create --name visitor --scope runs:read --expires-at 2026-12-31T00:00:00Z --json")]
struct CreateArgs {
    /// What the key is for
    #[arg(long, value_name = "NAME")]
    name: String,
    /// Scope of the key; repeatable. Default: the scopes of your own key
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// When it stops working, as in 2026-12-31T00:00:00Z; no later than your own key
    #[arg(long, value_name = "TIME", value_parser = words::parse_time)]
    expires_at: Option<Timestamp>,
    #[command(flatten)]
    host: HostArgs,
}

async fn create(args: CreateArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let mut body = json!({ "name": args.name });
    if !args.scopes.is_empty() {
        body["scopes"] = args.scopes.into();
    }
    if let Some(at) = args.expires_at {
        body["expiresAt"] = at.to_string().into();
    }
    show_new(&client.create(&Kind::KEY, &body).await?, args.host.json)
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard keys list --json")]
struct ListArgs {
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Key {
    id: String,
    name: String,
    scopes: Option<Vec<String>>,
    expires_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
}

async fn list(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let found = args.host.client(earlier)?.list(&Kind::KEY, &[]).await?;
    Listing::new("keys", ["id", "name", "state", "scopes"], "no keys")
        .remedy("`callboard keys create --name NAME` creates one")
        .show(found, args.host.json, |key: Key| {
            let state = state(&key);
            let scopes = key.scopes.map_or_else(|| "all".to_owned(), |scopes| scopes.join(" "));
            [Cell::new(key.id), Cell::new(words::plain(&key.name)), state, Cell::new(scopes)]
        })
}

fn state(key: &Key) -> Cell {
    match (key.revoked_at, key.expires_at) {
        (Some(_), _) => Cell::new("revoked").fg(Color::Red),
        (None, Some(at)) if at <= SystemClock.now() => Cell::new("expired").fg(Color::Red),
        (None, Some(at)) => Cell::new(format!("until {at}")),
        (None, None) => Cell::new("valid").fg(Color::Green),
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard keys revoke key_0199f2c4
  callboard keys revoke key_0199f2c4 --cascade

What the key created continues: keys, schedules, triggers, heartbeats, webhooks and members, its own
and those of keys that it created. They are listed. With --cascade the keys are revoked, the
webhooks removed and the rest paused.")]
struct RevokeArgs {
    /// Id of the key
    #[arg(value_name = "KEY_ID")]
    id: String,
    /// Also stop what the key created
    #[arg(long)]
    cascade: bool,
    #[command(flatten)]
    connection: Connection,
}

async fn revoke(args: RevokeArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.connection.client(earlier)?;
    // Looked at before: a key may revoke itself.
    let made: Value = client.get(&Kind::KEY, &args.id, "").await?;
    let query = if args.cascade { "?cascade=1" } else { "" };
    client.remove_with(&Kind::KEY, &args.id, query).await?;
    output::line(&format!("{} revoked", args.id))?;
    let mut is_any = false;
    let verb = if args.cascade { "stopped" } else { "continues" };
    for (kind, ids) in made.get("goesOn").and_then(Value::as_object).into_iter().flatten() {
        for id in ids.as_array().into_iter().flatten().filter_map(Value::as_str) {
            is_any = true;
            output::line(&format!("{verb}: {} {id}", kind.trim_end_matches('s')))?;
        }
    }
    if is_any && !args.cascade {
        output::hint(&format!("`callboard keys revoke {} --cascade` stops all of it", args.id));
    }
    Ok(Exit::Done)
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard keys rotate key_0199f2c4 --json

The old key stops working at once. Where it is in use, make the new one with `callboard keys create`
first and revoke the old one later.")]
struct RotateArgs {
    /// Id of the key
    #[arg(value_name = "KEY_ID")]
    id: String,
    #[command(flatten)]
    host: HostArgs,
}

async fn rotate(args: RotateArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    show_new(&client.post(&Kind::KEY, &args.id, "/rotate", None::<&()>).await?, args.host.json)
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard keys rotate-links

Existing links keep working until they expire, after half an hour at most. To end
them at once, as after a leak, rotate twice.")]
struct RotateLinksArgs {
    #[command(flatten)]
    host: HostArgs,
}

async fn rotate_links(args: RotateLinksArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let rotated = client.rotate_links().await?;
    if args.host.json {
        output::json(&rotated)?;
    } else {
        let generation = rotated.get("generation").and_then(Value::as_u64).unwrap_or_default();
        output::line(&format!("links are signed with secret {generation} from now on"))?;
    }
    Ok(Exit::Done)
}
