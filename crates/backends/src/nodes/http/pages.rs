//! `core.openwop.http.pagination-*`: page after page, each a recorded request of its own, so that a crash repeats at most
//! the last one.

use reqwest::Url;
use serde_json::{Value, json};

use callboard_engine::{Call, CallFailure, OnceError};
use callboard_protocol::Object;

use super::super::given::{failed, invalid, outcome, outputs, whole};
use super::Fetch;
use super::request::Request;
use crate::egress::authority;

const USUAL_PAGES: u64 = 10;
const MOST_PAGES: u64 = 100;
/// What all pages may weigh: half of what a node's outputs may.
const MOST_BYTES: usize = 8 << 20;
const USUAL_PAGE_SIZE: u64 = 100;

/// How the next page is found.
enum Style {
    Cursor { path: String },
    Link,
    Offset { size: u64, start: u64 },
}

impl From<CallFailure> for Stop {
    fn from(failure: CallFailure) -> Self {
        Self(OnceError::Ended(outcome(Err(failure))))
    }
}

impl From<OnceError> for Stop {
    fn from(error: OnceError) -> Self {
        Self(error)
    }
}

/// Why there are no pages.
pub(super) struct Stop(pub(super) OnceError);

pub(super) async fn fetch_pages(fetch: &Fetch, call: &Call) -> Result<Object, Stop> {
    let style = Style::of(call)?;
    let most = whole(&call.config, "maxPages", (1, USUAL_PAGES, MOST_PAGES))?;
    let url = call.inputs.get("url").and_then(Value::as_str).unwrap_or_default();
    let first = Url::parse(url).map_err(|_| invalid("the input url is no address"))?;
    let items_path = configured_text(call, "itemsPath")?;
    let mut next = Some(style.first(first, call)?);
    let (mut pages, mut weight) = (Vec::new(), 0_usize);
    for index in 0..most {
        let Some(url) = next.take() else { break };
        let request = request(call, &url)?;
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        let mut answer = fetch.ask(call, index, &request).await?;
        let body = page_of(&mut answer)?;
        weight += body.to_string().len();
        if weight > MOST_BYTES {
            let why = format!("the pages have more than {MOST_BYTES} bytes together");
            return Err(failed("response_too_large", why).into());
        }
        let items = items_path.as_deref().and_then(|path| find(&body, path));
        next = style.next(&url, &answer, &body, items)?.filter(|found| *found != url);
        pages.push(items.cloned().unwrap_or(body));
    }
    Ok(outputs([("pageCount", pages.len().into()), ("pages", pages.into())]))
}

fn request(call: &Call, url: &Url) -> Result<Request, CallFailure> {
    let mut config = Object::new();
    config.insert("url".to_owned(), url.as_str().into());
    let headers = call.inputs.get("headers").map(|headers| ("headers", headers));
    let secret = call.config.get("credentialsRef").map(|secret| ("credentialsRef", secret));
    for (key, value) in headers.into_iter().chain(secret) {
        config.insert(key.to_owned(), value.clone());
    }
    Request::of(&config, &Object::new())
}

/// What stands on a page that came.
fn page_of(answer: &mut Value) -> Result<Value, CallFailure> {
    if let Some(why) = answer.get("networkError").and_then(Value::as_str) {
        return Err(failed("no_answer", why));
    }
    let status = answer["status"].as_u64().unwrap_or_default();
    if !(200..300).contains(&status) {
        return Err(failed("page_refused", format!("the server answered a page with {status}")));
    }
    Ok(answer["body"].take())
}

impl Style {
    fn of(call: &Call) -> Result<Self, CallFailure> {
        Ok(match call.type_id.as_str() {
            "core.openwop.http.pagination-cursor" => {
                let path = configured_text(call, "cursorPath")?;
                Self::Cursor { path: path.unwrap_or_else(|| "nextCursor".to_owned()) }
            }
            "core.openwop.http.pagination-link-header" => Self::Link,
            _ => {
                let start = match call.inputs.get("startOffset") {
                    None => 0,
                    Some(said) => said
                        .as_u64()
                        .ok_or_else(|| invalid("the input startOffset must be a whole number"))?,
                };
                let size = whole(&call.config, "pageSize", (1, USUAL_PAGE_SIZE, 10_000))?;
                Self::Offset { size, start }
            }
        })
    }

    fn first(&self, url: Url, call: &Call) -> Result<Url, CallFailure> {
        Ok(match self {
            Self::Cursor { .. } => match call.inputs.get("startCursor") {
                None => url,
                Some(Value::String(cursor)) => with(&url, &[("cursor", cursor)]),
                Some(_) => return Err(invalid("the input startCursor must be a text")),
            },
            Self::Link => url,
            Self::Offset { size, start } => offset(&url, *start, *size),
        })
    }

    /// The address of the next page, if there is one.
    fn next(
        &self,
        url: &Url,
        answer: &Value,
        body: &Value,
        items: Option<&Value>,
    ) -> Result<Option<Url>, CallFailure> {
        match self {
            Self::Cursor { path } => Ok(match find(body, path) {
                Some(Value::String(cursor)) if !cursor.is_empty() => {
                    Some(with(url, &[("cursor", cursor)]))
                }
                Some(Value::Number(cursor)) => Some(with(url, &[("cursor", &cursor.to_string())])),
                _ => None,
            }),
            Self::Link => {
                let link = answer["headers"]["link"].as_str().and_then(next_link);
                let Some(found) = link.and_then(|link| url.join(link).ok()) else {
                    return Ok(None);
                };
                // What says who asks is for the first host alone.
                match authority(found.as_str()) == authority(url.as_str()) {
                    true => Ok(Some(found)),
                    false => Err(failed("egress_denied", "the next page is on another host")),
                }
            }
            Self::Offset { size, .. } => {
                let count = items.or(Some(body)).and_then(Value::as_array).map_or(0, Vec::len);
                let is_full = u64::try_from(count).unwrap_or(u64::MAX) >= *size;
                let so_far = url.query_pairs().find(|(name, _)| name == "offset");
                let so_far = so_far.and_then(|(_, at)| at.parse::<u64>().ok()).unwrap_or_default();
                Ok(is_full.then(|| offset(url, so_far.saturating_add(*size), *size)))
            }
        }
    }
}

fn offset(url: &Url, at: u64, size: u64) -> Url {
    with(url, &[("offset", &at.to_string()), ("limit", &size.to_string())])
}

/// The address with these parameters in place of others of their names.
fn with(url: &Url, parameters: &[(&str, &str)]) -> Url {
    let kept: Vec<(String, String)> = url
        .query_pairs()
        .filter(|(name, _)| !parameters.iter().any(|(other, _)| other == name))
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    let mut url = url.clone();
    url.query_pairs_mut().clear().extend_pairs(kept).extend_pairs(parameters);
    url
}

/// The address of `rel="next"` in a Link header (RFC 8288).
fn next_link(header: &str) -> Option<&str> {
    header.split(',').find_map(|link| {
        let (target, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
        let is_next = parameters.split(';').any(|parameter| {
            let (name, value) = parameter.split_once('=').unwrap_or_default();
            name.trim().eq_ignore_ascii_case("rel")
                && value
                    .trim()
                    .trim_matches('"')
                    .split(' ')
                    .any(|rel| rel.eq_ignore_ascii_case("next"))
        });
        is_next.then_some(target)
    })
}

fn configured_text(call: &Call, key: &str) -> Result<Option<String>, CallFailure> {
    match call.config.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(invalid(format!("config.{key} must be a text"))),
    }
}

/// The value to which a dotted path leads.
fn find<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, step| match value {
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        other => other.get(step),
    })
}

/// What a called operation came to, under its pack's schema.
pub(super) fn called(mut answer: Value, request: &Request) -> Result<Object, CallFailure> {
    if let Some(why) = answer.get("networkError").and_then(Value::as_str) {
        return Err(failed("no_answer", why));
    }
    let mut take = |key: &str| answer.get_mut(key).map(Value::take).unwrap_or_default();
    Ok(outputs([
        ("url", request.url.as_str().into()),
        ("method", json!(format!("{:?}", request.method).to_uppercase())),
        ("status", take("status")),
        ("headers", take("headers")),
        ("body", take("body")),
    ]))
}
