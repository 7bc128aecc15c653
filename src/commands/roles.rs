//! `callboard roles`: names for sets of scopes.

use clap::{Args, Subcommand};
use comfy_table::Cell;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::args::{Connection, HostArgs};
use crate::client::{Kind, query};
use crate::exit::{CommandError, Exit};
use crate::screen::listing::Listing;
use crate::screen::words;

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  callboard roles list
  callboard roles set finance --scope runs:read --scope approvals:respond
  callboard keys create --name desk --role finance
  callboard roles remove finance

All of them need a key with the scope admin. Keys and people with a role have what it stands for
from the moment it is changed. Roles for all tenants stand in callboard.toml as [roles.NAME]."
)]
pub(crate) struct RolesArgs {
    #[command(subcommand)]
    command: RolesCommand,
}

#[derive(Debug, Subcommand)]
enum RolesCommand {
    /// List the roles, with the scopes that they stand for
    List(ListArgs),
    /// Name a set of scopes, or change what a name stands for
    Set(SetArgs),
    /// Remove a role; whoever has it loses what it stands for
    Remove(RemoveArgs),
}

pub(crate) async fn run(args: RolesArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        RolesCommand::List(args) => list(args, earlier).await,
        RolesCommand::Set(args) => set(args, earlier).await,
        RolesCommand::Remove(args) => remove(args, earlier).await,
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard roles list --json")]
struct ListArgs {
    /// Another tenant; needs a key of the tenant default with the scope tenants:manage
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Role {
    name: String,
    origin: String,
    scopes: Vec<String>,
    description: Option<String>,
}

async fn list(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let query: Vec<_> = args.tenant.map(|tenant| ("tenant", tenant)).into_iter().collect();
    let found = args.host.client(earlier)?.list(&Kind::ROLE, &query).await?;
    Listing::new("roles", ["name", "origin", "scopes", "description"], "no roles").show(
        found,
        args.host.json,
        |role: Role| {
            [
                Cell::new(role.name),
                Cell::new(role.origin),
                Cell::new(role.scopes.join(" ")),
                Cell::new(words::plain(&role.description.unwrap_or_default())),
            ]
        },
    )
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard roles set finance --scope runs:read --scope approvals:respond
  callboard roles set finance --scope runs:read --description \"Who may look\"

The role stands for exactly these scopes afterwards, and for none that your own key lacks.")]
struct SetArgs {
    /// Name of the role: small letters, digits, dots, dashes, underscores
    #[arg(value_name = "NAME")]
    name: String,
    /// Scope that it stands for; repeatable
    #[arg(long = "scope", value_name = "SCOPE", required = true)]
    scopes: Vec<String>,
    /// What the role is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Another tenant; needs a key of the tenant default with the scope tenants:manage
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    #[command(flatten)]
    host: HostArgs,
}

async fn set(args: SetArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let mut body = json!({ "scopes": args.scopes });
    if let Some(description) = args.description {
        body["description"] = description.into();
    }
    let query = query(&[("tenant", args.tenant)]);
    let set: Value = client.replace_with(&Kind::ROLE, &args.name, &query, &body).await?;
    args.host.show(&set, &format!("role {} set", args.name))
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard roles remove finance")]
struct RemoveArgs {
    /// Name of the role
    #[arg(value_name = "NAME")]
    name: String,
    /// Another tenant; needs a key of the tenant default with the scope tenants:manage
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    #[command(flatten)]
    host: HostArgs,
}

async fn remove(args: RemoveArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let query = query(&[("tenant", args.tenant)]);
    client.remove_with(&Kind::ROLE, &args.name, &query).await?;
    args.host.show(&json!({ "removed": args.name }), &format!("{} removed", args.name))
}
