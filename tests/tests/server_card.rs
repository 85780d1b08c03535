//! The server card: it is served to everybody beside the endpoint, and never in place of it.

use mcp_model::{Payload, ServerCard};
use mcp_proto::Json;
use mcp_proto::auth::Challenge;
use mcp_testkit::http_exchange::{TestRequest, TestResponse, initialize};
use mcp_testkit::http_server::HttpServerHarness;

fn card() -> ServerCard {
    ServerCard::describe("com.example/weather", "1.0.0", "The weather anywhere.")
}

fn server(path: Option<&str>) -> HttpServerHarness {
    HttpServerHarness::with(|http, config| {
        http.path = path.map(Into::into);
        http.server_card = Some(card().into());
        config.capabilities = Json::parse(r#"{"tools":{}}"#).expect("JSON");
    })
}

fn header<'s>(sent: &'s TestResponse, name: &str) -> &'s str {
    sent.headers.get(name).map_or("", |value| value.to_str().expect("ASCII"))
}

#[test]
fn the_card_is_below_the_path_of_the_endpoint_for_every_page_and_without_a_token() {
    for (own, path, is_there) in [
        (Some("/mcp"), "/mcp/server-card", true),
        (Some("/mcp"), "/mcp/server-card?a=b", true),
        (Some("/mcp"), "/server-card", false),
        (Some("/mcp"), "/mcp/server-card/x", false),
        (Some("/mcp"), "/mcp/server-cards", false),
        (Some("/"), "/server-card", true),
        (None, "/any/server-card", true),
    ] {
        let mut harness = server(own);
        let asked = TestRequest::get().at(path).with("origin", "https://other.example").challenged(Challenge::bearer());
        let sent = harness.answer(&asked);
        assert_eq!(sent.code() == 200, is_there, "{own:?} {path}: {}", sent.code());
        if is_there {
            assert_eq!(ServerCard::from_json(&Json::parse(sent.text()).expect("JSON")).expect("a card"), card());
            assert_eq!(header(&sent, "content-type"), "application/mcp-server-card+json");
            assert_eq!(header(&sent, "access-control-allow-origin"), "*");
            assert_eq!(header(&sent, "cache-control"), "public, max-age=3600");
            assert!(header(&sent, "etag").len() > 2);
            let preflight =
                harness.answer(&TestRequest::new("OPTIONS", "").at(path).with("origin", "https://other.example"));
            assert_eq!((preflight.code(), header(&preflight, "access-control-allow-origin")), (204, "*"));
            assert_eq!(harness.answer(&TestRequest::post("{}").at(path)).code(), 405);
        }
    }
}

#[test]
fn an_endpoint_is_served_as_before_and_a_server_without_a_card_has_none() {
    for own in [Some("/mcp"), None] {
        let mut harness = server(own);
        assert_eq!(harness.answer(&TestRequest::post(initialize("2025-11-25"))).code(), 200);
    }
    let mut harness = HttpServerHarness::new();
    assert_eq!(harness.answer(&TestRequest::get().at("/mcp/server-card")).code(), 404);
}
