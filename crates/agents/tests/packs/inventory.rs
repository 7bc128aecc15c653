//! The registry of agents: who sees what, which version wins, and what a new process finds.

use std::sync::Arc;

use callboard_agents::{
    AgentRegistry, Deployment, Draw, InstallError, Installed, Left, Offer, Policy, SigningKey,
    Snapshot, TrustedKey, TrustedKeys, Unsigned, pin, sign,
};
use callboard_core::AgentPin;
use callboard_engine::{InMemoryStore, KeyMode, PackId, PackOwner, Packs, PutPack, Realm};
use callboard_protocol::{AgentId, AgentRef, Timestamp};
use serde_json::json;

use crate::given::{Draft, NAME, good};

/// When everything is installed here.
fn at() -> Timestamp {
    Timestamp::from_millis(1_000)
}

fn realm(tenant: &str) -> Realm {
    Realm { tenant: tenant.into(), mode: KeyMode::Live }
}

fn tenant(name: &str) -> PackOwner {
    PackOwner::Realm(realm(name))
}

fn triager() -> AgentId {
    "vendor.acme.desk.triager".into()
}

fn version(text: &str) -> Draft {
    let mut draft = good();
    draft.manifest["version"] = json!(text);
    draft
}

async fn open(store: &Arc<InMemoryStore>) -> AgentRegistry {
    let (registry, left) =
        AgentRegistry::open(store.clone(), Policy::default(), Vec::new()).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
    registry
}

async fn install(
    registry: &AgentRegistry,
    owner: PackOwner,
    draft: &Draft,
) -> Result<PutPack, InstallError> {
    let offer = Offer::plain(draft.archive());
    registry.install(owner, offer, Unsigned::Allowed, at()).await.map(|(_, put)| put)
}

/// What the tenant gets when it names no version, in the list and by id.
fn seen(registry: &AgentRegistry, name: &str) -> Option<String> {
    let (snapshot, realm) = (registry.snapshot(), realm(name));
    let found = snapshot.find(&realm, &triager(), None).map(|agent| agent.version().to_string());
    let listed = snapshot.list(&realm).into_iter().map(|entry| entry.pack_version.to_string());
    assert_eq!(listed.collect::<Vec<_>>(), Vec::from_iter(found.clone()), "one rule for all");
    found
}

#[tokio::test]
async fn the_highest_version_wins_and_the_others_stay() {
    let registry = open(&Arc::default()).await;
    for text in ["1.0.9", "1.0.10", "1.1.0-beta", "1.0.2"] {
        assert_eq!(
            install(&registry, tenant("acme"), &version(text)).await.unwrap(),
            PutPack::Created
        );
    }
    assert_eq!(seen(&registry, "acme").as_deref(), Some("1.1.0-beta"));
    let snapshot = registry.snapshot();
    for text in ["1.0.9", "1.0.10", "1.0.2"] {
        let pinned = snapshot.find(&realm("acme"), &triager(), Some(&text.parse().unwrap()));
        assert_eq!(pinned.map(|agent| agent.version().as_str()), Some(text));
    }
    let gone = snapshot.find(&realm("acme"), &triager(), Some(&"9.9.9".parse().unwrap()));
    assert!(gone.is_none());
}

#[tokio::test]
async fn a_tenant_sees_its_own_and_the_hosts() {
    let registry = open(&Arc::default()).await;
    install(&registry, tenant("acme"), &version("2.0.0")).await.unwrap();
    assert_eq!(seen(&registry, "acme").as_deref(), Some("2.0.0"));
    assert_eq!(seen(&registry, "globex"), None);
    install(&registry, PackOwner::Host, &version("1.0.0")).await.unwrap();
    assert_eq!(seen(&registry, "acme").as_deref(), Some("2.0.0"));
    assert_eq!(seen(&registry, "globex").as_deref(), Some("1.0.0"));
    let foreign = registry.snapshot();
    let foreign = foreign.find(&realm("globex"), &triager(), Some(&"2.0.0".parse().unwrap()));
    assert!(foreign.is_none(), "also not by its version");
}

#[tokio::test]
async fn a_version_means_one_thing() {
    let registry = open(&Arc::default()).await;
    install(&registry, tenant("acme"), &good()).await.unwrap();
    assert_eq!(install(&registry, tenant("acme"), &good()).await.unwrap(), PutPack::Unchanged);
    let mut other = good();
    other.file("README.md", "changed");
    let code = |result: Result<PutPack, InstallError>| match result {
        Err(InstallError::Refused(error)) => error.code(),
        other => panic!("{other:?}"),
    };
    assert_eq!(code(install(&registry, tenant("acme"), &other).await), "version_conflict");
    assert_eq!(install(&registry, tenant("globex"), &other).await.unwrap(), PutPack::Created);

    install(&registry, PackOwner::Host, &version("3.0.0")).await.unwrap();
    let mut shadow = version("3.0.0");
    shadow.file("README.md", "changed");
    assert_eq!(code(install(&registry, tenant("acme"), &shadow).await), "version_conflict");
}

/// A bad version can be taken back and come again as it should be; whoever began with the bad one keeps it.
#[tokio::test]
async fn a_removed_version_can_be_replaced_and_runs_keep_what_they_began_with() {
    let store = Arc::<InMemoryStore>::default();
    let registry = open(&store).await;
    install(&registry, tenant("acme"), &good()).await.unwrap();
    let id = PackId {
        owner: tenant("acme"),
        name: NAME.parse().unwrap(),
        version: "1.0.0".parse().unwrap(),
    };
    let wanted: AgentRef = serde_json::from_value(json!({ "agentId": triager() })).unwrap();
    let pinned = |registry: &AgentRegistry| {
        let snapshot = registry.snapshot();
        pin(&snapshot, &realm("acme"), &Deployment::default(), &wanted, Draw::new(0)).unwrap()
    };
    let before = pinned(&registry);
    assert!(registry.remove(&id).await.unwrap());
    let mut other = good();
    other.file("prompts/triager.md", "Sort it well.");
    assert_eq!(install(&registry, tenant("acme"), &other).await.unwrap(), PutPack::Created);
    let conflict = install(&registry, tenant("acme"), &good()).await.unwrap_err();
    assert!(conflict.to_string().contains("other contents"), "{conflict}");

    let again = open(&store).await;
    for registry in [&registry, &again] {
        let directory = registry.snapshot();
        let after = pinned(registry);
        assert_eq!((&before.version, &after.version), (&after.version, &before.version));
        assert_ne!(before.integrity, after.integrity);
        let prompt = |pin: &AgentPin| {
            directory.find_kept(&realm("acme"), pin).map(|it| it.agent.prompt.to_string())
        };
        assert_eq!(prompt(&before).as_deref(), Some("Sort it."));
        assert_eq!(prompt(&after).as_deref(), Some("Sort it well."));
        let unsaid = AgentPin { integrity: None, ..before.clone() };
        assert_eq!(prompt(&unsaid).as_deref(), Some("Sort it."), "a record from before");
        let strange = AgentPin { integrity: Some("sha256-none".to_owned()), ..before.clone() };
        assert_eq!(prompt(&strange), None, "never other contents");
        assert_eq!(directory.packs(&realm("acme")).count(), 1);
    }
    // What the host brings is packed anew at every start.
    let mut edited = good();
    edited.file("prompts/triager.md", "Sort it anew.");
    let brought = Installed::new(PackOwner::Host, edited.vet().unwrap(), at());
    let snapshot = Snapshot::new([brought]);
    let kept = snapshot.find_kept(&realm("acme"), &before).unwrap();
    assert_eq!(&*kept.agent.prompt, "Sort it anew.");
}

#[tokio::test]
async fn two_installs_at_once_make_one() {
    let registry = open(&Arc::default()).await;
    let draft = good();
    let (one, two) = tokio::join!(
        install(&registry, tenant("acme"), &draft),
        install(&registry, tenant("acme"), &draft),
    );
    let mut puts = [one.unwrap(), two.unwrap()];
    puts.sort_by_key(|put| *put == PutPack::Unchanged);
    assert_eq!(puts, [PutPack::Created, PutPack::Unchanged]);
    assert_eq!(registry.snapshot().packs(&realm("acme")).count(), 1);
}

#[tokio::test]
async fn a_refused_pack_changes_nothing() {
    let store = Arc::<InMemoryStore>::default();
    let registry = open(&store).await;
    install(&registry, tenant("acme"), &good()).await.unwrap();
    let mut bad = version("2.0.0");
    bad.agent()["systemPromptRef"] = json!("../x");
    install(&registry, tenant("acme"), &bad).await.unwrap_err();
    let unsigned = Offer::plain(version("2.0.0").archive());
    registry.install(tenant("acme"), unsigned, Unsigned::Refused, at()).await.unwrap_err();
    assert_eq!(seen(&registry, "acme").as_deref(), Some("1.0.0"));
    assert_eq!(Packs::new(store.clone()).all_packs().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_run_keeps_the_agents_that_it_began_with() {
    let registry = open(&Arc::default()).await;
    install(&registry, tenant("acme"), &good()).await.unwrap();
    let before = registry.snapshot();
    install(&registry, tenant("acme"), &version("2.0.0")).await.unwrap();
    let id = PackId {
        owner: tenant("acme"),
        name: NAME.parse().unwrap(),
        version: "1.0.0".parse().unwrap(),
    };
    assert!(registry.remove(&id).await.unwrap());
    assert!(!registry.remove(&id).await.unwrap());
    let kept = before.find(&realm("acme"), &triager(), None).unwrap();
    assert_eq!((kept.version().as_str(), &*kept.agent.prompt), ("1.0.0", "Sort it."));
    assert_eq!(seen(&registry, "acme").as_deref(), Some("2.0.0"));
}

#[tokio::test]
async fn a_new_process_finds_what_was_installed() {
    let store = Arc::<InMemoryStore>::default();
    let registry = open(&store).await;
    install(&registry, tenant("acme"), &version("1.0.0")).await.unwrap();
    install(&registry, PackOwner::Host, &version("0.9.0")).await.unwrap();
    let again = open(&store).await;
    for name in ["acme", "globex"] {
        assert_eq!(again.snapshot().list(&realm(name)), registry.snapshot().list(&realm(name)));
    }
}

#[tokio::test]
async fn a_stored_pack_that_was_changed_is_left_out() {
    let store = Arc::<InMemoryStore>::default();
    let registry = open(&store).await;
    registry
        .install(tenant("acme"), Offer::plain(good().archive()), Unsigned::Allowed, at())
        .await
        .unwrap();
    let mut stored = Packs::new(store.clone()).all_packs().await.unwrap().remove(0);
    let mut other = good();
    other.file("prompts/triager.md", "Obey me.");
    let store = Arc::<InMemoryStore>::default();
    Packs::new(store.clone()).put_pack(stored.clone(), other.archive()).await.unwrap();
    assert_eq!(left(&store, Policy::default()).await, ["pack_load_failure"]);

    // A digest that was changed along with the archive does not help: every file has its own.
    let store = Arc::<InMemoryStore>::default();
    stored.digest = sha2_of(&other.archive());
    Packs::new(store.clone()).put_pack(stored, other.archive()).await.unwrap();
    assert_eq!(left(&store, Policy::default()).await, ["pack_load_failure"]);
}

fn sha2_of(bytes: &[u8]) -> [u8; 32] {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).into()
}

async fn left(store: &Arc<InMemoryStore>, policy: Policy) -> Vec<&'static str> {
    let (_, left) = AgentRegistry::open(store.clone(), policy, Vec::new()).await.unwrap();
    left.into_iter().map(|Left { why, .. }| why.code()).collect()
}

#[tokio::test]
async fn a_key_that_is_trusted_no_more_lets_nothing_in() {
    let store = Arc::<InMemoryStore>::default();
    let key = SigningKey::from_seed([7; 32]);
    let trusted = TrustedKey::parse("acme-1", &key.public_pem(), &["vendor.acme.*"]).unwrap();
    let policy = Policy { keys: TrustedKeys::none().with(trusted), ..Policy::default() };
    let (registry, _) =
        AgentRegistry::open(store.clone(), policy.clone(), Vec::new()).await.unwrap();
    let signed = sign(good().archive(), &key, "acme-1").unwrap();
    let offer = Offer::plain(signed.archive.into());
    registry.install(tenant("acme"), offer, Unsigned::Refused, at()).await.unwrap();
    assert_eq!(left(&store, policy).await, [""; 0]);
    assert_eq!(left(&store, Policy::default()).await, ["pack_signature_unverifiable"]);
}

#[tokio::test]
async fn what_the_host_was_given_is_there_for_everybody() {
    let loaded = Installed::new(PackOwner::Host, good().vet().unwrap(), at());
    let (registry, _) =
        AgentRegistry::open(Arc::<InMemoryStore>::default(), Policy::default(), vec![loaded])
            .await
            .unwrap();
    assert_eq!(seen(&registry, "acme").as_deref(), Some("1.0.0"));
    let pages = registry.snapshot();
    assert_eq!(
        serde_json::to_value(pages.catalog(&realm("acme"), None, 200)).unwrap(),
        json!({ "packs": [{ "name": NAME, "version": "1.0.0", "latest": "1.0.0", "verified": false,
            "agents": good().manifest["agents"] }] })
    );
    assert_eq!(
        serde_json::to_value(pages.export(&realm("acme"))).unwrap(),
        json!({ "manifests": [
            { "agentId": triager(), "modelClass": "classification", "sourceManifestId": triager() }
        ] })
    );
}

#[tokio::test]
async fn an_entry_shows_what_is_degraded_and_hides_what_is_not_for_readers() {
    let registry = open(&Arc::default()).await;
    let mut draft = good();
    draft.manifest["peerDependencies"] = json!({ "host.agentRuntime": "supported" });
    install(&registry, tenant("acme"), &draft).await.unwrap();
    let entries = registry.snapshot().list(&realm("acme"));
    assert_eq!(
        serde_json::to_value(&entries).unwrap(),
        json!([{
            "agentId": triager(),
            "persona": "Triager",
            "label": "Triager",
            "description": "Sorts what comes in.",
            "modelClass": "classification",
            "packName": NAME,
            "packVersion": "1.0.0",
            "toolAllowlist": ["openwop:core.http.fetch"],
            "hasHandoffSchemas": true,
            "memoryShape": { "scratchpad": true, "longTerm": false },
            "confidenceThreshold": 0.7,
            "degraded": ["host.agentRuntime"]
        }])
    );
}

/// the flag is there with the dimensions, and neither without the other.
#[tokio::test]
async fn a35_memory_that_an_agent_goes_without_shows_in_its_entry() {
    let registry = open(&Arc::default()).await;
    let mut draft = good();
    draft.manifest["peerDependencies"] = json!({ "agents.memoryBackends": ">=replicated" });
    draft.manifest["peerDependenciesMeta"] =
        json!({ "agents.memoryBackends": { "optional": true } });
    install(&registry, tenant("acme"), &draft).await.unwrap();
    draft.agent()["memoryShape"]["longTerm"] = json!(true);
    install(&registry, tenant("globex"), &draft).await.unwrap();
    let entry = |tenant: &str| {
        serde_json::to_value(registry.snapshot().list(&realm(tenant))).unwrap()[0].clone()
    };
    let (content, forgetful) = (entry("acme"), entry("globex"));
    assert_eq!(forgetful["memoryDegraded"], true);
    assert_eq!(forgetful["degradedMemoryDimensions"], json!(["long-term-durability"]));
    for field in ["memoryDegraded", "degradedMemoryDimensions"] {
        assert!(content.get(field).is_none(), "an agent that wants none goes without none");
    }
}
