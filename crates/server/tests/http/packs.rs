//! Packs over HTTP, and the agents that come in them.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use axum::http::Method;
use callboard_agents::{
    Fetch, FetchError, Installed, Limits, Offer, Policy, Report, SigningKey, Sri, Unsigned, bundle,
    scaffold, sign, vet,
};
use callboard_engine::PackOwner;
use callboard_protocol::Timestamp;
use callboard_server::{Code, ServerConfig};
use serde_json::{Value, json};

use crate::given::{LIVE, READER, RIVAL, Reply, Setup, TestHost, publisher, workflow};

const PACKS: &str = "/v1/host/callboard/packs";
const AGENT: &str = "/v1/agents/vendor.acme.desk.assistant";

/// The scaffold with its manifest changed, as an archive.
fn archive(change: impl FnOnce(&mut Value)) -> Arc<[u8]> {
    let files = scaffold(&"vendor.acme.desk".parse().expect("a name"));
    let mut manifest: Value = serde_json::from_str(&files["pack.json"]).expect("JSON");
    change(&mut manifest);
    let mut files: BTreeMap<String, Arc<[u8]>> =
        files.into_iter().map(|(path, text)| (path.to_owned(), text.into_bytes().into())).collect();
    files.insert("pack.json".to_owned(), manifest.to_string().into_bytes().into());
    bundle(&files).expect("an archive").into()
}

pub(crate) fn signed(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    sign(archive(change), &publisher(), "acme-1").expect("a signature").archive
}

pub(crate) fn version(text: &'static str) -> impl FnOnce(&mut Value) {
    move |manifest| manifest["version"] = json!(text)
}

pub(crate) async fn install(host: &TestHost, key: &str, archive: Vec<u8>) -> (u16, String) {
    let sent = host.call(Method::POST, PACKS).key(key).header("content-type", "application/gzip");
    let reply = sent.bytes(archive).send().await;
    (reply.status, reply.json["error"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_signed_pack_is_installed_listed_and_removed() {
    let host = TestHost::start().await;
    assert_eq!(install(&host, LIVE, signed(|_| {})).await, (201, String::new()));
    assert_eq!(install(&host, LIVE, signed(|_| {})).await, (200, String::new()));
    assert_eq!(install(&host, LIVE, signed(version("0.2.0"))).await.0, 201);

    let listed = host.get(PACKS).send().await.json;
    let lines: Vec<String> = listed["packs"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|line| {
            format!("{} {} {} {}", line["name"], line["version"], line["signedBy"], line["scope"])
        })
        .collect();
    assert_eq!(
        lines,
        [
            r#""vendor.acme.desk" "0.1.0" "acme-1" "tenant""#,
            r#""vendor.acme.desk" "0.2.0" "acme-1" "tenant""#
        ]
    );
    let agent = host.get(AGENT).send().await;
    assert_eq!((agent.status, &agent.json["packVersion"]), (200, &json!("0.2.0")));
    let inventory = host.get("/v1/agents").send().await.json;
    assert_eq!((&inventory["total"], &inventory["agents"][0]), (&json!(1), &agent.json));

    let version = format!("{PACKS}/vendor.acme.desk/0.2.0");
    assert_eq!(host.call(Method::DELETE, &version).send().await.status, 204);
    assert_eq!(host.call(Method::DELETE, &version).send().await.refusal(), (404, "not_found"));
    assert_eq!(host.get(AGENT).send().await.json["packVersion"], "0.1.0");
    assert_eq!(host.call(Method::DELETE, &format!("{PACKS}/x/y")).send().await.status, 404);
}

/// Read as from a registry: by words and by version, each tenant its own, and strangers nothing.
#[tokio::test]
async fn installed_packs_are_read_as_from_a_registry() {
    let host = TestHost::start().await;
    install(&host, LIVE, signed(|_| {})).await;
    install(&host, LIVE, signed(version("0.2.0"))).await;
    let found = |reply: Reply| {
        assert_eq!(reply.status, 200, "{reply:?}");
        let results = reply.json["results"].as_array().cloned().expect("results");
        results.iter().map(|pack| format!("{} {}", pack["name"], pack["version"])).collect()
    };
    let ours: Vec<String> = found(host.get("/v1/packs/-/search?q=DESK").send().await);
    assert_eq!(ours, [r#""vendor.acme.desk" "0.2.0""#]);
    let none: Vec<String> = Vec::new();
    assert_eq!(found(host.get("/v1/packs/-/search?q=nobody").send().await), none);
    assert_eq!(found(host.get("/v1/packs/-/search?q=").key(RIVAL).send().await), none);
    assert_eq!(found(host.get("/v1/packs/-/search?q=").anonymous().send().await), none);
    assert_eq!(host.get("/v1/packs/-/search").key("cb_nobody").send().await.status, 401);

    let place = "/v1/packs/vendor.acme.desk/-/0.1.0.json";
    let page = host.get(place).send().await;
    assert_eq!((page.status, page.text_at("version").as_str()), (200, "0.1.0"));
    let text = page.json.to_string();
    assert!(!text.contains("one question at a time") && !text.contains("ystemPrompt"), "{text}");
    assert_eq!(host.get(place).key(RIVAL).send().await.refusal(), (404, "not_found"));
    for (path, refusal) in [
        ("/v1/packs/not-reverse-dns/-/1.0.json", (400, "invalid_pack_name")),
        ("/v1/packs/private.x.y/-/not-a-version.json", (400, "invalid_version")),
        ("/v1/packs/private.x.y/-/0.0.0.json", (404, "not_found")),
        ("/v1/packs/private.x.y/-/0.0.0.sig", (404, "not_found")),
        ("/v1/packs/private.x.y", (404, "not_found")),
        (place, (404, "not_found")),
    ] {
        assert_eq!(host.get(path).anonymous().send().await.refusal(), refusal, "{path}");
    }
}

/// The protocol's catalogue: each pack once, its agents as their author describes them, to its own tenant.
#[tokio::test]
async fn the_catalogue_shows_whole_manifests_page_by_page() {
    let host = TestHost::start().await;
    let named = |name: &'static str| {
        move |manifest: &mut Value| {
            manifest["name"] = json!(name);
            manifest["agents"][0]["agentId"] = json!(format!("{name}.assistant"));
        }
    };
    install(&host, LIVE, signed(|_| {})).await;
    install(&host, LIVE, signed(version("0.2.0"))).await;
    assert_eq!(install(&host, LIVE, signed(named("vendor.acme.board"))).await.0, 201);
    let whole = host.get("/v1/packs").send().await.json;
    let names = |page: &Value| -> Vec<String> {
        let packs = page["packs"].as_array().cloned().unwrap_or_default();
        packs.iter().map(|pack| format!("{} {}", pack["name"], pack["version"])).collect()
    };
    let both = [r#""vendor.acme.board" "0.1.0""#, r#""vendor.acme.desk" "0.2.0""#];
    assert_eq!(names(&whole), both);
    let desk = &whole["packs"][1];
    let files = scaffold(&"vendor.acme.desk".parse().expect("a name"));
    let manifest: Value = serde_json::from_str(&files["pack.json"]).expect("JSON");
    assert_eq!(desk["agents"], manifest["agents"]);
    for field in ["persona", "modelClass", "systemPromptRef", "handoff"] {
        assert!(!desk["agents"][0][field].is_null(), "{field}: {desk}");
    }
    assert_eq!((&desk["latest"], &desk["verified"]), (&json!("0.2.0"), &json!(true)));
    assert_eq!(host.get("/v1/packs").key(RIVAL).send().await.json, json!({ "packs": [] }));

    let first = host.get("/v1/packs?limit=1").send().await.json;
    assert_eq!(names(&first), both[..1]);
    let cursor = first["nextCursor"].as_str().expect("more");
    let rest = host.get(&format!("/v1/packs?limit=1&cursor={cursor}")).send().await.json;
    assert_eq!((names(&rest), rest.get("nextCursor")), (vec![both[1].to_owned()], None));
}

/// A-31: an entry shows neither the prompt nor the schemas.
#[tokio::test]
async fn an_entry_hides_prompt_and_schemas() {
    let host = TestHost::start().await;
    install(&host, LIVE, signed(|_| {})).await;
    let text = String::from_utf8_lossy(&host.get(AGENT).send().await.bytes).into_owned();
    assert!(
        !text.contains("one question at a time") && !text.contains("additionalProperties"),
        "{text}"
    );
}

/// A-32, A-33: another tenant's agent looks like none.
#[tokio::test]
async fn a_pack_is_its_tenants_own() {
    let host = TestHost::start().await;
    install(&host, LIVE, signed(|_| {})).await;
    let foreign = host.get(AGENT).key(RIVAL).send().await;
    let unknown = host.get("/v1/agents/vendor.acme.desk.nobody").key(RIVAL).send().await;
    assert_eq!(foreign.refusal(), (404, "not_found"));
    assert_eq!(foreign.bytes, unknown.bytes);
    assert_eq!(
        host.get("/v1/agents").key(RIVAL).send().await.json,
        json!({ "agents": [], "total": 0 })
    );
    assert_eq!(host.get(PACKS).key(RIVAL).send().await.json, json!({ "packs": [] }));
    let removed = host.call(Method::DELETE, &format!("{PACKS}/vendor.acme.desk/0.1.0")).key(RIVAL);
    assert_eq!(removed.send().await.status, 404);
    // The other tenant may have its own of the same name, with other contents.
    let other = signed(|manifest| manifest["description"] = json!("Ours."));
    assert_eq!(install(&host, RIVAL, other).await.0, 201);
}

#[tokio::test]
async fn refusals_carry_the_protocols_codes() {
    let host = TestHost::start().await;
    install(&host, LIVE, signed(|_| {})).await;
    let other = signed(|manifest| manifest["description"] = json!("Changed."));
    let needy = |capability: &'static str| {
        move |manifest: &mut Value| manifest["peerDependencies"][capability] = json!("supported")
    };
    for (archive, status, code) in [
        (b"hello".to_vec(), 400, "tarball_gunzip_failed"),
        (archive(version("1.0.0")).to_vec(), 400, "pack_signature_unverifiable"),
        (other, 409, "version_conflict"),
        (signed(needy("host.fs")), 422, "pack_peer_dependency_missing"),
    ] {
        assert_eq!(install(&host, LIVE, archive).await, (status, code.to_owned()));
    }
    let reply = host.call(Method::POST, PACKS).bytes(signed(needy("host.fs"))).send().await;
    assert_eq!(reply.json["details"]["requiredCapability"], "host.fs");
    let typed = host.call(Method::POST, PACKS).header("content-type", "application/json");
    let typed = typed.bytes(signed(|_| {})).send().await;
    assert_eq!(typed.refusal(), (415, "unsupported_media_type"));
    assert_eq!(install(&host, READER, signed(|_| {})).await, (403, "forbidden".to_owned()));
}

/// The signature covers `pack.json` alone; who knows the digest can have all of it checked.
#[tokio::test]
async fn an_announced_digest_is_checked() {
    let host = TestHost::start().await;
    let pack = signed(|_| {});
    let sri = Sri::of(&pack).as_str().replace('+', "%2B");
    let send = async |sri: &str, bytes: Vec<u8>| {
        host.call(Method::POST, &format!("{PACKS}?integrity={sri}")).bytes(bytes).send().await
    };
    let other = send(&sri, signed(version("0.2.0"))).await;
    assert_eq!(other.refusal(), (400, "pack_integrity_mismatch"));
    assert_eq!(send(&sri, pack).await.status, 201);
}

/// Other bytes for an installed version are refused; once it was removed they may come.
#[tokio::test]
async fn a_removed_version_can_be_replaced() {
    let host = TestHost::start().await;
    install(&host, LIVE, signed(|_| {})).await;
    let other = || signed(|manifest| manifest["description"] = json!("Changed."));
    assert_eq!(install(&host, LIVE, other()).await, (409, "version_conflict".to_owned()));
    let removed = host.call(Method::DELETE, &format!("{PACKS}/vendor.acme.desk/0.1.0"));
    assert_eq!(removed.send().await.status, 204);
    assert_eq!(install(&host, LIVE, other()).await.0, 201);
    assert_eq!(install(&host, LIVE, signed(|_| {})).await, (409, "version_conflict".to_owned()));
}

/// A-90: a reference pins a version or a channel.
#[tokio::test]
async fn a_reference_with_version_and_channel_is_refused() {
    let host = TestHost::start().await;
    let mut workflow = workflow("pinned", &[("a", "core.noop")]);
    for (agent, status) in [
        (json!({ "agentId": "vendor.acme.desk.assistant", "version": "1.0.0" }), 201),
        (
            json!({ "agentId": "vendor.acme.desk.assistant", "version": "1.0.0", "channel": "beta" }),
            400,
        ),
        (json!({ "agentId": "ab" }), 400),
        (json!({ "agentId": "vendor.acme.desk.assistant", "modelClass": "coding" }), 400),
    ] {
        workflow["nodes"][0]["agent"] = agent.clone();
        let reply = host.post("/v1/host/callboard/workflows", &workflow).send().await;
        assert_eq!(reply.status, status, "{agent}: {reply:?}");
    }
}

#[tokio::test]
async fn unsigned_packs_need_an_admin_and_wrong_ones_never_get_in() {
    let keys: &'static [&'static str] = &["cb_live=acme", "cb_installer=acme+packs:install"];
    let host = TestHost::of(Setup { keys, ..Setup::default() }).await;
    let send = async |key: &str, bytes: Vec<u8>| {
        let call = host.call(Method::POST, &format!("{PACKS}?allowUnsigned=1")).key(key);
        let reply = call.bytes(bytes).send().await;
        (reply.status, reply.json["error"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(send("cb_installer", archive(|_| {}).to_vec()).await, (403, "forbidden".to_owned()));
    let forged = sign(archive(|_| {}), &SigningKey::from_seed([9; 32]), "acme-1");
    let forged = forged.expect("a signature").archive;
    assert_eq!(send(LIVE, forged).await, (400, "pack_signature_invalid".to_owned()));
    assert_eq!(send(LIVE, archive(|_| {}).to_vec()).await, (201, String::new()));
    assert!(host.get(PACKS).send().await.json["packs"][0].get("signedBy").is_none());
}

#[tokio::test]
async fn what_the_host_was_given_is_there_for_all_and_stays() {
    let policy = Policy { unsigned: Unsigned::Allowed, ..Policy::default() };
    let vetted = vet(Offer::plain(archive(|_| {})), &policy, &mut Report::default()).expect("good");
    let packs = vec![Installed::new(PackOwner::Host, vetted, Timestamp::from_millis(0))];
    let host = TestHost::of(Setup { packs, ..Setup::default() }).await;
    for key in [LIVE, RIVAL] {
        assert_eq!(host.get(AGENT).key(key).send().await.status, 200);
    }
    let removed = host.call(Method::DELETE, &format!("{PACKS}/vendor.acme.desk/0.1.0"));
    assert_eq!(removed.send().await.refusal(), (409, "pack_reserved"));
    assert_eq!(install(&host, LIVE, signed(|_| {})).await.1, "version_conflict");
}

#[tokio::test]
async fn a_pack_may_be_larger_than_other_bodies_up_to_its_own_limit() {
    let config = ServerConfig { max_body_bytes: 100, ..ServerConfig::default() };
    let host = TestHost::configured(config).await;
    assert_eq!(install(&host, LIVE, signed(|_| {})).await, (201, String::new()));
    let wanted = json!({ "url": "https://packs.example/", "name": "x".repeat(100) });
    let reply = host.post(&format!("{PACKS}/from-registry"), &wanted).send().await;
    assert_eq!(reply.refusal(), (413, "payload_too_large"));
    let limit = Limits::default().archive;
    assert_eq!(install(&host, LIVE, vec![0; limit]).await.1, "tarball_gunzip_failed");
    let beyond = install(&host, LIVE, vec![0; limit + 1]).await;
    assert_eq!(beyond, (400, "tarball_too_large".to_owned()));
}

/// One pack of a registry, signed and announced.
#[derive(Debug)]
struct Shelf(BTreeMap<String, Vec<u8>>);

impl Shelf {
    fn with(versions: &[(&'static str, bool)]) -> Self {
        let base = "https://packs.example/v1/packs/vendor.acme.desk";
        let mut files = BTreeMap::new();
        let mut listed = Vec::new();
        for (text, yanked) in versions {
            let archive = signed(version(text));
            let manifest = json!({ "name": "vendor.acme.desk", "version": text, "yanked": yanked,
                "integrity": Sri::of(&archive).as_str() });
            files.insert(format!("{base}/-/{text}.json"), manifest.to_string().into_bytes());
            files.insert(format!("{base}/-/{text}.tgz"), archive);
            listed.push(json!({ "version": text, "yanked": yanked }));
        }
        let index = json!({ "versions": listed });
        files.insert(format!("{base}/index.json"), index.to_string().into_bytes());
        Self(files)
    }
}

#[async_trait]
impl Fetch for Shelf {
    async fn get(&self, url: &str) -> Result<Vec<u8>, FetchError> {
        self.0.get(url).cloned().ok_or(FetchError::NotFound)
    }
}

#[tokio::test]
async fn a_pack_comes_from_a_registry_that_the_operator_named() {
    let fetch = Arc::new(Shelf::with(&[("1.0.0", false), ("1.1.0", false), ("2.0.0", true)]));
    let host = TestHost::of(Setup { fetch, ..Setup::default() }).await;
    let fetch = async |body: Value| {
        let reply = host.post(&format!("{PACKS}/from-registry"), &body).send().await;
        let what = if reply.status < 300 { "version" } else { "error" };
        (reply.status, reply.json[what].as_str().unwrap_or_default().to_owned())
    };
    let (url, name) = ("https://packs.example/", "vendor.acme.desk");
    assert_eq!(fetch(json!({ "url": url, "name": name })).await, (201, "1.1.0".to_owned()));
    let exact = json!({ "url": url, "name": name, "version": "1.0.0" });
    assert_eq!(fetch(exact.clone()).await, (201, "1.0.0".to_owned()));
    assert_eq!(fetch(exact).await, (200, "1.0.0".to_owned()));
    for (body, status, code) in [
        (json!({ "url": url, "name": name, "version": "2.0.0" }), 404, "pack_version_not_found"),
        (json!({ "url": url, "name": name, "version": "3.0.0" }), 404, "pack_version_not_found"),
        (json!({ "url": url, "name": name, "version": "two" }), 400, "invalid_version"),
        (json!({ "url": url, "name": "vendor.acme" }), 400, "invalid_pack_name"),
        (json!({ "url": url, "name": "local.acme.desk" }), 400, "invalid_pack_scope"),
        (json!({ "url": "http://169.254.169.254", "name": name }), 400, "validation_error"),
        (json!({ "url": url, "name": name, "branch": "x" }), 400, "validation_error"),
    ] {
        assert_eq!(fetch(body.clone()).await, (status, code.to_owned()), "{body}");
    }
}

/// A-20, A-21, A-23: what is done is advertised as a whole, at the root and mirrored; what is not done is not.
#[tokio::test]
async fn discovery_says_what_is_let_go_and_what_is_done() {
    let host = TestHost::start().await;
    let document = host.get("/.well-known/openwop").anonymous().send().await.json;
    assert_eq!(
        document["extensions"]["callboard"]["packs"]["degrade"],
        json!(["host.agentRuntime"])
    );
    let runtime = json!({ "supported": true, "handoffValidation": true, "installScope": "tenant" });
    assert_eq!(document["agents"]["manifestRuntime"], runtime);
    assert!(document["agents"].get("liveRuntime").is_none(), "{}", document["agents"]);
    assert_eq!(document["capabilities"]["agents"], document["agents"]);
}

/// Every code that a pack can be refused with has its row in the table, with the status of the protocol.
#[test]
fn every_code_of_packs_is_public() {
    for code in [
        "invalid_pack_scope",
        "invalid_pack_name",
        "invalid_version",
        "invalid_body",
        "tarball_gunzip_failed",
        "tarball_too_large",
        "tarball_manifest_missing",
        "tarball_manifest_too_large",
        "tarball_manifest_not_json",
        "tarball_entry_missing",
        "tarball_entry_too_large",
        "tarball_path_traversal",
        "tarball_tar_parse_failed",
        "invalid_manifest",
        "manifest_mismatch",
        "unsupported_runtime",
        "pack_load_failure",
        "pack_kind_invalid",
        "prompt_template_invalid",
        "pack_runtime_requirement_unmet",
        "pack_integrity_mismatch",
        "pack_signature_invalid",
        "pack_signature_unverifiable",
    ] {
        let known = Code::ALL.iter().find(|known| known.name() == code);
        assert_eq!(known.map(|known| known.status().as_u16()), Some(400), "{code}");
    }
    for (code, status) in [
        ("version_conflict", 409),
        ("pack_version_not_found", 404),
        ("pack_peer_dependency_missing", 422),
        ("unsupported_capability", 422),
        ("prompt_pack_dependency_unresolvable", 422),
        ("unsupported_model_class", 422),
        ("pack_fetch_failed", 502),
    ] {
        let known = Code::ALL.iter().find(|known| known.name() == code);
        assert_eq!(known.map(|known| known.status().as_u16()), Some(status), "{code}");
    }
}
