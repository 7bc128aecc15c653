//! The host itself: what it offers, how it fares, who may use it.

use super::OperationId::{
    CheckHealth, CheckReadiness, CreateKey, ListKeys, ListSecrets, PutSecret, ReadDiscovery,
    ReadKey, ReadMetrics, ReadOpenApi, ReadScopedDiscovery, RemoveSecret, RevokeKey, RotateKey,
    WhoAmI,
};
use super::queries::REVOKE_QUERY;
use crate::scopes::SCOPES;

use super::{CREATED, Gives, NO_CONTENT, OK, Operation, delete, get, post, put};

pub(super) const HOST: &[Operation] = &[
    get(ReadDiscovery, "GET /.well-known/openwop", "What this host offers")
        .gives(OK, Gives::Json("Capabilities")),
    get(
        ReadScopedDiscovery,
        "GET /v1/host/callboard/capabilities",
        "What this host offers to the caller's key",
    )
    .needs("manifest:read")
    .gives(OK, Gives::Json("Capabilities")),
    get(ReadOpenApi, "GET /v1/openapi.json", "This document").gives(OK, Gives::Json("Object")),
    get(CheckHealth, "GET /healthz", "Whether the process lives").gives(OK, Gives::Json("Health")),
    get(CheckReadiness, "GET /readyz", "Whether the host can work")
        .gives(OK, Gives::Json("Health")),
    get(ReadMetrics, "GET /metrics", "Counters as Prometheus text").gives(OK, Gives::Text),
    get(
        WhoAmI,
        "GET /v1/host/callboard/whoami",
        "Read the caller's own key, without its secret: what it is called, where it lives, what it may",
    )
    .needs_one_of(&SCOPES)
    .gives(OK, Gives::Json("Whoami")),
    get(ListKeys, "GET /v1/host/callboard/keys", "List API keys without their secrets")
        .needs("admin")
        .gives(OK, Gives::Json("KeyList")),
    post(CreateKey, "POST /v1/host/callboard/keys", "Make an API key; its secret is shown once")
        .needs("admin")
        .takes("NewKey")
        .gives(CREATED, Gives::Json("CreatedKey")),
    get(
        ReadKey,
        "GET /v1/host/callboard/keys/{keyId}",
        "Read a key, with what it made and would go on without it",
    )
    .needs("admin")
    .gives(OK, Gives::Json("KeyPage")),
    delete(
        RevokeKey,
        "DELETE /v1/host/callboard/keys/{keyId}",
        "Revoke a key, its open streams included",
    )
    .query(REVOKE_QUERY)
    .needs("admin")
    .gives(NO_CONTENT, Gives::Nothing),
    post(
        RotateKey,
        "POST /v1/host/callboard/keys/{keyId}/rotate",
        "Replace a key's secret and revoke the old one",
    )
    .needs("admin")
    .gives(CREATED, Gives::Json("CreatedKey")),
    get(ListSecrets, "GET /v1/host/callboard/secrets", "List secrets without their values")
        .needs("admin")
        .gives(OK, Gives::Json("SecretList")),
    put(
        PutSecret,
        "PUT /v1/host/callboard/secrets/{secretName}",
        "Store a secret for the tenant's runs, or replace it (200); its value never comes back",
    )
    .needs("admin")
    .takes_secret("PutSecret")
    .gives(CREATED, Gives::Json("StoredSecret")),
    delete(
        RemoveSecret,
        "DELETE /v1/host/callboard/secrets/{secretName}",
        "Forget a secret; runs that need it fail from now on",
    )
    .needs("admin")
    .gives(NO_CONTENT, Gives::Nothing),
];
