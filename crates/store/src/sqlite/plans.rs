//! Whether SQLite reads by an index what must not cost more when there are more runs.

use rusqlite::Connection;

use callboard_engine::{Filter, InboxFilter, InboxPlace, KeyMode, Scope};
use callboard_protocol::Timestamp;

use super::{claim, create, deliveries, inbox, list, migrate};

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
    assert!(!plan.contains("FOR ORDER BY"), "{plan}");
    Ok(())
}

#[test]
fn deliveries_are_found_without_reading_those_that_wait() -> anyhow::Result<()> {
    let first = plan(deliveries::FREE)?;
    assert!(first.contains("INDEX deliveries_due (webhook=?"), "{first}");
    let log = plan(deliveries::UNPLANNED)?;
    assert!(log.contains("SEARCH events USING INTEGER PRIMARY KEY (rowid>?)"), "{log}");
    assert!(!log.contains("FOR ORDER BY"), "{log}");
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
