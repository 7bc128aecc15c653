//! One run: header, tabs over one log, and what can be done with it.

mod acts;
mod call;
mod log;
mod retry;
mod rows;
mod state;
mod story;

use axum::extract::Path;
use axum::response::Response;
use callboard_protocol::Timestamp;
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::api::{segment, with_query};
use crate::draw::graph::{Mark, graph};
use crate::draw::waterfall::{spans, waterfall};
use crate::layout::{Page, Screen, act, figure, tabs};
use crate::trouble::Trouble;
use crate::value::{fields, items, number, text, time, whole};
use crate::visit::Visit;
use crate::wait;
use crate::words::{count, duration, exact, id, money, short, status, when};

pub(crate) use acts::{annotate, bundle, cancel, fork, fork_form, pause, resume, signal};
pub(crate) use call::page as call;
pub(crate) use log::{Narrow, log, row as log_row};
pub(crate) use retry::retry;
pub(crate) use rows::{failure, question};
pub(crate) use story::{Names, row as story_row, story};

/// Events that a page shows at once.
const WINDOW: u64 = 400;
/// Events that a picture is made from.
const PICTURED: u64 = 2048;
/// What one call reads.
const MOST_READ: u64 = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tab {
    Story,
    Waterfall,
    Graph,
    Log,
    State,
}

impl Tab {
    const ALL: [(Self, &'static str, &'static str); 5] = [
        (Self::Story, "story", "Story"),
        (Self::Waterfall, "waterfall", "Waterfall"),
        (Self::Graph, "graph", "Graph"),
        (Self::Log, "log", "Log"),
        (Self::State, "state", "State"),
    ];

    pub(crate) fn read(name: &str) -> Self {
        Self::ALL.iter().find(|(_, known, _)| *known == name).map_or(Self::Story, |(tab, ..)| *tab)
    }

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(tab, ..)| *tab == self).map_or("story", |(_, name, _)| name)
    }
}

/// `GET /console/runs/{runId}`
pub(crate) async fn page(visit: Visit, Path(run_id): Path<String>) -> Result<Response, Trouble> {
    if let Some(from) = visit.query.number("fork") {
        return fork_form(visit, run_id, from).await;
    }
    if visit.query.get("retry") == "1" {
        return retry::form(visit, run_id).await;
    }
    let api = format!("/v1/runs/{}", segment(&run_id));
    let run = visit.get(&api).await?;
    let definition = definition(&visit, &run).await?;
    let names = Names::of(definition.as_ref());
    let tab = Tab::read(visit.query.get("tab"));
    let origin = ancestry(&visit, &run).await?;
    let origin = with_wait(&visit, &run, origin).await?;
    let body = html! {
        (head(&visit, &run, &origin, &names))
        (tab_links(&run_id, tab))
        (content(&visit, &run, definition.as_ref(), &names, tab).await?)
    };
    let title = format!("{} {}", text(&run, "/workflowId"), short(&run_id));
    let live = live_path(&visit, &run, tab);
    Page::new(Screen::Runs, title, html! { div data-live=[live] { (body) } })
        .from(api.clone())
        .from(format!("{api}/events/poll"))
        .command(format!("callboard runs show {run_id}"))
        .show(&visit)
        .await
}

/// Where what is new comes from, while something can be new. Rows are for the end of the log: a page of earlier ones stays
/// as it is, and only what stands over it changes.
fn live_path(visit: &Visit, run: &Value, tab: Tab) -> Option<String> {
    let last = whole(run, "/lastSequence").unwrap_or(0);
    let shown = match tab {
        Tab::Story => WINDOW,
        Tab::Log => log::PAGE,
        Tab::Waterfall | Tab::Graph | Tab::State => u64::MAX,
    };
    let is_end = visit.query.number("from").is_none_or(|from| from.saturating_add(shown) > last);
    let tab = if is_end { tab } else { Tab::State };
    let path = format!("/console/runs/{}/live", segment(text(run, "/runId")));
    let after = whole(run, "/lastSequence").map(|last| last.to_string()).unwrap_or_default();
    let path = with_query(
        &path,
        [
            ("tab", tab.name()),
            ("after", &after),
            ("type", visit.query.get("type")),
            ("node", visit.query.get("node")),
        ],
    );
    (!has_ended(run)).then_some(path)
}

pub(crate) fn has_ended(run: &Value) -> bool {
    matches!(text(run, "/status"), "completed" | "failed" | "cancelled")
}

/// The definition that the run's workflow has now; none for an agent without a workflow, or without the scope.
pub(crate) async fn definition(visit: &Visit, run: &Value) -> Result<Option<Value>, Trouble> {
    let path = format!("/v1/workflows/{}", segment(text(run, "/workflowId")));
    visit.find_with("manifest:read", &path).await
}

/// Where the run came from.
pub(crate) async fn ancestry(visit: &Visit, run: &Value) -> Result<Value, Trouble> {
    let run_id = segment(text(run, "/runId"));
    let path = format!("{}/runs/{run_id}/ancestry", crate::EXTENSION);
    Ok(visit.find(&path).await?.unwrap_or_else(|| json!({})))
}

/// The same with why the run waits now, where it can wait at all.
pub(crate) async fn with_wait(
    visit: &Visit,
    run: &Value,
    mut origin: Value,
) -> Result<Value, Trouble> {
    let run_id = text(run, "/runId");
    origin["runId"] = json!(run_id);
    if !has_ended(run) {
        let line = with_query(&format!("{}/runs", crate::EXTENSION), [("runId", run_id)]);
        let line = visit.find(&line).await?.unwrap_or_default();
        if let Some(line) = items(&line, "/runs").first() {
            origin["wait"] = line["wait"].clone();
        }
    }
    Ok(origin)
}

/// Events from `from` on, and no more than asked for.
pub(crate) async fn events(
    visit: &Visit,
    run: &Value,
    from: u64,
    most: u64,
) -> Result<Vec<Value>, Trouble> {
    let path = format!("/v1/runs/{}/events/poll", segment(text(run, "/runId")));
    let Some(last) = whole(run, "/lastSequence") else { return Ok(Vec::new()) };
    let (mut found, mut next) = (Vec::new(), from);
    while next <= last && (found.len() as u64) < most {
        let limit = MOST_READ.min(most - found.len() as u64 + 1).to_string();
        let seen = next.saturating_sub(1).to_string();
        let query = [("lastSequence", seen.as_str()), ("limit", &limit), ("timeout", "1")];
        let read = visit.list(&path, query).await?;
        // A cursor of zero means the start, so that the first event may come although it is not asked for.
        let new =
            items(&read, "/events").iter().filter(|event| whole(event, "/sequence") >= Some(next));
        let before = found.len();
        found.extend(new.cloned());
        let Some(end) = found.last().and_then(|event| whole(event, "/sequence")) else { break };
        if found.len() == before {
            break;
        }
        next = end + 1;
    }
    found.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    Ok(found)
}

/// What stands over the tabs, and changes while the run goes on.
pub(crate) fn head(visit: &Visit, run: &Value, origin: &Value, names: &Names) -> Markup {
    let now = visit.now();
    let run_id = text(run, "/runId");
    let workflow = text(run, "/workflowId");
    html! {
        header.head #head {
            div.heading {
                h1 { a href={ "/console/workflows/" (segment(workflow)) } { (workflow) } " " (status(text(run, "/status"))) }
                div.actions { (actions(visit, run)) }
            }
            p.ids { (id(run_id)) (lineage(run, origin)) @for tag in items(run, "/tags") { " " a.tag href={ "/console/runs?tag=" (segment(tag.as_str().unwrap_or_default())) } { (tag.as_str().unwrap_or_default()) } } }
            @if run["error"].is_object() { (failure(&run["error"])) }
            (wait::sentence(origin, now, |node| names.name(node)))
            dl.figures { (figures(run, origin, now)) }
        }
    }
}

fn figures(run: &Value, origin: &Value, now: Timestamp) -> Markup {
    let began = time(run, "/startedAt").or_else(|| time(run, "/createdAt"));
    let end = time(run, "/completedAt").unwrap_or(now);
    let cost = &run["metrics"]["openwopCost"];
    let model = text(cost, "/model");
    let member = text(origin, "/member/persona");
    html! {
        (figure("Started", when(now, began)))
        (figure("Took", html! { span title=[time(run, "/completedAt").map(exact)] { (began.map(|began| duration(end.since(began))).unwrap_or_default()) } }))
        @if let Some(usd) = number(cost, "/usd") { (figure("Cost", html! { (money(usd)) })) }
        @if cost["tokens"].is_object() {
            (figure("Tokens", html! { (count(whole(cost, "/tokens/input").unwrap_or(0))) " in, " (count(whole(cost, "/tokens/output").unwrap_or(0))) " out" }))
        }
        @if !model.is_empty() { (figure("Model", html! { (text(cost, "/provider")) "/" (model) })) }
        @if !member.is_empty() { (figure("For", html! { a href={ "/console/roster/" (segment(text(origin, "/member/rosterId"))) } { (member) } " " span.muted { (text(origin, "/member/triggerSource")) } })) }
        (figure("Events", html! { (whole(run, "/lastSequence").map_or(0, |last| last + 1)) }))
    }
}

/// Where it came from: a parent, a source of a fork.
fn lineage(run: &Value, origin: &Value) -> Markup {
    let parent =
        items(origin, "/runs").first().map(|parent| text(parent, "/runId")).unwrap_or_default();
    let source = text(run, "/fork/sourceRunId");
    html! {
        @if !source.is_empty() {
            " · " (text(run, "/fork/mode")) " of " a href={ "/console/runs/" (segment(source)) } { (short(source)) }
            " from event " (whole(run, "/fork/fromSeq").unwrap_or(0))
            " · " a href={ "/console/compare?a=" (segment(source)) "&b=" (segment(text(run, "/runId"))) } { "compare" }
        } @else if !parent.is_empty() {
            " · started by " a href={ "/console/runs/" (segment(parent)) } { (short(parent)) }
        }
    }
}

fn actions(visit: &Visit, run: &Value) -> Markup {
    let path = format!("/console/runs/{}", segment(text(run, "/runId")));
    let state = text(run, "/status");
    let last = whole(run, "/lastSequence").unwrap_or(0);
    html! {
        @if visit.may("runs:cancel") && !has_ended(run) && state != "cancelling" {
            @if state == "paused" { (act(visit, &format!("{path}/resume"), html! { button type="submit" { "Resume" } })) }
            @else { (act(visit, &format!("{path}/pause"), html! { button type="submit" { "Pause" } })) }
            (act(visit, &format!("{path}/cancel"), html! { button.danger type="submit" data-sure="Cancel this run and all that it started?" { "Cancel" } }))
        }
        @if visit.may("runs:create") {
            @if matches!(state, "failed" | "cancelled") { a.button href={ (path) "?retry=1" } title="Go on from what failed, with what is changed" { "Retry" } }
            @if has_ended(run) {
                (act(visit, &format!("{path}/fork"), html! { input type="hidden" name="mode" value="replay"; button type="submit" title="Do it again without asking anybody outside, and see whether it comes to the same" { "Replay" } }))
            }
            a.button href={ (path) "?fork=" (last) } { "Fork" }
        }
        a.button href={ (path) "/report" } download={ (text(run, "/runId")) ".html" } title="All of it in one file to read" { "Report" }
        a.button href={ (path) "/bundle" } download={ (text(run, "/runId")) ".json" } title="All of it in one file for programs, without secrets" { "Bundle" }
    }
}

fn tab_links(run_id: &str, here: Tab) -> Markup {
    let path = format!("/console/runs/{}", segment(run_id));
    let links: Vec<(String, &str, bool)> = Tab::ALL
        .iter()
        .map(|(tab, name, word)| (format!("{path}?tab={name}"), *word, *tab == here))
        .collect();
    tabs("Views of the run", &links)
}

async fn content(
    visit: &Visit,
    run: &Value,
    definition: Option<&Value>,
    names: &Names,
    tab: Tab,
) -> Result<Markup, Trouble> {
    let last = whole(run, "/lastSequence").unwrap_or(0);
    let began = time(run, "/startedAt");
    let path = format!("/console/runs/{}", segment(text(run, "/runId")));
    Ok(match tab {
        Tab::Story => {
            let from =
                visit.query.number("from").unwrap_or_else(|| (last + 1).saturating_sub(WINDOW));
            let events = events(visit, run, from, WINDOW).await?;
            html! { (window(&path, from, last)) (story(&events, names, began)) (later(&path, from, last)) }
        }
        Tab::Waterfall | Tab::Graph => {
            html! { div #picture { (picture(visit, run, definition, names, tab).await?) } }
        }
        Tab::Log => {
            let from = visit.query.number("from").unwrap_or(last / log::PAGE * log::PAGE).min(last);
            let narrow = Narrow {
                kind: visit.query.get("type").to_owned(),
                node: visit.query.get("node").to_owned(),
            };
            let events = events(visit, run, from, log::PAGE).await?;
            log(&path, &events, &narrow, names, (from, last, began), visit.may("runs:create"))
        }
        Tab::State => {
            let annotations = visit
                .find(&format!("/v1/runs/{}/annotations", segment(text(run, "/runId"))))
                .await?;
            state::state(visit, run, annotations.as_ref(), (definition, names))
        }
    })
}

/// The waterfall or the graph, also for a page that is open.
pub(crate) async fn picture(
    visit: &Visit,
    run: &Value,
    definition: Option<&Value>,
    names: &Names,
    tab: Tab,
) -> Result<Markup, Trouble> {
    let path = format!("/console/runs/{}", segment(text(run, "/runId")));
    if tab == Tab::Graph {
        let states = fields(run, "/nodeStates");
        let mark = |node: &str| {
            let state =
                states.iter().find(|(id, _)| *id == node).map(|(_, state)| text(state, "/status"));
            let link = format!("{path}?tab=log&from=0&node={}", segment(node));
            Mark { status: state.unwrap_or_default().to_owned(), link: Some(link) }
        };
        let drawn = definition.and_then(|definition| graph(definition, mark));
        return Ok(drawn.unwrap_or_else(|| html! { p.muted { "This run has no workflow to draw: an agent was started by itself, or the workflow is gone." } }));
    }
    let events = events(visit, run, 0, PICTURED).await?;
    let spans = spans(&events, |node| names.name(node));
    let end = time(run, "/completedAt").unwrap_or_else(|| visit.now());
    Ok(waterfall(&spans, end, |span| Some(format!("{path}?tab=log&from={0}#e-{0}", span.sequence))))
}

fn window(path: &str, from: u64, last: u64) -> Markup {
    html! {
        @if from > 0 {
            nav.pages {
                a href={ (path) "?tab=story&from=0" } { "« from the start" }
                a rel="prev" href={ (path) "?tab=story&from=" (from.saturating_sub(WINDOW)) } { "‹ earlier" }
                span.muted { "from event " (from) " of " (last + 1) }
            }
        }
    }
}

fn later(path: &str, from: u64, last: u64) -> Markup {
    html! {
        @if from + WINDOW <= last {
            nav.pages { a rel="next" href={ (path) "?tab=story&from=" (from + WINDOW) } { "later ›" } a href={ (path) "?tab=story" } { "latest »" } }
        }
    }
}
