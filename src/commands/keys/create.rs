//! `callboard keys create`: a new key, its text shown once.

use clap::Args;
use serde_json::json;

use callboard_protocol::Timestamp;

use super::show_new;
use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::words;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard keys create --name ci --scope runs:create --scope runs:read
  callboard keys create --name visitor --scope runs:read --expires-at 2026-12-31T00:00:00Z --json")]
pub(crate) struct CreateArgs {
    /// What the key is for
    #[arg(long, value_name = "NAME")]
    name: String,
    /// What the key may do; repeatable, and without any it may do what your own key may
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// When it stops working, as in 2026-12-31T00:00:00Z; no later than your own key
    #[arg(long, value_name = "TIME", value_parser = words::parse_time)]
    expires_at: Option<Timestamp>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: CreateArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let mut body = json!({ "name": args.name });
    if !args.scopes.is_empty() {
        body["scopes"] = args.scopes.into();
    }
    if let Some(at) = args.expires_at {
        body["expiresAt"] = at.to_string().into();
    }
    show_new(&client.create_key(&body).await?, args.json)
}
