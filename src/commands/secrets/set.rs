//! `callboard secrets set`: stores a secret, whose value is never an argument.

use std::io::{self, Read};

use clap::Args;

use callboard_core::SecretText;

use crate::args::Connection;
use crate::client::{Bounds, Client};
use crate::exit::{CommandError, Exit};
use crate::screen::output;
use crate::watch::prompt;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard secrets set openai
  callboard secrets set openai < key.txt
  pass show openai | callboard secrets set openai --json
  callboard secrets set crm --audience api.crm.example

The value is asked for without showing it, or read from standard input, where one line break
at its end does not belong to it. Other processes can see arguments, so it is none.")]
pub(crate) struct SetArgs {
    /// Name that runs refer to it by: letters, digits, dots, dashes, underscores
    #[arg(value_name = "NAME")]
    name: String,
    /// Host that tools of agents may send it to; may be repeated
    #[arg(long = "audience", value_name = "HOST")]
    audiences: Vec<String>,
    /// When it ends for them, such as 2027-01-31T00:00:00Z
    #[arg(long, value_name = "TIME", requires = "audiences")]
    expires_at: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: SetArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let value = read(&args.name)?;
    let bounds = Bounds { audiences: &args.audiences, expires_at: args.expires_at.as_deref() };
    let stored = client.put_secret(&args.name, &value, &bounds).await?;
    if !value.is_redactable() {
        output::note(
            "it has fewer than 8 characters: too short to be blotted out where a run repeats it",
        );
    }
    if args.json {
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
            .hint(format!("type it at the prompt of `callboard secrets set {name}`, or send it in: … | callboard secrets set {name}")));
    }
    Ok(SecretText::new(line.to_owned()))
}
