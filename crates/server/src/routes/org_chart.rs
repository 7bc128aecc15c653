//! Who stands where (RFC 0087): read by all who see the roster, written by those who may change it.
//!
//! No other room of this crate reads a chart: a member's place in it gives no rights.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use callboard_engine::{OrgCharts, StoreError, StoredChart};
use callboard_protocol::{AgentOrgChart, Depth, PutOrgChart, ResponsibilityView, RosterOwner};
use serde_json::json;

use super::roster;
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::{Named, Shaped};
use crate::keys::Caller;
use crate::problem::{Code, Problem};
use crate::query::Parameters;

pub(super) async fn read(State(host): State<Arc<Host>>, caller: Caller) -> Result<Answer, Problem> {
    Ok(Answer::of(StatusCode::OK, &find(&host, &caller).await?.chart))
}

pub(super) async fn department(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<String>,
    uri: Uri,
) -> Result<Answer, Problem> {
    let query = Parameters::closed(&uri, &["recursive"])?;
    let depth = query.read("recursive", "true or false", |text| match text {
        "true" => Some(Depth::WholeTree),
        "false" => Some(Depth::OnlyItself),
        _ => None,
    })?;
    let chart = find(&host, &caller).await?.chart;
    let found = chart.department(&id, depth.unwrap_or(Depth::WholeTree));
    let (department, members) = found.ok_or_else(|| Problem::no_such("department"))?;
    let placed: BTreeSet<_> = members.iter().map(|member| &member.roster_id).collect();
    let roster = roster::members(&host, &caller).await?;
    let theirs = roster.into_iter().filter(|entry| placed.contains(&entry.roster_id));
    let responsibilities = theirs.flat_map(|entry| entry.workflows).collect();
    let view = ResponsibilityView { department, members, responsibilities };
    Ok(Answer::of(StatusCode::OK, &view))
}

pub(super) async fn manage(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let StoredChart { chart, version } = find(&host, &caller).await?;
    Ok(Answer::of(StatusCode::OK, &json!({ "version": version, "chart": chart })))
}

pub(super) async fn put(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<PutOrgChart>,
) -> Result<Answer, Problem> {
    must_be_offered(&host)?;
    let PutOrgChart { departments, members, version } = body;
    let chart = AgentOrgChart { owner: owner(&caller), departments, members };
    chart.check()?;
    let roster = roster::members(&host, &caller).await?;
    for (place, member) in chart.members.iter().enumerate() {
        if !roster.iter().any(|entry| entry.roster_id == member.roster_id) {
            // The same words for a member of others and for none at all.
            let path = format!("members[{place}].rosterId");
            return Err(Problem::invalid_at(&path, "is nobody on this roster"));
        }
    }
    let charts = charts(&host);
    let put = charts.put_chart(caller.scope.mode, &chart, version);
    let version = put.await.map_err(moved)?;
    caller.audit(version, "org chart changed");
    Ok(Answer::of(StatusCode::OK, &json!({ "version": version, "chart": chart })))
}

/// A caller that has drawn none has an empty one.
async fn find(host: &Host, caller: &Caller) -> Result<StoredChart, Problem> {
    must_be_offered(host)?;
    let owner = owner(caller);
    let found = charts(host).chart(caller.scope.mode, &owner).await?;
    Ok(found.unwrap_or(StoredChart {
        chart: AgentOrgChart { owner, departments: Vec::new(), members: Vec::new() },
        version: 0,
    }))
}

fn charts(host: &Host) -> OrgCharts {
    OrgCharts::new(Arc::clone(host.app.engine.store()))
}

fn owner(caller: &Caller) -> RosterOwner {
    RosterOwner {
        tenant_id: caller.scope.tenant.clone(),
        workspace_id: caller.scope.workspace.clone(),
    }
}

fn must_be_offered(host: &Host) -> Result<(), Problem> {
    let agents = host.app.config.agents.as_ref();
    let offered = agents.and_then(|agents| agents.org_chart.as_ref());
    if !offered.is_some_and(|chart| chart.supported) {
        let what = "this host does not provide the capability agents.orgChart";
        let refused = Problem::new(Code::CapabilityNotProvided, what);
        return Err(refused.with("capability", "agents.orgChart"));
    }
    Ok(())
}

fn moved(error: StoreError) -> Problem {
    match error {
        StoreError::Moved { .. } => {
            let what = "somebody else changed the chart or the roster; look at it and try again";
            Problem::new(Code::VersionConflict, what)
        }
        error => error.into(),
    }
}
