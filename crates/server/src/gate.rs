//! What stands before every operation, in this order: key, rate, room, scope, body, idempotency. Where no key is asked
//! for, whose door it is comes first.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use callboard_engine::{Actor, AuditFact, Scope};
use callboard_protocol::{Dialect, KeyId, Principal, Tenant};
use serde_json::Value;

use crate::app::Host;
use crate::body::{self, Measure, Pace};
use crate::connections::Connection;
use crate::doors;
use crate::extract::parse;
use crate::idempotency;
use crate::in_process::ActingKey;
use crate::keys::Caller;
use crate::metrics::Answers;
use crate::observe::Seen;
use crate::oidc::looks_like_token;
use crate::operations::{Access, Media, Operation};
use crate::problem::{Code, Problem};
use crate::share::Holder;
use crate::v2::edge::{ClaimedTenant, Speaks};

/// The gate of one operation.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    pub(crate) host: Arc<Host>,
    pub(crate) operation: &'static Operation,
    pub(crate) answers: Arc<Answers>,
}

/// What is known of a request so far.
#[derive(Debug, Default)]
struct Known {
    key_id: Option<KeyId>,
    /// Whose things it is about.
    tenant: Option<Tenant>,
}

pub(crate) async fn admit(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let mut known = Known::default();
    let answered = gate.pass(request, next, &mut known).await;
    let mut response = answered.unwrap_or_else(IntoResponse::into_response);
    let Gate { operation, answers, .. } = gate;
    let Known { key_id, tenant } = known;
    response.extensions_mut().insert(Seen { operation, answers, key_id, tenant });
    response
}

impl Gate {
    async fn pass(
        &self,
        mut request: Request,
        next: Next,
        known: &mut Known,
    ) -> Result<Response, Problem> {
        let scopes: &[&str] = match &self.operation.access {
            Access::Public => return Ok(next.run(request).await),
            Access::Link => return self.pass_unkeyed(request, next, known).await,
            Access::Anyone(_) if !shows_key(&request) => {
                return self.pass_unkeyed(request, next, known).await;
            }
            Access::Scope(scope) | Access::Anyone(scope) => std::slice::from_ref(scope),
            Access::OneOf(scopes) => scopes,
        };
        let acting = request.extensions().get::<ActingKey>();
        let caller = self.authenticate(request.headers(), acting, &mut known.key_id).await?;
        known.tenant = Some(caller.scope.tenant.clone());
        check_claim(&request, &caller.scope.tenant)?;
        let load = &self.host.load;
        let place = load.keyed.enter(Holder::key(&caller))?;
        let busy = request.extensions().get::<Connection>().map(Connection::work);
        if !scopes.iter().any(|scope| caller.may(scope)) {
            self.tell_refusal(&caller.scope, &caller.key_id, &caller.principal(), scopes).await;
            return Err(match scopes {
                [scope] => missing_scope(scope),
                _ => Problem::new(Code::Forbidden, "this key has none of the scopes for this")
                    .with("scopesAccepted", scopes),
            });
        }
        let actor = Actor { principal: caller.principal(), operation: self.operation.name };
        let response = if self.operation.method.is_mutating() {
            request.extensions_mut().insert(caller.clone());
            let (limit, room) = (self.most_bytes(), load.keyed.body(Holder::key(&caller)));
            let measure = Measure { limit, pace: Pace::KEYED, room };
            let (request, _room) = body::read(request, self.operation, measure).await?;
            let (speaks, request) = self.take(request).await?;
            let tenant = caller.scope.tenant.clone();
            let performed =
                idempotency::perform(&self.host, self.operation, (&caller, speaks), request, next);
            self.give(speaks, &tenant, actor.does(performed).await?).await?
        } else {
            let (speaks, tenant) = (Speaks::of(&request), caller.scope.tenant.clone());
            request.extensions_mut().insert(caller);
            self.give(speaks, &tenant, actor.does(next.run(request)).await).await?
        };
        place.hold(load, busy, response)
    }

    /// What the operator sets is for JSON; how large a pack may be is the protocol's to say.
    fn most_bytes(&self) -> usize {
        let app = &self.host.app;
        match self.operation.media {
            Media::Json | Media::Definition => app.config.max_body_bytes,
            Media::Archive => app.agents.policy().limits.archive,
        }
    }

    /// A link in the path is all the credential there is, or none is needed.
    async fn pass_unkeyed(
        &self,
        request: Request,
        next: Next,
        known: &mut Known,
    ) -> Result<Response, Problem> {
        let entered = doors::enter(&self.host, self.operation, request).await?;
        let doors::Entered { place, holder, tenant, request } = entered;
        known.tenant = tenant.clone();
        if let Some(tenant) = &tenant {
            check_claim(&request, tenant)?;
        }
        let load = &self.host.load;
        let speaks = Speaks::of(&request);
        let response = if self.operation.method.is_mutating() {
            let (limit, room) = (self.most_bytes(), load.unkeyed.body(holder));
            let measure = Measure { limit, pace: Pace::UNKEYED, room };
            let (request, _room) = body::read(request, self.operation, measure).await?;
            let (_, request) = self.take(request).await?;
            next.run(request).await
        } else {
            next.run(request).await
        };
        let response = match &tenant {
            Some(tenant) => self.give(speaks, tenant, response).await?,
            None => response,
        };
        place.hold(load, None, response)
    }

    /// Makes a body of the second major one that the handler takes.
    async fn take(&self, request: Request) -> Result<(Speaks, Request), Problem> {
        let speaks = Speaks::of(&request);
        let takes = self.operation.second().takes.filter(|_| speaks.0 == Dialect::V2);
        let Some(takes) = takes else { return Ok((speaks, request)) };
        let (parts, body) = request.into_parts();
        // It is in memory already.
        let bytes = to_bytes(body, usize::MAX).await;
        let bytes = bytes.map_err(|_| Problem::invalid("the body cannot be read"))?;
        let body = Value::Object(takes(parse(&bytes)?)?);
        Ok((speaks, Request::from_parts(parts, Body::from(body.to_string()))))
    }

    /// Puts what the handler gave into the words of the second major.
    async fn give(
        &self,
        speaks: Speaks,
        tenant: &Tenant,
        response: Response,
    ) -> Result<Response, Problem> {
        let gives = self.operation.second().gives.filter(|_| speaks.0 == Dialect::V2);
        let Some(gives) = gives.filter(|_| response.status().is_success()) else {
            return Ok(response);
        };
        let (mut parts, body) = response.into_parts();
        parts.headers.remove(header::CONTENT_LENGTH);
        let bytes = to_bytes(body, usize::MAX).await.map_err(|error| Problem::internal(&error))?;
        let mut answer: Value =
            serde_json::from_slice(&bytes).map_err(|error| Problem::internal(&error))?;
        match &mut answer {
            Value::Object(fields) => gives(fields, tenant.as_str()),
            Value::Array(items) => {
                let items = items.iter_mut().filter_map(Value::as_object_mut);
                items.for_each(|fields| gives(fields, tenant.as_str()));
            }
            _ => {}
        }
        Ok(Response::from_parts(parts, Body::from(answer.to_string())))
    }

    /// The rate counts for every key that is known, also one that no longer opens anything. A text that is
    /// no key at all has no bucket: a bucket for each guess would be memory that strangers control.
    async fn authenticate(
        &self,
        headers: &HeaderMap,
        acting: Option<&ActingKey>,
        key_id: &mut Option<KeyId>,
    ) -> Result<Caller, Problem> {
        let unknown = || Problem::new(Code::Unauthenticated, "this host does not know the key");
        let keys = &self.host.app.keys;
        let shown = acting.is_none().then(|| bearer(headers)).transpose()?;
        self.host.app.catch_up().await?;
        let known = match (acting, shown) {
            (Some(ActingKey(id)), _) => keys.by_id(id),
            (None, shown) => shown.and_then(|text| keys.look_up(text)),
        };
        let Some(known) = known else {
            let token = shown.filter(|text| looks_like_token(text));
            let token = token.filter(|_| !self.host.app.issuers.is_empty()).ok_or_else(unknown)?;
            return self.authenticate_token(token, key_id).await;
        };
        *key_id = Some(known.key.id.clone());
        self.host.rate.check(&known.key.id)?;
        let admitted = keys.admit(&known, self.host.now());
        if admitted.is_err() {
            let place = keys.scope_of(&known.key);
            self.tell_refusal(&place, &known.key.id, &known.principal(), &[]).await;
        } else {
            known.is_used(self.host.now());
        }
        admitted
    }

    /// Whom an issuer vouches for. Only a token that it has signed has a bucket.
    async fn authenticate_token(
        &self,
        token: &str,
        key_id: &mut Option<KeyId>,
    ) -> Result<Caller, Problem> {
        let app = &self.host.app;
        let who = app.issuers.check(token).await.inspect_err(|refused| {
            let operation = self.operation.name;
            tracing::warn!(target: "audit", operation, why = %refused.message, "token refused");
        })?;
        *key_id = Some(who.id.clone());
        self.host.rate.check(&who.id)?;
        app.keys.vouched(&who, self.host.now()).await
    }

    /// Tells that a key was refused what it lacks a scope for, or anything at all. The refusal stands, told or not.
    async fn tell_refusal(&self, place: &Scope, key: &KeyId, by: &Principal, scopes: &[&str]) {
        let operation = self.operation.name;
        tracing::warn!(target: "audit", operation, %key, ?scopes, "request refused");
        if self.host.refusals.check(key).is_err() {
            return;
        }
        let fact = AuditFact::new(place.clone(), "request.refused", operation);
        let fact = fact.by(by).with("scopesAccepted", scopes);
        if let Err(error) = self.host.app.audit.note(fact).await {
            tracing::error!(%error, "a refusal is missing from the audit log");
        }
    }
}

/// Whoever writes another tenant into an id learns nothing of what is there.
fn check_claim(request: &Request, tenant: &Tenant) -> Result<(), Problem> {
    let claimed = request.extensions().get::<ClaimedTenant>();
    claimed.map_or(Ok(()), |claimed| claimed.check(tenant.as_str()))
}

fn shows_key(request: &Request) -> bool {
    request.headers().contains_key(header::AUTHORIZATION)
        || request.extensions().get::<ActingKey>().is_some()
}

fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    let malformed =
        || Problem::new(Code::Unauthenticated, "send one header: Authorization: Bearer <key>");
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().filter(|_| values.next().is_none()).ok_or_else(malformed)?;
    let (scheme, key) =
        value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(malformed)?;
    let key = key.trim();
    if !scheme.eq_ignore_ascii_case("bearer") || key.is_empty() {
        return Err(malformed());
    }
    Ok(key)
}

/// The answer to a caller whose key lacks the scope.
pub(crate) fn missing_scope(scope: &str) -> Problem {
    Problem::new(Code::Forbidden, format!("this key lacks the scope {scope}"))
        .with("scopeRequired", scope)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::operations;

    /// No body is read for a public operation, so nothing would bound it.
    #[test]
    fn what_anybody_may_call_takes_no_body() {
        for operation in operations() {
            let is_bounded = operation.access != Access::Public || !operation.method.is_mutating();
            assert!(is_bounded, "{}", operation.name);
        }
    }
}
