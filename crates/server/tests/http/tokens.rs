//! Tokens of issuers instead of keys: who comes in with them, who does not, and what happens while an issuer is away.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::http::Method;
use callboard_server::{IssuerSettings, RolesRule, TenantRule};
use serde_json::{Value, json};

use crate::given::issuer::{Login, Mood, Signer, token};
use crate::given::{LIVE, Reply, Setup, TestHost};

const WHOAMI: &str = "/v1/host/callboard/whoami";
const KEYS: &str = "/v1/host/callboard/keys";

/// A host with an issuer whose one key is `a`.
struct Scene {
    host: TestHost,
    login: Login,
    key: Signer,
}

fn settings(issuer: &str) -> IssuerSettings {
    IssuerSettings {
        name: "main".to_owned(),
        issuer: issuer.to_owned(),
        audiences: BTreeSet::from(["callboard".to_owned()]),
        tenant: TenantRule::Claim {
            claim: "org".to_owned(),
            known: BTreeMap::from([("org_1".to_owned(), "acme".to_owned())]),
        },
        workspace_claim: None,
        roles: RolesRule { claim: Some("roles".to_owned()), ..RolesRule::default() },
        skew: Duration::from_secs(30),
    }
}

async fn scene_with(key: Signer, change: impl FnOnce(&mut IssuerSettings)) -> Scene {
    let login = Login::start(vec![key.jwk("a")]).await;
    let mut settings = settings(&login.url);
    change(&mut settings);
    let host = TestHost::of(Setup { issuers: vec![settings], ..Setup::default() }).await;
    Scene { host, login, key }
}

async fn scene(key: Signer) -> Scene {
    scene_with(key, |_| {}).await
}

impl Scene {
    fn seconds(&self, from_now: i64) -> i64 {
        self.host.now().as_millis() / 1000 + from_now
    }

    /// What a good token says.
    fn claims(&self) -> Value {
        json!({
            "iss": self.login.url, "aud": "callboard", "sub": "robot-7", "org": "org_1",
            "roles": ["viewer", "nobody"], "exp": self.seconds(300), "iat": self.seconds(0),
        })
    }

    fn signed(&self, alg: &str, claims: &Value) -> String {
        let head = json!({ "alg": alg, "kid": "a", "typ": "JWT" });
        token(&head, claims, |message| self.key.sign(alg, message))
    }

    fn with(&self, alg: &str, name: &str, value: Value) -> String {
        let mut claims = self.claims();
        claims[name] = value;
        self.signed(alg, &claims)
    }

    async fn who(&self, token: &str) -> Reply {
        self.host.get(WHOAMI).key(token).send().await
    }
}

/// Makes the virtual clock go on, and the sockets again afterwards.
async fn later(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_token_is_taken_for_what_its_claims_say() {
    for (key, algs) in [
        (Signer::rsa(), &["RS256", "PS256"][..]),
        (Signer::ec(), &["ES256"][..]),
        (Signer::ed(), &["EdDSA"][..]),
    ] {
        let scene = scene(key).await;
        for alg in algs {
            let who = scene.who(&scene.signed(alg, &scene.claims())).await;
            assert_eq!((who.status, &who.json["tenant"]), (200, &json!("acme")), "{alg}: {who:?}");
            assert_eq!(who.json["roles"], json!(["viewer"]));
        }
        let refused = scene.host.post("/v1/runs", &json!({ "workflowId": "noop" }));
        let refused = refused.key(&scene.signed(algs[0], &scene.claims())).send().await;
        assert_eq!(refused.refusal(), (403, "forbidden"), "a viewer starts nothing");
    }
}

#[tokio::test]
async fn a_principal_is_stable_and_opaque_and_its_runs_are_its_own() {
    let scene = scene(Signer::ed()).await;
    let token = scene.with("EdDSA", "roles", json!(["operator"]));
    let run = scene.host.run_as(&token, json!({ "workflowId": "noop" })).await;
    let snapshot = scene.host.get(&format!("/v1/runs/{run}")).key(LIVE).send().await;
    let principal = snapshot.json["owner"]["principal"].as_str().expect("a principal").to_owned();
    assert!(principal.starts_with("oidc:") && !principal.contains("robot"), "{principal}");
    let again = scene.host.run_as(&token, json!({ "workflowId": "noop" })).await;
    let snapshot = scene.host.get(&format!("/v1/runs/{again}")).key(LIVE).send().await;
    assert_eq!(snapshot.json["owner"]["principal"], principal.as_str());
}

#[tokio::test]
async fn a_token_that_is_not_signed_as_it_should_be_is_refused() {
    let scene = scene(Signer::rsa()).await;
    let claims = scene.claims();
    assert_eq!(scene.who(&scene.signed("RS256", &claims)).await.status, 200);
    let none = token(&json!({ "alg": "none" }), &claims, |_| Vec::new());
    let public = scene.key.public_der();
    let hmac = |message: &[u8]| {
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &public);
        aws_lc_rs::hmac::sign(&key, message).as_ref().to_vec()
    };
    let hs256 = token(&json!({ "alg": "HS256", "kid": "a" }), &claims, hmac);
    let other = Signer::rsa();
    let forged =
        token(&json!({ "alg": "RS256", "kid": "a" }), &claims, |it| other.sign("RS256", it));
    let own = json!({ "alg": "RS256", "jwk": other.jwk("a"), "kid": "a" });
    let brought = token(&own, &claims, |it| other.sign("RS256", it));
    let pss =
        token(&json!({ "alg": "PS256", "kid": "a" }), &claims, |it| scene.key.sign("RS256", it));
    let ed =
        token(&json!({ "alg": "EdDSA", "kid": "a" }), &claims, |it| scene.key.sign("RS256", it));
    let good = scene.signed("RS256", &claims);
    let (head, rest) = good.split_once('.').expect("parts");
    let (_, signature) = rest.split_once('.').expect("parts");
    let mut changed = claims.clone();
    changed["roles"] = json!(["operator"]);
    use base64::Engine as _;
    let body = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(changed.to_string());
    let swapped = format!("{head}.{body}.{signature}");
    let unsigned = format!("{head}.{body}.");
    for (what, token) in [
        ("none", none),
        ("HS256 with the public key", hs256),
        ("another key under the same name", forged),
        ("a key that it brings", brought),
        ("another scheme", pss),
        ("another kind of key", ed),
        ("other claims", swapped),
        ("no signature", unsigned),
    ] {
        let refused = scene.who(&token).await;
        assert_eq!(refused.refusal(), (401, "unauthenticated"), "{what}: {refused:?}");
        assert!(!refused.message().contains(&token[..20]), "{what}");
    }
}

#[tokio::test]
async fn a_token_for_others_or_another_time_is_refused() {
    let scene = scene(Signer::ed()).await;
    let with = |name: &str, value: Value| scene.with("EdDSA", name, value);
    for (token, refusal) in [
        (with("iss", json!("https://elsewhere.example")), (401, "unauthenticated")),
        (with("aud", json!("other")), (401, "unauthenticated")),
        (with("aud", Value::Null), (401, "unauthenticated")),
        (with("exp", json!(scene.seconds(-31))), (401, "key_expired")),
        (with("exp", Value::Null), (401, "unauthenticated")),
        (with("nbf", json!(scene.seconds(60))), (401, "unauthenticated")),
        (with("iat", json!(scene.seconds(60))), (401, "unauthenticated")),
        (with("sub", Value::Null), (401, "unauthenticated")),
        (with("org", json!("org_2")), (403, "forbidden")),
        (with("org", Value::Null), (403, "forbidden")),
        (with("roles", json!(["nobody"])), (403, "forbidden")),
        (with("roles", Value::Null), (403, "forbidden")),
    ] {
        let refused = scene.who(&token).await;
        assert_eq!(refused.refusal(), refusal, "{refused:?}");
    }
    let late = with("exp", json!(scene.seconds(-20)));
    assert_eq!(scene.who(&late).await.status, 200, "clocks may differ by as much");
    let unknown = scene.who(&with("org", json!("org_2"))).await;
    assert!(unknown.message().contains("org names no tenant"), "{unknown:?}");
}

#[tokio::test]
async fn a_new_key_is_fetched_when_a_token_names_it_and_strangers_cause_no_storm() {
    let scene = scene(Signer::ed()).await;
    assert_eq!(scene.who(&scene.signed("EdDSA", &scene.claims())).await.status, 200);
    let next = Signer::ec();
    scene.login.publish(vec![next.jwk("b")]);
    later(6).await;
    let head = json!({ "alg": "ES256", "kid": "b" });
    let fresh = token(&head, &scene.claims(), |message| next.sign("ES256", message));
    assert_eq!(scene.who(&fresh).await.status, 200);
    let old = scene.who(&scene.signed("EdDSA", &scene.claims())).await;
    assert_eq!(old.refusal(), (401, "unauthenticated"), "what is not published counts no more");
    assert_eq!(scene.login.asked(), 2);
    for number in 0..50 {
        let head = json!({ "alg": "ES256", "kid": format!("x{number}") });
        let strange = token(&head, &scene.claims(), |message| next.sign("ES256", message));
        assert_eq!(scene.who(&strange).await.refusal(), (401, "unauthenticated"));
    }
    assert_eq!(scene.login.asked(), 2, "fetches keep their distance");
}

#[tokio::test]
async fn an_issuer_that_cannot_be_asked_lets_nobody_in() {
    for mood in [Mood::Failing, Mood::Huge, Mood::Many, Mood::Impostor, Mood::Silent] {
        let scene = scene(Signer::ed()).await;
        scene.login.is(mood);
        let good = scene.signed("EdDSA", &scene.claims());
        if mood == Mood::Silent {
            // Waiting costs nothing then; the answer that does not come is not waited for either.
            tokio::time::pause();
        }
        let refused = scene.who(&good).await;
        if mood == Mood::Silent {
            tokio::time::resume();
        }
        assert_eq!(refused.refusal(), (503, "service_unavailable"), "{mood:?}: {refused:?}");
        assert_eq!(refused.retry_after(), Some(5), "{mood:?}");
        assert_eq!(scene.host.get(WHOAMI).key(LIVE).send().await.status, 200, "keys go on");
        let forged = token(&json!({ "alg": "none" }), &scene.claims(), |_| Vec::new());
        assert_eq!(scene.who(&forged).await.status, 401, "{mood:?}");
        scene.login.is(Mood::Well);
        later(6).await;
        assert_eq!(scene.who(&good).await.status, 200, "{mood:?}: it comes back by itself");
    }
}

#[tokio::test]
async fn keys_that_are_there_go_on_while_the_issuer_is_away() {
    let mut scene = scene(Signer::ed()).await;
    let good = scene.with("EdDSA", "exp", json!(scene.seconds(7200)));
    assert_eq!(scene.who(&good).await.status, 200);
    scene.login.leave().await;
    later(3600).await;
    for _ in 0..3 {
        scene.host.issuers.refresh().await;
        assert_eq!(scene.who(&good).await.status, 200);
        later(10).await;
    }
    let head = json!({ "alg": "EdDSA", "kid": "b" });
    let other = Signer::ed();
    let unknown = token(&head, &scene.claims(), |message| other.sign("EdDSA", message));
    let refused = scene.who(&unknown).await;
    assert_eq!(refused.refusal(), (503, "service_unavailable"), "whose key that is nobody can say");
}

#[tokio::test]
async fn a_key_that_was_taken_back_counts_no_more_after_ten_minutes() {
    let scene = scene(Signer::ed()).await;
    let good = scene.with("EdDSA", "exp", json!(scene.seconds(7200)));
    assert_eq!(scene.who(&good).await.status, 200);
    scene.login.publish(vec![Signer::ed().jwk("b")]);
    later(590).await;
    scene.host.issuers.refresh().await;
    assert_eq!((scene.who(&good).await.status, scene.login.asked()), (200, 1));
    later(20).await;
    scene.host.issuers.refresh().await;
    assert_eq!(scene.who(&good).await.refusal(), (401, "unauthenticated"));
}

#[tokio::test]
async fn a_tokens_end_ends_its_streams() {
    let scene = scene(Signer::ed()).await;
    let run = scene.host.waiting_run().await;
    let brief = scene.with("EdDSA", "exp", json!(scene.seconds(60)));
    let path = format!("/v1/runs/{run}/events");
    let mut stream = scene.host.get(&path).key(&brief).open().await;
    assert_eq!(stream.next().await.map(|frame| frame.event), Some("run.started".to_owned()));
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(91)).await;
    while let Some(frame) = stream.next().await {
        assert_eq!(frame.comment, "keepalive", "{frame:?}");
    }
}

#[tokio::test]
async fn whoever_came_in_is_listed_and_can_be_revoked() {
    let scene = scene(Signer::ed()).await;
    let good = scene.signed("EdDSA", &scene.claims());
    assert_eq!(scene.who(&good).await.status, 200);
    let listed = scene.host.get(KEYS).send().await.json;
    let keys = listed["keys"].as_array().expect("a list");
    let own = keys.iter().find(|key| key["origin"] == "issuer").expect("the robot");
    assert_eq!((&own["name"], &own["issuer"]), (&json!("robot-7"), &json!(scene.login.url)));
    let path = format!("{KEYS}/{}", own["id"].as_str().expect("an id"));
    let rotated = scene.host.call(Method::POST, &format!("{path}/rotate")).send().await;
    assert_eq!(rotated.refusal(), (409, "key_reserved"));
    assert_eq!(scene.host.call(Method::DELETE, &path).send().await.status, 204);
    assert_eq!(scene.who(&good).await.refusal(), (401, "key_revoked"));
    let other = scene.with("EdDSA", "sub", json!("robot-8"));
    assert_eq!(scene.who(&other).await.status, 200);
}

#[tokio::test]
async fn a_token_makes_no_key_that_lasts_longer_or_may_more() {
    let scene = scene_with(Signer::ed(), |it| {
        it.roles.meaning = BTreeMap::from([("boss".to_owned(), "chief".to_owned())]);
    })
    .await;
    let role = json!({ "scopes": ["admin", "runs:read"] });
    let put = scene.host.call(Method::PUT, "/v1/host/callboard/roles/chief").json(&role);
    assert_eq!(put.send().await.status, 201);
    let boss = scene.with("EdDSA", "roles", json!("boss other"));
    let make = async |body: Value| scene.host.post(KEYS, &body).key(&boss).send().await;
    let later = scene.host.now().plus(Duration::from_secs(3600));
    assert_eq!(make(json!({ "name": "n", "expiresAt": later })).await.status, 400);
    assert_eq!(make(json!({ "name": "n", "scopes": ["runs:create"] })).await.status, 403);
    assert_eq!(make(json!({ "name": "n" })).await.status, 201);
    // The role stands for less at once, whatever the token says.
    let put = scene.host.call(Method::PUT, "/v1/host/callboard/roles/chief");
    put.json(&json!({ "scopes": ["runs:read"] })).send().await;
    assert_eq!(make(json!({ "name": "n" })).await.refusal(), (403, "forbidden"));
}

#[tokio::test]
async fn a_refusal_says_where_tokens_come_from() {
    let scene = scene(Signer::ed()).await;
    let asked = |path: &str| scene.host.get(path).anonymous().header("host", "board.localhost:80");
    let refused = asked(WHOAMI).send().await;
    let challenge = "Bearer resource_metadata=\"http://board.localhost:80/.well-known/oauth-protected-resource\"";
    assert_eq!(refused.header("www-authenticate"), challenge);
    for (path, resource) in [("", ""), ("/mcp", "/mcp")] {
        let path = format!("/.well-known/oauth-protected-resource{path}");
        let document = asked(&path).send().await;
        assert_eq!(document.status, 200);
        assert_eq!(document.json["resource"], format!("http://board.localhost:80{resource}"));
        assert_eq!(document.json["authorization_servers"], json!([scene.login.url]));
    }
    let without = TestHost::start().await;
    let path = "/.well-known/oauth-protected-resource";
    assert_eq!(without.get(path).anonymous().send().await.status, 404);
    assert_eq!(without.get(WHOAMI).anonymous().send().await.header("www-authenticate"), "Bearer");
    let discovery = scene.host.get("/.well-known/openwop").send().await.json;
    assert_eq!(discovery["auth"]["oidc"]["issuers"], json!([scene.login.url]));
}
