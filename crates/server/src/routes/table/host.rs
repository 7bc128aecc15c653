//! The host itself: what it offers, how it fares, who may use it.

use super::queries::{
    AUDIT_QUERY, AUDIT_RANGE, KEYS_QUERY, REVOKE_QUERY, ROTATE_QUERY, SPEND_QUERY,
};
use super::{CREATED, NO_CONTENT, OK};
use crate::operations::{Family, Gives, delete, get, post, put};
use crate::routes::{audit, hosts, keys, limits, resource, roles, secrets, spend, status};
use crate::scopes::SCOPES;
use crate::v2::effect_seams;

pub(super) static HOST: Family = Family::new(|| {
    vec![
        get(
            "readDiscovery",
            status::discovery,
            "GET /.well-known/openwop",
            "What this host offers",
        )
        .gives(OK, Gives::Json("Capabilities")),
        get(
            "readScopedDiscovery",
            status::scoped_discovery,
            "GET /v1/host/callboard/capabilities",
            "What this host offers to the caller's key",
        )
        .needs("manifest:read")
        .gives(OK, Gives::Json("Capabilities")),
        get(
            "readResourceMetadata",
            resource::metadata,
            "GET /.well-known/oauth-protected-resource",
            "Who gives tokens for this host (RFC 9728); 404 where none are taken",
        )
        .gives(OK, Gives::Json("ResourceMetadata")),
        get(
            "readResourceMetadataOfMcp",
            resource::metadata_of_mcp,
            "GET /.well-known/oauth-protected-resource/mcp",
            "The same for the door of the Model Context Protocol",
        )
        .gives(OK, Gives::Json("ResourceMetadata")),
        get("readOpenApi", status::openapi, "GET /v1/openapi.json", "This document")
            .in_both()
            .gives(OK, Gives::Json("Object")),
        get(
            "readEffectSeams",
            effect_seams::read,
            "GET /host/effect-seams",
            "Every way out of this host, and what keeps a replay from taking it",
        )
        .only_in_second()
        .needs("manifest:read")
        .gives(OK, Gives::Json("Object")),
        get("checkHealth", status::health, "GET /healthz", "Whether the process lives")
            .gives(OK, Gives::Json("Health")),
        get("checkOk", status::health, "GET /ok", "The same as /healthz, as LangGraph has it")
            .gives(OK, Gives::Json("Health")),
        get("checkHealthAlias", status::health, "GET /health", "The same as /healthz")
            .gives(OK, Gives::Json("Health")),
        get("checkReadiness", status::readiness, "GET /readyz", "Whether the host can work")
            .gives(OK, Gives::Json("Health")),
        get("readMetrics", status::metrics, "GET /metrics", "Counters as Prometheus text")
            .gives(OK, Gives::Text),
        get(
            "whoAmI",
            keys::whoami,
            "GET /v1/host/callboard/whoami",
            "Read the caller's own key, without its secret: what it is called, \
             where it lives, what it may",
        )
        .needs_one_of(&SCOPES)
        .gives(OK, Gives::Json("Whoami")),
        get(
            "listKeys",
            keys::list,
            "GET /v1/host/callboard/keys",
            "List API keys without their secrets",
        )
        .query(KEYS_QUERY)
        .needs("admin")
        .gives(OK, Gives::Json("KeyList")),
        post(
            "createKey",
            keys::create,
            "POST /v1/host/callboard/keys",
            "Make an API key; its secret is shown once",
        )
        .needs("admin")
        .takes("NewKey")
        .gives(CREATED, Gives::Json("CreatedKey")),
        get(
            "readKey",
            keys::read,
            "GET /v1/host/callboard/keys/{keyId}",
            "Read a key, with what it made and would go on without it",
        )
        .query(KEYS_QUERY)
        .needs("admin")
        .gives(OK, Gives::Json("KeyPage")),
        delete(
            "revokeKey",
            keys::revoke,
            "DELETE /v1/host/callboard/keys/{keyId}",
            "Revoke a key, its open streams included",
        )
        .query(REVOKE_QUERY)
        .needs("admin")
        .gives(NO_CONTENT, Gives::Nothing),
        post(
            "rotateKey",
            keys::rotate,
            "POST /v1/host/callboard/keys/{keyId}/rotate",
            "Replace a key's secret and revoke the old one, at once or after a grace",
        )
        .query(ROTATE_QUERY)
        .needs("admin")
        .gives(CREATED, Gives::Json("CreatedKey")),
        get(
            "listRoles",
            roles::list,
            "GET /v1/host/callboard/roles",
            "List roles with the scopes that they stand for",
        )
        .query(KEYS_QUERY)
        .needs("admin")
        .gives(OK, Gives::Json("RoleList")),
        put(
            "putRole",
            roles::put,
            "PUT /v1/host/callboard/roles/{roleName}",
            "Name a set of scopes, or change what a name stands for (200)",
        )
        .query(KEYS_QUERY)
        .needs("admin")
        .takes("PutRole")
        .gives(CREATED, Gives::Json("Role")),
        delete(
            "removeRole",
            roles::remove,
            "DELETE /v1/host/callboard/roles/{roleName}",
            "Remove a role; whoever has it loses what it stands for",
        )
        .query(KEYS_QUERY)
        .needs("admin")
        .gives(NO_CONTENT, Gives::Nothing),
        get(
            "listSecrets",
            secrets::list,
            "GET /v1/host/callboard/secrets",
            "List secrets without their values",
        )
        .needs("admin")
        .gives(OK, Gives::Json("SecretList")),
        put(
            "putSecret",
            secrets::put,
            "PUT /v1/host/callboard/secrets/{secretName}",
            "Store a secret for the tenant's runs, or replace it (200); its value never comes back",
        )
        .needs("admin")
        .takes_secret("PutSecret")
        .gives(CREATED, Gives::Json("StoredSecret")),
        delete(
            "removeSecret",
            secrets::remove,
            "DELETE /v1/host/callboard/secrets/{secretName}",
            "Forget a secret; runs that need it fail from now on",
        )
        .needs("admin")
        .gives(NO_CONTENT, Gives::Nothing),
        get(
            "verifyAuditLog",
            audit::verify,
            "GET /v1/audit/verify",
            "Walk the tenant's audit log again, and name every entry that is not as it was written",
        )
        .in_both()
        .needs("audit:read")
        .query(AUDIT_RANGE)
        .gives(OK, Gives::Json("AuditVerification")),
        get(
            "listAuditEntries",
            audit::list,
            "GET /v1/host/callboard/audit",
            "Read what changed access or policy, who signed in and who was refused",
        )
        .needs("audit:read")
        .query(AUDIT_QUERY)
        .gives(OK, Gives::Json("AuditEntryList")),
        get(
            "readSpend",
            spend::read,
            "GET /v1/host/callboard/spend",
            "What models cost by day, agent, member, model and workflow, and the dearest runs",
        )
        .needs("runs:read")
        .query(SPEND_QUERY)
        .gives(OK, Gives::Json("Spend")),
        get(
            "readLimits",
            limits::read,
            "GET /v1/host/callboard/limits",
            "What the caller's tenant may have at work, start and store, and how much it stores",
        )
        .needs("runs:read")
        .gives(OK, Gives::Json("TenantLimits")),
        get(
            "listHosts",
            hosts::list,
            "GET /v1/host/callboard/hosts",
            "List the processes that drive runs with what they hold, the database, the providers of models",
        )
        .needs("manifest:read")
        .gives(OK, Gives::Json("HostList")),
        post(
            "probeProvider",
            hosts::probe,
            "POST /v1/host/callboard/providers/{provider}/probe",
            "Ask a provider whether it answers and accepts the key",
        )
        .needs("admin")
        .gives(OK, Gives::Json("ProbedProvider")),
        post(
            "reloadHost",
            hosts::reload,
            "POST /v1/host/callboard/reload",
            "Read the host's workflows, packs, trusted keys and limits again, all or none",
        )
        .needs("admin")
        .gives(OK, Gives::Json("ReloadedHost")),
    ]
});
