//! What every page has around it: navigation, who is signed in, and how the page could be had by curl.

use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use crate::assets::{ICON, SCRIPT, STYLE};
use crate::trouble::Trouble;
use crate::value::items;
use crate::visit::{FORM_TOKEN, Theme, Visit};

/// The most questions that the badge counts one by one.
const MOST_COUNTED: usize = 99;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Screen {
    Overview,
    Runs,
    Inbox,
    Agents,
    Roster,
    Workflows,
    Triggers,
    Schedules,
    Memory,
    Files,
    Money,
    Settings,
}

/// Where a screen is, what it is called, and the scope without which it shows nothing.
const SCREENS: [(Screen, &str, &str, &str); 12] = [
    (Screen::Overview, "/", "Overview", "runs:read"),
    (Screen::Runs, "/console/runs", "Runs", "runs:read"),
    (Screen::Inbox, "/console/inbox", "Inbox", "approvals:respond"),
    (Screen::Agents, "/console/agents", "Agents", "manifest:read"),
    (Screen::Roster, "/console/roster", "Roster", "manifest:read"),
    (Screen::Workflows, "/console/workflows", "Workflows", "manifest:read"),
    (Screen::Triggers, "/console/triggers", "Triggers", "webhooks:manage"),
    (Screen::Schedules, "/console/schedules", "Schedules", "runs:read"),
    (Screen::Memory, "/console/memory", "Memory", "runs:read"),
    (Screen::Files, "/console/files", "Files", "workspace:read"),
    (Screen::Money, "/console/money", "Money", "runs:read"),
    (Screen::Settings, "/console/settings", "Settings", ""),
];

/// One page, before what is around it.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) title: String,
    pub(crate) screen: Screen,
    pub(crate) body: Markup,
    /// The paths of the API that the page was made from.
    pub(crate) from: Vec<String>,
    /// The same on the command line.
    pub(crate) command: Option<String>,
    pub(crate) status: StatusCode,
}

impl Page {
    pub(crate) fn new(screen: Screen, title: impl Into<String>, body: Markup) -> Self {
        Self {
            title: title.into(),
            screen,
            body,
            from: Vec::new(),
            command: None,
            status: StatusCode::OK,
        }
    }

    pub(crate) fn from(mut self, path: impl Into<String>) -> Self {
        self.from.push(path.into());
        self
    }

    pub(crate) fn command(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }

    pub(crate) fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    pub(crate) async fn show(self, visit: &Visit) -> Result<Response, Trouble> {
        let inbox = format!("{}/inbox?limit=100", crate::EXTENSION);
        let waiting = visit.find_with("approvals:respond", &inbox).await?;
        let waiting = waiting.map_or(0, |inbox| items(&inbox, "/interrupts").len());
        let status = self.status;
        let page = self.render(visit, waiting);
        Ok((status, Html(page.into_string())).into_response())
    }

    fn render(&self, visit: &Visit, waiting: usize) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" data-theme=(visit.theme.name()) {
                (head(&self.title, None))
                body {
                    a.skip href="#main" { "Skip to content" }
                    (top(visit, self.screen, waiting))
                    main #main tabindex="-1" { (self.body) (self.source()) }
                    (palette())
                    div #toast role="status" aria-live="polite" {}
                }
            }
        }
    }

    /// Everything on a page can be had without it.
    fn source(&self) -> Markup {
        html! {
            @if !self.from.is_empty() {
                footer.source {
                    details.fold {
                        summary { "Show as curl" @if self.command.is_some() { " or command" } }
                        @for path in &self.from {
                            pre data-copy="" { "curl -H \"Authorization: Bearer $CALLBOARD_API_KEY\" \"$CALLBOARD_URL" (path) "\"" }
                        }
                        @if let Some(command) = &self.command { pre data-copy="" { (command) } }
                    }
                }
            }
        }
    }
}

/// A page for somebody who is not signed in, or an error.
pub(crate) fn bare(title: &str, body: &Markup) -> Html<String> {
    bare_with(title, body, None)
}

/// The same, which the browser leaves for another by itself.
pub(crate) fn bare_then(title: &str, body: &Markup, refresh: &str) -> Html<String> {
    bare_with(title, body, Some(refresh))
}

fn bare_with(title: &str, body: &Markup, refresh: Option<&str>) -> Html<String> {
    let page = html! {
        (DOCTYPE)
        html lang="en" data-theme=(Theme::Auto.name()) {
            (head(title, refresh))
            body.bare { main #main { (body) } }
        }
    };
    Html(page.into_string())
}

fn head(title: &str, refresh: Option<&str>) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            @if let Some(refresh) = refresh { meta http-equiv="refresh" content=(refresh); }
            title { (title) " · Callboard" }
            link rel="stylesheet" href=(STYLE.path);
            link rel="icon" type="image/svg+xml" href=(ICON.path);
            script src=(SCRIPT.path) type="module" {}
        }
    }
}

fn top(visit: &Visit, here: Screen, waiting: usize) -> Markup {
    html! {
        header.top {
            a.brand href="/" { (logo()) "Callboard" }
            button.menu type="button" popovertarget="nav" { "Menu" @if waiting > 0 { (badge(waiting)) } }
            nav #nav popover="" aria-label="Screens" {
                ul {
                    @for (screen, path, name, scope) in SCREENS {
                        @if scope.is_empty() || visit.may(scope) {
                            li {
                                a href=(path) aria-current=[(screen == here).then_some("page")] {
                                    (name)
                                    @if screen == Screen::Inbox && waiting > 0 { (badge(waiting)) }
                                }
                            }
                        }
                    }
                }
                (person(visit))
            }
        }
    }
}

/// Who is signed in, and what concerns only them.
fn person(visit: &Visit) -> Markup {
    let who = &visit.who;
    html! {
        div.person {
            p.find { button type="button" data-palette="" { "Find" kbd { "/" } } }
            p.who {
                span title=(who.key_id) { (who.name) }
                br;
                span.muted { (who.tenant) @if let Some(workspace) = &who.workspace { " / " (workspace) } }
            }
            (act(visit, "/console/theme", html! {
                input type="hidden" name="next" value=(visit.path);
                button.quiet type="submit" title="Light, dark, or as the system has it" { "Theme: " (visit.theme.name()) }
            }))
            (act(visit, "/console/logout", html! { button.quiet type="submit" { "Sign out" } }))
        }
    }
}

fn badge(waiting: usize) -> Markup {
    let text = if waiting > MOST_COUNTED { "99+".to_owned() } else { waiting.to_string() };
    html! { span.badge { (text) span.hidden { " open questions" } } }
}

/// Three cards on a board.
fn logo() -> Markup {
    html! {
        svg.logo viewBox="0 0 16 16" aria-hidden="true" {
            rect x="1" y="2" width="14" height="3" rx="1" {}
            rect x="1" y="6.5" width="9" height="3" rx="1" {}
            rect x="1" y="11" width="11.5" height="3" rx="1" {}
        }
    }
}

/// Finds runs, agents, members and workflows; without a script it is a page of its own.
fn palette() -> Markup {
    html! {
        dialog #palette aria-label="Find" {
            form method="get" action="/console/find" {
                input name="q" type="search" placeholder="Run, workflow, agent, member or screen" autocomplete="off" aria-label="Find";
            }
            ul #found {}
            p.muted { kbd { "j" } " " kbd { "k" } " move · " kbd { "Enter" } " open · " kbd { "g" } " then " kbd { "r" } kbd { "i" } kbd { "o" } " runs, inbox, overview · " kbd { "a" } " " kbd { "r" } " accept, reject · " kbd { "?" } " this" }
        }
    }
}

/// A form of this session: its token is in it, without which nothing is done.
pub(crate) fn act(visit: &Visit, action: &str, inside: Markup) -> Markup {
    html! {
        form.act method="post" action=(action) {
            input type="hidden" name=(FORM_TOKEN) value=(visit.form_token);
            (inside)
        }
    }
}

/// What a list without entries says: what would be here, and how it comes here.
pub(crate) fn nothing(what: &str, command: &str) -> Markup {
    html! {
        div.nothing {
            p { (what) }
            @if !command.is_empty() { pre data-copy="" { (command) } }
        }
    }
}

/// The line over a page: where it is, what it is called, what can be done.
pub(crate) fn heading(title: &str, actions: Markup) -> Markup {
    html! { div.heading { h1 { (title) } div.actions { (actions) } } }
}

/// One figure with its name.
pub(crate) fn figure(name: &str, value: Markup) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

/// A list of links of which one is where we are.
pub(crate) fn tabs(label: &str, entries: &[(String, &str, bool)]) -> Markup {
    html! {
        nav.tabs aria-label=(label) {
            @for (path, name, is_here) in entries {
                a href=(path) aria-current=[is_here.then_some("page")] { (name) }
            }
        }
    }
}
