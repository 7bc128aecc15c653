//! Packs of prompts (RFC 0028): installed like any pack, read in the library, changed by nobody.

use std::sync::Arc;

use axum::http::Method;
use callboard_agents::{bundle, sign};
use callboard_server::TestKeys;
use serde_json::{Value, json};

use crate::given::{LIVE, RIVAL, Setup, TestHost, TestSeams, publisher, workflow};
use crate::packs::install;

fn template(id: &str, version: &str, text: &str) -> Value {
    json!({ "templateId": id, "version": version, "kind": "system", "text": text })
}

/// A pack with these templates, signed where it can be.
fn pack(name: &str, version: &str, prompts: &[Value], more: Value) -> Vec<u8> {
    let mut manifest = json!({
        "name": name, "version": version, "kind": "prompt", "prompts": prompts,
        "engines": { "openwop": ">=1.1.0 <2.0.0" },
    });
    for (field, value) in more.as_object().cloned().unwrap_or_default() {
        manifest[field] = value;
    }
    let files = [("pack.json".to_owned(), Arc::from(manifest.to_string().into_bytes()))];
    let archive: Arc<[u8]> = bundle(&files.into_iter().collect()).expect("an archive").into();
    let signed = sign(Arc::clone(&archive), &publisher(), "acme-1");
    // What cannot be signed is refused before anybody looks for a signature.
    signed.map_or_else(|_| archive.to_vec(), |signed| signed.archive)
}

async fn open() -> TestHost {
    let setup = Setup { seams: TestSeams::On, test_keys: TestKeys::All, ..Setup::default() };
    TestHost::of(setup).await
}

async fn put(host: &TestHost, name: &str, version: &str, prompts: &[Value]) {
    let sent = install(host, LIVE, pack(name, version, prompts, json!({}))).await;
    assert_eq!(sent, (201, String::new()), "{name}");
}

#[tokio::test(start_paused = true)]
async fn templates_of_a_pack_are_listed_used_and_not_changed() {
    let host = open().await;
    let prompts = [template("tone", "1.0.0", "Be kind."), template("tone", "1.1.0", "Be brief.")];
    put(&host, "vendor.acme.tones", "2.0.0", &prompts).await;
    let listed = host.get("/v1/prompts?source=pack").send().await.json;
    let meta = json!({
        "source": "pack", "packName": "vendor.acme.tones", "packVersion": "2.0.0"
    });
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(
        (&listed["items"][0]["meta"], &listed["items"][0]["version"]),
        (&meta, &json!("1.1.0"))
    );
    let pinned = host.get("/v1/prompts/tone?version=1.0.0").send().await;
    assert_eq!(pinned.json["text"], "Be kind.");
    let others = host.get("/v1/prompts?source=pack").key(RIVAL).send().await.json;
    assert_eq!(others["items"], json!([]), "a pack of one tenant is nobody else's");
    let delete = host.call(Method::DELETE, "/v1/prompts/tone").send().await;
    assert_eq!((delete.status, delete.error()), (403, "prompt_read_only"));
    let renewed = host.call(Method::PUT, "/v1/prompts/tone").json(&template("tone", "9.0.0", "x"));
    assert_eq!(renewed.send().await.status, 403);
    let taken = host.post("/v1/prompts", &template("tone", "9.0.0", "x")).send().await;
    assert_eq!(taken.status, 409);
    let mut shown = workflow("shown", &[("say", "local.sample.demo.mock-ai")]);
    shown["nodes"][0]["config"] = json!({ "systemPromptRef": "prompt:tone" });
    assert_eq!(host.post("/v1/host/callboard/workflows", &shown).send().await.status, 201);
    let events = host.end_of(&host.run("shown", json!({})).await).await;
    let composed = events.iter().find(|event| event["type"] == "prompt.composed");
    assert_eq!(composed.expect("a prompt")["payload"]["refs"], json!(["prompt:tone@1.1.0"]));
    let path = "/v1/host/callboard/packs/vendor.acme.tones/2.0.0";
    assert_eq!(host.call(Method::DELETE, path).send().await.status, 204);
    assert_eq!(host.get("/v1/prompts/tone").send().await.status, 404, "it leaves with its pack");
}

#[tokio::test]
async fn two_packs_with_one_id_are_told_apart_by_their_names() {
    let host = open().await;
    for name in ["vendor.acme.one", "vendor.acme.two"] {
        put(&host, name, "1.0.0", &[template("tone", "1.0.0", name)]).await;
    }
    let render = async |reference: Value| {
        let body = json!({ "ref": reference, "variables": {} });
        host.post("/v1/prompts:render", &body).send().await
    };
    let unclear = render(json!("prompt:tone")).await;
    assert_eq!((unclear.status, unclear.error()), (409, "prompt_ref_ambiguous"));
    let named = json!({ "libraryId": "vendor.acme.two", "templateId": "tone" });
    assert_eq!(render(named).await.json["composed"], "vendor.acme.two");
    let read = host.get("/v1/prompts/tone?libraryId=vendor.acme.one").send().await;
    assert_eq!(read.json["text"], "vendor.acme.one");
    let nobody = host.get("/v1/prompts/tone?libraryId=vendor.acme.nobody").send().await;
    assert_eq!(nobody.status, 404);
    // A tenant's own goes before what came in packs.
    let own = host.post("/v1/prompts", &template("greeting", "1.0.0", "own")).send().await;
    assert_eq!(own.status, 201, "{own:?}");
    put(&host, "vendor.acme.three", "1.0.0", &[template("greeting", "1.0.0", "pack")]).await;
    assert_eq!(host.get("/v1/prompts/greeting").send().await.json["text"], "own");
}

#[tokio::test]
async fn a_pack_of_prompts_that_is_wrong_is_not_installed() {
    let host = open().await;
    let good = template("tone", "1.0.0", "Be kind.");
    let mut nameless = good.clone();
    nameless["templateId"] = json!("No Such Name");
    let name = "vendor.acme.tones";
    let needs = |range: &str| json!({ "dependencies": { "vendor.acme.base": range } });
    for (prompts, more, expected) in [
        (vec![nameless], json!({}), (400, "prompt_template_invalid")),
        (vec![good.clone(), good.clone()], json!({}), (400, "prompt_template_invalid")),
        (vec![json!({ "templateId": "x" })], json!({}), (400, "prompt_template_invalid")),
        (vec![], json!({}), (400, "invalid_manifest")),
        (vec![good.clone()], json!({ "agents": [] }), (400, "invalid_manifest")),
        (vec![good.clone()], needs(">=1.0.0"), (422, "prompt_pack_dependency_unresolvable")),
    ] {
        let sent = install(&host, LIVE, pack(name, "1.0.0", &prompts, more.clone())).await;
        assert_eq!(sent, (expected.0, expected.1.to_owned()), "{prompts:?} {more}");
    }
    put(&host, "vendor.acme.base", "1.2.0", &[template("base", "1.0.0", "x")]).await;
    let newer =
        install(&host, LIVE, pack(name, "1.0.0", std::slice::from_ref(&good), needs(">=2.0.0")));
    assert_eq!(newer.await.1, "prompt_pack_dependency_unresolvable");
    let fits = install(&host, LIVE, pack(name, "1.0.0", &[good], needs(">=1.0.0"))).await;
    assert_eq!(fits, (201, String::new()));
}
