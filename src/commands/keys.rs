//! `callboard keys`: the API keys of a tenant.

mod whoami;

use std::time::Duration;

use clap::{Args, Subcommand};
use comfy_table::{Cell, Color};
use serde::Deserialize;
use serde_json::{Value, json};

use callboard_engine::{Clock, SystemClock};
use callboard_protocol::Timestamp;

use crate::args::{Connection, HostArgs};
use crate::client::{Kind, query};
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
    /// Replace a key by a new one with the same rights; the old one stops working at once or after a grace
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
  callboard keys create --name visitor --scope runs:read --expires-at 2026-12-31T00:00:00Z --json
  callboard keys create --name desk --role finance
  callboard keys create --name acme --tenant acme --workspace ops --scope admin")]
struct CreateArgs {
    /// What the key is for
    #[arg(long, value_name = "NAME")]
    name: String,
    /// Scope of the key; repeatable. Default: the scopes and roles of your own key
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// Role of the key; repeatable. It has what the role stands for, as that changes
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<String>,
    /// Tenant of the key, if not your own; needs a key of the tenant default with the scope tenants:manage
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// The one workspace that the key is for
    #[arg(long, value_name = "WORKSPACE")]
    workspace: Option<String>,
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
    if !args.roles.is_empty() {
        body["roles"] = args.roles.into();
    }
    let place = [("tenant", args.tenant), ("workspace", args.workspace)];
    for (name, value) in place.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        body[name] = value.into();
    }
    if let Some(at) = args.expires_at {
        body["expiresAt"] = at.to_string().into();
    }
    show_new(&client.create(&Kind::KEY, &body).await?, args.host.json)
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard keys list --json
  callboard keys list --tenant acme")]
struct ListArgs {
    /// Another tenant; needs a key of the tenant default with the scope tenants:manage
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Key {
    id: String,
    name: String,
    scopes: Option<Vec<String>>,
    #[serde(default)]
    roles: Vec<String>,
    last_used_at: Option<Timestamp>,
    expires_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
}

async fn list(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let query: Vec<_> = args.tenant.map(|tenant| ("tenant", tenant)).into_iter().collect();
    let found = args.host.client(earlier)?.list(&Kind::KEY, &query).await?;
    Listing::new("keys", ["id", "name", "state", "last used", "scopes"], "no keys")
        .remedy("`callboard keys create --name NAME` creates one")
        .show(found, args.host.json, |key: Key| {
            let state = state(&key);
            let used = key.last_used_at.map_or_else(|| "never".to_owned(), words::moment);
            let scopes = key.scopes.map_or_else(|| "all".to_owned(), |scopes| scopes.join(" "));
            let roles = key.roles.iter().map(|role| format!("role:{role} "));
            let scopes = roles.collect::<String>() + &scopes;
            let name = words::plain(&key.name);
            [Cell::new(key.id), Cell::new(name), state, Cell::new(used), Cell::new(scopes)]
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
    /// Tenant of the key, if not your own; needs a key of the tenant default with the scope tenants:manage
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

async fn revoke(args: RevokeArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.connection.client(earlier)?;
    // Looked at before: a key may revoke itself.
    let tenant = [("tenant", args.tenant.clone())];
    let made: Value = client.get(&Kind::KEY, &args.id, &query(&tenant)).await?;
    let cascade = args.cascade.then(|| "1".to_owned());
    let asked = query(&[("cascade", cascade), ("tenant", args.tenant)]);
    client.remove_with(&Kind::KEY, &args.id, &asked).await?;
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
#[command(after_help = "Examples:
  callboard keys rotate key_0199f2c4 --json
  callboard keys rotate key_0199f2c4 --grace 1h

The old key stops working at once, or after the grace: the time to bring the new one where the old
one is in use.")]
struct RotateArgs {
    /// Id of the key
    #[arg(value_name = "KEY_ID")]
    id: String,
    /// How long the old key still works, as in 90s, 15m, 1h or 7d; at most 30d
    #[arg(long, value_name = "TIME", value_parser = words::parse_span)]
    grace: Option<Duration>,
    /// Tenant of the key, if not your own; needs a key of the tenant default with the scope tenants:manage
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    #[command(flatten)]
    host: HostArgs,
}

async fn rotate(args: RotateArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let grace = args.grace.map(|grace| grace.as_secs().to_string());
    let rest = format!("/rotate{}", query(&[("graceSeconds", grace), ("tenant", args.tenant)]));
    let made: Value = client.post(&Kind::KEY, &args.id, &rest, None::<&()>).await?;
    let shown = show_new(&made, args.host.json)?;
    if let Some(end) =
        made.get("previousEndsAt").and_then(Value::as_str).filter(|_| !args.host.json)
    {
        output::note(&format!("key {} works until {end}", args.id));
    }
    Ok(shown)
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
