//! What runs ask, across runs: kept with the appends, seen by its owners.

use callboard_core::{CastVote, InterruptView};
use callboard_engine::{Append, Batch, InboxFilter, InboxItem, KeyMode, Scope, Store, StoreError};
use callboard_protocol::InterruptKind;
use serde_json::json;

use crate::Subject;
use crate::given::{acme, append, at, new_run};

fn everything() -> InboxFilter {
    InboxFilter { limit: 100, ..InboxFilter::default() }
}

/// A question of the run's node, asked at this moment.
pub(crate) fn question(run: &str, node: &str, millis: i64) -> InterruptView {
    InterruptView {
        id: format!("{run}-{node}"),
        node: node.into(),
        kind: InterruptKind::Approval,
        key: format!("{run}:{node}:0"),
        data: json!({ "title": "Send it?", "actions": ["accept"], "amount": 1.5 }),
        resume_schema: json!({ "type": "object" }).as_object().cloned(),
        requested_at: at(millis),
        expires_at: Some(at(millis + 60_000)),
        requires_auth: true,
        votes: vec![CastVote { voter: "ann".to_owned(), action: "accept".to_owned() }],
    }
}

pub(crate) fn asking(run: &str, expected: u64, interrupts: &[InterruptView]) -> Append {
    Append { interrupts: Some(interrupts.to_vec()), ..append(run, expected) }
}

async fn inbox(
    store: &dyn Store,
    scope: &Scope,
    filter: &InboxFilter,
) -> anyhow::Result<Vec<String>> {
    let items = store.inbox(scope, filter).await?;
    Ok(items.into_iter().map(|item| item.interrupt.id).collect())
}

pub(crate) async fn open_questions_are_those_of_the_last_append_that_named_them(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let (a, b) = (question("r1", "a", 1_000), question("r1", "b", 2_000));
    let plain = InterruptView {
        kind: InterruptKind::Custom,
        data: json!({}),
        resume_schema: None,
        expires_at: None,
        requires_auth: false,
        votes: Vec::new(),
        ..b.clone()
    };
    let store = subject.port()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    assert_eq!(inbox(store, &acme(), &everything()).await?, [""; 0]);
    store.commit(Batch::of_append(asking("r1", 0, &[a.clone(), plain.clone()]))).await?;
    // An append that is silent about questions leaves them open.
    store.commit(Batch::of_append(append("r1", 1))).await?;
    let item = |interrupt: &InterruptView| InboxItem {
        run: "r1".into(),
        workflow: "greet".into(),
        interrupt: interrupt.clone(),
    };
    assert_eq!(store.inbox(&acme(), &everything()).await?, [item(&a), item(&plain)]);
    subject.restart().await?;
    let store = subject.port()?;
    assert_eq!(store.inbox(&acme(), &everything()).await?, [item(&a), item(&plain)]);
    store.commit(Batch::of_append(asking("r1", 2, std::slice::from_ref(&b)))).await?;
    assert_eq!(store.inbox(&acme(), &everything()).await?, [item(&b)]);
    store.commit(Batch::of_append(asking("r1", 3, &[]))).await?;
    assert_eq!(inbox(store, &acme(), &everything()).await?, [""; 0]);
    Ok(())
}

pub(crate) async fn a_refused_append_changes_no_question(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    store.commit(Batch::of_append(asking("r1", 0, &[question("r1", "a", 1_000)]))).await?;
    let stale = store.commit(Batch::of_append(asking("r1", 0, &[]))).await;
    assert!(matches!(stale, Err(StoreError::Conflict { .. })), "{stale:?}");
    assert_eq!(inbox(store, &acme(), &everything()).await?, ["r1-a"]);
    Ok(())
}

pub(crate) async fn a_question_is_visible_in_its_tenant_workspace_and_mode_only(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    let mut run = new_run("r1");
    run.birth.owner.workspace = Some("sales".into());
    run.birth.test = true;
    store.commit(Batch::of_run(run)).await?;
    store.commit(Batch::of_append(asking("r1", 0, &[question("r1", "a", 1_000)]))).await?;

    let own = Scope { workspace: Some("sales".into()), mode: KeyMode::Test, ..acme() };
    let whole_tenant = Scope { workspace: None, ..own.clone() };
    let foreign = [
        Scope { tenant: "globex".into(), ..own.clone() },
        Scope { workspace: Some("support".into()), ..own.clone() },
        Scope { mode: KeyMode::Live, ..own.clone() },
    ];
    for scope in [&own, &whole_tenant] {
        assert_eq!(inbox(store, scope, &everything()).await?, ["r1-a"], "{scope:?}");
    }
    let by_name = InboxFilter { run: Some("r1".into()), ..everything() };
    for scope in &foreign {
        for filter in [&everything(), &by_name] {
            assert_eq!(inbox(store, scope, filter).await?, [""; 0], "{scope:?} {filter:?}");
        }
    }
    Ok(())
}

pub(crate) async fn an_inbox_shows_the_longest_waiting_first_page_by_page(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    for (run, millis) in [("c", 3_000), ("a", 1_000), ("d", 3_000), ("b", 2_000)] {
        store.commit(Batch::of_run(new_run(run))).await?;
        let asked = [question(run, "x", millis), question(run, "y", millis)];
        store.commit(Batch::of_append(asking(run, 0, &asked))).await?;
    }
    let mut seen = Vec::new();
    let mut page = InboxFilter { limit: 3, ..InboxFilter::default() };
    loop {
        let items = store.inbox(&acme(), &page).await?;
        let Some(last) = items.last() else { break };
        page.after = Some(last.place());
        // The question that the page ended with is answered before the next page is read.
        let rest: Vec<_> = items.iter().filter(|item| item.run == last.run).collect();
        if rest.len() == 1 {
            store.commit(Batch::of_append(asking(last.run.as_str(), 1, &[]))).await?;
        }
        seen.extend(items.into_iter().map(|item| item.interrupt.id));
    }
    assert_eq!(seen, ["a-x", "a-y", "b-x", "c-x", "c-y", "d-x"]);
    Ok(())
}

pub(crate) async fn an_inbox_shows_what_its_filter_asks_for(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    let mut other = new_run("r2");
    other.birth.workflow_id = "part".into();
    store.commit(Batch::of_run(other)).await?;
    let ask = InterruptView { kind: InterruptKind::Clarification, ..question("r1", "b", 2_000) };
    store.commit(Batch::of_append(asking("r1", 0, &[question("r1", "a", 1_000), ask]))).await?;
    store.commit(Batch::of_append(asking("r2", 0, &[question("r2", "c", 3_000)]))).await?;
    for (filter, expected) in [
        (everything(), vec!["r1-a", "r1-b", "r2-c"]),
        (InboxFilter { kind: Some(InterruptKind::Clarification), ..everything() }, vec!["r1-b"]),
        (InboxFilter { kind: Some(InterruptKind::Custom), ..everything() }, vec![]),
        (InboxFilter { workflow: Some("part".into()), ..everything() }, vec!["r2-c"]),
        (InboxFilter { run: Some("r1".into()), ..everything() }, vec!["r1-a", "r1-b"]),
        (InboxFilter { run: Some("r3".into()), ..everything() }, vec![]),
        (
            InboxFilter {
                kind: Some(InterruptKind::Approval),
                workflow: Some("greet".into()),
                ..everything()
            },
            vec!["r1-a"],
        ),
        (InboxFilter { limit: 2, ..everything() }, vec!["r1-a", "r1-b"]),
    ] {
        assert_eq!(inbox(store, &acme(), &filter).await?, expected, "{filter:?}");
    }
    Ok(())
}
