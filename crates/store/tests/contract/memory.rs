//! What is remembered: written with the log or not at all, seen by those who may and when they may.

use anyhow::Context as _;
use callboard_core::MemoryView;
use callboard_engine::{
    Append, KeyMode, MemoryAuthor, MemoryQuery, MemoryRecord, MemoryRow, MemorySeen, NewRun, Place,
    Scope, StoreError,
};
use callboard_protocol::{Remembered, RunId};

use crate::given::{acme, append, at, new_run};
use crate::{Ports, Subject};

/// A new entry of `desk/notes`.
fn note(id: &str, content: &str) -> MemoryRow {
    MemoryRow {
        id: id.into(),
        expected: 0,
        scope_id: String::new(),
        memory_ref: "desk/notes".to_owned(),
        family: None,
        content: content.to_owned(),
        tags: Vec::new(),
        at: at(2_000),
        expires_at: None,
        author: MemoryAuthor { run_id: Some("r1".into()), ..MemoryAuthor::default() },
        sources: Vec::new(),
    }
}

fn tagged(id: &str, content: &str, tags: &[&str]) -> MemoryRow {
    MemoryRow { tags: tags.iter().map(|tag| (*tag).to_owned()).collect(), ..note(id, content) }
}

/// The version after `expected`.
fn later(id: &str, expected: u64, content: &str) -> MemoryRow {
    MemoryRow { expected, ..note(id, content) }
}

fn everything() -> MemoryQuery {
    MemoryQuery::new(Place::Anywhere, at(5_000), 100)
}

fn notes() -> MemoryQuery {
    let (scope_id, memory_ref) = (String::new(), "desk/notes".to_owned());
    MemoryQuery { place: Place::Exactly { scope_id, memory_ref }, ..everything() }
}

fn seen(as_of: u64, family: Option<&str>, also: &[(&str, u64)]) -> MemoryQuery {
    let named = |(id, version): &(&str, u64)| Remembered { id: (*id).into(), version: *version };
    let view = MemoryView { as_of, also: also.iter().map(named).collect() };
    MemoryQuery { seen: Some(MemorySeen { view, family: family.map(RunId::from) }), ..notes() }
}

/// Entries by id and version, in their order.
fn lines(records: &[MemoryRecord]) -> Vec<String> {
    records.iter().map(|record| format!("{} {}", record.id, record.version)).collect()
}

async fn found(store: &dyn Ports, query: &MemoryQuery) -> anyhow::Result<Vec<String>> {
    Ok(lines(&store.recall(&acme(), query).await?))
}

/// Writes with the next append of a run.
async fn write(
    store: &dyn Ports,
    run: &str,
    expected: u64,
    memory: Vec<MemoryRow>,
) -> Result<(), StoreError> {
    store.append(Append { memory, ..append(run, expected) }).await
}

pub(crate) async fn what_a_run_remembers_is_written_with_its_log(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.ports()?;
    store.create(new_run("r1")).await?;
    assert_eq!(store.memory_position().await?, 0);
    let stale = write(store, "r1", 7, vec![note("m1", "lost")]).await;
    assert!(matches!(stale, Err(StoreError::Conflict { .. })), "{stale:?}");
    let row = MemoryRow { expires_at: Some(at(9_000)), ..tagged("m1", "kept", &["a", "b"]) };
    write(store, "r1", 0, vec![row.clone()]).await?;
    let position = store.memory_position().await?;
    assert_eq!(position, 1);
    subject.restart()?;
    let store = subject.ports()?;
    assert_eq!(store.memory_position().await?, position);
    let record = store.recall(&acme(), &notes()).await?.pop().context("an entry")?;
    assert_eq!((record.version, record.previous_version), (1, None));
    assert_eq!((record.created_at, record.written_at), (at(2_000), at(2_000)));
    assert_eq!((&record.author, &record.tags), (&row.author, &row.tags));
    assert_eq!((record.expires_at, record.content), (row.expires_at, row.content));
    Ok(())
}

pub(crate) async fn a_version_that_has_moved_on_writes_nothing(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.ports()?;
    store.create(new_run("r1")).await?;
    write(store, "r1", 0, vec![note("m1", "one")]).await?;
    for expected in [0, 2] {
        let late = write(store, "r1", 1, vec![note("m2", "x"), later("m1", expected, "y")]).await;
        assert!(matches!(late, Err(StoreError::Moved { .. })), "{late:?}");
    }
    assert_eq!(store.open(&"r1".into()).await?.map(|run| run.entries.len()), Some(1));
    assert_eq!(found(store, &notes()).await?, ["m1 1"]);
    // Two versions in one append are one after the other.
    write(store, "r1", 1, vec![later("m1", 1, "two"), later("m1", 2, "three")]).await?;
    assert_eq!(found(store, &notes()).await?, ["m1 3"]);
    Ok(())
}

pub(crate) async fn a_list_shows_the_newest_entries_first(subject: Subject) -> anyhow::Result<()> {
    let store = subject.ports()?;
    store.create(new_run("r1")).await?;
    let rows =
        (0..5).map(|index| tagged(&format!("m{index}"), "x", &["even", "odd"][index % 2..][..1]));
    write(store, "r1", 0, rows.collect()).await?;
    // A new version does not move its entry.
    write(store, "r1", 1, vec![MemoryRow { expected: 1, ..tagged("m0", "y", &["even"]) }]).await?;
    assert_eq!(found(store, &notes()).await?, ["m4 1", "m3 1", "m2 1", "m1 1", "m0 2"]);
    let first = MemoryQuery { limit: 2, ..notes() };
    assert_eq!(found(store, &first).await?, ["m4 1", "m3 1"]);
    let last = store.recall(&acme(), &first).await?.pop().context("an entry")?;
    let next = MemoryQuery { before: Some(first.place_of(&last)), ..first };
    assert_eq!(found(store, &next).await?, ["m2 1", "m1 1"]);
    let even = MemoryQuery { tag: Some("even".to_owned()), ..notes() };
    assert_eq!(found(store, &even).await?, ["m4 1", "m2 1", "m0 2"]);
    assert_eq!(found(store, &MemoryQuery { limit: 1, ..even }).await?, ["m4 1"]);
    let one = MemoryQuery { id: Some("m2".into()), ..notes() };
    assert_eq!(found(store, &one).await?, ["m2 1"]);
    Ok(())
}

pub(crate) async fn text_is_found_by_its_words(subject: Subject) -> anyhow::Result<()> {
    let store = subject.ports()?;
    store.create(new_run("r1")).await?;
    let rows = vec![
        tagged("m1", "The invoice of Müller is paid", &["money"]),
        note("m2", "Müller likes tea"),
        note("m3", "nobody paid"),
    ];
    write(store, "r1", 0, rows).await?;
    write(store, "r1", 1, vec![later("m3", 1, "the tea was paid")]).await?;
    let text = |text: &str| MemoryQuery { text: Some(text.to_owned()), ..notes() };
    assert_eq!(found(store, &text("MÜLLER")).await?, ["m2 1", "m1 1"]);
    assert_eq!(found(store, &text("paid müller")).await?, ["m1 1"]);
    assert_eq!(found(store, &text("tea")).await?, ["m3 2", "m2 1"]);
    for nothing in ["nobody", "invoi", "", "\" OR *", "NEAR(", "müller* -paid x"] {
        assert_eq!(found(store, &text(nothing)).await?, [""; 0], "{nothing}");
    }
    let both = MemoryQuery { tag: Some("money".to_owned()), ..text("müller") };
    assert_eq!(found(store, &both).await?, ["m1 1"]);
    Ok(())
}

pub(crate) async fn what_has_expired_is_not_there(subject: Subject) -> anyhow::Result<()> {
    let store = subject.ports()?;
    store.create(new_run("r1")).await?;
    let short = MemoryRow { expires_at: Some(at(5_000)), ..tagged("m1", "tea", &["t"]) };
    let long = MemoryRow { expires_at: Some(at(5_001)), ..tagged("m2", "tea", &["t"]) };
    write(store, "r1", 0, vec![short, long]).await?;
    for query in [
        notes(),
        MemoryQuery { tag: Some("t".to_owned()), ..notes() },
        MemoryQuery { text: Some("tea".to_owned()), ..notes() },
        seen(9, None, &[("m1", 1)]),
    ] {
        assert_eq!(found(store, &query).await?, ["m2 1"], "{query:?}");
    }
    // No later version makes it last longer, and one that says nothing keeps the time.
    let unset = MemoryRow { expires_at: None, ..later("m2", 1, "x") };
    let longer = MemoryRow { expires_at: Some(at(90_000)), ..later("m2", 2, "y") };
    write(store, "r1", 1, vec![unset, longer]).await?;
    let record = store.recall(&acme(), &notes()).await?.pop().context("an entry")?;
    assert_eq!((record.version, record.expires_at), (3, Some(at(5_001))));
    Ok(())
}

pub(crate) async fn a_run_sees_what_was_there_and_what_is_named(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.ports()?;
    store.create(new_run("r1")).await?;
    write(store, "r1", 0, vec![tagged("m1", "one", &["t"]), note("m2", "two")]).await?;
    let as_of = store.memory_position().await?;
    write(store, "r1", 1, vec![later("m1", 1, "one again"), tagged("m3", "three", &["t"])]).await?;
    assert_eq!(found(store, &seen(0, None, &[])).await?, [""; 0]);
    assert_eq!(found(store, &seen(as_of, None, &[])).await?, ["m2 1", "m1 1"]);
    let own = seen(as_of, None, &[("m3", 1), ("m1", 2)]);
    assert_eq!(found(store, &own).await?, ["m3 1", "m2 1", "m1 2"]);
    // What was written anew without a tag no longer has it.
    let tag = MemoryQuery { tag: Some("t".to_owned()), ..own.clone() };
    assert_eq!(found(store, &tag).await?, ["m3 1"]);
    assert_eq!(found(store, &MemoryQuery { limit: 2, ..own.clone() }).await?, ["m3 1", "m2 1"]);
    let text = MemoryQuery { text: Some("again".to_owned()), ..own };
    assert_eq!(found(store, &text).await?, ["m1 2"]);
    Ok(())
}

pub(crate) async fn relatives_are_seen_when_they_are_named(subject: Subject) -> anyhow::Result<()> {
    let store = subject.ports()?;
    store.create(new_run("r1")).await?;
    let of_family = |row: MemoryRow| MemoryRow { family: Some("root".into()), ..row };
    let rows =
        vec![note("m1", "one"), of_family(note("m2", "two")), of_family(later("m1", 1, "x"))];
    write(store, "r1", 0, rows).await?;
    let as_of = store.memory_position().await?;
    assert_eq!(found(store, &seen(as_of, Some("root"), &[])).await?, ["m1 1"]);
    assert_eq!(found(store, &seen(as_of, Some("root"), &[("m2", 1)])).await?, ["m2 1", "m1 1"]);
    assert_eq!(found(store, &seen(as_of, Some("other"), &[])).await?, ["m2 1", "m1 2"]);
    Ok(())
}

pub(crate) async fn memory_stays_in_its_tenant_workspace_and_mode(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.ports()?;
    for (run, tenant, workspace, test) in [
        ("r1", "acme", Some("w1"), false),
        ("r2", "acme", Some("w2"), false),
        ("r3", "acme", None, true),
        ("r4", "globex", None, false),
    ] {
        let mut new: NewRun = new_run(run);
        new.birth.owner.tenant = tenant.into();
        new.birth.owner.workspace = workspace.map(Into::into);
        new.birth.test = test;
        store.create(new).await?;
        // The same id is another entry elsewhere.
        let id = if tenant == "globex" { "m-r1".to_owned() } else { format!("m-{run}") };
        write(store, run, 0, vec![tagged(&id, "tea", &["t"])]).await?;
    }
    let scope = |tenant: &str, workspace: Option<&str>, mode| Scope {
        tenant: tenant.into(),
        workspace: workspace.map(Into::into),
        mode,
    };
    for (scope, expected) in [
        (scope("acme", None, KeyMode::Live), vec!["m-r2 1", "m-r1 1"]),
        (scope("acme", Some("w1"), KeyMode::Live), vec!["m-r1 1"]),
        (scope("acme", None, KeyMode::Test), vec!["m-r3 1"]),
        (scope("globex", None, KeyMode::Live), vec!["m-r1 1"]),
        (scope("initech", None, KeyMode::Live), vec![]),
    ] {
        for query in [
            everything(),
            notes(),
            MemoryQuery { place: Place::Named("desk/notes".to_owned()), ..everything() },
            MemoryQuery { tag: Some("t".to_owned()), ..everything() },
            MemoryQuery { text: Some("tea".to_owned()), ..everything() },
        ] {
            let found = lines(&store.recall(&scope, &query).await?);
            assert_eq!(found, expected, "{scope:?} {query:?}");
        }
        let history = lines(&store.memory_history(&scope, &"m-r2".into()).await?);
        assert_eq!(history.is_empty(), !expected.contains(&"m-r2 1"), "{scope:?}");
        if !expected.contains(&"m-r2 1") {
            assert!(!store.forget(&scope, &"m-r2".into()).await?, "{scope:?}");
            let amended = store.amend(&scope, later("m-r2", 1, "mine")).await;
            assert!(matches!(amended, Err(StoreError::Moved { .. })), "{amended:?}");
        }
    }
    Ok(())
}

pub(crate) async fn a_name_finds_a_scope_or_a_reference(subject: Subject) -> anyhow::Result<()> {
    let store = subject.ports()?;
    store.create(new_run("r1")).await?;
    let rows = vec![
        MemoryRow { scope_id: "case-7".to_owned(), ..note("m1", "x") },
        MemoryRow { memory_ref: "case-7".to_owned(), ..note("m2", "x") },
        note("m3", "x"),
    ];
    write(store, "r1", 0, rows).await?;
    let named = |name: &str| MemoryQuery { place: Place::Named(name.to_owned()), ..everything() };
    assert_eq!(found(store, &named("case-7")).await?, ["m2 1", "m1 1"]);
    assert_eq!(found(store, &named("desk/notes")).await?, ["m3 1", "m1 1"]);
    assert_eq!(found(store, &notes()).await?, ["m3 1"]);
    Ok(())
}

pub(crate) async fn a_person_amends_what_has_not_moved(subject: Subject) -> anyhow::Result<()> {
    let store = subject.ports()?;
    store.create(new_run("r1")).await?;
    write(store, "r1", 0, vec![note("m1", "one")]).await?;
    let before = store.memory_position().await?;
    let record = store.amend(&acme(), later("m1", 1, "two")).await?;
    assert_eq!((record.version, record.previous_version), (2, Some(1)));
    assert_eq!(store.memory_position().await?, before + 1);
    for expected in [0, 1, 3] {
        let late = store.amend(&acme(), later("m1", expected, "late")).await;
        assert!(matches!(late, Err(StoreError::Moved { .. })), "{late:?}");
    }
    let history = store.memory_history(&acme(), &"m1".into()).await?;
    assert_eq!(lines(&history), ["m1 2", "m1 1"]);
    assert_eq!(history.iter().map(|it| it.content.as_str()).collect::<Vec<_>>(), ["two", "one"]);
    Ok(())
}

pub(crate) async fn what_is_forgotten_is_nowhere(mut subject: Subject) -> anyhow::Result<()> {
    let store = subject.ports()?;
    store.create(new_run("r1")).await?;
    write(store, "r1", 0, vec![tagged("m1", "tea", &["t"]), note("m2", "tea")]).await?;
    write(store, "r1", 1, vec![later("m2", 1, "more tea")]).await?;
    assert!(store.forget(&acme(), &"m2".into()).await?);
    assert!(!store.forget(&acme(), &"m2".into()).await?);
    subject.restart()?;
    let store = subject.ports()?;
    for query in [
        notes(),
        MemoryQuery { text: Some("tea".to_owned()), ..notes() },
        seen(9, None, &[("m2", 1), ("m2", 2)]),
    ] {
        assert_eq!(found(store, &query).await?, ["m1 1"], "{query:?}");
    }
    assert!(store.memory_history(&acme(), &"m2".into()).await?.is_empty());
    // Its places stay empty: a run that saw them must not see others there.
    write(store, "r1", 2, vec![note("m3", "new")]).await?;
    assert_eq!(found(store, &seen(3, None, &[])).await?, ["m1 1"]);
    Ok(())
}

pub(crate) async fn a_snapshot_is_let_go_of_by_its_owner(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.ports()?;
    for run in ["r1", "r2"] {
        store.create(new_run(run)).await?;
    }
    let stranger = Scope { tenant: "globex".into(), ..acme() };
    assert!(!store.expire_snapshot(&stranger, &"r1".into()).await?);
    assert!(!store.expire_snapshot(&acme(), &"r9".into()).await?);
    assert!(store.has_snapshot(&"r1".into()).await?);
    assert!(store.expire_snapshot(&acme(), &"r1".into()).await?);
    subject.restart()?;
    let store = subject.ports()?;
    assert!(!store.has_snapshot(&"r1".into()).await?);
    assert!(store.has_snapshot(&"r2".into()).await?);
    Ok(())
}
