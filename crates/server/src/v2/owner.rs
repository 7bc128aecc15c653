//! Whose a run is, in the words of the second major.

use callboard_core::{Born, SubjectBasis};
use callboard_protocol::Object;
use serde_json::{Value, json};

use super::id;

const BY_KEY: &str = "urn:callboard:api-key";
const BY_LINK: &str = "urn:callboard:interrupt-link";
const BY_HOST: &str = "urn:callboard:host";
const BEFORE_SUBJECTS: &str = "urn:openwop:legacy";

/// `owner` of snapshots and of `run.started`: the same in both, at every reading.
pub(crate) fn owner(born: &Born) -> Value {
    let tenant = born.owner.tenant.as_str();
    let shown = born.subject();
    let principal = shown.principal.as_ref().map(|principal| principal.as_str());
    let subject = match shown.basis {
        SubjectBasis::ApiKey => by_key(tenant, principal.unwrap_or(UNKNOWN)),
        SubjectBasis::Host => by_host(tenant),
        SubjectBasis::Legacy => subject(BEFORE_SUBJECTS, principal.unwrap_or(UNKNOWN), tenant),
    };
    let mut owner = Object::new();
    owner.insert("tenant".to_owned(), tenant.into());
    if let Some(workspace) = &born.owner.workspace {
        owner.insert("workspace".to_owned(), workspace.as_str().into());
    }
    owner.insert("subject".to_owned(), subject);
    owner.into()
}

/// Whoever an event names as having decided.
pub(crate) fn decider(born: &Born, principal: &str) -> Value {
    let tenant = born.owner.tenant.as_str();
    // Whoever holds a link is nobody in particular. The interrupt's own id would give the run's bare one away.
    if let Some(interrupt) = principal.strip_prefix("link:") {
        let id = id::of_interrupt(tenant, interrupt);
        let id = id.rsplit('/').next().unwrap_or_default();
        return json!({
            "issuer": BY_LINK, "subjectId": format!("link:{id}"), "tenant": tenant,
            "lane": "anonymous", "kind": "anonymous",
        });
    }
    match born.subject().basis {
        SubjectBasis::Legacy => subject(BEFORE_SUBJECTS, principal, tenant),
        SubjectBasis::ApiKey | SubjectBasis::Host => by_key(tenant, principal),
    }
}

const UNKNOWN: &str = "unknown";

fn by_key(tenant: &str, principal: &str) -> Value {
    subject(BY_KEY, principal, tenant)
}

fn by_host(tenant: &str) -> Value {
    json!({
        "issuer": BY_HOST, "subjectId": "host", "tenant": tenant,
        "lane": "workload", "kind": "workload",
    })
}

/// The grammar of a subject's id has neither spaces nor slashes.
fn subject(issuer: &str, principal: &str, tenant: &str) -> Value {
    let fits = |sign: char| !sign.is_whitespace() && sign != '/';
    let id: String =
        principal.chars().map(|sign| if fits(sign) { sign } else { '_' }).take(256).collect();
    let id = if id.is_empty() { UNKNOWN.to_owned() } else { id };
    json!({ "issuer": issuer, "subjectId": id, "tenant": tenant, "lane": "api-key", "kind": "user" })
}
