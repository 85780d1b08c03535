//! A client reads the card of a server before it connects.

use std::net::TcpListener;
use std::thread;

use mcp_blocking::model::ServerCard;
use mcp_blocking::{Client, Error, Router, Server};
use mcp_proto::server::{Config, HttpConfig};
use tests::server_cards::{ANSWERS, answering, large, unreachable_url};

fn read(url: &str) -> Result<Option<ServerCard>, Error> {
    let builder = Client::builder().http(&format!("{url}?key=secret")).unwrap().bearer("secret").unwrap();
    builder.server_card()
}

#[test]
fn the_answer_of_a_server_is_its_card_or_none_or_an_error_that_names_the_server() {
    for (status, body, expected) in ANSWERS {
        let server = answering(status, *body);
        match (read(&server.url()), expected) {
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

#[test]
fn a_card_that_is_too_large_or_cannot_be_reached_is_an_error() {
    let large = answering("200 OK", large());
    let error = read(&large.url()).unwrap_err();
    assert!(error.to_string().ends_with("cannot be read: its response is too large"), "{error}");
    let error = read(&unreachable_url()).unwrap_err();
    assert!(error.to_string().ends_with("cannot be read: it cannot be reached"), "{error}");
}

#[test]
fn a_server_serves_the_card_of_its_setting() {
    let card = ServerCard::describe("com.example/weather", "1.0.0", "The weather anywhere.");
    let http = HttpConfig::new().server_card(card.clone());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let service = Server::new(Config::new("weather", "1.0.0"), Router::new()).http(http).unwrap();
    thread::spawn(move || service.serve(listener));
    assert_eq!(read(&url).unwrap(), Some(card));
}
