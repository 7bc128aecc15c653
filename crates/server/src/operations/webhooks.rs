//! Whom the host tells of events.

use super::OperationId::{ListWebhooks, ReadDeadLetters, RegisterWebhook, RemoveWebhook};
use super::queries::{DEAD_LETTER_QUERY, TENANT_QUERY};
use super::{CREATED, Gives, NO_CONTENT, OK, Operation, delete, get, post};

pub(super) const WEBHOOKS: &[Operation] = &[
    post(RegisterWebhook, "POST /v1/webhooks", "Subscribe to events; the secret is shown once")
        .needs("webhooks:manage")
        .takes("RegisterWebhook")
        .gives(CREATED, Gives::Json("RegisteredWebhook")),
    delete(RemoveWebhook, "DELETE /v1/webhooks/{webhookId}", "Unsubscribe")
        .needs("webhooks:manage")
        .query(TENANT_QUERY)
        .gives(NO_CONTENT, Gives::Nothing),
    get(ListWebhooks, "GET /v1/host/callboard/webhooks", "List webhooks without their secrets")
        .needs("webhooks:manage")
        .gives(OK, Gives::Json("WebhookList")),
    get(
        ReadDeadLetters,
        "GET /v1/host/callboard/webhooks/{webhookId}/dead-letters",
        "Read what a durable webhook could not be told, newest first",
    )
    .needs("webhooks:manage")
    .query(DEAD_LETTER_QUERY)
    .gives(OK, Gives::Json("DeadLetterList")),
];
