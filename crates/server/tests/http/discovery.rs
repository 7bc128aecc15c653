//! R1–R9: what anybody may ask of the host.

use std::collections::BTreeSet;

use callboard_protocol::{Capabilities, Contradiction, InstallScope, TriggerSource};
use callboard_server::ServerConfig;
use serde_json::{Value, json};

use crate::given::{Setup, TestHost, workflow};

pub(crate) async fn discovery(host: &TestHost) -> Value {
    let reply = host.get("/.well-known/openwop").anonymous().send().await;
    assert_eq!(reply.status, 200);
    reply.json
}

#[tokio::test]
async fn r1_anybody_reads_discovery() {
    let host = TestHost::start().await;
    let reply = host.get("/.well-known/openwop").anonymous().send().await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), "application/json");
    assert_eq!(reply.header("cache-control"), "public, max-age=300");
    for key in ["protocolVersion", "supportedEnvelopes", "schemaVersions", "limits"] {
        assert!(reply.json.get(key).is_some(), "{key}");
    }
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "the document is long")]
async fn r1_the_document_as_a_whole() {
    let host = TestHost::start().await;
    let mut document = discovery(&host).await;
    let mirror = document.as_object_mut().and_then(|fields| fields.remove("capabilities"));
    assert!(mirror.is_some());
    document["implementation"]["version"] = json!("[version]");
    insta::assert_json_snapshot!(document, @r#"
    {
      "agents": {
        "commitments": {
          "fireConditions": [
            "time",
            "predicate"
          ],
          "supported": true
        },
        "dispatch": true,
        "dispatchMapping": true,
        "manifestRuntime": {
          "handoffValidation": true,
          "installScope": "tenant",
          "supported": true
        },
        "memoryBackends": [
          "long-term"
        ],
        "memoryConsolidation": {
          "schedule": "host-managed",
          "supported": true
        },
        "orchestrator": true,
        "orgChart": {
          "departmentNesting": true,
          "installScope": "tenant",
          "responsibilityView": true,
          "supported": true
        },
        "roster": {
          "installScope": "tenant",
          "portfolioTriggerSources": [
            "schedule",
            "webhook",
            "queue",
            "email",
            "form",
            "callboard.heartbeat",
            "callboard.manual"
          ],
          "supported": true
        },
        "subRunAttestation": true,
        "supported": true
      },
      "auth": {
        "auditLogIntegrity": {
          "checkpointIntervalEntries": 1000,
          "checkpointIntervalSeconds": 300,
          "checkpointPublicKey": "MCowBQYDK2VwAyEAsn24wlgA9d1z2mDu8WXxI5FAxN7OtaCLtfyesyMajSg=",
          "checkpointSignatureAlgorithm": "ed25519",
          "hashChain": true
        },
        "profiles": [
          "openwop-audit-log-integrity"
        ]
      },
      "authorization": {
        "failClosed": true,
        "roles": [
          {
            "role": "viewer",
            "scopes": [
              "manifest:read",
              "runs:read",
              "artifacts:read",
              "workspace:read"
            ]
          },
          {
            "role": "approver",
            "scopes": [
              "manifest:read",
              "runs:read",
              "artifacts:read",
              "approvals:respond"
            ]
          },
          {
            "role": "operator",
            "scopes": [
              "manifest:read",
              "runs:read",
              "artifacts:read",
              "workspace:read",
              "runs:create",
              "runs:cancel",
              "workspace:write",
              "triggers:write",
              "webhooks:manage"
            ]
          },
          {
            "role": "author",
            "scopes": [
              "manifest:read",
              "runs:read",
              "artifacts:read",
              "workspace:read",
              "runs:create",
              "workflows:write",
              "roster:write"
            ]
          },
          {
            "role": "deployer",
            "scopes": [
              "manifest:read",
              "runs:read",
              "packs:install",
              "deploy:promote",
              "deploy:rollback",
              "deploy:pause"
            ]
          }
        ],
        "supported": true
      },
      "workspace": {
        "maxFileBytes": 262144,
        "maxFiles": 200,
        "supported": true,
        "versioned": true
      },
      "compliance": {
        "defaultMode": "mask"
      },
      "configurable": {
        "ai": {
          "description": "provider, model and credentialRef of every call of a model.",
          "type": "object"
        },
        "budget": {
          "description": "What the run may use: maxTokens, maxCostUsd, maxToolCalls, maxRetries, modelAllow, modelDeny, thresholdPercent, onExhaustion.",
          "type": "object"
        },
        "callboard.priority": {
          "description": "Which of the tenant's runs goes first where not all can be at work: low, normal or high.",
          "type": "string"
        },
        "escalationThreshold": {
          "description": "The confidence below which an agent's result waits for a person.",
          "max": 1,
          "min": 0,
          "type": "number"
        },
        "maxLoopIterations": {
          "description": "Turns of supervisors after which the run fails; more than the maximum counts as the maximum.",
          "max": 100,
          "min": 1,
          "type": "integer"
        },
        "maxTokens": {
          "description": "The longest answer of a call of a model, in tokens; more than the host's ceiling counts as that.",
          "min": 1,
          "type": "integer"
        },
        "mockProvider": {
          "description": "Answers AI calls from a script; test keys only.",
          "type": "object"
        },
        "model": {
          "description": "The model of every call: a name that the usual provider knows, or provider/model. ai.model goes before it.",
          "type": "string"
        },
        "promptOverrides": {
          "description": "Prompts that go before those of the nodes: kind to reference.",
          "type": "object"
        },
        "reasoningVerbosity": {
          "description": "How much of an agent's reasoning is recorded: summary, full or off.",
          "type": "string"
        },
        "recursionLimit": {
          "description": "Node executions after which the run fails; more than the maximum counts as the maximum.",
          "max": 100,
          "min": 1,
          "type": "integer"
        },
        "runTimeoutMs": {
          "description": "Milliseconds after which the run fails.",
          "max": 31536000000,
          "min": 1,
          "type": "integer"
        },
        "temperature": {
          "description": "Sent with every call of a model. Coding agents have none.",
          "max": 2,
          "min": 0,
          "type": "number"
        }
      },
      "conversationPrimitive": true,
      "deadLetter": {
        "supported": true
      },
      "debugBundle": {
        "supported": true
      },
      "discovery": {
        "authScoped": {
          "endpointPath": "/v1/host/callboard/capabilities",
          "mode": "extension-endpoint",
          "supported": true
        }
      },
      "dispatch": {
        "askUserRoutings": [
          "conversation",
          "clarification",
          "auto"
        ],
        "fanOutPolicies": [
          "sequential",
          "reject",
          "parallel"
        ],
        "fanOutSupported": true,
        "joinModes": [
          "wait-all",
          "quorum",
          "first",
          "race"
        ],
        "maxFanOut": 16,
        "models": [
          "child-run"
        ],
        "onChildFailureModes": [
          "collect",
          "fail-fast",
          "absorb"
        ],
        "perItemInput": true,
        "supported": true
      },
      "engineVersion": 1,
      "envelopes": {
        "reliability": {
          "completion": {
            "distinguishesTruncation": true,
            "truncationBudgetMultiplier": 2
          },
          "events": [
            "envelope.retry.attempted",
            "envelope.retry.exhausted",
            "envelope.refusal",
            "envelope.truncated",
            "envelope.nlToFormat.engaged",
            "envelope.recovery.applied"
          ],
          "maxRetryAttempts": 3,
          "supported": true
        }
      },
      "eventLogSchemaVersion": 2,
      "extensions": {
        "callboard": {
          "basePath": "/v1/host/callboard",
          "durableWebhooks": "on-request",
          "packs": {
            "degrade": [
              "host.agentRuntime"
            ]
          },
          "schedules": {
            "fields": [
              5,
              6
            ],
            "missedFirePolicies": [
              "skip",
              "fire-once",
              "fire-all"
            ],
            "mostCatchUps": 1,
            "overlap": [
              "skip",
              "allow",
              "queue",
              "cancel"
            ],
            "timezones": "iana"
          }
        },
        "interrupts": {
          "profiles": [
            "openwop-interrupt-quorum",
            "openwop-interrupt-auth-required",
            "openwop-interrupt-external-event",
            "openwop-interrupt-cascade-cancel"
          ],
          "signedCallbackTokens": true
        }
      },
      "feedback": {
        "signals": [
          "rating",
          "correction",
          "label",
          "flag"
        ],
        "supported": true,
        "targets": [
          "run",
          "event",
          "node"
        ]
      },
      "fixtures": [
        "chain",
        "chat",
        "fail",
        "noop",
        "strict",
        "wait"
      ],
      "heartbeat": {
        "maxRuntimeMs": 5000,
        "minIntervalSec": 10,
        "supported": true
      },
      "idempotency": {
        "crossRegion": "single-region",
        "layer1RetentionSeconds": 86400,
        "layer2RetentionSeconds": 1209600,
        "supported": true
      },
      "implementation": {
        "name": "callboard",
        "vendor": "callboard",
        "version": "[version]"
      },
      "interrupt": {
        "approverRouting": {
          "audience": false,
          "refKinds": [
            "role"
          ],
          "supported": true
        }
      },
      "limits": {
        "clarificationRounds": 3,
        "envelopesPerTurn": 5,
        "maxLoopIterations": 100,
        "maxNodeExecutions": 100,
        "maxRequestBodyBytes": 4194304,
        "maxRunDurationMs": 31536000000,
        "schemaRounds": 3
      },
      "memory": {
        "attribution": {
          "emitsWriteEvents": true,
          "supported": true
        },
        "compaction": {
          "maxOutputBytes": 65536,
          "supported": true,
          "trigger": "both"
        },
        "distillation": {
          "indexEmitted": false,
          "maxTokenBudget": 262144,
          "scheduled": true,
          "supported": true,
          "tokenizerName": "utf8-bytes-div-4"
        },
        "maxEntrySizeBytes": 65536,
        "retention": {
          "forget": true,
          "ttl": true
        },
        "search": {
          "modes": [
            "filter"
          ],
          "supported": true
        },
        "supported": true,
        "ttlSupported": true
      },
      "modelCapabilities": {
        "advertised": [
          "structured-output",
          "discriminator-enum",
          "long-context",
          "reasoning",
          "function-calling"
        ],
        "substitutionSupported": true,
        "supported": true
      },
      "multiAgent": {
        "executionModel": {
          "confidenceEscalationFloor": 0.5,
          "confidenceEscalationInterruptKind": "approval",
          "crossChildMemoryConcurrency": "strict",
          "crossHostCausation": {
            "ancestryEndpointSupported": true,
            "hostId": "callboard",
            "supported": true
          },
          "replayDeterminism": {
            "llmCacheKeyRecipe": "spec-rfc-0041",
            "refusalDivergenceEmission": true,
            "supported": true
          },
          "statefulResume": true,
          "supported": true,
          "transcriptWindow": 1000,
          "version": 5
        }
      },
      "observability": {
        "namespace": "openwop",
        "otel": {
          "exportProtocols": [
            "http/json",
            "http/protobuf"
          ]
        },
        "spanNames": [
          "openwop.run",
          "openwop.node.<typeId>",
          "openwop.node.<typeId>.attempt",
          "openwop.interrupt"
        ]
      },
      "orchestrator": {
        "fanOutSupported": true,
        "supported": true
      },
      "preferredVersion": "1.1",
      "production": {
        "backpressure": {
          "inflightCap": 4096,
          "retryAfterSeconds": 1,
          "supported": true
        },
        "debugBundle": {
          "supported": true,
          "truncationMetadata": true
        },
        "retention": {
          "minWindowSeconds": 604800,
          "supported": true
        },
        "supported": false
      },
      "prompts": {
        "agentBindings": true,
        "endpointsSupported": true,
        "maxTemplateBytes": 65536,
        "mutableLibrary": true,
        "observability": "hashed",
        "packsSupported": true,
        "supported": true,
        "templateKinds": [
          "system",
          "user",
          "few-shot",
          "schema-hint"
        ],
        "variableSources": [
          "input",
          "secret",
          "context"
        ]
      },
      "protocolVersion": "1.1",
      "protocolVersions": [
        "1.0",
        "1.1",
        "2.0"
      ],
      "providerUsage": {
        "costEstimates": true,
        "currency": "USD",
        "supported": true
      },
      "replay": {
        "modes": [
          "replay",
          "branch"
        ],
        "sideEffectSuppression": "recorded-outcome",
        "supported": true
      },
      "restTransport": {
        "conditionalRunGet": true,
        "contentEncodings": [
          "gzip"
        ]
      },
      "runs": {
        "pauseResume": {
          "drainPolicies": [
            "immediate",
            "drain-current-node"
          ],
          "supported": true
        }
      },
      "scheduling": {
        "calendar": false,
        "cron": true,
        "delayed": true,
        "maxFutureHorizon": "P1826D",
        "supported": true
      },
      "schemaVersions": {
        "clarification.request": 1,
        "error": 1,
        "schema.request": 1,
        "schema.response": 1
      },
      "secrets": {
        "resolution": "host-managed",
        "scopes": [
          "tenant"
        ],
        "supported": true
      },
      "subWorkflow": {
        "inputMapping": true
      },
      "supportedEnvelopes": [
        "clarification.request",
        "schema.request",
        "schema.response",
        "error"
      ],
      "supportedTransports": [
        "rest"
      ],
      "testing": {
        "forceEngineVersionRange": {
          "max": 2,
          "min": 0
        },
        "mockProviders": [
          "stream-text"
        ],
        "testKeyPrefix": "cbtest_"
      },
      "toolCatalog": {
        "sources": [],
        "supported": true
      },
      "triggerBridge": {
        "deadLetter": {
          "maxPageSize": 200,
          "retentionDays": 30
        },
        "dedup": true,
        "ingestion": {
          "externalSources": [
            "webhook",
            "email",
            "form"
          ],
          "inboundSigning": [
            "standard-webhooks-1"
          ],
          "maxBodyBytes": 4194304,
          "registrationEndpoint": true,
          "verification": [
            "webhook-signature"
          ]
        },
        "retryPolicy": {
          "backoff": "exponential",
          "maxAttempts": 5
        },
        "sources": [
          "webhook",
          "email",
          "form",
          "queue"
        ],
        "subscriptionStates": [
          "active",
          "paused",
          "failed",
          "dead-lettered"
        ],
        "supported": true
      },
      "webhooks": {
        "signatureAlgorithms": [
          "v1"
        ],
        "supported": true
      }
    }
    "#);
}

#[tokio::test]
async fn r2_limits_hold_no_key_beyond_the_schema() {
    let limits = discovery(&TestHost::start().await).await["limits"].clone();
    let known = [
        "clarificationRounds",
        "schemaRounds",
        "envelopesPerTurn",
        "maxNodeExecutions",
        "maxRunDurationMs",
        "maxLoopIterations",
        "maxBudgetTokens",
        "maxBudgetCostUsd",
        "maxRequestBodyBytes",
    ];
    let limits = limits.as_object().expect("an object");
    assert!(limits.keys().all(|key| known.contains(&key.as_str())), "{limits:?}");
    for key in &known[..3] {
        assert!(limits[*key].is_u64(), "{key}");
    }
}

/// Outcomes of outward calls go with their run.
#[tokio::test]
async fn no_outcome_is_promised_for_longer_than_its_run_is_kept() {
    let kept = |runs_kept_days| ServerConfig { runs_kept_days, ..ServerConfig::default() };
    for (days, promised) in [(None, 14), (Some(90), 14), (Some(7), 7)] {
        let document = discovery(&TestHost::configured(kept(days)).await).await;
        assert_eq!(document["idempotency"]["layer2RetentionSeconds"], promised * 86_400);
        assert_eq!(document["deadLetter"]["retentionDays"].as_u64(), days.map(u64::from));
    }
}

#[tokio::test]
async fn r3_versions_are_two_integers() {
    let document = discovery(&TestHost::start().await).await;
    let versions = document["protocolVersions"].as_array().expect("a list");
    assert!(versions.contains(&document["protocolVersion"]));
    for version in versions {
        let parts: Vec<&str> = version.as_str().expect("text").split('.').collect();
        assert_eq!(parts.len(), 2);
        assert!(
            parts
                .iter()
                .all(|part| part.parse::<u32>().is_ok_and(|number| number.to_string() == *part))
        );
    }
}

#[tokio::test]
async fn r4_families_stand_at_the_root_and_are_mirrored() {
    let document = discovery(&TestHost::start().await).await;
    let mirror = document["capabilities"].as_object().expect("the mirror");
    assert!(mirror.contains_key("production") && mirror.contains_key("runs"));
    for (family, value) in mirror {
        assert_eq!(&document[family], value, "{family}");
    }
}

#[tokio::test]
async fn r5_a_known_tag_is_answered_with_304() {
    let host = TestHost::start().await;
    let tag = host.get("/.well-known/openwop").anonymous().send().await.header("etag").to_owned();
    assert!(tag.starts_with('"'), "strong: {tag}");
    for sent in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}"), "*".to_owned()] {
        let reply = host.get("/.well-known/openwop").header("if-none-match", &sent).send().await;
        assert_eq!((reply.status, reply.bytes.len()), (304, 0), "{sent}");
        assert_eq!(reply.header("etag"), tag);
    }
    let reply = host.get("/.well-known/openwop").header("if-none-match", "\"other\"").send().await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn r6_the_negotiation_tag_changes_with_what_is_negotiated() {
    let tag = async |config: ServerConfig| {
        let host = TestHost::configured(config).await;
        let first = host.get("/.well-known/openwop").anonymous().send().await;
        let second = host.get("/.well-known/openwop").anonymous().send().await;
        assert_eq!(first.header("capabilities-etag"), second.header("capabilities-etag"));
        assert!(!first.header("capabilities-etag").is_empty());
        (first.header("capabilities-etag").to_owned(), first.header("etag").to_owned())
    };
    let plain = tag(ServerConfig::default()).await;
    let limited = tag(ServerConfig { max_body_bytes: 1000, ..ServerConfig::default() }).await;
    let newer = tag(ServerConfig { version: "9.9.9".to_owned(), ..ServerConfig::default() }).await;
    assert_ne!(plain.0, limited.0, "a limit is negotiated");
    assert_eq!(plain.0, newer.0, "the build's name is not");
    assert_ne!(plain.1, newer.1, "but it is part of the bytes");
}

#[tokio::test(start_paused = true)]
async fn r7_every_fixture_is_there_once_and_runs() {
    let host = TestHost::start().await;
    let document = discovery(&host).await;
    let fixtures: Vec<&str> =
        document["fixtures"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert_eq!(fixtures.iter().collect::<BTreeSet<_>>().len(), fixtures.len());
    assert!(!fixtures.contains(&"gated"), "what this host cannot run is no fixture");
    for fixture in fixtures {
        let run = host.run(fixture, json!({})).await;
        host.end_of(&run).await;
    }
}

#[tokio::test]
async fn r7_a_fixture_whose_tool_nobody_would_call_is_not_listed() {
    let fixture = |id: &str, config: Value| {
        let mut definition = workflow(id, &[("call", "core.ai.callPrompt")]);
        definition["nodes"][0]["config"] = config;
        definition["metadata"]["tags"] = json!(["conformance"]);
        definition
    };
    let calls = fixture("calls", json!({ "mcp": { "tool": "echo", "arguments": {} } }));
    let workflows = vec![calls, fixture("streams", json!({}))];
    let document = discovery(&TestHost::of(Setup { workflows, ..Setup::default() }).await).await;
    let fixtures = document["fixtures"].as_array().expect("a list");
    assert!(fixtures.contains(&json!("streams")) && !fixtures.contains(&json!("calls")));
}

#[tokio::test]
async fn r8_anybody_reads_the_openapi_document() {
    let reply = TestHost::start().await.get("/v1/openapi.json").anonymous().send().await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.json["openapi"], "3.1.0");
    assert_eq!(reply.json["servers"], json!([{ "url": "/" }]));
}

#[tokio::test]
async fn r9_paths_outside_of_both_majors_do_not_exist() {
    let host = TestHost::start().await;
    for path in ["/", "/console/x", "/.well-known/other"] {
        let refusal = host.get(path).anonymous().send().await;
        assert_eq!(refusal.refusal(), (404, "not_found"), "{path}");
    }
    for path in ["/v1", "/v1/", "/v1/nothing", "/v1/runs/", "/v1/runs//events", "/v2/runs"] {
        assert_eq!(host.get(path).send().await.refusal(), (404, "not_found"), "{path}");
    }
}

#[tokio::test]
async fn the_host_says_whether_it_lives_and_can_work() {
    use crate::given::Fault;
    let host = TestHost::start().await;
    for path in ["/healthz", "/ok", "/health"] {
        let reply = host.get(path).anonymous().send().await;
        assert_eq!(reply.json, json!({ "status": "ok" }), "{path}");
    }
    assert_eq!(host.get("/readyz").anonymous().send().await.json, json!({ "status": "ready" }));
    host.store.fail(Fault::Away);
    assert_eq!(host.get("/healthz").anonymous().send().await.status, 200);
    let reply = host.get("/readyz").anonymous().send().await;
    assert_eq!(reply.refusal(), (503, "service_unavailable"));
    assert_eq!(reply.json["details"]["retryAfter"].as_u64(), reply.retry_after());
    assert_eq!(host.get("/metrics").anonymous().send().await.status, 200);
}

/// A-22, and what else leans on something: said before the host answers, in a sentence.
#[tokio::test]
async fn an_advertisement_that_leans_on_nothing_is_found() {
    let host = TestHost::configured(ServerConfig::default().live()).await;
    let whole: Capabilities = serde_json::from_value(discovery(&host).await).expect("the document");
    assert_eq!(whole.check(), Ok(()));
    let refused = |change: fn(&mut Capabilities)| {
        let mut document = whole.clone();
        change(&mut document);
        document.check().expect_err("a contradiction")
    };
    let unfired = refused(|it| it.trigger_bridge.sources.retain(|it| *it != TriggerSource::Queue));
    let said =
        "agents.roster.portfolioTriggerSources names queue, and triggerBridge does not fire it";
    assert_eq!(unfired.to_string(), said);
    assert!(matches!(
        refused(|it| it.scheduling.cron = false),
        Contradiction::Unfired { source_name: TriggerSource::Schedule, needs: "scheduling" }
    ));
    assert!(matches!(
        refused(|it| it.heartbeat.supported = false),
        Contradiction::Unfired { source_name: TriggerSource::Heartbeat, .. }
    ));
    assert_eq!(refused(|it| it.scheduling.supported = false), Contradiction::CronWithoutScheduling);
    assert!(matches!(
        refused(|it| it.trigger_bridge.sources.retain(|it| *it != TriggerSource::Email)),
        Contradiction::Unbridged(TriggerSource::Email)
    ));
    assert_eq!(
        refused(|it| it.budget.iter_mut().for_each(|it| it.dimensions.clear())),
        Contradiction::BudgetOfNothing
    );
    for change in [
        |it: &mut Capabilities| it.agents.iter_mut().for_each(|it| it.roster = None),
        |it: &mut Capabilities| {
            let agents = it.agents.iter_mut();
            agents.for_each(|it| it.manifest_runtime.supported = false);
        },
        |it: &mut Capabilities| {
            let roster = it.agents.iter_mut().filter_map(|it| it.roster.as_mut());
            roster.for_each(|it| it.install_scope = InstallScope::Host);
        },
        |it: &mut Capabilities| {
            let chart = it.agents.iter_mut().filter_map(|it| it.org_chart.as_mut());
            chart.for_each(|it| it.install_scope = InstallScope::Host);
        },
    ] {
        assert!(matches!(refused(change), Contradiction::Roster(_)));
    }
}
