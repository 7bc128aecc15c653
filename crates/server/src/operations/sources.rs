//! What starts runs by itself: schedules, heartbeats, triggers.

use super::OperationId::{
    ChangeHeartbeat, ChangeSchedule, ChangeSubscription, CreateHeartbeat, CreateSchedule,
    CreateSubscription, DeliverToQueue, IngestTrigger, ListHeartbeats, ListOwnSubscriptions,
    ListSchedules, ListSubscriptions, NextFires, ReadHeartbeat, ReadOwnSubscription, ReadSchedule,
    ReadSubscription, ReadTriggerDeadLetters, RegisterSubscription, RemoveHeartbeat,
    RemoveSchedule, RemoveSubscription, ReplayDeadLetter, RotateSubscription, RunScheduleNow,
};
use super::queries::{NEXT_QUERY, SCHEDULE_QUERY, TRIGGER_DEAD_LETTER_QUERY};
use super::{ACCEPTED, CREATED, Gives, NO_CONTENT, OK, Operation, delete, get, patch, post};

pub(super) const SOURCES: &[Operation] = &[
get(ListSchedules, "GET /v1/host/callboard/schedules", "List schedules")
        .needs("runs:read")
        .query(SCHEDULE_QUERY)
        .gives(OK, Gives::Json("ScheduleList")),
post(
        CreateSchedule,
        "POST /v1/host/callboard/schedules",
        "Start runs of a workflow by a cron pattern, or one run at a time",
    )
    .needs("triggers:write")
    .takes("NewSchedule")
    .gives(CREATED, Gives::Json("Schedule")),
get(ReadSchedule, "GET /v1/host/callboard/schedules/{scheduleId}", "Read one schedule")
        .needs("runs:read")
        .gives(OK, Gives::Json("Schedule")),
patch(
        ChangeSchedule,
        "PATCH /v1/host/callboard/schedules/{scheduleId}",
        "Change, pause or resume a schedule",
    )
    .needs("triggers:write")
    .takes("ScheduleChange")
    .gives(OK, Gives::Json("Schedule")),
delete(
        RemoveSchedule,
        "DELETE /v1/host/callboard/schedules/{scheduleId}",
        "Remove a schedule; its runs go on",
    )
    .needs("triggers:write")
    .gives(NO_CONTENT, Gives::Nothing),
get(
        NextFires,
        "GET /v1/host/callboard/schedules/{scheduleId}/next",
        "When a schedule fires next",
    )
    .needs("runs:read")
    .query(NEXT_QUERY)
    .gives(OK, Gives::Json("NextFires")),
post(
        RunScheduleNow,
        "POST /v1/host/callboard/schedules/{scheduleId}/run-now",
        "Start a run of a schedule beside its own times",
    )
    .needs("triggers:write")
    .gives(ACCEPTED, Gives::Json("StartedRun")),
get(ListHeartbeats, "GET /v1/host/callboard/heartbeats", "List what is looked at")
        .needs("runs:read")
        .gives(OK, Gives::Json("HeartbeatList")),
post(
    CreateHeartbeat,
    "POST /v1/host/callboard/heartbeats",
    "Look at an address again and again, and start a run when it changes",
)
.needs("runs:create")
.takes("NewHeartbeat")
.gives(CREATED, Gives::Json("Heartbeat")),
get(
    ReadHeartbeat,
    "GET /v1/host/callboard/heartbeats/{heartbeatId}",
    "Read what is looked at, and how the last look went",
)
.needs("runs:read")
.gives(OK, Gives::Json("Heartbeat")),
patch(
    ChangeHeartbeat,
    "PATCH /v1/host/callboard/heartbeats/{heartbeatId}",
    "Pause a heartbeat, or let it go on",
)
.needs("runs:create")
.takes("ChangeHeartbeat")
.gives(OK, Gives::Json("Heartbeat")),
delete(RemoveHeartbeat, "DELETE /v1/host/callboard/heartbeats/{heartbeatId}", "Look no more")
        .needs("runs:create")
        .gives(NO_CONTENT, Gives::Nothing),
get(ListSubscriptions, "GET /v1/trigger-subscriptions", "List trigger subscriptions")
        .needs("webhooks:manage")
        .gives(OK, Gives::Json("TriggerSubscriptionList")),
get(
        ReadSubscription,
        "GET /v1/trigger-subscriptions/{subscriptionId}",
        "Read one trigger subscription",
    )
    .needs("webhooks:manage")
    .gives(OK, Gives::Json("TriggerSubscriptionRead")),
post(
        RegisterSubscription,
        "POST /v1/trigger-subscriptions",
        "Let webhooks, forms or mail start a workflow; the secret is shown once",
    )
    .needs("webhooks:manage")
    .takes("RegisterTriggerSubscription")
    .gives(CREATED, Gives::Json("RegisteredTriggerSubscription")),
post(
        IngestTrigger,
        "POST /v1/trigger-subscriptions/{subscriptionId}/ingest",
        "Take what a sender posts; it proves itself by its signature",
    )
    .by_link()
    .gives(ACCEPTED, Gives::Json("TriggerDelivery")),
get(
        ReadTriggerDeadLetters,
        "GET /v1/trigger-subscriptions/{subscriptionId}/dead-letters",
        "Read what could not become a run, newest first",
    )
    .needs("webhooks:manage")
    .query(TRIGGER_DEAD_LETTER_QUERY)
    .gives(OK, Gives::Json("TriggerDeadLetters")),
post(
        CreateSubscription,
        "POST /v1/host/callboard/trigger-subscriptions",
        "Let any source start a workflow, a queue of the host included",
    )
    .needs("triggers:write")
    .takes("CreateTriggerSubscription")
    .gives(CREATED, Gives::Json("RegisteredTriggerSubscription")),
patch(
        ChangeSubscription,
        "PATCH /v1/host/callboard/trigger-subscriptions/{subscriptionId}",
        "Pause or resume a trigger subscription",
    )
    .needs("triggers:write")
    .takes("ChangeTriggerSubscription")
    .gives(OK, Gives::Json("TriggerSubscriptionRead")),
get(
        ListOwnSubscriptions,
        "GET /v1/host/callboard/trigger-subscriptions",
        "List trigger subscriptions with what they start",
    )
    .needs("webhooks:manage")
    .gives(OK, Gives::Json("OwnTriggerSubscriptionList")),
get(
        ReadOwnSubscription,
        "GET /v1/host/callboard/trigger-subscriptions/{subscriptionId}",
        "Read one trigger subscription with what it starts",
    )
    .needs("webhooks:manage")
    .gives(OK, Gives::Json("OwnTriggerSubscription")),
delete(
        RemoveSubscription,
        "DELETE /v1/host/callboard/trigger-subscriptions/{subscriptionId}",
        "Remove a trigger subscription; the runs that it started stay",
    )
    .needs("triggers:write")
    .gives(NO_CONTENT, Gives::Nothing),
post(
        DeliverToQueue,
        "POST /v1/host/callboard/trigger-subscriptions/{subscriptionId}/deliver",
        "Put something into a queue; the same id again: 200",
    )
    .needs("triggers:write")
    .takes("QueueDelivery")
    .gives(ACCEPTED, Gives::Json("TriggerDelivery")),
post(
        RotateSubscription,
        "POST /v1/host/callboard/trigger-subscriptions/{subscriptionId}/rotate-secret",
        "Make a new signing secret; the last one works for another day",
    )
    .needs("triggers:write")
    .gives(OK, Gives::Json("RegisteredTriggerSubscription")),
post(
        ReplayDeadLetter,
        "POST /v1/host/callboard/trigger-subscriptions/{subscriptionId}/dead-letters/{deliveryId}/replay",
        "Start a run of what was given up",
    )
    .needs("triggers:write")
    .gives(ACCEPTED, Gives::Json("StartedRun")),
];
