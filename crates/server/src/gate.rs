//! What stands before every operation, in this order: key, rate, room, scope, body, idempotency. Where no key is asked
//! for, whose door it is comes first.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use callboard_protocol::KeyId;

use crate::app::Host;
use crate::body::{self, Measure, Pace};
use crate::connections::Connection;
use crate::doors;
use crate::idempotency;
use crate::in_process::ActingKey;
use crate::keys::Caller;
use crate::metrics::Answers;
use crate::observe::Seen;
use crate::operations::{Access, Media, Operation};
use crate::problem::{Code, Problem};
use crate::share::Holder;

/// The gate of one operation.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    pub(crate) host: Arc<Host>,
    pub(crate) operation: &'static Operation,
    pub(crate) answers: Arc<Answers>,
}

pub(crate) async fn admit(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let mut key_id = None;
    let answered = gate.pass(request, next, &mut key_id).await;
    let mut response = answered.unwrap_or_else(IntoResponse::into_response);
    let Gate { operation, answers, .. } = gate;
    response.extensions_mut().insert(Seen { operation, answers, key_id });
    response
}

impl Gate {
    async fn pass(
        &self,
        mut request: Request,
        next: Next,
        key_id: &mut Option<KeyId>,
    ) -> Result<Response, Problem> {
        let scopes: &[&str] = match &self.operation.access {
            Access::Public => return Ok(next.run(request).await),
            Access::Link => return self.pass_unkeyed(request, next).await,
            Access::Anyone(_) if !shows_key(&request) => {
                return self.pass_unkeyed(request, next).await;
            }
            Access::Scope(scope) | Access::Anyone(scope) => std::slice::from_ref(scope),
            Access::OneOf(scopes) => scopes,
        };
        let acting = request.extensions().get::<ActingKey>();
        let caller = self.authenticate(request.headers(), acting, key_id)?;
        let load = &self.host.load;
        let place = load.keyed.enter(Holder::key(&caller))?;
        let busy = request.extensions().get::<Connection>().map(Connection::work);
        if !scopes.iter().any(|scope| caller.may(scope)) {
            let operation = self.operation.name;
            tracing::warn!(target: "audit", operation, key = %caller.key_id, "scope missing");
            return Err(match scopes {
                [scope] => missing_scope(scope),
                _ => Problem::new(Code::Forbidden, "this key has none of the scopes for this")
                    .with("scopesAccepted", scopes),
            });
        }
        let response = if self.operation.method.is_mutating() {
            request.extensions_mut().insert(caller.clone());
            let (limit, room) = (self.most_bytes(), load.keyed.body(Holder::key(&caller)));
            let measure = Measure { limit, pace: Pace::KEYED, room };
            let (request, _room) = body::read(request, self.operation, measure).await?;
            idempotency::perform(&self.host, self.operation, &caller, request, next).await?
        } else {
            request.extensions_mut().insert(caller);
            next.run(request).await
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
    async fn pass_unkeyed(&self, request: Request, next: Next) -> Result<Response, Problem> {
        let (place, holder, request) = doors::enter(&self.host, self.operation, request).await?;
        let load = &self.host.load;
        let response = if self.operation.method.is_mutating() {
            let (limit, room) = (self.most_bytes(), load.unkeyed.body(holder));
            let measure = Measure { limit, pace: Pace::UNKEYED, room };
            let (request, _room) = body::read(request, self.operation, measure).await?;
            next.run(request).await
        } else {
            next.run(request).await
        };
        place.hold(load, None, response)
    }

    /// The rate counts for every key that is known, also one that no longer opens anything. A text that is
    /// no key at all has no bucket: a bucket for each guess would be memory that strangers control.
    fn authenticate(
        &self,
        headers: &HeaderMap,
        acting: Option<&ActingKey>,
        key_id: &mut Option<KeyId>,
    ) -> Result<Caller, Problem> {
        let unknown = || Problem::new(Code::Unauthenticated, "this host does not know the key");
        let keys = &self.host.app.keys;
        let known = match acting {
            Some(ActingKey(id)) => keys.by_id(id),
            None => keys.look_up(bearer(headers)?),
        };
        let known = known.ok_or_else(unknown)?;
        *key_id = Some(known.key.id.clone());
        self.host.rate.check(&known.key.id)?;
        self.host.app.keys.admit(&known, self.host.now())
    }
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
