//! Signing in and out: a key, or a one-time code that a key holder asked for, becomes a session.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use callboard_protocol::KeyId;
use maud::{Markup, html};
use serde_json::json;

use crate::Console;
use crate::api::ApiError;
use crate::layout;
use crate::session::{Secret, Session};
use crate::sign_on;
use crate::trouble::Trouble;
use crate::visit::{Act, COOKIE, Fields, LONGEST_SIGN_IN, check_origin, read_form};

/// `GET /console/login`
pub(crate) async fn form(State(console): State<Console>, request: Request) -> Response {
    let query = Fields::parse(request.uri().query().unwrap_or_default().as_bytes());
    let page = sign_in_page(&console, query.get("next"), None);
    layout::bare("Sign in", &page).into_response()
}

pub(crate) fn sign_in_page(console: &Console, next: &str, wrong: Option<&str>) -> Markup {
    html! {
        h1 { "Sign in" }
        @if let Some(wrong) = wrong { p.wrong role="alert" { (wrong) } }
        @for offer in console.sign_on().offers() {
            p { a.button.primary href=(sign_on::way(&offer, next)) { "Sign in with " (offer.title) } }
        }
        form.stack method="post" action="/console/login" {
            input type="hidden" name="next" value=(local(next));
            label for="key" { "API key" }
            input id="key" name="key" type="password" required autofocus autocomplete="current-password" spellcheck="false" maxlength="512";
            button.primary type="submit" { "Sign in" }
        }
        p.muted {
            "The first start of " code { "callboard serve" } " prints a key and a link that signs you in. With a key in "
            code { "CALLBOARD_API_KEY" } ", " code { "callboard console" } " prints a link at any time."
        }
    }
}

/// `POST /console/login`
pub(crate) async fn sign_in(
    State(console): State<Console>,
    request: Request,
) -> Result<Response, Trouble> {
    let (parts, body) = request.into_parts();
    check_origin(&parts.headers)?;
    let form = read_form(body, LONGEST_SIGN_IN).await?;
    match console.api().sign_in(form.get("key").trim()).await {
        Ok(who) => begin(&console, &parts.headers, who.key_id, form.get("next")).await,
        Err(ApiError::Refused(refused)) => {
            let page = sign_in_page(
                &console,
                form.get("next"),
                Some(&format!("{}.", upper(&refused.message))),
            );
            Ok((refused.status, layout::bare("Sign in", &page)).into_response())
        }
        Err(error) => Err(error.into()),
    }
}

/// `GET /console/enter?code=…`. Only looking at a link must not use it up: previews and scanners look at links, too.
pub(crate) async fn enter(request: Request) -> Response {
    let query = Fields::parse(request.uri().query().unwrap_or_default().as_bytes());
    let page = html! {
        h1 { "Callboard" }
        p { "This link signs you in, once." }
        form.stack method="post" action="/console/enter" data-submit="" {
            input type="hidden" name="code" value=(query.get("code"));
            button.primary type="submit" autofocus { "Sign in" }
        }
    };
    layout::bare("Sign in", &page).into_response()
}

/// `POST /console/enter`
pub(crate) async fn use_code(
    State(console): State<Console>,
    request: Request,
) -> Result<Response, Trouble> {
    let (parts, body) = request.into_parts();
    check_origin(&parts.headers)?;
    let form = read_form(body, LONGEST_SIGN_IN).await?;
    let key = Secret::read(form.get("code"))
        .and_then(|code| console.inner.codes.take(&code, console.now()));
    match key {
        Some(key) => begin(&console, &parts.headers, key, "/").await,
        None => {
            let wrong = "This link was used already or is older than ten minutes. Sign in with a key, or ask for a new link with callboard console.";
            let page = sign_in_page(&console, "", Some(wrong));
            Ok((StatusCode::GONE, layout::bare("Sign in", &page)).into_response())
        }
    }
}

/// `POST /console/codes` with a key instead of a session: a link for whoever holds it. For `callboard console`.
pub(crate) async fn make_code(State(console): State<Console>, headers: HeaderMap) -> Response {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let key = bearer.and_then(|text| text.split_once(' ')).map(|(_, key)| key.trim());
    let refuse = |status: StatusCode, code: &str, message: &str| {
        (status, axum::Json(json!({ "error": code, "message": message }))).into_response()
    };
    let Some(key) = key else {
        return refuse(
            StatusCode::UNAUTHORIZED,
            "unauthenticated",
            "send one header: Authorization: Bearer <key>",
        );
    };
    match console.api().sign_in(key).await {
        Ok(who) => match console.link(who.key_id) {
            Some(path) => {
                (StatusCode::CREATED, axum::Json(json!({ "path": path }))).into_response()
            }
            None => refuse(
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal_error",
                "the system gives no random numbers",
            ),
        },
        Err(ApiError::Refused(refused)) => refuse(refused.status, &refused.code, &refused.message),
        Err(error) => refuse(StatusCode::BAD_GATEWAY, "internal_error", &error.to_string()),
    }
}

/// `POST /console/logout`, here or everywhere.
pub(crate) async fn sign_out(Act { visit, form }: Act) -> Result<Response, Trouble> {
    match form.get("everywhere") {
        "1" => visit.console.sessions().end_all_of(&visit.who.key_id).await?,
        _ => visit.console.sessions().end(&visit.session).await?,
    }
    let over = format!("{COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict");
    Ok(([(header::SET_COOKIE, over)], Redirect::to("/console/login")).into_response())
}

/// `POST /console/theme`: the next of automatic, light and dark.
pub(crate) async fn theme(Act { visit, form }: Act) -> Response {
    let cookie = visit.theme.next().cookie();
    ([(header::SET_COOKIE, cookie)], Redirect::to(local(form.get("next")))).into_response()
}

async fn begin(
    console: &Console,
    headers: &HeaderMap,
    key: KeyId,
    next: &str,
) -> Result<Response, Trouble> {
    let cookie = begin_session(console, headers, key).await?;
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to(local(next))).into_response())
}

/// The cookie of a new session.
pub(crate) async fn begin_session(
    console: &Console,
    headers: &HeaderMap,
    key: KeyId,
) -> Result<String, Trouble> {
    let secret = Secret::generate().ok_or(Trouble::Strange)?;
    let now = console.now();
    let session = Session { key, created: now, seen: now };
    console.sessions().begin(&secret.hash(), session).await?;
    let secure = if is_this_machine(headers) { "" } else { "; Secure" };
    Ok(format!(
        "{COOKIE}={}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict{secure}",
        secret.reveal(),
        console.lifetime().longest.as_secs()
    ))
}

/// Only on the way to this machine itself may the cookie go without TLS.
pub(crate) fn is_this_machine(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => name,
        _ => host,
    };
    let address = name.trim_matches(['[', ']']);
    name == "localhost"
        || name.ends_with(".localhost")
        || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A path of this host, or its front page.
pub(crate) fn local(next: &str) -> &str {
    let is_local =
        next.starts_with('/') && !next.starts_with("//") && !next.contains(['\\', '\r', '\n']);
    if is_local { next } else { "/" }
}

fn upper(text: &str) -> String {
    let mut signs = text.chars();
    signs.next().map_or_else(String::new, |first| first.to_uppercase().chain(signs).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signing_in_leads_nowhere_else() {
        assert_eq!(local("/console/runs?status=failed"), "/console/runs?status=failed");
        for next in
            ["", "//evil.example", "https://evil.example", "/\\evil.example", "/a\r\nX: 1", "x"]
        {
            assert_eq!(local(next), "/", "{next:?}");
        }
    }

    #[test]
    fn the_cookie_needs_tls_beyond_this_machine() {
        let from = |host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            is_this_machine(&headers)
        };
        assert!(
            from("127.0.0.1:8787")
                && from("localhost:8787")
                && from("[::1]:1")
                && from("x.localhost")
        );
        assert!(
            !from("board.example") && !from("10.0.0.7:8787") && !from("localhost.evil.example")
        );
    }
}
