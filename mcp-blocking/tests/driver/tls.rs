//! Tests of TLS: private certificate authorities and client certificates.

use std::time::{Duration, Instant};

use mcp_blocking::{Builder, Client, HttpOptions};
use mcp_testkit::http_client::legacy_versions;
use mcp_testkit::loopback_server::LoopbackServer;
use tests::dripping::{BOUND, Dripping};

use crate::authority::{Authority, Identity, self_signed, server, server_with, url};

/// A client for servers that begin with `initialize`.
fn legacy_client() -> Builder {
    tests::deadline::set();
    Client::builder().versions(legacy_versions())
}

fn connect(
    server: &LoopbackServer,
    authority: Option<&Authority>,
    identity: Option<&Identity>,
) -> Result<Client, String> {
    let mut options = HttpOptions::new();
    if let Some(authority) = authority {
        options.trust(authority.pem().as_bytes()).unwrap();
    }
    if let Some(identity) = identity {
        options.identify(identity.certificate.as_bytes(), identity.key.as_bytes()).unwrap();
    }
    let builder = legacy_client().http(&url(server)).unwrap().http_options(options);
    builder.connect().map_err(|error| error.to_string())
}

#[test]
fn a_private_authority_is_trusted_when_it_is_named_and_not_before() {
    let authority = Authority::new();
    let server = server(&authority, false);
    let error = connect(&server, None, None).unwrap_err();
    assert!(
        error.contains("cannot be reached: its certificate comes from an authority that is not trusted"),
        "{error}"
    );
    let error = connect(&server, Some(&Authority::new()), None).unwrap_err();
    assert!(error.contains("TLS failed"), "{error}");
    let client = connect(&server, Some(&authority), None).unwrap();
    for _ in 0..10 {
        client.request("tools/call", None).unwrap();
    }
}

#[test]
fn a_self_signed_certificate_is_used_or_the_error_states_what_to_do() {
    let connect = |is_authority| {
        let own = self_signed(is_authority);
        let pem = own.certificate.clone();
        let server = server_with(own);
        let builder = legacy_client().http(&url(&server)).unwrap();
        let mut options = HttpOptions::new();
        options.trust(pem.as_bytes()).unwrap();
        builder
            .http_options(options)
            .connect()
            .map(|client| client.request("tools/call", None).unwrap())
            .map_err(|error| error.to_string())
    };
    assert!(connect(false).is_ok());
    let error = connect(true).unwrap_err();
    assert!(error.contains("its certificate is one of an authority (CA:TRUE)"), "{error}");
    assert!(error.contains("openssl req -x509 -addext basicConstraints=critical,CA:FALSE"), "{error}");
}

#[test]
fn a_server_that_requires_a_certificate_gets_it() {
    let authority = Authority::new();
    let server = server(&authority, true);
    assert!(connect(&server, Some(&authority), None).is_err());
    let stranger = Authority::new().issue("client");
    assert!(connect(&server, Some(&authority), Some(&stranger)).is_err());
    let client = connect(&server, Some(&authority), Some(&authority.issue("client"))).unwrap();
    client.request("tools/call", None).unwrap();
}

#[test]
fn connecting_is_bounded_as_a_whole_although_the_server_or_the_proxy_sends_a_byte_now_and_then() {
    for dripping in [Dripping::Handshake, Dripping::ProxyResponse] {
        let address = dripping.start();
        let mut options = HttpOptions::new();
        options.connect_timeout = Duration::from_secs(1);
        let url = match dripping {
            Dripping::Handshake => format!("https://{address}/mcp"),
            Dripping::ProxyResponse => {
                options.proxy(&format!("http://{address}")).unwrap();
                "https://192.0.2.1/mcp".to_owned()
            }
        };
        let began = Instant::now();
        let builder = legacy_client().http(&url).unwrap().http_options(options);
        let error = builder.connect().unwrap_err().to_string();
        assert!(began.elapsed() < BOUND, "{dripping:?}: {error}");
        assert!(error.contains("cannot be reached"), "{dripping:?}: {error}");
    }
}
