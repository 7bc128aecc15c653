//! The library's errors as ours. Theirs contain bodies and prompts, so they are inspected and never formatted.

use std::time::Duration;

use genai::Error;
use reqwest::header::HeaderMap;
use serde_json::Value;

use callboard_agents::{Fault, ModelError, Phase, ProviderReason};

/// The longest wait that a header can cause.
const LONGEST_WAIT: Duration = Duration::from_hours(24);

/// A call that failed before or while it was made.
pub(super) fn explain(provider: &str, error: &Error) -> ModelError {
    let fault = match error {
        Error::HttpError { status, headers, body, .. } => {
            return ModelError::of_status(provider, status.as_u16(), retry_after(headers))
                .because(ProviderReason::of_body(body));
        }
        Error::WebStream { error, .. } => {
            if let Some(inner) = error.downcast_ref::<Error>() {
                return explain(provider, inner);
            }
            error.downcast_ref::<reqwest::Error>().map_or(Fault::Broken, transport)
        }
        Error::WebModelCall { webc_error: genai::webc::Error::Reqwest(error), .. }
        | Error::WebAdapterCall { webc_error: genai::webc::Error::Reqwest(error), .. } => {
            transport(error)
        }
        Error::ChatResponse { body, .. } => {
            return said(provider, body).because(ProviderReason::of_value(body));
        }
        Error::StreamParse { .. } | Error::JsonValueExt(_) | Error::SerdeJson(_) => {
            Fault::Malformed
        }
        // Everything else is about the request, and will be so again.
        _ => Fault::Rejected,
    };
    ModelError::new(provider, fault)
}

/// A failure in the middle of a stream, with the code that its last frame gave.
pub(super) fn in_stream(provider: &str, error: &Error, code: Option<&str>) -> ModelError {
    match code {
        Some(code) => ModelError::new(provider, meant(code)),
        None => explain(provider, error),
    }
}

pub(super) fn transport(error: &reqwest::Error) -> Fault {
    match () {
        () if error.is_connect() => Fault::Unreachable,
        () if error.is_timeout() => Fault::TimedOut(Phase::FirstByte),
        () if error.is_builder() => Fault::Rejected,
        () => Fault::Broken,
    }
}

/// What a provider says instead of an answer, by its own words for kinds of errors.
fn said(provider: &str, body: &Value) -> ModelError {
    let inner = body.get("error").unwrap_or(body);
    if let Some(status) = inner["code"].as_u64().and_then(|code| u16::try_from(code).ok()) {
        return ModelError::of_status(provider, status, None);
    }
    let words = ["type", "code", "status"].iter().filter_map(|name| inner[*name].as_str());
    let fault = words.map(meant).find(|fault| *fault != Fault::Trouble).unwrap_or(Fault::Trouble);
    ModelError::new(provider, fault)
}

fn meant(word: &str) -> Fault {
    match word.to_ascii_lowercase().as_str() {
        "rate_limit_error" | "rate_limit_exceeded" | "resource_exhausted" => Fault::Limited,
        "authentication_error"
        | "permission_error"
        | "invalid_api_key"
        | "unauthenticated"
        | "permission_denied" => Fault::Forbidden,
        "not_found_error" | "model_not_found" | "not_found" => Fault::NotFound,
        "invalid_request_error"
        | "request_too_large"
        | "invalid_argument"
        | "invalid_prompt"
        | "failed_precondition"
        | "context_length_exceeded"
        | "billing_error"
        | "insufficient_quota" => Fault::Rejected,
        _ => Fault::Trouble,
    }
}

/// How long to wait: in milliseconds, in seconds, or until a date that is measured against the answer's own.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let number = |name: &str| {
        text(name)
            .and_then(|text| text.parse::<f64>().ok())
            .filter(|it| it.is_finite() && *it >= 0.0)
    };
    let seconds = number("retry-after-ms").map(|it| it / 1000.0).or_else(|| number("retry-after"));
    let seconds = seconds.or_else(|| {
        let date =
            |name| jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text(name)?).ok();
        let wait = date("retry-after")?.as_second() - date("date")?.as_second();
        Some(wait.max(0) as f64)
    })?;
    Some(Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT))
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;

    fn wait(headers: &[(&'static str, &'static str)]) -> Option<Duration> {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        retry_after(&headers.collect())
    }

    #[test]
    fn a_wait_is_read_in_every_form() {
        assert_eq!(wait(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
        assert_eq!(wait(&[("retry-after", "1.5")]), Some(Duration::from_millis(1500)));
        let both = [("retry-after", "7"), ("retry-after-ms", "250")];
        assert_eq!(wait(&both), Some(Duration::from_millis(250)));
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let dated = [("date", date), ("retry-after", "Sun, 06 Nov 1994 08:50:37 GMT")];
        assert_eq!(wait(&dated), Some(Duration::from_mins(1)));
        assert_eq!(wait(&[("retry-after", "1e300")]), Some(LONGEST_WAIT));
        for nothing in ["", "soon", "-3", "NaN"] {
            assert_eq!(wait(&[("retry-after", nothing)]), None, "{nothing}");
        }
    }

    #[test]
    fn a_provider_is_taken_at_its_word() {
        for (body, fault) in [
            (json!({ "type": "error", "error": { "type": "overloaded_error" } }), Fault::Trouble),
            (json!({ "error": { "type": "invalid_request_error" } }), Fault::Rejected),
            (json!({ "type": "server_error", "code": "rate_limit_exceeded" }), Fault::Limited),
            (json!({ "error": { "code": 503, "status": "UNAVAILABLE" } }), Fault::Trouble),
            (json!({ "error": { "code": 400, "status": "INVALID_ARGUMENT" } }), Fault::Rejected),
            (json!("?"), Fault::Trouble),
        ] {
            assert_eq!(said("p", &body).fault, fault, "{body}");
        }
    }
}
