//! Errors in the shape that OpenAI's clients read.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::api::ApiError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    status: StatusCode,
    kind: &'static str,
    code: String,
    message: String,
    param: Option<String>,
}

impl Problem {
    pub(super) fn invalid(param: Option<&str>, message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            kind: "invalid_request_error",
            code: "invalid_request".to_owned(),
            message: message.into(),
            param: param.map(str::to_owned),
        }
    }

    /// The same words for a model that another tenant has and for one that never was.
    pub(super) fn no_model() -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            code: "model_not_found".to_owned(),
            ..Self::invalid(Some("model"), "no member and no agent has this id")
        }
    }

    pub(super) fn no_response() -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            code: "response_not_found".to_owned(),
            ..Self::invalid(None, "no response has this id")
        }
    }

    pub(super) fn too_large() -> Self {
        Self {
            status: StatusCode::PAYLOAD_TOO_LARGE,
            ..Self::invalid(None, "the body broke off or has more than 4 MiB")
        }
    }

    pub(super) fn busy() -> Self {
        Self {
            status: StatusCode::TOO_MANY_REQUESTS,
            kind: "rate_limit_error",
            code: "rate_limit_exceeded".to_owned(),
            ..Self::invalid(None, "too many answers are being waited for; try again soon")
        }
    }

    /// A run that came to no answer. Clients would repeat what fails on the server's side, and get the same again.
    pub(super) fn failed(code: &str, message: String) -> Self {
        Self {
            status: StatusCode::UNPROCESSABLE_ENTITY,
            kind: "run_error",
            code: code.to_owned(),
            ..Self::invalid(None, message)
        }
    }

    pub(super) fn body(&self) -> Value {
        json!({ "error": {
            "message": self.message, "type": self.kind, "param": self.param, "code": self.code,
        } })
    }
}

impl From<ApiError> for Problem {
    fn from(error: ApiError) -> Self {
        let status = error.status();
        let (kind, code) = match status.as_u16() {
            401 => ("authentication_error", "invalid_api_key"),
            403 => ("permission_error", error.code()),
            429 => ("rate_limit_error", "rate_limit_exceeded"),
            400..500 => ("invalid_request_error", error.code()),
            _ => ("server_error", error.code()),
        };
        Self { status, kind, code: code.to_owned(), message: error.to_string(), param: None }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, axum::Json(self.body())).into_response()
    }
}
