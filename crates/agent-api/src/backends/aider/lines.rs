//! The text that `aider` prints, which was made for people.

use serde_json::json;

use crate::transcript::{Fact, Mapper, Terminal, Unreadable};

/// Aider prints notices, a heading that ends with a blank line, the answer, and how many tokens it took.
/// Without the last it gave no answer, whatever its exit code says.
#[derive(Debug, Default)]
pub(super) struct Lines {
    place: Place,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Notices,
    Heading,
    Answer,
}

impl Mapper for Lines {
    fn read(&mut self, line: &str, facts: &mut Vec<Fact>) -> Result<(), Unreadable> {
        if line.starts_with("Aider v") {
            self.place = Place::Heading;
            facts.push(Fact::Status("aider started".into()));
            return Ok(());
        }
        if line.starts_with("Repo-map:") && self.place == Place::Heading {
            self.place = Place::Answer;
            return Ok(());
        }
        if self.place != Place::Answer {
            return Ok(());
        }
        if let Some(usage) = line.strip_prefix("Tokens: ").and_then(tokens) {
            facts.push(Fact::Usage(usage));
            facts.push(Fact::Ended(Terminal::Succeeded { final_text: None }));
            return Ok(());
        }
        facts.push(Fact::Text(format!("{line}\n")));
        Ok(())
    }
}

/// `596 sent, 6 received.`
fn tokens(text: &str) -> Option<serde_json::Value> {
    let (sent, rest) = text.split_once(" sent")?;
    let received = rest.strip_prefix(", ")?.split_once(" received")?.0;
    // Large numbers are rounded (`1.2k`), so they are no count.
    Some(json!({
        "input_tokens": sent.parse::<u64>().ok(),
        "output_tokens": received.parse::<u64>().ok(),
    }))
}
