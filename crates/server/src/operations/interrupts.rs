//! What runs ask people.

use super::OperationId::{
    AnswerInterrupt, InspectInterrupt, ListInterrupts, ReadCallbackSecret, ResolveApproval,
    ResolveInterrupt, RotateLinks,
};
use super::queries::INBOX_QUERY;
use super::{Gives, OK, Operation, get, post};

pub(super) const INTERRUPTS: &[Operation] = &[
    post(ResolveInterrupt, "POST /v1/runs/{runId}/interrupts/{nodeId}", "Answer what a node asks")
        .needs("approvals:respond")
        .takes("Answer")
        .gives(OK, Gives::Json("Answered")),
    post(
        ResolveApproval,
        "POST /v1/runs/{runId}/approvals/{nodeId}",
        "The same under the name that older clients know",
    )
    .needs("approvals:respond")
    .takes("Answer")
    .gives(OK, Gives::Json("Answered")),
    get(InspectInterrupt, "GET /v1/interrupts/{token}", "Look at an interrupt through a link")
        .by_link()
        .gives(OK, Gives::Json("Interrupt")),
    post(AnswerInterrupt, "POST /v1/interrupts/{token}", "Answer an interrupt through a link")
        .by_link()
        .takes("Answer")
        .gives(OK, Gives::Json("Answered")),
    get(
        ListInterrupts,
        "GET /v1/host/callboard/inbox",
        "List what runs ask, longest waiting first",
    )
    .needs("approvals:respond")
    .query(INBOX_QUERY)
    .gives(OK, Gives::Json("Inbox")),
    post(
        RotateLinks,
        "POST /v1/host/callboard/interrupt-links/rotate",
        "Sign links with a new secret; those signed with the last one work until they expire",
    )
    .needs("admin")
    .gives(OK, Gives::Json("LinkGeneration")),
    get(
        ReadCallbackSecret,
        "GET /v1/host/callboard/callback-secret",
        "Read what the tenant's callbacks are signed with, until links are rotated",
    )
    .needs("admin")
    .gives(OK, Gives::Json("CallbackSecret")),
];
