//! Doors without a key: posts of triggers and links to interrupts. Whose door it is, and whether it takes one more, is
//! known before a byte of a body is read.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request};
use callboard_engine::{Subscription, Verification};

use crate::app::Host;
use crate::extract::Named;
use crate::load::Place;
use crate::operations::{Door, Operation};
use crate::problem::Problem;
use crate::rate::{Limited, RateLimit};
use crate::routes::{interrupts, triggers};
use crate::share::Holder;

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

/// A place at the door that the request names, or a refusal if there is none.
pub(crate) async fn enter(
    host: &Arc<Host>,
    operation: &Operation,
    request: Request,
) -> Result<(Place, Holder, Request), Problem> {
    let side = &host.load.unkeyed;
    // Looking it up is work for a stranger, too.
    let looking = side.enter(Holder::stranger("unknown"))?;
    let (mut parts, body) = request.into_parts();
    let holder = match operation.door {
        Door::Subscription => {
            let Named(id) = Named::<String>::from_request_parts(&mut parts, &()).await?;
            let subscription = host.app.triggers.door(&id).await.map_err(triggers::problem)?;
            host.posts.knock(&subscription)?;
            Holder::door(&subscription.place.tenant, &subscription.id)
        }
        Door::Interrupt => {
            let Named(token) = Named::<String>::from_request_parts(&mut parts, &()).await?;
            let (link, scope) = interrupts::open_link(host, &token).await?;
            Holder::door(&scope.tenant, link.run_id.as_str())
        }
        Door::Anybody => Holder::stranger(operation.name),
    };
    drop(looking);
    Ok((side.enter(holder.clone())?, holder, Request::from_parts(parts, body)))
}
