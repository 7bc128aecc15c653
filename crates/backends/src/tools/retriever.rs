//! Finding passages: in the files of the run, in texts that came with the question, in what the agent remembers.

use std::path::Path;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_agents::{Tool, ToolCard, ToolDescriptor, ToolFault, ToolInvocation};
use callboard_protocol::{MemoryEntry, SafetyTier};

use super::bm25::rank;
use super::files::on_disk;
use super::text;
use super::workspace::Workspace;

/// About a page: what a model can weigh as one thought.
const PASSAGE: usize = 1_200;
/// Searching more than this takes too long.
const MOST_TEXT: usize = 32 << 20;
const USUAL_HITS: u64 = 5;
/// The newest; older ones are found with the tool that searches memory alone.
const MOST_NOTES: usize = 1_000;

pub(super) static RETRIEVER: ToolCard = ToolCard {
    id: "openwop:core.rag.retriever-basic",
    title: "Find passages",
    description: "Finds the passages that fit a question best, by their words, among the text files of this run's workspace, what you remember from earlier runs, and the texts given. Returns { hits: [{ source, text, score }] }, best first.",
    input: r#"{"type":"object","required":["query"],"properties":{
        "query":{"type":"string","minLength":1,"maxLength":4000},
        "topK":{"type":"integer","minimum":1,"maximum":50,"default":5},
        "texts":{"type":"array","maxItems":1000,"items":{"type":"object","required":["text"],"properties":{
            "source":{"type":"string","maxLength":500},
            "text":{"type":"string"}
        },"additionalProperties":false}}
    },"additionalProperties":false}"#,
    tier: SafetyTier::Read,
    ..ToolCard::NATIVE
};

/// A text with the name under which it is cited.
#[derive(Debug)]
struct Passage {
    source: String,
    text: String,
}

#[derive(Debug)]
pub(super) struct Retriever(pub(super) ToolDescriptor);

#[async_trait]
impl Tool for Retriever {
    fn descriptor(&self) -> &ToolDescriptor {
        &self.0
    }

    async fn invoke(&self, call: ToolInvocation<'_>) -> Result<Value, ToolFault> {
        let mut sources = given(&call);
        sources.extend(remembered(&call).await?);
        let question = text(&call.arguments, "query").unwrap_or_default().to_owned();
        let most = call.arguments.get("topK").and_then(Value::as_u64).unwrap_or(USUAL_HITS);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let folder = call.workspace.to_owned();
        on_disk(move || {
            sources.extend(files(&folder)?);
            Ok(search(&question, sources, most))
        })
        .await
    }
}

fn given(call: &ToolInvocation<'_>) -> Vec<Passage> {
    let texts = call.arguments.get("texts").and_then(Value::as_array);
    let texts = texts.map_or(&[][..], Vec::as_slice).iter().enumerate();
    texts
        .map(|(index, item)| Passage {
            source: item["source"]
                .as_str()
                .map_or_else(|| format!("texts[{index}]"), str::to_owned),
            text: item["text"].as_str().unwrap_or_default().to_owned(),
        })
        .collect()
}

/// What the agent remembers, whichever run it comes from.
async fn remembered(call: &ToolInvocation<'_>) -> Result<Vec<Passage>, ToolFault> {
    let Some(notebook) = call.notebook else { return Ok(Vec::new()) };
    let notes = notebook.notes(MOST_NOTES).await;
    let notes =
        notes.map_err(|_| ToolFault::Unavailable("memory cannot be read now".to_owned()))?;
    let passage =
        |note: MemoryEntry| Passage { source: format!("memory/{}", note.id), text: note.content };
    Ok(notes.into_iter().map(passage).collect())
}

/// Every file that is text; a run that wrote nothing has none.
fn files(folder: &Path) -> Result<Vec<Passage>, ToolFault> {
    let Some(workspace) = Workspace::open(folder)? else { return Ok(Vec::new()) };
    let mut passages = Vec::new();
    let mut left = MOST_TEXT;
    for file in workspace.files()? {
        let size = usize::try_from(file.size).unwrap_or(usize::MAX);
        let Some(rest) = left.checked_sub(size) else { continue };
        // A file that vanished or is no text is no reason to find nothing in the others.
        let Ok(bytes) = workspace.read(&file.path) else { continue };
        if let Ok(text) = String::from_utf8(bytes) {
            left = rest;
            passages.push(Passage { source: file.path, text });
        }
    }
    Ok(passages)
}

fn search(question: &str, sources: Vec<Passage>, most: usize) -> Value {
    let passages: Vec<(&str, &str)> = sources
        .iter()
        .flat_map(|source| split(&source.text).map(|text| (source.source.as_str(), text)))
        .collect();
    let texts: Vec<&str> = passages.iter().map(|(_, text)| *text).collect();
    let hit = |(index, score): (usize, f64)| {
        let (source, text) = passages[index];
        json!({ "source": source, "text": text, "score": (score * 1000.0).round() / 1000.0 })
    };
    json!({ "hits": rank(question, &texts, most).into_iter().map(hit).collect::<Vec<_>>() })
}

/// Cuts a text into passages, between paragraphs where it has any, else between lines or words.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text.trim();
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = passage_end(rest);
        let (passage, behind) = rest.split_at(end);
        rest = behind.trim_start();
        Some(passage.trim_end())
    })
}

fn passage_end(text: &str) -> usize {
    if text.len() <= PASSAGE {
        return text.len();
    }
    let window = &text[..text.floor_char_boundary(PASSAGE)];
    // The first half stays together in any case: a passage of one word is useless.
    let half = window.floor_char_boundary(window.len() / 2);
    let cut = ["\n\n", "\n", " "].iter().find_map(|mark| window[half..].rfind(mark));
    cut.map_or(window.len(), |at| half + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_paragraphs_and_nothing_of_it_is_lost() {
        let first = "alpha ".repeat(150);
        let second = "beta ".repeat(150);
        let text = format!("{}\n\n{}", first.trim(), second.trim());
        assert_eq!(split(&text).collect::<Vec<_>>(), [first.trim(), second.trim()]);
        assert_eq!(split("  short ").collect::<Vec<_>>(), ["short"]);
        assert_eq!(split(" \n ").count(), 0);

        let unbroken = "é".repeat(5_000);
        assert_eq!(split(&unbroken).collect::<String>(), unbroken);
        assert!(split(&unbroken).all(|passage| passage.len() <= PASSAGE));
    }
}
