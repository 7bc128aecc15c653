//! `callboard triggers deliver`: puts something into a queue.

use clap::Args;
use serde_json::{Value, json};

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard triggers deliver tsub_0199f2c4 --id order-17 --payload '{\"n\": 17}'

The same id again starts nothing and answers with the first run.")]
pub(crate) struct DeliverArgs {
    /// Id of the subscription
    #[arg(value_name = "SUBSCRIPTION_ID")]
    id: String,
    /// Your own name for the thing
    #[arg(long = "id", value_name = "ID")]
    thing: String,
    /// The thing, as JSON
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: DeliverArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let mut body = json!({ "id": args.thing });
    if let Some(text) = &args.payload {
        body["payload"] = serde_json::from_str(text).map_err(|error| {
            CommandError::usage(format!("--payload is not JSON: {error}"))
                .hint("a text is written as '\"text\"'")
        })?;
    }
    let delivered = client.deliver(&args.id, &body).await?;
    if args.json {
        output::json(&delivered)?;
        return Ok(Exit::Done);
    }
    let part = |name: &str| delivered.get(name).and_then(Value::as_str);
    if let Some(run) = part("runId") {
        output::line(run)?;
    }
    let outcome = part("outcome").unwrap_or_default();
    output::note(&match part("message") {
        Some(why) => format!("{outcome}: {why}"),
        None => outcome.to_owned(),
    });
    if outcome == "dead-lettered" {
        let id = &args.id;
        output::hint(&format!(
            "`callboard triggers replay {id} DELIVERY` starts a run of it once its workflow takes it; `callboard triggers dead-letters {id}` names it"
        ));
        return Ok(Exit::Failed);
    }
    Ok(Exit::Done)
}
