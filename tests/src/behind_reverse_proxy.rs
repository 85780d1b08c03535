//! A server behind nginx and Caddy: with and without a path before its own.

use mcp_proto::auth::ProtectedResource;
use mcp_proto::server::{Config, HttpConfig};
use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_testkit::messages::{INITIALIZED, result};
use mcp_testkit::raw_client::RawClient;

use crate::on_the_wire;
use crate::reverse_proxy::{ReverseProxy, ReverseProxyKind};

/// The path that the reverse proxy removes.
pub const PREFIX: &str = "/v1/tools";

/// Configures a server that is at the root of a reverse proxy.
///
/// # Panics
///
/// Never.
pub fn configure(http: &mut HttpConfig, config: &mut Config) {
    on_the_wire::configure(http, config);
    let resource = ProtectedResource::new("https://mcp.example/mcp").expect("a URL");
    http.protected_resource = Some(resource.authorization_server("https://auth.example").expect("a URL"));
}

/// Configures a server that is below [`PREFIX`].
///
/// # Panics
///
/// Never.
pub fn configure_below(http: &mut HttpConfig, config: &mut Config) {
    on_the_wire::configure(http, config);
    http.public_path = PREFIX.into();
    let resource = ProtectedResource::new(&format!("https://mcp.example{PREFIX}/mcp")).expect("a URL");
    http.protected_resource = Some(resource.authorization_server("https://auth.example").expect("a URL"));
}

/// The scenario, for a server with [`configure`].
///
/// # Panics
///
/// If the server does not do what it should.
pub fn a_server_is_reached_through_a_reverse_proxy(server: &RawClient) {
    for kind in ReverseProxyKind::ALL {
        reach(server, "", kind);
    }
}

/// The scenario, for a server with [`configure_below`].
///
/// # Panics
///
/// If the server does not do what it should.
pub fn a_server_is_reached_below_a_path_of_a_reverse_proxy(server: &RawClient) {
    for kind in ReverseProxyKind::ALL {
        reach(server, PREFIX, kind);
    }
}

fn reach(server: &RawClient, prefix: &str, kind: ReverseProxyKind) {
    let Some(proxy) = ReverseProxy::start(kind, RawClient::free(), server.address(), prefix) else { return };
    let post = |place: &str, body: &str| TestRequest::post(body.to_owned()).at(place);
    let endpoint = format!("{prefix}/mcp");

    let opened = proxy.client.answer(&post(&endpoint, &initialize("2025-11-25")));
    assert_eq!(opened.code(), 200, "{}", opened.text());
    let session = opened.headers["mcp-session-id"].to_str().expect("an id").to_owned();
    assert_eq!(proxy.client.answer(&post(&endpoint, INITIALIZED).in_session(&session)).code(), 202);
    // The server asks, and the answer comes only after the client's: a buffered stream would never end.
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"ask"}"#;
    let mut stream = proxy.client.open(&post(&endpoint, call).in_session(&session));
    let asked = stream.until(|sent| sent.data().len() == 1);
    assert!(asked.is_stream && !asked.is_over);
    let answer = result("1", r#"{"action":"accept"}"#);
    assert_eq!(proxy.client.answer(&post(&endpoint, &answer).in_session(&session)).code(), 202);
    let all = stream.until(|sent| sent.is_over).data();
    assert_eq!(all.last().map(String::as_str), Some(&*result("1", r#"{"action":"accept"}"#)));
    let ended = proxy.client.answer(&TestRequest::new("DELETE", "").at(&endpoint).in_session(&session));
    assert!(matches!(ended.code(), 200 | 204), "{}", ended.code());

    let stateless = proxy.client.answer(&TestRequest::stateless("1", "tools/list", "").at(&endpoint));
    assert_eq!(stateless.code(), 200, "{}", stateless.text());

    let mut stream = proxy.client.open(&TestRequest::get().at(&format!("{prefix}/sse")));
    let place = stream.events(1)[0].clone();
    assert!(place.starts_with(&format!("{prefix}/messages?sessionId=")), "{place}");
    assert_eq!(proxy.client.answer(&post(&place, &initialize("2024-11-05"))).code(), 202);
    assert!(stream.events(2)[1].contains(r#""protocolVersion":"2024-11-05""#));

    let metadata = format!("/.well-known/oauth-protected-resource{prefix}/mcp");
    let published = proxy.client.answer(&TestRequest::new("GET", "").at(&metadata));
    assert_eq!(published.code(), 200, "{}", published.text());
    assert!(published.text().contains(&format!(r#""resource":"https://mcp.example{prefix}/mcp""#)));
}
