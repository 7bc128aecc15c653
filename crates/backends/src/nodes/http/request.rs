//! What a fetch node asks for, read from its configuration and ports.

use std::time::Duration;

use reqwest::Url;
use serde_json::{Value, json};

use callboard_engine::{Call, CallFailure};
use callboard_protocol::Object;

use super::super::given::{choice, failed, invalid, whole};
use crate::egress::Method;

const LONGEST_URL: usize = 2_048;
/// As the published configuration allows.
const LONGEST_HEADER: usize = 8_192;
const MOST_HEADERS: usize = 64;
/// Headers that say who asks: another host does not get them.
const PERSONAL_HEADERS: [&str; 4] = ["authorization", "cookie", "proxy-authorization", "x-api-key"];

pub(super) struct Request {
    pub(super) method: Method,
    pub(super) url: String,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    pub(super) timeout: Duration,
    pub(super) most_attempts: u64,
    pub(super) first_delay: Duration,
    pub(super) longest_delay: Duration,
    /// Whether the far side is sent a key by which it knows a request that it had before.
    pub(super) sends_key: bool,
    /// The name of the secret that goes along.
    pub(super) credential: Option<String>,
    pub(super) is_graphql: bool,
}

impl Request {
    pub(super) fn read(call: &Call) -> Result<Self, CallFailure> {
        let (config, inputs) = match call.type_id.as_str() {
            "core.openwop.http.graphql-query" | "core.openwop.http.graphql-mutation" => {
                as_fetch(call)?
            }
            _ => (call.config.clone(), call.inputs.clone()),
        };
        let mut request = Self::of(&config, &inputs)?;
        request.is_graphql = call.type_id.as_str() != "core.openwop.http.fetch";
        // Asking changes nothing, so no key is needed to ask again.
        request.sends_key &= call.type_id.as_str() != "core.openwop.http.graphql-query";
        Ok(request)
    }

    /// The request that the configuration of `core.openwop.http.fetch` describes.
    pub(super) fn of(config: &Object, inputs: &Object) -> Result<Self, CallFailure> {
        let words = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
        let method = match choice(config, "method", words)? {
            "POST" => Method::Post,
            "PUT" => Method::Put,
            "PATCH" => Method::Patch,
            "DELETE" => Method::Delete,
            "HEAD" => Method::Head,
            "OPTIONS" => Method::Options,
            _ => Method::Get,
        };
        let empty = Object::new();
        let part = |key: &str| match config.get(key) {
            None => Ok(&empty),
            Some(value) => {
                value.as_object().ok_or_else(|| invalid(format!("config.{key} must be an object")))
            }
        };
        let retry = part("retry")?;
        let has_key = choice(part("idempotency")?, "mode", ["auto", "disabled"])? == "auto";
        let (body, is_json) = body(method, inputs.get("body"))?;
        let credential = config.get("credentialsRef").and_then(Value::as_str).map(str::to_owned);
        Ok(Self {
            method,
            url: url(config, inputs.get("variables"))?,
            headers: headers(part("headers")?, is_json)?,
            body,
            timeout: Duration::from_millis(whole(config, "timeoutMs", (100, 30_000, 120_000))?),
            most_attempts: whole(retry, "maxAttempts", (1, 3, 10))?,
            first_delay: Duration::from_millis(whole(retry, "initialDelayMs", (0, 500, 60_000))?),
            longest_delay: Duration::from_millis(whole(retry, "maxDelayMs", (0, 8_000, 60_000))?),
            sends_key: has_key && !matches!(method, Method::Get | Method::Head | Method::Options),
            credential,
            is_graphql: false,
        })
    }

    /// What the call is known by. Only a digest of it is kept.
    pub(super) fn shown(&self) -> Value {
        json!({
            "method": format!("{:?}", self.method),
            "url": self.url,
            "headers": self.headers,
            "body": String::from_utf8_lossy(&self.body),
            "credential": self.credential,
        })
    }

    /// Whether asking twice does no harm, or the far side can tell that it was asked before.
    pub(super) fn may_repeat(&self) -> bool {
        let changes = matches!(self.method, Method::Post | Method::Patch);
        self.sends_key || self.is_graphql || !changes
    }

    pub(super) fn headers_for(&self, is_elsewhere: bool) -> Vec<(String, String)> {
        let goes = |(name, _): &&(String, String)| {
            !(is_elsewhere && PERSONAL_HEADERS.contains(&name.as_str()))
        };
        self.headers.iter().filter(goes).cloned().collect()
    }
}

/// A GraphQL request as the fetch that carries it.
fn as_fetch(call: &Call) -> Result<(Object, Object), CallFailure> {
    let text = |value: Option<&Value>, place: &str| {
        let text = value.and_then(Value::as_str).filter(|text| !text.is_empty());
        text.map(Value::from).ok_or_else(|| invalid(format!("{place} must be a text")))
    };
    let endpoint = text(call.config.get("endpoint"), "config.endpoint")?;
    let mut asked = Object::new();
    asked.insert("query".to_owned(), text(call.inputs.get("query"), "the input query")?);
    if let Some(variables) = call.inputs.get("variables") {
        if !variables.is_object() {
            return Err(invalid("the input variables must be an object"));
        }
        asked.insert("variables".to_owned(), variables.clone());
    }
    if let Some(name) = call.inputs.get("operationName") {
        asked.insert("operationName".to_owned(), text(Some(name), "the input operationName")?);
    }
    let mut config = Object::new();
    config.insert("url".to_owned(), endpoint);
    config.insert("method".to_owned(), "POST".into());
    let headers = call.inputs.get("headers").map(|headers| ("headers", headers));
    let secret = call.config.get("credentialsRef").map(|secret| ("credentialsRef", secret));
    for (key, value) in headers.into_iter().chain(secret) {
        config.insert(key.to_owned(), value.clone());
    }
    Ok((config, Object::from_iter([("body".to_owned(), Value::Object(asked))])))
}

/// The address with its placeholders filled, each as one part of it: no value can lead to another host or path.
fn url(config: &Object, variables: Option<&Value>) -> Result<String, CallFailure> {
    let template = config.get("url").and_then(Value::as_str);
    let template = template.filter(|url| !url.is_empty() && url.len() <= LONGEST_URL);
    let template = template
        .ok_or_else(|| invalid(format!("config.url must be a text of 1 to {LONGEST_URL} bytes")))?;
    let wrong = |why: String| failed("INVALID_URL", why);
    let mut url = String::new();
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once("{{") {
        let (name, after) = behind
            .split_once("}}")
            .ok_or_else(|| wrong("config.url has a placeholder without its end".to_owned()))?;
        let name = name.trim();
        let value = match variables.and_then(|variables| variables.get(name)) {
            Some(Value::String(text)) => text.clone(),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => value.to_string(),
            _ => return Err(wrong(format!("the input variables has no {name} for config.url"))),
        };
        if value.len() > LONGEST_URL {
            return Err(wrong(format!("the variable {name} is too long for an address")));
        }
        url.push_str(before);
        url.push_str(&encoded(&value));
        rest = after;
    }
    url.push_str(rest);
    let parsed = Url::parse(&url).map_err(|_| wrong("config.url is no address".to_owned()))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(wrong("config.url must begin with https:// or http://".to_owned()));
    }
    Ok(url)
}

/// Everything but letters, digits and `-._~` as `%` and two digits.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.push_str(&callboard_protocol::hex([byte]).to_uppercase());
        }
    }
    encoded
}

fn headers(given: &Object, is_json: bool) -> Result<Vec<(String, String)>, CallFailure> {
    if given.len() > MOST_HEADERS {
        return Err(invalid(format!("config.headers has more than {MOST_HEADERS} headers")));
    }
    let mut headers = Vec::new();
    for (name, value) in given {
        let value = value.as_str().filter(|value| value.len() <= LONGEST_HEADER);
        let value = value.ok_or_else(|| {
            invalid(format!("the header {name} must be a text of at most {LONGEST_HEADER} bytes"))
        })?;
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let mut add = |name: &str, value: &str| {
        if !headers.iter().any(|(known, _)| known == name) {
            headers.push((name.to_owned(), value.to_owned()));
        }
    };
    add("user-agent", "callboard");
    if is_json {
        add("content-type", "application/json");
    }
    Ok(headers)
}

/// What is sent, and whether it was made JSON here.
fn body(method: Method, given: Option<&Value>) -> Result<(Vec<u8>, bool), CallFailure> {
    if !matches!(method, Method::Post | Method::Put | Method::Patch) {
        return Ok((Vec::new(), false));
    }
    match given {
        None | Some(Value::Null) => Ok((Vec::new(), false)),
        Some(Value::String(text)) => Ok((text.clone().into_bytes(), false)),
        Some(value @ (Value::Object(_) | Value::Array(_))) => {
            Ok((value.to_string().into_bytes(), true))
        }
        Some(_) => Err(invalid("the input body must be an object, a list, a text or null")),
    }
}
