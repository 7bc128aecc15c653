//! A member with a daily limit, a place in a chart and a queue of work; one that is dismissed; a registered workflow.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_engine::{
    Budgets, OrgCharts, Queues, Roster, Store, StoreError, Waits, Work, WorkChange, Workflows,
};
use callboard_protocol::{
    AgentOrgChart, AgentRosterEntry, EffectiveBudget, Placement, RosterId, WorkItem, WorkState,
};

use super::scenario::{Host, Scenario, owner, runs, seconds};
use crate::roster::member;
use crate::sim::scope;

pub(super) struct Standing;

const SALLY: &str = "host:sally";
const BOB: &str = "host:bob";

fn sally(enabled: bool) -> AgentRosterEntry {
    AgentRosterEntry { enabled, ..member(SALLY, &["campaign"]) }
}

fn item(id: &str) -> WorkItem {
    WorkItem {
        work_id: id.to_owned(),
        roster_id: SALLY.into(),
        title: id.to_owned(),
        workflow_id: "campaign".into(),
        inputs: callboard_protocol::Object::new(),
        state: WorkState::Todo,
        claimed_by: None,
        reason: None,
        moves: 1,
        run_id: None,
        run_status: None,
        created_at: seconds(0),
        updated_at: seconds(0),
    }
}

fn chart(members: &[&str]) -> AgentOrgChart {
    let members = members.iter().map(|id| Placement {
        roster_id: RosterId::from(*id),
        department_id: "sales".to_owned(),
        role_id: "writer".to_owned(),
        reports_to: None,
    });
    AgentOrgChart { owner: sally(true).owner, departments: Vec::new(), members: members.collect() }
}

/// One that got no answer and is asked again finds that it was kept.
fn kept<T>(answer: Result<T, StoreError>) {
    match answer {
        Ok(_) | Err(StoreError::Moved { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

#[async_trait(?Send)]
impl Scenario for Standing {
    fn start(&self, host: &Host) {
        Queues::new(host.engine.clone()).start();
    }

    fn steps(&self) -> usize {
        10
    }

    async fn act(&self, host: &Host, step: usize) {
        let store = || Arc::clone(&host.store);
        let (roster, charts) = (Roster::new(store()), OrgCharts::new(store()));
        let mode = scope().mode;
        match step {
            0 => {
                let workflows = Workflows::new(store());
                let id = "registered".into();
                kept(workflows.put_workflow(&scope(), &id, "{}", Vec::new(), host.now()).await);
            }
            1 => kept(roster.hire(mode, sally(false), seconds(0)).await),
            2 => kept(roster.hire(mode, member(BOB, &[]), seconds(0)).await),
            3 => {
                let limit = EffectiveBudget { max_tokens: Some(5), ..EffectiveBudget::default() };
                for id in [SALLY, BOB] {
                    let budgets = Budgets::new(store());
                    let realm = scope().realm();
                    budgets.set_daily_limit(&realm, &id.into(), Some(limit)).await.unwrap();
                }
            }
            4 => kept(charts.put_chart(mode, &chart(&[SALLY, BOB]), Some(0)).await),
            5 | 6 => {
                let waits = Some(Waits { owner: owner(), mode });
                let item = item(&format!("w{step}"));
                let change = WorkChange { scope: scope(), item, expected: 0, waits };
                kept(Work::new(store()).put_work(change, None).await);
            }
            7 => drop(roster.dismiss(&scope(), &BOB.into()).await.unwrap()),
            8 => kept(roster.change(mode, sally(true), 1).await),
            _ => host.rest(10).await,
        }
    }

    async fn observe(&self, store: Arc<dyn Store>) -> Value {
        let members = Roster::new(Arc::clone(&store)).members(&scope()).await.unwrap();
        let members: Vec<Value> =
            members.iter().map(|member| json!([member.entry, member.version])).collect();
        let charts = OrgCharts::new(Arc::clone(&store));
        let chart = charts.chart(scope().mode, &sally(true).owner).await.unwrap().unwrap();
        let budgets = Budgets::new(Arc::clone(&store));
        let mut limits = Vec::new();
        for id in [SALLY, BOB] {
            limits.push(budgets.daily_limit(&scope().realm(), &id.into()).await.unwrap());
        }
        let work = Work::new(Arc::clone(&store));
        let items = work.work(&scope(), &SALLY.into()).await.unwrap();
        let items: Vec<Value> = items.iter().map(|work| json!([work.item, work.version])).collect();
        let startable = work.startable_work(9).await.unwrap().len();
        let workflows = Workflows::new(Arc::clone(&store)).workflows(&scope()).await.unwrap();
        let workflows: Vec<_> = workflows.into_iter().map(|workflow| workflow.id).collect();
        let runs = runs(&*store).await;
        json!([members, chart.chart, chart.version, limits, items, startable, workflows, runs])
    }
}
