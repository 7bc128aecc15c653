//! The published packs of the OpenWOP registry, where a copy of it is at hand.

use std::sync::Arc;

use callboard_agents::{
    AgentRegistry, FolderRegistry, Host, Installed, Outcome, Policy, Registry, Signature,
    Verification, verify,
};
use callboard_engine::{InMemoryStore, KeyMode, PackOwner, Realm};
use callboard_protocol::{AgentInventory, PackName, Timestamp};

use crate::openwop::{openwop, schema};

/// Every version of every pack, judged by the given policy.
async fn every_version(
    folder: &FolderRegistry,
    policy: &Policy,
) -> Vec<(PackName, String, Verification)> {
    let registry = Registry::open(folder, "").await.unwrap();
    let mut found = Vec::new();
    for name in folder.names().unwrap() {
        for version in registry.versions(&name).await.unwrap() {
            let offer = registry.download(&name, &version).await;
            found.push((name.clone(), version.to_string(), verify(offer, policy)));
        }
    }
    found
}

pub(crate) async fn latest_versions(
    folder: &FolderRegistry,
    policy: &Policy,
) -> Vec<(PackName, Verification)> {
    let registry = Registry::open(folder, "").await.unwrap();
    let mut found = Vec::new();
    for name in folder.names().unwrap() {
        let version = registry.latest(&name).await.unwrap();
        found.push((name.clone(), verify(registry.download(&name, &version).await, policy)));
    }
    found
}

#[tokio::test]
async fn every_latest_version_is_proven_and_all_but_one_install() {
    let Some(openwop) = openwop() else { return };
    let folder = FolderRegistry::new(openwop.join("registry"));
    let found = latest_versions(&folder, &Policy::default()).await;
    assert_eq!(found.len(), 24);
    let mut refused = Vec::new();
    for (name, verification) in &found {
        for check in ["integrity", "archive", "manifest", "signature", "agents"] {
            let line = verification.report.checks.iter().find(|line| line.check == check).unwrap();
            assert_eq!(line.outcome, Outcome::Passed, "{name}: {line:?}");
        }
        match &verification.result {
            Ok(vetted) => {
                assert_eq!(vetted.signature, Signature::Good { key: "openwop-team-1".to_owned() });
            }
            Err(error) => {
                assert_eq!(error.code(), "pack_peer_dependency_missing", "{name}");
                let short = name.as_str().strip_prefix("core.openwop.agents.").unwrap();
                refused.push((short, error.required_capability().unwrap()));
            }
        }
    }
    assert_eq!(refused, [("devops-crew", "host.fs")]);
}

#[tokio::test]
async fn old_versions_are_proven_too_and_withdrawn_ones_are_refused() {
    let Some(openwop) = openwop() else { return };
    let folder = FolderRegistry::new(openwop.join("registry"));
    let found = every_version(&folder, &Policy::default()).await;
    assert_eq!(found.len(), 41);
    let (withdrawn, rest): (Vec<_>, Vec<_>) = found.into_iter().partition(|(_, _, it)| {
        it.report.checks.first().is_some_and(|line| line.check == "version")
    });
    for (name, version, verification) in &rest {
        let signature = verification.report.checks.iter().find(|line| line.check == "signature");
        assert_eq!(signature.unwrap().outcome, Outcome::Passed, "{name} {version}");
    }
    let withdrawn: Vec<_> = withdrawn
        .iter()
        .map(|(name, version, it)| {
            let error = it.result.as_ref().unwrap_err().to_string();
            assert!(error.contains("was yanked by its publisher"), "{error}");
            format!("{name} {version}")
        })
        .collect();
    assert_eq!(
        withdrawn,
        [
            "core.openwop.agents.deep-research 1.0.0",
            "core.openwop.agents.react 1.0.0",
            "core.openwop.agents.supervisor 1.0.0"
        ]
    );
}

#[tokio::test]
async fn a_host_without_memory_lets_in_what_its_operator_says() {
    let Some(openwop) = openwop() else { return };
    let folder = FolderRegistry::new(openwop.join("registry"));
    let mut host = Host::default();
    host.capabilities.remove("agents.memoryBackends");
    let policy = Policy { host: host.clone(), ..Policy::default() };
    let refused = latest_versions(&folder, &policy).await;
    assert_eq!(refused.iter().filter(|(_, it)| it.result.is_err()).count(), 8);
    host.degrade.insert("agents.memoryBackends".to_owned());
    let policy = Policy { host, ..Policy::default() };
    let found = latest_versions(&folder, &policy).await;
    let refused: Vec<&str> =
        found.iter().filter(|(_, it)| it.result.is_err()).map(|(name, _)| name.as_str()).collect();
    assert_eq!(refused, ["core.openwop.agents.devops-crew"]);
}

#[tokio::test]
async fn the_inventory_of_published_packs_matches_its_schema() {
    let Some(openwop) = openwop() else { return };
    let folder = FolderRegistry::new(openwop.join("registry"));
    let at = Timestamp::from_millis(0);
    let installed = latest_versions(&folder, &Policy::default())
        .await
        .into_iter()
        .filter_map(|(_, it)| it.result.ok())
        .map(|vetted| Installed::new(PackOwner::Host, vetted, at));
    let store = Arc::<InMemoryStore>::default();
    let (registry, _) =
        AgentRegistry::open(store, Policy::default(), installed.collect()).await.unwrap();

    let acme = Realm { tenant: "acme".into(), mode: KeyMode::Live };
    let inventory: AgentInventory = registry.snapshot().list(&acme).into();
    let ids: Vec<_> = inventory.agents.iter().map(|entry| entry.agent_id.clone()).collect();
    assert_eq!(ids.len(), 28);
    assert!(ids.is_sorted());
    let body = serde_json::to_value(&inventory).unwrap();
    let schema = schema(&openwop, "agent-inventory-response.schema.json");
    let errors: Vec<String> = schema.iter_errors(&body).map(|error| error.to_string()).collect();
    assert_eq!(errors, [""; 0]);
    for entry in &inventory.agents {
        assert!(entry.degraded.is_empty() || entry.degraded == ["host.agentRuntime"]);
    }
}
