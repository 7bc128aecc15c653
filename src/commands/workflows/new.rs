//! `callboard workflows new`: a file to begin with.

use std::io::Write as _;
use std::path::PathBuf;

use callboard_authoring::{Starter, starter, starters, unknown_name};
use clap::Args;
use dialoguer::{Input, Select};

use crate::exit::{CommandError, Exit};
use crate::screen::output;
use crate::watch::prompt;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard workflows new
  callboard workflows new letters --template approval

Asks for what is not given. Templates: hello, approval, agent, schedule.")]
pub(super) struct NewArgs {
    /// Id of the workflow; the file is called ID.yaml
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// What to begin with: hello, approval, agent or schedule
    #[arg(long)]
    template: Option<String>,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) fn run(args: &NewArgs) -> Result<Exit, CommandError> {
    let id = match &args.id {
        Some(id) => id.clone(),
        None => ask_id()?,
    };
    let chosen = match &args.template {
        Some(name) => named(name)?,
        None => ask_template()?,
    };
    let file = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("{id}.yaml")));
    let text = chosen.text(&id);
    check(&id, &text)?;
    // Whoever has a file of this name keeps it.
    let opened = std::fs::OpenOptions::new().write(true).create_new(true).open(&file);
    let written = opened.and_then(|mut opened| opened.write_all(text.as_bytes()));
    written.map_err(|error| {
        CommandError::failed(format!("{} cannot be written: {error}", file.display()))
            .hint("choose another name with --out")
    })?;
    let name = file.display();
    output::line(&format!("{name} written"))?;
    output::hint(&format!(
        "`callboard workflows apply {name}` registers it, `callboard run {id} --follow` runs it"
    ));
    Ok(Exit::Done)
}

/// The texts are good; an id may not be.
fn check(id: &str, text: &str) -> Result<(), CommandError> {
    let format = callboard_authoring::Format::Yaml;
    let reading = callboard_authoring::read(callboard_authoring::Source { text, format, id: None });
    match reading.problems.iter().find(|problem| problem.path == "id") {
        Some(problem) => {
            let error = CommandError::usage(format!("the id {}", problem.message));
            Err(match &problem.did_you_mean {
                Some(better) => error.hint(format!("`{better}` would do")),
                None => error,
            })
        }
        None if reading.canonical.is_none() => {
            Err(CommandError::usage(format!("no workflow can be called {id:?}")))
        }
        None => Ok(()),
    }
}

fn named(name: &str) -> Result<&'static Starter, CommandError> {
    starter(name).ok_or_else(|| {
        let known: Vec<&str> = starters().iter().map(|starter| starter.name).collect();
        CommandError::usage(unknown_name("template", name, &known))
    })
}

fn ask_id() -> Result<String, CommandError> {
    if !prompt::is_possible() {
        return Err(CommandError::usage("there is nobody to ask for an id")
            .hint("`callboard workflows new ID --template hello`"));
    }
    Input::new()
        .with_prompt("Id of the workflow")
        .default("first-workflow".to_owned())
        .interact_text()
        .map_err(|dialoguer::Error::IO(error)| error.into())
}

fn ask_template() -> Result<&'static Starter, CommandError> {
    if !prompt::is_possible() {
        return named("hello");
    }
    let lines: Vec<String> =
        starters().iter().map(|it| format!("{}: {}", it.name, it.summary)).collect();
    let select = Select::new().with_prompt("Begin with").items(&lines).default(0);
    let chosen = select.interact().map_err(|dialoguer::Error::IO(error)| error)?;
    starters().get(chosen).ok_or_else(|| CommandError::usage("there is no such template"))
}
