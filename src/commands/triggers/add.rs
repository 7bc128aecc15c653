//! `callboard triggers add` and `rotate`: what makes a subscription, and what its senders sign with.

use clap::Args;
use serde_json::{Value, json};

use super::with_addresses;
use crate::args::{Connection, HostArgs};
use crate::client::Kind;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard triggers add nightly-report --source webhook
  callboard triggers add desk --source webhook --preset github --filter \"event == 'issues' and body.action == 'opened'\"
  callboard triggers add desk --source webhook --preset slack --secret-file slack-signing-secret
  callboard triggers add desk --source webhook --preset token --token-header x-gitlab-token
  callboard triggers add orders --source queue --as host:sally-1a2b3c4d --max-attempts 3
  callboard triggers add desk --source form --map message=form.fields.message

A secret that the host makes is shown once. `callboard triggers presets` says how each sender proves itself.")]
pub(super) struct AddArgs {
    /// Id of the workflow
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// Source of deliveries: webhook, queue, form or email
    #[arg(long, value_name = "SOURCE", value_parser = ["webhook", "queue", "form", "email"])]
    source: String,
    /// Member that the runs are for, by id or name
    #[arg(long = "as", value_name = "MEMBER")]
    roster: Option<String>,
    /// Input of the workflow, and the path of its value in the delivery
    #[arg(long = "map", value_name = "INPUT=PATH")]
    mappings: Vec<String>,
    /// How often a delivery is tried before it becomes a dead letter
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// Sender that signs: standard-webhooks, github, slack, stripe or token
    #[arg(long, value_name = "PRESET", value_parser = ["standard-webhooks", "github", "slack", "stripe", "token"])]
    preset: Option<String>,
    /// File with the secret that the sender has made; `-` reads it from standard input
    #[arg(long, value_name = "FILE")]
    secret_file: Option<String>,
    /// Header in which the token of preset token stands
    #[arg(long, value_name = "NAME", conflicts_with = "token_query")]
    token_header: Option<String>,
    /// Parameter of the address in which the token of preset token stands
    #[arg(long, value_name = "NAME")]
    token_query: Option<String>,
    /// Expression that must hold of a delivery, or it starts nothing
    #[arg(long, value_name = "EXPRESSION")]
    filter: Option<String>,
    #[command(flatten)]
    host: HostArgs,
}

/// Longer files hold something else.
const LONGEST_SECRET: u64 = 4096;

fn secret_of(file: &str) -> Result<String, CommandError> {
    use std::io::Read;
    let mut text = String::new();
    let read = match file {
        "-" => std::io::stdin().take(LONGEST_SECRET).read_to_string(&mut text),
        path => std::fs::File::open(path)
            .and_then(|file| file.take(LONGEST_SECRET).read_to_string(&mut text)),
    };
    read.map_err(|error| CommandError::usage(format!("{file} cannot be read: {error}")))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

pub(super) async fn add(args: AddArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    client.know_workflow(&args.workflow).await?;
    let mut body = json!({ "workflowId": args.workflow, "source": args.source });
    if let Some(member) = client.maybe_member_id(args.roster.as_deref()).await? {
        body["rosterId"] = member.into();
    }
    if let Some(attempts) = args.max_attempts {
        body["retryPolicy"] = json!({ "maxAttempts": attempts });
    }
    if let Some(file) = &args.secret_file {
        body["secret"] = secret_of(file)?.into();
    }
    if let Some(name) = &args.token_header {
        body["token"] = json!({ "header": name });
    }
    if let Some(name) = &args.token_query {
        body["token"] = json!({ "query": name });
    }
    for (key, value) in [("preset", &args.preset), ("filter", &args.filter)] {
        if let Some(value) = value {
            body[key] = value.as_str().into();
        }
    }
    for mapping in &args.mappings {
        let (input, path) = mapping.split_once('=').ok_or_else(|| {
            CommandError::usage(format!("--map {mapping:?} has no `=`"))
                .hint("write the input's name, `=`, and a path such as webhook.body.day")
        })?;
        body["inputMapping"][input] = path.into();
    }
    let made = client.add(&Kind::SUBSCRIPTION, &body).await?;
    show(made, &args.host, client.base())
}

fn show(mut made: Value, host: &HostArgs, base: &str) -> Result<Exit, CommandError> {
    with_addresses(&mut made, base);
    if host.json {
        return output::document(&made);
    }
    let id = made.pointer("/subscription/subscriptionId").and_then(Value::as_str);
    output::line(id.unwrap_or_default())?;
    let binding = made.get("binding").and_then(Value::as_object);
    for (name, value) in binding.into_iter().flatten() {
        output::note(&format!("{name}: {}", value.as_str().unwrap_or_default()));
    }
    Ok(Exit::Done)
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard triggers rotate tsub_0199f2c4
  callboard triggers rotate tsub_0199f2c4 --secret-file slack-signing-secret")]
pub(super) struct RotateArgs {
    /// Id of the subscription
    #[arg(value_name = "SUBSCRIPTION_ID")]
    id: String,
    /// File with the secret that the sender has made; `-` reads it from standard input
    #[arg(long, value_name = "FILE")]
    secret_file: Option<String>,
    #[command(flatten)]
    host: HostArgs,
}

pub(super) async fn rotate(args: RotateArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let body = match &args.secret_file {
        Some(file) => json!({ "secret": secret_of(file)? }),
        None => json!({}),
    };
    let made = client.post(&Kind::SUBSCRIPTION, &args.id, "/rotate-secret", Some(&body)).await?;
    show(made, &args.host, client.base())
}
