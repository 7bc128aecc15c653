//! Every feature that writes, with processes that die before and after each of its writes: once and twice in a row, with
//! one process and with two. Whoever got no answer asks again, and readers see what they see undisturbed.
//!
//! A kind of record that no feature writes fails here, and so does a file that writes and belongs to none (`writers.rs`).

mod access;
mod audit;
mod beside;
mod budgets;
mod careless;
mod coding;
mod control;
mod each;
mod heartbeats;
mod memory;
mod process;
mod prompts;
mod retries;
mod runs;
mod scenario;
mod schedules;
mod standing;
mod triggers;
mod values;
mod webhooks;
mod writers;

use std::collections::BTreeSet;

use callboard_engine::Kind;

use scenario::{Scenario, survives, undisturbed};

/// Lists what is covered, and makes a test of each.
macro_rules! features {
    ($($name:ident: $scenario:expr),+ $(,)?) => {
        fn features() -> Vec<(&'static str, Box<dyn Scenario>)> {
            vec![$((stringify!($name), Box::new($scenario))),+]
        }

        $(
            #[tokio::test(start_paused = true)]
            async fn $name() {
                survives(stringify!($name), &$scenario).await;
            }
        )+
    };
}

features! {
    access: access::Access,
    audit_log: audit::Audited,
    beside_runs: beside::Beside,
    budgets: budgets::BudgetDays::default(),
    callbacks: webhooks::Callbacks,
    coding_sessions: coding::CodingHomes,
    control: control::Control,
    dead_letters: webhooks::DeadLetters,
    fan: each::Fan,
    files: memory::WorkspaceFiles,
    heartbeats: heartbeats::Looks::default(),
    inbound_deliveries: triggers::InboundDeliveries,
    memory: memory::Memories,
    outbound_deliveries: webhooks::OutboundDeliveries,
    outward_calls: runs::OutwardCalls,
    prompts: prompts::PromptVersions,
    retention: runs::Retention,
    retries: retries::Retries::default(),
    runs: runs::Runs,
    schedules: schedules::FiringSchedules,
    standing: standing::Standing,
    stored_values: values::KeptValues,
}

/// Kinds of records that no scenario writes, with the reason.
const UNCOVERED: &[(Kind, &str)] =
    &[(Kind::Strikes, "counts deaths: stuck.rs has processes that die of a run")];

/// Calls of the store that write something else than a batch.
const OTHER_WRITES: [&str; 6] =
    ["begin_effect", "claim", "release", "remove_ended", "renew", "settle_effect"];

#[tokio::test(start_paused = true)]
async fn every_kind_of_record_is_written_by_a_feature_that_is_covered() {
    let (mut kinds, mut calls) = (BTreeSet::new(), BTreeSet::new());
    for (_, scenario) in features() {
        let seen = undisturbed(&*scenario).await;
        kinds.extend(seen.process.kinds());
        calls.extend(seen.process.writes());
    }
    let uncovered: BTreeSet<Kind> = UNCOVERED.iter().map(|(kind, _)| *kind).collect();
    let all: BTreeSet<Kind> = Kind::ALL.iter().copied().collect();
    assert_eq!(all.difference(&kinds).copied().collect::<BTreeSet<_>>(), uncovered);
    let missing: Vec<_> = OTHER_WRITES.iter().filter(|call| !calls.contains(**call)).collect();
    assert!(missing.is_empty(), "{missing:?} are in no scenario");
}
