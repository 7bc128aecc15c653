//! `callboard secrets`: values that runs may use and that are never shown.

use std::io::{self, Read};

use clap::{Args, Subcommand};
use comfy_table::Cell;
use serde::Deserialize;
use serde_json::json;

use callboard_core::SecretText;
use callboard_protocol::Timestamp;

use crate::args::{Connection, HostArgs};
use crate::client::Bounds;
use crate::client::Kind;
use crate::exit::{CommandError, Exit};
use crate::screen::listing::Listing;
use crate::screen::{output, words};
use crate::watch::prompt;

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  callboard secrets set openai
  callboard secrets set openai < key.txt
  callboard secrets list
  callboard secrets remove openai

All of them need a key with the scope admin. Values are encrypted on the host's disk, used by the
calls of this tenant's runs, and never returned."
)]
pub(crate) struct SecretsArgs {
    #[command(subcommand)]
    command: SecretsCommand,
}

#[derive(Debug, Subcommand)]
enum SecretsCommand {
    /// Store a secret under a name, or replace it
    Set(SetArgs),
    /// List the secrets of this tenant, without their values
    List(ListArgs),
    /// Remove a secret
    Remove(RemoveArgs),
}

pub(crate) async fn run(args: SecretsArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        SecretsCommand::Set(args) => set(args, earlier).await,
        SecretsCommand::List(args) => list(args, earlier).await,
        SecretsCommand::Remove(args) => remove(args, earlier).await,
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard secrets list --json")]
struct ListArgs {
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Secret {
    name: String,
    created_at: Timestamp,
    updated_at: Timestamp,
}

async fn list(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let found = args.host.client(earlier)?.list(&Kind::SECRET, &[]).await?;
    Listing::new("secrets", ["name", "created", "updated"], "no secrets")
        .remedy("`callboard secrets set NAME` stores one")
        .show(found, args.host.json, |secret: Secret| {
            [
                Cell::new(words::plain(&secret.name)),
                Cell::new(secret.created_at),
                Cell::new(secret.updated_at),
            ]
        })
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard secrets remove openai

Runs that need it fail from now on with credential_not_found.")]
struct RemoveArgs {
    /// Name of the secret
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    host: HostArgs,
}

async fn remove(args: RemoveArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    client.remove(&Kind::SECRET, &args.name).await?;
    args.host.show(&json!({ "removed": args.name }), &format!("{} removed", args.name))
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard secrets set openai
  callboard secrets set openai < key.txt
  pass show openai | callboard secrets set openai --json
  callboard secrets set crm --audience api.crm.example

The value is prompted for without echo, or read from standard input, where one line break
at the end is dropped. It is not an argument, because other processes can see arguments.")]
struct SetArgs {
    /// Name that runs refer to it by: letters, digits, dots, dashes, underscores
    #[arg(value_name = "NAME")]
    name: String,
    /// Host that tools of agents may send it to; may be repeated
    #[arg(long = "audience", value_name = "HOST")]
    audiences: Vec<String>,
    /// When tools may no longer send it, as in 2027-01-31T00:00:00Z
    #[arg(long, value_name = "TIME", requires = "audiences")]
    expires_at: Option<String>,
    #[command(flatten)]
    host: HostArgs,
}

async fn set(args: SetArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let value = read(&args.name)?;
    let bounds = Bounds { audiences: &args.audiences, expires_at: args.expires_at.as_deref() };
    let stored = client.put_secret(&args.name, &value, &bounds).await?;
    if !value.is_redactable() {
        output::note(
            "it has fewer than 8 characters: too short to be redacted from the events of runs",
        );
    }
    if args.host.json {
        output::json(&stored.answer)?;
    } else {
        let what = if stored.is_new { "stored" } else { "replaced" };
        output::line(&format!("{} {what}", args.name))?;
    }
    Ok(Exit::Done)
}

fn read(name: &str) -> Result<SecretText, CommandError> {
    let text = if prompt::is_possible() {
        prompt::ask_secret(&format!("value of {name}"))?
    } else {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map_err(|error| {
            CommandError::usage(format!("standard input cannot be read: {error}"))
                .hint("a secret is text; encode what is not, as with base64")
        })?;
        text
    };
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.is_empty() {
        return Err(CommandError::usage("there is no value on standard input")
            .hint(format!("type it at the prompt of `callboard secrets set {name}`, or pipe it in: … | callboard secrets set {name}")));
    }
    Ok(SecretText::new(line.to_owned()))
}
