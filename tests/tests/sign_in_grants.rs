//! Signing in by other grants than an authorization code, with keys and proofs, and signing out.

use std::collections::BTreeSet;
use std::time::Duration;

use mcp_auth::{
    Cause, ClientAuthentication, ClientIdentity, Config, FetchFailure, Grant, IdentityProvider, Proofs, RedirectError,
    SignInError, TokenError, TokenScheme, Waiting,
};
use mcp_proto::auth::{ClientKey, SigningAlgorithm};
use mcp_testkit::authorization::{BEGIN, Issuer, Person, SERVER, World};
use serde_json::json;

const ISSUER: &str = "https://as.example/t";

fn with_device(errors: &[&'static str]) -> World {
    let mut world = World::new().with(|config| config.grant = Grant::DeviceCode);
    let issuer = world.issuer();
    issuer.metadata["device_authorization_endpoint"] = json!(format!("{ISSUER}/device"));
    issuer.device_errors = errors.iter().copied().collect();
    world
}

/// The seconds after which a machine asked the token endpoint.
fn polls(world: &mut World, seconds: u64) -> Vec<u64> {
    let mut polls = Vec::new();
    for second in 1..=seconds {
        let before = world.requests.len();
        world.pass(Duration::from_secs(1));
        polls.extend((world.requests.len() > before).then_some(second));
    }
    polls
}

#[test]
fn au28_oa_x_08_a_code_is_shown_and_the_token_endpoint_is_asked_at_the_interval_that_it_sets() {
    let mut world = with_device(&["authorization_pending", "slow_down", "authorization_pending"]);
    world.challenge(0, 401, r#"Bearer scope="read""#);
    let shown = Waiting::Device {
        url: "https://as.example/device".to_owned(),
        code: "WDJB-MJHT".to_owned(),
        url_with_code: Some("https://as.example/device?user_code=WDJB-MJHT".to_owned()),
    };
    assert_eq!(world.processes[0].waiting, [shown]);
    assert_eq!(polls(&mut world, 30), [2, 4, 11, 18], "every 2 s, and every 7 s once it was too fast");
    let process = &world.processes[0];
    assert_eq!((process.token(), process.listening, process.shown.as_deref()), (Some("access-1"), None, None));
    let issuer = world.issuer();
    assert_eq!(issuer.registrations[0]["grant_types"][0], "urn:ietf:params:oauth:grant-type:device_code");
    assert_eq!(issuer.registrations[0].get("redirect_uris"), None);
    assert_eq!(issuer.registrations[0]["response_types"], json!([]));
    let asked = &issuer.authorizations[0];
    assert_eq!((&*asked["client_id"], &*asked["scope"], &*asked["resource"]), ("client-1", "read", SERVER));
    let request = issuer.token_requests.last().unwrap();
    assert_eq!((&*request["device_code"], &*request["resource"]), ("device-1", SERVER));
    world.check();
    // The client that was registered for this grant is used again.
    world.issuer().revoke();
    world.pass(Duration::from_secs(3600));
    world.challenge(0, 401, "Bearer");
    world.pass(Duration::from_secs(30));
    assert_eq!(world.processes[0].token(), Some("access-2"));
    assert_eq!(world.issuer().registrations.len(), 1);
    world.check();
}

#[test]
fn au28_oa_x_08_a_sign_in_on_another_device_ends_when_it_is_refused_or_too_late() {
    for (error, passes, expected) in [
        ("access_denied", 10, SignInError::Redirect(RedirectError::Denied(None))),
        ("expired_token", 10, SignInError::UserTimedOut { after: Duration::from_secs(300), reported: None }),
        ("authorization_pending", 301, SignInError::UserTimedOut { after: Duration::from_secs(300), reported: None }),
    ] {
        let mut world = with_device(&[error; 200]);
        world.challenge(0, 401, "Bearer");
        world.pass(Duration::from_secs(passes));
        assert_eq!(world.processes[0].refused, [expected]);
        world.check();
    }
    let mut world = with_device(&[]);
    world.issuer().metadata.as_object_mut().unwrap().remove("device_authorization_endpoint");
    world.challenge(0, 401, "Bearer");
    assert!(matches!(&world.processes[0].refused[..], [SignInError::Metadata { .. }]));
    world.check();
}

#[test]
fn oa_k_04_a_client_that_becomes_unknown_while_a_code_is_entered_is_registered_again() {
    let mut world = with_device(&["authorization_pending", "invalid_client"]);
    world.challenge(0, 401, "Bearer");
    world.pass(Duration::from_secs(30));
    let process = &world.processes[0];
    assert_eq!((process.token(), process.refused.len(), process.waiting.len()), (Some("access-1"), 0, 2));
    let issuer = world.issuer();
    assert_eq!((issuer.registrations.len(), issuer.authorizations.len()), (2, 2));
    world.check();
    let mut world = with_device(&["invalid_client"; 9]);
    world.challenge(0, 401, "Bearer");
    world.pass(Duration::from_secs(60));
    assert!(matches!(&world.processes[0].refused[..], [SignInError::Token { .. }]));
    assert_eq!(world.issuer().registrations.len(), 2, "once");
    world.check();
}

#[test]
fn au28_oa_x_08_a_server_that_cannot_be_reached_is_asked_less_often() {
    let mut world = with_device(&[]);
    world.challenge(0, 401, "Bearer");
    world.unreachable = Some((format!("{ISSUER}/token"), FetchFailure::Unreachable));
    world.pass(Duration::from_secs(2 + 4));
    world.unreachable = None;
    assert_eq!(polls(&mut world, 20), [8]);
    assert_eq!(world.processes[0].token(), Some("access-1"));
    world.check();
}

fn own_client(config: &mut Config) {
    config.registered = Some(ClientIdentity::new("robot"));
}

#[test]
fn oa_x_03_a_client_with_a_key_signs_an_assertion_for_each_request() {
    let mut world = World::new().with(|config| {
        let key = ClientKey::new(SigningAlgorithm::Rs256).with_id("key-7");
        config.grant = Grant::ClientCredentials;
        config.registered = Some(ClientIdentity::new("robot").with_key(key));
    });
    world.challenge(0, 401, "Bearer");
    world.pass(Duration::from_secs(4000));
    world.challenge(0, 401, "Bearer");
    assert_eq!(world.processes[0].token(), Some("access-2"));
    world.check();
    let issuer = world.issuer();
    let request = &issuer.token_requests[0];
    assert_eq!(request["client_assertion_type"], "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
    assert!(!request.contains_key("client_id") && issuer.token_authorizations[0].is_none());
    let (header, claims) = &issuer.client_assertions[0];
    assert_eq!(header, &json!({ "typ": "JWT", "alg": "RS256", "kid": "key-7" }));
    for (claim, expected) in [("iss", json!("robot")), ("sub", json!("robot")), ("aud", json!(ISSUER))] {
        assert_eq!(claims[claim], expected);
    }
    assert_eq!((&claims["iat"], &claims["exp"]), (&json!(BEGIN), &json!(BEGIN + 300)));
    assert_ne!(claims["jti"], issuer.client_assertions[1].1["jti"]);
}

#[test]
fn oa_x_05_the_assertion_of_the_platform_is_exchanged_once_and_an_error_leads_to_nothing_else() {
    for (accepted, expected) in [(true, Some("access-1")), (false, None)] {
        let mut world = World::new().with(|config| {
            own_client(config);
            config.grant = Grant::WorkloadIdentity;
        });
        world.processes[0].obtained = Some(" platform-token\n");
        if accepted {
            world.issuer().assertions.insert("platform-token".to_owned());
        }
        world.challenge(0, 401, r#"Bearer scope="read""#);
        assert_eq!(world.processes[0].token(), expected);
        let request = &world.issuer().token_requests[0];
        assert_eq!(request["grant_type"], "urn:ietf:params:oauth:grant-type:jwt-bearer");
        for (name, value) in
            [("assertion", "platform-token"), ("client_id", "robot"), ("scope", "read"), ("resource", SERVER)]
        {
            assert_eq!(request[name], value);
        }
        assert_eq!((world.issuer().token_requests.len(), world.processes[0].times_obtained), (1, 1));
        assert_eq!(world.processes[0].refused.is_empty(), accepted);
        world.check();
    }
}

#[test]
fn oa_x_04_an_id_token_is_exchanged_at_the_identity_provider_and_the_assertion_at_the_issuer() {
    let idp = "https://idp.example";
    let mut world = World::new().with(|config| {
        let at_idp = ClientIdentity::new("app-at-idp");
        let provider = IdentityProvider::new(idp, "https://idp.example/token", at_idp).unwrap();
        config.grant = Grant::EnterpriseManaged(provider);
        config.registered = Some(ClientIdentity::new("app").with_secret("s e".into()));
    });
    let mut provider = Issuer::new(idp);
    provider.assertions.insert("id-token".to_owned());
    world.issuers.insert(idp.to_owned(), provider);
    world.issuer().assertions.insert("jag-1".to_owned());
    world.issuer().metadata["token_endpoint_auth_methods_supported"] = json!(["client_secret_basic"]);
    world.processes[0].obtained = Some("id-token");
    world.challenge(0, 401, "Bearer");
    assert_eq!(world.processes[0].token(), Some("access-1"));
    world.check();
    let exchange = &world.issuers[idp].token_requests[0];
    for (name, value) in [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("requested_token_type", "urn:ietf:params:oauth:token-type:id-jag"),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
        ("audience", ISSUER),
        ("resource", SERVER),
        ("client_id", "app-at-idp"),
    ] {
        assert_eq!(exchange[name], value);
    }
    let issuer = world.issuer();
    assert_eq!(issuer.token_requests[0]["assertion"], "jag-1");
    assert!(issuer.token_authorizations[0].is_some() && !issuer.token_requests[0].contains_key("client_secret"));
    assert!(issuer.authorizations.is_empty(), "no person is sent to the issuer");
}

#[test]
fn oa_x_04_a_saml_assertion_is_exchanged_as_such() {
    let idp = "https://idp.example";
    let mut world = World::new().with(|config| {
        let at_idp = ClientIdentity::new("app-at-idp");
        let provider = IdentityProvider::new(idp, "https://idp.example/token", at_idp).unwrap();
        config.grant = Grant::EnterpriseManaged(provider.saml());
        config.registered = Some(ClientIdentity::new("app").with_secret("s e".into()));
    });
    let mut provider = Issuer::new(idp);
    provider.assertions.insert("saml-assertion".to_owned());
    world.issuers.insert(idp.to_owned(), provider);
    world.issuer().assertions.insert("jag-1".to_owned());
    world.processes[0].obtained = Some("saml-assertion");
    world.challenge(0, 401, "Bearer");
    assert_eq!(world.processes[0].token(), Some("access-1"));
    let exchange = &world.issuers[idp].token_requests[0];
    assert_eq!(exchange["subject_token_type"], "urn:ietf:params:oauth:token-type:saml2");
    world.check();
}

#[test]
fn oa_x_02_a_fixed_method_of_authentication_is_used_whatever_the_metadata_prefer() {
    for (method, in_header) in
        [(ClientAuthentication::ClientSecretBasic, true), (ClientAuthentication::ClientSecretPost, false)]
    {
        let mut world = World::new().with(|config| {
            config.grant = Grant::ClientCredentials;
            let robot = ClientIdentity::new("robot").with_secret("secret".into());
            config.registered = Some(robot.with_authentication(method));
        });
        let both = json!(["client_secret_basic", "client_secret_post"]);
        world.issuer().metadata["token_endpoint_auth_methods_supported"] = both;
        world.challenge(0, 401, "Bearer");
        assert_eq!(world.processes[0].token(), Some("access-1"));
        let issuer = world.issuer();
        assert_eq!(issuer.token_authorizations[0].is_some(), in_header, "{method:?}");
        assert_eq!(issuer.token_requests[0].contains_key("client_secret"), !in_header, "{method:?}");
        world.check();
    }
}

#[test]
fn oa_x_03_the_assertion_of_a_client_names_the_server_that_receives_it() {
    let idp = "https://idp.example";
    let with_key = |id| ClientIdentity::new(id).with_key(ClientKey::new(SigningAlgorithm::Es256));
    let mut world = World::new().with(|config| {
        let provider = IdentityProvider::new(idp, "https://idp.example/token", with_key("at-idp")).unwrap();
        config.grant = Grant::EnterpriseManaged(provider);
        config.registered = Some(with_key("app"));
    });
    let mut provider = Issuer::new(idp);
    provider.assertions.insert("id-token".to_owned());
    world.issuers.insert(idp.to_owned(), provider);
    world.issuer().assertions.insert("jag-1".to_owned());
    world.processes[0].obtained = Some("id-token");
    world.challenge(0, 401, "Bearer");
    assert_eq!(world.processes[0].token(), Some("access-1"));
    for (issuer, client) in [(idp, "at-idp"), (ISSUER, "app")] {
        let (_, claims) = &world.issuers[issuer].client_assertions[0];
        assert_eq!((&claims["aud"], &claims["iss"]), (&json!(issuer), &json!(client)));
    }
    world.check();
}

#[test]
fn a_token_of_another_program_is_used_from_the_start_and_asked_for_again_when_it_is_refused() {
    let mut world = World::new().with(|config| config.grant = Grant::External);
    world.processes[0].obtained = Some("external-1\n");
    world.start(0);
    assert_eq!(world.processes[0].token(), Some("external-1"));
    world.processes[0].obtained = Some("external-2");
    world.challenge(0, 401, "Bearer");
    assert_eq!(world.processes[0].token(), Some("external-2"));
    world.challenge(0, 403, r#"Bearer error="insufficient_scope", scope="write""#);
    assert_eq!(world.processes[0].refused, [SignInError::ScopesGranted], "another scope is for that program to decide");
    world.processes[0].obtained = None;
    world.challenge(0, 401, "Bearer");
    assert_eq!(world.processes[0].refused.last(), Some(&SignInError::NotObtained));
    assert_eq!((&world.requests[..], &world.stored, world.processes[0].times_obtained), (&[][..], &None, 3));
    world.check();
}

#[test]
fn oa_x_06_tokens_are_bound_to_a_key_if_that_is_demanded_or_configured() {
    let demands = r#"DPoP algs="ES256""#;
    for (proofs, challenge, is_listed, is_bound) in [
        (Proofs::Demanded, demands, true, true),
        (Proofs::Demanded, demands, false, true),
        (Proofs::Demanded, "Bearer", true, false),
        (Proofs::Demanded, r#"DPoP algs="ES256", Bearer"#, true, false),
        (Proofs::Supported, "Bearer", true, true),
        (Proofs::Supported, "Bearer", false, false),
        (Proofs::Never, demands, true, false),
    ] {
        let mut world = World::new().with(|config| config.proofs = proofs);
        world.issuer().binds = true;
        if is_listed {
            world.issuer().metadata["dpop_signing_alg_values_supported"] = json!(["ES256"]);
        }
        world.challenge(0, 401, challenge);
        let authorized = &world.processes[0].authorized[0];
        let expected = if is_bound { TokenScheme::Dpop } else { TokenScheme::Bearer };
        assert_eq!(authorized.scheme, expected, "{proofs:?} {challenge}");
        assert_eq!(world.issuer().proofs.len(), usize::from(is_bound));
        world.check();
    }
}

#[test]
fn oa_x_06_a_bound_token_is_refreshed_with_its_key_by_every_process() {
    let mut world = World::new();
    world.issuer().binds = true;
    world.challenge(0, 401, "DPoP");
    world.pass(Duration::from_secs(3599 - 300));
    assert_eq!(world.processes[0].token(), Some("access-2"));
    let other = world.add_process();
    world.start(other);
    world.pass(Duration::from_secs(3300));
    assert_eq!(world.processes[other].token(), Some("access-3"));
    let schemes: BTreeSet<_> = world.processes[other].authorized.iter().map(|own| own.scheme.as_str()).collect();
    assert_eq!(schemes, BTreeSet::from(["DPoP"]));
    assert_eq!(world.issuer().proofs.len(), 3);
    world.check();
}

#[test]
fn au14_oa_x_06_a_token_that_is_not_bound_although_that_was_demanded_is_refused() {
    let mut world = World::new();
    world.challenge(0, 401, "DPoP");
    let issuer = ISSUER.to_owned();
    assert_eq!(world.processes[0].refused, [SignInError::Token { issuer, reason: TokenError::NotBound }]);
    world.check();
    let mut world = World::new();
    world.processes[0].signs = false;
    world.challenge(0, 401, "DPoP");
    assert_eq!(world.processes[0].refused, [SignInError::NotSigned]);
    world.check();
}

#[test]
fn au21_oa_x_07_a_nonce_that_the_token_endpoint_demands_is_used_at_most_twice_in_a_row() {
    let mut world = World::new();
    world.issuer().binds = true;
    world.issuer().nonce = Some("n1".to_owned());
    world.challenge(0, 401, "DPoP");
    assert_eq!(world.processes[0].token(), Some("access-1"));
    let nonces: Vec<_> =
        world.issuer().proofs.iter().map(|claims| claims["nonce"].as_str().map(str::to_owned)).collect();
    assert_eq!(nonces, [None, Some("n1".to_owned())]);
    // The newest nonce is used from the start.
    world.pass(Duration::from_secs(3300));
    assert_eq!(world.processes[0].token(), Some("access-2"));
    assert_eq!(world.issuer().proofs.len(), 3);
    world.check();
    // Without a nonce in the response, nothing would differ.
    let mut world = World::new();
    let demand = (400, r#"{"error":"use_dpop_nonce"}"#.to_owned());
    world.issuer().token_responses.extend([demand.clone(), demand]);
    world.challenge(0, 401, "DPoP");
    assert_eq!((world.issuer().token_requests.len(), world.processes[0].refused.len()), (1, 1));
    world.check();
    // The demand does not end.
    let mut world = World::new();
    world.issuer().changes_nonce = true;
    world.challenge(0, 401, "DPoP");
    assert_eq!((world.issuer().token_requests.len(), world.processes[0].refused.len()), (3, 1));
    world.check();
}

#[test]
fn oa_x_09_an_id_token_is_sent_with_its_own_lifetime_only_if_that_is_configured() {
    // The claims are {"exp":1800000200}.
    let id_token = "e30.eyJleHAiOjE4MDAwMDAyMDB9.c2ln";
    for (uses_id_token, has_one) in [(true, true), (true, false), (false, true)] {
        let mut world = World::new().with(|config| config.uses_id_token = uses_id_token);
        let mut response = json!({ "access_token": "access", "token_type": "Bearer", "refresh_token": "r" });
        if has_one {
            response["id_token"] = json!(id_token);
        }
        world.issuer().token_responses.push_back((200, response.to_string()));
        world.challenge(0, 401, "Bearer");
        let expected = match (uses_id_token, has_one) {
            (true, true) => Some(id_token),
            (true, false) => None,
            (false, _) => Some("access"),
        };
        assert_eq!(world.processes[0].token(), expected);
        let scope = world.issuer().authorizations[0].get("scope").cloned();
        assert_eq!(scope.as_deref(), uses_id_token.then_some("openid"));
        world.check();
    }
}

#[test]
fn a_sign_out_revokes_the_refresh_token_where_that_is_possible_and_erases_the_record() {
    for (has_endpoint, refreshes, is_reachable) in
        [(true, true, true), (true, false, true), (false, true, true), (true, true, false)]
    {
        let mut world = World::new();
        if has_endpoint {
            world.issuer().metadata["revocation_endpoint"] = json!(format!("{ISSUER}/revoke"));
        }
        world.issuer().refreshes = refreshes;
        world.challenge(0, 401, "Bearer");
        assert!(world.stored.is_some());
        if !is_reachable {
            world.unreachable = Some((format!("{ISSUER}/revoke"), FetchFailure::Unreachable));
        }
        world.cause(0, Cause::SignOut);
        world.run();
        let is_revoked = has_endpoint && is_reachable;
        assert_eq!(world.processes[0].signed_out, [is_revoked]);
        let expected = if refreshes { "refresh-1" } else { "access-1" };
        assert_eq!(world.issuer().revoked, if is_revoked { vec![expected] } else { vec![] });
        assert_eq!(world.stored, None);
        // Nothing of it is used again.
        world.pass(Duration::from_secs(4000));
        world.start(0);
        assert!(world.processes[0].has_none);
        world.check();
    }
}

#[test]
fn oa_t_05_tokens_after_a_sign_out_are_not_taken_for_those_before_it() {
    for signs_in in [0, 1] {
        let mut world = World::new();
        world.challenge(0, 401, "Bearer");
        let other = world.add_process();
        world.start(other);
        assert_eq!(world.processes[other].token(), Some("access-1"));
        world.cause(0, Cause::SignOut);
        world.run();
        world.challenge(signs_in, 401, r#"Bearer error="invalid_token""#);
        world.challenge(other, 401, r#"Bearer error="invalid_token""#);
        let expected = if signs_in == other { "access-3" } else { "access-2" };
        assert_eq!(world.processes[other].token(), Some(expected));
        world.check();
    }
}

#[test]
fn oa_b_03_a_person_who_refused_is_asked_again_only_on_request_or_after_a_minute() {
    let mut world = World::new();
    world.person = Person::IsAway;
    world.challenge(0, 401, "Bearer");
    world.pass(Duration::from_secs(300));
    assert_eq!((world.processes[0].refused.len(), world.processes[0].waiting.len()), (1, 1));
    for seconds in [1, 58] {
        world.pass(Duration::from_secs(seconds));
        world.challenge(0, 401, "Bearer");
        assert_eq!(world.processes[0].waiting.len(), 1);
    }
    assert_eq!(world.processes[0].refused.len(), 3);
    world.cause(0, Cause::Requested);
    world.run();
    assert_eq!(world.processes[0].waiting.len(), 2, "a person asked for it");
    world.pass(Duration::from_secs(300 + 60));
    world.person = Person::SignsIn;
    world.challenge(0, 401, "Bearer");
    assert_eq!(world.processes[0].token(), Some("access-1"));
    world.check();
}

#[test]
fn oa_s_04_what_a_challenge_demands_of_the_sign_in_is_passed_on() {
    let mut world = World::new().with(|config| config.authorization_parameter("max_age", "60").unwrap());
    let error = r#"Bearer error="insufficient_user_authentication", acr_values="silver gold", max_age="5""#;
    world.challenge(0, 401, error);
    let asked = &world.issuer().authorizations[0];
    assert_eq!((&*asked["acr_values"], &*asked["max_age"]), ("silver gold", "60"), "the configuration goes first");
    world.check();
}

#[test]
fn oa_x_08_only_codes_that_a_person_can_read_and_urls_that_may_be_opened_are_shown() {
    let codes = |user_code: &str, url: &str| {
        json!({ "device_code": "d", "user_code": user_code, "verification_uri": url, "expires_in": 600 }).to_string()
    };
    let url = "https://as.example/device";
    for (status, body, is_shown) in [
        (200, codes("AB-12 x", url), true),
        (200, codes("", url), false),
        (200, codes("a\u{202e}b", url), false),
        (200, codes("a\u{7}b", url), false),
        (200, codes(&"A".repeat(65), url), false),
        (200, codes("AB-12", "http://as.example/device"), false),
        (200, codes("AB-12", "javascript:alert(1)"), false),
        (200, codes("AB-12", "https://192.168.1.1/device"), false),
        (200, codes("AB-12", "http://localhost:8080/device"), false),
        (200, codes("AB-12", url).replace('}', r#","verification_uri_complete":"https://10.0.0.5/"}"#), false),
        (200, r#"["d","AB-12","https://as.example/device"]"#.to_owned(), false),
        (201, codes("AB-12", url), false),
        (200, "<html>".to_owned(), false),
    ] {
        let mut world = with_device(&[]);
        world.issuer().device_responses.push_back((status, body.clone()));
        world.challenge(0, 401, "Bearer");
        let shown = world.processes[0].waiting.iter().any(|waiting| matches!(waiting, Waiting::Device { .. }));
        assert_eq!(shown, is_shown, "{status} {body}");
        world.pass(Duration::from_secs(600));
        world.check();
    }
}
