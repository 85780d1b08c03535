//! Clients that sign in, with a server on loopback that demands tokens, and its authorization server.

use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use mcp_auth::{Config, Event};
use mcp_blocking::sign_in::{Authorization, MemoryStore, Store};
use mcp_blocking::{Client, Error, HttpOptions};
use mcp_proto::Failed;
use mcp_testkit::authorization::{ProtectedServer, browse};
use mcp_testkit::http_client::legacy_versions;
use tests::given_up_locks::{SignIn, a_lock_that_is_no_longer_wanted_is_not_taken};
use tests::provider_quirks::{self, OpenUrl};

fn connect(server: &ProtectedServer, authorization: Authorization) -> Result<Client, Error> {
    let builder = Client::builder().versions(legacy_versions()).http(&server.url()).unwrap();
    builder.authorization(authorization).connect()
}

/// A person who signs in at once.
fn authorization(server: &ProtectedServer, store: impl Store) -> Authorization {
    tests::deadline::set();
    let sign_in = |url: &str| {
        let url = url.to_owned();
        // The thread that asks for the browser also answers it.
        thread::spawn(move || browse(&url));
    };
    Authorization::new(&server.url(), "my-app").unwrap().store(store).open_url(sign_in)
}

#[test]
fn a_client_signs_in_when_it_is_challenged_and_later_ones_use_its_tokens() {
    let (server, store) = (ProtectedServer::start(), MemoryStore::new());
    for expected in ["", "Bearer access-1"] {
        let asked = server.requests().len();
        let client = connect(&server, authorization(&server, store.clone())).unwrap();
        client.request("tools/list", None).unwrap();
        client.close();
        assert_eq!(server.requests()[asked].header("authorization"), expected);
        assert_eq!(server.issuer(|issuer| issuer.authorizations.len()), 1);
    }
    server.refuse_tokens();
    connect(&server, authorization(&server, store)).unwrap().request("tools/list", None).unwrap();
    assert_eq!(server.issuer(|issuer| (issuer.authorizations.len(), issuer.token_requests.len())), (1, 2));
    server.check();
}

#[test]
fn au23_a_sign_in_that_no_person_finishes_ends_in_time_and_its_reason_reaches_the_caller() {
    let server = ProtectedServer::start();
    let authorization = Authorization::new(&server.url(), "my-app").unwrap().open_url(|_| {});
    let authorization = authorization.configure(|config| config.user_timeout = Duration::from_millis(300));
    let error = connect(&server, authorization).unwrap_err();
    assert!(matches!(error, Error::Failed { reason: Failed::NotAuthorized { .. }, .. }), "{error:?}");
    assert!(error.to_string().contains("no sign-in was completed"), "{error}");
}

#[test]
fn a_lock_that_is_no_longer_wanted_is_neither_kept_nor_released_for_another_process() {
    a_lock_that_is_no_longer_wanted_is_not_taken(&|url, store, change, events| {
        let authorization = Authorization::new(url, "my-app").unwrap().store(store).open_url(|_| {});
        let report = move |event| drop(events.send(event));
        let sign_in = authorization.configure(change).start(HttpOptions::new(), report).unwrap();
        Box::new(move |cause| sign_in.begin(cause))
    });
}

fn start(
    url: &str,
    store: MemoryStore,
    change: &dyn Fn(&mut Config),
    mut open: OpenUrl,
    events: Sender<Event>,
) -> SignIn {
    tests::deadline::set();
    let authorization = Authorization::new(url, "my-app").unwrap().store(store).open_url(move |url| open(url));
    let report = move |event| drop(events.send(event));
    let sign_in = authorization.configure(change).start(HttpOptions::new(), report).unwrap();
    Box::new(move |cause| sign_in.begin(cause))
}

#[test]
fn each_quirk_of_a_provider_is_accepted_or_named() {
    provider_quirks::play(&start);
}

#[test]
fn oa_r_06_a_client_that_the_authorization_server_has_forgotten_is_registered_again() {
    provider_quirks::a_forgotten_client_is_registered_again(&start);
}

#[test]
fn oa_s_03_a_token_that_is_refused_for_a_scope_that_it_has_is_refreshed_once() {
    provider_quirks::a_token_that_is_refused_for_a_scope_that_it_has_is_refreshed_once(&start);
}
