//! `callboard triggers add`: something outside that starts a workflow.

use clap::Args;
use serde_json::{Value, json};

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard triggers add nightly-report --source webhook
  callboard triggers add orders --source queue --as host:sally-1a2b3c4d --max-attempts 3
  callboard triggers add desk --source form --map message=form.fields.message

A webhook's secret is shown once: posts are signed with it after Standard Webhooks.")]
pub(crate) struct AddArgs {
    /// Id of the workflow
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// Where things come from: webhook, queue, form or email
    #[arg(long, value_name = "SOURCE", value_parser = ["webhook", "queue", "form", "email"])]
    source: String,
    /// Member whose work it is, by its id or name
    #[arg(long = "as", value_name = "MEMBER")]
    roster: Option<String>,
    /// Input of the workflow, and where in what comes in its value stands
    #[arg(long = "map", value_name = "INPUT=PATH")]
    mappings: Vec<String>,
    /// How often a delivery is tried before it is given up
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: AddArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    client.know_workflow(&args.workflow).await?;
    let mut body = json!({ "workflowId": args.workflow, "source": args.source });
    if let Some(member) = client.maybe_member_id(args.roster.as_deref()).await? {
        body["rosterId"] = member.into();
    }
    if let Some(attempts) = args.max_attempts {
        body["retryPolicy"] = json!({ "maxAttempts": attempts });
    }
    for mapping in &args.mappings {
        let (input, path) = mapping.split_once('=').ok_or_else(|| {
            CommandError::usage(format!("--map {mapping:?} has no `=`"))
                .hint("write the input's name, `=`, and a path such as webhook.body.day")
        })?;
        body["inputMapping"][input] = path.into();
    }
    let mut made = client.subscribe(&body).await?;
    with_addresses(&mut made, client.base());
    if args.json {
        output::json(&made)?;
        return Ok(Exit::Done);
    }
    let id = made.pointer("/subscription/subscriptionId").and_then(Value::as_str);
    output::line(id.unwrap_or_default())?;
    let binding = made.get("binding").and_then(Value::as_object);
    for (name, value) in binding.into_iter().flatten() {
        output::note(&format!("{name}: {}", value.as_str().unwrap_or_default()));
    }
    Ok(Exit::Done)
}

/// What the host says as a path is an address here, for people and programs alike.
pub(super) fn with_addresses(found: &mut Value, base: &str) {
    let Some(binding) = found.get_mut("binding").and_then(Value::as_object_mut) else { return };
    for said in binding.values_mut() {
        let path = said.as_str().filter(|said| said.starts_with('/'));
        if let Some(address) = path.map(|path| format!("{base}{path}")) {
            *said = address.into();
        }
    }
}
