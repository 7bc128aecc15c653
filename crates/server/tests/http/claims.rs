//! What discovery claims and to whom: profiles of the protocol, and the view of one key.

use callboard_protocol::{EgressDecision, EgressPolicyCapability, HttpClientCapability, Supported};
use callboard_server::{ServerConfig, Tools};
use serde_json::json;

use crate::discovery::discovery;
use crate::given::{Setup, TestHost};

/// RFC 0011: what a key can do nothing with, its discovery does not tell of.
#[tokio::test]
async fn a_key_sees_what_of_the_host_it_can_use() {
    const SCOPED: &str = "/v1/host/callboard/capabilities";
    let host = TestHost::of(Setup {
        keys: &["cb_live=acme", "cb_viewer=acme+role:viewer", "cb_hooks=acme+webhooks:manage"],
        ..Setup::default()
    })
    .await;
    let public = discovery(&host).await;
    let place = json!({ "supported": true, "mode": "extension-endpoint", "endpointPath": SCOPED });
    assert_eq!(public["discovery"]["authScoped"], place);
    assert_eq!(host.get(SCOPED).send().await.json, public, "this key may do everything");
    assert_eq!(host.get(SCOPED).anonymous().send().await.status, 401);
    assert_eq!(host.get(SCOPED).key("cb_hooks").send().await.status, 403);
    let seen = host.get(SCOPED).key("cb_viewer").send().await.json;
    for family in ["webhooks", "secrets", "replay"] {
        assert!(public.get(family).is_some(), "{family}");
        assert!(seen.get(family).is_none(), "{family}");
        assert!(seen["capabilities"].get(family).is_none(), "{family}");
    }
    for kept in ["workspace", "protocolVersion", "supportedEnvelopes", "schemaVersions", "limits"] {
        assert_eq!(seen[kept], public[kept], "{kept}");
    }
}

/// The production profile: at least a week, or no claim.
#[tokio::test]
async fn a_claim_about_retention_is_a_week_or_more() {
    for (kept, retention) in [
        (None, json!({ "supported": true, "minWindowSeconds": 604_800 })),
        (Some(30), json!({ "supported": true, "minWindowSeconds": 2_592_000 })),
        (Some(6), json!({ "supported": false })),
    ] {
        let config = ServerConfig { runs_kept_days: kept, ..ServerConfig::default() };
        let document = discovery(&TestHost::configured(config).await).await;
        assert_eq!(document["production"]["retention"], retention, "{kept:?}");
        assert_eq!(document["production"]["supported"], false);
    }
}

/// RFC 0085 §B: what a platform for agents offers, read as the protocol reads it.
#[tokio::test]
async fn a_live_host_with_a_guard_is_an_agent_platform_in_full() {
    let guard = HttpClientCapability {
        supported: true,
        ssrf_guard: true,
        max_response_body_bytes: 1,
        request_timeout_ms: 1,
        methods: vec!["GET".to_owned()],
        safe_fetch: Supported { supported: true },
        egress_policy: EgressPolicyCapability {
            supported: true,
            decisions: vec![EgressDecision::Allowed, EgressDecision::Denied],
        },
    };
    let tools = Tools { http_client: Some(guard), ..Tools::default() };
    let config = ServerConfig::default().live();
    let host = TestHost::of(Setup { config, tools, is_live: true, ..Setup::default() }).await;
    let document = discovery(&host).await;
    for term in [
        "/agents/manifestRuntime",
        "/agents/liveRuntime",
        "/toolCatalog",
        "/toolHooks",
        "/httpClient/safeFetch",
        "/providerUsage",
        "/prompts",
        "/memory",
        "/feedback",
        "/replay",
        "/authorization",
        "/memory/attribution",
        "/debugBundle",
        "/triggerBridge",
        "/httpClient/egressPolicy",
    ] {
        let supported = document.pointer(&format!("{term}/supported"));
        assert_eq!(supported, Some(&json!(true)), "{term}");
    }
    assert_eq!(document["agents"]["manifestRuntime"]["installScope"], "tenant");
    assert_eq!(document["authorization"]["failClosed"], true);
}
