//! Error codes of the second major: those that it registers, with their status, and what becomes of ours.

/// The vendor under whose name every other code stands.
const ORG: &str = "callboard";

/// A code in the words of the second major.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProjectedCode {
    pub(crate) code: String,
    /// Where it is not the one that the first major gives.
    pub(crate) status: Option<u16>,
    /// Whether something of the first major's code is lost in it.
    pub(crate) is_altered: bool,
}

/// What the second major calls a code of this host.
pub(crate) fn projected(code: &str) -> ProjectedCode {
    let renamed = RENAMED.iter().find(|(first, _)| *first == code).map(|(_, second)| *second);
    let known = renamed.unwrap_or(code);
    if let Some((_, status)) = REGISTERED.iter().find(|(registered, _)| *registered == known) {
        return ProjectedCode { code: known.to_owned(), status: Some(*status), is_altered: false };
    }
    if KEPT.contains(&code) || is_vendors(code) {
        return ProjectedCode { code: code.to_owned(), status: None, is_altered: false };
    }
    let fits = |sign: char| sign.is_ascii_lowercase() || sign.is_ascii_digit() || sign == '_';
    let mut plain: String =
        code.to_ascii_lowercase().chars().map(|sign| if fits(sign) { sign } else { '_' }).collect();
    if !plain.starts_with(|sign: char| sign.is_ascii_lowercase()) {
        plain.insert_str(0, "code_");
    }
    ProjectedCode { is_altered: plain != code, code: format!("{ORG}.{plain}"), status: None }
}

/// `<org>.<name>`, as a vendor writes it.
fn is_vendors(code: &str) -> bool {
    let lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let Some((org, name)) = code.split_once('.') else { return false };
    let begins = |text: &str| text.starts_with(|sign: char| sign.is_ascii_lowercase());
    let org_fits = org.bytes().all(|byte| lower(byte) || byte == b'-')
        && !org.ends_with('-')
        && !org.contains("--");
    let name_fits = name.bytes().all(|byte| lower(byte) || byte == b'_');
    org != "openwop" && begins(org) && begins(name) && org_fits && name_fits
}

/// Not registered, and read as they are where deliveries come in.
const KEPT: [&str; 2] = ["signature_invalid", "subscription_not_active"];

const RENAMED: [(&str, &str); 24] = [
    ("subscription_not_found", "not_found"),
    ("template_not_found", "not_found"),
    ("agent_not_found", "not_found"),
    ("invalid_from_seq", "fork_point_invalid"),
    ("key_expired", "unauthenticated"),
    ("key_revoked", "credential_revoked"),
    ("tenant_membership_required", "forbidden"),
    ("prompt_read_only", "forbidden"),
    ("prompt_conflict", "version_conflict"),
    ("memory_conflict", "version_conflict"),
    ("interrupt_gone", "interrupt_cancelled"),
    ("correlation_mismatch", "validation_error"),
    ("unsupported_mock_provider", "validation_error"),
    ("unsupported_force_engine_version", "validation_error"),
    ("no_active_deployment", "validation_error"),
    ("prompt_variable_unresolved", "validation_error"),
    ("prompt_ref_invalid", "validation_error"),
    ("prompt_ref_ambiguous", "validation_error"),
    ("prompt_template_invalid", "validation_error"),
    ("invalid_timezone", "validation_error"),
    ("invalid_argument", "validation_error"),
    ("unknown_child_workflow", "node_config_invalid"),
    ("pack_fetch_failed", "pack_registry_unreachable"),
    ("insufficient_storage", "service_unavailable"),
];

#[rustfmt::skip]
const REGISTERED: [(&str, u16); 126] = [
    ("approval_rejected", 422),
    ("audience_mismatch", 401),
    ("budget_exhausted", 422),
    ("budget_model_denied", 422),
    ("capability_not_provided", 422),
    ("capability_required", 422),
    ("client_version_unsupported", 426),
    ("connection_auth_metadata_mismatch", 422),
    ("connection_provider_conflict", 409),
    ("connection_provider_unresolved", 400),
    ("connector_action_unresolved", 400),
    ("connector_auth_declined", 401),
    ("connector_auth_expired", 401),
    ("conversation_roster_exceeded", 422),
    ("conversation_speaker_not_participant", 422),
    ("credential_forbidden", 403),
    ("credential_lifetime_exceeded", 401),
    ("credential_not_found", 404),
    ("credential_required", 422),
    ("credential_revoked", 401),
    ("credential_scope_forbidden", 403),
    ("credential_scope_unsupported", 400),
    ("credential_unavailable", 501),
    ("delegation_chain_cyclic", 400),
    ("delegation_chain_too_long", 400),
    ("delegation_expired", 401),
    ("delegation_scope_amplified", 403),
    ("egress_denied", 403),
    ("envelope_correlation_conflict", 409),
    ("envelope_invalid", 422),
    ("envelope_refusal", 422),
    ("envelope_truncation_unrecoverable", 422),
    ("eval_gate_unmet", 422),
    ("event_type_unmapped", 500),
    ("forbidden", 403),
    ("force_engine_version_forbidden", 403),
    ("fork_point_invalid", 422),
    ("host_event_resync_required", 409),
    ("id_tenant_mismatch", 403),
    ("idempotency_in_flight", 409),
    ("idempotency_key_invalid", 400),
    ("idempotency_key_mismatch", 409),
    ("identity_unresolvable", 401),
    ("identity_unverified", 401),
    ("internal_error", 500),
    ("interop_version_unsupported", 400),
    ("interrupt_already_resolved", 409),
    ("interrupt_cancelled", 410),
    ("interrupt_expired", 410),
    ("interrupt_not_found", 404),
    ("interrupt_token_invalid", 401),
    ("key_revoked", 401),
    ("loop_limit_exceeded", 422),
    ("mcp_error", 502),
    ("mcp_mrtr_rounds_exceeded", 422),
    ("mock_provider_forbidden", 403),
    ("node_config_invalid", 422),
    ("not_found", 404),
    ("oauth_provider_unsupported", 400),
    ("oauth_scope_unsupported", 400),
    ("pack_dependency_conflict", 409),
    ("pack_dependency_cycle", 400),
    ("pack_engine_unsupported", 400),
    ("pack_integrity_failure", 400),
    ("pack_integrity_mismatch", 409),
    ("pack_kind_invalid", 400),
    ("pack_load_failure", 500),
    ("pack_lockfile_incomplete", 400),
    ("pack_namespace_unauthorized", 403),
    ("pack_peer_dependency_missing", 400),
    ("pack_peer_dependency_undefined", 400),
    ("pack_registry_unreachable", 503),
    ("pack_runtime_requirement_unmet", 422),
    ("pack_signature_invalid", 400),
    ("pack_validation_failed", 400),
    ("pack_version_not_found", 404),
    ("payload_too_large", 413),
    ("payload_unprojectable", 500),
    ("proposal_install_conflict", 409),
    ("proposal_stale", 409),
    ("proposal_state_conflict", 409),
    ("protocol_version_mismatch", 400),
    ("protocol_version_unsupported", 406),
    ("provider_policy_denied", 422),
    ("rate_limited", 429),
    ("recursion_limit_exceeded", 422),
    ("replay_context_summary_unavailable", 409),
    ("replay_diverged_at_refusal", 409),
    ("replay_memory_snapshot_unavailable", 409),
    ("replay_source_missing", 404),
    ("residency_unavailable", 422),
    ("run_already_active", 409),
    ("run_expired", 410),
    ("run_forbidden", 403),
    ("run_state_conflict", 409),
    ("run_terminal", 409),
    ("run_timeout", 422),
    ("runner_unavailable", 503),
    ("sandbox_capability_denied", 403),
    ("sandbox_escape_attempt", 403),
    ("sandbox_invocation_error", 422),
    ("sandbox_memory_exceeded", 422),
    ("sandbox_timeout", 422),
    ("schedule_horizon_exceeded", 400),
    ("sender_constraint_missing", 401),
    ("service_unavailable", 503),
    ("signature_not_available", 404),
    ("storage_limit_exceeded", 422),
    ("sub_chain_cycle", 400),
    ("sub_chain_depth_exceeded", 400),
    ("token_budget_exceeded", 422),
    ("unauthenticated", 401),
    ("unknown_envelope_kind", 422),
    ("unknown_schema_version", 422),
    ("unsupported_media_type", 415),
    ("unsupported_runtime", 400),
    ("unsupported_stream_mode", 400),
    ("until_in_past", 400),
    ("upstream_unavailable", 502),
    ("validation_error", 400),
    ("version_conflict", 409),
    ("webhook_endpoint_unverified", 400),
    ("webhook_url_rejected", 400),
    ("workspace_conflict", 409),
    ("workspace_membership_required", 403),
    ("workspace_too_large", 413),
];

#[cfg(test)]
pub(crate) fn is_registered(code: &str, status: u16) -> bool {
    REGISTERED.contains(&(code, status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Code;

    /// V-32.
    #[test]
    fn every_code_of_this_host_is_registered_with_its_status_or_a_vendors() {
        for code in Code::ALL {
            let told = projected(code.name());
            let status = told.status.unwrap_or(code.status().as_u16());
            let fits = is_registered(&told.code, status)
                || is_vendors(&told.code)
                || KEPT.contains(&told.code.as_str());
            assert!(fits, "{}: {told:?} {status}", code.name());
        }
    }

    #[test]
    fn what_an_author_called_a_failure_becomes_a_vendors_code() {
        for (code, expected, is_altered) in [
            ("child_run_failed", "callboard.child_run_failed", false),
            ("My-Code", "callboard.my_code", true),
            ("7up", "callboard.code_7up", true),
            ("", "callboard.code_", true),
            ("acme-x.too_late", "acme-x.too_late", false),
            ("openwop.mine", "callboard.openwop_mine", true),
            ("approval_rejected", "approval_rejected", false),
        ] {
            let told = projected(code);
            assert_eq!((told.code.as_str(), told.is_altered), (expected, is_altered), "{code}");
        }
    }
}
