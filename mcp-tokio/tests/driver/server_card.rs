//! A client reads the card of a server before it connects.

#![cfg(all(feature = "http-client", feature = "http-server"))]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use mcp_proto::server::{Config, HttpConfig};
use mcp_tokio::model::ServerCard;
use mcp_tokio::reqwest::dns::{Addrs, Name, Resolve, Resolving};
use mcp_tokio::{Client, Error, HttpOptions, Router, Server, reqwest};
use tests::server_cards::{ANSWERS, CARD, answering, large, unreachable_url};
use tokio::net::TcpListener;

async fn read(url: &str) -> Result<Option<ServerCard>, Error> {
    let builder = Client::builder().http(&format!("{url}?key=secret")).unwrap().bearer("secret").unwrap();
    builder.server_card().await
}

#[tokio::test]
async fn the_answer_of_a_server_is_its_card_or_none_or_an_error_that_names_the_server() {
    for (status, body, expected) in ANSWERS {
        let server = answering(status, *body);
        match (read(&server.url()).await, expected) {
            (Ok(card), Ok(name)) => assert_eq!(card.map(|card| card.name).as_deref(), *name),
            (Err(error), Err(text)) => {
                let error = error.to_string();
                assert!(error.contains(text) && error.contains(&server.url()), "{error}");
                assert!(!error.contains("secret"), "{error}");
            }
            (found, _) => panic!("{status} {body}: {found:?}"),
        }
        let [asked] = &server.requests()[..] else { panic!("one request") };
        assert_eq!(asked.header("authorization"), "Bearer secret");
        assert!(asked.line.starts_with("GET /mcp/server-card HTTP/1.1"), "{}", asked.line);
    }
}

#[tokio::test]
async fn a_card_that_is_too_large_or_cannot_be_reached_is_an_error() {
    let large = answering("200 OK", large());
    let error = read(&large.url()).await.unwrap_err();
    assert!(error.to_string().ends_with("cannot be read: its response is too large"), "{error}");
    let error = read(&unreachable_url()).await.unwrap_err();
    assert!(error.to_string().ends_with("cannot be read: it cannot be reached"), "{error}");
}

#[tokio::test]
async fn a_server_serves_the_card_of_its_setting() {
    let card = ServerCard::describe("com.example/weather", "1.0.0", "The weather anywhere.");
    let http = HttpConfig::new().server_card(card.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let service = Server::new(Config::new("weather", "1.0.0"), Router::new()).http(http).unwrap();
    tokio::spawn(async move { service.serve(listener).await });
    assert_eq!(read(&url).await.unwrap(), Some(card));
}

/// Resolves every name to this address.
struct Everywhere(IpAddr);

impl Resolve for Everywhere {
    fn resolve(&self, _: Name) -> Resolving {
        let addresses = vec![SocketAddr::new(self.0, 0)];
        Box::pin(async { Ok(Box::new(addresses.into_iter()) as Addrs) })
    }
}

#[tokio::test]
async fn a_card_is_fetched_from_the_machine_that_the_name_resolution_of_the_connection_finds() {
    let server = answering("200 OK", CARD);
    let url = server.url().replace("127.0.0.1", "mcp.invalid");
    let client = reqwest::Client::builder().no_proxy().dns_resolver(Arc::new(Everywhere(Ipv4Addr::LOCALHOST.into())));
    let builder = Client::builder().http(&url).unwrap().http_options(HttpOptions::new().client(client));
    let card = builder.server_card().await.unwrap();
    assert_eq!(card.map(|card| card.name).as_deref(), Some("com.example/weather"));
}
