//! The catalogue of bad input, for clients that sign in: what servers, browsers and stores pass to an `Authorizer`.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use mcp_auth::{Action, Authorizer, Cause, Event, FetchFailure, FetchKey, Grant, Lock, Reach, Seed, SignInError};
use mcp_proto::auth::Challenge;
use mcp_proto::{Instant, Output};
use mcp_testkit::authorization::{BEGIN, Person, SERVER, World, config};
use serde_json::json;

const RESOURCE_DOCUMENT: &str = "https://mcp.example/.well-known/oauth-protected-resource/v1/mcp";
const ISSUER: &str = "https://as.example/t";

/// Nothing was sent but requests for metadata, and no browser was opened.
fn assert_only_read(world: &World, what: &str) {
    assert!(world.requests.iter().all(|request| request.starts_with("GET ")), "{what}: {:?}", world.requests);
    assert!(world.processes[0].waiting.is_empty() && world.processes[0].token().is_none(), "{what}");
    assert_eq!(world.processes[0].refused.len(), 1, "{what}");
    world.check();
}

/// A world whose person does nothing, and the redirect that would end its sign-in.
fn awaiting() -> (World, String) {
    let mut world = World::new();
    world.person = Person::IsAway;
    world.challenge(0, 401, "Bearer");
    let url = world.processes[0].shown.take().unwrap();
    let redirect = world.visit(&url);
    (world, redirect)
}

#[test]
fn au4_au5_au8_no_endpoint_of_metadata_that_must_not_be_used_is_used() {
    for (member, value) in [
        ("issuer", json!("https://as.example/t/")),
        ("issuer", json!("https://AS.example/t")),
        ("issuer", json!("https://evil.example")),
        ("authorization_endpoint", json!("javascript:alert(1)")),
        ("authorization_endpoint", json!("file:///bin/sh")),
        ("authorization_endpoint", json!("http://as.example/t/authorize")),
        ("authorization_endpoint", json!("https://as.example/t/authorize?state=chosen")),
        ("token_endpoint", json!("http://as.example/t/token")),
        ("token_endpoint", json!("https://as.example\\@evil.example/token")),
        ("token_endpoint", json!("https://user@as.example/t/token")),
        ("registration_endpoint", json!("http://169.254.169.254/latest")),
        ("revocation_endpoint", json!("ftp://as.example/t/revoke")),
        ("code_challenge_methods_supported", json!(["plain"])),
        ("code_challenge_methods_supported", json!(null)),
    ] {
        let mut world = World::new();
        let what = format!("{member}: {value}");
        world.issuer().metadata[member] = value;
        // The client is known, so that only what was changed is in the way.
        let mut world = world.with(|config| config.registered = Some(mcp_auth::ClientIdentity::new("id")));
        world.challenge(0, 401, "Bearer");
        assert_only_read(&world, &what);
    }
}

#[test]
fn au2_au3_au5_hostile_urls_of_a_server_are_refused_before_they_are_used() {
    for (named, requests) in [
        ("http://evil.example/x", 0),
        ("javascript:alert(1)", 0),
        ("file:///etc/passwd", 0),
        ("https://user:password@mcp.example/x", 0),
        ("https://mcp.example#@evil.example/", 0),
        ("//evil.example/x", 0),
    ] {
        let mut world = World::new();
        world.challenge(0, 401, &format!(r#"Bearer resource_metadata="{named}""#));
        assert!(matches!(world.processes[0].refused[..], [SignInError::Url { .. }]), "{named}");
        assert_eq!(world.requests.len(), requests, "{named}");
        assert_only_read(&world, named);
    }
    for issuer in ["http://as.example/t", "javascript:alert(1)", "https://as.example\\@evil.example", ""] {
        let mut world = World::new();
        let document = json!({ "resource": SERVER, "authorization_servers": [issuer] }).to_string();
        world.documents.insert(RESOURCE_DOCUMENT.to_owned(), (200, document));
        world.challenge(0, 401, "Bearer");
        assert!(matches!(world.processes[0].refused[..], [SignInError::Url { .. }]), "{issuer}");
        assert_eq!(world.requests.len(), 1, "{issuer}");
        assert_only_read(&world, issuer);
    }
}

#[test]
fn au6_au7_a_failure_of_any_request_ends_the_sign_in_and_is_reported() {
    for url in ["https://mcp.example/.well-known/", "https://as.example/.well-known/", "https://as.example/t/"] {
        for failure in [FetchFailure::TooLarge, FetchFailure::TimedOut, FetchFailure::Unreachable] {
            let mut world = World::new();
            world.unreachable = Some((url.to_owned(), failure));
            world.challenge(0, 401, "Bearer");
            let refused = &world.processes[0].refused;
            assert!(
                matches!(refused[..], [SignInError::Fetch { reason, .. }] if reason == failure),
                "{url} {failure:?}: {refused:?}"
            );
            world.check();
        }
    }
    for path in ["register", "token"] {
        let mut world = World::new();
        world.documents.insert(format!("{ISSUER}/{path}"), (503, "<html>".to_owned()));
        world.challenge(0, 401, "Bearer");
        assert_eq!((world.processes[0].token(), world.processes[0].refused.len()), (None, 1), "{path}");
        assert!(world.processes[0].refused[0].to_string().contains("try again later"), "{path}");
        world.check();
    }
}

#[test]
fn au9_au10_a_redirect_of_an_earlier_sign_in_is_ignored_and_a_wrong_code_is_sent_once() {
    let (mut world, first) = awaiting();
    let evil = first.replace("code-1", "injected");
    assert!(world.redirect(0, &evil));
    let sent = world.issuer().token_requests.clone();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0]["code"], "injected");
    // The issuer has refused it: a second sign-in has begun, with a state and a verifier of its own.
    let url = world.processes[0].shown.take().unwrap();
    let second = world.visit(&url);
    for replayed in [&evil, &first] {
        assert!(!world.redirect(0, replayed));
    }
    assert_eq!(world.issuer().token_requests.len(), 1);
    assert!(world.redirect(0, &second));
    assert!(!world.redirect(0, &second), "a code is used once");
    let sent = &world.issuer().token_requests;
    assert_eq!((sent.len(), sent[1]["code"].as_str()), (2, "code-2"));
    assert_ne!(sent[0]["code_verifier"], sent[1]["code_verifier"]);
    assert_eq!(world.processes[0].token(), Some("access-1"));
    world.check();
}

#[test]
fn au12_what_stands_in_a_fragment_or_twice_is_never_a_response() {
    let (mut world, redirect) = awaiting();
    let query = redirect.split_once('?').unwrap().1.to_owned();
    let state = query.split('&').find(|pair| pair.starts_with("state=")).unwrap().to_owned();
    for text in [
        format!("http://127.0.0.1:40000/callback#{query}"),
        format!("http://127.0.0.1:40000/callback#access_token=evil&token_type=Bearer&{state}"),
        format!("http://127.0.0.1:40000/callback?code=code-1#{state}"),
        format!("http://127.0.0.1:40000/callback?{state}&{query}"),
        "http://127.0.0.1:40000/callback?access_token=evil&token_type=Bearer".to_owned(),
    ] {
        assert!(!world.redirect(0, &text), "{text}");
        assert!(world.issuer().token_requests.is_empty() && world.processes[0].listening.is_some(), "{text}");
    }
    assert!(world.redirect(0, &redirect));
    assert_eq!(world.processes[0].token(), Some("access-1"));
    world.check();
}

#[test]
fn au12_a_query_of_a_redirect_may_contain_question_marks() {
    let (mut world, redirect) = awaiting();
    let query = redirect.split_once('?').unwrap().1.replace("code-1", "a?b/c");
    let uri = format!("/callback?{query}");
    let head = Request::get(uri).header("Host", "127.0.0.1:40000").body(()).unwrap().into_parts().0;
    assert_eq!(world.callback(0, &head).status(), 200);
    assert_eq!(world.issuer().token_requests[0]["code"], "a?b/c");
    world.pass(Duration::from_secs(301));
    world.check();
}

#[test]
fn au14_a_response_without_a_usable_token_ends_the_sign_in_and_stores_none() {
    let long = json!({ "access_token": "a".repeat(16 * 1024 + 1), "token_type": "Bearer" }).to_string();
    for (status, body) in [
        (201, "access_token=evil&token_type=bearer"),
        (200, "access_token=evil&access_token=other&token_type=bearer"),
        (200, r#"{"authed_user":{"access_token":"evil","token_type":"mac"}}"#),
        (200, r#"{"access_token":"evil","token_type":"mac"}"#),
        (200, r#"{"access_token":"evil\r\nX: y","token_type":"Bearer"}"#),
        (200, r#"{"access_token":"evil","token_type":"Bearer","error":"unauthorized_client"}"#),
        (201, r#"{"access_token":"evil","token_type":"Bearer"}"#),
        (307, r#"{"access_token":"evil","token_type":"Bearer"}"#),
        (200, &long),
    ] {
        let mut world = World::new();
        world.issuer().token_responses.push_back((status, body.to_owned()));
        world.challenge(0, 401, "Bearer");
        assert_eq!((world.processes[0].token(), world.processes[0].refused.len()), (None, 1), "{status} {body:.60}");
        let stored = String::from_utf8(world.stored.clone().unwrap()).unwrap();
        assert!(!stored.contains("access_token"), "{status} {body:.60}");
        world.check();
    }
}

#[test]
fn au16_a_registration_that_is_refused_or_unusable_is_reported_without_control_characters() {
    for (status, body) in [
        (400, r#"{"error":"invalid_redirect_uri","error_description":"\u001b[31mno\r\n\u202e"}"#),
        (401, "<html>"),
        (403, "{}"),
        (302, r#"{"client_id":"evil"}"#),
        (201, "{}"),
        (201, "[]"),
        (201, r#"{"client_id":""}"#),
        (201, r#"{"client_id":"a","token_endpoint_auth_method":"client_secret_basic"}"#),
    ] {
        let mut world = World::new();
        world.documents.insert(format!("{ISSUER}/register"), (status, body.to_owned()));
        world.challenge(0, 401, "Bearer");
        let process = &world.processes[0];
        assert!(process.waiting.is_empty(), "a person is sent to a server that does not know the client: {body}");
        assert_eq!(process.refused.len(), 1, "{body}");
        assert!(!process.refused[0].to_string().contains(['\u{1b}', '\r', '\n', '\u{202e}']), "{body}");
        world.check();
    }
}

/// The first requests of a machine that its test answers.
struct Alone {
    authorizer: Authorizer,
    now: Instant,
}

impl Alone {
    fn challenged() -> Self {
        Self::with(Challenge::bearer())
    }

    fn with(challenge: Challenge) -> Self {
        let mut authorizer = Authorizer::new(config());
        let challenges = vec![challenge];
        let status = http::StatusCode::UNAUTHORIZED;
        let cause = Cause::Challenged { status, challenges, generation: None, is_background: false };
        authorizer.begin(cause, Seed::new([1; 32]), BEGIN, Instant::START);
        Self { authorizer, now: Instant::START }
    }

    /// The next request; `None` if the flow has ended before it.
    fn next(&mut self) -> Option<(FetchKey, Request<Bytes>)> {
        while let Some(output) = self.authorizer.poll_output() {
            match output {
                Output::Action(Action::Fetch { fetch, request, reach, limit, timeout }) => {
                    // The host that the user has named may have any address.
                    let expected =
                        if request.uri().host() == Some("mcp.example") { Reach::Private } else { Reach::Public };
                    assert_eq!((reach, limit), (expected, 64 * 1024));
                    assert!(timeout <= Duration::from_secs(30));
                    return Some((fetch, request));
                }
                Output::Action(Action::Lock(lock)) => self.authorizer.handle_locked(lock, self.now),
                Output::Action(Action::Load) => self.authorizer.handle_loaded(None, self.now),
                Output::Action(_) | Output::Event(_) => {}
            }
        }
        None
    }

    fn redirect(&mut self, fetch: FetchKey, location: &str) {
        let (head, ()) = Response::builder().status(302).header("location", location).body(()).unwrap().into_parts();
        self.authorizer.handle_response(fetch, &head, b"", self.now);
    }
}

#[test]
fn au7_au17_au18_metadata_is_small_and_public_and_redirects_stay_on_its_origin() {
    for (location, is_followed) in [
        ("/moved", true),
        ("https://mcp.example/moved", true),
        ("https://evil.example/moved", false),
        ("http://mcp.example/moved", false),
        ("//evil.example/moved", false),
        ("https://mcp.example.evil.example/moved", false),
        ("https://mcp.example@evil.example/moved", false),
        ("javascript:alert(1)", false),
        ("", false),
    ] {
        let mut alone = Alone::challenged();
        let (fetch, request) = alone.next().unwrap();
        assert_eq!(request.uri(), RESOURCE_DOCUMENT);
        alone.redirect(fetch, location);
        let (_, request) = alone.next().unwrap();
        let expected = if is_followed {
            "https://mcp.example/moved"
        } else {
            "https://mcp.example/.well-known/oauth-protected-resource"
        };
        assert_eq!(request.uri(), expected, "{location}");
    }
    let elsewhere = "https://elsewhere.example/metadata";
    let mut alone = Alone::with(Challenge::bearer().with("resource_metadata", elsewhere));
    assert_eq!(alone.next().unwrap().1.uri(), elsewhere);

    let mut alone = Alone::challenged();
    let mut requests = 0;
    while let Some((fetch, _)) = alone.next() {
        requests += 1;
        alone.redirect(fetch, "/around");
    }
    // Three redirects for each of two places; none of the server as an authorization server of its own.
    assert_eq!((requests, alone.authorizer.is_busy()), (8, false));
}

#[test]
fn au29_what_comes_late_twice_or_to_nothing_has_no_effect() {
    let mut alone = Alone::challenged();
    let (first, _) = alone.next().unwrap();
    let (head, ()) = Response::builder().status(404).body(()).unwrap().into_parts();
    alone.authorizer.handle_response(first, &head, b"", alone.now);
    let (second, _) = alone.next().unwrap();
    // The first request is over.
    alone.authorizer.handle_response(first, &head, b"", alone.now);
    alone.authorizer.handle_failure(first, FetchFailure::TimedOut, alone.now);
    assert!(alone.next().is_none() && alone.authorizer.is_busy());
    alone.authorizer.handle_failure(second, FetchFailure::TimedOut, alone.now);
    let refused = alone.authorizer.poll_output();
    let is_refused = |output: &Output<Action, Event>| matches!(output, Output::Event(Event::Refused(_)));
    let mut outputs: Vec<_> = refused.into_iter().collect();
    outputs.extend(std::iter::from_fn(|| alone.authorizer.poll_output()));
    assert_eq!(outputs.iter().filter(|output| is_refused(output)).count(), 1);
    for what in 0..9 {
        let (authorizer, now) = (&mut alone.authorizer, alone.now);
        match what {
            0 => authorizer.handle_response(second, &head, b"{}", now),
            1 => authorizer.handle_failure(second, FetchFailure::TooLarge, now),
            2 => authorizer.handle_locked(Lock::Record, now),
            3 => authorizer.handle_loaded(Some(b"{}"), now),
            4 => authorizer.handle_listening(Some(1), now),
            5 => assert!(!authorizer.handle_redirect("?state=a&code=b", now)),
            6 => authorizer.handle_obtained(Some("token"), now),
            7 => authorizer.handle_key(None, now),
            _ => authorizer.handle_timeout(now + Duration::from_secs(1000)),
        }
        assert!(authorizer.poll_output().is_none() && !authorizer.is_busy(), "{what}");
    }
}

#[test]
fn au25_a_stored_record_that_cannot_be_read_counts_as_none_and_is_replaced() {
    let mut world = World::new();
    world.challenge(0, 401, "Bearer");
    let stored = world.stored.clone().unwrap();
    let other = String::from_utf8(stored.clone()).unwrap().replace(r#""format":1"#, r#""format":2"#);
    assert_ne!(other.as_bytes(), stored);
    let cut = stored[..stored.len() / 2].to_vec();
    for (damaged, is_read) in [
        (stored, true),
        (other.into_bytes(), false),
        (cut, false),
        (Vec::new(), false),
        (b"{}".to_vec(), false),
        (b"\xff\0".to_vec(), false),
        (vec![b'['; 100_000], false),
    ] {
        let mut world = World::new();
        world.stored = Some(damaged.clone());
        world.start(0);
        let what = String::from_utf8_lossy(&damaged[..damaged.len().min(40)]).into_owned();
        assert_eq!((world.processes[0].token().is_some(), world.processes[0].has_none), (is_read, !is_read), "{what}");
        assert!(world.requests.is_empty(), "{what}");
        world.challenge(0, 401, "Bearer");
        assert!(world.processes[0].token().is_some(), "{what}");
        assert!(is_read || world.stored.as_ref() != Some(&damaged), "{what}");
        world.check();
    }
}

#[test]
fn au28_a_person_is_shown_no_hostile_url_or_code_of_a_device_grant() {
    let codes = |url: &str, code: &str| {
        json!({ "device_code": "d", "user_code": code, "verification_uri": url, "expires_in": 600 }).to_string()
    };
    let good = "https://as.example/device";
    for (body, is_shown) in [
        (codes(good, "WDJB-MJHT"), true),
        (codes("javascript:alert(1)", "WDJB-MJHT"), false),
        (codes("http://as.example/device", "WDJB-MJHT"), false),
        (codes("https://as.example\\@evil.example/", "WDJB-MJHT"), false),
        (codes("https://as.example/\u{202e}", "WDJB-MJHT"), false),
        (codes(good, ""), false),
        (codes(good, "a\u{1b}[31m"), false),
        (codes(good, &"a".repeat(65)), false),
        ("<html>".to_owned(), false),
    ] {
        let mut world = World::new().with(|config| config.grant = Grant::DeviceCode);
        world.issuer().metadata["device_authorization_endpoint"] = json!(format!("{ISSUER}/device"));
        world.documents.insert(format!("{ISSUER}/device"), (200, body.clone()));
        world.challenge(0, 401, "Bearer");
        assert_eq!(world.processes[0].waiting.len(), usize::from(is_shown), "{body}");
        assert_eq!(world.processes[0].refused.len(), usize::from(!is_shown), "{body}");
        world.pass(Duration::from_secs(700));
        world.check();
    }
}

#[test]
fn au22_no_debug_form_of_a_sign_in_has_a_secret() {
    let (mut world, redirect) = awaiting();
    let asked = world.issuer().authorizations[0].clone();
    let waiting = format!("{:?}", world.processes[0].authorizer);
    assert!(!waiting.contains(&asked["state"]), "{waiting}");
    world.redirect(0, &redirect);
    let verifier = world.issuer().token_requests[0]["code_verifier"].clone();
    let process = &world.processes[0];
    let shown = format!("{:?} {:?} {:?}", process.authorizer, process.authorized, process.refused);
    for secret in ["access-1", "refresh-1", "code-1", &verifier, &asked["state"]] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    assert!(!waiting.contains(&verifier), "{waiting}");
    world.check();
}
