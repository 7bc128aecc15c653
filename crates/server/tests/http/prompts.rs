//! The prompt library: who may read and write what, and that a preview is what a call says.

use callboard_server::TestKeys;
use serde_json::{Value, json};

use crate::given::{LAB, OPS, READER, RIVAL, Setup, TestHost, TestSeams, workflow};

fn template(id: &str, version: &str, text: &str) -> Value {
    json!({ "templateId": id, "version": version, "kind": "system", "text": text })
}

#[tokio::test]
async fn a_prompt_is_added_read_renewed_and_removed() {
    let host = TestHost::start().await;
    let mut first = template("writer", "1.9.0", "Be kind.");
    // What only the host may say is not believed.
    first["meta"] = json!({ "source": "host", "author": "nobody" });
    let made = host.post("/v1/prompts", &first).send().await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.header("location"), "/v1/prompts/writer");
    assert_eq!(made.json["meta"]["source"], "user");
    let again = host.post("/v1/prompts", &first).send().await;
    assert_eq!((again.status, &again.json["error"]), (409, &json!("prompt_conflict")));
    let put = |version: &str| {
        let body = template("writer", version, "Be very kind.");
        host.call("PUT".parse().expect("a method"), "/v1/prompts/writer").json(&body)
    };
    assert_eq!(put("1.9.0").send().await.status, 409);
    assert_eq!(put("1.8.10").send().await.status, 409);
    assert_eq!(put("1.10.0").send().await.status, 200);
    let newest = host.get("/v1/prompts/writer").send().await;
    assert_eq!(newest.json["text"], "Be very kind.");
    let tag = newest.header("etag").to_owned();
    let unchanged = host.get("/v1/prompts/writer").header("if-none-match", &tag).send().await;
    assert_eq!(unchanged.status, 304);
    let pinned = host.get("/v1/prompts/writer?version=1.9.0").send().await;
    assert_eq!(pinned.json["text"], "Be kind.");
    assert!(pinned.header("cache-control").contains("immutable"));
    let wrong = host.call("PUT".parse().expect("a method"), "/v1/prompts/other");
    let wrong = wrong.json(&template("writer", "2.0.0", "x")).send().await;
    assert_eq!(wrong.status, 400);
    let delete = || host.call("DELETE".parse().expect("a method"), "/v1/prompts/writer");
    assert_eq!(delete().send().await.status, 204);
    assert_eq!(delete().send().await.status, 404);
    assert_eq!(host.get("/v1/prompts/writer").send().await.status, 404);
}

#[tokio::test]
async fn what_the_host_brings_along_cannot_be_changed_and_others_cannot_be_seen() {
    let host = TestHost::start().await;
    let path = "/v1/prompts/callboard.brief";
    let kept = host.call("DELETE".parse().expect("a method"), path).send().await;
    assert_eq!((kept.status, &kept.json["error"]), (403, &json!("prompt_read_only")));
    host.post("/v1/prompts", &template("mine", "1.0.0", "x")).send().await;
    assert_eq!(host.get("/v1/prompts/mine").key(RIVAL).send().await.status, 404);
    let ids = |reply: Value| -> Vec<String> {
        let items = reply["items"].as_array().cloned().unwrap_or_default();
        items.iter().map(|it| it["templateId"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let all = host.get("/v1/prompts?limit=2").send().await.json;
    assert_eq!(ids(all.clone()), ["callboard.brief", "callboard.json-only"]);
    let cursor = all["nextCursor"].as_str().expect("a next page").to_owned();
    let rest = host.get(&format!("/v1/prompts?cursor={cursor}")).send().await.json;
    assert_eq!(ids(rest.clone()), ["mine"]);
    assert_eq!(rest["nextCursor"], Value::Null);
    let own = host.get("/v1/prompts?source=user").send().await.json;
    assert_eq!(ids(own), ["mine"]);
    let rivals = host.get("/v1/prompts?source=user").key(RIVAL).send().await.json;
    assert!(ids(rivals).is_empty());
    assert_eq!(host.get("/v1/prompts?kind=poem").send().await.status, 400);
    let scoped = host.post("/v1/prompts", &template("no", "1.0.0", "x")).key(READER).send().await;
    assert_eq!(scoped.status, 403);
    let long = host.post("/v1/prompts", &template("long", "1.0.0", &"x".repeat(65_537)));
    assert_eq!(long.send().await.status, 400);
}

///
#[tokio::test]
async fn a74_a_workspace_that_is_not_the_keys_own_is_refused() {
    let host = TestHost::start().await;
    let mut body = template("secret-plan", "1.0.0", "x");
    body["workspaceId"] = json!("ops");
    assert_eq!(host.post("/v1/prompts", &body).key(OPS).send().await.status, 201);
    let render = json!({ "ref": "prompt:secret-plan", "variables": {}, "workspaceId": "ops" });
    for key in [LAB, crate::given::LIVE, RIVAL] {
        let method = |name: &str| name.parse().expect("a method");
        let one = "/v1/prompts/secret-plan?workspaceId=ops";
        for call in [
            host.get("/v1/prompts?workspaceId=ops"),
            host.get(one),
            host.post("/v1/prompts", &body),
            host.call(method("PUT"), "/v1/prompts/secret-plan").json(&body),
            host.call(method("DELETE"), one),
            host.post("/v1/prompts:render", &render),
        ] {
            let refused = call.key(key).send().await;
            let code = &refused.json["error"];
            assert_eq!((refused.status, code), (403, &json!("workspace_membership_required")));
        }
        let unseen = host.get("/v1/prompts/secret-plan").key(key).send().await;
        assert_eq!(unseen.status, 404, "{key}");
    }
    let seen = host.get("/v1/prompts/secret-plan?workspaceId=ops").key(OPS).send().await;
    assert_eq!(seen.status, 200);
}

/// also where a stranger's words and a hidden value are in it.
#[tokio::test(start_paused = true)]
async fn a73_a_preview_has_the_digest_of_the_call() {
    let setup = Setup { seams: TestSeams::On, test_keys: TestKeys::All, ..Setup::default() };
    let host = TestHost::of(setup).await;
    let mut prompt = template("tone", "1.0.0", "Write in a {{tone}} tone. {{extra}}");
    prompt["variables"] = json!([
        { "name": "tone", "type": "string", "required": true },
        { "name": "extra", "type": "object", "required": false },
    ]);
    assert_eq!(host.post("/v1/prompts", &prompt).send().await.status, 201);
    let mut shown = workflow("shown", &[("say", "local.sample.demo.mock-ai")]);
    shown["nodes"][0]["config"] = json!({ "systemPromptRef": "prompt:tone" });
    shown["nodes"][0]["inputs"] = json!({ "tone": { "type": "static", "value": "dry" } });
    let made = host.post("/v1/host/callboard/workflows", &shown).send().await;
    assert_eq!(made.status, 201, "{made:?}");
    let run = host.run("shown", json!({})).await;
    let events = host.end_of(&run).await;
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    let place = |kind: &str| kinds.iter().position(|it| *it == kind).expect("the event");
    //
    assert!(place("agent.promptResolved") < place("prompt.composed"), "{kinds:?}");
    let resolved = &events[place("agent.promptResolved")]["payload"];
    assert_eq!(resolved["chain"][0]["source"], resolved["resolved"]);
    let composed = &events[place("prompt.composed")]["payload"];
    assert_eq!(composed["refs"], json!(["prompt:tone@1.0.0"]));
    let body = json!({ "ref": "prompt:tone@1.0.0", "variables": { "tone": "dry" } });
    let preview = host.post("/v1/prompts:render", &body).send().await;
    assert_eq!(preview.status, 200, "{preview:?}");
    assert_eq!(preview.json["hash"], composed["hash"]);
    assert_eq!(preview.json["variableHashes"], composed["variableHashes"]);
    assert_eq!(preview.json["composed"], "Write in a dry tone. ");
    let stranger = json!({
        "ref": { "templateId": "tone" }, "variables": { "tone": "dry" }, "contentTrust": "untrusted"
    });
    let marked = host.post("/v1/prompts:render", &stranger).send().await.json;
    assert_eq!(marked["contentTrust"], "untrusted");
    assert_ne!(marked["hash"], preview.json["hash"]);
    for (body, status, code) in [
        (json!({ "ref": "prompt:tone", "variables": {} }), 400, "prompt_variable_unresolved"),
        (json!({ "ref": "Be kind.", "variables": {} }), 400, "prompt_ref_invalid"),
        (json!({ "ref": "prompt:nobody", "variables": {} }), 404, "not_found"),
    ] {
        let refused = host.post("/v1/prompts:render", &body).send().await;
        assert_eq!((refused.status, &refused.json["error"]), (status, &json!(code)), "{body}");
    }
}

/// RFC 0099 §F: what came in is marked before a model sees it, and only then.
#[tokio::test(start_paused = true)]
async fn what_strangers_send_is_marked_in_prompts() {
    let setup = Setup { seams: TestSeams::On, test_keys: TestKeys::All, ..Setup::default() };
    let host = TestHost::of(setup).await;
    let mut prompt = template("tone", "1.0.0", "Write in a {{tone}} tone.");
    prompt["variables"] = json!([{ "name": "tone", "type": "string", "required": true }]);
    assert_eq!(host.post("/v1/prompts", &prompt).send().await.status, 201);
    let mut shown = workflow("shown", &[("say", "local.sample.demo.mock-ai")]);
    shown["nodes"][0]["config"] = json!({ "systemPromptRef": "prompt:tone" });
    let tone = json!({ "tone": { "type": "expression", "expression": "ctx.triggerData.form.fields.tone" } });
    shown["nodes"][0]["inputs"] = tone;
    assert_eq!(host.post("/v1/host/callboard/workflows", &shown).send().await.status, 201);
    let form = json!({ "source": "form", "workflowId": "shown" });
    let form = host.post("/v1/trigger-subscriptions", &form).send().await.json;
    let url = form["binding"]["ingestUrl"].as_str().expect("an address");
    let sent = host.post(url, &json!({ "tone": "dry" })).anonymous().send().await;
    let delivered = host.end_of(&sent.text_at("runId")).await;
    shown["nodes"][0]["inputs"] = json!({ "tone": { "type": "static", "value": "dry" } });
    assert_eq!(host.post("/v1/host/callboard/workflows", &shown).send().await.status, 200);
    let by_hand = host.end_of(&host.run("shown", json!({})).await).await;
    for (events, trust) in [(delivered, "untrusted"), (by_hand, "trusted")] {
        let composed = events.iter().find(|event| event["type"] == "prompt.composed");
        let composed = &composed.expect("a prompt")["payload"];
        assert_eq!(composed["contentTrust"], trust, "{composed}");
        assert_eq!(composed.to_string().contains("<UNTRUSTED>"), trust == "untrusted");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_prompt_lacks_a_value_fails() {
    let setup = Setup { seams: TestSeams::On, test_keys: TestKeys::All, ..Setup::default() };
    let host = TestHost::of(setup).await;
    for (reference, code) in [
        ("prompt:conformance.prompt.trust-marker", "prompt_variable_unresolved"),
        ("prompt:nobody", "prompt_template_not_found"),
    ] {
        let mut shown = workflow("lacks", &[("say", "local.sample.demo.mock-ai")]);
        shown["nodes"][0]["config"] = json!({ "userPromptRef": reference });
        host.post("/v1/host/callboard/workflows", &shown).send().await;
        let run = host.run("lacks", json!({})).await;
        let events = host.end_of(&run).await;
        let failed = events.iter().find(|event| event["type"] == "node.failed").expect("a failure");
        assert_eq!(failed["payload"]["error"]["code"], code);
    }
}
