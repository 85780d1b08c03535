//! Who may use a gateway.

use mcp_testkit::http_exchange::{TestRequest, initialize};

use crate::serving::{Asks, SERVER, Serving, before, command_with_address, folder, script};

fn opening() -> TestRequest {
    TestRequest::post(initialize("2025-11-25"))
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

/// An address that other machines reach must be a decision.
#[test]
fn an_address_of_the_network_needs_tokens_or_the_consent_of_a_person() {
    let script = script(&folder("network"));
    let server = format!("one=sh {script}");
    for (options, is_served) in
        [(&[][..], false), (&["--allow-unauthenticated"], true), (&["--token-env", "TOKEN"], true)]
    {
        let mut command = command_with_address("0.0.0.0:0", &[options, &["--name", &server]].concat());
        command.env("TOKEN", "the-token-4711");
        if is_served {
            let serving = Serving::spawn_after_warnings(command);
            let warned = serving.warnings.join("\n");
            assert!(warned.contains("name the host that clients use with --allow-host"), "{warned}");
            assert_eq!(serving.end("TERM").0, Some(0));
        } else {
            let output = command.stdin(std::process::Stdio::null()).output().unwrap();
            let message = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{message}");
            assert!(message.contains("--token-env") && message.contains("--allow-unauthenticated"), "{message}");
        }
    }
}
