//! `callboard roster dismiss`: removes a member.

use clap::Args;

use crate::args::Connection;
use crate::client::Kind;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard roster dismiss host:sally-1a2b3c4d

Its queue of work is removed too. Its runs continue and stay attributed to it:
`callboard runs list --member host:sally-1a2b3c4d`.")]
pub(crate) struct DismissArgs {
    /// Id of the member, or its name if it is unique
    #[arg(value_name = "MEMBER")]
    member: String,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: DismissArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.connection.client(earlier)?;
    let id = client.member_id(&args.member).await?;
    client.remove(&Kind::MEMBER, &id).await?;
    output::done(&format!("{id} is dismissed"))
}
