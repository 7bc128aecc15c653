//! `callboard runs request`: exactly what a model was sent, and what it answered.

use clap::Args;
use comfy_table::Cell;
use serde::Deserialize;
use serde_json::Value;

use callboard_protocol::Timestamp;

use crate::args::{Connection, HostArgs};
use crate::client::Kind;
use crate::exit::{CommandError, Exit};
use crate::screen::listing::Listing;
use crate::screen::{output, words};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard runs request run_0199f2c4
  callboard runs request run_0199f2c4 17 | jq .request.messages

Without CALL, the run's calls of models are listed. What looks like a credential is blotted out.")]
pub(crate) struct RequestArgs {
    /// Id of the run
    #[arg(value_name = "RUN")]
    run: String,
    /// The call, as the list names it: the sequence of its event
    #[arg(value_name = "CALL")]
    call: Option<u64>,
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    call_id: u64,
    at: Timestamp,
    #[serde(default)]
    node_id: String,
    provider: String,
    model: String,
    input_tokens: u64,
    output_tokens: u64,
    #[serde(default)]
    cost_usd: Option<f64>,
}

pub(super) async fn run(mut args: RequestArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    args.run = client.whole_run_id(&args.run).await?;
    if let Some(call) = args.call {
        let found: Value =
            client.get(&Kind::CALLED_RUN, &args.run, &format!("/calls/{call}")).await?;
        return output::document(&found);
    }
    let found: Value = client.get(&Kind::LISTED_RUN, &args.run, "/calls?limit=200").await?;
    let headers = ["call", "node", "model", "at", "tokens", "cost"];
    let listing = Listing::new("calls", headers, "the run has asked no model")
        .next("name a call to see what was sent: `callboard runs request RUN CALL`");
    listing.show(found, args.host.json, |line: Line| {
        [
            Cell::new(line.call_id),
            Cell::new(line.node_id),
            Cell::new(words::plain(&format!("{}/{}", line.provider, line.model))),
            Cell::new(words::moment(line.at)),
            Cell::new(format!("{} in, {} out", line.input_tokens, line.output_tokens)),
            Cell::new(line.cost_usd.map_or_else(|| "unknown".to_owned(), words::dollars)),
        ]
    })
}
