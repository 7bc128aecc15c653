//! Addresses that receive events.

use super::queries::{DEAD_LETTER_QUERY, TENANT_QUERY, TRIGGER_DEAD_LETTER_QUERY};
use super::{ACCEPTED, CREATED, NO_CONTENT, OK};
use crate::operations::{Family, Gives, delete, get, post};
use crate::routes::webhooks;
use crate::v2::answer;

pub(super) static WEBHOOKS: Family = Family::new(|| {
    vec![
        post(
            "registerWebhook",
            webhooks::register,
            "POST /v1/webhooks",
            "Subscribe to events; the secret is shown once",
        )
        .second_gives(answer::webhook)
        .needs("webhooks:manage")
        .takes("RegisterWebhook")
        .gives(CREATED, Gives::Json("RegisteredWebhook")),
        delete("removeWebhook", webhooks::remove, "DELETE /v1/webhooks/{webhookId}", "Unsubscribe")
            .in_both()
            .needs("webhooks:manage")
            .query(TENANT_QUERY)
            .gives(NO_CONTENT, Gives::Nothing),
        get(
            "readWebhookDeadLetters",
            webhooks::second_dead_letters,
            "GET /webhooks/{webhookId}/dead-letters",
            "Read what a webhook could not be told, newest first",
        )
        .only_in_second()
        .needs("webhooks:manage")
        .query(TRIGGER_DEAD_LETTER_QUERY)
        .gives(OK, Gives::Json("TriggerDeadLetters")),
        get(
            "listWebhooks",
            webhooks::list,
            "GET /v1/host/callboard/webhooks",
            "List webhooks without their secrets",
        )
        .needs("webhooks:manage")
        .gives(OK, Gives::Json("WebhookList")),
        get(
            "readDeadLetters",
            webhooks::dead_letters,
            "GET /v1/host/callboard/webhooks/{webhookId}/dead-letters",
            "Read what a durable webhook could not be told, newest first",
        )
        .needs("webhooks:manage")
        .query(DEAD_LETTER_QUERY)
        .gives(OK, Gives::Json("DeadLetterList")),
        get(
            "listWebhookDeliveries",
            webhooks::pending,
            "GET /v1/host/callboard/webhooks/{webhookId}/deliveries",
            "List the pending deliveries of a webhook, the next first, with the attempts so far",
        )
        .needs("webhooks:manage")
        .query(DEAD_LETTER_QUERY)
        .gives(OK, Gives::Json("WebhookDeliveryList")),
        post(
            "replayWebhookLetters",
            webhooks::replay_all,
            "POST /v1/host/callboard/webhooks/{webhookId}/dead-letters/replay",
            "Send all dead letters of a webhook again, the newest 100 at once",
        )
        .needs("webhooks:manage")
        .gives(ACCEPTED, Gives::Json("ResentDeadLetters")),
        post(
            "replayWebhookLetter",
            webhooks::replay,
            "POST /v1/host/callboard/webhooks/{webhookId}/dead-letters/{deliveryId}/replay",
            "Send one dead letter again",
        )
        .needs("webhooks:manage")
        .gives(ACCEPTED, Gives::Json("ResentDeadLetters")),
        delete(
            "dropWebhookLetter",
            webhooks::drop_one,
            "DELETE /v1/host/callboard/webhooks/{webhookId}/dead-letters/{deliveryId}",
            "Remove a dead letter",
        )
        .needs("webhooks:manage")
        .gives(NO_CONTENT, Gives::Nothing),
    ]
});
