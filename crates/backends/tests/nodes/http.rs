//! HTTP and GraphQL nodes against servers that answer, refuse, hang, lead on and never end.

use callboard_backends::Reach;
use serde_json::json;
use tokio::net::TcpListener;

use crate::{FETCH, MUTATION, QUERY, Server, World, answer, node, outcome, told};

#[tokio::test]
async fn a_request_is_sent_as_configured_and_its_answer_is_the_output() {
    let reply = answer(201, "content-type: application/json\r\nset-cookie: a=b\r\n", r#"{"id":7}"#);
    let server = Server::start(vec![reply]).await;
    let config = json!({ "url": format!("{}/{{{{kind}}}}", server.url), "method": "POST", "headers": { "X-Team": "blue" } });
    let inputs = json!({ "variables": { "kind": "a b/../c" }, "body": { "n": 1 } });
    let outputs = World::new(Reach::Anywhere).one(FETCH, config, &inputs).await;
    assert_eq!((&outputs["status"], &outputs["body"]), (&json!(201), &json!({ "id": 7 })));
    assert!(outputs["headers"].get("set-cookie").is_none(), "{outputs}");
    assert_eq!(outputs["attempts"], 1);
    let request = server.seen().remove(0);
    assert!(request.starts_with("POST /a%20b%2F..%2Fc HTTP/1.1"), "{request}");
    let key = outputs["idempotencyKey"].as_str().unwrap();
    assert!(request.contains(&format!("idempotency-key: {key}")), "{request}");
    assert!(request.contains("x-team: blue") && request.ends_with(r#"{"n":1}"#), "{request}");
}

#[tokio::test]
async fn a_graphql_query_hands_out_data_and_errors() {
    let said = r#"{"data":{"a":1},"errors":[{"message":"half of it"}]}"#;
    let server = Server::start(vec![answer(200, "content-type: application/json\r\n", said)]).await;
    let world = World::new(Reach::Anywhere);
    let config = json!({ "endpoint": server.url });
    let inputs =
        json!({ "query": "query Q($n: Int) { a }", "variables": { "n": 1 }, "operationName": "Q" });
    let outputs = world.one(QUERY, config.clone(), &inputs).await;
    assert_eq!((&outputs["data"], &outputs["status"]), (&json!({ "a": 1 }), &json!(200)));
    assert_eq!(outputs["errors"], json!([{ "message": "half of it" }]));
    assert!(server.seen()[0].ends_with(&inputs.to_string()), "{}", server.seen()[0]);
    assert!(!server.seen()[0].contains("idempotency-key"));
    world.one(MUTATION, config.clone(), &json!({ "query": "mutation { a }" })).await;
    assert!(server.seen()[1].contains("idempotency-key"));
    let wrong = world.one(QUERY, config, &json!({ "query": 7 })).await;
    assert_eq!(wrong["failed"]["code"], "validation_error");
}

#[tokio::test]
async fn trouble_of_the_server_is_tried_again_and_a_refusal_is_not() {
    let (busy, fine) = (answer(503, "", ""), answer(200, "", "ok"));
    let server = Server::start(vec![busy.clone(), fine]).await;
    let retry = json!({ "initialDelayMs": 0, "maxAttempts": 2 });
    let config = |url: &str| json!({ "url": url, "retry": retry });
    let world = World::new(Reach::Anywhere);
    let outputs = world.one(FETCH, config(&server.url), &json!({})).await;
    assert_eq!(
        (&outputs["status"], &outputs["attempts"], &outputs["body"]),
        (&json!(200), &json!(2), &json!("ok"))
    );
    let refusing = Server::start(vec![answer(404, "", "")]).await;
    let outputs = world.one(FETCH, config(&refusing.url), &json!({})).await;
    assert_eq!(
        (&outputs["status"], &outputs["attempts"], &outputs["body"]),
        (&json!(404), &json!(1), &json!(null))
    );
    let down = Server::start(vec![busy]).await;
    let outputs = world.one(FETCH, config(&down.url), &json!({})).await;
    assert_eq!((&outputs["status"], &outputs["attempts"]), (&json!(503), &json!(2)));
    let gone = json!({ "url": "http://127.0.0.1:1/", "retry": retry });
    let outputs = world.one(FETCH, gone, &json!({})).await;
    assert_eq!(
        (&outputs["status"], &outputs["networkError"]),
        (&json!(0), &json!("no connection"))
    );
}

#[tokio::test(start_paused = true)]
async fn an_address_that_hangs_is_given_up_in_time() {
    // Accepts, by its backlog, and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let config = json!({ "url": url, "timeoutMs": 100, "retry": { "maxAttempts": 2 } });
    let outputs = World::new(Reach::Anywhere).one(FETCH, config, &json!({})).await;
    assert_eq!((&outputs["status"], &outputs["attempts"]), (&json!(0), &json!(2)), "{outputs}");
    assert_eq!(outputs["networkError"], "no answer in time");
}

#[tokio::test]
async fn an_endless_answer_and_an_endless_redirect_are_bounded() {
    let endless = Server::start(vec!["HTTP/1.1 200 X\r\nx-kind: endless\r\n\r\n".to_owned()]).await;
    let world = World::new(Reach::Anywhere);
    let outputs = world.one(FETCH, json!({ "url": endless.url }), &json!({})).await;
    assert_eq!(outputs["failed"]["code"], "response_too_large");
    let round = Server::start(vec![answer(302, "location: /again\r\n", "")]).await;
    let outputs = world.one(FETCH, json!({ "url": round.url }), &json!({})).await;
    assert_eq!(outputs["failed"]["code"], "egress_denied", "{outputs}");
    assert_eq!(round.seen().len(), 6);
    // What changes something is not sent elsewhere.
    let config = json!({ "url": round.url, "method": "POST" });
    assert_eq!(world.one(FETCH, config, &json!({})).await["status"], 302);
}

#[tokio::test]
async fn a_guarded_host_reaches_no_private_address() {
    let server = Server::start(vec![answer(200, "", "inside")]).await;
    let world = World::new(Reach::Public);
    for url in
        [server.url.as_str(), "https://127.0.0.1/", "https://[::1]/", "http://169.254.169.254/"]
    {
        let outputs = world.one(FETCH, json!({ "url": url }), &json!({})).await;
        assert_eq!(outputs["failed"]["code"], "egress_denied", "{url}: {outputs}");
    }
    assert!(server.seen().is_empty());
    for url in ["file:///etc/passwd", "no address", "https://x/{{gone}}"] {
        let outputs = world.one(FETCH, json!({ "url": url }), &json!({})).await;
        assert_eq!(outputs["failed"]["code"], "INVALID_URL", "{url}: {outputs}");
    }
}

#[tokio::test]
async fn a_secret_goes_to_the_host_that_it_is_meant_for_and_into_no_log() {
    let echo = answer(200, "", "you sent hunter2-hunter2 to me");
    let server = Server::start(vec![echo]).await;
    let world = World::new(Reach::Anywhere);
    world.keep("api", "hunter2-hunter2", Some(server.host.clone())).await;
    world.keep("other", "hunter3-hunter3", Some("api.example.com".to_owned())).await;
    let mut fetch = node("n", FETCH, json!({ "url": server.url }), json!({}));
    fetch["credentialsRef"] = "api".into();
    let log = world.run(vec![fetch.clone()]).await;
    assert!(server.seen()[0].contains("authorization: Bearer hunter2-hunter2"));
    let written: String = log.iter().map(|event| event.payload.as_str()).collect();
    assert!(!written.contains("hunter2-hunter2"), "{written}");
    assert_eq!(told(&log, "egress.decided").len(), 1, "{written}");
    fetch["credentialsRef"] = "other".into();
    let log = world.run(vec![fetch]).await;
    assert_eq!(outcome(&log)["failed"]["code"], "egress_denied");
    assert_eq!(server.seen().len(), 1);
}
