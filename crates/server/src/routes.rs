//! The router, built from the table of operations: a row without a handler does not compile, a route without a row cannot exist.

mod activity;
mod agents;
mod annotations;
mod artifacts;
mod budget;
mod bundle;
mod cancel;
mod channels;
mod chat;
mod create;
pub(crate) mod deployments;
mod diff;
mod events;
mod everything;
pub(crate) mod files;
mod fork;
mod heartbeats;
mod inbox;
pub(crate) mod interrupts;
mod keys;
mod list;
mod made;
mod memory;
mod org_chart;
mod packs;
mod pause;
pub(crate) mod prompts;
mod read;
mod registry;
pub(crate) mod roster;
pub(crate) mod schedules;
mod secrets;
mod status;
mod tools;
pub(crate) mod triggers;
mod webhooks;
pub(crate) mod work;
pub(crate) mod workflows;

use std::sync::Arc;

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, on};
use tower_http::compression::Compression;

use crate::app::{App, Host};
use crate::gate::{Gate, admit};
use crate::hosts::HostNames;
use crate::metrics::Answers;
use crate::observe::Observed;
use crate::operations::{Operation, OperationId, operations};
use crate::path;
use crate::problem::{Code, Problem};
use crate::seams::{self, SEAMS, TestSeams};

/// The service that `router` makes.
pub type Surface = Compression<Observed>;

/// The whole surface. Also callable in process, without a socket.
pub fn router(app: App) -> Surface {
    let hosts = app.config.hosts.clone();
    let host = Arc::new(Host::new(app));
    let mut routed = Router::new();
    let seams = match host.app.seams {
        TestSeams::On => SEAMS,
        TestSeams::Off => &[],
    };
    for operation in operations().chain(seams) {
        let answers = Arc::new(Answers::of(operation.name));
        let gate = Gate { host: Arc::clone(&host), operation, answers };
        let route = handler(operation).route_layer(from_fn_with_state(gate, admit));
        routed = routed.route(&path::routed(operation.path), route);
    }
    let routed =
        routed.method_not_allowed_fallback(wrong_method).fallback(unrouted).with_state(host);
    Compression::new(Observed::new(routed, hosts))
}

/// The same with pages for people beside it: what begins with `/console`, and `/` for browsers.
pub fn with_pages(mut surface: Surface, pages: Router) -> Surface {
    surface.get_mut().show(pages);
    surface
}

/// Pages without an API beside them: it is the one of another host.
pub fn only_pages(pages: Router, hosts: HostNames) -> Surface {
    let nothing = Router::new().fallback(|| async { StatusCode::NOT_FOUND });
    with_pages(Compression::new(Observed::new(nothing, hosts)), pages)
}

#[expect(clippy::too_many_lines, reason = "one line for each operation")]
fn handler(operation: &Operation) -> MethodRouter<Arc<Host>> {
    let method = operation.method.filter();
    match operation.id {
        OperationId::ReadDiscovery => on(method, status::discovery),
        OperationId::ReadScopedDiscovery => on(method, status::scoped_discovery),
        OperationId::ReadOpenApi => on(method, status::openapi),
        OperationId::CheckHealth => on(method, status::health),
        OperationId::CheckReadiness => on(method, status::readiness),
        OperationId::ReadMetrics => on(method, status::metrics),
        OperationId::ReadWorkflow => on(method, workflows::read),
        OperationId::CreateRun => on(method, create::create),
        OperationId::ReadRun => on(method, read::read),
        OperationId::FollowEvents => on(method, events::follow),
        OperationId::PollEvents => on(method, events::poll),
        OperationId::CancelRun => on(method, cancel::cancel),
        OperationId::BulkCancelRuns => on(method, cancel::bulk_cancel),
        OperationId::PauseRun => on(method, pause::pause),
        OperationId::ResumeRun => on(method, pause::resume),
        OperationId::ForkRun => on(method, fork::fork),
        OperationId::WriteChannel => on(method, channels::write),
        OperationId::ReadAncestry => on(method, fork::ancestry),
        OperationId::ReadOrigin => on(method, fork::origin),
        OperationId::RegisterWebhook => on(method, webhooks::register),
        OperationId::RemoveWebhook => on(method, webhooks::remove),
        OperationId::ListWebhooks => on(method, webhooks::list),
        OperationId::ReadDeadLetters => on(method, webhooks::dead_letters),
        OperationId::ResolveInterrupt | OperationId::ResolveApproval => {
            on(method, interrupts::resolve)
        }
        OperationId::DiffRuns => on(method, diff::compare),
        OperationId::ReadDebugBundle => on(method, bundle::read),
        OperationId::ReadArtifact => on(method, artifacts::read),
        OperationId::ListAnnotations => on(method, annotations::list),
        OperationId::AnnotateRun => on(method, annotations::create),
        OperationId::InspectInterrupt => on(method, interrupts::inspect),
        OperationId::AnswerInterrupt => on(method, interrupts::answer),
        OperationId::ListInterrupts => on(method, inbox::list),
        OperationId::ReadCallbackSecret => on(method, interrupts::callback_secret),
        OperationId::RotateLinks => on(method, interrupts::rotate_links),
        OperationId::ListRuns => on(method, list::list),
        OperationId::ListWorkflows => on(method, workflows::list),
        OperationId::RegisterWorkflow => on(method, workflows::register),
        OperationId::ReplaceWorkflow => on(method, workflows::replace),
        OperationId::RemoveWorkflow => on(method, workflows::remove),
        OperationId::WhoAmI => on(method, keys::whoami),
        OperationId::ListKeys => on(method, keys::list),
        OperationId::CreateKey => on(method, keys::create),
        OperationId::ReadKey => on(method, keys::read),
        OperationId::RevokeKey => on(method, keys::revoke),
        OperationId::RotateKey => on(method, keys::rotate),
        OperationId::SeamFanOut => on(method, seams::fan_out),
        OperationId::SeamPerItem => on(method, seams::per_item),
        OperationId::ListSecrets => on(method, secrets::list),
        OperationId::PutSecret => on(method, secrets::put),
        OperationId::RemoveSecret => on(method, secrets::remove),
        OperationId::SeamInstallGate => on(method, seams::install_gate),
        OperationId::SeamDispatch => on(method, seams::dispatch),
        OperationId::SeamLiveInvoke => on(method, seams::live_invoke),
        OperationId::SeamEvents => on(method, seams::events),
        OperationId::SeamReset => on(method, seams::reset),
        OperationId::SeamToggle => on(method, seams::toggle),
        OperationId::SeamWorkflow => on(method, seams::register),
        OperationId::SeamVariables => on(method, seams::variables),
        OperationId::SeamSetVariables => on(method, seams::set_variables),
        OperationId::SeamSpans => on(method, seams::spans),
        OperationId::SeamConcurrentClaim => on(method, seams::concurrent_claim),
        OperationId::SeamOwnedRun => on(method, seams::owned_run),
        OperationId::SeamCrossWorkspaceRead => on(method, seams::cross_workspace_read),
        OperationId::SeamBundle => on(method, seams::bundle),
        OperationId::SeamDeployment => on(method, seams::deployment),
        OperationId::SeamToolHooks => on(method, seams::tool_hooks),
        OperationId::SeamSafeFetch => on(method, seams::safe_fetch),
        OperationId::SeamSafeFetchRun => on(method, seams::safe_fetch_run),
        OperationId::SeamEgress => on(method, seams::decide),
        OperationId::SeamAuthorize => on(method, seams::authorize),
        OperationId::ListPrompts => on(method, prompts::list),
        OperationId::CreatePrompt => on(method, prompts::create),
        OperationId::ReadPrompt => on(method, prompts::read),
        OperationId::UpdatePrompt => on(method, prompts::update),
        OperationId::RemovePrompt => on(method, prompts::remove),
        OperationId::RenderPrompt => on(method, prompts::render),
        OperationId::SeamResolvePrompt => on(method, seams::resolve_prompt),
        OperationId::SeamComposePrompt => on(method, seams::compose_prompt),
        OperationId::SeamWrapPrompt => on(method, seams::wrap),
        OperationId::SeamMockProgram => on(method, seams::program),
        OperationId::SeamMockBudget => on(method, seams::last_budget),
        OperationId::SeamCacheKey => on(method, seams::cache_key),
        OperationId::SeamModelGate => on(method, seams::capability_gate),
        OperationId::SeamAcceptEnvelope => on(method, seams::accept_envelope),
        OperationId::SeamEmitUsage => on(method, seams::emit_usage),
        OperationId::SeamEmitReliability => on(method, seams::emit_reliability),
        OperationId::SeamExpireSnapshots => on(method, seams::expire_snapshots),
        OperationId::SeamMemoryRoundtrip => on(method, seams::roundtrip),
        OperationId::SeamAgentLoop => on(method, seams::agent_loop),
        OperationId::SeamAttest => on(method, seams::attest),
        OperationId::SeamFireCommitment => on(method, seams::fire_commitment),
        OperationId::SeamDistill => on(method, seams::distill),
        OperationId::SeamSeedMemory => on(method, seams::seed_memory),
        OperationId::SeamCompactMemory => on(method, seams::compact_memory),
        OperationId::SeamExhaustRetries => on(method, seams::exhaust_retries),
        OperationId::SeamConsolidate => on(method, seams::consolidate),
        OperationId::ListMemory => on(method, memory::list),
        OperationId::ReadMemory => on(method, memory::read),
        OperationId::ReadMemoryHistory => on(method, memory::history),
        OperationId::RestoreMemory => on(method, memory::restore),
        OperationId::ForgetMemory => on(method, memory::forget),
        OperationId::ListFiles => on(method, files::list),
        OperationId::ReadFile => on(method, files::read),
        OperationId::WriteFile => on(method, files::write),
        OperationId::RemoveFile => on(method, files::remove),
        OperationId::SeamWorkspace => on(method, seams::workspace),
        OperationId::SeamScheduling => on(method, seams::scheduling),
        OperationId::ListAgents => on(method, agents::list),
        OperationId::ReadAgent => on(method, agents::read),
        OperationId::ListTools => on(method, tools::list),
        OperationId::ReadTool => on(method, tools::read),
        OperationId::ListDeployments => on(method, deployments::list),
        OperationId::ChangeDeployment => on(method, deployments::change),
        OperationId::ListPacks => on(method, packs::catalog),
        OperationId::ExportPacks => on(method, packs::export),
        OperationId::SearchPacks => on(method, registry::search),
        OperationId::ReadPackManifest => on(method, registry::manifest),
        OperationId::ListInstalledPacks => on(method, packs::list),
        OperationId::InstallPack => on(method, packs::install),
        OperationId::FetchPack => on(method, packs::fetch),
        OperationId::RemovePack => on(method, packs::remove),
        OperationId::ListSubscriptions => on(method, triggers::list),
        OperationId::ReadSubscription => on(method, triggers::read),
        OperationId::RegisterSubscription => on(method, triggers::register),
        OperationId::CreateSubscription => on(method, triggers::create),
        OperationId::IngestTrigger => on(method, triggers::ingest),
        OperationId::ReadTriggerDeadLetters => on(method, triggers::dead_letters),
        OperationId::ChangeSubscription => on(method, triggers::change),
        OperationId::DeliverToQueue => on(method, triggers::deliver),
        OperationId::RotateSubscription => on(method, triggers::rotate),
        OperationId::ListOwnSubscriptions => on(method, triggers::list_own),
        OperationId::ReadOwnSubscription => on(method, triggers::read_own),
        OperationId::RemoveSubscription => on(method, triggers::remove),
        OperationId::ReplayDeadLetter => on(method, triggers::replay),
        OperationId::SeamDeliver => on(method, seams::trigger_deliver),
        OperationId::SeamIngest => on(method, seams::trigger_ingest),
        OperationId::ListSchedules => on(method, schedules::list),
        OperationId::CreateSchedule => on(method, schedules::create),
        OperationId::ReadSchedule => on(method, schedules::read),
        OperationId::ChangeSchedule => on(method, schedules::change),
        OperationId::RemoveSchedule => on(method, schedules::remove),
        OperationId::NextFires => on(method, schedules::next),
        OperationId::RunScheduleNow => on(method, schedules::run_now),
        OperationId::ListRoster => on(method, roster::list),
        OperationId::ReadMember => on(method, roster::read),
        OperationId::ManageRoster => on(method, roster::list_closed),
        OperationId::HireMember => on(method, roster::hire),
        OperationId::ShowMember => on(method, roster::read_closed),
        OperationId::ChangeMember => on(method, roster::change),
        OperationId::DismissMember => on(method, roster::dismiss),
        OperationId::FireMember => on(method, roster::fire),
        OperationId::SayChat => on(method, chat::say),
        OperationId::ReadActivity => on(method, activity::read),
        OperationId::ListWork => on(method, work::list),
        OperationId::AddWork => on(method, work::add),
        OperationId::MoveWork => on(method, work::move_item),
        OperationId::FollowEverything => on(method, everything::follow),
        OperationId::ReadOrgChart => on(method, org_chart::read),
        OperationId::ReadDepartment => on(method, org_chart::department),
        OperationId::ManageOrgChart => on(method, org_chart::manage),
        OperationId::PutOrgChart => on(method, org_chart::put),
        OperationId::ReadBudget => on(method, budget::read),
        OperationId::SetBudget => on(method, budget::set),
        OperationId::ResetBudget => on(method, budget::reset),
        OperationId::ListHeartbeats => on(method, heartbeats::list),
        OperationId::CreateHeartbeat => on(method, heartbeats::create),
        OperationId::ReadHeartbeat => on(method, heartbeats::read),
        OperationId::ChangeHeartbeat => on(method, heartbeats::change),
        OperationId::RemoveHeartbeat => on(method, heartbeats::remove),
        OperationId::SeamBudget => on(method, seams::budget),
        OperationId::SeamHeartbeat => on(method, seams::heartbeat),
        OperationId::SeamRosterFire => on(method, seams::roster_fire),
    }
}

/// The router adds `Allow`. Asking for the options is no mistake.
async fn wrong_method(method: Method) -> Response {
    match method {
        Method::OPTIONS => StatusCode::NO_CONTENT.into_response(),
        _ => Problem::new(Code::MethodNotAllowed, "this path does not know the method")
            .into_response(),
    }
}

async fn unrouted(uri: Uri) -> Problem {
    path::unknown(uri.path())
}
