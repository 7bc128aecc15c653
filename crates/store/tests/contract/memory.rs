//! What is remembered: written with the log or not at all, seen by those who may and when they may.

use std::sync::Arc;

use anyhow::Context as _;
use callboard_core::MemoryView;
use callboard_engine::{
    Batch, Due, KeyMode, Memory, MemoryAuthor, MemoryQuery, MemoryRecord, MemoryRow, MemorySeen,
    NewRun, Place, Scope, Store, StoreError, add_memory,
};
use callboard_protocol::{Remembered, RunId};

use crate::Subject;
use crate::given::{acme, append, at, new_run};

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
        due: None,
        absorbs: Vec::new(),
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
    let seen = MemorySeen { view, family: family.map(RunId::from), anchors: Vec::new() };
    MemoryQuery { seen: Some(seen), ..notes() }
}

/// Entries by id and version, in their order.
fn lines(records: &[MemoryRecord]) -> Vec<String> {
    records.iter().map(|record| format!("{} {}", record.id, record.version)).collect()
}

async fn found(store: &Arc<dyn Store>, query: &MemoryQuery) -> anyhow::Result<Vec<String>> {
    Ok(lines(&store.recall(&acme(), query).await?))
}

/// Writes with the next append of a run.
async fn write(
    store: &Arc<dyn Store>,
    run: &str,
    expected: u64,
    memory: Vec<MemoryRow>,
) -> Result<(), StoreError> {
    let opened = store.open(&run.into()).await?;
    let owner = opened.map_or_else(acme, |run| Scope::of(&run.birth));
    let mut batch = Batch::of_append(append(run, expected));
    add_memory(&mut batch, &owner, memory)?;
    store.commit(batch).await
}

pub(crate) async fn what_a_run_remembers_is_written_with_its_log(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let handle = subject.store()?;
    let store = &handle;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    assert_eq!(store.memory_position(&acme().realm()).await?, 0);
    let stale = write(store, "r1", 7, vec![note("m1", "lost")]).await;
    assert!(matches!(stale, Err(StoreError::Conflict { .. })), "{stale:?}");
    let row = MemoryRow { expires_at: Some(at(9_000)), ..tagged("m1", "kept", &["a", "b"]) };
    write(store, "r1", 0, vec![row.clone()]).await?;
    let position = store.memory_position(&acme().realm()).await?;
    assert_eq!(position, 1);
    drop(handle);
    subject.restart().await?;
    let handle = subject.store()?;
    let store = &handle;
    assert_eq!(store.memory_position(&acme().realm()).await?, position);
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
    let store = &subject.store()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
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
    let store = &subject.store()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
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
    let store = &subject.store()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
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
    let store = &subject.store()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
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
    let store = &subject.store()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    write(store, "r1", 0, vec![tagged("m1", "one", &["t"]), note("m2", "two")]).await?;
    let as_of = store.memory_position(&acme().realm()).await?;
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
    let store = &subject.store()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    let of_family = |row: MemoryRow| MemoryRow { family: Some("root".into()), ..row };
    let rows =
        vec![note("m1", "one"), of_family(note("m2", "two")), of_family(later("m1", 1, "x"))];
    write(store, "r1", 0, rows).await?;
    let as_of = store.memory_position(&acme().realm()).await?;
    assert_eq!(found(store, &seen(as_of, Some("root"), &[])).await?, ["m1 1"]);
    assert_eq!(found(store, &seen(as_of, Some("root"), &[("m2", 1)])).await?, ["m2 1", "m1 1"]);
    assert_eq!(found(store, &seen(as_of, Some("other"), &[])).await?, ["m2 1", "m1 2"]);
    Ok(())
}

pub(crate) async fn memory_stays_in_its_tenant_workspace_and_mode(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = &subject.store()?;
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
        store.commit(Batch::of_run(new)).await?;
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
            assert!(
                !Memory::new(Arc::clone(store)).forget(&scope, &"m-r2".into()).await?,
                "{scope:?}"
            );
            let amended =
                Memory::new(Arc::clone(store)).amend(&scope, later("m-r2", 1, "mine")).await;
            assert!(matches!(amended, Err(StoreError::Moved { .. })), "{amended:?}");
        }
    }
    Ok(())
}

pub(crate) async fn a_name_finds_a_scope_or_a_reference(subject: Subject) -> anyhow::Result<()> {
    let store = &subject.store()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
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
    let store = &subject.store()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    write(store, "r1", 0, vec![note("m1", "one")]).await?;
    let before = store.memory_position(&acme().realm()).await?;
    let record = Memory::new(Arc::clone(store)).amend(&acme(), later("m1", 1, "two")).await?;
    assert_eq!((record.version, record.previous_version), (2, Some(1)));
    assert_eq!(store.memory_position(&acme().realm()).await?, before + 1);
    for expected in [0, 1, 3] {
        let late =
            Memory::new(Arc::clone(store)).amend(&acme(), later("m1", expected, "late")).await;
        assert!(matches!(late, Err(StoreError::Moved { .. })), "{late:?}");
    }
    let history = store.memory_history(&acme(), &"m1".into()).await?;
    assert_eq!(lines(&history), ["m1 2", "m1 1"]);
    assert_eq!(history.iter().map(|it| it.content.as_str()).collect::<Vec<_>>(), ["two", "one"]);
    Ok(())
}

pub(crate) async fn what_is_forgotten_is_nowhere(mut subject: Subject) -> anyhow::Result<()> {
    let handle = subject.store()?;
    let store = &handle;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    write(store, "r1", 0, vec![tagged("m1", "tea", &["t"]), note("m2", "tea")]).await?;
    write(store, "r1", 1, vec![later("m2", 1, "more tea")]).await?;
    assert!(Memory::new(Arc::clone(store)).forget(&acme(), &"m2".into()).await?);
    assert!(!Memory::new(Arc::clone(store)).forget(&acme(), &"m2".into()).await?);
    drop(handle);
    subject.restart().await?;
    let handle = subject.store()?;
    let store = &handle;
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
    let handle = subject.store()?;
    let store = &handle;
    for run in ["r1", "r2"] {
        store.commit(Batch::of_run(new_run(run))).await?;
    }
    let stranger = Scope { tenant: "globex".into(), ..acme() };
    assert!(!Memory::new(Arc::clone(store)).expire_snapshot(&stranger, &"r1".into()).await?);
    assert!(!Memory::new(Arc::clone(store)).expire_snapshot(&acme(), &"r9".into()).await?);
    assert!(Memory::new(Arc::clone(store)).has_snapshot(&"r1".into()).await?);
    assert!(Memory::new(Arc::clone(store)).expire_snapshot(&acme(), &"r1".into()).await?);
    drop(handle);
    subject.restart().await?;
    let handle = subject.store()?;
    let store = &handle;
    assert!(!Memory::new(Arc::clone(store)).has_snapshot(&"r1".into()).await?);
    assert!(Memory::new(Arc::clone(store)).has_snapshot(&"r2".into()).await?);
    Ok(())
}

fn merged(id: &str, expected: u64, absorbs: &[(&str, u64)]) -> MemoryRow {
    let named = |(id, version): &(&str, u64)| Remembered { id: (*id).into(), version: *version };
    let absorbs: Vec<Remembered> = absorbs.iter().map(named).collect();
    let sources = absorbs.iter().map(|absorbed| absorbed.id.clone()).collect();
    MemoryRow { absorbs, sources, ..later(id, expected, "all that m1 and m2 say") }
}

/// M-63: the past stays as it was, and so does the history of what was absorbed.
pub(crate) async fn what_was_absorbed_is_there_for_those_who_began_before(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let handle = subject.store()?;
    let store = &handle;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    let rows = vec![note("m1", "one"), note("m2", "two"), note("m3", "three")];
    write(store, "r1", 0, rows).await?;
    let before = store.memory_position(&acme().realm()).await?;
    write(store, "r1", 1, vec![merged("m4", 0, &[("m1", 1), ("m2", 1)])]).await?;
    let after = store.memory_position(&acme().realm()).await?;
    drop(handle);
    subject.restart().await?;
    let handle = subject.store()?;
    let store = &handle;
    assert_eq!(found(store, &notes()).await?, ["m4 1", "m3 1"]);
    assert_eq!(found(store, &seen(before, None, &[])).await?, ["m3 1", "m2 1", "m1 1"]);
    assert_eq!(found(store, &seen(after, None, &[])).await?, ["m4 1", "m3 1"]);
    // Whoever put them together began before, and sees what came of it in their place.
    assert_eq!(found(store, &seen(before, None, &[("m4", 1)])).await?, ["m4 1", "m3 1"]);
    let newest = MemoryQuery { limit: 1, ..seen(before, None, &[("m4", 1)]) };
    assert_eq!(found(store, &newest).await?, ["m4 1"]);
    let words = MemoryQuery { text: Some("two".into()), ..seen(before, None, &[("m4", 1)]) };
    assert_eq!(found(store, &words).await?, [""; 0]);
    let record = store.recall(&acme(), &notes()).await?.remove(0);
    assert_eq!(record.sources, ["m1".into(), "m2".into()]);
    assert_eq!(lines(&store.memory_history(&acme(), &"m1".into()).await?), ["m1 1"]);
    // Written anew, it is there again, but not for those who began in between.
    Memory::new(Arc::clone(store)).amend(&acme(), later("m1", 1, "one again")).await?;
    assert_eq!(found(store, &notes()).await?, ["m4 1", "m3 1", "m1 2"]);
    assert_eq!(found(store, &seen(after, None, &[])).await?, ["m4 1", "m3 1"]);
    Ok(())
}

pub(crate) async fn nothing_is_absorbed_that_has_moved_on(subject: Subject) -> anyhow::Result<()> {
    let store = &subject.store()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    write(store, "r1", 0, vec![note("m1", "one"), note("m2", "two")]).await?;
    write(store, "r1", 1, vec![later("m1", 1, "one, too")]).await?;
    for absorbs in [[("m1", 1), ("m2", 1)], [("m1", 3), ("m2", 1)], [("m2", 1), ("m9", 1)]] {
        let late = write(store, "r1", 2, vec![merged("m3", 0, &absorbs)]).await;
        assert!(matches!(late, Err(StoreError::Moved { .. })), "{late:?}");
    }
    write(store, "r1", 2, vec![merged("m3", 0, &[("m1", 2), ("m2", 1)])]).await?;
    let twice = write(store, "r1", 3, vec![merged("m4", 0, &[("m1", 2), ("m2", 1)])]).await;
    assert!(matches!(twice, Err(StoreError::Moved { .. })), "{twice:?}");
    assert_eq!(found(store, &notes()).await?, ["m3 1"]);
    // Nobody absorbs what is another tenant's.
    let rival = NewRun { birth: rivals(new_run("x1").birth), ..new_run("x1") };
    store.commit(Batch::of_run(rival)).await?;
    let foreign = write(store, "x1", 0, vec![merged("m5", 0, &[("m3", 1)])]).await;
    assert!(matches!(foreign, Err(StoreError::Moved { .. })), "{foreign:?}");
    Ok(())
}

fn rivals(mut birth: callboard_core::Birth) -> callboard_core::Birth {
    birth.owner.tenant = "globex".into();
    birth
}

pub(crate) async fn a_crowd_is_counted_where_entries_last(subject: Subject) -> anyhow::Result<()> {
    let store = &subject.store()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    let short = |id: &str| MemoryRow { expires_at: Some(at(9_000)), ..note(id, "x") };
    let elsewhere = MemoryRow { memory_ref: "desk/other".to_owned(), ..note("o1", "x") };
    let mut rows = vec![note("m1", "x"), note("m2", "x"), short("m3"), short("m4"), elsewhere];
    rows.extend(
        ["c1", "c2", "c3"]
            .map(|id| MemoryRow { memory_ref: "conversation/agent".to_owned(), ..note(id, "x") }),
    );
    write(store, "r1", 0, rows).await?;
    assert_eq!(store.crowded_memory(2).await?, []);
    let crowd = store.crowded_memory(1).await?.pop().context("a crowd")?;
    assert_eq!((crowd.memory_ref.as_str(), crowd.newest), ("desk/notes", 2));
    assert_eq!((&crowd.owner, crowd.scope_id.as_str()), (&acme(), ""));
    assert_eq!(store.crowded_memory(0).await?.len(), 2);
    write(store, "r1", 1, vec![merged("m5", 0, &[("m1", 1), ("m2", 1)])]).await?;
    assert_eq!(store.crowded_memory(1).await?, []);
    Ok(())
}

/// RFC 0039: what a fork's source saw has not expired for the fork; what came after that expires as usual.
pub(crate) async fn what_stood_at_an_anchor_has_not_expired(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = &subject.store()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    let until = |id: &str, wrote: i64, expires: i64| MemoryRow {
        at: at(wrote),
        expires_at: Some(at(expires)),
        ..note(id, "x")
    };
    let rows =
        vec![until("gone", 1_000, 2_000), until("old", 1_000, 4_000), until("own", 3_500, 4_000)];
    write(store, "r1", 0, rows).await?;
    let as_of = store.memory_position(&acme().realm()).await?;
    for (now, anchors, expected) in [
        (3_900, vec![], vec!["own 1", "old 1"]),
        (4_000, vec![], vec![]),
        (3_900, vec![3_000], vec!["own 1", "old 1"]),
        (4_000, vec![3_000], vec!["old 1"]),
        (9_000, vec![3_000], vec!["old 1"]),
        (9_000, vec![4_000], vec![]),
        (9_000, vec![3_000, 3_600], vec!["own 1", "old 1"]),
    ] {
        let mut query = MemoryQuery { at: at(now), ..seen(as_of, None, &[]) };
        query.seen.iter_mut().for_each(|seen| {
            seen.anchors = anchors.iter().map(|anchor| at(*anchor)).collect();
        });
        assert_eq!(found(store, &query).await?, expected, "{now} {anchors:?}");
    }
    Ok(())
}

pub(crate) async fn a_commitment_waits_for_the_heartbeat_of_its_owner(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let handle = subject.store()?;
    let store = &handle;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    let promise = |id: &str, on: &str| MemoryRow { due: Some(Due::On(on.into())), ..note(id, "x") };
    write(store, "r1", 0, vec![promise("m1", "signed"), promise("m2", "paid")]).await?;
    drop(handle);
    subject.restart().await?;
    let handle = subject.store()?;
    let store = &handle;
    let stranger = Scope { tenant: "globex".into(), ..acme() };
    let test = Scope { mode: KeyMode::Test, ..acme() };
    for elsewhere in [stranger, test] {
        Memory::new(Arc::clone(store))
            .commitments_come_due(&elsewhere, &"signed".into(), at(3_000))
            .await?;
    }
    assert!(Memory::new(Arc::clone(store)).due_commitments(at(i64::MAX - 1), 9).await?.is_empty());
    for seen in [4_000, 5_000] {
        Memory::new(Arc::clone(store))
            .commitments_come_due(&acme(), &"signed".into(), at(seen))
            .await?;
    }
    let due = Memory::new(Arc::clone(store)).due_commitments(at(4_000), 9).await?;
    let told: Vec<_> =
        due.iter().map(|it| (it.id.as_str(), it.due_at, it.due_on.clone())).collect();
    assert_eq!(told, [("m1", at(4_000), Some("signed".into()))]);
    Memory::new(Arc::clone(store)).settle_commitment(&due[0]).await?;
    Memory::new(Arc::clone(store))
        .commitments_come_due(&acme(), &"signed".into(), at(6_000))
        .await?;
    assert!(
        Memory::new(Arc::clone(store)).due_commitments(at(9_000), 9).await?.is_empty(),
        "once is enough"
    );
    Ok(())
}

pub(crate) async fn a_commitment_is_due_until_it_is_settled_or_taken_back(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let handle = subject.store()?;
    let store = &handle;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    let promise = |id: &str, due: i64| MemoryRow { due: Some(Due::At(at(due))), ..note(id, "x") };
    let rows =
        vec![promise("m1", 5_000), promise("m2", 4_000), promise("m3", 4_500), note("m4", "x")];
    write(store, "r1", 0, rows).await?;
    drop(handle);
    subject.restart().await?;
    let handle = subject.store()?;
    let store = &handle;
    let due = async |now: i64, limit: usize| -> anyhow::Result<Vec<String>> {
        let due = Memory::new(Arc::clone(store)).due_commitments(at(now), limit).await?;
        Ok(due.into_iter().map(|commitment| commitment.id.to_string()).collect())
    };
    assert_eq!(due(3_999, 9).await?, [""; 0]);
    assert_eq!(due(4_999, 9).await?, ["m2", "m3"]);
    assert_eq!(due(5_000, 2).await?, ["m2", "m3"]);
    let first = Memory::new(Arc::clone(store)).due_commitments(at(5_000), 1).await?.remove(0);
    assert_eq!((&first.owner, first.due_at, first.version), (&acme(), at(4_000), 1));
    Memory::new(Arc::clone(store)).settle_commitment(&first).await?;
    Memory::new(Arc::clone(store)).settle_commitment(&first).await?;
    assert_eq!(due(5_000, 9).await?, ["m3", "m1"]);
    // A later version without a time takes it back, and one that is forgotten is due to nobody.
    write(store, "r1", 1, vec![later("m3", 1, "never mind")]).await?;
    assert!(Memory::new(Arc::clone(store)).forget(&acme(), &"m1".into()).await?);
    assert_eq!(due(9_000, 9).await?, [""; 0]);
    Ok(())
}
