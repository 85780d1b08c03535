//! Authorization servers that differ from the rules, and what a sign-in makes of each.
//!
//! One table, which the machine plays in memory, and both drivers on loopback: a server, its authorization server, and a
//! person with a browser. `docs/proxy.md` has the quirks for people, [`ProviderQuirk`] their names.

mod rows;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

use ProviderQuirk::ErrorWithoutState;
use http::{HeaderValue, StatusCode};
use mcp_auth::{Cause, Config, Event, FetchFailure, ProviderQuirk, Step};
use mcp_proto::auth::Challenge;
use mcp_testkit::authorization::{Issuer, ProtectedServer, World, browse};
use mcp_testkit::waiting::LONG;
use mcp_token_store::{MemoryStore, Store};
use rows::{Row, Surroundings, rows};
use serde_json::{Value, json};

use crate::given_up_locks::SignIn;

/// Shows a URL to a person.
pub type OpenUrl = Box<dyn FnMut(&str) + Send>;

/// Starts a sign-in at the server with this URL, with this store, change of the configuration, browser, and receiver of
/// events.
pub type Start<'s> = dyn Fn(&str, MemoryStore, &dyn Fn(&mut Config), OpenUrl, Sender<Event>) -> SignIn + 's;

/// What a row has led to.
#[derive(Debug)]
struct Played {
    quirks: Vec<ProviderQuirk>,
    outcome: Result<String, String>,
    pages: Vec<String>,
}

impl Row {
    fn expect(&self, played: &Played, issuer: &Issuer) {
        let name = self.name;
        match (&self.outcome, &played.outcome) {
            (Ok(expected), Ok(token)) => assert_eq!(token, expected, "{name}"),
            (Err(texts), Err(error)) => {
                assert!(texts.iter().all(|text| error.contains(text)), "{name}: {error}");
                assert!(!error.chars().any(char::is_control), "{name}: {error:?}");
            }
            (expected, found) => panic!("{name}: {found:?} in place of {expected:?}"),
        }
        assert_eq!(played.quirks, self.quirks, "{name}");
        let (contained, not_contained) = self.page;
        let page = played.pages.last().map_or("", String::as_str);
        assert!(page.contains(contained) && !page.contains(not_contained), "{name}: {page}");
        (self.check)(issuer);
    }
}

/// Plays each row with the machine alone.
///
/// # Panics
///
/// If something else happens than a row expects.
pub fn play_in_memory() {
    for row in rows() {
        let mut world = World::new().with(row.configure);
        let document = "https://mcp.example/.well-known/oauth-protected-resource/v1/mcp";
        let mut challenge = format!(r#"Bearer resource_metadata="{document}""#);
        world.unreachable = Some(("https://inner.example".to_owned(), FetchFailure::Unreachable));
        (row.change)(&mut Surroundings {
            issuer: world.issuers.get_mut("https://as.example/t").expect("the authorization server"),
            challenge: &mut challenge,
            documents: &mut world.documents,
            document: document.to_owned(),
            document_path: "/.well-known/oauth-protected-resource/v1/mcp".to_owned(),
            root_document: "https://mcp.example/.well-known/oauth-protected-resource".to_owned(),
            unreachable: "https://inner.example",
        });
        world.challenge(0, 401, &challenge);
        let process = &mut world.processes[0];
        let mut quirks = std::mem::take(&mut process.quirks);
        quirks.extend(process.without_state.iter().map(|_| ErrorWithoutState));
        let outcome = match (process.token(), &process.refused[..]) {
            (Some(token), []) => Ok(token.to_owned()),
            (None, [error]) => Err(error.to_string()),
            (token, errors) => panic!("{}: {token:?} {errors:?}", row.name),
        };
        let pages = std::mem::take(&mut process.pages);
        row.expect(&Played { quirks, outcome, pages }, world.issuer());
        world.check();
    }
}

/// Plays each row with a driver on loopback.
///
/// # Panics
///
/// If something else happens than a row expects.
pub fn play(start: &Start<'_>) {
    for row in rows() {
        let server = ProtectedServer::start();
        let url = server.url();
        let origin = url.strip_suffix("/mcp").expect("the path of the server");
        let document_path = "/.well-known/oauth-protected-resource/mcp";
        let (mut challenge, mut documents) =
            server.discovery(|challenge, documents| (challenge.clone(), documents.clone()));
        server.issuer(|issuer| {
            (row.change)(&mut Surroundings {
                issuer,
                challenge: &mut challenge,
                documents: &mut documents,
                document: format!("{origin}{document_path}"),
                document_path: document_path.to_owned(),
                root_document: format!("{origin}/.well-known/oauth-protected-resource"),
                // Nothing listens there.
                unreachable: "http://127.0.0.1:1",
            });
        });
        server.discovery(|own_challenge, own_documents| {
            own_challenge.clone_from(&challenge);
            *own_documents = documents;
        });
        let (events, pages) = sign_in(start, &url, &MemoryStore::new(), &row.configure, &challenged(401, &challenge));
        let played = played(&events, &pages);
        server.issuer(|issuer| row.expect(&played, issuer));
        server.check();
    }
}

fn challenged(status: u16, challenge: &str) -> Cause {
    let challenges = Challenge::parse([&HeaderValue::from_str(challenge).expect("a header")]);
    let status = StatusCode::from_u16(status).expect("a status");
    Cause::Challenged { status, challenges, generation: None, is_background: false }
}

/// Starts a sign-in, and returns its events until its end and the pages of the browser.
fn sign_in(
    start: &Start<'_>,
    url: &str,
    store: &MemoryStore,
    configure: &dyn Fn(&mut Config),
    cause: &Cause,
) -> (Vec<Event>, Receiver<String>) {
    let (report, events) = channel();
    let (show, pages) = channel();
    let running = start(url, store.clone(), configure, browser(show), report);
    running(cause.clone());
    (until_end(&events), pages)
}

/// A person who signs in, and who opens the URL again if the browser returned without success and the sign-in still waits.
fn browser(show: Sender<String>) -> OpenUrl {
    Box::new(move |url| {
        let (url, show) = (url.to_owned(), show.clone());
        // The thread that asks for the browser may also answer it.
        thread::spawn(move || {
            loop {
                let page = String::from_utf8_lossy(&browse(&url).body).into_owned();
                let is_waiting = page.contains("still waits");
                // A test that has ended does not read it.
                let _ = show.send(page);
                if !is_waiting {
                    return;
                }
            }
        });
    })
}

fn until_end(events: &Receiver<Event>) -> Vec<Event> {
    let (mut all, until) = (Vec::new(), Instant::now() + LONG);
    loop {
        let event = events.recv_timeout(until.saturating_duration_since(Instant::now())).expect("an event");
        let is_end = matches!(event, Event::Authorized(_) | Event::Refused(_));
        all.push(event);
        if is_end {
            return all;
        }
    }
}

fn played(events: &[Event], pages: &Receiver<String>) -> Played {
    let quirks = events.iter().filter_map(|event| match event {
        Event::Step(Step::Quirk { quirk, .. }) => Some(*quirk),
        Event::Step(Step::ErrorWithoutState { .. }) => Some(ErrorWithoutState),
        _ => None,
    });
    let outcome = match events.last() {
        Some(Event::Authorized(authorized)) => Ok(authorized.token.reveal().to_owned()),
        Some(Event::Refused(error)) => Err(error.to_string()),
        other => panic!("{other:?}"),
    };
    let quirks = quirks.collect();
    let asked = events.iter().any(|event| matches!(event, Event::Waiting(_)));
    let mut shown = Vec::new();
    // The thread of the browser ends after its last page.
    while let (true, Ok(page)) = (asked, pages.recv_timeout(LONG)) {
        let is_last = !page.contains("still waits");
        shown.push(page);
        if is_last {
            break;
        }
    }
    Played { quirks, outcome, pages: shown }
}

/// The name under which the tokens are stored.
fn key(url: &str) -> String {
    Config::new(url, "my-app").expect("a URL").store_key()
}

/// Changes what is stored.
fn edit(store: &mut MemoryStore, url: &str, change: impl FnOnce(&mut Value)) {
    let record = store.load(&key(url)).expect("the store works").expect("a record");
    let mut record = serde_json::from_slice(&record).expect("JSON");
    change(&mut record);
    store.store(&key(url), record.to_string().as_bytes()).expect("the store works");
}

/// A client that the authorization server has forgotten, so that the browser does not return: the process ends, and the
/// next sign-in registers another client.
///
/// # Panics
///
/// If it does not.
pub fn a_forgotten_client_is_registered_again(start: &Start<'_>) {
    let (server, mut store) = (ProtectedServer::start(), MemoryStore::new());
    let url = server.url();
    let cause = challenged(401, &server.discovery(|challenge, _| challenge.clone()));
    let registrations = || server.issuer(|issuer| issuer.registrations.len());
    let (events, _) = sign_in(start, &url, &store, &|_| {}, &cause);
    assert!(matches!(events.last(), Some(Event::Authorized(_))), "{events:?}");
    edit(&mut store, &url, |record| drop(record.as_object_mut().map(|record| record.remove("tokens"))));
    server.issuer(Issuer::forget_clients);

    // The person is sent to a page of the authorization server, and ends the program.
    let (report, _events) = channel();
    let (show, pages) = channel();
    let running = start(&url, store.clone(), &|_| {}, browser(show), report);
    running(cause.clone());
    assert_eq!(pages.recv_timeout(LONG).as_deref(), Ok("not found"));
    assert_eq!(registrations(), 1);
    drop(running);

    let (events, _) = sign_in(start, &url, &store, &|_| {}, &cause);
    assert!(matches!(events.last(), Some(Event::Authorized(_))), "{events:?}");
    assert_eq!(registrations(), 2);
    let client = server.issuer(|issuer| issuer.authorizations.last().expect("a request")["client_id"].clone());
    assert_eq!(client, "client-2");
    // This one has come back, and is used again.
    edit(&mut store, &url, |record| drop(record.as_object_mut().map(|record| record.remove("tokens"))));
    sign_in(start, &url, &store, &|_| {}, &cause);
    assert_eq!(registrations(), 2);
    server.check();
}

/// A token that is refused with `insufficient_scope` although it has the scope: it is refreshed once.
///
/// # Panics
///
/// If it is not.
pub fn a_token_that_is_refused_for_a_scope_that_it_has_is_refreshed_once(start: &Start<'_>) {
    let (server, mut store) = (ProtectedServer::start(), MemoryStore::new());
    let url = server.url();
    let scoped = server.discovery(|challenge, _| format!(r#"{challenge}, scope="read""#));
    sign_in(start, &url, &store, &|_| {}, &challenged(401, &scoped));
    edit(&mut store, &url, |record| {
        let issued_at = record["tokens"]["issued_at"].as_u64().expect("a time");
        record["tokens"]["issued_at"] = json!(issued_at - 100);
    });

    let (report, events) = channel();
    let (show, _pages) = channel();
    let running = start(&url, store, &|_| {}, browser(show), report);
    running(Cause::Start);
    let found = until_end(&events);
    let Some(Event::Authorized(authorized)) = found.last() else { panic!("{found:?}") };
    let mut generation = authorized.generation;
    for expected in [Ok("access-2"), Err("granted already"), Err("granted already")] {
        let insufficient = format!(r#"{scoped}, error="insufficient_scope""#);
        let Cause::Challenged { status, challenges, .. } = challenged(403, &insufficient) else { unreachable!() };
        running(Cause::Challenged { status, challenges, generation: Some(generation), is_background: false });
        let found = until_end(&events);
        match (found.last(), expected) {
            (Some(Event::Authorized(authorized)), Ok(token)) => {
                assert_eq!(authorized.token.reveal(), token);
                generation = authorized.generation;
                let quirk = ProviderQuirk::GrantedScopeRefused;
                assert!(
                    found
                        .iter()
                        .any(|event| matches!(event, Event::Step(Step::Quirk { quirk: own, .. }) if *own == quirk))
                );
            }
            (Some(Event::Refused(error)), Err(text)) => assert!(error.to_string().contains(text), "{error}"),
            (found, expected) => panic!("{found:?} in place of {expected:?}"),
        }
    }
    assert_eq!(server.issuer(|issuer| (issuer.authorizations.len(), issuer.token_requests.len())), (1, 2));
    server.check();
}
