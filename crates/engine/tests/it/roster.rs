//! For whom a fire is, and what its run says of it, whoever dies.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use callboard_engine::{
    Acting, Engine, EngineError, Filter, Fire, InMemoryStore, KeyMode, Order, Roster, Scope, Store,
    Target,
};
use callboard_protocol::{
    AgentRosterEntry, Object, RosterAgentRef, RosterId, RosterOwner, Timestamp, TriggerSource,
    WorkflowId,
};

use crate::sim::{Fate, SimClock, doomed_store, ended, host, order, scope};

pub(crate) fn member(id: &str, workflows: &[&str]) -> AgentRosterEntry {
    AgentRosterEntry {
        roster_id: id.into(),
        persona: "Sally".into(),
        agent_ref: RosterAgentRef {
            agent_id: "vendor.acme.desk.writer".into(),
            version: None,
            channel: None,
        },
        workflows: workflows.iter().map(|workflow| WorkflowId::from(*workflow)).collect(),
        owner: RosterOwner { tenant_id: "default".into(), workspace_id: None },
        enabled: true,
        label: None,
        description: None,
    }
}

fn owner(tenant: &str, workspace: Option<&str>) -> Scope {
    Scope { tenant: tenant.into(), workspace: workspace.map(Into::into), mode: KeyMode::Live }
}

pub(crate) fn noop() -> String {
    json!({
        "id": "campaign", "name": "campaign", "version": "1.0",
        "nodes": [{ "id": "only", "typeId": "core.noop", "name": "only",
            "position": { "x": 0, "y": 0 }, "config": {}, "inputs": {} }],
        "edges": [], "triggers": [], "variables": [], "metadata": {}, "settings": {},
    })
    .to_string()
}

async fn hired(entries: &[AgentRosterEntry]) -> (Arc<InMemoryStore>, Engine, Arc<SimClock>) {
    let (shared, clock) = (Arc::new(InMemoryStore::new()), SimClock::new());
    for (hired_at, entry) in (1..).zip(entries) {
        Roster::new(shared.clone())
            .hire(KeyMode::Live, entry.clone(), Timestamp::from_millis(hired_at))
            .await
            .unwrap();
    }
    let doomed = doomed_store(shared.clone(), Fate::Live);
    let engine = host("first", doomed, clock.clone(), &[noop()]);
    (shared, engine, clock)
}

async fn fire(engine: &Engine, owner: &Scope, wanted: Option<&str>) -> Fire {
    let wanted = wanted.map(RosterId::from);
    let source = TriggerSource::Schedule;
    let workflow = "campaign".into();
    engine.member_for_fire(owner, wanted.as_ref(), &workflow, source, None).await.unwrap()
}

fn who(fire: &Fire) -> Option<&str> {
    match fire {
        Fire::For(acting) => Some(acting.member.roster_id.as_str()),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_fire_is_for_the_enabled_owner_that_was_hired_first() {
    let paused = AgentRosterEntry { enabled: false, ..member("host:a", &["campaign"]) };
    let others = [member("host:z", &["campaign"]), member("host:b", &["campaign"])];
    let idle = member("host:idle", &[]);
    let all = [idle, paused, others[0].clone(), others[1].clone()];
    let (_, engine, _) = hired(&all).await;
    let ours = owner("default", None);
    assert_eq!(who(&fire(&engine, &ours, None).await), Some("host:z"));
    assert_eq!(who(&fire(&engine, &ours, Some("host:b")).await), Some("host:b"));
    assert_eq!(fire(&engine, &ours, Some("host:a")).await, Fire::Paused);
    assert_eq!(fire(&engine, &ours, Some("host:idle")).await, Fire::NotInPortfolio);
    assert_eq!(fire(&engine, &ours, Some("host:gone")).await, Fire::NoSuchMember);
}

#[tokio::test(start_paused = true)]
async fn where_every_owner_is_paused_nobody_fires_and_where_there_is_none_anybody_may() {
    let paused = AgentRosterEntry { enabled: false, ..member("host:a", &["campaign"]) };
    let (shared, engine, _) = hired(std::slice::from_ref(&paused)).await;
    let ours = owner("default", None);
    assert_eq!(fire(&engine, &ours, None).await, Fire::Paused);
    // Resumed between two fires: the second sees it.
    let resumed = AgentRosterEntry { enabled: true, ..paused };
    Roster::new(shared.clone()).change(KeyMode::Live, resumed, 1).await.unwrap();
    assert_eq!(who(&fire(&engine, &ours, None).await), Some("host:a"));
    Roster::new(shared.clone()).dismiss(&ours, &"host:a".into()).await.unwrap();
    assert_eq!(fire(&engine, &ours, None).await, Fire::Unowned);
    assert_eq!(fire(&engine, &owner("globex", None), Some("host:a")).await, Fire::NoSuchMember);
}

#[tokio::test(start_paused = true)]
async fn another_tenants_workspaces_or_kind_of_keys_member_is_nobody() {
    let mut growth = member("host:a", &["campaign"]);
    growth.owner.workspace_id = Some("growth".into());
    let (_, engine, _) = hired(&[growth]).await;
    assert_eq!(fire(&engine, &owner("globex", None), None).await, Fire::Unowned);
    assert_eq!(fire(&engine, &owner("default", Some("sales")), None).await, Fire::Unowned);
    assert_eq!(who(&fire(&engine, &owner("default", Some("growth")), None).await), Some("host:a"));
    assert_eq!(who(&fire(&engine, &owner("default", None), None).await), Some("host:a"));
    let tests = Scope { mode: KeyMode::Test, ..owner("default", None) };
    assert_eq!(fire(&engine, &tests, None).await, Fire::Unowned);
    assert_eq!(fire(&engine, &tests, Some("host:a")).await, Fire::NoSuchMember);
    let run = order("campaign", Object::new(), Object::new());
    let run = Order { target: Target::Agent("host:a".to_owned()), mode: KeyMode::Test, ..run };
    let refused = engine.create(run, None).await;
    assert!(matches!(&refused, Err(EngineError::UnknownAgent(_))), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn an_attribution_is_told_once_whenever_the_host_dies() {
    for fate in [Fate::Live, Fate::DieBefore(1), Fate::DieAfter(1), Fate::Oversleep(1)] {
        let (shared, clock) = (Arc::new(InMemoryStore::new()), SimClock::new());
        let doomed = doomed_store(shared.clone(), fate);
        let first = host("first", doomed, clock.clone(), &[noop()]);
        let acting = Acting {
            member: member("host:a", &["campaign"]),
            source: TriggerSource::Queue,
            subscription: Some("sub-1".to_owned()),
        };
        let asked =
            Order { acting: Some(acting), ..order("campaign", Object::new(), Object::new()) };
        let done = first.create(asked, None).await.unwrap();
        let alive = doomed_store(shared.clone(), Fate::Live);
        let _second = host("second", alive, clock, &[noop()]);
        let log = ended(&shared, &done.run).await;
        let told: BTreeMap<u64, &str> = log
            .iter()
            .filter(|event| event.kind == "roster.run.initiated")
            .map(|event| (event.sequence, event.payload.as_str()))
            .collect();
        let payload = json!({ "rosterId": "host:a", "persona": "Sally",
            "agentId": "vendor.acme.desk.writer", "workflowId": "campaign",
            "triggerSource": "queue", "triggerSubscriptionId": "sub-1" });
        assert_eq!(told.len(), 1, "{fate:?}: {log:?}");
        let read: serde_json::Value = serde_json::from_str(told[&1]).unwrap();
        assert_eq!(read, payload, "{fate:?}");
    }
}

/// A reference to a member that is not there is refused; it never falls back to a name and no more.
#[tokio::test(start_paused = true)]
async fn a_member_that_is_not_there_is_not_dispatched() {
    let (_, engine, _) = hired(&[]).await;
    let asked = Order {
        target: Target::Agent("host:gone".to_owned()),
        ..order("campaign", Object::new(), Object::new())
    };
    let refused = engine.create(asked, None).await;
    assert!(
        matches!(&refused, Err(EngineError::UnknownAgent(agent)) if agent == "host:gone"),
        "{refused:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_members_run_starts_is_paid_for_by_the_member() {
    let (shared, clock) = (Arc::new(InMemoryStore::new()), SimClock::new());
    let definition = |id: &str, kind: &str, config: serde_json::Value| {
        json!({
            "id": id, "name": id, "version": "1.0",
            "nodes": [{ "id": "only", "typeId": kind, "name": "only",
                "position": { "x": 0, "y": 0 }, "config": config, "inputs": {} }],
            "edges": [], "triggers": [], "variables": [], "metadata": {}, "settings": {},
        })
        .to_string()
    };
    let definitions = [
        definition("parent", "core.subWorkflow", json!({ "workflowId": "leaf" })),
        definition("leaf", "core.noop", json!({})),
    ];
    let doomed = doomed_store(shared.clone(), Fate::Live);
    let engine = host("first", doomed, clock, &definitions);
    let acting = Some(Acting::by_hand(member("host:a", &["parent"])));
    let parent = Order { acting, ..order("parent", Object::new(), Object::new()) };
    let run = engine.create(parent, None).await.unwrap().run;
    ended(&shared, &run).await;
    let listed = shared.list(&scope(), &Filter { limit: 10, ..Filter::default() }).await.unwrap();
    assert_eq!(listed.len(), 2);
    for listed in listed {
        let birth = shared.open(&listed.run_id).await.unwrap().unwrap().birth;
        assert_eq!(birth.charged_to, Some("host:a".into()), "{}", birth.workflow_id);
    }
}
