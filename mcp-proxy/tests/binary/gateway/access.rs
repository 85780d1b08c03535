//! Who may use a gateway.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_testkit::http_exchange::{TestRequest, initialize};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};

use super::serving::{Asks, ENDED, SERVER, Serving, before, command_with_address, folder, gateway, member, words};
use crate::editor::Proxy;

fn opening() -> TestRequest {
    TestRequest::post(initialize("2025-11-25"))
}

#[cfg(unix)]
#[test]
fn no_process_has_the_tokens_of_users_in_its_environment() {
    let script = SERVER.replace("$SETTING", "$ADA$BOB$OWN$SECRET");
    let options =
        ["--health", "--token-env", "ada=ADA", "--token-env", "BOB", "--token-env", "OWN", "--env", "OWN=own"];
    let of_the_gateway = ["--client-id", "i", "--client-secret-env", "SECRET"];
    let mut command = before(&[&options[..], &of_the_gateway].concat(), &script);
    command.envs([("ADA", "token-of-ada"), ("BOB", "token-of-bob"), ("OWN", "token-of-own"), ("SECRET", "secret")]);
    let serving = Serving::spawn(command);
    let session = serving.open(Asks::with("token-of-bob")).unwrap();
    assert_eq!(member(&session.call("pid"), "setting"), "own", "an option may set one explicitly");
}

#[test]
fn oa_z_02_with_tokens_no_other_request_is_served_and_no_process_is_started_for_it() {
    let mut command = before(&["--health", "--token-env", "TOKEN"], SERVER);
    command.env("TOKEN", "the-token-4711");
    let serving = Serving::spawn(command);
    for (token, error) in [(None, ""), (Some("another"), "invalid_token"), (Some("the-token-471"), "invalid_token")] {
        let refused = serving.raw.answer(&Asks { path: "/mcp", token }.request(opening()));
        assert_eq!(refused.code(), 401, "{token:?}");
        let challenge = refused.headers["www-authenticate"].to_str().unwrap();
        assert!(challenge.starts_with("Bearer") && challenge.contains(error), "{challenge}");
        assert_eq!(challenge.contains("error"), token.is_some(), "{challenge}");
    }
    assert_eq!(serving.load(), (0, 0), "the page needs no token");
    let session = serving.open(Asks::with("the-token-4711")).unwrap();
    assert!(session.pid() > 0);
    let (_, errors) = serving.end("TERM");
    assert!(!errors.contains("4711"), "{errors}");
}

#[test]
fn sh_s_03_sh_s_05_only_listed_hosts_and_origins_are_served() {
    let local = ["localhost", "127.0.0.1:80", "[::1]"];
    let page = "https://app.example";
    for (options, hosts, origins) in [
        (&[][..], &local[..], &["http://localhost:5173"][..]),
        (&["--allow-host", "mcp.example"], &["localhost", "mcp.example:8443"], &[]),
        (&["--allow-host", "mcp.example", "--allow-origin", page], &["mcp.example"], &[page]),
        (&["--allow-origin", page], &local, &[page]),
    ] {
        let serving = Serving::start(options);
        let asked = |host: &str, origin: &str| {
            let asked = opening().with("host", host);
            let asked = if origin.is_empty() { asked } else { asked.with("origin", origin) };
            serving.raw.answer(&asked)
        };
        for host in ["localhost", "127.0.0.1:80", "[::1]", "mcp.example", "mcp.example:8443", "evil.example"] {
            let name = host.split(":8").next().unwrap();
            let is_served = hosts.iter().any(|served| served.split(":8").next() == Some(name)) || local.contains(&host);
            assert_eq!(asked(host, "").code(), if is_served { 200 } else { 403 }, "{options:?} {host}");
        }
        for origin in ["http://localhost:5173", page, "https://evil.example"] {
            let answer = asked("localhost", origin);
            let is_served = origins.contains(&origin);
            assert_eq!(answer.code(), if is_served { 200 } else { 403 }, "{options:?} {origin}");
            let may_read = answer.headers.contains_key("access-control-allow-origin");
            assert_eq!(may_read, is_served && options.contains(&"--allow-origin"), "{options:?} {origin}");
        }
    }
}

#[test]
fn the_paths_of_servers_are_for_clients_that_may_use_them() {
    let words = words(&folder("paths"));
    let names = ["one", "two"].map(|name| format!("{name}={words}"));
    for has_tokens in [false, true] {
        let tokens = if has_tokens { &["--token-env", "TOKEN"][..] } else { &[] };
        let options = ["--health", "--sse", "--name", &names[0], "--name", &names[1]];
        let mut command = gateway(&[tokens, &options].concat());
        command.env("TOKEN", "the-token-4711");
        let serving = Serving::spawn(command);
        for method in ["GET", "POST", "PUT"] {
            for path in
                ["/", "/other", "/one/mcp//", "//one/mcp", "/one//mcp", "/%6fne/mcp", "/two/../one/mcp", "/one", "/x?y"]
            {
                for (host, origin, token) in [
                    ("localhost", "", ""),
                    ("localhost", "http://localhost:5173", ""),
                    ("localhost", "", "wrong"),
                    ("localhost", "", "the-token-4711"),
                    ("evil.example", "", ""),
                    ("evil.example", "", "the-token-4711"),
                    ("localhost", "https://evil.example", ""),
                    ("localhost", "https://evil.example", "the-token-4711"),
                ] {
                    let mut asked = TestRequest::new(method, "").at(path).with("host", host);
                    if !origin.is_empty() {
                        asked = asked.with("origin", origin);
                    }
                    if !token.is_empty() {
                        asked = asked.with("authorization", &format!("Bearer {token}"));
                    }
                    let answer = serving.raw.answer(&asked);
                    let is_allowed = host == "localhost" && !origin.contains("evil");
                    let is_known = !has_tokens || token == "the-token-4711";
                    let code = match (is_allowed, is_known) {
                        (false, _) => 403,
                        (true, false) if path == "/" => 401,
                        (true, _) => 404,
                    };
                    let case = format!("{method} {path} {host} {origin} {token} {has_tokens}: {}", answer.text());
                    assert_eq!(answer.code(), code, "{case}");
                    assert_eq!(answer.headers.contains_key("www-authenticate"), code == 401, "{case}");
                    for listed in ["/one/mcp", "/one/sse", "/two/messages"] {
                        assert_eq!(answer.text().contains(listed), is_allowed && is_known, "{case}");
                    }
                }
            }
        }
        assert_eq!(serving.load(), (0, 0));
    }
}

/// The keys of an authorization server, and tokens that it signs.
struct Issuer {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl Issuer {
    fn new() -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self { pair: EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap(), random }
    }

    fn keys(&self, kid: &str) -> String {
        let [x, y] = [1..33, 33..65].map(|part| URL_SAFE_NO_PAD.encode(&self.pair.public_key().as_ref()[part]));
        format!(r#"{{"keys":[{{"kty":"EC","crv":"P-256","use":"sig","kid":"{kid}","x":"{x}","y":"{y}"}}]}}"#)
    }

    fn token(&self, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        let signature = self.pair.sign(&self.random, signed.as_bytes()).unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of tokens")]
fn oa_z_01_oa_z_02_oa_z_03_tokens_of_an_authorization_server_are_checked() {
    const HEADER: &str = r#"{"alg":"ES256","kid":"k"}"#;
    const CLAIMS: &str = r#"{"iss":"https://auth.example","sub":"ada","aud":["https://mcp.example/one/mcp"],"exp":9999999999,"scope":"a tools"}"#;
    let (issuer, other) = (Issuer::new(), Issuer::new());
    let folder = folder("jwt");
    let keys = folder.join("keys.json");
    std::fs::write(&keys, issuer.keys("k")).unwrap();
    let words = words(&folder);
    let names = ["one", "two"].map(|name| format!("{name}={words}"));
    let serving = Serving::spawn(gateway(&[
        "--health",
        "--token-issuer",
        "https://auth.example",
        "--token-keys",
        keys.to_str().unwrap(),
        "--token-scope",
        "tools",
        "--public-url",
        "https://mcp.example",
        "--user-env",
        "MCP_USER",
        "--name",
        &names[0],
        "--name",
        &names[1],
    ]));
    let metadata =
        TestRequest::new("GET", "").at("/.well-known/oauth-protected-resource/one/mcp").with("host", "mcp.example");
    let metadata = serving.raw.answer(&metadata).text();
    for part in [r#""resource":"https://mcp.example/one/mcp""#, r#""https://auth.example""#, r#""tools""#] {
        assert!(metadata.contains(part), "{part} in {metadata}");
    }
    let ask = |path: &str, token: Option<&str>| serving.raw.answer(&Asks { path, token }.request(opening()));
    let claims = |old: &str, new: &str| {
        assert!(CLAIMS.contains(old), "{old}");
        issuer.token(HEADER, &CLAIMS.replace(old, new))
    };
    let fine = issuer.token(HEADER, CLAIMS);
    let tampered = fine.replacen(
        &URL_SAFE_NO_PAD.encode(CLAIMS)[..8],
        &URL_SAFE_NO_PAD.encode(CLAIMS.replace("iss", "jss"))[..8],
        1,
    );
    for (case, token) in [
        ("no token", "x".to_owned()),
        ("another key", other.token(HEADER, CLAIMS)),
        ("another claim", tampered),
        ("no signature", format!("{}.", fine.rsplit_once('.').unwrap().0)),
        ("no algorithm", issuer.token(r#"{"alg":"none","kid":"k"}"#, CLAIMS)),
        ("another algorithm", issuer.token(r#"{"alg":"HS256","kid":"k"}"#, CLAIMS)),
        ("another key id", issuer.token(r#"{"alg":"ES256","kid":"l"}"#, CLAIMS)),
        ("an extension", issuer.token(r#"{"alg":"ES256","kid":"k","crit":["b64"]}"#, CLAIMS)),
        ("no extension, but named", issuer.token(r#"{"alg":"ES256","kid":"k","crit":null}"#, CLAIMS)),
        ("an empty list of extensions", issuer.token(r#"{"alg":"ES256","kid":"k","crit":[]}"#, CLAIMS)),
        ("another encoding", issuer.token(r#"{"alg":"ES256","kid":"k","b64":false}"#, CLAIMS)),
        ("two algorithms", issuer.token(r#"{"alg":"ES256","alg":"ES256","kid":"k"}"#, CLAIMS)),
        ("another kind of token", issuer.token(r#"{"alg":"ES256","kid":"k","typ":"dpop+jwt"}"#, CLAIMS)),
        ("another media type", issuer.token(r#"{"alg":"ES256","kid":"k","typ":"application/Logout+JWT"}"#, CLAIMS)),
        (
            "a key of the client",
            claims(r#""exp""#, r#""cnf":{"jkt":"0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"},"exp""#),
        ),
        ("a certificate of the client", claims(r#""exp""#, r#""cnf":{"x5t#S256":"x"},"exp""#)),
        ("a key that is null", claims(r#""exp""#, r#""cnf":null,"exp""#)),
        ("two subjects", claims(r#""exp""#, r#""sub":"ada","exp""#)),
        ("an end as text", claims("9999999999", r#""9999999999""#)),
        ("an end of null", claims("9999999999", "null")),
        ("a beginning as text", claims(r#""exp""#, r#""nbf":"1","exp""#)),
        ("a beginning of null", claims(r#""exp""#, r#""nbf":null,"exp""#)),
        ("another issuer", claims("https://auth.example", "https://evil.example")),
        ("another audience", claims("/one/mcp", "/two/mcp")),
        ("no audience", claims(r#""aud":["https://mcp.example/one/mcp"],"#, "")),
        ("no end", claims(r#""exp":9999999999,"#, "")),
        ("expired", claims("9999999999", "1700000000.5")),
        ("not valid yet", claims(r#""exp""#, r#""nbf":9999999998,"exp""#)),
        ("nobody", claims("ada", "")),
    ] {
        let refused = ask("/one/mcp", Some(&token));
        assert_eq!(refused.code(), 401, "{case}");
        let challenge = refused.headers["www-authenticate"].to_str().unwrap();
        assert!(challenge.contains(r#"error="invalid_token""#), "{case}: {challenge}");
        let is_bound = case.ends_with("of the client") || case == "a key that is null";
        assert_eq!(challenge.contains("the token is bound to a key of the client"), is_bound, "{case}: {challenge}");
        let metadata = r#"resource_metadata="https://mcp.example/.well-known/oauth-protected-resource/one/mcp""#;
        assert!(challenge.contains(metadata), "{case}: {challenge}");
    }
    let refused = ask("/one/mcp", None);
    let challenge = refused.headers["www-authenticate"].to_str().unwrap();
    assert!(
        refused.code() == 401 && challenge.contains(r#"scope="tools""#) && !challenge.contains("error"),
        "{challenge}"
    );
    let refused = ask("/one/mcp", Some(&claims("a tools", "a")));
    let challenge = refused.headers["www-authenticate"].to_str().unwrap();
    assert!(refused.code() == 403 && challenge.contains("insufficient_scope"), "{challenge}");
    assert_eq!(ask("/two/mcp", Some(&fine)).code(), 401, "a token is for one server");
    assert_eq!(serving.load(), (0, 0));
    let typed = issuer.token(r#"{"alg":"ES256","kid":"k","typ":"application/at+JWT"}"#, CLAIMS);
    for token in [&fine, &typed] {
        let session = serving.open(Asks { path: "/one/mcp", token: Some(token) }).unwrap();
        assert_eq!(member(&session.call("pid"), "user"), "ada");
    }
}

#[test]
fn a_key_with_the_id_of_an_earlier_one_takes_its_place_while_the_gateway_runs() {
    const CLAIMS: &str =
        r#"{"iss":"https://auth.example","sub":"ada","aud":"https://mcp.example/mcp","exp":9999999999}"#;
    let (old, new) = (Issuer::new(), Issuer::new());
    let folder = folder("rotation");
    let keys = folder.join("keys.json");
    std::fs::write(&keys, old.keys("k")).unwrap();
    let options = ["--token-issuer", "https://auth.example", "--token-keys", keys.to_str().unwrap()];
    let serving = Serving::before(&[&options[..], &["--public-url", "https://mcp.example"]].concat(), SERVER);
    let next = new.keys("k");
    let [old, new] = [&old, &new].map(|issuer| issuer.token(r#"{"alg":"ES256","kid":"k"}"#, CLAIMS));
    let code = |token: &str| serving.raw.answer(&Asks { path: "/mcp", token: Some(token) }.request(opening())).code();
    assert_eq!((code(&old), code(&new)), (200, 401));
    std::fs::write(&keys, next).unwrap();
    let until = std::time::Instant::now() + mcp_testkit::waiting::LONG;
    while code(&new) != 200 {
        assert!(std::time::Instant::now() < until, "the file is not read again");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(code(&old), 401);
}

/// An address that other machines reach must be a decision.
#[test]
fn an_address_of_the_network_needs_tokens_or_the_consent_of_a_person() {
    let server = format!("one={}", words(&folder("network")));
    for (options, is_served) in
        [(&[][..], false), (&["--allow-unauthenticated"], true), (&["--token-env", "TOKEN"], true)]
    {
        let mut command = command_with_address("0.0.0.0:0", &[options, &["--name", &server]].concat());
        command.env("TOKEN", "the-token-4711");
        if is_served {
            let serving = Serving::spawn_after_warnings(command);
            let warned = serving.warnings.join("\n");
            assert!(warned.contains("name the host that clients use with --allow-host"), "{warned}");
            assert_eq!(serving.end("TERM").0, ENDED);
        } else {
            let mut proxy = Proxy::spawn(command);
            let (status, _) = proxy.wait();
            let message = proxy.errors().join("\n");
            assert_eq!(status.code(), Some(2), "{message}");
            assert!(message.contains("--token-env") && message.contains("--allow-unauthenticated"), "{message}");
        }
    }
}

#[cfg(unix)]
#[test]
fn a_denied_tool_does_not_reach_the_server_and_a_changed_one_is_hidden() {
    use mcp_testkit::messages::request;

    use super::serving::Session;

    let call = |session: &Session<'_>, name: &str| {
        session.send(&request("3", "tools/call", &format!(r#"{{"name":"{name}"}}"#))).text()
    };
    let tools = r#"*'"tools/list"'*) result='{"tools":[{"name":"a","description":"'"$SETTING"'","inputSchema":{}}]}' ;;
        *'"wait"'*)"#;
    let script = SERVER.replace(r#"*'"wait"'*)"#, tools);
    let file = folder("pins").join("pins.json");
    for (setting, is_hidden) in [("one", false), ("one", false), ("two", true)] {
        let setting = format!("SETTING={setting}");
        let options = ["--deny-tool", "danger*", "--pin", file.to_str().unwrap(), "--env", &setting];
        let serving = Serving::before(&options, &script);
        let session = serving.session();
        assert!(call(&session, "danger-1").contains("-32602"));
        assert!(call(&session, "safe").contains("pid"));
        let listed = session.call("tools/list");
        assert_eq!(listed.contains(r#""name":"a""#), !is_hidden, "{setting}: {listed}");
        assert_eq!(call(&session, "a").contains("error"), is_hidden, "{setting}");
        serving.end("INT");
    }
}
