//! A small MCP server over standard input and output, with tools that misbehave.

mod dialogue;

use std::io::{self, BufRead as _, Write as _};

use dialogue::Reaction;

fn main() -> io::Result<()> {
    let mut output = io::stdout();
    for line in io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str(&line?) else { continue };
        match dialogue::react(&message) {
            Reaction::Answer(answers) => {
                for answer in answers {
                    writeln!(output, "{answer}")?;
                }
                output.flush()?;
            }
            Reaction::Silence => {}
            Reaction::Death => return Ok(()),
        }
    }
    Ok(())
}
