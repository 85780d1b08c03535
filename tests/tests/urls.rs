//! The check of a server's URL, which the drivers and the command line share.

use mcp_proto::UsageError;
use mcp_proto::client::HttpConfig;
use mcp_proto::url::InvalidUrl;
use tests::urls::{ACCEPTED_URLS, REFUSED_URLS};

#[test]
fn a_url_has_one_reading_or_is_refused() {
    for (url, sent) in ACCEPTED_URLS {
        let config = HttpConfig::new(url).unwrap_or_else(|error| panic!("{url}: {error}"));
        assert_eq!(config.uri().to_string(), *sent, "{url}");
        let shown = config.server();
        assert_eq!(shown.as_str(), sent.split('?').next().unwrap_or_default(), "the query may hold a key");
    }
    for (url, text) in REFUSED_URLS {
        let error = HttpConfig::new(url).expect_err(url);
        assert!(error.to_string().contains(text), "{url:?}: {error}");
        assert!(error.to_string().starts_with("the URL of the server "), "{error}");
        assert!(!error.to_string().contains("password@"), "{error}");
    }
    let long = format!("http://example.com/{}", "x".repeat(70_000));
    assert_eq!(HttpConfig::new(&long).unwrap_err(), UsageError::Endpoint(InvalidUrl::TooLong));
    // The URL is too long after percent-encoding.
    let long = format!("http://example.com/{}", "é".repeat(12_000));
    assert_eq!(HttpConfig::new(&long).unwrap_err(), UsageError::Endpoint(InvalidUrl::TooLong));
}

#[test]
fn a_server_on_this_machine_is_known_by_the_host_of_its_url() {
    for (url, expected) in [
        ("http://localhost:3000/mcp", true),
        ("https://app.localhost/", true),
        ("http://127.0.0.1/", true),
        ("http://[::1]:8080/sse", true),
        ("http://example.com/localhost", false),
        ("http://[2001:db8::7]/", false),
    ] {
        assert_eq!(HttpConfig::new(url).expect(url).is_loopback(), expected, "{url}");
    }
}

#[test]
fn no_host_name_is_too_long_to_be_refused_in_good_order() {
    let long = format!("http://{}/", "x".repeat(70_000));
    assert!(matches!(HttpConfig::new(&long), Err(UsageError::Endpoint(_))));
}
