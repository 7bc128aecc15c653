//! Which major a request speaks: its path says it, and a header may say it again.

use axum::extract::Request;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use callboard_protocol::{Dialect, PROTOCOL_VERSION, PROTOCOL_VERSIONS, SECOND_VERSION};

use crate::problem::{Code, Problem};
use crate::routes::resource::{METADATA, METADATA_OF_MCP};

pub(crate) const VERSION: HeaderName = HeaderName::from_static("openwop-version");
pub(crate) const WELL_KNOWN: &str = "/.well-known/openwop";
const FIRST: &str = "/v1";
/// Where this host's own programs find the first major, also when it has ended for everybody else.
const OWN: &str = "/host/callboard";
/// What is no part of the protocol has no version of it.
const BESIDE: [&str; 7] =
    ["/healthz", "/readyz", "/metrics", "/ok", "/health", METADATA, METADATA_OF_MCP];
pub(crate) const SEAMS: &str = "/conformance/seams/";

/// Which majors a host serves. There is no state between: while the first is served it is the preferred one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Majors {
    #[default]
    Both,
    /// The first has ended.
    Second,
}

impl Majors {
    pub(crate) fn versions(self) -> Vec<&'static str> {
        let first = PROTOCOL_VERSIONS.into_iter().filter(|_| self == Self::Both);
        first.chain([SECOND_VERSION]).collect()
    }

    pub(crate) fn preferred(self) -> &'static str {
        match self {
            Self::Both => PROTOCOL_VERSION,
            Self::Second => SECOND_VERSION,
        }
    }
}

/// The path of the first major that a request of this host's own programs means; none for every other request.
pub(crate) fn own(uri: &Uri) -> Option<Uri> {
    let path = uri.path_and_query()?.as_str().strip_prefix(OWN)?;
    let path = is_first(path).then(|| path.parse::<PathAndQuery>().ok())??;
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path);
    Uri::from_parts(parts).ok()
}

/// How a request is to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Not as the protocol.
    Beside,
    Spoken(Dialect),
}

impl Way {
    /// What the answer says of its contract.
    pub(crate) fn version(self) -> Option<HeaderValue> {
        match self {
            Self::Beside => None,
            Self::Spoken(Dialect::V1) => Some(HeaderValue::from_static(PROTOCOL_VERSION)),
            Self::Spoken(Dialect::V2) => Some(HeaderValue::from_static(SECOND_VERSION)),
        }
    }
}

/// What the version header asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Nothing,
    Major(u32),
    /// No version, or several.
    Unclear,
}

/// The way of a path, before its header is looked at: a refusal speaks the path's own major.
pub(crate) fn way_of(path: &str, majors: Majors) -> Way {
    if BESIDE.contains(&path) || path.starts_with(SEAMS) {
        Way::Beside
    } else if is_first(path) && majors == Majors::Both {
        Way::Spoken(Dialect::V1)
    } else {
        Way::Spoken(Dialect::V2)
    }
}

/// Judges the version, before anything else is looked at. `way` is that of the path.
pub(crate) fn judge(request: &Request, way: Way, majors: Majors) -> Result<Way, Problem> {
    let path = request.uri().path();
    let asked = asked(request.headers());
    match way {
        Way::Beside => Ok(way),
        Way::Spoken(Dialect::V1) => match asked {
            Asked::Nothing | Asked::Major(1) => Ok(way),
            Asked::Major(_) | Asked::Unclear => Err(Problem::new(
                Code::ProtocolVersionMismatch,
                "the path is of the protocol's first major, and OpenWOP-Version names another",
            )),
        },
        // The first has ended.
        Way::Spoken(Dialect::V2) if is_first(path) => Err(Problem::no_such("path")),
        Way::Spoken(Dialect::V2) => match asked {
            Asked::Nothing if path == WELL_KNOWN && majors == Majors::Both => {
                Ok(Way::Spoken(Dialect::V1))
            }
            Asked::Nothing | Asked::Major(2) => Ok(way),
            Asked::Major(1) if majors == Majors::Both && path == WELL_KNOWN => {
                Ok(Way::Spoken(Dialect::V1))
            }
            Asked::Major(1) if majors == Majors::Both => Err(Problem::no_such("path")),
            Asked::Major(_) | Asked::Unclear => Err(unsupported(majors)),
        },
    }
}

fn is_first(path: &str) -> bool {
    path.strip_prefix(FIRST).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn unsupported(majors: Majors) -> Problem {
    let message = "this host does not speak the version in OpenWOP-Version";
    Problem::new(Code::ProtocolVersionUnsupported, message)
        .with("protocolVersions", majors.versions())
}

fn asked(headers: &HeaderMap) -> Asked {
    let mut values = headers.get_all(VERSION).iter();
    let Some(value) = values.next() else { return Asked::Nothing };
    let alone = values.next().is_none();
    let text = value.to_str().ok().filter(|_| alone).unwrap_or_default().trim();
    let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
    let number = |text: &str| {
        let is_number = (1..=9).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        text.parse::<u32>().ok().filter(|_| is_number)
    };
    number(major).zip(number(minor)).map_or(Asked::Unclear, |(major, _)| Asked::Major(major))
}
