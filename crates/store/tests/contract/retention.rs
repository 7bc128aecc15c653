//! Which runs may go: those that ended long ago and that nothing needs any more.

use anyhow::Context as _;
use callboard_core::{Fork, Parent};
use callboard_engine::{
    Append, Batch, EndedRuns, Key, Kind, NewRun, RecordChange, Removable, RemovableCount, Row,
    Store, StoreError,
};
use callboard_protocol::{ForkMode, RunId, RunStatus};

use crate::Subject;
use crate::given::{acme, append, at, head, new_run, row};

/// Everything that ended before this may go, for all that its age says.
const LATER: i64 = 1_000_000;

/// Ends a run with one event at that time.
async fn end(store: &dyn Store, run: &str, expected: u64, millis: i64) -> Result<(), StoreError> {
    let mut head = head(RunStatus::Completed, expected + 1, None);
    head.updated_at = at(millis);
    store.commit(Batch::of_append(Append { head, ..append(run, expected) })).await
}

async fn removed(store: &dyn Store, before: i64) -> anyhow::Result<Vec<String>> {
    let gone =
        store.remove_ended(&callboard_engine::Removable::before(at(before)), None, 100).await?;
    Ok(gone.iter().map(ToString::to_string).collect())
}

async fn is_there(store: &dyn Store, run: &str) -> anyhow::Result<bool> {
    Ok(store.find(&acme(), &run.into()).await?.is_some())
}

/// A run that has the newest event of all, which none of the others is then.
async fn newest(store: &dyn Store) -> anyhow::Result<()> {
    store.commit(Batch::of_run(new_run("newest"))).await?;
    Ok(store.commit(Batch::of_append(append("newest", 0))).await?)
}

fn child(id: &str, parent: &str) -> NewRun {
    let mut run = new_run(id);
    run.birth.parent = Some(Parent {
        run_id: parent.into(),
        workflow_id: "greet".into(),
        node_id: "a".into(),
        depth: 1,
        root: None,
        place: 1,
        cause: "core.subWorkflow".into(),
    });
    run
}

fn fork(id: &str, source: &str, from: u64) -> NewRun {
    let mut run = new_run(id);
    let origin = RunId::from(source);
    run.birth.fork = Some(Fork {
        source: origin.clone(),
        from,
        until: from + 1,
        mode: ForkMode::Replay,
        origin,
        earlier: Vec::new(),
        refusal: None,
        prompts: Vec::new(),
        retry: None,
        evaluated: Default::default(),
    });
    run.head.version = from;
    run
}

pub(crate) async fn ended_runs_go_when_they_are_old_enough(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    for (run, millis) in [("second", 4_000), ("first", 3_000), ("third", 5_000)] {
        store.commit(Batch::of_run(new_run(run))).await?;
        end(store, run, 0, millis).await?;
    }
    store.commit(Batch::of_run(new_run("running"))).await?;
    newest(store).await?;
    assert_eq!(removed(store, 3_000).await?, [""; 0]);
    let gone = store.remove_ended(&callboard_engine::Removable::before(at(5_000)), None, 1).await?;
    assert_eq!(gone, [RunId::from("first")]);
    assert_eq!(removed(store, 5_000).await?, ["second"]);
    subject.restart().await?;
    let store = subject.port()?;
    assert_eq!(removed(store, LATER).await?, ["third"]);
    for (run, stays) in [("first", false), ("third", false), ("running", true), ("newest", true)] {
        assert_eq!(is_there(store, run).await?, stays, "{run}");
    }
    // The newest event of all stays, also when its run has ended.
    end(store, "newest", 1, 6_000).await?;
    assert_eq!(removed(store, LATER).await?, [""; 0]);
    Ok(())
}

pub(crate) async fn what_a_run_had_goes_with_it(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    end(store, "r1", 0, 3_000).await?;
    newest(store).await?;
    assert!(store.read(&acme(), &"r1".into(), 0, 10).await?.is_some());
    removed(store, LATER).await?;
    assert!(store.read(&acme(), &"r1".into(), 0, 10).await?.is_none());
    assert!(store.open(&"r1".into()).await?.is_none());
    // Its name is nobody's, and what others have of the log is where it was.
    store.commit(Batch::of_run(new_run("r1"))).await?;
    let page = store.read(&acme(), &"r1".into(), 0, 10).await?.context("a new run")?;
    assert_eq!((page.version, page.events.len()), (0, 0));
    Ok(())
}

pub(crate) async fn families_stay_until_all_of_them_have_ended(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    store.commit(Batch::of_run(new_run("parent"))).await?;
    let told = Row {
        kind: "node.dispatched".to_owned(),
        ..row("{\"childRunId\":\"child\",\"childWorkflowId\":\"greet\"}")
    };
    let begins = Append {
        rows: vec![told],
        children: vec![child("child", "parent")],
        ..append("parent", 0)
    };
    store.commit(Batch::of_append(begins)).await?;
    end(store, "child", 0, 3_000).await?;
    newest(store).await?;
    // Its parent has yet to hear of its end.
    assert_eq!(removed(store, LATER).await?, [""; 0]);
    end(store, "parent", 1, 4_000).await?;
    store.commit(Batch::of_append(append("newest", 1))).await?;
    assert_eq!(removed(store, LATER).await?, ["child", "parent"]);

    store.commit(Batch::of_run(new_run("early"))).await?;
    let told = Row {
        kind: "node.dispatched".to_owned(),
        ..row("{\"childRunId\":\"late\",\"childWorkflowId\":\"greet\"}")
    };
    let begins =
        Append { rows: vec![told], children: vec![child("late", "early")], ..append("early", 0) };
    store.commit(Batch::of_append(begins)).await?;
    end(store, "early", 1, 3_000).await?;
    store.commit(Batch::of_append(append("newest", 2))).await?;
    assert_eq!(removed(store, LATER).await?, [""; 0]);
    end(store, "late", 0, 4_000).await?;
    store.commit(Batch::of_append(append("newest", 3))).await?;
    assert_eq!(removed(store, LATER).await?, ["early", "late"]);
    Ok(())
}

pub(crate) async fn a_source_stays_as_long_as_its_forks(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    store.commit(Batch::of_run(new_run("source"))).await?;
    end(store, "source", 0, 3_000).await?;
    store.commit(Batch::of_run(fork("begun", "source", 1))).await?;
    end(store, "begun", 1, 4_000).await?;
    // A fork of a fork's beginning shares nothing with it but its name.
    store.commit(Batch::of_run(fork("again", "begun", 0))).await?;
    newest(store).await?;
    assert_eq!(removed(store, LATER).await?, [""; 0]);
    let page = store.read(&acme(), &"begun".into(), 0, 10).await?.context("a fork")?;
    assert_eq!(page.events.len(), 2);
    end(store, "again", 0, 5_000).await?;
    store.commit(Batch::of_append(append("newest", 1))).await?;
    // From the youngest to the oldest, however many ticks that takes.
    for expected in ["again", "begun", "source"] {
        assert_eq!(removed(store, LATER).await?, [expected]);
    }
    Ok(())
}

pub(crate) async fn a_record_goes_with_its_run_or_keeps_it(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    for run in ["r1", "r2"] {
        store.commit(Batch::of_run(new_run(run))).await?;
        end(store, run, 0, 3_000).await?;
    }
    newest(store).await?;
    let put = |name: &str| {
        RecordChange::put(Kind::Prompt, Key::of([name]), acme(), &serde_json::json!({}))
    };
    let records =
        [put("note")?.of_run(&"r1".into()), put("debt")?.retaining_run(&"r2".into()), put("own")?];
    store.commit(Batch::of_records(records)).await?;
    assert_eq!(removed(store, LATER).await?, ["r1"]);
    let is_kept = async |name: &str| store.get(Kind::Prompt, &Key::of([name])).await;
    assert!(is_kept("note").await?.is_none());
    let settled = RecordChange::delete(Kind::Prompt, Key::of(["debt"]));
    store.commit(Batch::of_records([settled])).await?;
    assert_eq!(removed(store, LATER).await?, ["r2"]);
    assert!(is_kept("own").await?.is_some());
    Ok(())
}

/// None for simulations, which no command asks.
async fn counted(subject: &Subject, of: &Removable) -> anyhow::Result<Option<RemovableCount>> {
    let gone = || anyhow::anyhow!("the store is closed");
    Ok(match subject {
        Subject::InMemory(_) => None,
        Subject::Sqlite { store, .. } => {
            Some(store.as_ref().ok_or_else(gone)?.count_removable(of).await?)
        }
        Subject::Postgres { store, .. } => {
            Some(store.as_ref().ok_or_else(gone)?.count_removable(of).await?)
        }
    })
}

/// Rules by tenant, workflow, agent and status: a run that an earlier rule is about is none of a later one.
pub(crate) async fn only_runs_of_a_rule_go(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    let pin = |agent: &str| callboard_core::AgentPin {
        agent_id: agent.into(),
        version: "1".into(),
        integrity: None,
        channel: None,
        task: callboard_core::TaskSource::Ports,
        source: callboard_protocol::InvocationSource::RunApi,
        persona: None,
    };
    for (run, agent) in [("plain", None), ("asked", Some("clerk")), ("failed", None)] {
        let mut new = new_run(run);
        new.birth.agents.extend(agent.map(|agent| ("a".into(), pin(agent))));
        store.commit(Batch::of_run(new)).await?;
        let mut head =
            head(if run == "failed" { RunStatus::Failed } else { RunStatus::Completed }, 1, None);
        head.updated_at = at(3_000);
        store.commit(Batch::of_append(Append { head, ..append(run, 0) })).await?;
    }
    newest(store).await?;
    let every = EndedRuns::default();
    let removable = |of: &EndedRuns, except: &[EndedRuns]| Removable {
        before: at(LATER),
        of: of.clone(),
        except: except.to_vec(),
    };
    let of_other = EndedRuns { tenant: Some("nobody".into()), ..every.clone() };
    let of_agent = EndedRuns { agent: Some("clerk".into()), ..every.clone() };
    let failed = EndedRuns { status: Some(RunStatus::Failed), ..every.clone() };
    let of_workflow = EndedRuns { workflow: Some("no-such".into()), ..every.clone() };
    for (of, except, runs) in [
        (&of_other, vec![], 0),
        (&of_workflow, vec![], 0),
        (&of_agent, vec![], 1),
        (&failed, vec![], 1),
        (&every, vec![], 3),
        (&every, vec![failed.clone(), of_agent.clone()], 1),
        (&failed, vec![every.clone()], 0),
    ] {
        let Some(counted) = counted(&subject, &removable(of, &except)).await? else { break };
        assert_eq!(counted.runs, runs, "{of:?} {except:?}");
        assert_eq!(counted.bytes > 0, runs > 0, "{of:?} {except:?}");
    }
    let kept = removable(&every, &[failed.clone(), of_agent.clone()]);
    assert_eq!(store.remove_ended(&kept, None, 10).await?, [RunId::from("plain")]);
    assert_eq!(
        store.remove_ended(&removable(&of_agent, &[]), None, 10).await?,
        [RunId::from("asked")]
    );
    assert!(is_there(store, "failed").await?);
    Ok(())
}
