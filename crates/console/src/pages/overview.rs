//! The front page: how it goes, what waits, what fails, what it costs.

use std::time::Duration;

use axum::response::Response;
use callboard_protocol::Timestamp;
use maud::{Markup, html};
use serde_json::Value;

use crate::api::{segment, with_query};
use crate::draw::bars::{Bar, stacked};
use crate::layout::{Page, Screen, figure, heading, nothing};
use crate::pages::money::tenant;
use crate::pages::run::question;
use crate::pages::runs;
use crate::trouble::Trouble;
use crate::value::{flag, items, number, text, time, whole};
use crate::visit::Visit;
use crate::wait;
use crate::words::{count, look, money, short, status, when};

const HOUR: Duration = Duration::from_secs(3600);
const HOURS: u32 = 24;
/// Runs that the figures are made from, however many there are.
const MOST_RUNS: usize = 1000;
/// Runs at the end of the page.
const NEWEST: usize = 10;
/// Triggers whose dead letters are counted, each with a call of the API; only those of which something was given up today.
const MOST_LETTERED: usize = 5;
/// The order in which a bar is stacked, from below.
const FAMILIES: [&str; 5] = ["good", "quiet", "busy", "wait", "bad"];

/// `GET /`
pub(crate) async fn page(visit: Visit) -> Result<Response, Trouble> {
    let content = content(&visit).await?;
    let body =
        html! { (heading("Overview", html! {})) div data-live="/console/live" { (content) } };
    let since = day_ago(visit.now()).to_string();
    Page::new(Screen::Overview, "Overview", body)
        .from(with_query(&format!("{}/runs", crate::EXTENSION), [("since", since.as_str())]))
        .from(format!("{}/inbox", crate::EXTENSION))
        .from(format!("{}/spend?days=1", crate::EXTENSION))
        .from(format!("{}/hosts", crate::EXTENSION))
        .command("callboard runs list")
        .show(&visit)
        .await
}

fn day_ago(now: Timestamp) -> Timestamp {
    Timestamp::from_millis(now.as_millis() - 24 * 3_600_000)
}

/// Runs of the last so many milliseconds, newest first.
pub(crate) async fn recent(visit: &Visit, since: Timestamp) -> Result<Vec<Value>, Trouble> {
    let (since, path) = (since.to_string(), format!("{}/runs", crate::EXTENSION));
    let (mut found, mut cursor) = (Vec::new(), String::new());
    while found.len() < MOST_RUNS {
        let page = [("since", since.as_str()), ("limit", "200"), ("cursor", &cursor)];
        // Another host of the protocol has no such list.
        let Some(answer) = visit.get_if_known(&with_query(&path, page)).await? else { break };
        found.extend(items(&answer, "/runs").iter().cloned());
        cursor = text(&answer, "/nextCursor").to_owned();
        if cursor.is_empty() {
            break;
        }
    }
    Ok(found)
}

/// All of it, also for a page that is open.
pub(crate) async fn content(visit: &Visit) -> Result<Markup, Trouble> {
    if !visit.may("runs:read") {
        return Ok(html! { div #overview { p.muted { "Your key may not read runs." } } });
    }
    let now = visit.now();
    let runs = recent(visit, day_ago(now)).await?;
    let inbox = visit
        .find_with("approvals:respond", &format!("{}/inbox?limit=5", crate::EXTENSION))
        .await?;
    let schedules = visit.find(&format!("{}/schedules?limit=200", crate::EXTENSION)).await?;
    let triggers = visit
        .find_with("webhooks:manage", &format!("{}/trigger-subscriptions", crate::EXTENSION))
        .await?;
    let letters = dead_letters(visit, &runs).await?;
    let spend =
        visit.find(&format!("{}/spend?days=1", crate::EXTENSION)).await?.unwrap_or_default();
    let hosts = visit
        .find_with("manifest:read", &format!("{}/hosts", crate::EXTENSION))
        .await?
        .unwrap_or_default();
    // What the host writes down of itself is in the list of all runs; it is nothing that somebody started.
    let newest: Vec<Value> =
        runs.iter().filter(|run| !is_of_host(run)).take(NEWEST).cloned().collect();
    Ok(html! {
        div #overview {
            dl.figures.big { (figures(&runs, &spend, &hosts)) }
            (tenant(&spend))
            h2 { "Runs of the last day" }
            (stacked("Runs by hour and state", &bars(&runs, now)))
            div.scale { span { "24 h ago" } span { "12 h ago" } span { "now" } }
            (legend(&runs))
            div.columns {
                section { h2 { "What waits longest" } (waiting(inbox.as_ref(), &runs, now)) }
                section { h2 { "What needs a look" } (trouble(&runs, &letters, schedules.as_ref(), triggers.as_ref(), now)) }
            }
            (machines(&hosts, now))
            h2 { "Newest runs" }
            @if newest.is_empty() { (nothing("No run began in the last day.", "callboard run WORKFLOW --follow")) }
            @else { (runs::table(&newest, now, false)) }
        }
    })
}

fn figures(runs: &[Value], spend: &Value, hosts: &Value) -> Markup {
    let of =
        |wanted: &str| runs.iter().filter(|run| look(text(run, "/status")).1 == wanted).count();
    let spent = number(spend, "/total/costUsd").unwrap_or(0.0);
    let tokens = whole(spend, "/total/inputTokens").unwrap_or(0)
        + whole(spend, "/total/outputTokens").unwrap_or(0);
    html! {
        (figure("Runs in 24 h", html! { a href="/console/runs" { (runs.len()) @if runs.len() >= MOST_RUNS { "+" } } }))
        (figure("At work", html! { a href="/console/runs?status=running" { (of("busy")) } }))
        (figure("Waiting", html! { a href="/console/inbox" { (of("wait")) } }))
        (figure("Failed", html! { a href="/console/runs?status=failed" { (of("bad")) } }))
        (figure("Spent today", html! { a href="/console/money" { (money(spent)) } }))
        (figure("Tokens today", html! { (count(tokens)) }))
        @if hosts["database"].is_object() {
            (figure("Database", html! { @if flag(hosts, "/database/isReady") { "ready" } @else { span.status.bad { "away" } } }))
        }
    }
}

/// The processes that drive runs with what they hold, and whom they can ask.
fn machines(hosts: &Value, now: Timestamp) -> Markup {
    let providers: Vec<&str> =
        items(hosts, "/providers").iter().map(|provider| text(provider, "/name")).collect();
    html! {
        @if !items(hosts, "/hosts").is_empty() {
            h2 { "Hosts" }
            div.scroll tabindex="0" { table {
                thead { tr { th { "Host" } th.wide { "Version" } th { "Up since" } th { "Seen" } th.num { "Runs held" } th.num.wide { "of at most" } } }
                tbody { @for host in items(hosts, "/hosts") { tr {
                    td { (short(text(host, "/hostId"))) @if flag(host, "/seen/isThis") { " (this one)" } br; small { (text(host, "/seen/address")) } } td.wide { (text(host, "/version")) } td { (when(now, time(host, "/startedAt"))) }
                    td { (seen(host, now)) }
                    td.num { (count(whole(host, "/claims/runs").unwrap_or(0))) } td.num.wide { (count(whole(host, "/claims/mostRuns").unwrap_or(0))) }
                } } }
            } }
            p.muted { "Providers of models: " @if providers.is_empty() { "none" } @else { a href="/console/settings?tab=providers" { (providers.join(", ")) } } }
        }
    }
}

/// When a host was there last, and how soon its database answers it.
fn seen(host: &Value, now: Timestamp) -> Markup {
    html! {
        @if !host["seen"].is_object() { "now" }
        @else if flag(host, "/seen/isGone") { span.status.bad { "gone" } " " (when(now, time(host, "/seen/at"))) }
        @else { (when(now, time(host, "/seen/at"))) br; small { "database in " (whole(host, "/seen/databaseLatencyMs").unwrap_or(0)) " ms" } }
    }
}

fn bars(runs: &[Value], now: Timestamp) -> Vec<Bar> {
    let hours = (0..HOURS).rev().map(|ago| {
        let within = |run: &&Value| {
            let age = time(run, "/createdAt").map(|at| now.since(at).as_secs() / HOUR.as_secs());
            age == Some(ago.into())
        };
        let here: Vec<&Value> = runs.iter().filter(within).collect();
        let parts = FAMILIES.map(|family| {
            let of = here.iter().filter(|run| look(text(run, "/status")).1 == family);
            (family, of.count() as f64)
        });
        let words: Vec<String> = parts
            .iter()
            .filter(|(_, amount)| *amount > 0.0)
            .map(|(family, amount)| format!("{amount} {}", word(family)))
            .collect();
        Bar {
            label: format!(
                "{ago} h ago: {}",
                if words.is_empty() { "none".to_owned() } else { words.join(", ") }
            ),
            parts: parts.to_vec(),
        }
    });
    hours.collect()
}

/// What the colours of the bars mean, with how many there are of each.
fn legend(runs: &[Value]) -> Markup {
    let of =
        |family: &str| runs.iter().filter(|run| look(text(run, "/status")).1 == family).count();
    html! {
        p.legend { @for family in FAMILIES { @let number = of(family); @if number > 0 {
            span { svg.bars viewBox="0 0 10 10" aria-hidden="true" { rect class=(family) width="10" height="10" {} } (number) " " (word(family)) }
        } } }
    }
}

fn word(family: &str) -> &str {
    match family {
        "good" => "completed",
        "bad" => "failed",
        "wait" => "waiting",
        "busy" => "at work",
        _ => "other",
    }
}

/// Questions by their age, then whatever else waits of the day's runs.
fn waiting(inbox: Option<&Value>, runs: &[Value], now: Timestamp) -> Markup {
    let questions = inbox.map(|inbox| items(inbox, "/interrupts")).unwrap_or_default();
    let asks = |run: &&Value| matches!(text(run, "/wait/reason"), "question" | "budget");
    let is_shown = |run: &&Value| run["wait"].is_object() && (inbox.is_none() || !asks(run));
    let mut others: Vec<&Value> = runs.iter().filter(is_shown).collect();
    others.sort_by_key(|run| time(run, "/wait/since"));
    html! {
        @if questions.is_empty() && others.is_empty() { p.muted { "Nothing." } }
        ul.plain {
            @for asked in questions {
                li {
                    a href={ "/console/inbox/" (segment(text(asked, "/runId"))) "/" (segment(text(asked, "/nodeId"))) } { (question(text(asked, "/kind"), &asked["data"])) }
                    " " span.muted { (text(asked, "/workflowId")) " · " (when(now, time(asked, "/requestedAt"))) }
                }
            }
            @for run in others.iter().take(5) {
                li {
                    a href={ "/console/runs/" (segment(text(run, "/runId"))) } { (text(run, "/workflowId")) } " " (wait::briefly(run, now))
                    " " span.muted { "since " (when(now, time(run, "/wait/since"))) }
                }
            }
        }
    }
}

fn is_of_host(run: &Value) -> bool {
    text(run, "/workflowId").starts_with("callboard-")
}

/// Triggers with letters that became no run, and how many there are of each.
async fn dead_letters(visit: &Visit, runs: &[Value]) -> Result<Vec<(String, usize)>, Trouble> {
    let noted = runs.iter().filter(|run| text(run, "/workflowId") == "callboard-trigger");
    let mut triggers: Vec<&str> = noted.map(|run| text(run, "/tags/0")).collect();
    triggers.sort_unstable();
    triggers.dedup();
    let mut found = Vec::new();
    for trigger in triggers.into_iter().filter(|it| !it.is_empty()).take(MOST_LETTERED) {
        let path = format!("/v1/trigger-subscriptions/{}/dead-letters?limit=100", segment(trigger));
        let letters = visit.find_with("webhooks:manage", &path).await?.unwrap_or_default();
        let count = items(&letters, "/deliveries").len();
        if count > 0 {
            found.push((trigger.to_owned(), count));
        }
    }
    Ok(found)
}

fn trouble(
    runs: &[Value],
    letters: &[(String, usize)],
    schedules: Option<&Value>,
    triggers: Option<&Value>,
    now: Timestamp,
) -> Markup {
    let failed = runs.iter().filter(|run| text(run, "/status") == "failed").take(5);
    let schedules = schedules.map(|list| items(list, "/schedules")).unwrap_or_default();
    let missed =
        schedules.iter().filter(|schedule| text(schedule, "/lastFire/outcome") == "failed");
    let triggers = triggers.map(|list| items(list, "/subscriptions")).unwrap_or_default();
    let broken = triggers
        .iter()
        .filter(|trigger| matches!(text(trigger, "/state"), "failed" | "dead-lettered"));
    let starts = |id: &str| {
        let trigger = triggers.iter().find(|it| text(it, "/subscriptionId") == id);
        trigger.map_or_else(|| short(id), |trigger| text(trigger, "/workflowId").to_owned())
    };
    let is_fine = letters.is_empty()
        && failed.clone().next().is_none()
        && missed.clone().next().is_none()
        && broken.clone().next().is_none();
    html! {
        @if is_fine { p.muted { "Nothing failed in the last day." } }
        ul.plain {
            @for run in failed {
                li { (status("failed")) " " a href={ "/console/runs/" (segment(text(run, "/runId"))) } { (text(run, "/workflowId")) } " " span.muted { (short(text(run, "/runId"))) " · " (when(now, time(run, "/createdAt"))) } }
            }
            @for (trigger, count) in letters {
                li { (status("dead-lettered")) " trigger " a href={ "/console/triggers/" (segment(trigger)) } { (starts(trigger)) } " " span.muted { (count) @if *count >= 100 { "+" } @if *count == 1 { " letter" } @else { " letters" } } }
            }
            @for schedule in missed {
                li { (status("failed")) " schedule " a href="/console/schedules" { (text(schedule, "/workflowId")) } " " span.muted { (text(schedule, "/lastFire/reason")) @if !flag(schedule, "/enabled") { " · paused" } } }
            }
            @for trigger in broken {
                li { (status(text(trigger, "/state"))) " trigger " a href={ "/console/triggers/" (segment(text(trigger, "/subscriptionId"))) } { (text(trigger, "/workflowId")) } }
            }
        }
    }
}
