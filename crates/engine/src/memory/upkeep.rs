//! Consolidation and compaction: which entries are merged, and the events of it.

use std::collections::BTreeMap;

use callboard_core::Fact;
use callboard_protocol::{
    CompactionTrigger, ConsolidationTrigger, Distillation, MemoryCompacted, MemoryConsolidated,
    MemoryId, Remembered,
};

use super::draft::{COMMITMENT, MAX_MEMORY_BYTES, MAX_TAGS, MemoryDraft, MemoryError, cleaned};
use super::recall::MemoryAccess;
use super::{MemoryRecord, words};
use crate::store::StoreError;

/// The largest budget of a distillation; also what one has that names none.
pub const MAX_TOKEN_BUDGET: u64 = 262_144;
/// How tokens are counted: models differ, and what counts here must count the same on every replay.
pub const TOKENIZER: &str = "utf8-bytes-div-4";

/// Entries that are looked at in one pass, the newest first: with the longest contents, what a host can hold.
const SURVEYED: usize = 1_000;
/// The protocol lets events leave out the names of more entries than these.
const MOST_NAMED: usize = 100;
/// Fewer are not worth an entry of their own.
const FEWEST_SOURCES: usize = 2;
/// Says which run put an entry together.
const PROVENANCE: &str = "compacted-from:";

/// How entries are to become fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upkeep {
    /// Entries that say the same become one.
    Consolidate(ConsolidationTrigger),
    /// All but the newest become one that says all that they said.
    Compact { keep: usize, trigger: CompactionTrigger },
    /// All become one that says the beginning of each, within a budget.
    Distill { token_budget: u64, trigger: CompactionTrigger },
}

/// Why entries stay as they are.
#[derive(Debug, thiserror::Error)]
pub enum UpkeepError {
    /// The protocol's `token_budget_exceeded`: nothing was written.
    #[error("{needed} tokens are needed, and the budget is {budget}")]
    OverBudget { budget: u64, needed: u64 },
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// One entry in the place of others.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Merged {
    content: String,
    tags: Vec<String>,
    /// The entry that goes on in a new version; none for a new one.
    replaces: Option<Remembered>,
    absorbs: Vec<Remembered>,
}

impl MemoryAccess {
    /// Makes the entries under a name fewer. New entry, absorbed ones and their events are one append; a pass
    /// that is made again after a crash records nothing twice.
    pub async fn tidy(&self, memory_ref: &str, upkeep: Upkeep) -> Result<(), UpkeepError> {
        let entries = self.survey(memory_ref, SURVEYED).await?;
        let (merged, fact) = match upkeep {
            Upkeep::Consolidate(trigger) => {
                let merged = same_words(&entries);
                let fact = consolidated(memory_ref, &entries, &merged, trigger);
                (merged, Some(fact))
            }
            Upkeep::Compact { keep, trigger } => {
                let merged = put_together(&entries, keep);
                let fact = merged.as_ref().map(|it| self.compacted(memory_ref, it, trigger, None));
                (merged.into_iter().collect(), fact)
            }
            Upkeep::Distill { token_budget, trigger } => {
                let budget = token_budget.min(MAX_TOKEN_BUDGET);
                let distilled = distill(&entries, budget)?;
                let (merged, used) = distilled.unzip();
                let distilled = used.map(|tokens_used| Distillation {
                    token_budget: budget,
                    tokens_used,
                    index_updated: false,
                });
                let fact =
                    merged.as_ref().map(|it| self.compacted(memory_ref, it, trigger, distilled));
                (merged.into_iter().collect(), fact)
            }
        };
        if let Some(fact) = fact {
            let drafts = (0..).zip(merged.into_iter().map(|merged| self.draft(memory_ref, merged)));
            self.write(drafts.collect(), Some(fact)).await?;
        }
        Ok(())
    }

    fn draft(&self, memory_ref: &str, merged: Merged) -> MemoryDraft {
        let Merged { content, mut tags, replaces, absorbs } = merged;
        if replaces.is_none() {
            tags.truncate(MAX_TAGS - 1);
            tags.insert(0, format!("{PROVENANCE}{}", self.run()));
        }
        tags.truncate(MAX_TAGS);
        MemoryDraft { tags, replaces, absorbs, ..MemoryDraft::new(memory_ref, &content) }
    }

    fn compacted(
        &self,
        memory_ref: &str,
        merged: &Merged,
        trigger: CompactionTrigger,
        distillation: Option<Distillation>,
    ) -> Fact {
        Fact::Compacted(MemoryCompacted {
            node_id: None,
            memory_ref: memory_ref.to_owned(),
            output_id: self.new_id(0),
            source_ids: named(merged.absorbs.iter()),
            source_count: merged.absorbs.len(),
            trigger,
            byte_size: cleaned(&merged.content).len(),
            distillation,
        })
    }
}

fn consolidated(
    memory_ref: &str,
    entries: &[MemoryRecord],
    merged: &[Merged],
    trigger: ConsolidationTrigger,
) -> Fact {
    let absorbed = || merged.iter().flat_map(|merged| &merged.absorbs);
    Fact::Consolidated(MemoryConsolidated {
        node_id: None,
        memory_ref: memory_ref.to_owned(),
        input_count: entries.len(),
        output_count: entries.len() - absorbed().count(),
        merged_ids: named(absorbed()).filter(|ids| !ids.is_empty()),
        trigger,
    })
}

fn named<'a>(versions: impl Iterator<Item = &'a Remembered>) -> Option<Vec<MemoryId>> {
    let ids: Vec<MemoryId> = versions.map(|version| version.id.clone()).collect();
    (ids.len() <= MOST_NAMED).then_some(ids)
}

/// Of entries with the same words the one stays that lives longest, of those the oldest: nobody lives longer than its
/// writer wanted.
fn same_words(entries: &[MemoryRecord]) -> Vec<Merged> {
    let mut alike: BTreeMap<Vec<String>, Vec<&MemoryRecord>> = BTreeMap::new();
    for entry in entries {
        let said: Vec<String> = words(&entry.content).collect();
        if !said.is_empty() && !is_commitment(entry) {
            alike.entry(said).or_default().push(entry);
        }
    }
    let merge = |group: Vec<&MemoryRecord>| {
        let lives = |entry: &&MemoryRecord| entry.expires_at.map_or(i64::MAX, |at| at.as_millis());
        let longest = group.iter().map(lives).max()?;
        let stays = *group.iter().find(|entry| lives(entry) == longest)?;
        let others = group.iter().filter(|entry| entry.id != stays.id);
        let absorbs: Vec<Remembered> = others.map(|entry| version(entry)).collect();
        (!absorbs.is_empty()).then(|| Merged {
            content: stays.content.clone(),
            tags: all_tags(&group),
            replaces: Some(version(stays)),
            absorbs,
        })
    };
    alike.into_values().filter_map(merge).collect()
}

/// What never expires, but for the newest, in one text. As many as fit into an entry, the oldest first.
fn put_together(entries: &[MemoryRecord], keep: usize) -> Option<Merged> {
    let lasting = lasting(entries);
    let old = &lasting[..lasting.len().saturating_sub(keep)];
    let mut content = String::new();
    let mut sources = Vec::new();
    for entry in old {
        let line = match is_merged(entry) {
            true => entry.content.clone(),
            false => format!("- {}: {}", entry.created_at, entry.content.trim()),
        };
        if content.len() + 1 + line.len() > MAX_MEMORY_BYTES {
            break;
        }
        if !content.is_empty() {
            content.push('\n');
        }
        content.push_str(&line);
        sources.push(*entry);
    }
    (sources.len() >= FEWEST_SOURCES).then(|| merged_of(&sources, content))
}

/// The beginning of everything that never expires, and the tokens that reading and writing it take. The same entries
/// within the same budget come to the same bytes.
fn distill(entries: &[MemoryRecord], budget: u64) -> Result<Option<(Merged, u64)>, UpkeepError> {
    let sources = lasting(entries);
    if sources.len() < FEWEST_SOURCES {
        return Ok(None);
    }
    let read: u64 = sources.iter().map(|entry| tokens(&entry.content)).sum();
    let over = |needed| Err(UpkeepError::OverBudget { budget, needed });
    let Some(room) = budget.checked_sub(read) else { return over(read) };
    // Four bytes to a token; each source gets its share of them, its mark and line end included.
    let room = usize::try_from(room.saturating_mul(4)).unwrap_or(usize::MAX).min(MAX_MEMORY_BYTES);
    let share = room / sources.len();
    if share <= MARK.len() + 1 {
        return over(read + tokens(MARK) * sources.len() as u64 + 1);
    }
    let line = |entry: &&MemoryRecord| {
        let text: Vec<&str> = entry.content.split_whitespace().collect();
        let text = text.join(" ");
        let most = text.floor_char_boundary(share - MARK.len() - 1);
        format!("{MARK}{}", &text[..most])
    };
    let content = sources.iter().map(line).collect::<Vec<_>>().join("\n");
    let used = read + tokens(&content);
    Ok(Some((merged_of(&sources, content), used)))
}

/// What begins a line of a distillation.
const MARK: &str = "- ";

fn tokens(text: &str) -> u64 {
    (text.len() as u64).div_ceil(4)
}

/// Entries that expire go by themselves, and what they say must not outlive them.
fn lasting(entries: &[MemoryRecord]) -> Vec<&MemoryRecord> {
    let lasts = |entry: &&MemoryRecord| entry.expires_at.is_none() && !is_commitment(entry);
    entries.iter().filter(lasts).collect()
}

/// An entry with a commitment stays as it is.
fn is_commitment(entry: &MemoryRecord) -> bool {
    entry.tags.iter().any(|tag| tag == COMMITMENT)
}

fn merged_of(sources: &[&MemoryRecord], content: String) -> Merged {
    Merged {
        content,
        tags: all_tags(sources),
        replaces: None,
        absorbs: sources.iter().map(|entry| version(entry)).collect(),
    }
}

fn is_merged(entry: &MemoryRecord) -> bool {
    entry.tags.iter().any(|tag| tag.starts_with(PROVENANCE))
}

/// Each once, in the order of their first use; runs that put entries together are known by the newest alone.
fn all_tags(entries: &[&MemoryRecord]) -> Vec<String> {
    let mut tags: Vec<String> = Vec::new();
    for tag in entries.iter().flat_map(|entry| &entry.tags) {
        if !tag.starts_with(PROVENANCE) && !tags.contains(tag) {
            tags.push(tag.clone());
        }
    }
    tags
}

fn version(entry: &MemoryRecord) -> Remembered {
    Remembered { id: entry.id.clone(), version: entry.version }
}

#[cfg(test)]
mod tests {
    use callboard_protocol::Timestamp;

    use super::*;
    use crate::memory::MemoryAuthor;

    fn entry(id: &str, content: &str) -> MemoryRecord {
        let at = Timestamp::from_millis(0);
        MemoryRecord {
            owner: crate::store::Scope {
                tenant: "acme".into(),
                workspace: None,
                mode: crate::store::KeyMode::Live,
            },
            id: id.into(),
            scope_id: String::new(),
            memory_ref: "desk".to_owned(),
            content: content.to_owned(),
            tags: vec![format!("of-{id}"), "all".to_owned()],
            created_at: at,
            expires_at: None,
            version: 1,
            previous_version: None,
            written_at: at,
            author: MemoryAuthor::default(),
            sources: Vec::new(),
            family: None,
            position: 1,
            superseded_by: None,
            first: 1,
        }
    }

    fn until(millis: i64, entry: MemoryRecord) -> MemoryRecord {
        MemoryRecord { expires_at: Some(Timestamp::from_millis(millis)), ..entry }
    }

    fn ids(versions: &[Remembered]) -> Vec<&str> {
        versions.iter().map(|version| version.id.as_str()).collect()
    }

    #[test]
    fn the_same_words_become_one_entry_that_lives_no_longer() {
        let entries = [
            entry("a", "Müller pays late"),
            entry("b", "tea"),
            entry("c", "müller PAYS late!"),
            entry("d", "!?"),
            entry("e", "..."),
        ];
        let merged = same_words(&entries);
        assert_eq!(merged.len(), 1);
        assert_eq!(merged[0].replaces.as_ref().map(|it| it.id.as_str()), Some("a"));
        assert_eq!(ids(&merged[0].absorbs), ["c"]);
        assert_eq!(merged[0].tags, ["of-a", "all", "of-c"]);
        let short =
            [until(5, entry("a", "x")), until(9, entry("b", "x")), until(7, entry("c", "x"))];
        let merged = same_words(&short);
        assert_eq!(merged[0].replaces.as_ref().map(|it| it.id.as_str()), Some("b"));
        assert_eq!(ids(&merged[0].absorbs), ["a", "c"]);
        assert!(same_words(&entries[..2]).is_empty());
        let mut promised = entry("p", "tea");
        promised.tags.push(COMMITMENT.to_owned());
        let entries = [promised, entry("b", "tea"), entry("c", "milk")];
        assert!(same_words(&entries).is_empty());
        assert_eq!(lasting(&entries).len(), 2);
    }

    #[test]
    fn old_entries_become_one_that_says_all_they_said() {
        let entries = [
            entry("a", "one"),
            until(5, entry("b", "two")),
            entry("c", "three"),
            entry("d", "four"),
        ];
        let merged = put_together(&entries, 1).expect("something");
        let expected = "- 1970-01-01T00:00:00.000Z: one\n- 1970-01-01T00:00:00.000Z: three";
        assert_eq!((merged.content.as_str(), ids(&merged.absorbs)), (expected, vec!["a", "c"]));
        for keep in [2, 3, 99] {
            assert_eq!(put_together(&entries, keep), None, "{keep}");
        }
        // What was put together before is taken as it is.
        let mut before = entry("x", "- yesterday: zero");
        before.tags = vec![format!("{PROVENANCE}run_1"), "all".to_owned()];
        let merged = put_together(&[before, entry("a", "one")], 0).expect("something");
        assert!(merged.content.starts_with("- yesterday: zero\n- 1970"), "{}", merged.content);
        assert_eq!(merged.tags, ["all", "of-a"]);
    }

    #[test]
    fn no_more_is_put_together_than_an_entry_holds() {
        let long = "x".repeat(MAX_MEMORY_BYTES / 3);
        let entries: Vec<MemoryRecord> =
            (0..9).map(|index| entry(&index.to_string(), &long)).collect();
        let merged = put_together(&entries, 0).expect("something");
        assert!(merged.content.len() <= MAX_MEMORY_BYTES);
        assert_eq!(merged.absorbs.len(), 2);
        assert_eq!(
            put_together(&[entry("a", &"x".repeat(MAX_MEMORY_BYTES)), entry("b", "y")], 0),
            None
        );
    }

    #[test]
    fn a_distillation_keeps_to_its_budget_and_is_the_same_every_time() {
        let text = "a long note about Müller that goes on and on, and then some more";
        let entries = [entry("a", text), entry("b", text), until(9, entry("c", text))];
        let read = tokens(text) * 2;
        for budget in 0..200 {
            match distill(&entries, budget) {
                Ok(Some((merged, used))) => {
                    assert!(used <= budget && used == read + tokens(&merged.content), "{budget}");
                    let again = distill(&entries, budget).expect("the same").expect("the same");
                    assert_eq!(again, (merged, used));
                }
                Ok(None) => panic!("{budget}"),
                Err(UpkeepError::OverBudget { budget: named, needed }) => {
                    assert!(named == budget && needed > budget && budget < read + 4, "{budget}");
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(distill(&entries[..1], 1).expect("nothing to do").is_none());
    }
}
