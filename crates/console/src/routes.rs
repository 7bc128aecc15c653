//! Every address of the console, and what every answer carries.

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use crate::Console;
use crate::pages::{
    agents, compare, find, inbox, memory, money, overview, roster, run, runs, schedules, settings,
    triggers, workflows,
};
use crate::trouble::Trouble;
use crate::{assets, live, report, sign_in, sign_on};

/// Nothing from elsewhere, no script but ours, in no frame.
const POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; object-src 'none'; frame-ancestors 'none'";

pub(crate) fn router(console: Console) -> Router {
    Router::new()
        .merge(entrance())
        .merge(of_runs())
        .merge(of_people())
        .merge(of_agents())
        .merge(of_sources())
        .merge(of_the_host())
        .fallback(|| async { Trouble::NoSuchPage })
        .layer(from_fn(protect))
        .with_state(console)
}

fn entrance() -> Router<Console> {
    Router::new()
        .route("/console/assets/{name}", get(assets::serve))
        .route("/console/login", get(sign_in::form).post(sign_in::sign_in))
        .route("/console/enter", get(sign_in::enter).post(sign_in::use_code))
        .route("/console/oidc/{name}", get(sign_on::leave))
        .route("/console/oidc/{name}/back", get(sign_on::come_back))
        .route("/console/codes", post(sign_in::make_code))
        .route("/console/logout", post(sign_in::sign_out))
        .route("/console/theme", post(sign_in::theme))
}

fn of_runs() -> Router<Console> {
    Router::new()
        .route("/console/runs", get(runs::page))
        .route("/console/runs/live", get(live::of_runs))
        .route("/console/runs/export", get(runs::export))
        .route("/console/runs/several", post(runs::several))
        .route("/console/runs/{run}", get(run::page))
        .route("/console/runs/{run}/live", get(live::of_run))
        .route("/console/runs/{run}/report", get(report::page))
        .route("/console/runs/{run}/calls/{call}", get(run::call))
        .route("/console/runs/{run}/cancel", post(run::cancel))
        .route("/console/runs/{run}/pause", post(run::pause))
        .route("/console/runs/{run}/resume", post(run::resume))
        .route("/console/runs/{run}/fork", post(run::fork))
        .route("/console/runs/{run}/retry", post(run::retry))
        .route("/console/runs/{run}/signal", post(run::signal))
        .route("/console/runs/{run}/bundle", get(run::bundle))
        .route("/console/runs/{run}/annotate", post(run::annotate))
}

fn of_people() -> Router<Console> {
    Router::new()
        .route("/", get(overview::page))
        .route("/console", get(overview::page))
        .route("/console/live", get(live::of_overview))
        .route("/console/find", get(find::page))
        .route("/console/compare", get(compare::page))
        .route("/console/inbox", get(inbox::page))
        .route("/console/inbox/live", get(live::of_inbox))
        .route("/console/inbox/several", post(inbox::several))
        .route("/console/inbox/{run}/{node}", get(inbox::one).post(inbox::answer))
}

fn of_agents() -> Router<Console> {
    Router::new()
        .route("/console/agents", get(agents::page))
        .route("/console/agents/-/remove-pack", post(agents::remove_pack))
        .route("/console/agents/{agent}", get(agents::one))
        .route("/console/agents/{agent}/deploy", post(agents::deploy))
        .route("/console/agents/{agent}/run", post(agents::run))
        .route("/console/roster", get(roster::page).post(roster::hire))
        .route("/console/roster/{member}", get(roster::one))
        .route("/console/roster/{member}/change", post(roster::change))
        .route("/console/roster/{member}/dismiss", post(roster::dismiss))
        .route("/console/roster/{member}/fire", post(roster::fire))
        .route("/console/roster/{member}/budget", post(roster::budget))
        .route("/console/roster/{member}/work", post(roster::add_work))
        .route("/console/roster/{member}/work/{work}", post(roster::move_work))
}

fn of_sources() -> Router<Console> {
    Router::new()
        .route("/console/workflows", get(workflows::page).post(workflows::register))
        .route("/console/workflows/-/new", get(workflows::new))
        .route("/console/workflows/{workflow}", get(workflows::one))
        .route("/console/workflows/{workflow}/start", post(workflows::start))
        .route("/console/workflows/{workflow}/remove", post(workflows::remove))
        .route("/console/schedules", get(schedules::page).post(schedules::add))
        .route("/console/schedules/{schedule}", get(schedules::one).post(schedules::change))
        .route("/console/triggers", get(triggers::page).post(triggers::add))
        .route("/console/triggers/{trigger}", get(triggers::one).post(triggers::change))
        .route("/console/triggers/{trigger}/letters/{letter}", get(triggers::letter))
}

fn of_the_host() -> Router<Console> {
    Router::new()
        .route("/console/memory", get(memory::page))
        .route("/console/memory/{entry}", get(memory::one).post(memory::change))
        .route("/console/files", get(memory::files))
        .route("/console/file", get(memory::file).post(memory::change_file))
        .route("/console/money", get(money::page))
        .route("/console/money/{member}", post(money::set_budget))
        .route("/console/settings", get(settings::page))
        .route("/console/settings/keys", post(settings::make_key))
        .route("/console/settings/keys/{key}", post(settings::change_key))
        .route("/console/settings/secrets", post(settings::change_secret))
        .route("/console/settings/webhooks", post(settings::change_webhook))
        .route(
            "/console/settings/webhooks/{webhook}",
            get(settings::webhook_letters).post(settings::change_letters),
        )
        .route("/console/settings/providers/{provider}", post(settings::probe))
}

/// What is on a page belongs to whoever is signed in: no cache keeps it, no frame shows it, no other site learns of it.
async fn protect(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await.into_response();
    let headers = response.headers_mut();
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        // With no-referrer, Chromium says "Origin: null" when it posts a form.
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ];
    for (name, value) in fixed {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
