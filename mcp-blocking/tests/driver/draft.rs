//! The draft of the next revision: it is used where both sides have been given it, and nowhere else.

use std::net::TcpListener;
use std::thread;

use mcp_blocking::{Client, Error, HttpOptions, Incoming, Proxy, Router, Server, pipe};
use mcp_intermediary::relay;
use mcp_model::{JsonObject, Tool};
use mcp_proto::ProtocolVersion::{Draft, V2025_11_25, V2026_07_28};
use mcp_proto::server::{Config, HttpConfig};
use mcp_proto::{ProtocolVersion, client};

/// The revisions of one side; `None` for those of the default configuration.
type Versions = Option<&'static [ProtocolVersion]>;

fn server(versions: Versions) -> Server {
    let mut config = Config::new("s", "1");
    if let Some(versions) = versions {
        config.versions = versions.into();
    }
    let tool = Tool::new("version", JsonObject::new().with("type", "object"));
    let answer = |_: JsonObject, incoming: &Incoming| Ok(incoming.version().to_string());
    Server::new(config, Router::new().tool_with_schema(&tool, answer))
}

fn builder(versions: Versions) -> mcp_blocking::Builder {
    let builder = Client::builder();
    if let Some(versions) = versions { builder.versions(versions.iter().copied()) } else { builder }
}

fn url_of(server: &Server) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let service = server.http(HttpConfig::new()).unwrap();
    thread::spawn(move || service.serve(listener));
    url
}

fn check(connected: Result<Client, Error>, expected: Option<ProtocolVersion>, what: &str) {
    match (connected, expected) {
        (Ok(client), Some(expected)) => {
            assert_eq!(client.version(), expected, "{what}");
            assert_eq!(client.call_tool("version", ()).unwrap().all_text(), expected.to_string(), "{what}");
        }
        (Err(_), None) => {}
        (connected, expected) => {
            panic!("{what}: {:?}, expected {expected:?}", connected.map(|client| client.version()))
        }
    }
}

#[test]
fn the_draft_is_used_only_where_both_sides_have_been_given_it() {
    for (of_client, of_server, expected) in [
        (None, None, Some(V2026_07_28)),
        (Some(&[Draft][..]), Some(&[Draft][..]), Some(Draft)),
        (Some(&[V2026_07_28, Draft]), Some(&[V2026_07_28, Draft]), Some(Draft)),
        (Some(&[V2026_07_28, Draft]), None, Some(V2026_07_28)),
        (Some(&[V2025_11_25, Draft]), None, Some(V2025_11_25)),
        (None, Some(&[V2026_07_28, Draft]), Some(V2026_07_28)),
        (Some(&[Draft]), None, None),
        (None, Some(&[Draft]), None),
    ] {
        let what = format!("{of_client:?} {of_server:?}");
        let server = server(of_server);
        check(builder(of_client).in_memory(&server).connect(), expected, &what);
        check(builder(of_client).http(&url_of(&server)).unwrap().connect(), expected, &what);
    }
    assert!(!ProtocolVersion::ALL.contains(&Draft));
    assert_eq!(ProtocolVersion::from_text(Draft.as_str()), Some(Draft));
}

#[test]
fn the_draft_passes_through_a_proxy_that_has_been_given_it() {
    for (of_proxy, expected) in [(&[V2026_07_28, Draft][..], Some(Draft)), (ProtocolVersion::ALL, None)] {
        let http = client::HttpConfig::new(&url_of(&server(Some(&[V2026_07_28, Draft])))).unwrap();
        let mut config = relay::Config::default();
        config.versions = of_proxy.into();
        let proxy = Proxy::http(http, HttpOptions::new(), config).unwrap();
        let ((from_client, to_proxy), (from_proxy, to_client)) = (pipe(), pipe());
        let running = thread::spawn(move || proxy.run(from_client, to_client, ()));
        let client = builder(Some(&[Draft])).stream(from_proxy, to_proxy).connect();
        check(client, expected, &format!("through a proxy with {of_proxy:?}"));
        running.join().unwrap().unwrap();
    }
}
