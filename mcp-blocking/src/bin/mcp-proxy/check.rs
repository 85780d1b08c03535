//! `--check`: connects, sends requests that change nothing, and prints the results.
//!
//! | file | what it does |
//! |---|---|
//! | `findings` | the deviations from the protocol that were found |

mod findings;

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use mcp_blocking::sign_in::Authorization;
use mcp_blocking::{Client, Error, ServerProcess};
use mcp_proto::auth::Event;
use mcp_proto::client::{Config, DetectedEra};
use mcp_proto::{Era, Json, escape_text};

use crate::args::{Server, Settings, Timeouts};
use crate::secrets::WithoutSecrets;
use findings::Findings;

/// Capabilities that are listed; more are counted.
const MAX_CAPABILITIES: usize = 50;
/// Characters that are shown of a text from the server or of a finding.
const MAX_CHARS: usize = 300;

/// A tool. It can be called without asking the user if it states that it changes nothing, and requires no arguments.
#[derive(serde::Deserialize)]
struct Tool {
    name: String,
    #[serde(default)]
    annotations: Annotations,
    #[serde(rename = "inputSchema", default)]
    input_schema: Schema,
}

#[derive(serde::Deserialize, Default)]
struct Annotations {
    #[serde(rename = "readOnlyHint", default)]
    read_only_hint: bool,
}

#[derive(serde::Deserialize, Default)]
struct Schema {
    #[serde(default)]
    required: Vec<String>,
}

#[derive(serde::Deserialize)]
struct Tools {
    tools: Vec<Tool>,
}

#[derive(serde::Deserialize)]
struct Greeting {
    #[serde(rename = "serverInfo")]
    server_info: Option<ServerInfo>,
    #[serde(rename = "_meta", default)]
    meta: Meta,
    #[serde(default)]
    capabilities: serde_json::Map<String, serde_json::Value>,
}

/// The place of `serverInfo` in revision 2026-07-28.
#[derive(serde::Deserialize, Default)]
struct Meta {
    #[serde(rename = "io.modelcontextprotocol/serverInfo")]
    server_info: Option<ServerInfo>,
}

#[derive(serde::Deserialize, Default)]
struct ServerInfo {
    #[serde(default)]
    name: String,
    #[serde(default)]
    version: String,
}

/// Receives the process of the server before it is started.
type OnStart<'a> = &'a dyn Fn(ServerProcess) -> io::Result<()>;

/// Checks the server, and returns whether it can be used.
///
/// # Errors
///
/// The I/O error of printing the findings.
pub(crate) fn check(
    settings: Settings,
    timeouts: Timeouts,
    out: &mut impl Write,
    on_start: OnStart<'_>,
) -> io::Result<bool> {
    let out = &mut WithoutSecrets::new(out, Arc::clone(&settings.secrets));
    let (findings, all) = Findings::new();
    write!(out, "server:       {}", settings.server)?;
    match settings.server.arguments() {
        0 => writeln!(out)?,
        count => writeln!(out, " (and {count} arguments, not shown because they may be secret)")?,
    }
    let fine = match explore(settings, timeouts, &findings, out, on_start)? {
        Ok(fine) => fine,
        Err(error) => {
            writeln!(out, "failed: {}", printable(&error.to_string()))?;
            false
        }
    };
    drop(findings);
    all.print_at_the_end(out)?;
    if fine {
        writeln!(out, "ok")?;
    }
    Ok(fine)
}

/// Connects and sends requests. The inner error is the reason why there is no connection.
fn explore(
    settings: Settings,
    timeouts: Timeouts,
    findings: &Findings,
    out: &mut impl Write,
    on_start: OnStart<'_>,
) -> io::Result<Result<bool, Error>> {
    let started = Instant::now();
    let (steps, reported) = channel();
    let connected = connect(settings, timeouts, findings, steps, on_start);
    let connecting = started.elapsed();
    for step in reported.try_iter() {
        writeln!(out, "sign-in:      {}", printable(&step))?;
    }
    let client = match connected {
        Ok(client) => client,
        Err(error) => return Ok(Err(error)),
    };
    match client.transport() {
        Some(transport) => writeln!(out, "transport:    {transport}")?,
        None => writeln!(out, "transport:    stdio")?,
    }
    writeln!(out, "revision:     {}", client.version())?;
    let DetectedEra { era, by } = client.detected_era();
    writeln!(out, "era:          {era}: {by}")?;
    let result = client.initialize_result();
    if let Ok(greeting) = result.read::<Greeting>() {
        let ServerInfo { name, version } = greeting.server_info.or(greeting.meta.server_info).unwrap_or_default();
        writeln!(out, "name:         {} {}", printable(&name), printable(&version))?;
        let names = greeting.capabilities.keys();
        let more = names.len().saturating_sub(MAX_CAPABILITIES);
        let mut names: Vec<_> = names.take(MAX_CAPABILITIES).map(|name| printable(name)).collect();
        if more > 0 {
            names.push(format!("and {more} more"));
        }
        writeln!(out, "capabilities: {}", if names.is_empty() { "none".to_owned() } else { names.join(", ") })?;
    }
    writeln!(out, "connected:    {}", milliseconds(connecting))?;
    let fine = send_requests(&client, findings, out)?;
    if !fine {
        writeln!(out, "failed: the server can be connected to, but not all requests succeeded")?;
    }
    Ok(Ok(fine))
}

fn connect(
    settings: Settings,
    timeouts: Timeouts,
    findings: &Findings,
    steps: Sender<String>,
    on_start: OnStart<'_>,
) -> Result<Client, Error> {
    let Settings { server, versions, limits, .. } = settings;
    let configure = |config: &mut Config| {
        config.versions = versions;
        config.limits = limits;
        config.request_timeout = timeouts.request;
        config.initialize_timeout = timeouts.request.min(timeouts.start);
        config.discover_timeout = timeouts.request.min(config.discover_timeout);
    };
    let (name, version) = ("mcp-proxy", env!("CARGO_PKG_VERSION"));
    let builder = Client::builder().name(name, version).handler(findings.clone()).configure(configure);
    match server {
        Server::Http { http, options, authorization } => {
            let builder = builder.http("http://localhost/")?.configure_http(|own| *own = *http).http_options(options);
            match authorization {
                Some(authorization) => builder.authorization(observed(*authorization, steps)).connect(),
                None => builder.connect(),
            }
        }
        Server::Child(command) => {
            let builder = builder.child(command);
            on_start(builder.process()).map_err(|error| Error::SetUp(error.into()))?;
            builder.connect()
        }
    }
}

/// A sign-in that sends its steps, and asks no person.
fn observed(authorization: Authorization, steps: Sender<String>) -> Authorization {
    authorization.configure(|config| config.may_ask_user = false).observe(move |event| {
        let step = match event {
            Event::Authorized(_) => "with a stored token, or one that needs no person".to_owned(),
            Event::Step(step) => step.to_string(),
            Event::Refused(_) | Event::NoToken | Event::Waiting(_) | _ => return,
        };
        // After the connection, the receiver is gone.
        let _ = steps.send(step);
    })
}

/// Sends requests that change nothing.
fn send_requests(client: &Client, findings: &Findings, out: &mut impl Write) -> io::Result<bool> {
    let mut fine = true;
    // Revision 2026-07-28 has no ping.
    if client.detected_era().era == Era::Legacy {
        fine = report(out, "ping", timed(|| client.request("ping", None)))?.is_some();
    }
    let has_tools = client.initialize_result().member("capabilities").ok().flatten();
    let has_tools = has_tools.and_then(|capabilities| capabilities.member("tools").ok().flatten()).is_some();
    if !has_tools {
        return Ok(fine);
    }
    let Some(tools) = report(out, "tools/list", timed(|| client.request("tools/list", None)))? else {
        return Ok(false);
    };
    let Ok(Tools { tools }) = tools.read() else {
        findings.add("fault: the result of tools/list has no list of tools");
        return Ok(false);
    };
    writeln!(out, "tools:        {}", tools.len())?;
    let harmless = tools.iter().find(|tool| tool.annotations.read_only_hint && tool.input_schema.required.is_empty());
    if let Some(tool) = harmless {
        let params = Json::empty_object().with_member("arguments", &Json::empty_object());
        let params = params.with_member("name", &Json::from(tool.name.as_str()));
        let called = timed(|| client.request("tools/call", Some(params)));
        writeln!(out, "called:       {} (declared read-only, needs no arguments)", printable(&tool.name))?;
        fine &= report(out, "tools/call", called)?.is_some();
    }
    Ok(fine)
}

fn timed(request: impl FnOnce() -> Result<Json, Error>) -> (Result<Json, Error>, Duration) {
    let started = Instant::now();
    let outcome = request();
    (outcome, started.elapsed())
}

fn report(
    out: &mut impl Write,
    what: &str,
    (outcome, took): (Result<Json, Error>, Duration),
) -> io::Result<Option<Json>> {
    match outcome {
        Ok(result) => {
            writeln!(out, "{:<13} {}", format!("{what}:"), milliseconds(took))?;
            Ok(Some(result))
        }
        Err(error) => {
            writeln!(out, "{:<13} {}", format!("{what}:"), printable(&error.to_string()))?;
            Ok(None)
        }
    }
}

fn milliseconds(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1000.0)
}

/// Escapes text from the server, so that it can neither send control sequences to the terminal nor fill it (PX8).
fn printable(text: &str) -> String {
    escape_text(text, MAX_CHARS)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use ::mcp_testkit::http1::HttpMessage;
    use ::mcp_testkit::loopback_server::{Connection, LoopbackServer, PostedMessage, mcp_server};
    use ::mcp_testkit::messages::{DISCOVERED, initialize_result, result};
    use clap::Parser;

    use super::*;
    use crate::args::Args;

    /// Checks the server at this URL. Returns whether it can be used, and the output.
    fn check_url(options: &[&str], url: &str) -> (bool, String) {
        let args = Args::parse_from([&["mcp-proxy", "--check"], options, &[url]].concat());
        let mut out = Vec::new();
        let fine = check(args.settings().unwrap(), args.timeouts(), &mut out, &|_| Ok(())).unwrap();
        (fine, String::from_utf8(out).unwrap())
    }

    /// A server with these capabilities, which answers `tools/list` and `tools/call` with the two results; with an
    /// error where the result is empty.
    fn server(capabilities: &str, tools: &'static str, call: &'static str) -> LoopbackServer {
        let greeting = initialize_result("2025-11-25").replace(r#"{"tools":{}}"#, capabilities);
        assert!(greeting.contains(capabilities), "{greeting}");
        let serve = mcp_server(move |asked, connection| {
            let text = if asked.method == "tools/list" { tools } else { call };
            match text {
                "" => connection.json(format!(
                    r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32603,"message":"it fails"}}}}"#,
                    asked.id
                )),
                text => connection.json(result(&asked.id, text)),
            }
        });
        LoopbackServer::start(move |request: &HttpMessage, connection: &mut Connection| {
            match PostedMessage::of(request) {
                Some(asked) if asked.method == "initialize" => connection.json(result(&asked.id, &greeting)),
                _ => serve(request, connection),
            }
        })
    }

    fn methods(server: &LoopbackServer) -> Vec<String> {
        server.asked().into_iter().map(|asked| asked.method).filter(|method| method != "initialize").collect()
    }

    #[test]
    fn the_requests_of_a_check_depend_on_the_capabilities_of_the_server() {
        const WITH_TOOLS: &str = r#"{"tools":{}}"#;
        const FAILED: &str = "failed: the server can be connected to, but not all requests succeeded\n";
        let list = ["server/discover", "ping", "tools/list"];
        let call = ["server/discover", "ping", "tools/list", "tools/call"];
        for (capabilities, tools, called, asked, fine, shown) in [
            ("{}", "", "", &list[..2], true, "capabilities: none\n"),
            (WITH_TOOLS, r#"{"tools":[]}"#, "", &list[..], true, "capabilities: tools\n"),
            (WITH_TOOLS, "", "", &list[..], false, FAILED),
            (WITH_TOOLS, "", "", &list[..], false, "tools/list:   the server answered with error -32603: it fails\n"),
            (WITH_TOOLS, "{}", "", &list[..], false, "fault: the result of tools/list has no list of tools\n"),
            (WITH_TOOLS, r#"{"tools":[{"name":"x"}]}"#, "", &list[..], true, "tools:        1\n"),
            (
                WITH_TOOLS,
                r#"{"tools":[{"name":"x","annotations":{"readOnlyHint":true},"inputSchema":{"required":["y"]}}]}"#,
                "",
                &list[..],
                true,
                "tools:        1\n",
            ),
            (
                WITH_TOOLS,
                r#"{"tools":[{"name":"x"},{"name":"y","annotations":{"readOnlyHint":true},"inputSchema":{}}]}"#,
                r#"{"content":[]}"#,
                &call[..],
                true,
                "called:       y (declared read-only",
            ),
            (
                WITH_TOOLS,
                r#"{"tools":[{"name":"x","annotations":{"readOnlyHint":true}}]}"#,
                "",
                &call[..],
                false,
                FAILED,
            ),
        ] {
            let server = server(capabilities, tools, called);
            let (is_fine, found) = check_url(&[], &server.url());
            assert_eq!(is_fine, fine, "{found}");
            assert!(found.contains(shown), "{found} lacks {shown}");
            assert_eq!(found.ends_with("\nok\n"), fine, "{found}");
            assert_eq!(methods(&server), asked, "{found}");
        }
    }

    #[test]
    fn a_server_that_answers_no_ping_fails_the_check() {
        let serve = mcp_server(|asked, connection| connection.json(result(&asked.id, r#"{"tools":[]}"#)));
        let server = LoopbackServer::start(move |request, connection| match PostedMessage::of(request) {
            Some(asked) if asked.method == "ping" => connection.reply("500 Oops", &[], ""),
            _ => serve(request, connection),
        });
        let (fine, found) = check_url(&[], &server.url());
        assert!(!fine && found.contains("\nping:         the server at") && !found.contains("\nok\n"), "{found}");
    }

    #[test]
    fn a_modern_server_is_asked_for_no_ping_and_nothing_it_does_not_have() {
        let server = LoopbackServer::start(mcp_server(|asked, connection| match asked.method.as_str() {
            "server/discover" => connection.json(result(&asked.id, DISCOVERED)),
            _ => connection.json(result(&asked.id, r#"{"resultType":"complete","tools":[]}"#)),
        }));
        let (fine, found) = check_url(&[], &server.url());
        assert!(fine && found.contains("era:          modern") && !found.contains("ping"), "{found}");
        assert!(!methods(&server).contains(&"ping".to_owned()));
    }

    #[test]
    fn defect_m2_capabilities_beyond_a_number_are_counted() {
        for (count, more) in [(MAX_CAPABILITIES, ""), (MAX_CAPABILITIES + 1, ", and 1 more"), (70, ", and 20 more")] {
            let names: Vec<_> = (0..count).map(|number| format!("\"c{number:02}\":{{}}")).collect();
            let (fine, found) = check_url(&[], &server(&format!("{{{}}}", names.join(",")), "", "").url());
            let line = found.lines().find(|line| line.starts_with("capabilities: c00, c01, ")).unwrap();
            assert!(fine && line.ends_with(&format!("c49{more}")), "{found}");
        }
    }

    #[test]
    fn limits_and_revisions_of_the_command_line_are_kept_to() {
        let server = LoopbackServer::start(mcp_server(|asked, connection| {
            let filler = "x".repeat(if asked.method == "tools/list" { 5000 } else { 0 });
            connection.json(result(&asked.id, &format!("{{\"tools\":[],\"filler\":\"{filler}\"}}")))
        }));
        let (fine, found) = check_url(&["--max-message", "8KiB", "--protocol", "legacy"], &server.url());
        assert!(fine && !methods(&server).contains(&"server/discover".to_owned()), "{found}");
        let (fine, found) = check_url(&["--max-message", "4KiB"], &server.url());
        assert!(!fine && found.contains("tools/list:   the server at") && found.contains("4096 bytes"), "{found}");
    }

    /// The command line's timeout applies to each request, including the first: the check of a silent server ends long
    /// before the machine's own timeouts.
    #[test]
    fn the_time_of_a_request_is_that_of_the_first_one_too() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", silent.local_addr().unwrap());
        thread::spawn(move || {
            for mut stream in silent.incoming().map_while(Result::ok) {
                thread::spawn(move || while stream.read(&mut [0; 1024]).is_ok_and(|length| length > 0) {});
            }
        });
        let started = Instant::now();
        for revision in ["auto", "legacy", "modern"] {
            let (fine, found) = check_url(&["--request-timeout", "0.2", "--protocol", revision], &url);
            assert!(!fine && found.contains("failed: the server at"), "{found}");
        }
        // A child that does not answer gets the opening request of the other era next (ER-04).
        #[cfg(unix)]
        {
            let args = ["mcp-proxy", "--check", "--request-timeout", "0.2", "--", "sh", "-c", "cat >/dev/null"];
            let args = Args::parse_from(args);
            let mut out = Vec::new();
            assert!(!check(args.settings().unwrap(), args.timeouts(), &mut out, &|_| Ok(())).unwrap());
        }
        // The machine's own timeouts would be ten seconds and more each.
        assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
        let hanging = LoopbackServer::start(mcp_server(|asked, connection| match asked.method.as_str() {
            "tools/list" => connection.hang(),
            _ => connection.json(result(&asked.id, "{}")),
        }));
        let (fine, found) = check_url(&["--request-timeout", "0.2"], &hanging.url());
        assert!(!fine && found.contains("tools/list:   the server at") && found.contains("200ms"), "{found}");
    }

    #[test]
    fn a_session_that_is_lost_is_opened_again_once_for_each_request() {
        let opened = AtomicUsize::new(0);
        let serve = mcp_server(|asked, connection| connection.json(result(&asked.id, r#"{"tools":[]}"#)));
        let server = LoopbackServer::start(move |request, connection| match PostedMessage::of(request) {
            Some(asked) if asked.method == "ping" => connection.reply("404 Not Found", &[], ""),
            Some(asked) if asked.method == "initialize" && opened.fetch_add(1, Ordering::SeqCst) > 0 => {
                connection.reply("500 Oops", &[], "")
            }
            _ => serve(request, connection),
        });
        let (fine, found) = check_url(&[], &server.url());
        assert!(!fine, "{found}");
        let opened = server.asked().iter().filter(|asked| asked.method == "initialize").count();
        assert_eq!(opened, 3, "{found}");
    }

    #[test]
    fn times_are_printed_in_milliseconds() {
        assert_eq!(milliseconds(Duration::from_micros(1500)), "1.5 ms");
    }
}
