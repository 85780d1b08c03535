//! Signing in through the binary: a protected server, an authorization server and a browser, all played by the test.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{fs, thread};

use mcp_testkit::http1::{self, HttpMessage};
use mcp_testkit::loopback_server::{Connection, LoopbackServer, PostedMessage, mcp_server};
use mcp_testkit::messages::{DISCOVERED, INITIALIZED, complete, error, initialize, initialize_result, request, result};
use mcp_testkit::waiting::wait_until;
use md5::{Digest, Md5};

use crate::editor::{Proxy, command};

/// What the authorization server has issued.
#[derive(Default)]
struct Issued {
    /// The authorization requests for which a code was issued.
    codes: BTreeMap<String, BTreeMap<String, String>>,
    access_tokens: Vec<String>,
    refresh_tokens: Vec<String>,
    registrations: usize,
    authorizations: usize,
    /// The forms that the token endpoint has received.
    token_requests: Vec<BTreeMap<String, String>>,
    /// Members of the metadata that replace the usual ones; `null` removes one.
    metadata: Vec<(&'static str, String)>,
}

/// A protected server and its authorization server.
struct Servers {
    resource: LoopbackServer,
    authorization: LoopbackServer,
    issued: Arc<Mutex<Issued>>,
}

fn form(text: &str) -> BTreeMap<String, String> {
    let decode = |text: &str| {
        let mut bytes = Vec::new();
        let mut rest = text.bytes();
        while let Some(byte) = rest.next() {
            bytes.push(match byte {
                b'+' => b' ',
                b'%' => {
                    let digits = [rest.next().unwrap(), rest.next().unwrap()];
                    u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
                }
                other => other,
            });
        }
        String::from_utf8(bytes).unwrap()
    };
    text.split('&').filter_map(|pair| pair.split_once('=')).map(|(name, value)| (decode(name), decode(value))).collect()
}

fn serve_authorization(request: &HttpMessage, connection: &mut Connection, state: &Mutex<Issued>) -> io::Result<()> {
    let issued = &mut *state.lock().unwrap();
    let target = request.line.split(' ').nth(1).unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let origin = format!("http://{}", request.header("host"));
    let body = String::from_utf8_lossy(&request.body).into_owned();
    match path {
        "/.well-known/oauth-authorization-server" => {
            let mut members = BTreeMap::from([
                ("issuer", format!("\"{origin}\"")),
                ("authorization_endpoint", format!("\"{origin}/authorize\"")),
                ("token_endpoint", format!("\"{origin}/token\"")),
                ("registration_endpoint", format!("\"{origin}/register\"")),
                ("code_challenge_methods_supported", r#"["S256"]"#.to_owned()),
            ]);
            members.extend(issued.metadata.iter().cloned());
            let members: Vec<_> = members
                .iter()
                .filter(|(_, value)| *value != "null")
                .map(|(name, value)| format!("\"{name}\":{value}"))
                .collect();
            connection.json(format!("{{{}}}", members.join(",")))
        }
        "/register" => {
            issued.registrations += 1;
            connection.json(format!(r#"{{"client_id":"client-{}"}}"#, issued.registrations))
        }
        "/authorize" => {
            let asked = form(query);
            issued.authorizations += 1;
            let code = format!("code-{}", issued.authorizations);
            let location = format!("{}?code={code}&state={}", asked["redirect_uri"], asked["state"]);
            issued.codes.insert(code, asked);
            connection.reply("302 Found", &[("location", &location)], "")
        }
        "/token" => {
            let asked = form(&body);
            let is_known = match asked["grant_type"].as_str() {
                "authorization_code" => issued.codes.remove(&asked["code"]).is_some(),
                "refresh_token" => {
                    let known = issued.refresh_tokens.iter().position(|token| *token == asked["refresh_token"]);
                    known.map(|position| issued.refresh_tokens.remove(position)).is_some()
                }
                "client_credentials" => request.header("authorization") == "Basic aWQ6c2VjcmV0LTQ3MTE=",
                _ => false,
            };
            issued.token_requests.push(asked);
            if !is_known {
                return connection.reply("400 Bad Request", &[], r#"{"error":"invalid_grant"}"#);
            }
            let number = issued.token_requests.len();
            let (access, refresh) = (format!("access-{number}"), format!("refresh-{number}"));
            let answer = format!(
                r#"{{"access_token":"{access}","token_type":"Bearer","expires_in":3600,"refresh_token":"{refresh}","scope":"read"}}"#
            );
            issued.access_tokens.push(access);
            issued.refresh_tokens.push(refresh);
            connection.json(answer)
        }
        _ => connection.reply("404 Not Found", &[], ""),
    }
}

impl Servers {
    /// A server that demands a token for each request of which `demands` says so.
    fn with(demands: impl Fn(&HttpMessage) -> bool + Send + Sync + 'static) -> Self {
        Self::serving(demands, mcp_server(|asked, connection| connection.json(result(&asked.id, &asked.params))))
    }

    /// Like [`Servers::with`], with this server behind it.
    fn serving(
        demands: impl Fn(&HttpMessage) -> bool + Send + Sync + 'static,
        serve: impl Fn(&HttpMessage, &mut Connection) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let issued = Arc::new(Mutex::new(Issued { refresh_tokens: vec!["imported".to_owned()], ..Issued::default() }));
        let own = Arc::clone(&issued);
        let authorization =
            LoopbackServer::start(move |request, connection| serve_authorization(request, connection, &own));
        let (own, named) = (Arc::clone(&issued), format!("http://{}", authorization.authority));
        let resource = LoopbackServer::start(move |request, connection| {
            let origin = format!("http://{}", request.header("host"));
            if request.line.starts_with("GET /.well-known/oauth-protected-resource/mcp ") {
                return connection
                    .json(format!(r#"{{"resource":"{origin}/mcp","authorization_servers":["{named}"]}}"#));
            }
            let token = request.header("authorization").strip_prefix("Bearer ").map(str::to_owned);
            let is_valid = token.is_some_and(|token| own.lock().unwrap().access_tokens.contains(&token));
            if demands(request) && !is_valid {
                let metadata = format!("{origin}/.well-known/oauth-protected-resource/mcp");
                let challenge = format!(r#"Bearer resource_metadata="{metadata}""#);
                return connection.reply("401 Unauthorized", &[("www-authenticate", &challenge)], "");
            }
            serve(request, connection)
        });
        Self { resource, authorization, issued }
    }

    fn new() -> Self {
        Self::with(|_| true)
    }

    fn issued<R>(&self, read: impl FnOnce(&mut Issued) -> R) -> R {
        read(&mut self.issued.lock().unwrap())
    }
}

/// The home directory of a user, and a browser that writes the URLs that it is to open to a file.
struct Desk(PathBuf);

/// Whether the browser of a [`Desk`] is that of the tests. Windows would open that of the person who runs them, but
/// `tests/platforms/run` gives Wine another one, and sets this variable.
fn has_scripted_browser() -> bool {
    !cfg!(windows) || std::env::var_os("MCP_SCRIPTED_BROWSER").is_some()
}

impl Desk {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sign-in-{name}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("bin")).unwrap();
        let browser = folder.join("bin/xdg-open");
        let opened = folder.join("opened");
        fs::write(&browser, format!("#!/bin/sh\nprintf '%s\\n' \"$1\" >>'{}'\n", opened.display())).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self(folder)
    }

    /// A command of the user, who sees a screen.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = command(args);
        command.env_remove("MCP_PROXY_NONINTERACTIVE").env_remove("SSH_CONNECTION").env_remove("WSL_DISTRO_NAME");
        command.env("MCP_PROXY_HOME", self.0.join("home")).env("DISPLAY", ":0");
        // For the browser under Wine.
        command.env("MCP_TEST_OPENED", self.0.join("opened"));
        if cfg!(unix) {
            command.env("PATH", format!("{}:/usr/bin:/bin", self.0.join("bin").display()));
        }
        command
    }

    /// The URLs that the browser was to open.
    fn opened(&self) -> Vec<String> {
        fs::read_to_string(self.0.join("opened")).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// The next URL of which there are `count` afterwards.
    fn wait_for_browser(&self, count: usize) -> String {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            if let Some(url) = self.opened().get(count - 1) {
                return url.clone();
            }
            assert!(Instant::now() < until, "no browser was opened");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// What is stored, by the suffix of the names of the files.
    fn stored(&self, suffix: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.0.join("home/tokens")) else { return Vec::new() };
        let paths = entries.map(|entry| entry.unwrap().path());
        paths
            .filter(|path| path.to_string_lossy().ends_with(suffix))
            .map(|path| fs::read_to_string(path).unwrap())
            .collect()
    }

    /// Runs a command with this input; returns its exit code and its outputs.
    fn run(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let output = tests::deadline::output_of(&mut self.command(args));
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }
}

/// Requests a URL as a browser does.
fn get(url: &str) -> HttpMessage {
    let (authority, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(authority).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        if let Some(found) = http1::read(&mut &bytes[..]).filter(|found| found.is_complete) {
            return found;
        }
        let length = stream.read(&mut chunk).unwrap();
        assert!(length > 0, "the response is not complete");
        bytes.extend_from_slice(&chunk[..length]);
    }
}

/// The person signs in: the URL to which the browser is sent.
fn agree(url: &str) -> String {
    get(url).header("location").to_owned()
}

/// The person signs in, and the browser follows.
fn sign_in(url: &str) {
    let page = get(&agree(url));
    assert_eq!(page.status(), 200, "{page:?}");
}

fn is_answered(proxy: &Proxy) {
    assert_eq!(proxy.line(), result("0", &initialize_result("2025-11-25")));
}

#[test]
#[cfg(any(target_os = "linux", windows))]
fn au24_a_person_signs_in_once_for_all_proxies_and_credentials_stay_where_they_belong() {
    if !has_scripted_browser() {
        return;
    }
    let (servers, desk) = (Servers::new(), Desk::new("once"));
    let url = servers.resource.url();
    let mut proxy = Proxy::spawn(desk.command(&["-H", "X-Api-Key: key-0815", &url]));
    proxy.write(&initialize("0", "2025-11-25"));
    let shown = desk.wait_for_browser(1);
    assert!(proxy.error().contains(&shown), "it is also printed");
    sign_in(&shown);
    is_answered(&proxy);
    proxy.write(INITIALIZED);
    proxy.write(&request("1", "tools/call", r#"{"a":1}"#));
    assert_eq!(proxy.line(), result("1", r#"{"a":1}"#));

    let before = servers.resource.requests().len();
    let mut second = Proxy::spawn(desk.command(&["-H", "X-Api-Key: key-0815", &url]));
    second.initialize();
    let requests = servers.resource.requests();
    assert!(
        requests[before..].iter().all(|request| request.header("authorization") == "Bearer access-1"),
        "the first too"
    );
    servers.issued(|issued| assert_eq!((issued.registrations, issued.token_requests.len()), (1, 1)));
    assert_eq!(desk.opened().len(), 1);
    assert!(servers.authorization.requests().iter().all(|request| request.header("x-api-key").is_empty()));
    let records = desk.stored(".json");
    assert!(records.len() == 1 && records[0].contains("access-1"), "{records:?}");

    // Another account at the same server.
    let mut third = Proxy::spawn(desk.command(&["--profile", "work", &url]));
    third.write(&initialize("0", "2025-11-25"));
    sign_in(&desk.wait_for_browser(2));
    is_answered(&third);
    assert_eq!(desk.stored(".json").len(), 2);
}

#[test]
#[cfg(any(target_os = "linux", windows))]
fn au23_oa_g_03_proxies_that_start_together_open_one_browser() {
    if !has_scripted_browser() {
        return;
    }
    let (servers, desk) = (Servers::new(), Desk::new("together"));
    let mut proxies: Vec<_> = (0..3).map(|_| Proxy::spawn(desk.command(&[&servers.resource.url()]))).collect();
    for proxy in &mut proxies {
        proxy.write(&initialize("0", "2025-11-25"));
    }
    let shown = desk.wait_for_browser(1);
    thread::sleep(Duration::from_millis(300));
    sign_in(&shown);
    for proxy in &proxies {
        is_answered(proxy);
    }
    assert_eq!(desk.opened().len(), 1);
    servers.issued(|issued| assert_eq!((issued.registrations, issued.token_requests.len()), (1, 1)));
}

#[test]
#[cfg(any(target_os = "linux", windows))]
fn au23_oa_g_05_no_person_is_asked_without_a_request_that_waits_or_where_that_is_forbidden() {
    if !has_scripted_browser() {
        return;
    }
    let (servers, desk) = (Servers::new(), Desk::new("forbidden"));
    let mut command = desk.command(&["--scope", "a b", &servers.resource.url()]);
    command.env("MCP_PROXY_NONINTERACTIVE", "1");
    let mut proxy = Proxy::spawn(command);
    let error = proxy.open().unwrap_err();
    let expected = format!("run `mcp-proxy login --scope 'a b' {}`", servers.resource.url());
    assert!(error.contains(&expected), "{error}");
    servers.issued(|issued| assert_eq!((issued.registrations, issued.authorizations), (0, 0)));

    // Only the stream, which the proxy opens by itself, and calls need a token.
    let servers = Servers::with(|request| {
        let is_call = PostedMessage::of(request).is_some_and(|asked| asked.method == "tools/call");
        is_call || request.line.starts_with("GET /mcp")
    });
    let mut proxy = Proxy::spawn(desk.command(&[&servers.resource.url()]));
    proxy.initialize();
    servers.resource.wait_for("GET /mcp");
    servers.authorization.wait_for("GET /.well-known/oauth-authorization-server");
    thread::sleep(Duration::from_millis(500));
    assert_eq!(desk.opened(), [] as [&str; 0]);
    proxy.write(&request("1", "tools/call", "{}"));
    sign_in(&desk.wait_for_browser(1));
    assert_eq!(proxy.line(), result("1", "{}"));
}

#[test]
fn oa_t_06_no_sign_in_is_begun_where_credentials_are_configured_or_none_are_wanted() {
    let (servers, desk) = (Servers::new(), Desk::new("configured"));
    for args in [&["-H", "authorization : Basic eA=="][..], &["--bearer-env", "PATH"], &["--no-auth"]] {
        let mut proxy = Proxy::spawn(desk.command(&[args, &[&servers.resource.url()]].concat()));
        let error = proxy.open().unwrap_err();
        assert!(error.contains("401 Unauthorized"), "{error}");
    }
    assert_eq!((servers.authorization.connections(), desk.opened().len()), (0, 0));
    assert_eq!(desk.stored("").len(), 0);
}

#[test]
#[cfg(any(target_os = "linux", windows))]
fn login_signs_in_whoami_shows_it_without_tokens_and_logout_ends_it() {
    if !has_scripted_browser() {
        return;
    }
    let (servers, desk) = (Servers::new(), Desk::new("login"));
    let url = servers.resource.url();
    assert_eq!(desk.run(&["whoami", &url]), (Some(1), "not signed in with these options\n".to_owned(), String::new()));
    let login = thread::scope(|scope| {
        let login = scope.spawn(|| desk.run(&["login", &url]));
        sign_in(&desk.wait_for_browser(1));
        login.join().unwrap()
    });
    let issuer = format!("http://{}", servers.authorization.authority);
    let shown = format!(
        "signed in\nissuer:    {issuer}\nclient id: client-1\nresource:  {url}\nscopes:    read\n\
         expires:   in 59 min; it is renewed without a sign-in\n"
    );
    let shown = |found: &str| assert_eq!(found.replace("in 60 min", "in 59 min"), shown);
    assert_eq!(login.0, Some(0), "{login:?}");
    shown(&login.1);
    let (code, found, _) = desk.run(&["whoami", &url]);
    assert_eq!(code, Some(0));
    shown(&found);
    assert_eq!(desk.run(&["whoami", "--profile", "work", &url]).0, Some(1));
    // The tokens are those of proxies, which keep what the server states about itself.
    let kept = || {
        let Ok(entries) = fs::read_dir(desk.0.join("home/servers")) else { return 0 };
        entries.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|found| found == "json")).count()
    };
    let mut proxy = Proxy::spawn(desk.command(&[&url]));
    proxy.initialize();
    wait_until(|| kept() == 1);
    drop(proxy);
    // A person who has signed in is not asked again.
    assert_eq!(desk.run(&["login", &url]).0, Some(0));
    assert_eq!(desk.opened().len(), 1);
    for text in ["signed out: the tokens were removed; ", "not signed in with these options\n"] {
        let (code, found, error) = desk.run(&["logout", &url]);
        assert!(code == Some(0) && found.starts_with(text) && error.is_empty(), "{found} {error}");
        assert_eq!((desk.stored(".json").len(), kept()), (0, 0));
    }
    assert_eq!(desk.run(&["whoami", &url]).0, Some(1));
}

#[test]
fn oa_b_04_the_url_of_a_browser_on_another_machine_is_pasted() {
    let (servers, desk) = (Servers::new(), Desk::new("pasted"));
    let mut command = desk.command(&["login", &servers.resource.url()]);
    command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY").env("SSH_CONNECTION", "1");
    let mut proxy = Proxy::spawn(command);
    let line = proxy.error();
    let (_, shown) = line.split_once("open this URL in a browser to sign in: ").unwrap();
    assert!(proxy.error().contains("paste the URL"));
    let redirected = agree(shown);
    proxy.write("nonsense");
    assert!(proxy.error().contains("not the URL"));
    proxy.write(&format!("  {redirected}  "));
    assert_eq!(proxy.line(), "signed in");
    assert!(proxy.wait().0.success());
    assert_eq!(desk.opened().len(), 0);
}

#[test]
#[cfg(any(target_os = "linux", windows))]
fn login_asks_for_the_scopes_that_the_server_names_when_it_refuses_a_request() {
    if !has_scripted_browser() {
        return;
    }
    let serve = mcp_server(|asked, connection| connection.json(result(&asked.id, "{}")));
    let servers = Servers::serving(
        |_| false,
        move |request, connection| {
            if request.header("authorization").is_empty() {
                let challenge = [("www-authenticate", r#"Bearer scope="mail calendar""#)];
                return connection.reply("401 Unauthorized", &challenge, "");
            }
            serve(request, connection)
        },
    );
    let desk = Desk::new("scopes");
    let mut login = Proxy::spawn(desk.command(&["login", &servers.resource.url()]));
    let shown = desk.wait_for_browser(1);
    assert_eq!(form(shown.split_once('?').unwrap().1)["scope"], "mail calendar");
    sign_in(&shown);
    assert_eq!(login.line(), "signed in");
    assert!(login.wait().0.success());
}

#[test]
fn login_fails_with_the_reason() {
    let (servers, desk) = (Servers::new(), Desk::new("fails"));
    servers.issued(|issued| issued.metadata.push(("registration_endpoint", "null".to_owned())));
    let (code, found, _) = desk.run(&["login", &servers.resource.url()]);
    assert!(code == Some(1) && found.contains("registers no clients by itself"), "{found}");
    let open = Servers::with(|_| false);
    let (code, found, _) = desk.run(&["login", "--client-id", "x", "--client-secret-env", "NO", &open.resource.url()]);
    assert!(code == Some(2) && found.is_empty());
}

#[test]
#[cfg(any(target_os = "linux", windows))]
fn check_names_each_step_and_what_is_needed_and_asks_no_person() {
    if !has_scripted_browser() {
        return;
    }
    let (servers, desk) = (Servers::new(), Desk::new("check"));
    let (url, named) = (servers.resource.url(), format!("http://{}", servers.authorization.authority));
    let metadata = format!("http://{}/.well-known/oauth-protected-resource/mcp", servers.resource.authority);
    let shown = |found: &str, registration: &str, pkce: &str| {
        let mut rest = found;
        for line in [
            format!("sign-in:      metadata of the resource at {metadata}: found\n"),
            format!(
                "sign-in:      metadata of the authorization server at {named}/.well-known/oauth-authorization-server: found\n"
            ),
            format!("sign-in:      tokens are issued by {named}; {registration}; {pkce}; no scopes are named\n"),
            "failed: the server at ".to_owned(),
            format!("run `mcp-proxy login {url}`\n"),
        ] {
            let at = rest.find(&line).unwrap_or_else(|| panic!("{found} lacks {line}"));
            rest = &rest[at + line.len()..];
        }
    };
    let (code, found, _) = desk.run(&["--check", &url]);
    assert_eq!(code, Some(1));
    shown(&found, "clients are registered by themselves", "it supports PKCE with S256");
    servers.issued(|issued| {
        issued.metadata.push(("registration_endpoint", "null".to_owned()));
        issued.metadata.push(("code_challenge_methods_supported", "null".to_owned()));
    });
    shown(&desk.run(&["--check", &url]).1, "a client id is needed", "it does not list PKCE with S256");
    assert_eq!(desk.opened().len(), 0);
    servers.issued(|issued| issued.metadata.clear());
    thread::scope(|scope| {
        let login = scope.spawn(|| desk.run(&["login", &url]));
        sign_in(&desk.wait_for_browser(1));
        assert_eq!(login.join().unwrap().0, Some(0));
    });
    let (code, found, _) = desk.run(&["--check", &url]);
    assert!(found.contains("sign-in:      with a stored token") && found.contains("tools/list:   "), "{found}");
    assert_eq!(code, Some(1), "the server has no list of tools");
}

#[test]
fn check_of_a_server_without_any_metadata_names_the_option_for_its_own_token_and_claims_no_authorization_server() {
    let desk = Desk::new("no-metadata");
    let server = LoopbackServer::start(|request, connection| {
        if request.line.contains("/.well-known/") {
            connection.reply("404 Not Found", &[], "")
        } else {
            connection.reply("401 Unauthorized", &[("www-authenticate", "Bearer")], "")
        }
    });
    let (code, found, _) = desk.run(&["--check", &server.url()]);
    assert_eq!(code, Some(1));
    for line in [
        "sign-in:      no metadata of an authorization server were found; a server that expects a token of its own gets \
         it with --bearer-env VAR\n",
        "publishes no OAuth metadata; if it wants a key or a token of its own, send it in a header; else a person",
    ] {
        assert!(found.contains(line), "{found} lacks {line}");
    }
    assert!(!found.contains("tokens are issued by") && !found.contains("PKCE"), "{found}");
    assert_eq!(desk.opened().len(), 0);
}

#[test]
fn a_server_that_demands_nothing_needs_no_login() {
    let desk = Desk::new("open");
    let server = mcp_testkit::loopback_server::echo_server();
    let (code, found, _) = desk.run(&["login", &server.url()]);
    assert_eq!((code, found.as_str()), (Some(0), "the server demands no sign-in\n"));
}

#[test]
fn au22_oa_x_01_a_program_signs_in_as_itself_and_its_secret_is_shown_nowhere() {
    let (servers, desk) = (Servers::new(), Desk::new("itself"));
    let options =
        ["--client-id", "id", "--client-secret-env", "SECRET", "--client-credentials", "--log-level", "trace"];
    let mut command = desk.command(&[&options[..], &[&servers.resource.url()]].concat());
    command.env("SECRET", "secret-4711").env("MCP_PROXY_NONINTERACTIVE", "1");
    let mut proxy = Proxy::spawn(command);
    proxy.initialize();
    proxy.end_input();
    proxy.wait();
    for line in proxy.errors() {
        assert!(!line.contains("secret-4711") && !line.contains("access-1") && !line.contains("refresh-"), "{line}");
    }
    assert_eq!(desk.opened().len(), 0);
}

#[test]
#[cfg(unix)]
fn a_command_that_prints_tokens_is_run_again_when_the_server_refuses_one() {
    let (servers, desk) = (Servers::new(), Desk::new("command"));
    let (count, valid) = (desk.0.join("count"), desk.0.join("valid"));
    fs::write(&valid, "first-4711").unwrap();
    servers.issued(|issued| issued.access_tokens.push("first-4711".to_owned()));
    let script = format!("echo run >>'{}'; cat '{}'", count.display(), valid.display());
    let runs = || fs::read_to_string(&count).unwrap().lines().count();
    let mut proxy =
        Proxy::spawn(desk.command(&["--token-command", &script, "--log-level", "debug", &servers.resource.url()]));
    proxy.initialize();
    assert_eq!((runs(), servers.authorization.connections()), (1, 0));
    fs::write(&valid, "second-4711").unwrap();
    servers.issued(|issued| issued.access_tokens = vec!["second-4711".to_owned()]);
    proxy.write(&request("1", "tools/call", "{}"));
    assert_eq!(proxy.line(), result("1", "{}"));
    assert_eq!((runs(), desk.stored("").len()), (2, 0));
    proxy.end_input();
    proxy.wait();
    assert!(proxy.errors().iter().all(|line| !line.contains("-4711")));
}

const TOOLS_CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

#[test]
#[cfg(any(target_os = "linux", windows))]
fn oa_g_07_initialize_is_answered_while_a_person_signs_in() {
    if !has_scripted_browser() {
        return;
    }
    let (servers, desk) = (Servers::new(), Desk::new("cold"));
    let url = servers.resource.url();
    let start = |args: &[&str]| {
        let mut proxy = Proxy::spawn(desk.command(&[args, &["--answer-after", "0.3", &url]].concat()));
        proxy.write(&initialize("0", "2025-11-25"));
        proxy
    };
    let mut proxy = start(&[]);
    let shown = desk.wait_for_browser(1);
    let changes = r#"{"listChanged":true}"#;
    let early = proxy.line();
    for part in ["\"id\":0,\"result\":", r#""protocolVersion":"2025-11-25""#, &format!(r#""tools":{changes}"#)] {
        assert!(early.contains(part), "{early} lacks {part}");
    }
    proxy.write(INITIALIZED);
    proxy.write(&request("1", "tools/list", "{}"));
    thread::sleep(Duration::from_millis(200));
    assert!(servers.resource.asked().iter().all(|asked| asked.method != "tools/list"));
    sign_in(&shown);
    assert_eq!(proxy.line(), TOOLS_CHANGED, "the server has tools, and nothing else of what was promised");
    assert_eq!(proxy.line(), result("1", "{}"));
    assert!(
        servers
            .resource
            .requests()
            .iter()
            .any(|request| String::from_utf8_lossy(&request.body).contains("notifications/initialized"))
    );

    // What the server has stated then is the answer later.
    servers.issued(|issued| (issued.access_tokens.clear(), issued.refresh_tokens.clear()));
    let mut proxy = start(&["--request-timeout", "3"]);
    let shown = desk.wait_for_browser(2);
    is_answered(&proxy);
    proxy.write(INITIALIZED);
    proxy.write(&request("1", "tools/call", "{}"));
    let line = proxy.line();
    assert!(line.contains(r#""id":1,"error""#) && line.contains(&format!("sign in first: open {shown}")), "{line}");
    sign_in(&shown);
    proxy.write(&request("2", "tools/call", "{}"));
    assert_eq!(proxy.line(), result("2", "{}"), "nothing has changed");
}

#[test]
#[cfg(any(target_os = "linux", windows))]
fn a_client_that_opens_urls_is_asked_in_place_of_the_browser() {
    if !has_scripted_browser() {
        return;
    }
    let (servers, desk) = (Servers::new(), Desk::new("elicitation"));
    let mut proxy = Proxy::spawn(desk.command(&[&servers.resource.url()]));
    proxy.write(&initialize("0", "2025-11-25").replace(r#"{"roots":{}}"#, r#"{"elicitation":{"form":{},"url":{}}}"#));
    assert!(proxy.line().contains(r#""listChanged":true"#), "it is answered at once, so that it can be asked");
    proxy.write(INITIALIZED);
    let asked = proxy.line();
    assert!(asked.contains(r#""method":"elicitation/create""#) && asked.contains(r#""mode":"url""#), "{asked}");
    let shown = asked.split(r#""url":""#).nth(1).unwrap().split('"').next().unwrap();
    let id = asked.split(r#""id":"#).nth(1).unwrap().split([',', '}']).next().unwrap();
    proxy.write(&result(id, r#"{"action":"accept"}"#));
    proxy.write(&request("1", "tools/call", "{}"));
    sign_in(shown);
    assert_eq!((proxy.line(), proxy.line()), (TOOLS_CHANGED.to_owned(), result("1", "{}")));
    assert_eq!(desk.opened().len(), 0);

    // A session that is open is not interrupted by a browser either.
    servers.issued(|issued| (issued.access_tokens.clear(), issued.refresh_tokens.clear()));
    proxy.write(&request("2", "tools/call", "{}"));
    let asked = proxy.line();
    assert!(asked.contains(r#""method":"elicitation/create""#), "{asked}");
    sign_in(asked.split(r#""url":""#).nth(1).unwrap().split('"').next().unwrap());
    assert_eq!(proxy.line(), result("2", "{}"));
    assert_eq!(desk.opened().len(), 0);
}

#[test]
#[cfg(any(target_os = "linux", windows))]
fn oa_g_07_a_modern_server_is_joined_after_an_early_answer() {
    if !has_scripted_browser() {
        return;
    }
    let servers = Servers::serving(
        |_| true,
        |request, connection| match PostedMessage::of(request) {
            Some(asked) if asked.method == "server/discover" => connection.json(result(&asked.id, DISCOVERED)),
            Some(asked) if asked.method == "initialize" => connection.json(error(&asked.id, -32601, "unknown")),
            Some(asked) if !asked.id.is_empty() => connection.json(complete(&asked.id)),
            _ => connection.reply("202 Accepted", &[], ""),
        },
    );
    let desk = Desk::new("cold-modern");
    let mut proxy = Proxy::spawn(desk.command(&["--answer-after", "0.3", &servers.resource.url()]));
    proxy.write(&initialize("0", "2025-11-25"));
    let shown = desk.wait_for_browser(1);
    assert!(proxy.line().contains(r#""listChanged":true"#));
    proxy.write(INITIALIZED);
    proxy.write(&request("1", "tools/call", r#"{"name":"x"}"#));
    thread::sleep(Duration::from_millis(200));
    sign_in(&shown);
    assert_eq!(proxy.line(), TOOLS_CHANGED);
    assert_eq!(proxy.line(), result("1", r#"{"content":[]}"#));
    proxy.write(&request("2", "tools/call", r#"{"name":"x"}"#));
    assert_eq!(proxy.line(), result("2", r#"{"content":[]}"#));
}

#[test]
fn tokens_of_mcp_remote_are_imported_once_and_renewed_by_the_proxy() {
    let (servers, desk) = (Servers::new(), Desk::new("import"));
    let url = servers.resource.url();
    let folder = desk.0.join("remote/mcp-remote-v1");
    fs::create_dir_all(&folder).unwrap();
    let hash = Md5::digest(&url).iter().fold(String::new(), |hash, byte| format!("{hash}{byte:02x}"));
    let run = |args: &[&str]| {
        let output = tests::deadline::output_of(desk.command(args).env("MCP_REMOTE_CONFIG_DIR", desk.0.join("remote")));
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, _, error) = run(&["login", "--import", &url]);
    assert!(code == Some(1) && error.contains("_tokens.json"), "{error}");
    let tokens =
        r#"{"access_token":"expired","token_type":"Bearer","refresh_token":"imported","expires_at":1500000000000}"#;
    fs::write(folder.join(format!("{hash}_tokens.json")), tokens).unwrap();
    fs::write(folder.join(format!("{hash}_client_info.json")), r#"{"client_id":"theirs","redirect_uris":[]}"#).unwrap();
    let (code, found, _) = run(&["login", "--import", &url]);
    assert!(
        code == Some(0) && found.contains("client id: theirs\n") && found.contains("expires:   now; it is renewed"),
        "{found}"
    );
    Proxy::spawn(desk.command(&[&url])).initialize();
    servers.issued(|issued| {
        assert_eq!((issued.registrations, issued.authorizations, issued.token_requests.len()), (0, 0, 1));
        assert_eq!(issued.token_requests[0]["client_id"], "theirs");
    });
    assert_eq!(fs::read_to_string(folder.join(format!("{hash}_tokens.json"))).unwrap(), tokens);
    assert_eq!(desk.opened().len(), 0);
}

#[test]
#[cfg(target_os = "linux")]
fn tokens_are_kept_by_a_credential_helper_and_no_file_contains_them() {
    use std::os::unix::fs::PermissionsExt;

    let (servers, desk) = (Servers::new(), Desk::new("helper"));
    let (helper, kept) = (desk.0.join("bin/docker-credential-drawer"), desk.0.join("drawer"));
    let script = format!(
        "#!/bin/sh\ncase $1 in\n\
         store) cat >'{kept}' ;;\n\
         get) cat >>'{kept}.asked'; cat '{kept}' 2>/dev/null || {{ echo credentials not found in native keychain; exit 1; }} ;;\n\
         erase) rm '{kept}' ;;\nesac\n",
        kept = kept.display()
    );
    fs::write(&helper, script).unwrap();
    fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).unwrap();
    let url = servers.resource.url();
    let account = ["--credential-helper", "drawer", url.as_str()];
    let mut proxy = Proxy::spawn(desk.command(&account));
    proxy.write(&initialize("0", "2025-11-25"));
    sign_in(&desk.wait_for_browser(1));
    is_answered(&proxy);
    let credential = fs::read_to_string(&kept).unwrap();
    assert!(
        credential.starts_with(r#"{"ServerURL":"mcp-proxy:"#) && credential.contains(&format!(r#""Username":"{url}""#))
    );
    assert!(credential.contains("access-1") && desk.stored("").iter().all(String::is_empty), "{credential}");
    Proxy::spawn(desk.command(&account)).initialize();
    assert_eq!(desk.opened().len(), 1);
    let (code, found, _) = desk.run(&[&["whoami"], &account[..]].concat());
    assert!(code == Some(0) && found.contains("client id: client-1"), "{found}");
    assert_eq!(desk.run(&[&["logout"], &account[..]].concat()).0, Some(0));
    assert!(!kept.exists());
    let (code, found, _) = desk.run(&[&["whoami"], &account[..]].concat());
    assert_eq!((code, found.as_str()), (Some(1), "not signed in with these options\n"));
}
