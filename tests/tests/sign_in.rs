//! Signing in: the machine of `mcp_proto::auth` with authorization servers, a store, a browser and other processes.

use std::time::Duration;

use mcp_auth::{
    Action, CallbackHost, Cause, ClientIdentity, Config, Event, FetchFailure, Grant, Imported, RedirectError,
    ResourceParameter, SignInError, Waiting,
};
use mcp_proto::{Instant, Output};
use mcp_testkit::authorization::{Issuer, Person, Process, Return, SERVER, World};
use serde_json::json;

const RESOURCE_DOCUMENT: &str = "https://mcp.example/.well-known/oauth-protected-resource/v1/mcp";
const ROOT_DOCUMENT: &str = "https://mcp.example/.well-known/oauth-protected-resource";
const ISSUER: &str = "https://as.example/t";

/// A sign-in whose browser is about to request this redirect.
fn redirected() -> (World, String) {
    let mut world = World::new();
    world.person = Person::IsAway;
    world.challenge(0, 401, "Bearer");
    let url = world.processes[0].shown.clone().unwrap();
    let redirect = world.visit(&url);
    (world, redirect)
}

#[test]
fn a_challenge_leads_to_discovery_registration_sign_in_and_a_token() {
    let mut world = World::new();
    world.challenge(0, 401, "Bearer");
    assert_eq!(world.processes[0].token(), Some("access-1"));
    assert_eq!(
        world.requests,
        [
            format!("GET {RESOURCE_DOCUMENT}"),
            "GET https://as.example/.well-known/oauth-authorization-server/t".to_owned(),
            format!("POST {ISSUER}/register"),
            format!("POST {ISSUER}/token"),
        ]
    );
    let registration = &world.issuer().registrations[0];
    assert_eq!(registration["application_type"], "native");
    assert_eq!(registration["grant_types"], json!(["authorization_code", "refresh_token"]));
    assert_eq!(registration["redirect_uris"], json!(["http://127.0.0.1:40000/callback"]));
    let asked = &world.issuer().authorizations[0];
    assert_eq!((asked["client_id"].as_str(), asked["resource"].as_str()), ("client-1", SERVER));
    assert!(!asked.contains_key("scope"), "nothing names a scope (OA-Q-04)");
    assert_eq!(world.processes[0].registered, [ISSUER]);
    world.check();
}

#[test]
fn a_client_is_registered_without_a_secret_unless_the_server_lists_only_methods_that_need_one() {
    for (listed, expected) in [
        (None, "none"),
        (Some(json!([])), "none"),
        (Some(json!(["client_secret_basic", "none"])), "none"),
        (Some(json!(["client_secret_post", "client_secret_basic"])), "client_secret_basic"),
        (Some(json!(["client_secret_post"])), "client_secret_post"),
    ] {
        let mut world = World::new();
        let metadata = world.issuer().metadata.as_object_mut().unwrap();
        metadata.remove("token_endpoint_auth_methods_supported");
        metadata.extend(listed.map(|listed| ("token_endpoint_auth_methods_supported".to_owned(), listed)));
        world.challenge(0, 401, "Bearer");
        assert_eq!(world.issuer().registrations[0]["token_endpoint_auth_method"], expected);
    }
}

#[test]
fn oa_m_03_configurations_that_could_get_different_tokens_are_stored_under_different_names() {
    let with = |change: &dyn Fn(&mut Config)| {
        let mut config = Config::new(SERVER, "test").unwrap();
        change(&mut config);
        config.store_key()
    };
    let keys = [
        with(&|_| ()),
        Config::new("https://mcp.example/v1/other", "test").unwrap().store_key(),
        Config::new("https://mcp.example/v1/mcp?a=1", "test").unwrap().store_key(),
        with(&|config| config.profile = "work".to_owned()),
        with(&|config| config.resource = ResourceParameter::Omitted),
        with(&|config| config.resource = ResourceParameter::Fixed("x".to_owned())),
        with(&|config| config.grant = Grant::DeviceCode),
        with(&|config| config.grant = Grant::ClientCredentials),
        with(&|config| config.registered = Some(ClientIdentity::new("ab"))),
        with(&|config| config.scope = Some("ab".to_owned())),
        with(&|config| config.client_metadata_url("https://app.example/client").unwrap()),
        with(&|config| {
            config.registered = Some(ClientIdentity::new("a"));
            config.scope = Some("b".to_owned());
        }),
        with(&|config| config.uses_id_token = true),
        with(&|config| config.authorization_parameter("a", "bc").unwrap()),
        with(&|config| config.authorization_parameter("ab", "c").unwrap()),
    ];
    for (at, key) in keys.iter().enumerate() {
        assert!(key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
        assert!(!keys[..at].contains(key), "{at}");
    }
    let other_name = Config::new(SERVER, "other").unwrap().store_key();
    assert_eq!(keys[0], other_name, "the name that people see changes no token");
}

#[test]
fn oa_q_04_scopes_are_those_of_the_configuration_the_challenge_or_the_resource() {
    let listed = json!({ "resource": SERVER, "authorization_servers": [ISSUER], "scopes_supported": ["a", "b"] });
    for (configured, challenge, listed, supported, expected) in [
        (None, "Bearer", None, None, None),
        (None, "Bearer", Some(&listed), None, Some("a b")),
        (None, r#"Bearer scope="c""#, Some(&listed), None, Some("c")),
        (Some("d d e"), r#"Bearer scope="c""#, Some(&listed), None, Some("d e")),
        (None, r#"Bearer scope="c""#, None, Some(json!(["offline_access", "x"])), Some("c offline_access")),
        (None, "Bearer", None, Some(json!(["offline_access", "x"])), None),
    ] {
        let mut world = World::new().with(|config| config.scope = configured.map(str::to_owned));
        if let Some(listed) = listed {
            world.documents.insert(RESOURCE_DOCUMENT.to_owned(), (200, listed.to_string()));
        }
        if let Some(supported) = supported {
            world.issuer().metadata["scopes_supported"] = supported;
        }
        world.challenge(0, 401, challenge);
        let asked = &world.issuer().authorizations[0];
        assert_eq!(asked.get("scope").map(String::as_str), expected, "{challenge}");
        assert_eq!(asked.contains_key("prompt"), expected.is_some_and(|scope| scope.contains("offline")));
        world.check();
    }
}

#[test]
fn oa_q_05_the_resource_is_sent_as_it_is_published_in_all_requests() {
    for (published, configured, expected) in [
        ("https://mcp.example", ResourceParameter::Published, Some("https://mcp.example")),
        ("https://MCP.example/v1/", ResourceParameter::Published, Some("https://MCP.example/v1/")),
        (SERVER, ResourceParameter::Omitted, None),
        (SERVER, ResourceParameter::Fixed("api://mcp".to_owned()), Some("api://mcp")),
    ] {
        let mut world = World::new().with(|config| config.resource = configured);
        let document = json!({ "resource": published, "authorization_servers": [ISSUER] }).to_string();
        world.documents.insert(RESOURCE_DOCUMENT.to_owned(), (200, document));
        world.challenge(0, 401, "Bearer");
        world.pass(Duration::from_secs(3600));
        let issuer = world.issuer();
        assert_eq!(issuer.token_requests.len(), 2, "a code, and a refresh");
        for request in issuer.token_requests.iter().chain(&issuer.authorizations) {
            assert_eq!(request.get("resource").map(String::as_str), expected);
        }
        world.check();
    }
}

#[test]
fn oa_f_03_tokens_are_refreshed_before_they_expire_and_stored_before_they_are_used() {
    let mut world = World::new();
    world.challenge(0, 401, "Bearer");
    world.pass(Duration::from_secs(3600 - 361));
    assert_eq!(world.processes[0].token(), Some("access-1"));
    world.pass(Duration::from_secs(1));
    assert_eq!(world.processes[0].token(), Some("access-2"));
    let stored = String::from_utf8(world.stored.clone().unwrap()).unwrap();
    assert!(stored.contains("refresh-2") && !stored.contains("refresh-1"));
    assert_eq!(world.processes[0].waiting.len(), 1, "no person was asked again");
    world.check();
}

#[test]
fn oa_t_05_a_token_that_was_replaced_meanwhile_is_reported_again() {
    let mut world = World::new();
    world.challenge(0, 401, "Bearer");
    let requests = world.requests.len();
    let challenged = |generation| Cause::Challenged {
        status: http::StatusCode::UNAUTHORIZED,
        challenges: Vec::new(),
        generation,
        is_background: false,
    };
    world.cause(0, challenged(None));
    world.run();
    assert_eq!((world.requests.len(), world.processes[0].authorized.len()), (requests, 2));
    world.pass(Duration::from_secs(3600 - 360));
    assert_eq!(world.processes[0].token(), Some("access-2"));
    let requests = world.requests.len();
    world.cause(0, challenged(Some(1)));
    world.run();
    assert_eq!((world.requests.len(), world.processes[0].token()), (requests, Some("access-2")));
    assert_eq!(world.processes[0].authorized.last().unwrap().generation, 2);
    world.check();
}

#[test]
fn oa_t_05_a_challenge_during_a_refresh_ahead_of_time_is_answered_however_that_ends() {
    for (response, expected) in [
        (None, (Some("access-2"), 1)),
        (Some((400, json!({ "error": "invalid_grant" }).to_string())), (Some("access-2"), 2)),
        (Some((503, "busy".to_owned())), (Some("access-1"), 1)),
    ] {
        let mut world = World::new();
        world.challenge(0, 401, "Bearer");
        let is_temporary = response.as_ref().is_some_and(|(status, _)| *status == 503);
        world.issuer().token_responses.extend(response);
        world.pass_until_refresh(0);
        world.begin(0, 401, r#"Bearer error="invalid_token""#);
        world.run();
        let process = &world.processes[0];
        assert_eq!((process.token(), process.waiting.len()), expected);
        assert_eq!(matches!(process.refused[..], [SignInError::Temporary { .. }]), is_temporary);
        world.check();
    }
}

#[test]
fn oa_t_05_a_challenge_while_the_stored_record_is_read_leads_to_a_sign_in() {
    let mut world = World::new();
    world.cause(0, Cause::Start);
    world.begin(0, 401, "Bearer");
    world.run();
    assert_eq!(world.processes[0].token(), Some("access-1"));
    world.check();
}

#[test]
fn au15_oa_f_03_a_dead_refresh_token_leads_to_a_sign_in_and_a_failure_of_the_server_does_not() {
    let mut world = World::new();
    world.challenge(0, 401, "Bearer");
    world.pass(Duration::from_secs(100));
    world.issuer().token_responses.push_back((503, "busy".to_owned()));
    world.challenge(0, 401, r#"Bearer error="invalid_token""#);
    assert!(matches!(world.processes[0].refused[..], [SignInError::Temporary { .. }]));
    world.challenge(0, 401, r#"Bearer error="invalid_token""#);
    assert_eq!((world.processes[0].token(), world.processes[0].waiting.len()), (Some("access-2"), 1));
    world.issuer().revoke();
    world.pass(Duration::from_secs(100));
    world.challenge(0, 401, r#"Bearer error="invalid_token""#);
    assert_eq!((world.processes[0].token(), world.processes[0].waiting.len()), (Some("access-3"), 2));
    assert_eq!(world.issuer().registrations.len(), 1, "the registration is used again");
    world.check();
}

#[test]
fn au23_oa_g_03_processes_that_start_together_make_one_registration_and_one_sign_in() {
    let mut world = World::new();
    world.person = Person::IsAway;
    for _ in 1..5 {
        world.add_process();
    }
    for process in 0..5 {
        world.begin(process, 401, "Bearer");
    }
    world.run();
    world.pass(Duration::from_secs(20));
    let shown: Vec<_> = (0..5).filter(|process| world.processes[*process].shown.is_some()).collect();
    assert_eq!(shown.len(), 1, "one browser");
    for process in (0..5).filter(|process| !shown.contains(process)) {
        assert_eq!(world.processes[process].waiting, [Waiting::OtherProcess]);
    }
    world.sign_in(shown[0]);
    world.run();
    for process in &world.processes {
        assert_eq!(process.token(), Some("access-1"));
    }
    assert_eq!((world.issuer().registrations.len(), world.issuer().authorizations.len()), (1, 1));
    // All refresh at the same moment: one request.
    world.pass(Duration::from_secs(3600));
    for process in &world.processes {
        assert_eq!(process.token(), Some("access-2"));
    }
    world.check();
}

#[test]
fn au23_oa_g_02_a_process_that_ends_during_its_sign_in_is_followed_by_the_next() {
    let mut world = World::new();
    world.person = Person::IsAway;
    world.add_process();
    world.begin(0, 401, "Bearer");
    world.begin(1, 401, "Bearer");
    world.run();
    assert!(world.processes[0].shown.is_some() && world.processes[1].shown.is_none());
    world.crash(0);
    assert!(world.processes[1].shown.is_some());
    world.sign_in(1);
    world.run();
    assert_eq!(world.processes[1].token(), Some("access-1"));
    assert_eq!(world.issuer().registrations.len(), 1, "the registration was stored before the sign-in");
    world.check();
}

#[test]
fn au19_oa_s_02_a_step_up_asks_for_all_scopes_and_never_twice_for_the_same() {
    let mut world = World::new();
    world.challenge(0, 401, r#"Bearer scope="read""#);
    world.challenge(0, 403, r#"Bearer error="insufficient_scope", scope="write""#);
    assert_eq!(world.issuer().authorizations[1]["scope"], "read write");
    assert_eq!(world.processes[0].token(), Some("access-2"));
    for _ in 0..2 {
        world.challenge(0, 403, r#"Bearer error="insufficient_scope", scope="write""#);
    }
    world.challenge(0, 403, r#"Bearer error="insufficient_scope""#);
    assert_eq!(world.issuer().authorizations.len(), 2);
    assert_eq!(world.processes[0].refused, vec![SignInError::ScopesGranted; 3]);
    world.check();
}

#[test]
fn oa_s_02_a_step_up_asks_for_what_was_granted_beyond_what_was_requested() {
    let granted = |number: u32, scope: Option<&str>| {
        let mut response = json!({
            "access_token": format!("access-{number}"),
            "token_type": "Bearer",
            "expires_in": 3600,
            "refresh_token": format!("refresh-{number}"),
        });
        if let Some(scope) = scope {
            response["scope"] = json!(scope);
        }
        (200, response.to_string())
    };
    // A response to a refresh that names no scope changes nothing.
    for refreshed in [None, Some(None), Some(Some("read more"))] {
        for other_process in [false, true] {
            let mut world = World::new();
            world.issuer().token_responses.push_back(granted(1, Some("read more")));
            world.challenge(0, 401, r#"Bearer scope="read""#);
            if let Some(scope) = refreshed {
                world.issuer().token_responses.push_back(granted(2, scope));
                world.pass(Duration::from_secs(3600 - 360));
                assert_eq!(world.processes[0].token(), Some("access-2"));
            }
            let process = if other_process { world.add_process() } else { 0 };
            if other_process {
                world.start(process);
            }
            world.challenge(process, 403, r#"Bearer error="insufficient_scope", scope="write""#);
            let asked = &world.issuer().authorizations[1]["scope"];
            assert_eq!(asked, "read more write", "{refreshed:?} {other_process}");
            world.check();
        }
    }
}

#[test]
fn oa_s_02_a_client_is_registered_again_if_its_scopes_are_refused_but_only_once() {
    let mut world = World::new();
    world.issuer().grants_registered_scopes = true;
    world.challenge(0, 401, r#"Bearer scope="read""#);
    world.challenge(0, 403, r#"Bearer error="insufficient_scope", scope="write""#);
    let issuer = world.issuer();
    assert_eq!((issuer.registrations.len(), issuer.authorizations.len()), (2, 3));
    assert_eq!(issuer.registrations[1]["scope"], "read write");
    assert_eq!(world.processes[0].token(), Some("access-2"));
    world.check();
    // A configured client cannot be replaced.
    let mut world = World::new().with(|config| config.registered = Some(ClientIdentity::new("own")));
    world.issuer().grants_registered_scopes = true;
    world.challenge(0, 401, r#"Bearer scope="read""#);
    assert_eq!((world.issuer().registrations.len(), world.issuer().authorizations.len()), (0, 1));
    assert!(matches!(world.processes[0].refused[..], [SignInError::Redirect(RedirectError::Scope(_))]));
    world.check();
    // Scopes that no client gets are not requested again with yet another one.
    let mut world = World::new();
    world.issuer().grants_registered_scopes = true;
    world.issuer().registered_scopes = Some(&[]);
    world.challenge(0, 401, r#"Bearer scope="read""#);
    assert_eq!((world.issuer().registrations.len(), world.issuer().authorizations.len()), (2, 1));
    assert!(matches!(world.processes[0].refused[..], [SignInError::Redirect(RedirectError::Scope(_))]));
    world.check();
}

#[test]
fn au19_oa_t_04_a_server_that_refuses_every_new_token_is_not_asked_forever() {
    let mut world = World::new();
    world.issuer().refreshes = false;
    for _ in 0..6 {
        world.challenge(0, 401, r#"Bearer error="invalid_token""#);
    }
    assert_eq!(world.issuer().authorizations.len(), 3);
    assert!(matches!(world.processes[0].refused[..], [SignInError::TokensRefused(_), ..]));
    world.check();
}

#[test]
fn oa_t_04_a_person_signs_in_three_times_in_a_minute_at_most() {
    let mut world = World::new();
    world.issuer().refreshes = false;
    world.issuer().lifetime = Some(10);
    let mut pass_and_challenge = |seconds: u64, count: usize| {
        world.pass(Duration::from_secs(seconds));
        world.challenge(0, 401, r#"Bearer error="invalid_token""#);
        assert_eq!(world.issuer().authorizations.len(), count, "after {seconds} s more");
    };
    // Whether the tokens were accepted before they expired is not known.
    for count in 1..=3 {
        pass_and_challenge(15, count);
    }
    pass_and_challenge(15, 3);
    pass_and_challenge(10, 3);
    // The first of the three was a minute ago.
    pass_and_challenge(6, 4);
    pass_and_challenge(1, 4);
    assert!(world.processes[0].refused.iter().all(|error| matches!(error, SignInError::SignedInTooOften(3))));
    // A person who asks for it signs in at any time.
    world.pass(Duration::from_secs(15));
    world.cause(0, Cause::Requested);
    world.run();
    assert_eq!(world.issuer().authorizations.len(), 5);
    world.check();
    // Tokens that lack scopes are accepted as such.
    let mut world = World::new();
    world.issuer().refreshes = false;
    for (number, scope) in ["read", "write", "list", "admin", "audit"].into_iter().enumerate() {
        let status = if number == 0 { 401 } else { 403 };
        world.challenge(0, status, &format!(r#"Bearer error="insufficient_scope", scope="{scope}""#));
        assert_eq!(world.issuer().authorizations.len(), number + 1);
    }
}

#[test]
fn oa_t_04_tokens_that_expire_after_they_were_refused_count_as_refused() {
    let mut world = World::new();
    world.issuer().refreshes = false;
    world.issuer().lifetime = Some(30);
    for _ in 0..4 {
        world.challenge(0, 401, r#"Bearer error="invalid_token""#);
    }
    assert!(matches!(world.processes[0].refused[..], [SignInError::TokensRefused(_)]));
    world.pass(Duration::from_secs(40));
    world.challenge(0, 401, r#"Bearer error="invalid_token""#);
    assert_eq!(world.issuer().authorizations.len(), 3, "no person is asked again yet");
    world.pass(Duration::from_secs(61));
    world.challenge(0, 401, r#"Bearer error="invalid_token""#);
    assert_eq!(world.issuer().authorizations.len(), 4);
    world.check();
}

#[test]
fn au20_oa_m_02_after_a_move_to_another_issuer_nothing_of_the_first_is_used() {
    let mut world = World::new();
    world.challenge(0, 401, "Bearer");
    let second = "https://as2.example";
    world.issuers.insert(second.to_owned(), mcp_testkit::authorization::Issuer::new(second));
    let document = json!({ "resource": SERVER, "authorization_servers": [second] }).to_string();
    world.documents.insert(RESOURCE_DOCUMENT.to_owned(), (200, document));
    world.challenge(0, 401, r#"Bearer error="invalid_token""#);
    assert_eq!(world.issuer().token_requests.len(), 1);
    let second = &world.issuers[second];
    assert_eq!((second.registrations.len(), second.authorizations.len(), second.token_requests.len()), (1, 1, 1));
    assert_eq!(second.token_requests[0]["grant_type"], "authorization_code");
    world.check();
}

#[test]
fn au20_oa_m_02_a_configured_client_is_not_shown_to_another_issuer() {
    let mut world = World::new().with(|config| {
        config.registered = Some(ClientIdentity::new("mine").with_secret("secret".into()));
        config.registered_at = Some("https://other.example".to_owned());
    });
    world.challenge(0, 401, "Bearer");
    assert!(matches!(world.processes[0].refused[..], [SignInError::OtherIssuer { .. }]));
    assert!(world.issuer().authorizations.is_empty() && world.issuer().token_requests.is_empty());
    world.check();
}

#[test]
fn au6_oa_p_03_an_outage_ends_the_flow_and_an_absent_document_leads_to_the_next_place() {
    let found = json!({ "resource": "https://mcp.example", "authorization_servers": [ISSUER] }).to_string();
    let root = "https://mcp.example/.well-known/oauth-protected-resource";
    for (status, is_found) in [(404, true), (400, true), (200, true), (500, false), (429, false), (503, false)] {
        let mut world = World::new();
        world.documents.insert(RESOURCE_DOCUMENT.to_owned(), (status, "<html>".to_owned()));
        world.documents.insert(root.to_owned(), (200, found.clone()));
        world.challenge(0, 401, "Bearer");
        assert_eq!(world.processes[0].token().is_some(), is_found, "{status}");
        if !is_found {
            assert!(matches!(world.processes[0].refused[..], [SignInError::Temporary { .. }]), "{status}");
        }
        world.check();
    }
    let mut world = World::new();
    world.unreachable = Some(("https://as.example".to_owned(), FetchFailure::Unreachable));
    world.challenge(0, 401, "Bearer");
    assert!(matches!(world.processes[0].refused[..], [SignInError::Fetch { .. }]));
    world.check();
}

#[test]
fn a_request_without_an_outcome_ends_the_flow_after_twice_its_time() {
    for (silent, text) in [(RESOURCE_DOCUMENT, "oauth-protected-resource"), ("https://as.example/t/token", "token")] {
        let mut world = World::new();
        world.silent = Some(silent.to_owned());
        world.challenge(0, 401, "Bearer");
        world.pass(Duration::from_secs(59));
        assert!(world.processes[0].refused.is_empty() && world.processes[0].authorizer.is_busy());
        world.silent = None;
        world.pass(Duration::from_secs(600));
        let Process { refused, authorized, .. } = &world.processes[0];
        assert!(refused.len() + authorized.len() == 1, "{refused:?}");
        assert!(refused.iter().all(|error| error.to_string().contains(text)), "{refused:?}");
        world.check();
    }
}

#[test]
fn oa_l_02_a_server_without_any_metadata_is_its_own_authorization_server_if_it_challenges() {
    for (challenge, authorizes) in [("Bearer", true), ("Basic", false)] {
        let mut world = World::new();
        world.documents.clear();
        world.issuers.clear();
        let mut issuer = mcp_testkit::authorization::Issuer::new("https://mcp.example");
        issuer.metadata_path = "nowhere".to_owned();
        issuer.redirect.clear();
        world.issuers.insert("https://mcp.example".to_owned(), issuer);
        world.challenge(0, 401, challenge);
        assert_eq!(world.processes[0].token().is_some(), authorizes, "{challenge}");
        assert_eq!(world.processes[0].refused.is_empty(), authorizes, "{challenge}");
        for request in &world.issuers["https://mcp.example"].token_requests {
            assert!(!request.contains_key("resource"), "unknown in 2025-03-26");
        }
        world.check();
    }
}

#[test]
fn oa_l_02_a_token_of_its_own_may_be_what_a_server_without_any_metadata_expects() {
    let mut world = World::new().with(|config| config.may_ask_user = false);
    world.documents.clear();
    world.issuers.clear();
    world.challenge(0, 401, "Bearer");
    assert_eq!(world.processes[0].refused, [SignInError::NotInteractiveWithoutMetadata { command: None }]);
    assert!(world.processes[0].refused[0].to_string().contains("a token of its own"));
    world.check();
}

#[test]
fn au3_oa_p_04_no_authorization_request_is_made_for_another_resource() {
    let mut world = World::new();
    let document = json!({ "resource": "https://evil.example/v1/mcp", "authorization_servers": [ISSUER] }).to_string();
    world.documents.insert(RESOURCE_DOCUMENT.to_owned(), (200, document));
    world.challenge(0, 401, "Bearer");
    assert!(matches!(world.processes[0].refused[..], [SignInError::Metadata { .. }]));
    assert_eq!(world.requests.len(), 1);
    world.check();
}

#[test]
fn au11_oa_b_02_a_redirect_of_another_issuer_gives_no_token_request() {
    for (redirect, names_issuer, expected) in [
        (vec![("iss", ISSUER)], true, None),
        (vec![], false, None),
        (vec![], true, Some(RedirectError::NoIssuer)),
        (vec![("iss", "https://evil.example")], false, Some(RedirectError::OtherIssuer)),
        (vec![("iss", "https://as.example/t/")], true, Some(RedirectError::OtherIssuer)),
        (vec![("iss", ISSUER), ("error", "access_denied")], true, Some(RedirectError::Denied(None))),
    ] {
        let mut world = World::new();
        let issuer = world.issuer();
        issuer.metadata["authorization_response_iss_parameter_supported"] = json!(names_issuer);
        issuer.redirect = redirect.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        world.challenge(0, 401, "Bearer");
        assert_eq!(world.issuer().token_requests.len(), usize::from(expected.is_none()), "{redirect:?}");
        let expected: Vec<_> = expected.into_iter().map(SignInError::Redirect).collect();
        assert_eq!(world.processes[0].refused, expected);
        world.check();
    }
}

#[test]
fn au9_oa_q_03_a_redirect_of_another_sign_in_is_ignored_and_a_pasted_one_is_not() {
    let (mut world, redirect) = redirected();
    assert!(!world.redirect(0, "http://127.0.0.1:40000/callback?code=evil&state=guess"));
    assert!(!world.redirect(0, "http://127.0.0.1:40000/callback?code=evil"));
    assert!(world.issuer().token_requests.is_empty());
    assert!(world.redirect(0, &redirect));
    assert!(!world.redirect(0, &redirect), "once");
    assert_eq!(world.processes[0].token(), Some("access-1"));
    world.check();
}

#[test]
fn au23_oa_g_05_no_person_is_asked_by_a_program_that_may_not_and_an_absent_person_is_given_up() {
    let mut world = World::new().with(|config| config.may_ask_user = false);
    world.challenge(0, 401, "Bearer");
    assert_eq!(world.processes[0].refused, [SignInError::NotInteractive { command: None }]);
    assert_eq!(world.processes[0].shown, None);
    world.check();

    let mut world = World::new();
    world.person = Person::IsAway;
    world.challenge(0, 401, "Bearer");
    world.pass(Duration::from_secs(299));
    assert!(world.processes[0].refused.is_empty());
    world.pass(Duration::from_secs(1));
    assert!(matches!(world.processes[0].refused[..], [SignInError::UserTimedOut { .. }]));
    world.check();
}

#[test]
fn oa_g_06_the_registered_port_is_used_again_and_another_one_is_registered_if_it_is_taken() {
    let mut world = World::new();
    world.issuer().refreshes = false;
    world.challenge(0, 401, "Bearer");
    for (taken, registrations) in [(None, 1), (Some(40_000), 2)] {
        world.pass(Duration::from_secs(100));
        world.processes[0].taken.extend(taken);
        if taken.is_some() {
            // The port that the kit gives out is taken, too: nothing can be opened.
            world.challenge(0, 401, "Bearer");
            assert_eq!(world.processes[0].refused, [SignInError::NotListening]);
        } else {
            world.challenge(0, 401, "Bearer");
            assert_eq!(world.issuer().registrations.len(), registrations);
        }
        world.check();
    }
    let mut world = World::new().with(|config| config.callback_port = Some(5000));
    world.processes[0].taken.insert(5000);
    world.challenge(0, 401, "Bearer");
    assert_eq!(world.processes[0].refused, [SignInError::PortTaken { port: 5000 }]);
    world.check();
}

#[test]
fn au10_oa_k_04_a_refused_code_is_requested_once_more_with_what_was_wrong_left_out() {
    for (error, authorizations, registrations, has_scope, is_authorized) in [
        ("invalid_grant", 2, 1, true, true),
        ("invalid_client", 2, 2, true, true),
        ("invalid_scope", 2, 1, false, true),
        ("invalid_target", 1, 1, true, false),
        ("unauthorized_client", 1, 1, true, false),
    ] {
        let mut world = World::new();
        world.issuer().token_responses.push_back((400, json!({ "error": error }).to_string()));
        world.challenge(0, 401, r#"Bearer scope="read""#);
        let issuer = world.issuer();
        assert_eq!(
            (issuer.authorizations.len(), issuer.registrations.len()),
            (authorizations, registrations),
            "{error}"
        );
        assert_eq!(issuer.authorizations[authorizations - 1].contains_key("scope"), has_scope, "{error}");
        assert_eq!(world.processes[0].token().is_some(), is_authorized, "{error}");
        world.check();
    }
}

#[test]
fn oa_k_04_an_unknown_client_is_not_used_again_if_no_other_one_can_be_registered() {
    let mut world = World::new();
    world.challenge(0, 401, "Bearer");
    let issuer = world.issuer();
    issuer.revoke();
    issuer.token_responses.push_back((400, json!({ "error": "invalid_grant" }).to_string()));
    issuer.token_responses.push_back((400, json!({ "error": "invalid_client" }).to_string()));
    issuer.registration_status = 503;
    world.challenge(0, 401, "Bearer");
    assert_eq!((world.processes[0].refused.len(), world.issuer().registrations.len()), (1, 2));
    let record: serde_json::Value = serde_json::from_slice(world.stored.as_ref().unwrap()).unwrap();
    assert_eq!(record["clients"], json!([]), "another process would ask a person in vain");
    world.issuer().registration_status = 201;
    world.challenge(0, 401, "Bearer");
    assert_eq!((world.issuer().authorizations.len(), world.processes[0].token()), (3, Some("access-2")));
    world.check();
}

#[test]
fn oa_r_05_a_registration_is_repeated_without_its_scopes_if_they_are_refused() {
    for (known, expected) in [
        (None, &[Some("read offline_access")][..]),
        (Some(&["read", "offline_access"][..]), &[Some("read offline_access")]),
        (Some(&["offline_access"]), &[Some("read offline_access"), None]),
    ] {
        let mut world = World::new();
        let issuer = world.issuer();
        issuer.metadata["scopes_supported"] = json!(["offline_access"]);
        issuer.registered_scopes = known;
        world.challenge(0, 401, r#"Bearer scope="read""#);
        let issuer = world.issuer();
        let scopes: Vec<_> =
            issuer.registrations.iter().map(|own| own.get("scope").and_then(|own| own.as_str())).collect();
        assert_eq!(scopes, expected);
        assert_eq!(issuer.authorizations[0]["scope"], "read offline_access", "the same scopes are requested");
        assert_eq!(world.processes[0].token(), Some("access-1"));
        world.check();
    }
    // Nothing is left out if there is no scope.
    let mut world = World::new();
    let issuer = world.issuer();
    issuer.registration_status = 400;
    issuer.registration = json!({ "error": "invalid_client_metadata" });
    world.challenge(0, 401, "Bearer");
    assert!(matches!(world.processes[0].refused[..], [SignInError::NotRegistered(_)]));
    assert_eq!(world.issuer().registrations.len(), 1);
    world.check();
}

#[test]
fn oa_x_01_a_client_with_a_secret_signs_in_without_a_person() {
    let mut world = World::new().with(|config| {
        config.grant = mcp_auth::Grant::ClientCredentials;
        config.registered = Some(ClientIdentity::new("job").with_secret("s&t".into()));
    });
    world.issuer().metadata["token_endpoint_auth_methods_supported"] = json!(["client_secret_basic"]);
    world.challenge(0, 401, r#"Bearer scope="read""#);
    assert_eq!(world.processes[0].token(), Some("access-1"));
    assert_eq!(world.issuer().token_authorizations, [Some("Basic am9iOnMlMjZ0".to_owned())]);
    let request = &world.issuer().token_requests[0];
    assert_eq!((&*request["scope"], &*request["resource"], &*request["client_id"]), ("read", SERVER, "job"));
    assert!(!request.contains_key("client_secret"), "it is in the header only");
    assert!(world.processes[0].waiting.is_empty() && world.issuer().registrations.is_empty());
    world.check();
}

#[test]
fn oa_t_02_a_start_uses_stored_tokens_and_asks_no_person() {
    let mut world = World::new();
    world.start(0);
    assert!(world.processes[0].has_none && world.requests.is_empty());
    world.challenge(0, 401, "Bearer");
    let requests = world.requests.len();
    let second = world.add_process();
    world.start(second);
    assert_eq!((world.processes[second].token(), world.requests.len()), (Some("access-1"), requests));
    world.check();
}

#[test]
fn au13_oa_b_01_only_the_redirect_of_the_current_sign_in_has_an_effect_on_the_open_port() {
    let (mut world, redirect) = redirected();
    let query = redirect.split_once('?').unwrap().1;
    let right = format!("/callback?{query}");
    for (method, path, host, expected) in [
        ("GET", "/favicon.ico", "127.0.0.1:40000", 404),
        ("POST", &*right, "127.0.0.1:40000", 404),
        ("HEAD", &right, "127.0.0.1:40000", 404),
        ("GET", &right, "evil.example:40000", 404),
        ("GET", &format!("/callback/?{query}"), "127.0.0.1:40000", 404),
        ("GET", "/callback", "127.0.0.1:40000", 400),
        ("GET", "/callback?code=evil&state=x", "127.0.0.1:40000", 400),
        ("GET", &right, "localhost:40000", 200),
        ("GET", &right, "localhost:40000", 400),
    ] {
        let request = http::Request::builder().method(method).uri(path).header("Host", host).body(()).unwrap();
        let response = world.callback(0, &request.into_parts().0);
        assert_eq!(response.status(), expected, "{method} {path} {host}");
        for (name, value) in [
            ("cache-control", "no-store"),
            ("connection", "close"),
            ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
            ("content-type", "text/html; charset=utf-8"),
            ("referrer-policy", "no-referrer"),
            ("content-length", &response.body().len().to_string()),
        ] {
            assert_eq!(response.headers()[name], value, "{name}");
        }
        assert!(!String::from_utf8_lossy(response.body()).contains("code-1"));
    }
    assert_eq!(world.processes[0].token(), Some("access-1"));
    world.check();
}

#[test]
fn a_redirect_that_comes_twice_does_not_disturb_the_exchange_of_the_code() {
    let (mut world, redirect) = redirected();
    let query = redirect.split_once('?').unwrap().1;
    // The code is not redeemed in between.
    for expected in [200, 400] {
        let request =
            http::Request::get(format!("/callback?{query}")).header("Host", "127.0.0.1:40000").body(()).unwrap();
        let response = world.processes[0].authorizer.handle_callback(&request.into_parts().0, Instant::START);
        assert_eq!(response.status(), expected);
    }
    assert!(!world.redirect(0, &redirect));
    assert_eq!(world.processes[0].token(), Some("access-1"));
    world.check();
}

#[test]
fn oa_m_02_a_configured_client_belongs_to_the_first_issuer_that_the_server_names() {
    let mut world = World::new().with(|config| {
        config.registered = Some(ClientIdentity::new("mine").with_secret("s".into()));
    });
    world.challenge(0, 401, "Bearer");
    assert_eq!(world.processes[0].token(), Some("access-1"));
    let moved = json!({ "resource": SERVER, "authorization_servers": ["https://other.example"] }).to_string();
    world.documents.insert(RESOURCE_DOCUMENT.to_owned(), (200, moved));
    world.issuers.insert("https://other.example".to_owned(), Issuer::new("https://other.example"));
    // Another process knows of the first issuer too.
    let other = world.add_process_with(|config| {
        config.registered = Some(ClientIdentity::new("mine").with_secret("s".into()));
    });
    for process in [0, other] {
        world.challenge(process, 401, "Bearer");
        let [SignInError::OtherIssuer { registered_at, .. }] = &world.processes[process].refused[..] else {
            panic!("{:?}", world.processes[process].refused)
        };
        assert_eq!(registered_at, ISSUER);
    }
    assert!(world.issuers["https://other.example"].authorizations.is_empty());
    world.check();
}

#[test]
fn oa_r_06_a_client_from_whose_sign_in_no_person_came_back_is_registered_again() {
    let mut world = World::new();
    world.challenge(0, 401, "Bearer");
    world.issuer().revoke();
    world.pass(Duration::from_secs(3600));
    // The authorization server shows an error, because it does not know the client any more.
    world.person = Person::IsAway;
    world.challenge(0, 401, "Bearer");
    world.pass(Duration::from_secs(300 + 61));
    world.check();
    world.person = Person::SignsIn;
    world.challenge(0, 401, "Bearer");
    assert_eq!(world.issuer().registrations.len(), 2);
    assert_eq!(world.issuer().authorizations.last().unwrap()["client_id"], "client-2");
    assert_eq!(world.processes[0].token(), Some("access-2"));
    world.check();
}

#[test]
fn oa_r_06_a_registered_client_is_used_until_its_secret_expires() {
    // After this many seconds; a secret with the time zero never expires (RFC 7591, section 3.2.1).
    for (expires_after, registrations) in [(None, 1), (Some(3601), 1), (Some(3600), 2), (Some(60), 2)] {
        for grant in [Grant::AuthorizationCode, Grant::DeviceCode] {
            let is_device = grant == Grant::DeviceCode;
            let mut world = World::new().with(|config| config.grant = grant);
            let begin = world.unix();
            let issuer = world.issuer();
            issuer.refreshes = false;
            issuer.metadata["device_authorization_endpoint"] = json!(format!("{ISSUER}/device"));
            issuer.metadata["token_endpoint_auth_methods_supported"] = json!(["client_secret_post"]);
            let secret = |secret: &str| {
                json!({
                    "client_secret": secret,
                    "client_secret_expires_at": expires_after.map_or(0, |after| begin + after),
                    "token_endpoint_auth_method": "client_secret_post",
                })
            };
            issuer.registration = secret("first");
            world.challenge(0, 401, "Bearer");
            world.pass(Duration::from_secs(10));
            world.issuer().registration = secret("second");
            world.pass(Duration::from_secs(3590));
            // The record is read by another process, too.
            let other = world.add_process_with(|config| {
                config.grant = if is_device { Grant::DeviceCode } else { Grant::AuthorizationCode };
            });
            world.challenge(other, 401, "Bearer");
            world.pass(Duration::from_secs(10));
            assert_eq!(world.processes[other].token(), Some("access-2"), "{expires_after:?}");
            let issuer = world.issuer();
            let client = format!("client-{registrations}");
            assert_eq!(issuer.registrations.len(), registrations, "{expires_after:?}");
            assert_eq!(issuer.authorizations.last().unwrap()["client_id"], client, "{expires_after:?}");
            let request = issuer.token_requests.last().unwrap();
            let secret = if registrations == 1 { "first" } else { "second" };
            assert_eq!((&*request["client_id"], &*request["client_secret"]), (&*client, secret));
            world.check();
        }
    }
}

#[test]
fn oa_p_05_of_several_authorization_servers_the_one_with_credentials_is_used() {
    const FIRST: &str = "https://first.example";
    const THIRD: &str = "https://third.example";
    let names = |world: &mut World, issuers: &[&str]| {
        for issuer in issuers {
            world.issuers.entry((*issuer).to_owned()).or_insert_with(|| Issuer::new(issuer));
        }
        let document = json!({ "resource": SERVER, "authorization_servers": issuers }).to_string();
        world.documents.insert(RESOURCE_DOCUMENT.to_owned(), (200, document));
    };
    let is_asked = |world: &World| {
        let asked = world.issuers.iter().filter(|(_, issuer)| !issuer.authorizations.is_empty());
        asked.map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let own = || ClientIdentity::new("own").with_secret("secret".into());

    // Without any, it is the first.
    let mut world = World::new();
    names(&mut world, &[FIRST, ISSUER]);
    world.challenge(0, 401, "Bearer");
    assert_eq!(is_asked(&world), [FIRST]);
    world.check();

    // The client was configured for the second.
    let mut world = World::new().with(|config| {
        config.registered = Some(own());
        config.registered_at = Some(ISSUER.to_owned());
    });
    names(&mut world, &[FIRST, ISSUER]);
    world.challenge(0, 401, "Bearer");
    assert_eq!((is_asked(&world), world.processes[0].token()), (vec![ISSUER.to_owned()], Some("access-1")));
    world.check();

    // A client was registered or configured there, or there are tokens only.
    let changes: [fn(&mut Config); 3] = [
        |_| {},
        |config| config.registered = Some(ClientIdentity::new("own").with_secret("secret".into())),
        |config| config.client_metadata_url("https://client.example/metadata.json").unwrap(),
    ];
    for change in changes {
        let mut world = World::new().with(change);
        world.issuer().metadata["client_id_metadata_document_supported"] = json!(true);
        world.challenge(0, 401, "Bearer");
        names(&mut world, &[FIRST, ISSUER]);
        world.issuer().revoke();
        world.pass(Duration::from_secs(3600));
        world.challenge(0, 401, "Bearer");
        assert_eq!((is_asked(&world), world.issuer().authorizations.len()), (vec![ISSUER.to_owned()], 2));
        world.check();
    }

    // The tokens are those of another one.
    let mut world = World::new();
    world.challenge(0, 401, "Bearer");
    names(&mut world, &[THIRD]);
    world.challenge(0, 401, "Bearer");
    names(&mut world, &[FIRST, ISSUER]);
    world.challenge(0, 401, "Bearer");
    assert_eq!(is_asked(&world), [ISSUER, THIRD]);
    assert_eq!(world.issuer().registrations.len(), 1);
    world.check();

    // The configured client was used there before, without a token.
    let mut world = World::new().with(|config| config.registered = Some(own()));
    world.person = Person::IsAway;
    world.challenge(0, 401, "Bearer");
    world.pass(Duration::from_secs(3600));
    names(&mut world, &[FIRST, ISSUER]);
    world.person = Person::SignsIn;
    world.challenge(0, 401, "Bearer");
    assert_eq!((is_asked(&world), world.processes[0].token()), (vec![ISSUER.to_owned()], Some("access-1")));
    world.check();
}

#[test]
fn oa_f_02_a_stored_token_that_expires_on_the_way_is_not_used() {
    for (left, expected) in [(12, Some("access-1")), (9, None)] {
        let mut world = World::new();
        world.issuer().refreshes = false;
        world.challenge(0, 401, "Bearer");
        world.pass(Duration::from_secs(3600 - left));
        let other = world.add_process();
        world.start(other);
        assert_eq!(world.processes[other].token(), expected, "{left} s are left");
        world.check();
    }
}

#[test]
fn oa_s_03_scopes_are_asked_for_again_after_a_token_without_them_was_issued() {
    let mut world = World::new();
    world.issuer().refreshes = false;
    let lacks_write = r#"Bearer error="insufficient_scope", scope="write""#;
    for round in 0..2 {
        world.challenge(0, 401, r#"Bearer scope="read""#);
        world.challenge(0, 403, lacks_write);
        assert_eq!(world.processes[0].authorized.len(), 2 * (round + 1));
        world.pass(Duration::from_secs(3600));
    }
    assert!(world.processes[0].refused.is_empty());
    // What was requested and is still refused is not requested again.
    world.challenge(0, 403, lacks_write);
    assert_eq!(world.processes[0].refused, [SignInError::ScopesGranted]);
    world.check();
}

#[test]
fn oa_t_04_tokens_that_expire_soon_or_are_refused_long_after_each_other_do_not_count_as_refused_in_a_row() {
    let mut world = World::new();
    world.issuer().refreshes = false;
    world.issuer().lifetime = Some(30);
    for round in 1..=5 {
        world.challenge(0, 401, "Bearer");
        assert_eq!(world.processes[0].authorized.len(), round);
        world.pass(Duration::from_secs(31));
    }
    world.issuer().lifetime = None;
    for _ in 0..5 {
        world.challenge(0, 401, "Bearer");
        world.challenge(0, 401, "Bearer");
        world.pass(Duration::from_secs(60));
    }
    assert!(world.processes[0].refused.is_empty(), "{:?}", world.processes[0].refused);
    world.check();
}

#[test]
fn oa_p_07_a_token_that_the_server_refuses_is_not_refreshed_ahead_of_time() {
    let mut world = World::new();
    world.challenge(0, 401, "Bearer");
    world.person = Person::IsAway;
    let moved = json!({ "resource": SERVER, "authorization_servers": ["https://other.example"] }).to_string();
    world.documents.insert(RESOURCE_DOCUMENT.to_owned(), (200, moved));
    world.issuers.insert("https://other.example".to_owned(), Issuer::new("https://other.example"));
    world.challenge(0, 401, "Bearer");
    world.pass(Duration::from_secs(7200));
    assert_eq!(world.issuer().token_requests.len(), 1, "nothing more is asked of the first issuer");
    world.check();
}

#[test]
fn oa_t_02_a_start_without_stored_tokens_takes_no_lock_and_sends_nothing() {
    let mut world = World::new();
    world.cause(0, Cause::Start);
    let authorizer = &mut world.processes[0].authorizer;
    assert!(matches!(authorizer.poll_output(), Some(Output::Action(Action::Load))));
    assert!(authorizer.poll_output().is_none());
    authorizer.handle_loaded(None, Instant::START);
    assert!(matches!(authorizer.poll_output(), Some(Output::Event(Event::NoToken))));
    assert!(authorizer.poll_output().is_none() && !authorizer.is_busy());
}

/// A challenge without a token, of a request for which a person waits, or of another.
fn challenged(is_background: bool) -> Cause {
    Cause::Challenged {
        status: http::StatusCode::UNAUTHORIZED,
        challenges: Vec::new(),
        generation: None,
        is_background,
    }
}

#[test]
fn oa_g_05_a_person_is_asked_if_one_waits_for_a_flow_that_began_in_the_background() {
    for (second, is_asked) in [(None, false), (Some(true), false), (Some(false), true)] {
        let mut world = World::new();
        world.cause(0, challenged(true));
        world.turn();
        if let Some(is_background) = second {
            world.cause(0, challenged(is_background));
        }
        world.run();
        assert_eq!(world.processes[0].waiting.len(), usize::from(is_asked), "{second:?}");
        assert_eq!(world.processes[0].token().is_some(), is_asked);
        assert!(is_asked || matches!(world.processes[0].refused[..], [SignInError::NotInteractive { .. }]));
        world.check();
    }
}

#[test]
fn a_sign_out_that_comes_while_tokens_are_refreshed_erases_the_new_ones_too() {
    let mut world = World::new();
    world.challenge(0, 401, "Bearer");
    world.pass_until_refresh(0);
    // The lock, and the record.
    assert!(world.turn() && world.turn());
    world.cause(0, Cause::SignOut);
    world.run();
    assert_eq!(world.issuer().token_requests.len(), 2, "the refresh was on its way");
    assert_eq!((&world.processes[0].signed_out[..], &world.stored), (&[false][..], &None));
    assert_eq!(world.processes[0].token(), Some("access-1"), "the new token is not used");
    world.check();
}

#[test]
fn a_sign_out_ends_a_flow_that_needs_a_token_and_asks_no_person() {
    for is_background in [false, true] {
        let mut steps = 0;
        loop {
            let mut world = World::new();
            world.person = Person::IsAway;
            world.cause(0, challenged(is_background));
            if (0..steps).filter(|_| world.turn()).count() < steps {
                break;
            }
            world.cause(0, Cause::SignOut);
            // A later challenge is refused too.
            world.cause(0, challenged(is_background));
            world.run();
            let Process { signed_out, refused, waiting, .. } = &world.processes[0];
            assert_eq!((signed_out.len(), &world.stored), (1, &None), "{is_background} {steps}");
            assert!(!is_background || waiting.is_empty(), "{steps}: {waiting:?}");
            assert!(matches!(refused[..], [.., SignInError::SignedOut]), "{is_background} {steps}: {refused:?}");
            world.check();
            steps += 1;
        }
        assert!(steps > 3, "{steps}");
    }
}

#[test]
fn imported_tokens_are_used_instead_of_a_sign_in_that_has_begun() {
    let mut world = World::new();
    world.person = Person::IsAway;
    world.cause(0, challenged(false));
    world.run();
    assert_eq!(world.processes[0].waiting.len(), 1);
    let tokens = br#"{"access_token":"imported","token_type":"Bearer"}"#;
    let imported = Imported::from_mcp_remote(tokens, br#"{"client_id":"c"}"#).unwrap();
    world.cause(0, Cause::Imported(Box::new(imported)));
    world.run();
    assert_eq!(world.processes[0].token(), Some("imported"));
    world.check();
}

#[test]
fn oa_n_02_a_browser_is_not_sent_to_a_private_address_that_a_public_server_names() {
    for (host, is_private) in [
        ("as.example", false),
        ("93.184.216.34", false),
        ("mcp.example", false),
        ("localhost:8080", true),
        ("printer.localhost", true),
        ("127.0.0.1:631", true),
        ("[::1]", true),
        ("[::ffff:10.0.0.5]", true),
        ("10.0.0.5", true),
        ("192.168.1.1", true),
        ("169.254.169.254", true),
    ] {
        for is_tolerated in [false, true] {
            let mut world = World::new().with(|config| config.exceptions.private_addresses = is_tolerated);
            world.person = Person::IsAway;
            world.issuer().metadata["authorization_endpoint"] = json!(format!("https://{host}/authorize"));
            world.challenge(0, 401, "Bearer");
            let process = &world.processes[0];
            let is_opened = !is_private || (is_tolerated && host != "169.254.169.254");
            assert_eq!((process.waiting.len(), process.shown.is_some()), (usize::from(is_opened), is_opened), "{host}");
            if !is_opened {
                let refused = process.refused.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
                let is_named = refused.contains("`authorization_endpoint`");
                assert!(is_named, "{host}: {refused}");
            }
        }
    }
}

#[test]
fn oa_r_06_a_client_from_whose_sign_in_no_person_came_back_before_the_process_ended_is_registered_again() {
    let mut world = World::new();
    world.issuer().refreshes = false;
    world.challenge(0, 401, "Bearer");
    // The process of the first sign-in with the stored registration ends; that of the next one has come back.
    for (ends, registrations) in [(true, 1), (false, 2), (false, 2)] {
        world.pass(Duration::from_secs(3600));
        let process = world.add_process();
        world.person = if ends { Person::IsAway } else { Person::SignsIn };
        world.challenge(process, 401, "Bearer");
        assert_eq!(world.issuer().registrations.len(), registrations);
        if ends {
            assert!(world.processes[process].shown.is_some());
            world.crash(process);
        } else {
            assert!(world.processes[process].token().is_some());
        }
        world.check();
    }
}

#[test]
fn oa_r_06_a_client_from_whose_sign_in_a_person_came_back_with_an_error_is_used_again() {
    let mut world = World::new();
    world.issuer().refreshes = false;
    world.challenge(0, 401, "Bearer");
    for error in ["access_denied", "server_error", "invalid_scope"] {
        world.pass(Duration::from_secs(3600));
        world.issuer().returns.push_back(Return { error, description: "", has_state: true });
        let process = world.add_process();
        world.challenge(process, 401, "Bearer");
        let is_again = error == "invalid_scope";
        assert_eq!(world.processes[process].refused.len(), usize::from(!is_again), "{error}");
        assert_eq!(world.issuer().registrations.len(), 1 + usize::from(is_again), "{error}");
        world.check();
    }
    // The code was refused once, so that the same flow sends the person again.
    let mut world = World::new();
    world.issuer().refreshes = false;
    world.challenge(0, 401, "Bearer");
    world.pass(Duration::from_secs(3600));
    world.issuer().token_responses.push_back((400, json!({ "error": "invalid_grant" }).to_string()));
    world.challenge(0, 401, "Bearer");
    assert_eq!((world.issuer().authorizations.len(), world.issuer().registrations.len()), (3, 1));
    world.check();
}

#[test]
fn oa_q_03_an_error_without_state_is_shown_once_and_does_not_end_the_sign_in() {
    let mut world = World::new();
    world.issuer().metadata["authorization_response_iss_parameter_supported"] = json!(false);
    world.person = Person::IsAway;
    world.challenge(0, 401, "Bearer");
    let url = world.processes[0].shown.clone().unwrap();
    let shows = |world: &mut World, query: &str, destination: Option<&str>| {
        let mut request = http::Request::get(format!("/callback?{query}")).header("Host", "127.0.0.1:40000");
        if let Some(destination) = destination {
            request = request.header("Sec-Fetch-Dest", destination);
        }
        let response = world.callback(0, &request.body(()).unwrap().into_parts().0);
        assert_eq!(response.status(), 400, "{query}");
        String::from_utf8_lossy(response.body()).contains("the database is away")
    };
    let error = "error=server_error&error_description=the+database+is+away";
    // A page of another site sends a request in the background, or guesses a state.
    for (query, destination) in [(error, Some("iframe")), (error, Some("empty")), (&*format!("{error}&state=x"), None)]
    {
        assert!(!shows(&mut world, query, destination), "{query} {destination:?}");
        assert!(world.processes[0].without_state.is_empty());
    }
    for destination in [None, Some("document"), Some("document")] {
        assert!(shows(&mut world, error, destination));
        assert_eq!(world.processes[0].without_state.len(), 1, "once");
    }
    assert!(world.processes[0].authorizer.is_busy());
    let redirect = world.visit(&url);
    assert!(world.redirect(0, &redirect));
    assert_eq!(world.processes[0].token(), Some("access-1"));
    world.check();

    // Without another return, the error says what was shown.
    let mut world = World::new();
    world.issuer().metadata["authorization_response_iss_parameter_supported"] = json!(false);
    world.person = Person::IsAway;
    world.challenge(0, 401, "Bearer");
    assert!(!world.redirect(0, &format!("/callback?{error}")));
    world.pass(Duration::from_secs(300));
    let text = world.processes[0].refused[0].to_string();
    assert!(text.contains("no sign-in was completed") && text.contains("server_error: the database is away"), "{text}");
    world.check();
}

#[test]
fn oa_l_02_pages_in_place_of_the_metadata_of_the_resource_count_as_none() {
    let mut world = World::new();
    world.issuers.clear();
    let mut issuer = Issuer::new("https://mcp.example");
    issuer.metadata_path = "nowhere".to_owned();
    issuer.redirect.clear();
    world.issuers.insert("https://mcp.example".to_owned(), issuer);
    for (url, body) in [(RESOURCE_DOCUMENT, "<html>"), (ROOT_DOCUMENT, r#"{"error":"not found"}"#)] {
        world.documents.insert(url.to_owned(), (200, body.to_owned()));
    }
    world.challenge(0, 401, "Bearer");
    assert_eq!(world.processes[0].token(), Some("access-1"), "{:?}", world.processes[0].refused);
    world.check();

    // A page in place of the metadata of the authorization server proves nothing.
    let mut world = World::new();
    world.documents.clear();
    let place = "https://mcp.example/.well-known/oauth-authorization-server".to_owned();
    world.documents.insert(place, (200, "<html>".to_owned()));
    world.challenge(0, 401, "Bearer");
    assert_eq!(world.processes[0].refused, [SignInError::NoMetadata]);
    world.check();
}

#[test]
fn oa_p_03_an_unreachable_place_leads_to_others_only_if_a_challenge_names_it_on_another_origin() {
    for (named, reason, is_found) in [
        ("https://inner.example/x", FetchFailure::Unreachable, true),
        ("https://inner.example/x", FetchFailure::TimedOut, true),
        ("https://inner.example/x", FetchFailure::AddressRefused, true),
        ("https://mcp.example/x", FetchFailure::Unreachable, false),
    ] {
        let mut world = World::new();
        world.unreachable = Some((named.to_owned(), reason));
        world.challenge(0, 401, &format!(r#"Bearer resource_metadata="{named}""#));
        assert_eq!(world.processes[0].token().is_some(), is_found, "{named} {reason:?}");
        world.check();
    }
    // An outage of a named place is no reason for the fallback of 2025-03-26 (OA-L-03).
    let mut world = World::new();
    world.documents.clear();
    world.unreachable = Some(("https://inner.example".to_owned(), FetchFailure::Unreachable));
    world.challenge(0, 401, r#"Bearer resource_metadata="https://inner.example/x""#);
    assert!(matches!(world.processes[0].refused[..], [SignInError::Fetch { .. }]), "{:?}", world.processes[0].refused);
    assert!(!world.requests.iter().any(|request| request.contains("oauth-authorization-server")));
    world.check();
}

#[test]
fn oa_s_03_a_token_that_is_refused_for_scopes_that_it_has_is_refreshed_unless_that_was_in_vain() {
    let refused = r#"Bearer error="insufficient_scope", scope="read""#;
    let mut world = World::new();
    world.challenge(0, 401, r#"Bearer scope="read""#);
    // Each time, the token has expired for the server, and the refreshed one is accepted for a while.
    for round in 2..4 {
        world.pass(Duration::from_secs(100));
        world.challenge(0, 403, refused);
        assert_eq!(world.processes[0].token(), Some(&*format!("access-{round}")));
    }
    assert!(world.processes[0].refused.is_empty());
    // A new token is refused, too: no further one is requested for these scopes.
    world.challenge(0, 403, refused);
    world.pass(Duration::from_secs(100));
    world.challenge(0, 403, refused);
    assert_eq!(world.processes[0].refused, vec![SignInError::ScopesGranted; 2]);
    assert_eq!((world.issuer().token_requests.len(), world.issuer().authorizations.len()), (3, 1));
    world.check();

    // Without a refresh token, nothing can be tried.
    let mut world = World::new();
    world.issuer().refreshes = false;
    world.challenge(0, 401, r#"Bearer scope="read""#);
    world.pass(Duration::from_secs(100));
    world.challenge(0, 403, refused);
    assert_eq!(world.processes[0].refused, [SignInError::ScopesGranted]);
    world.check();
}

#[test]
fn oa_q_09_the_host_that_a_registration_accepted_is_used_again() {
    let mut world = World::new();
    let issuer = world.issuer();
    issuer.refreshes = false;
    issuer.redirect_hosts = Some(&["localhost"]);
    for _ in 0..2 {
        world.challenge(0, 401, "Bearer");
        world.pass(Duration::from_secs(3600));
        assert_eq!(world.issuer().registrations.len(), 2, "one of them was refused");
        assert_eq!(world.processes[0].callback_host, Some(CallbackHost::Localhost));
    }
    for asked in &world.issuer().authorizations {
        assert_eq!(asked["redirect_uri"], "http://localhost:40000/callback");
    }
    world.check();
}
