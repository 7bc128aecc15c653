//! Standing members: read by those who run them, hired and changed by those who may.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use callboard_engine::{Fire, KeyMode, Made, Order, Scope, StoreError, StoredMember, Target};
use callboard_protocol::{
    AgentId, AgentRoster, AgentRosterEntry, ChangeMember, FireMember, HireMember, Object, RosterId,
    RosterLine, RosterOwner, RunId, TriggerSource, WorkflowId,
};
use serde_json::json;

use super::{strict, triggers};
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::{MaybeKeyed, Named, Shaped};
use crate::idempotency::settle;
use crate::keys::Caller;
use crate::problem::{Code, Problem};
use crate::query::Parameters;

/// How often a change is decided anew because another writer was faster.
const MOST_TRIES: usize = 8;

pub(super) async fn list(State(host): State<Arc<Host>>, caller: Caller) -> Result<Answer, Problem> {
    let members = members(&host, &caller).await?;
    Ok(Answer::of(StatusCode::OK, &AgentRoster::from(members)))
}

pub(super) async fn list_closed(
    state: State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    list(state, caller).await
}

pub(super) async fn read(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<RosterId>,
) -> Result<Answer, Problem> {
    let member = find(&host, &caller, &id).await?;
    Ok(Answer::of(StatusCode::OK, &member.entry))
}

pub(super) async fn read_closed(
    state: State<Arc<Host>>,
    caller: Caller,
    named: Named<RosterId>,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    read(state, caller, named).await
}

pub(super) async fn hire(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<HireMember>,
) -> Result<Answer, Problem> {
    Ok(Answer::of(StatusCode::CREATED, &take_on(&host, &caller, body).await?))
}

/// Checks a member and stores it.
pub async fn take_on(
    host: &Host,
    caller: &Caller,
    body: HireMember,
) -> Result<AgentRosterEntry, Problem> {
    must_be_offered(host)?;
    let drawn = uuid::Uuid::now_v7().simple().to_string();
    // The end of the drawn name is chance, its beginning time.
    let id = RosterId::named(&body.persona, &drawn[drawn.len() - 8..]);
    let owner = RosterOwner {
        tenant_id: caller.scope.tenant.clone(),
        workspace_id: caller.scope.workspace.clone(),
    };
    let entry = body.entry(id, owner);
    vet(host, caller.scope.mode, &entry).await?;
    host.app.keys.note(caller, Made::Member(entry.roster_id.clone())).await?;
    host.app.engine.roster().hire(caller.scope.mode, entry.clone(), host.now()).await?;
    host.app.scheduler.redeclare_loaded(&caller.scope.tenant).await?;
    caller.audit(&entry.roster_id, "member hired");
    Ok(entry)
}

pub(super) async fn change(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<RosterId>,
    Shaped(body): Shaped<ChangeMember>,
) -> Result<Answer, Problem> {
    let mut last = None;
    for _ in 0..MOST_TRIES {
        let found = find(&host, &caller, &id).await?;
        let entry = body.apply(found.entry);
        vet(&host, found.mode, &entry).await?;
        let roster = host.app.engine.roster();
        match roster.change(found.mode, entry.clone(), found.version).await {
            Ok(()) => {
                host.app.scheduler.redeclare_loaded(&caller.scope.tenant).await?;
                host.app.queues.wake();
                caller.audit(&id, "member changed");
                return Ok(Answer::of(StatusCode::OK, &entry));
            }
            Err(error @ StoreError::Moved { .. }) => last = Some(error),
            Err(error) => return Err(error.into()),
        }
    }
    Err(last.map_or_else(|| Problem::no_such("member"), Problem::from))
}

/// Pauses a member; one that is gone needs none.
pub(super) async fn pause(host: &Host, scope: &Scope, id: &RosterId) -> Result<(), Problem> {
    let roster = host.app.engine.roster();
    let mut last = None;
    for _ in 0..MOST_TRIES {
        let Some(found) = roster.member(scope, id).await? else { return Ok(()) };
        let entry = AgentRosterEntry { enabled: false, ..found.entry };
        match roster.change(found.mode, entry, found.version).await {
            Err(error @ StoreError::Moved { .. }) => last = Some(error),
            done => return Ok(done?),
        }
    }
    last.map_or(Ok(()), |error| Err(error.into()))
}

pub(super) async fn dismiss(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<RosterId>,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::closed(&uri, &[])?;
    find(&host, &caller, &id).await?;
    if !host.app.engine.roster().dismiss(&caller.scope, &id).await? {
        return Err(Problem::no_such("member"));
    }
    host.app.scheduler.redeclare_loaded(&caller.scope.tenant).await?;
    let left = host.app.triggers.member_left(&caller.scope.tenant, &id).await;
    left.map_err(triggers::problem)?;
    caller.audit(&id, "member dismissed");
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn fire(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<RosterId>,
    MaybeKeyed(keyed): MaybeKeyed,
    Shaped(body): Shaped<FireMember>,
) -> Result<Response, Problem> {
    let FireMember { workflow_id: workflow, inputs } = body;
    let fire =
        Fired { workflow: workflow.clone(), inputs, source: TriggerSource::Manual, over: None };
    let order = order(&host, &caller, &id, fire).await?;
    host.starts.admit(&caller, Some(&order.target), host.now())?;
    strict::inputs(&host, &caller, &workflow, &order.inputs, "inputs").await?;
    let engine = &host.app.engine;
    settle(keyed.as_ref(), |done| fired(&done.run), |remember| engine.create(order, remember)).await
}

pub(super) fn fired(run: &RunId) -> Answer {
    Answer::of(StatusCode::CREATED, &json!({ "runId": run }))
}

/// What is fired for a member, and by what.
#[derive(Debug)]
pub struct Fired {
    pub workflow: WorkflowId,
    pub inputs: Object,
    pub source: TriggerSource,
    /// The subscription that it came over.
    pub over: Option<String>,
}

/// The run that firing a member asks for. A member that is paused, gone or does not own the workflow fires nothing.
pub async fn order(
    host: &Host,
    caller: &Caller,
    id: &RosterId,
    fire: Fired,
) -> Result<Order, Problem> {
    must_be_offered(host)?;
    let Fired { workflow, inputs, source, over } = fire;
    let engine = &host.app.engine;
    let whose = engine.member_for_fire(&caller.scope, Some(id), &workflow, source, over).await?;
    let refused = |code, why: &str| Problem::new(code, why).with("rosterId", id.as_str());
    let acting = match &whose {
        Fire::For(acting) => Some((**acting).clone()),
        Fire::Unowned => None,
        Fire::NoSuchMember => return Err(Problem::no_such("member")),
        Fire::Paused => {
            return Err(refused(Code::MemberPaused, "the member is paused; resume it first"));
        }
        Fire::NotInPortfolio => {
            let why = "the member does not own the workflow";
            return Err(refused(Code::NotInPortfolio, why));
        }
    };
    Ok(Order {
        inputs,
        acting,
        ..Order::new(Target::Workflow(workflow), caller.owner(), caller.scope.mode)
    })
}

/// A member of others is no member.
pub async fn find(host: &Host, caller: &Caller, id: &RosterId) -> Result<StoredMember, Problem> {
    must_be_offered(host)?;
    let found = host.app.engine.roster().member(&caller.scope, id).await?;
    found.ok_or_else(|| Problem::no_such("member"))
}

/// The members that the caller may see, in the order of their hiring.
pub async fn members(host: &Host, caller: &Caller) -> Result<Vec<AgentRosterEntry>, Problem> {
    must_be_offered(host)?;
    let members = host.app.engine.roster().members(&caller.scope).await?;
    Ok(members.into_iter().map(|member| member.entry).collect())
}

/// The members on the entries of their agents; nobody where no roster is offered.
pub(super) async fn lines(
    host: &Host,
    caller: &Caller,
) -> Result<BTreeMap<AgentId, Vec<RosterLine>>, Problem> {
    let mut lines: BTreeMap<AgentId, Vec<RosterLine>> = BTreeMap::new();
    if must_be_offered(host).is_err() {
        return Ok(lines);
    }
    for entry in AgentRoster::from(members(host, caller).await?).roster {
        let AgentRosterEntry { roster_id, persona, workflows, .. } = entry;
        let line = RosterLine { roster_id, persona, workflows };
        lines.entry(entry.agent_ref.agent_id).or_default().push(line);
    }
    Ok(lines)
}

pub(super) fn must_be_offered(host: &Host) -> Result<(), Problem> {
    let agents = host.app.config.agents.as_ref();
    let offered = agents.and_then(|agents| agents.roster.as_ref());
    if !offered.is_some_and(|roster| roster.supported) {
        let what = "this host does not provide the capability agents.roster";
        let refused = Problem::new(Code::CapabilityNotProvided, what);
        return Err(refused.with("capability", "agents.roster"));
    }
    Ok(())
}

/// Checks an entry where it is written, against what its owner can reach.
async fn vet(host: &Host, mode: KeyMode, entry: &AgentRosterEntry) -> Result<(), Problem> {
    entry.check()?;
    let agent = &entry.agent_ref;
    let (tenant, workspace) = (entry.owner.tenant_id.clone(), entry.owner.workspace_id.clone());
    let owner = Scope { tenant, workspace, mode };
    let offered = host.app.config.agents.as_ref();
    if agent.channel.is_some() && offered.is_none_or(|offered| offered.deployment.is_none()) {
        let what = "this host does not resolve channels of agents";
        return Err(Problem::invalid_at("agentRef.channel", what));
    }
    let (snapshot, realm) = (host.app.agents.snapshot(), owner.realm());
    if snapshot.find(&realm, &agent.agent_id, None).is_none() {
        let what = format!("there is no agent {:?}", agent.agent_id.as_str());
        return Err(Problem::invalid_at("agentRef.agentId", &what));
    }
    if let Some(version) = &agent.version {
        let parsed = version.parse().ok();
        let found =
            parsed.and_then(|version| snapshot.find(&realm, &agent.agent_id, Some(&version)));
        if found.is_none() {
            let what = format!("version {version:?} of the agent is not installed");
            return Err(Problem::invalid_at("agentRef.version", &what));
        }
    }
    for (place, workflow) in entry.workflows.iter().enumerate() {
        if host.app.engine.catalog().find(&owner, workflow).await?.is_none() {
            // The same words for a workflow of others and for none at all.
            let what = format!("workflows[{place}]: its owner has no workflow {workflow}");
            return Err(Problem::new(Code::WorkspaceMembershipRequired, what)
                .with("path", format!("workflows[{place}]"))
                .with("workflowId", workflow.as_str()));
        }
    }
    Ok(())
}
