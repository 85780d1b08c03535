//! The example that demands tokens, with tokens that an authorization server would issue and with forged ones.

#![cfg(feature = "http-server")]

use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use mcp_proto::Json;
use mcp_testkit::http_exchange::TestRequest;
use rcgen::KeyPair;
use tests::examples::Serving;

const ISSUER: &str = "https://auth.example";

fn key() -> EncodingKey {
    EncodingKey::from_ec_der(&KeyPair::generate().unwrap().serialize_der())
}

/// A token with these claims besides `sub`, which expires after so many seconds.
fn token(key: &EncodingKey, expires_in: i64, claims: &[(&str, &str)]) -> String {
    let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap();
    let mut all = Json::empty_object().with_member("exp", &Json::from(now + expires_in));
    for (name, value) in claims.iter().chain(&[("sub", "ada")]) {
        all = all.with_member(name, &Json::from(*value));
    }
    encode(&Header { kid: Some("k1".to_owned()), ..Header::new(Algorithm::ES256) }, &all, key).unwrap()
}

/// The same token without a signature, and with a header that states that it has none.
fn unsigned(token: &str) -> String {
    // {"alg":"none","kid":"k1"}
    let claims = token.split('.').nth(1).unwrap();
    format!("eyJhbGciOiJub25lIiwia2lkIjoiazEifQ.{claims}.")
}

#[test]
fn au27_oa_z_03_only_tokens_for_this_server_and_of_its_authorization_server_are_accepted() {
    let (own, other) = (key(), key());
    let mut jwk = Jwk::from_encoding_key(&own, Algorithm::ES256).unwrap();
    jwk.common.key_id = Some("k1".to_owned());
    let keys = std::env::temp_dir().join(format!("mcp-protected-server-{}.json", std::process::id()));
    std::fs::write(&keys, Json::from_serialize(&JwkSet { keys: vec![jwk] }).unwrap().as_bytes()).unwrap();
    let server = Serving::start_with("protected_server", &[ISSUER, keys.to_str().unwrap()]);
    let audience = format!("http://{}/mcp", server.remote().address());
    let fine = [("iss", ISSUER), ("aud", &*audience), ("scope", "tools:call")];
    let with =
        |name: &'static str, value: &'static str| fine.map(|(own, is)| (own, if own == name { value } else { is }));
    let without = |name: &str| fine.into_iter().filter(|(own, _)| *own != name).collect::<Vec<_>>();
    let call = TestRequest::stateless_call("1", "whoami", "");
    for (what, authorization, code) in [
        ("a valid token", format!("Bearer {}", token(&own, 600, &fine)), 200),
        ("another spelling", format!("bearer  {}", token(&own, 600, &fine)), 200),
        ("another scheme", format!("Basic {}", token(&own, 600, &fine)), 401),
        ("no token", "Bearer ".to_owned(), 401),
        ("an expired one", format!("Bearer {}", token(&own, -600, &fine)), 401),
        ("one for another server", format!("Bearer {}", token(&own, 600, &with("aud", "http://localhost/mcp"))), 401),
        ("one for any server", format!("Bearer {}", token(&own, 600, &without("aud"))), 401),
        ("one of another issuer", format!("Bearer {}", token(&own, 600, &with("iss", "https://evil.example"))), 401),
        ("one of no issuer", format!("Bearer {}", token(&own, 600, &without("iss"))), 401),
        ("a forged one", format!("Bearer {}", token(&other, 600, &fine)), 401),
        ("an unsigned one", format!("Bearer {}", unsigned(&token(&own, 600, &fine))), 401),
        ("one with fewer scopes", format!("Bearer {}", token(&own, 600, &with("scope", "tools"))), 403),
        ("one without scopes", format!("Bearer {}", token(&own, 600, &without("scope"))), 403),
    ] {
        let sent = server.remote().answer(&call.clone().with("authorization", &authorization));
        assert_eq!(sent.code(), code, "{what}: {}", sent.text());
        assert_eq!(sent.text().contains("Hello, ada!"), code == 200, "{what}");
        assert_eq!(sent.headers.contains_key("www-authenticate"), code != 200, "{what}");
    }
    assert_eq!(server.remote().answer(&call).code(), 401);
    let metadata = server.remote().answer(&TestRequest::get().at("/.well-known/oauth-protected-resource/mcp"));
    assert!(metadata.code() == 200 && metadata.text().contains(&format!(r#""resource":"{audience}""#)));
    std::fs::remove_file(keys).unwrap();
}
