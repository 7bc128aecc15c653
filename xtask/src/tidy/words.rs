//! Words that were replaced by plain ones stay away, in code, comments and documents.

use super::Finding;
use crate::source::Source;
use crate::workspace::TextFile;

/// What is not said any more, with what is said instead. Matched as whole words; quoted text is not looked at, so a
/// workflow may have any name.
const REPLACED: [(&str, &str); 28] = [
    ("Newborn", "PreparedRun"),
    ("conceive", "prepare"),
    ("bring_up", "persist_and_drive"),
    ("Tale", "FactBuffer"),
    ("Teller", "FactSender or FactWriter"),
    ("Told", "RecordedFacts, or what it is"),
    ("Untold", "Unrecorded"),
    ("Voices", "FactChannel"),
    ("ChildNews", "ChildUpdate"),
    ("Purse", "BudgetAccount or ByteBudget"),
    ("set_aside", "reserve"),
    ("Cast", "AgentBindings"),
    ("play_alone", "run_single"),
    ("is_hers", "what is asked: is_bound_agent, is_of_member"),
    ("Errand", "SubRun, or task of a coding agent"),
    ("Homecoming", "SubRunResult"),
    ("Stumble", "CallFailure"),
    ("poke", "request_wake"),
    ("blot", "redact_credentials"),
    ("let_go", "release"),
    ("Bridge", "TriggerIngest; the protocol's trigger bridge is written small"),
    ("Pulse", "HeartbeatLoop"),
    ("Courier", "DeliveryLoop"),
    ("Desk", "what it does"),
    ("Minds", "what it does"),
    ("Crowd", "what it does"),
    ("bring_up_with", "persist_and_drive_with"),
    ("is_poked", "is_wake_requested"),
];

pub(super) fn check(files: &[TextFile]) -> Vec<Finding> {
    files.iter().flat_map(in_file).collect()
}

fn in_file(file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    if file.path.ends_with(".md") {
        for (index, line) in file.text.lines().enumerate() {
            findings.extend(in_line(file, index + 1, line));
        }
    } else if file.path.ends_with(".rs") {
        let source = Source::read(&file.text);
        for (index, line) in source.code.lines().enumerate() {
            findings.extend(in_line(file, index + 1, line));
        }
        for comment in &source.comments {
            findings.extend(in_line(file, comment.line, &comment.text));
        }
    }
    findings
}

fn in_line<'a>(
    file: &'a TextFile,
    line: usize,
    text: &'a str,
) -> impl Iterator<Item = Finding> + 'a {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.split(move |c| !is_word(c)).filter_map(move |word| {
        let (_, plain) = REPLACED.iter().find(|(replaced, _)| *replaced == word)?;
        let what = format!("`{word}`: the plain word is {plain}");
        Some(Finding::fault(format!("{}:{line}", file.path), what))
    })
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::workspace::TextFile;

    fn found(path: &str, text: &str) -> usize {
        check(&[TextFile { path: path.into(), text: text.into() }]).len()
    }

    #[test]
    fn a_replaced_word_is_found_in_code_comments_and_documents() {
        assert_eq!(found("crates/engine/src/a.rs", "struct Courier;"), 1);
        assert_eq!(found("crates/engine/src/a.rs", "fn f() { run.poke() } // and let_go of it"), 2);
        assert_eq!(found("docs/guides/a.md", "The `Bridge` takes it.\n"), 1);
        assert_eq!(found("tests/a.rs", "let is_hers = true;"), 1);
    }

    #[test]
    fn other_words_and_quoted_text_are_left_alone() {
        assert_eq!(found("crates/engine/src/a.rs", "const NAME: &str = \"Desk\";"), 0);
        assert_eq!(found("crates/engine/src/a.rs", "// the trigger bridge of the protocol"), 0);
        assert_eq!(found("crates/engine/src/a.rs", "struct CrowdedMemory; fn pokes() {}"), 0);
        assert_eq!(found("examples/workflows/desk.json", "{ \"name\": \"Desk\" }"), 0);
    }
}
