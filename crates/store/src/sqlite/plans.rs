//! Tests that SQLite uses an index where the cost must not grow with the number of runs.

use rusqlite::Connection;

use callboard_core::MemoryView;
use callboard_engine::{
    Filter, InboxFilter, InboxPlace, Key, KeyMode, Kind, MemoryQuery, MemorySeen, Place,
    RecordQuery, Removable, Scope, Within,
};
use callboard_protocol::{RunStatus, Timestamp};

use super::{census, claim, create, inbox, list, logs, memory, migrate, records, retention};
use crate::recall::Where;

/// How SQLite would go about a statement.
fn plan(sql: &str) -> anyhow::Result<String> {
    let mut db = Connection::open_in_memory()?;
    migrate::runner().run(&mut db)?;
    let mut explain = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
    let unbound = vec![rusqlite::types::Null; explain.parameter_count()];
    let steps =
        explain.query_map(rusqlite::params_from_iter(unbound), |row| row.get::<_, String>(3))?;
    Ok(steps.collect::<Result<Vec<_>, _>>()?.join("; "))
}

#[test]
fn the_queue_is_read_by_its_index() -> anyhow::Result<()> {
    for sql in [claim::DUE, claim::NEXT, claim::VOID] {
        let plan = plan(sql)?;
        assert!(plan.contains("INDEX runs_due") && !plan.contains("TEMP B-TREE"), "{plan}");
    }
    Ok(())
}

/// However many runs of one tenant wait, another's are found in one step.
#[test]
fn queues_are_read_by_their_indexes() -> anyhow::Result<()> {
    let next = plan(claim::NEXT_QUEUE)?;
    assert!(
        next.contains("USING INDEX runs_waiting ((tenant,workflow_id,agents,priority)>"),
        "{next}"
    );
    let queued = plan(claim::QUEUED)?;
    assert!(
        queued.contains(
            "tenant=? AND workflow_id=? AND agents=? AND priority=? AND wake_at>? AND wake_at<?"
        ),
        "{queued}"
    );
    let held = plan(claim::HELD)?;
    assert!(held.contains("INDEX runs_held"), "{held}");
    for plan in [next, queued, held] {
        assert!(!plan.contains("TEMP B-TREE"), "{plan}");
    }
    Ok(())
}

#[test]
fn what_operators_watch_is_counted_without_reading_completed_runs() -> anyhow::Result<()> {
    let counted = plan(census::RUNS)?;
    assert!(counted.contains("SCAN runs USING INDEX runs_by_status"), "{counted}");
    assert!(counted.contains("SEARCH asked USING PRIMARY KEY"), "{counted}");
    let stored = plan(census::STORED)?;
    assert!(stored.contains("COVERING INDEX") && !stored.contains("TEMP B-TREE"), "{stored}");
    let records = plan(census::RECORDS)?;
    assert!(records.contains("SEARCH records USING COVERING INDEX"), "{records}");
    Ok(())
}

#[test]
fn due_records_are_read_by_their_index_however_many_wait() -> anyhow::Result<()> {
    for sql in [records::due_statement(), records::NEXT.to_owned()] {
        let plan = plan(&sql)?;
        assert!(plan.contains("INDEX records_by_due") && !plan.contains("TEMP B-TREE"), "{plan}");
    }
    Ok(())
}

#[test]
fn crowds_are_counted_in_their_index() -> anyhow::Result<()> {
    let plan = plan(memory::CROWDED)?;
    assert!(plan.contains("COVERING INDEX memory_crowds"), "{plan}");
    assert!(!plan.contains("TEMP B-TREE"), "{plan}");
    Ok(())
}

#[test]
fn runs_that_may_go_are_found_without_reading_the_others() -> anyhow::Result<()> {
    let (sql, _) =
        retention::statement("runs.id", &Removable::before(Timestamp::from_millis(1)), None);
    let plan = plan(&format!("{sql} ORDER BY runs.updated_at LIMIT 16"))?;
    for index in ["runs_ended", "runs_prefixed", "runs_forked", "records_by_run"] {
        assert!(plan.contains(&format!("INDEX {index}")), "{index}: {plan}");
    }
    assert!(!plan.contains("TEMP B-TREE") && !plan.contains("SCAN runs"), "{plan}");
    Ok(())
}

#[test]
fn who_needs_a_definition_is_found_by_its_index() -> anyhow::Result<()> {
    let plan = plan(retention::UNUSED)?;
    assert!(plan.contains("INDEX births_of_definition"), "{plan}");
    Ok(())
}

#[test]
fn a_busy_scope_is_found_by_its_index() -> anyhow::Result<()> {
    let plan = plan(create::ACTIVE_IN_SCOPE)?;
    assert!(
        plan.contains("INDEX runs_active_in_scope (tenant=? AND test=? AND scope_id=?)"),
        "{plan}"
    );
    Ok(())
}

#[test]
fn a_page_of_a_list_is_read_in_the_order_of_its_index() -> anyhow::Result<()> {
    let scope = Scope { tenant: "acme".into(), workspace: None, mode: KeyMode::Live };
    let page = Filter { before: Some("r1".into()), limit: 10, ..Filter::default() };
    let (sql, _) = list::statement(&scope, &page);
    let plan = plan(&sql)?;
    assert!(plan.starts_with("SEARCH runs USING INDEX runs_listed (tenant=? AND test=?"), "{plan}");
    assert!(!sorts(&plan), "{plan}");
    Ok(())
}

#[test]
fn what_a_line_of_a_list_says_besides_is_found_by_its_run() -> anyhow::Result<()> {
    let (tags, used) = (plan(list::TAGS)?, plan(list::USED)?);
    assert!(tags.contains("PRIMARY KEY (run=?)") && !sorts(&tags), "{tags}");
    assert!(used.contains("INDEX events_of_usage (run=?)"), "{used}");
    Ok(())
}

/// Whether runs are sorted. The open questions of one run may be: they are few.
fn sorts(plan: &str) -> bool {
    let own_questions = "SEARCH asked USING PRIMARY KEY (run=?); USE TEMP B-TREE FOR ORDER BY";
    plan.replace(own_questions, "").contains("FOR ORDER BY")
}

/// Each filter by itself costs what it shows, however many runs there are that it does not.
#[test]
fn a_page_of_a_filtered_list_is_read_in_the_order_of_an_index() -> anyhow::Result<()> {
    let scope = Scope { tenant: "acme".into(), workspace: None, mode: KeyMode::Live };
    let page = || Filter { before: Some("r1".into()), limit: 10, ..Filter::default() };
    let filters = [
        (
            Filter { status: Some(RunStatus::Failed), ..page() },
            "runs_by_status (tenant=? AND test=? AND status=?",
        ),
        (
            Filter { workflow: Some("w".into()), ..page() },
            "runs_by_workflow (tenant=? AND test=? AND workflow_id=?",
        ),
        (
            Filter { member: Some("host:a".into()), ..page() },
            "runs_of_member (tenant=? AND test=? AND roster_id=?",
        ),
        (
            Filter { tag: Some("t".to_owned()), ..page() },
            "run_tags_listed (tenant=? AND test=? AND tag=?",
        ),
        (
            Filter { agent: Some("a".to_owned()), ..page() },
            "run_agents_listed (tenant=? AND test=? AND agent=?",
        ),
        (
            Filter { since: Some(Timestamp::default()), ..page() },
            "runs_listed (tenant=? AND test=? AND created_at>",
        ),
    ];
    for (filter, index) in filters {
        let plan = plan(&list::statement(&scope, &filter).0)?;
        assert!(plan.contains(index) && !sorts(&plan), "{index}: {plan}");
    }
    Ok(())
}

#[test]
fn deliveries_are_found_without_reading_those_that_wait() -> anyhow::Result<()> {
    let webhook = Key::of(["wh_a"]);
    let first = RecordQuery::all(Kind::WebhookDelivery, Within::Everywhere).below(webhook).limit(1);
    let (first, _) = records::statement(&first);
    let first = plan(&first)?;
    assert!(first.contains("(kind=? AND key>? AND key<?)"), "{first}");
    assert!(!first.contains("FOR ORDER BY"), "{first}");
    let log = plan(&logs::statement(&Within::Everywhere).0)?;
    assert!(log.contains("SEARCH events USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"), "{log}");
    assert!(!log.contains("FOR ORDER BY"), "{log}");
    Ok(())
}

#[test]
fn those_before_whom_work_waits_are_found_without_reading_what_waits() -> anyhow::Result<()> {
    let after = Some(Key::of(["acme", "live", "host:a0"]));
    let all = RecordQuery::all(Kind::WaitingWork, Within::Everywhere);
    let (next, _) = records::statement(&RecordQuery { after, limit: 1, ..all });
    let next = plan(&next)?;
    assert!(next.contains("(kind=? AND key>?)") && !next.contains("FOR ORDER BY"), "{next}");
    Ok(())
}

#[test]
fn a_page_of_an_inbox_is_read_in_the_order_of_its_index() -> anyhow::Result<()> {
    let scope = Scope { tenant: "acme".into(), workspace: None, mode: KeyMode::Live };
    let after = InboxPlace { requested_at: Timestamp::default(), interrupt_id: "r1-2".to_owned() };
    let page = InboxFilter { after: Some(after), limit: 10, ..InboxFilter::default() };
    let (sql, _) = inbox::statement(&scope, &page);
    let plan = plan(&sql)?;
    assert!(plan.contains("INDEX interrupts_listed (tenant=? AND test=? AND "), "{plan}");
    assert!(!plan.contains("FOR ORDER BY"), "{plan}");
    Ok(())
}

/// A read must cost the same whether there are a hundred entries or a hundred thousand.
#[test]
fn memory_is_read_in_the_order_of_its_indexes() -> anyhow::Result<()> {
    let scope = Scope { tenant: "acme".into(), workspace: None, mode: KeyMode::Live };
    let now = MemoryQuery::new(Place::Anywhere, Timestamp::default(), 10);
    let view = MemoryView { as_of: 7, also: Vec::new() };
    let seen = MemoryQuery {
        seen: Some(MemorySeen { view, family: None, anchors: Vec::new() }),
        ..now.clone()
    };
    let tag = |query: &MemoryQuery| MemoryQuery { tag: Some("t".to_owned()), ..query.clone() };
    let placed =
        "INDEX memory_placed (tenant=? AND test=? AND scope_id=? AND memory_ref=? AND first<?)";
    for (query, place, index) in [
        (&seen, Where::Both("s", "r"), placed),
        (&now, Where::Anywhere, "INDEX memory_listed (tenant=? AND test=?)"),
        (&now, Where::Scope("s"), "INDEX memory_in_scope (tenant=? AND test=? AND scope_id=?)"),
        (&now, Where::Ref("r"), "INDEX memory_under_ref (tenant=? AND test=? AND memory_ref=?)"),
        (
            &tag(&seen),
            Where::Both("s", "r"),
            "PRIMARY KEY (tenant=? AND test=? AND tag=? AND first<?)",
        ),
    ] {
        let plan = plan(&memory::statement(&scope, query, &place).0)?;
        assert!(plan.contains(index) && !plan.contains("FOR ORDER BY"), "{plan}");
    }
    let text = memory::text_statement(&scope, &seen, &Where::Both("s", "r"), "tea");
    let plan = plan(&text.expect("a text with words").0)?;
    assert!(plan.starts_with("SCAN memory_text VIRTUAL TABLE INDEX"), "{plan}");
    assert!(plan.contains("SEARCH memory USING INTEGER PRIMARY KEY"), "{plan}");
    assert!(!plan.contains("FOR ORDER BY"), "{plan}");
    Ok(())
}

/// A database with so many notes, of which every tenth has a tag.
fn remembering(entries: u32) -> anyhow::Result<Connection> {
    let mut db = Connection::open_in_memory()?;
    migrate::runner().run(&mut db)?;
    db.execute(
        "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
         INSERT INTO memory (tenant, test, scope_id, memory_ref, entry_id, version, first, content, tags, created_at,
             written_at, author, sources)
         SELECT 'acme', 0, 's', 'r', 'm' || i, 1, i, 'note ' || i, '[]', i, i, '{}', '[]' FROM n",
        [entries],
    )?;
    db.execute_batch(
        "INSERT INTO memory_tags (tenant, test, tag, first, position)
             SELECT tenant, test, 't', first, position FROM memory WHERE first % 10 = 0;
         INSERT INTO memory_text (rowid, owner, content) SELECT position, 'live61636d65', content FROM memory;",
    )?;
    Ok(db)
}

/// How many steps SQLite takes to answer.
fn steps(
    db: &Connection,
    (sql, values): (String, Vec<rusqlite::types::Value>),
) -> anyhow::Result<i32> {
    let mut select = db.prepare(&sql)?;
    let mut rows = select.query(rusqlite::params_from_iter(values))?;
    let mut found = 0;
    while rows.next()?.is_some() {
        found += 1;
    }
    anyhow::ensure!(found > 0, "nothing found by {sql}");
    drop(rows);
    Ok(select.get_status(rusqlite::StatementStatus::VmStep))
}

/// Counted, not timed: what a read does among a hundred entries it does among twenty thousand.
#[test]
fn a_read_of_memory_does_not_grow_with_what_is_remembered() -> anyhow::Result<()> {
    let scope = Scope { tenant: "acme".into(), workspace: None, mode: KeyMode::Live };
    let place = Where::Both("s", "r");
    let read = |as_of: u64| {
        let view = MemoryView { as_of, also: Vec::new() };
        let query = MemoryQuery::new(Place::Anywhere, Timestamp::default(), 10);
        MemoryQuery { seen: Some(MemorySeen { view, family: None, anchors: Vec::new() }), ..query }
    };
    let mut counted = Vec::new();
    for entries in [100, 20_000] {
        let db = remembering(entries)?;
        let newest = read(u64::from(entries));
        let past = read(50);
        let tagged = MemoryQuery { tag: Some("t".to_owned()), ..newest.clone() };
        let one = MemoryQuery { id: Some("m7".into()), ..newest.clone() };
        let text = memory::text_statement(&scope, &newest, &place, "note");
        counted.push([
            steps(&db, memory::statement(&scope, &newest, &place))?,
            steps(&db, memory::statement(&scope, &past, &place))?,
            steps(&db, memory::statement(&scope, &tagged, &place))?,
            steps(&db, memory::statement(&scope, &one, &place))?,
            steps(&db, text.ok_or_else(|| anyhow::anyhow!("a text without words"))?)?,
        ]);
    }
    assert_eq!(counted[0], counted[1]);
    Ok(())
}
