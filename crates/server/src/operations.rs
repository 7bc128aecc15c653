//! What a row of the table of operations says. Routes, scopes, idempotency, metrics and OpenAPI read from it.
//!
//! A row holds its handler and the names of its schemas, so a new operation is one row in `routes/table` and one handler.

use std::sync::{Arc, LazyLock};

use axum::handler::Handler;
use axum::http::StatusCode;
use axum::routing::{MethodFilter, MethodRouter, on};

use crate::app::Host;
use crate::v2::answer::Gives as GivesSecond;
use crate::v2::body::Takes as TakesSecond;
use crate::v2::version::SEAMS;

/// Where this host's own operations are. They are the same in both majors.
const VENDOR: &str = "/v1/host/callboard/";

/// Rows of one kind, made once.
pub type Family = LazyLock<Vec<Operation>>;

/// One row of the table.
#[derive(Debug)]
pub struct Operation {
    /// Its name in the OpenAPI document.
    pub id: &'static str,
    pub(crate) handler: MethodRouter<Arc<Host>>,
    pub method: Method,
    /// As clients write it, verbs with their colon.
    pub path: &'static str,
    /// Method and path: the operation's name in idempotency records, metrics and logs.
    pub name: &'static str,
    pub summary: &'static str,
    pub access: Access,
    pub(crate) door: Door,
    pub success: StatusCode,
    /// The schema of the body that it takes.
    pub(crate) takes: Option<&'static str>,
    pub(crate) media: Media,
    pub(crate) repetition: Repetition,
    /// Whether that body may be left out.
    pub(crate) body: Need,
    /// The schema of the body that it gives.
    pub(crate) gives: Gives,
    pub(crate) query: &'static [Parameter],
    pub(crate) spoken: Spoken,
}

/// In which majors of the protocol an operation exists.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Spoken {
    /// It is about this process, not about the protocol.
    Neither,
    First,
    Both(Second),
    /// Under a path without a version alone.
    Second(Second),
}

/// What differs in the second major; none is as in the first.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Second {
    pub(crate) takes: Option<TakesSecond>,
    pub(crate) gives: Option<GivesSecond>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

/// Who may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Needs no key and is answered by a full host too.
    Public,
    /// Needs a signed link, which stands in the path.
    Link,
    /// Answers those who show no key, too. A key needs this scope.
    Anyone(&'static str),
    /// Needs a key with this scope.
    Scope(&'static str),
    /// Needs a key with one of these scopes; which one depends on the body.
    OneOf(&'static [&'static str]),
}

/// Whose place a request without a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    /// One that all strangers share.
    Anybody,
    /// The interrupt's that the link in the path is for.
    Interrupt,
    /// The trigger subscription's that stands in the path.
    Subscription,
}

/// What a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Media {
    Json,
    /// A gzipped archive, as it is.
    Archive,
    /// A workflow as people write it: JSON or YAML.
    Definition,
}

/// What an idempotency key makes of the same request twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repetition {
    /// The second gets what the first came to.
    Remembered,
    /// It does no harm, and nothing may be kept of the body, not even a digest.
    Harmless,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    Required,
    Optional,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gives {
    Nothing,
    Json(&'static str),
    Text,
    /// Server-sent events, or the named schema for those who accept JSON only.
    Events(&'static str),
}

/// A query parameter; `schema` is JSON text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) schema: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) need: Need,
}

impl Method {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// Whether it changes something.
    pub(crate) fn is_mutating(self) -> bool {
        self != Self::Get
    }

    pub(crate) fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Put => MethodFilter::PUT,
            Self::Patch => MethodFilter::PATCH,
            Self::Delete => MethodFilter::DELETE,
        }
    }
}

impl Operation {
    /// The scope that a key must have, if it is always the same.
    pub fn scope(&self) -> Option<&'static str> {
        match self.access {
            Access::Public | Access::Link | Access::Anyone(_) => None,
            Access::Scope(scope) => Some(scope),
            Access::OneOf(_) => None,
        }
    }

    /// Whether an idempotency key means anything to it.
    pub(crate) fn is_remembered(&self) -> bool {
        self.method.is_mutating() && self.repetition == Repetition::Remembered
    }

    /// Whether its body must be what its schema says.
    pub fn takes_a_body(&self) -> bool {
        self.takes.is_some()
    }

    fn new(
        id: &'static str,
        method: Method,
        handler: MethodRouter<Arc<Host>>,
        name: &'static str,
        summary: &'static str,
    ) -> Self {
        let path = name.split_once(' ').map_or("", |(_, path)| path);
        Self {
            id,
            handler,
            method,
            path,
            name,
            summary,
            access: Access::Public,
            door: Door::Anybody,
            success: StatusCode::OK,
            takes: None,
            media: Media::Json,
            repetition: Repetition::Remembered,
            body: Need::Required,
            gives: Gives::Nothing,
            query: &[],
            spoken: match () {
                () if path.starts_with(VENDOR) => Spoken::Both(Second::default()),
                () if path.starts_with("/v1/") => Spoken::First,
                () => Spoken::Neither,
            },
        }
    }

    /// The path of the operation in the second major, if it is part of it.
    pub fn second_path(&self) -> Option<String> {
        match self.spoken {
            Spoken::Neither | Spoken::First => None,
            Spoken::Both(_) => Some(self.path.replacen("/v1", "", 1)),
            Spoken::Second(_) => Some(self.path.to_owned()),
        }
    }

    /// Where the second major's test suite looks for what only a test suite needs.
    pub(crate) fn seam_path(&self) -> Option<String> {
        let of_host = self.path.strip_prefix("/v1/host/")?;
        let is_seam = of_host.starts_with("sample/") || of_host.starts_with("workspace/");
        is_seam.then(|| format!("{SEAMS}{of_host}"))
    }

    /// Whether the first major has it, or both leave it alone.
    pub fn is_in_first(&self) -> bool {
        !matches!(self.spoken, Spoken::Second(_))
    }

    pub(crate) fn second(&self) -> Second {
        match self.spoken {
            Spoken::Neither | Spoken::First => Second::default(),
            Spoken::Both(second) | Spoken::Second(second) => second,
        }
    }

    /// Part of both majors, with the same bodies.
    pub(crate) fn in_both(mut self) -> Self {
        self.spoken = Spoken::Both(Second::default());
        self
    }

    pub(crate) fn only_in_second(mut self) -> Self {
        self.spoken = Spoken::Second(Second::default());
        self
    }

    /// Part of both majors; the second's body becomes the first's before the handler sees it.
    pub(crate) fn second_takes(mut self, takes: TakesSecond) -> Self {
        self.spoken = Spoken::Both(Second { takes: Some(takes), ..self.second() });
        self
    }

    /// Part of both majors; what the handler gives becomes the second's.
    pub(crate) fn second_gives(mut self, gives: GivesSecond) -> Self {
        self.spoken = Spoken::Both(Second { gives: Some(gives), ..self.second() });
        self
    }

    pub(crate) fn by_link(mut self, door: Door) -> Self {
        self.access = Access::Link;
        self.door = door;
        self
    }

    pub(crate) fn open_to_all(mut self, scope: &'static str) -> Self {
        self.access = Access::Anyone(scope);
        self
    }

    pub fn needs(mut self, scope: &'static str) -> Self {
        self.access = Access::Scope(scope);
        self
    }

    pub(crate) fn needs_one_of(mut self, scopes: &'static [&'static str]) -> Self {
        self.access = Access::OneOf(scopes);
        self
    }

    pub fn takes(mut self, schema: &'static str) -> Self {
        self.takes = Some(schema);
        self
    }

    pub(crate) fn takes_definition(mut self) -> Self {
        self.media = Media::Definition;
        self.takes("WorkflowDefinition")
    }

    pub(crate) fn takes_archive(mut self) -> Self {
        self.media = Media::Archive;
        self.takes("Archive")
    }

    pub(crate) fn takes_secret(mut self, schema: &'static str) -> Self {
        self.repetition = Repetition::Harmless;
        self.takes(schema)
    }

    pub fn may_take(mut self, schema: &'static str) -> Self {
        self.body = Need::Optional;
        self.takes(schema)
    }

    pub fn gives(mut self, success: StatusCode, gives: Gives) -> Self {
        self.success = success;
        self.gives = gives;
        self
    }

    pub(crate) fn query(mut self, query: &'static [Parameter]) -> Self {
        self.query = query;
        self
    }
}

/// A row for each method. Its name begins with the method, its handler takes what axum's handlers take.
macro_rules! rows {
    ($($function:ident $method:ident),+) => {$(
        pub fn $function<T: 'static>(
            id: &'static str,
            handler: impl Handler<T, Arc<Host>>,
            name: &'static str,
            summary: &'static str,
        ) -> Operation {
            let handler = on(Method::$method.filter(), handler);
            Operation::new(id, Method::$method, handler, name, summary)
        }
    )+};
}

rows!(get Get, post Post, put Put, patch Patch, delete Delete);

pub(crate) const fn parameter(
    name: &'static str,
    schema: &'static str,
    summary: &'static str,
) -> Parameter {
    Parameter { name, schema, summary, need: Need::Optional }
}

impl Parameter {
    pub(crate) const fn required(mut self) -> Self {
        self.need = Need::Required;
        self
    }
}
