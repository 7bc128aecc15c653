//! The prompt library: read, written, previewed.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use callboard_agents::{Binding, Bindings, ComposeError, LibraryError, Trust, compose, told_of};
use callboard_engine::StoreError;
use callboard_protocol::{
    ContentTrust, Object, PromptKind, PromptOrigin, PromptRef, PromptTemplate, parse_value,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::app::Host;
use crate::conditional::{is_known, not_modified, tag_of, tagged};
use crate::extract::{Named, Sent, Shaped, parse};
use crate::keys::Caller;
use crate::page::PageSize;
use crate::problem::{Code, Problem};
use crate::query::Parameters;

/// How long a reader may go on with what it has: a version that is named never changes.
/// A template of one tenant is nothing for caches that others share.
const NEWEST: HeaderValue = HeaderValue::from_static("max-age=60");
const PINNED: HeaderValue = HeaderValue::from_static("private, max-age=31536000, immutable");

/// Refuses a workspace that is not the caller's own. Whose it is says the key alone.
fn admit(caller: &Caller, workspace: Option<&str>) -> Result<(), Problem> {
    let own = caller.scope.workspace.as_ref().map(|own| own.as_str());
    match workspace {
        Some(asked) if own != Some(asked) => Err(Problem::new(
            Code::WorkspaceMembershipRequired,
            "the key does not belong to this workspace",
        )),
        Some(_) | None => Ok(()),
    }
}

pub(super) async fn list(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    let query = Parameters::open(&uri)?;
    admit(&caller, query.get("workspaceId"))?;
    let kind = query.read("kind", "a kind of prompt", |text| {
        PromptKind::ALL.into_iter().find(|kind| kind.as_str() == text)
    })?;
    let source = query.read("source", "host, pack or user", |text| {
        serde_json::from_value::<PromptOrigin>(text.into()).ok()
    })?;
    let size = PageSize::read(&query)?;
    let (tag, class, after) = (query.get("tag"), query.get("modelClass"), query.get("cursor"));
    let templates = host.app.prompts.library.list(&caller.scope).await.map_err(problem)?;
    let mut items: Vec<PromptTemplate> = templates
        .into_iter()
        .filter(|it| after.is_none_or(|after| it.template_id.as_str() > after))
        .filter(|it| kind.is_none_or(|kind| it.kind == kind))
        .filter(|it| tag.is_none_or(|tag| it.tags.iter().any(|own| own == tag)))
        .filter(|it| source.is_none() || it.meta.as_ref().and_then(|meta| meta.source) == source)
        .filter(|it| {
            let hinted = it.model_hints.as_ref().and_then(|hints| hints.model_class.as_deref());
            class.is_none() || hinted == class
        })
        .take(size.and_one())
        .collect();
    let next_cursor = size.cut(&mut items).map(|last| last.template_id.to_string());
    let mut page = json!({ "items": items });
    if let Some(cursor) = next_cursor {
        page["nextCursor"] = cursor.into();
    }
    Answer::json(StatusCode::OK, &page)
}

pub(super) async fn read(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Problem> {
    let query = Parameters::open(&uri)?;
    admit(&caller, query.get("workspaceId"))?;
    let version = query.read("version", "a semantic version", |text| text.parse().ok())?;
    let library_id = query.get("libraryId").map(str::to_owned);
    let (template_id, overrides) = (id, Object::new());
    let reference = PromptRef { library_id, template_id, version: version.clone(), overrides };
    let template = host.app.prompts.library.find(&caller.scope, &reference).await;
    let template = template.map_err(problem)?;
    let answer = Answer::of(StatusCode::OK, &template);
    let tag = tag_of(answer.body.as_bytes());
    let mut response =
        if is_known(&headers, &tag) { not_modified(&tag) } else { tagged(answer, &tag) };
    let lifetime = if version.is_some() { PINNED } else { NEWEST };
    response.headers_mut().insert(header::CACHE_CONTROL, lifetime);
    Ok(response)
}

/// A template as it was sent: the workspace beside it, and what only the host may say left out.
fn sent(caller: &Caller, body: &[u8]) -> Result<PromptTemplate, Problem> {
    let mut fields: Object = parse(body)?;
    let workspace = fields.remove("workspaceId");
    admit(caller, workspace.as_ref().map(|it| it.as_str().unwrap_or_default()))?;
    let template: PromptTemplate = parse_value(fields.into())?;
    template.check()?;
    Ok(PromptTemplate { meta: None, ..template })
}

pub(super) async fn create(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Sent(body): Sent,
) -> Result<Response, Problem> {
    let template = sent(&caller, &body)?;
    let author = Some(caller.principal().to_string());
    let kept = host.app.prompts.library.create(&caller.scope, template, author, host.now());
    let kept = kept.await.map_err(problem)?;
    let mut response = Answer::of(StatusCode::CREATED, &kept).into_response();
    if let Ok(place) = HeaderValue::from_str(&format!("/v1/prompts/{}", kept.template_id)) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

pub(super) async fn update(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<String>,
    Sent(body): Sent,
) -> Result<Answer, Problem> {
    let template = sent(&caller, &body)?;
    if template.template_id != id {
        return Err(Problem::invalid_at("templateId", "is not the id in the path"));
    }
    let kept = host.app.prompts.library.update(&caller.scope, template, host.now()).await;
    Ok(Answer::of(StatusCode::OK, &kept.map_err(problem)?))
}

pub(super) async fn remove(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<String>,
    uri: Uri,
) -> Result<Answer, Problem> {
    admit(&caller, Parameters::open(&uri)?.get("workspaceId"))?;
    host.app.prompts.library.remove(&caller.scope, &id).await.map_err(problem)?;
    Ok(Answer { status: StatusCode::NO_CONTENT, body: String::new() })
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Render {
    #[serde(rename = "ref")]
    reference: Value,
    variables: Object,
    #[serde(default)]
    content_trust: ContentTrust,
    workspace_id: Option<String>,
}

/// What a call with these values would say, by the same function.
pub(super) async fn render(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<Render>,
) -> Result<Answer, Problem> {
    admit(&caller, body.workspace_id.as_deref())?;
    let reference = PromptRef::read(&body.reference)
        .ok_or_else(|| Problem::new(Code::PromptRefInvalid, "ref: names no prompt"))?;
    let prompts = &host.app.prompts;
    let template = prompts.library.find(&caller.scope, &reference).await.map_err(problem)?;
    let trust = match body.content_trust {
        ContentTrust::Trusted => Trust::Trusted,
        ContentTrust::Untrusted => Trust::Untrusted,
    };
    let given = body.variables.into_iter().map(|(name, value)| (name, Binding::new(value, trust)));
    let mut bindings: Bindings = given.collect();
    for (name, value) in reference.overrides {
        bindings.insert(name, Binding::new(value, Trust::Trusted));
    }
    let composed = compose(&template, &bindings)?;
    let told = told_of(&[&composed], &String::new().into(), prompts.observability);
    let shown = told.and_then(|told| told.composed);
    let mut rendered = json!({
        "hash": composed.hash(),
        "refs": [composed.reference],
        "variableHashes": composed.variable_hashes,
        "contentTrust": match composed.trust {
            Trust::Trusted => ContentTrust::Trusted,
            Trust::Untrusted => ContentTrust::Untrusted,
        },
    });
    if let Some(shown) = shown {
        rendered["composed"] = shown.into();
    }
    Ok(Answer::of(StatusCode::OK, &rendered))
}

impl From<ComposeError> for Problem {
    fn from(error: ComposeError) -> Self {
        match &error {
            ComposeError::Unresolved { variable, .. } => {
                Self::new(Code::PromptVariableUnresolved, error.to_string())
                    .with("variable", variable.as_str())
            }
            ComposeError::TooLong { .. } => Self::invalid(error.to_string()),
        }
    }
}

pub fn problem(error: LibraryError) -> Problem {
    match error {
        LibraryError::NotFound(_) => Problem::no_such("prompt"),
        LibraryError::Ambiguous(_) => Problem::new(Code::PromptRefAmbiguous, error.to_string()),
        LibraryError::Exists(_)
        | LibraryError::NotNewer { .. }
        | LibraryError::Store(StoreError::Moved { .. }) => {
            Problem::new(Code::PromptConflict, error.to_string())
        }
        LibraryError::ReadOnly(_) | LibraryError::OfTenant(_) => {
            Problem::new(Code::PromptReadOnly, error.to_string())
        }
        LibraryError::Store(error) => error.into(),
    }
}
