//! Doors without a key: posts of triggers and links to interrupts. Whose door it is, and whether it takes one more, is
//! known before a byte of a body is read.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request};
use callboard_engine::{Subscription, Verification};
use callboard_protocol::Tenant;

use crate::app::Host;
use crate::extract::Named;
use crate::load::Place;
use crate::operations::{Door, Operation};
use crate::problem::Problem;
use crate::rate::{Limited, RateLimit};
use crate::routes::{interrupts, triggers};
use crate::share::Holder;
use crate::v2::edge::Speaks;

/// How often each subscription takes a post, with a proof of its sender and without.
#[derive(Debug)]
pub(crate) struct Posts {
    signed: RateLimit<String>,
    unsigned: RateLimit<String>,
}

impl Posts {
    pub(crate) fn new(signed: u32, unsigned: u32) -> Self {
        let limit = |limit| RateLimit::new(Limited::Subscription, limit);
        Self { signed: limit(signed), unsigned: limit(unsigned) }
    }

    /// Those that need no proof are counted before their body is read, all others once it is known what they are: a
    /// stranger who only knows the address must not use up what belongs to those who sign.
    pub(crate) fn knock(&self, subscription: &Subscription) -> Result<(), Problem> {
        match subscription.body.verification {
            Verification::None => self.unsigned.check(&subscription.id),
            Verification::Required | Verification::BestEffort => Ok(()),
        }
    }

    pub(crate) fn believed(
        &self,
        subscription: &Subscription,
        is_signed: bool,
    ) -> Result<(), Problem> {
        match subscription.body.verification {
            Verification::None => Ok(()),
            _ if is_signed => self.signed.check(&subscription.id),
            _ => self.unsigned.check(&subscription.id),
        }
    }

    /// Whether one more refusal of a post is worth keeping.
    pub(crate) fn is_worth_noting(&self, subscription: &Subscription) -> bool {
        self.unsigned.check(&subscription.id).is_ok()
    }
}

/// A request that has found its door.
#[derive(Debug)]
pub(crate) struct Entered {
    pub(crate) place: Place,
    pub(crate) holder: Holder,
    /// Whose door it is; none where it is everybody's.
    pub(crate) tenant: Option<Tenant>,
    pub(crate) request: Request,
}

/// A place at the door that the request names, or a refusal if there is none.
pub(crate) async fn enter(
    host: &Arc<Host>,
    operation: &Operation,
    request: Request,
) -> Result<Entered, Problem> {
    let side = &host.load.unkeyed;
    // Looking it up is work for a stranger, too.
    let looking = side.enter(Holder::stranger("unknown"))?;
    let speaks = Speaks::of(&request);
    let (mut parts, body) = request.into_parts();
    let (holder, tenant) = match operation.door {
        Door::Subscription => {
            let Named(id) = Named::<String>::from_request_parts(&mut parts, &()).await?;
            let subscription = host.app.triggers.door(&id).await.map_err(triggers::problem)?;
            host.posts.knock(&subscription)?;
            let tenant = subscription.place.tenant;
            (Holder::door(&tenant, &subscription.id), Some(tenant))
        }
        Door::Interrupt => {
            let Named(token) = Named::<String>::from_request_parts(&mut parts, &()).await?;
            let (link, scope) = interrupts::open_link(host, &token, speaks).await?;
            (Holder::door(&scope.tenant, link.run_id.as_str()), Some(scope.tenant))
        }
        Door::Anybody => (Holder::stranger(operation.name), None),
    };
    drop(looking);
    let place = side.enter(holder.clone())?;
    Ok(Entered { place, holder, tenant, request: Request::from_parts(parts, body) })
}
