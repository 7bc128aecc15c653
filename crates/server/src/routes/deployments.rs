//! Which versions of an agent serve: read, and changed by those who may.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use callboard_agents::{
    Changed, Deployment, DeploymentPolicy, Evidence, Snapshot, Surroundings, audit_change,
};
use callboard_core::redact_text;
use callboard_engine::{AuditFact, DeploymentChange, Done, EngineError, Realm, Remember};
use callboard_protocol::{AgentId, DeploymentTransition, PackVersion, RunId, Transition};

use crate::answer::Answer;
use crate::app::Host;
use crate::extract::{MaybeKeyed, Named, Shaped};
use crate::gate::missing_scope;
use crate::idempotency::settle;
use crate::keys::Caller;
use crate::log::read_rest;
use crate::problem::{Code, Problem};
use crate::query::Parameters;

pub(super) async fn list(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(agent): Named<AgentId>,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let installed = installed(&host.app.agents.snapshot(), &caller, &agent)?;
    let (_, deployment) = read(&host, &caller, &agent).await?;
    Ok(Answer::of(StatusCode::OK, &deployment.records(&agent, installed)))
}

pub(super) async fn change(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(agent): Named<AgentId>,
    MaybeKeyed(keyed): MaybeKeyed,
    Shaped(request): Shaped<DeploymentTransition>,
) -> Result<Response, Problem> {
    let policy = &host.app.config.deployments;
    let prepared = prepare(&host, &caller, &agent, request, policy).await?;
    let answer = Answer::of(StatusCode::OK, &prepared.changed.record);
    let commit = |remember| prepared.commit(&host, remember);
    let settled = settle(keyed.as_ref(), move |_| answer.clone(), commit).await;
    settled.map_err(|problem| problem.if_moved(Code::DeploymentConflict))
}

/// A transition that may be made, if nobody else makes one first.
#[derive(Debug)]
pub struct Prepared {
    caller: Caller,
    realm: Realm,
    agent: AgentId,
    request: DeploymentTransition,
    expected: u64,
    pub changed: Changed,
}

/// Goes through everything that stands before a transition, in the protocol's order: scope, then evidence.
pub async fn prepare(
    host: &Host,
    caller: &Caller,
    agent: &AgentId,
    mut request: DeploymentTransition,
    policy: &DeploymentPolicy,
) -> Result<Prepared, Problem> {
    request.check()?;
    let scope = scope_of(request.transition);
    if !caller.may(scope) {
        tell_refusal(host, caller, agent, &request, Code::Forbidden.name()).await;
        return Err(missing_scope(scope));
    }
    let realm = caller.whole_realm()?;
    // A label that somebody pasted a key into is kept nowhere.
    request.reason = request.reason.map(|reason| redact_text(&reason));
    let installed = installed(&host.app.agents.snapshot(), caller, agent)?;
    let (expected, deployment) = read(host, caller, agent).await?;
    let evidence = evidence(host, caller, request.eval_run_id.as_ref()).await?;
    let around = Surroundings { policy, evidence, installed };
    match deployment.decide(agent, &request, &around) {
        Ok(changed) => {
            let (caller, agent) = (caller.clone(), agent.clone());
            Ok(Prepared { caller, realm, agent, request, expected, changed })
        }
        Err(refusal) => {
            tell_refusal(host, caller, agent, &request, refusal.code()).await;
            Err(refusal.into())
        }
    }
}

impl Prepared {
    pub async fn commit(
        self,
        host: &Host,
        remember: Option<Remember>,
    ) -> Result<Done, EngineError> {
        let Self { caller, realm, agent, request, expected, changed } = self;
        let change = DeploymentChange {
            realm,
            agent: agent.clone(),
            expected,
            state: changed.deployment.write(),
            at: host.now(),
        };
        let audit = audit_change(&agent, &changed.event, caller.owner(), caller.scope.mode);
        let deployments = host.app.deployments.clone();
        let done = host.app.engine.deploy(deployments, change, audit, remember).await?;
        tracing::info!(
            target: "audit",
            principal = %caller.principal(),
            openwop.tenant_id = %caller.scope.tenant,
            openwop.run_id = %done.run,
            agent = %agent,
            version = %request.version,
            transition = request.transition.as_str(),
            channel = request.channel,
            state = changed.record.state.as_str(),
            "deployment changed"
        );
        Ok(done)
    }
}

/// The refusal stands, told or not.
async fn tell_refusal(
    host: &Host,
    caller: &Caller,
    agent: &AgentId,
    request: &DeploymentTransition,
    code: &str,
) {
    let fact = AuditFact::new(caller.scope.clone(), "deployment.refused", agent)
        .with("version", &request.version)
        .with("transition", request.transition.as_str())
        .with("channel", &request.channel)
        .with("code", code);
    if host.refusals.check(&caller.key_id).is_ok()
        && let Err(error) = host.app.audit.note(fact).await
    {
        tracing::error!(%error, "a refusal is missing from the audit log");
    }
    tracing::warn!(
        target: "audit",
        principal = %caller.principal(),
        openwop.tenant_id = %caller.scope.tenant,
        agent = %agent,
        version = %request.version,
        transition = request.transition.as_str(),
        channel = request.channel,
        code,
        "deployment refused"
    );
}

/// What a key must allow beyond having come this far. No scope implies another.
fn scope_of(transition: Transition) -> &'static str {
    match transition {
        Transition::Promote | Transition::AdjustCanary => "deploy:promote",
        Transition::Rollback => "deploy:rollback",
        Transition::Pause | Transition::Deprecate => "deploy:pause",
    }
}

/// The versions of an agent that the caller could run; an agent of others is no agent.
fn installed(
    agents: &Snapshot,
    caller: &Caller,
    agent: &AgentId,
) -> Result<BTreeSet<PackVersion>, Problem> {
    let versions: BTreeSet<PackVersion> =
        agents.versions(&caller.scope.realm(), agent).cloned().collect();
    if versions.is_empty() { Err(Problem::no_such("agent")) } else { Ok(versions) }
}

/// What is deployed, and the version that a change of it must be made on.
pub async fn read(
    host: &Host,
    caller: &Caller,
    agent: &AgentId,
) -> Result<(u64, Deployment), Problem> {
    match host.app.deployments.deployment(&caller.scope.realm(), agent).await? {
        Some(stored) => Ok((stored.version, Deployment::read(agent, &stored.state)?)),
        None => Ok((0, Deployment::default())),
    }
}

/// Looks at the run that a request names as an evaluation. One that the caller may not see proves nothing.
async fn evidence(host: &Host, caller: &Caller, run: Option<&RunId>) -> Result<Evidence, Problem> {
    let Some(run) = run else { return Ok(Evidence::NotNamed) };
    let page = read_rest(host, caller, run, 0).await?;
    Ok(page.map_or(Evidence::Missing, |page| Evidence::of(page.status, &page.events)))
}
