//! What starts runs by itself: schedules, heartbeats, triggers.

use super::queries::{DEAD_LETTER_QUERY, NEXT_QUERY, SCHEDULE_QUERY, TRIGGER_DEAD_LETTER_QUERY};
use super::{ACCEPTED, CREATED, NO_CONTENT, OK};
use crate::operations::{Door, Family, Gives, delete, get, patch, post};
use crate::routes::{heartbeats, schedules, triggers};
use crate::v2::answer;

pub(super) static SOURCES: Family = Family::new(|| {
    vec![
        get("listSchedules", schedules::list, "GET /v1/host/callboard/schedules", "List schedules")
            .needs("runs:read")
            .query(SCHEDULE_QUERY)
            .gives(OK, Gives::Json("ScheduleList")),
        post(
            "createSchedule",
            schedules::create,
            "POST /v1/host/callboard/schedules",
            "Start runs of a workflow by a cron pattern, or one run at a time",
        )
        .needs("triggers:write")
        .takes("NewSchedule")
        .gives(CREATED, Gives::Json("Schedule")),
        get(
            "readSchedule",
            schedules::read,
            "GET /v1/host/callboard/schedules/{scheduleId}",
            "Read one schedule",
        )
        .needs("runs:read")
        .gives(OK, Gives::Json("Schedule")),
        patch(
            "changeSchedule",
            schedules::change,
            "PATCH /v1/host/callboard/schedules/{scheduleId}",
            "Change, pause or resume a schedule",
        )
        .needs("triggers:write")
        .takes("ScheduleChange")
        .gives(OK, Gives::Json("Schedule")),
        delete(
            "removeSchedule",
            schedules::remove,
            "DELETE /v1/host/callboard/schedules/{scheduleId}",
            "Remove a schedule; its runs go on",
        )
        .needs("triggers:write")
        .gives(NO_CONTENT, Gives::Nothing),
        get(
            "nextFires",
            schedules::next,
            "GET /v1/host/callboard/schedules/{scheduleId}/next",
            "When a schedule fires next",
        )
        .needs("runs:read")
        .query(NEXT_QUERY)
        .gives(OK, Gives::Json("NextFires")),
        post(
            "runScheduleNow",
            schedules::run_now,
            "POST /v1/host/callboard/schedules/{scheduleId}/run-now",
            "Start a run of a schedule beside its own times",
        )
        .needs("triggers:write")
        .gives(ACCEPTED, Gives::Json("StartedRun")),
        get(
            "listHeartbeats",
            heartbeats::list,
            "GET /v1/host/callboard/heartbeats",
            "List what is looked at",
        )
        .needs("runs:read")
        .gives(OK, Gives::Json("HeartbeatList")),
        post(
            "createHeartbeat",
            heartbeats::create,
            "POST /v1/host/callboard/heartbeats",
            "Look at an address again and again, and start a run when it changes",
        )
        .needs("runs:create")
        .takes("NewHeartbeat")
        .gives(CREATED, Gives::Json("Heartbeat")),
        get(
            "readHeartbeat",
            heartbeats::read,
            "GET /v1/host/callboard/heartbeats/{heartbeatId}",
            "Read what is looked at, and how the last look went",
        )
        .needs("runs:read")
        .gives(OK, Gives::Json("Heartbeat")),
        patch(
            "changeHeartbeat",
            heartbeats::change,
            "PATCH /v1/host/callboard/heartbeats/{heartbeatId}",
            "Pause a heartbeat, or let it go on",
        )
        .needs("runs:create")
        .takes("ChangeHeartbeat")
        .gives(OK, Gives::Json("Heartbeat")),
        delete(
            "removeHeartbeat",
            heartbeats::remove,
            "DELETE /v1/host/callboard/heartbeats/{heartbeatId}",
            "Look no more",
        )
        .needs("runs:create")
        .gives(NO_CONTENT, Gives::Nothing),
        get(
            "listSubscriptions",
            triggers::list,
            "GET /v1/trigger-subscriptions",
            "List trigger subscriptions",
        )
        .needs("webhooks:manage")
        .gives(OK, Gives::Json("TriggerSubscriptionList")),
        get(
            "readSubscription",
            triggers::read,
            "GET /v1/trigger-subscriptions/{subscriptionId}",
            "Read one trigger subscription",
        )
        .second_gives(answer::subscription)
        .needs("webhooks:manage")
        .gives(OK, Gives::Json("TriggerSubscriptionRead")),
        post(
            "registerSubscription",
            triggers::register,
            "POST /v1/trigger-subscriptions",
            "Let webhooks, forms or mail start a workflow; the secret is shown once",
        )
        .second_gives(answer::registered)
        .needs("webhooks:manage")
        .takes("RegisterTriggerSubscription")
        .gives(CREATED, Gives::Json("RegisteredTriggerSubscription")),
        post(
            "ingestTrigger",
            triggers::ingest,
            "POST /v1/trigger-subscriptions/{subscriptionId}/ingest",
            "Take what a sender posts; it proves itself by its signature",
        )
        .second_gives(answer::delivery)
        .by_link(Door::Subscription)
        .gives(ACCEPTED, Gives::Json("TriggerDelivery")),
        get(
            "readTriggerDeadLetters",
            triggers::dead_letters,
            "GET /v1/trigger-subscriptions/{subscriptionId}/dead-letters",
            "Read what could not become a run, newest first",
        )
        .second_gives(answer::trigger_letters)
        .needs("webhooks:manage")
        .query(TRIGGER_DEAD_LETTER_QUERY)
        .gives(OK, Gives::Json("TriggerDeadLetters")),
        post(
            "createSubscription",
            triggers::create,
            "POST /v1/host/callboard/trigger-subscriptions",
            "Let any source start a workflow, a queue of the host included",
        )
        .needs("triggers:write")
        .takes("CreateTriggerSubscription")
        .gives(CREATED, Gives::Json("RegisteredTriggerSubscription")),
        patch(
            "changeSubscription",
            triggers::change,
            "PATCH /v1/host/callboard/trigger-subscriptions/{subscriptionId}",
            "Pause or resume a trigger subscription",
        )
        .needs("triggers:write")
        .takes("ChangeTriggerSubscription")
        .gives(OK, Gives::Json("TriggerSubscriptionRead")),
        get(
            "listOwnSubscriptions",
            triggers::list_own,
            "GET /v1/host/callboard/trigger-subscriptions",
            "List trigger subscriptions with what they start",
        )
        .needs("webhooks:manage")
        .gives(OK, Gives::Json("OwnTriggerSubscriptionList")),
        get(
            "readOwnSubscription",
            triggers::read_own,
            "GET /v1/host/callboard/trigger-subscriptions/{subscriptionId}",
            "Read one trigger subscription with what it starts",
        )
        .needs("webhooks:manage")
        .gives(OK, Gives::Json("OwnTriggerSubscription")),
        delete(
            "removeSubscription",
            triggers::remove,
            "DELETE /v1/host/callboard/trigger-subscriptions/{subscriptionId}",
            "Remove a trigger subscription; the runs that it started stay",
        )
        .needs("triggers:write")
        .gives(NO_CONTENT, Gives::Nothing),
        post(
            "deliverToQueue",
            triggers::deliver,
            "POST /v1/host/callboard/trigger-subscriptions/{subscriptionId}/deliver",
            "Put something into a queue; the same id again: 200",
        )
        .needs("triggers:write")
        .takes("QueueDelivery")
        .gives(ACCEPTED, Gives::Json("TriggerDelivery")),
        post(
            "rotateSubscription",
            triggers::rotate,
            "POST /v1/host/callboard/trigger-subscriptions/{subscriptionId}/rotate-secret",
            "Make a new signing secret, or take the sender's; the last one works for another day",
        )
        .needs("triggers:write")
        .may_take("RotateTriggerSecret")
        .gives(OK, Gives::Json("RegisteredTriggerSubscription")),
        post(
            "replayDeadLetter",
            triggers::replay,
            "POST /v1/host/callboard/trigger-subscriptions/{subscriptionId}\
             /dead-letters/{deliveryId}/replay",
            "Start a run of what was given up",
        )
        .needs("triggers:write")
        .gives(ACCEPTED, Gives::Json("StartedRun")),
        get(
            "listAttachments",
            triggers::attachments,
            "GET /v1/host/callboard/runs/{runId}/attachments",
            "List the files that came along with the mail that a run was made of",
        )
        .needs("runs:read")
        .gives(OK, Gives::Json("AttachmentList")),
        get(
            "readAttachment",
            triggers::attachment,
            "GET /v1/host/callboard/runs/{runId}/attachments/{attachmentId}",
            "Read one of them with its content, which is a stranger's",
        )
        .needs("runs:read")
        .gives(OK, Gives::Json("AttachmentWithContent")),
        get(
            "listTriggerPresets",
            triggers::presets,
            "GET /v1/host/callboard/trigger-presets",
            "List the senders that webhook subscriptions know, and how each proves itself",
        )
        .needs("webhooks:manage")
        .gives(OK, Gives::Json("TriggerPresetList")),
        get(
            "listTriggerDeliveries",
            triggers::deliveries,
            "GET /v1/host/callboard/trigger-subscriptions/{subscriptionId}/deliveries",
            "List what came in over a subscription, newest first, with attempts and latency",
        )
        .needs("webhooks:manage")
        .query(DEAD_LETTER_QUERY)
        .gives(OK, Gives::Json("TriggerDeliveryList")),
        get(
            "readTriggerDeadLetter",
            triggers::letter,
            "GET /v1/host/callboard/trigger-subscriptions/{subscriptionId}/dead-letters/{deliveryId}",
            "Read a dead letter with its content",
        )
        .needs("triggers:write")
        .gives(OK, Gives::Json("TriggerDeadLetter")),
        post(
            "replayDeadLetters",
            triggers::replay_all,
            "POST /v1/host/callboard/trigger-subscriptions/{subscriptionId}/dead-letters/replay",
            "Start runs of all dead letters, up to 100 at once",
        )
        .needs("triggers:write")
        .gives(OK, Gives::Json("ReplayedDeadLetters")),
        delete(
            "dropDeadLetter",
            triggers::drop_letter,
            "DELETE /v1/host/callboard/trigger-subscriptions/{subscriptionId}/dead-letters/{deliveryId}",
            "Remove a dead letter",
        )
        .needs("triggers:write")
        .gives(NO_CONTENT, Gives::Nothing),
    ]
});
