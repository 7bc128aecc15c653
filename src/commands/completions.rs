//! `callboard completions`: the completion script of a shell.

use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::Shell;

use crate::args::Cli;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard completions bash > ~/.local/share/bash-completion/completions/callboard
  callboard completions zsh > \"${fpath[1]}/_callboard\"
  callboard completions fish > ~/.config/fish/completions/callboard.fish")]
pub(crate) struct CompletionsArgs {
    shell: KnownShell,
}

/// The shells that we have tried.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum KnownShell {
    Bash,
    Zsh,
    Fish,
}

pub(crate) fn run(args: &CompletionsArgs) -> Result<Exit, CommandError> {
    let shell = match args.shell {
        KnownShell::Bash => Shell::Bash,
        KnownShell::Zsh => Shell::Zsh,
        KnownShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "callboard", &mut script);
    output::text(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
