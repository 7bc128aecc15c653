//! Which files write to the store, and the feature above that dies at their writes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::features;

/// A file that writes without standing here has no feature that dies at its writes.
const WRITERS: &[(&str, &str)] = &[
    ("engine/src/annotations.rs", "beside_runs"),
    ("engine/src/audit_log.rs", "audit_log"),
    ("engine/src/audit_log/keep.rs", "audit_log"),
    ("engine/src/budget/accounts.rs", "budgets"),
    ("engine/src/claim.rs", "runs"),
    ("engine/src/coding_sessions.rs", "coding_sessions"),
    ("engine/src/console_sessions.rs", "access"),
    ("engine/src/deployments.rs", "beside_runs"),
    ("engine/src/drive/decide.rs", "runs"),
    ("engine/src/engine.rs", "control"),
    ("engine/src/engine/create.rs", "runs"),
    ("engine/src/envelopes.rs", "beside_runs"),
    ("engine/src/files/store.rs", "files"),
    ("engine/src/heartbeats/stored.rs", "heartbeats"),
    ("engine/src/kept_runs.rs", "beside_runs"),
    ("engine/src/keys.rs", "access"),
    ("engine/src/ledger.rs", "outward_calls"),
    ("engine/src/links.rs", "access"),
    ("engine/src/memory.rs", "memory"),
    ("engine/src/memory/commitment.rs", "memory"),
    ("engine/src/once.rs", "outward_calls"),
    ("engine/src/org_chart.rs", "standing"),
    ("engine/src/packs.rs", "beside_runs"),
    ("engine/src/park.rs", "runs"),
    ("engine/src/prompts.rs", "prompts"),
    ("engine/src/record.rs", "control"),
    ("engine/src/registry.rs", "standing"),
    ("engine/src/retention.rs", "retention"),
    ("engine/src/roles.rs", "access"),
    ("engine/src/roster.rs", "standing"),
    ("engine/src/schedules/stored.rs", "schedules"),
    ("engine/src/secrets.rs", "access"),
    ("engine/src/triggers/filter.rs", "inbound_deliveries"),
    ("engine/src/triggers/letters.rs", "inbound_deliveries"),
    ("engine/src/triggers/records.rs", "inbound_deliveries"),
    ("engine/src/values.rs", "stored_values"),
    ("engine/src/webhooks/letters.rs", "dead_letters"),
    ("engine/src/webhooks/records.rs", "outbound_deliveries"),
    ("engine/src/webhooks/take.rs", "dead_letters"),
    ("engine/src/work.rs", "standing"),
];

/// Files that write and that no feature dies in, with what dies there instead.
const ELSEWHERE: &[(&str, &str)] = &[
    ("engine/src/engine/import.rs", "a door of the suite: a death leaves a run that begins anew"),
    ("engine/src/strikes.rs", "counts deaths: stuck.rs has processes that die of a run"),
    ("engine/src/unprocessable.rs", "gives up a run that processes die of: stuck.rs"),
    (
        "server/src/idempotency.rs",
        "the outcome of a request that wrote nothing else, written alone",
    ),
];

/// The calls of the port that write.
const WRITES: [&str; 7] = [
    ".commit(",
    ".begin_effect(",
    ".settle_effect(",
    ".remove_ended(",
    "store.claim(",
    "store.renew(",
    "store.release(",
];

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// Whether a file writes, outside of comments and of its own tests. What others have prepared, others write.
fn writes(path: &Path) -> bool {
    let text = fs::read_to_string(path).unwrap();
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let is_code =
        |line: &&str| !line.trim_start().starts_with("//") && !line.contains("prepared.commit(");
    code.lines().filter(is_code).any(|line| WRITES.iter().any(|call| line.contains(call)))
}

#[test]
fn every_file_that_writes_belongs_to_a_feature_that_dies_at_its_writes() {
    let crates = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut files = Vec::new();
    for name in ["engine", "agents", "backends", "server", "conformance"] {
        rust_files(&crates.join(name).join("src"), &mut files);
    }
    let names = files.iter().filter(|path| writes(path)).map(|path| {
        let name = path.strip_prefix(&crates).unwrap();
        name.to_str().unwrap().to_owned()
    });
    // The store in memory, and the one that fails on command, are the store and not who writes to it.
    let is_store = |name: &str| name.contains("/in_memory") || name.ends_with("/intercept.rs");
    let writing: BTreeSet<String> = names.filter(|name| !is_store(name)).collect();
    let listed = WRITERS.iter().chain(ELSEWHERE).map(|(name, _)| (*name).to_owned());
    assert_eq!(writing, listed.collect::<BTreeSet<_>>());
    let known: BTreeSet<_> = features().into_iter().map(|(name, _)| name).collect();
    for (file, feature) in WRITERS {
        assert!(known.contains(feature), "{file}: there is no feature {feature}");
    }
}
