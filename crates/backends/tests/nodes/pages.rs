//! Pages and operations of APIs: followed to their end, within bounds, with nothing sent elsewhere.

use callboard_backends::Reach;
use serde_json::{Value, json};

use crate::{BY_CURSOR, BY_LINK, BY_OFFSET, OPERATION, Server, World, answer};

fn page(headers: &str, body: &Value) -> String {
    answer(200, &format!("content-type: application/json\r\n{headers}"), &body.to_string())
}

fn paths(server: &Server) -> Vec<String> {
    let path = |request: &String| request.split(' ').nth(1).unwrap_or_default().to_owned();
    server.seen().iter().map(path).collect()
}

#[tokio::test]
async fn a_cursor_leads_from_page_to_page() {
    let pages = [
        json!({ "data": { "items": [1, 2] }, "next": "c2" }),
        json!({ "data": { "items": [3] }, "next": null }),
    ];
    let server = Server::start(pages.iter().map(|body| page("", body)).collect()).await;
    let config = json!({ "cursorPath": "next", "itemsPath": "data.items" });
    let inputs =
        json!({ "url": format!("{}/list?a=b", server.url), "headers": { "x-team": "blue" } });
    let outputs = World::new(Reach::Anywhere).one(BY_CURSOR, config, &inputs).await;
    assert_eq!(outputs, json!({ "pageCount": 2, "pages": [[1, 2], [3]] }));
    assert_eq!(paths(&server), ["/list?a=b", "/list?a=b&cursor=c2"]);
    assert!(server.seen().iter().all(|request| request.contains("x-team: blue")));
}

#[tokio::test]
async fn a_link_leads_on_and_never_to_another_host() {
    let first = page("link: </list?p=2>; rel=\"next\", </list?p=9>; rel=\"last\"\r\n", &json!([1]));
    let server = Server::start(vec![first, page("", &json!([2]))]).await;
    let world = World::new(Reach::Anywhere);
    let inputs = json!({ "url": format!("{}/list", server.url) });
    let outputs = world.one(BY_LINK, json!({}), &inputs).await;
    assert_eq!(outputs, json!({ "pageCount": 2, "pages": [[1], [2]] }));
    let away = page("link: <https://elsewhere.example/>; rel=next\r\n", &json!([1]));
    let server = Server::start(vec![away]).await;
    let failed = world.one(BY_LINK, json!({}), &json!({ "url": server.url })).await;
    assert_eq!(failed["failed"]["code"], "egress_denied");
}

#[tokio::test]
async fn an_offset_goes_on_until_a_page_is_short() {
    let pages = vec![page("", &json!([1, 2])), page("", &json!([3, 4])), page("", &json!([5]))];
    let server = Server::start(pages).await;
    let inputs = json!({ "url": server.url, "startOffset": 4 });
    let outputs =
        World::new(Reach::Anywhere).one(BY_OFFSET, json!({ "pageSize": 2 }), &inputs).await;
    assert_eq!(outputs["pages"], json!([[1, 2], [3, 4], [5]]));
    assert_eq!(paths(&server), ["/?offset=4&limit=2", "/?offset=6&limit=2", "/?offset=8&limit=2"]);
}

/// Pages without end are bounded by their number, and one that the server refuses ends it.
#[tokio::test]
async fn pages_are_bounded() {
    let endless = Server::start(vec![page("", &json!([1]))]).await;
    let world = World::new(Reach::Anywhere);
    let config = json!({ "pageSize": 1, "maxPages": 3 });
    let outputs = world.one(BY_OFFSET, config, &json!({ "url": endless.url })).await;
    assert_eq!((&outputs["pageCount"], endless.seen().len()), (&json!(3), 3));
    let many =
        world.one(BY_OFFSET, json!({ "maxPages": 1_000 }), &json!({ "url": endless.url })).await;
    assert_eq!(many["failed"]["code"], "validation_error");
    let large = page("", &json!(["x".repeat(3 << 20)]));
    let server = Server::start(vec![large]).await;
    let outputs =
        world.one(BY_OFFSET, json!({ "pageSize": 1 }), &json!({ "url": server.url })).await;
    assert_eq!(
        (&outputs["failed"]["code"], server.seen().len()),
        (&json!("response_too_large"), 3)
    );
    let refusing = Server::start(vec![answer(404, "", "")]).await;
    let outputs = world.one(BY_CURSOR, json!({}), &json!({ "url": refusing.url })).await;
    assert_eq!(outputs["failed"]["code"], "page_refused");
}

#[tokio::test]
async fn an_operation_is_called_with_its_parameters_in_their_places() {
    let server = Server::start(vec![page("", &json!({ "id": 7 }))]).await;
    let operation = json!({ "operationId": "putPet" });
    let document = json!({ "openapi": "3.1.0", "servers": [{ "url": format!("{}/v1/", server.url) }],
        "paths": { "/pets/{id}": { "get": { "operationId": "getPet" }, "put": operation } } });
    let inputs = json!({ "openapi": document, "pathParams": { "id": "a/../b" }, "queryParams": { "tag": ["x", "y"] },
        "headers": { "X-Team": "blue" }, "body": { "name": "Rex" } });
    let world = World::new(Reach::Anywhere);
    let outputs = world.one(OPERATION, json!({ "operationId": "putPet" }), &inputs).await;
    assert_eq!(
        (&outputs["status"], &outputs["method"], &outputs["body"]["id"]),
        (&json!(200), &json!("PUT"), &json!(7))
    );
    let request = server.seen().remove(0);
    assert!(request.starts_with("PUT /v1/pets/a%2F..%2Fb?tag=x&tag=y HTTP/1.1"), "{request}");
    assert!(
        request.contains("x-team: blue") && request.ends_with(r#"{"name":"Rex"}"#),
        "{request}"
    );
    let wrong = [
        (json!({ "operationId": "nothing" }), inputs.clone(), "operation_not_found"),
        (
            json!({ "operationId": "getPet" }),
            json!({ "openapi": inputs["openapi"] }),
            "validation_error",
        ),
        (json!({ "operationId": "getPet" }), json!({ "openapi": "x" }), "validation_error"),
    ];
    for (config, inputs, code) in wrong {
        let failed = world.one(OPERATION, config, &inputs).await;
        assert_eq!(failed["failed"]["code"], code, "{failed}");
    }
}
