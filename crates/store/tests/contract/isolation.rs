//! What a caller sees of the runs: only its own, and in a list only what it asked for.

use callboard_engine::{Append, Batch, Filter, KeyMode, NewRun, Scope, Store};
use callboard_protocol::{RunId, RunStatus};

use crate::Subject;
use crate::given::{acme, append, at, head, new_run};

fn everything() -> Filter {
    Filter { limit: 100, ..Filter::default() }
}

fn created_at(id: &str, millis: i64) -> NewRun {
    let mut run = new_run(id);
    run.birth.created_at = at(millis);
    run
}

async fn listed(store: &dyn Store, scope: &Scope, filter: &Filter) -> anyhow::Result<Vec<String>> {
    Ok(store.list(scope, filter).await?.into_iter().map(|line| line.run_id.to_string()).collect())
}

pub(crate) async fn a_run_is_visible_in_its_tenant_workspace_and_mode_only(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    let mut run = new_run("r1");
    run.birth.owner.workspace = Some("sales".into());
    run.birth.test = true;
    store.commit(Batch::of_run(run)).await?;

    let own = Scope { workspace: Some("sales".into()), mode: KeyMode::Test, ..acme() };
    let whole_tenant = Scope { workspace: None, ..own.clone() };
    let foreign = [
        Scope { tenant: "globex".into(), ..own.clone() },
        Scope { workspace: Some("support".into()), ..own.clone() },
        Scope { mode: KeyMode::Live, ..own.clone() },
    ];
    let run = RunId::from("r1");
    for (scope, sees) in [(&own, true), (&whole_tenant, true)]
        .into_iter()
        .chain(foreign.iter().map(|scope| (scope, false)))
    {
        assert_eq!(store.find(scope, &run).await?.is_some(), sees, "find in {scope:?}");
        assert_eq!(store.read(scope, &run, 0, 10).await?.is_some(), sees, "read in {scope:?}");
        assert_eq!(
            !listed(store, scope, &everything()).await?.is_empty(),
            sees,
            "list in {scope:?}"
        );
    }
    Ok(())
}

pub(crate) async fn a_list_shows_the_newest_first_page_by_page(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    for (id, millis) in [("c", 3_000), ("a", 1_000), ("d1", 4_000), ("b", 2_000), ("d2", 4_000)] {
        store.commit(Batch::of_run(created_at(id, millis))).await?;
    }
    assert_eq!(listed(store, &acme(), &everything()).await?, ["d2", "d1", "c", "b", "a"]);
    let mut seen = Vec::new();
    let mut page = Filter { limit: 2, ..Filter::default() };
    loop {
        let ids = listed(store, &acme(), &page).await?;
        // A run that comes in between two pages moves nothing.
        store.commit(Batch::of_run(created_at(&format!("new{}", seen.len()), 9_000))).await?;
        let Some(last) = ids.last() else { break };
        page.before = Some(last.as_str().into());
        seen.extend(ids);
    }
    assert_eq!(seen, ["d2", "d1", "c", "b", "a"]);
    Ok(())
}

pub(crate) async fn a_cursor_of_somebody_else_shows_nothing(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    store.commit(Batch::of_run(created_at("mine", 1_000))).await?;
    let mut other = created_at("theirs", 2_000);
    other.birth.owner.tenant = "globex".into();
    store.commit(Batch::of_run(other)).await?;
    for cursor in ["theirs", "unknown"] {
        let behind = Filter { before: Some(cursor.into()), ..everything() };
        assert_eq!(listed(store, &acme(), &behind).await?, [""; 0], "{cursor}");
    }
    Ok(())
}

pub(crate) async fn a_list_shows_what_its_filter_asks_for(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    store.commit(Batch::of_run(created_at("plain", 1_000))).await?;
    let mut tagged = created_at("tagged", 2_000);
    tagged.birth.tags = vec!["nightly".to_owned(), "big".to_owned()];
    store.commit(Batch::of_run(tagged)).await?;
    let mut other = created_at("other", 3_000);
    other.birth.workflow_id = "part".into();
    store.commit(Batch::of_run(other)).await?;
    store
        .commit(Batch::of_append(Append {
            head: head(RunStatus::Completed, 1, None),
            ..append("tagged", 0)
        }))
        .await?;

    let filters = [
        (Filter { status: Some(RunStatus::Completed), ..everything() }, vec!["tagged"]),
        (Filter { status: Some(RunStatus::Paused), ..everything() }, vec![]),
        (Filter { workflow: Some("part".into()), ..everything() }, vec!["other"]),
        (Filter { tag: Some("big".to_owned()), ..everything() }, vec!["tagged"]),
        (Filter { tag: Some("small".to_owned()), ..everything() }, vec![]),
        (Filter { since: Some(at(2_000)), ..everything() }, vec!["other", "tagged"]),
        (Filter { until: Some(at(2_000)), ..everything() }, vec!["plain"]),
        (Filter { since: Some(at(2_000)), until: Some(at(3_000)), ..everything() }, vec!["tagged"]),
        (
            Filter {
                tag: Some("nightly".to_owned()),
                workflow: Some("part".into()),
                ..everything()
            },
            vec![],
        ),
        (
            Filter {
                before: Some("other".into()),
                status: Some(RunStatus::Pending),
                ..everything()
            },
            vec!["plain"],
        ),
        (Filter { limit: 1, ..everything() }, vec!["other"]),
    ];
    for (filter, expected) in filters {
        assert_eq!(listed(store, &acme(), &filter).await?, expected, "{filter:?}");
    }
    let lines =
        store.list(&acme(), &Filter { tag: Some("nightly".to_owned()), ..everything() }).await?;
    let shown = lines.first().map(|line| (line.created_at, line.updated_at, line.tags.join(",")));
    assert_eq!(shown, Some((at(2_000), at(2_000), "nightly,big".to_owned())));
    Ok(())
}
