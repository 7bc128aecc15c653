//! Registries: which version is chosen, and what is refused before anything is fetched.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use callboard_agents::{Announced, Fetch, FetchError, PackError, Registry, Sri};
use callboard_protocol::PackName;
use serde_json::{Value, json};

use crate::given::{NAME, good};

/// A registry in memory that remembers what it was asked for.
#[derive(Debug, Default)]
struct Shelf {
    files: BTreeMap<String, Vec<u8>>,
    asked: Mutex<Vec<String>>,
}

impl Shelf {
    fn with(mut self, path: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.insert(format!("https://packs.example{path}"), bytes.into());
        self
    }

    fn with_versions(self, versions: &[(&str, bool)]) -> Self {
        let versions: Vec<Value> = versions
            .iter()
            .map(|(version, yanked)| json!({ "version": version, "yanked": yanked }))
            .collect();
        let index = json!({ "name": NAME, "versions": versions, "latest": "0.0.1" });
        self.with(&format!("/v1/packs/{NAME}/index.json"), index.to_string())
    }

    async fn open(&self) -> Registry<'_> {
        Registry::open(self, "https://packs.example/").await.unwrap()
    }

    fn asked_for(&self, ending: &str) -> bool {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.iter().any(|url| url.ends_with(ending))
    }
}

#[async_trait]
impl Fetch for Shelf {
    async fn get(&self, url: &str) -> Result<Vec<u8>, FetchError> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(url.to_owned());
        self.files.get(url).cloned().ok_or(FetchError::NotFound)
    }
}

fn name() -> PackName {
    NAME.parse().unwrap()
}

fn manifest(change: impl FnOnce(&mut Value)) -> String {
    let mut manifest = good().manifest;
    manifest["integrity"] = json!(Sri::of(&good().archive()).as_str());
    change(&mut manifest);
    manifest.to_string()
}

#[tokio::test]
async fn the_highest_version_that_was_not_withdrawn_is_chosen() {
    for (versions, expected) in [
        (vec![("1.0.9", false), ("1.0.10", false), ("1.0.2", false)], Some("1.0.10")),
        (vec![("1.0.0", false), ("2.0.0", true)], Some("1.0.0")),
        (vec![("1.0.0", false), ("2.0.0-rc.1", false)], Some("1.0.0")),
        (vec![("2.0.0-rc.1", false), ("2.0.0-rc.2", false)], Some("2.0.0-rc.2")),
        (vec![("1.0.0", true)], None),
    ] {
        let shelf = Shelf::default().with_versions(&versions);
        let found = shelf.open().await.latest(&name()).await;
        match expected {
            Some(expected) => assert_eq!(found.unwrap().as_str(), expected),
            None => assert_eq!(found.unwrap_err().code(), "pack_version_not_found"),
        }
    }
}

#[tokio::test]
async fn a_version_comes_with_its_digest_and_its_signature() {
    let base = format!("/v1/packs/{NAME}/-/1.0.0");
    let shelf = Shelf::default()
        .with(&format!("{base}.json"), manifest(|_| {}))
        .with(&format!("{base}.tgz"), good().archive().to_vec())
        .with(&format!("{base}.sig"), [3; 64]);
    let offer = shelf.open().await.download(&name(), &"1.0.0".parse().unwrap()).await.unwrap();
    assert_eq!(offer.archive, good().archive());
    let announced = Announced::Registry(Sri::of(&good().archive()).to_string());
    assert_eq!(offer.integrity, Some(announced));
    assert_eq!(offer.signature.as_deref(), Some([3; 64].as_slice()));
}

#[tokio::test]
async fn a_withdrawn_version_is_not_even_fetched() {
    let base = format!("/v1/packs/{NAME}/-/1.0.0");
    let yanked = manifest(|manifest| {
        manifest["yanked"] = json!(true);
        manifest["yankedReason"] = json!("the prompt is missing");
    });
    let shelf = Shelf::default()
        .with(&format!("{base}.json"), yanked)
        .with(&format!("{base}.tgz"), good().archive().to_vec());
    let error = shelf.open().await.download(&name(), &"1.0.0".parse().unwrap()).await.unwrap_err();
    assert!(
        matches!(&error, PackError::Yanked { reason, .. } if reason == "the prompt is missing")
    );
    assert!(!shelf.asked_for(".tgz"));
}

#[tokio::test]
async fn an_answer_about_something_else_is_refused() {
    for (field, value) in [("name", "vendor.acme.other"), ("version", "1.0.1")] {
        let other = manifest(|manifest| manifest[field] = json!(value));
        let shelf = Shelf::default().with(&format!("/v1/packs/{NAME}/-/1.0.0.json"), other);
        let registry = shelf.open().await;
        let error = registry.download(&name(), &"1.0.0".parse().unwrap()).await.unwrap_err();
        assert_eq!(error.code(), "manifest_mismatch");
    }
}

#[tokio::test]
async fn what_is_not_there_is_named() {
    let shelf = Shelf::default().with(&format!("/v1/packs/{NAME}/-/2.0.0.json"), "no json");
    let registry = shelf.open().await;
    assert!(matches!(registry.latest(&name()).await.unwrap_err(), PackError::Unknown { .. }));
    let missing = registry.download(&name(), &"1.0.0".parse().unwrap()).await.unwrap_err();
    assert_eq!(missing.code(), "pack_version_not_found");
    let broken = registry.download(&name(), &"2.0.0".parse().unwrap()).await.unwrap_err();
    assert_eq!(broken.code(), "pack_fetch_failed");
    assert_eq!(registry.names().await.unwrap(), None);
}

#[tokio::test]
async fn a_registry_says_where_it_keeps_things_but_not_on_another_host() {
    let discovery = json!({ "endpoints": {
        "packMetadata": "/p/{name}.json",
        "registryIndex": "https://evil.example/index.json"
    } });
    let index = json!({ "versions": [{ "version": "1.0.0" }] });
    let shelf = Shelf::default()
        .with("/.well-known/openwop-registry.json", discovery.to_string())
        .with(&format!("/p/{NAME}.json"), index.to_string())
        .with("/v1/index.json", json!({ "packs": [{ "name": NAME }] }).to_string());
    let registry = shelf.open().await;
    assert_eq!(registry.latest(&name()).await.unwrap().as_str(), "1.0.0");
    assert_eq!(registry.names().await.unwrap(), Some(vec![name()]));
    assert!(!shelf.asked_for("evil.example/index.json"));
}
