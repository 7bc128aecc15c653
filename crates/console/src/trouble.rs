//! What a page says when it cannot be shown or an act was not done.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;

use crate::api::ApiError;
use crate::layout;
use crate::session::SessionsError;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Trouble {
    #[error(transparent)]
    Api(ApiError),
    /// The key behind the session counts no more.
    #[error("you are signed out")]
    SignedOut,
    /// The cause is for the operator.
    #[error("the host cannot tell who is signed in at the moment: try again")]
    NoSessions,
    #[error("the host answered in a way that the console does not understand")]
    Strange,
    #[error(
        "this form does not come from this console, or you have signed in anew since: go back, reload the page, and try again"
    )]
    ForeignForm,
    #[error("this request comes from a page of another site")]
    ForeignOrigin,
    #[error("the form did not arrive whole, or it is too long")]
    UnreadForm,
    #[error("there is no such page")]
    NoSuchPage,
    /// Something in a form; the page that has it says where.
    #[error("{0}")]
    Wrong(String),
}

impl From<ApiError> for Trouble {
    fn from(error: ApiError) -> Self {
        match error {
            ApiError::Refused(refused) if refused.status == StatusCode::UNAUTHORIZED => {
                Self::SignedOut
            }
            error => Self::Api(error),
        }
    }
}

impl From<SessionsError> for Trouble {
    fn from(error: SessionsError) -> Self {
        tracing::error!(%error, "the console cannot read or write its sessions");
        Self::NoSessions
    }
}

impl Trouble {
    fn status(&self) -> StatusCode {
        match self {
            Self::Api(ApiError::Refused(refused)) => refused.status,
            Self::Api(ApiError::Unreachable(_)) | Self::Strange => StatusCode::BAD_GATEWAY,
            Self::SignedOut => StatusCode::UNAUTHORIZED,
            Self::NoSessions => StatusCode::SERVICE_UNAVAILABLE,
            Self::ForeignForm | Self::ForeignOrigin => StatusCode::FORBIDDEN,
            Self::UnreadForm | Self::Wrong(_) => StatusCode::BAD_REQUEST,
            Self::NoSuchPage => StatusCode::NOT_FOUND,
        }
    }
}

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        if self == Self::SignedOut {
            return Redirect::to("/console/login").into_response();
        }
        let status = self.status();
        let code = match &self {
            Self::Api(ApiError::Refused(refused)) => refused.code.as_str(),
            _ => "",
        };
        let heading = match status {
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::FORBIDDEN => "Not allowed",
            StatusCode::CONFLICT | StatusCode::GONE => "Too late",
            status if status.is_server_error() => "The host is in trouble",
            _ => "That did not work",
        };
        let body = html! {
            h1 { (heading) }
            p { (self) }
            @if !code.is_empty() { p.muted { "The host's code for this is " code { (code) } "." } }
            p { a href="/" { "Overview" } " · " a href="/console/runs" { "Runs" } }
        };
        (status, layout::bare(heading, &body)).into_response()
    }
}
