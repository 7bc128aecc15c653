//! What runs ask people.

use super::OK;
use super::queries::INBOX_QUERY;
use crate::operations::{Door, Family, Gives, get, post};
use crate::routes::{inbox, interrupts};
use crate::v2::{answer, body};

pub(super) static INTERRUPTS: Family =
    Family::new(|| {
        vec![
        post(
            "resolveInterrupt",
            interrupts::resolve,
            "POST /v1/runs/{runId}/interrupts/{nodeId}",
            "Answer what a node asks",
        )
        .second_takes(body::answer).second_gives(answer::run)
        .needs("approvals:respond")
        .takes("Answer")
        .gives(OK, Gives::Json("Answered")),
        post(
            "resolveApproval",
            interrupts::resolve,
            "POST /v1/runs/{runId}/approvals/{nodeId}",
            "The same under the name that older clients know",
        )
        .needs("approvals:respond")
        .takes("Answer")
        .gives(OK, Gives::Json("Answered")),
        get(
            "inspectInterrupt",
            interrupts::inspect,
            "GET /v1/interrupts/{token}",
            "Look at an interrupt through a link",
        )
        .second_gives(answer::interrupt)
        .by_link(Door::Interrupt)
        .gives(OK, Gives::Json("Interrupt")),
        post(
            "answerInterrupt",
            interrupts::answer,
            "POST /v1/interrupts/{token}",
            "Answer an interrupt through a link",
        )
        .second_takes(body::answer).second_gives(answer::run)
        .by_link(Door::Interrupt)
        .takes("Answer")
        .gives(OK, Gives::Json("Answered")),
        get(
            "listInterrupts",
            inbox::list,
            "GET /v1/host/callboard/inbox",
            "List what runs ask, longest waiting first",
        )
        .needs("approvals:respond")
        .query(INBOX_QUERY)
        .gives(OK, Gives::Json("Inbox")),
        post(
            "rotateLinks",
            interrupts::rotate_links,
            "POST /v1/host/callboard/interrupt-links/rotate",
            "Sign links with a new secret; those signed with the last one work until they expire",
        )
        .needs("admin")
        .gives(OK, Gives::Json("LinkGeneration")),
        get(
            "readCallbackSecret",
            interrupts::callback_secret,
            "GET /v1/host/callboard/callback-secret",
            "Read what the tenant's callbacks are signed with, until links are rotated",
        )
        .needs("admin")
        .gives(OK, Gives::Json("CallbackSecret")),
    ]
    });
