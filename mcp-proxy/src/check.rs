//! `--check`: connects, sends requests that change nothing and the call that is asked for, and prints the results.
//!
//! | file | what it does |
//! |---|---|
//! | `findings` | the deviations from the protocol that were found |
//! | `report` | the form in which the results are printed |

mod findings;
mod report;

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use findings::Findings;
use mcp_auth::{Event, Step};
use mcp_blocking::model::ServerCard;
use mcp_blocking::sign_in::Authorization;
use mcp_blocking::{Builder, CardFailure, Client, Error, HttpServer, ServerProcess};
use mcp_proto::client::{Config, DetectedEra};
use mcp_proto::spec::Primitive;
use mcp_proto::{Era, Json, escape_text};
use report::Report;

use crate::args::{Asked, Server, Settings, Timeouts};
use crate::secrets::WithoutSecrets;

/// Capabilities that are listed; more are counted.
const MAX_CAPABILITIES: usize = 50;
/// The longest time for the card of a server, which may answer a request for any path with an endless stream.
const CARD_TIMEOUT: Duration = Duration::from_secs(3);
/// Characters that are shown of a text from the server or of a finding.
const MAX_CHARS: usize = 300;

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

/// One part of the result of a tool. The types of the model would refuse the texts beside a part that the specification does
/// not have.
#[derive(serde::Deserialize)]
struct Content {
    text: Option<String>,
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
    asked: &Asked,
    out: &mut impl Write,
    on_start: OnStart<'_>,
) -> io::Result<bool> {
    let mut out = Report::new(WithoutSecrets::new(out, Arc::clone(&settings.secrets)), asked.json);
    let (findings, all) = Findings::new();
    let server = settings.server.to_string();
    match settings.server.arguments() {
        0 => out.text("server", &server)?,
        1 => out.text("server", &format!("{server} (and 1 argument, not shown because it may be secret)"))?,
        count => {
            out.text("server", &format!("{server} (and {count} arguments, not shown because they may be secret)"))?;
        }
    }
    let outcome = explore(settings, timeouts, asked, &findings, &mut out, on_start)?;
    if let Err(reason) = &outcome {
        out.failed(reason)?;
    }
    drop(findings);
    out.lines("findings", all.at_the_end())?;
    let fine = outcome.is_ok();
    out.end(outcome)?;
    Ok(fine)
}

/// Connects and sends requests. The inner error is the reason why the server cannot be used.
fn explore<W: Write>(
    settings: Settings,
    timeouts: Timeouts,
    asked: &Asked,
    findings: &Findings,
    out: &mut Report<W>,
    on_start: OnStart<'_>,
) -> io::Result<Result<(), String>> {
    let started = Instant::now();
    let (steps, reported) = channel();
    let card = card_source(&settings, timeouts);
    let connected = connect(settings, timeouts, findings, steps, on_start);
    let connecting = started.elapsed();
    for step in reported.try_iter() {
        out.text("sign-in", &printable(&step))?;
    }
    let client = match connected {
        Ok(client) => client,
        Err(error) => return Ok(Err(printable(&error.to_string()))),
    };
    match client.transport() {
        Some(transport) => out.text("transport", &transport.to_string())?,
        None => out.text("transport", "stdio")?,
    }
    out.text("revision", client.version().as_str())?;
    let DetectedEra { era, by } = client.detected_era();
    out.text("era", &format!("{era}: {by}"))?;
    let result = client.initialize_result();
    if let Ok(greeting) = result.read::<Greeting>() {
        let ServerInfo { name, version } = greeting.server_info.or(greeting.meta.server_info).unwrap_or_default();
        out.text("name", &format!("{} {}", printable(&name), printable(&version)))?;
        let names = greeting.capabilities.keys();
        let more = names.len().saturating_sub(MAX_CAPABILITIES);
        let mut names: Vec<_> = names.take(MAX_CAPABILITIES).map(|name| printable(name)).collect();
        if more > 0 {
            names.push(format!("and {more} more"));
        }
        out.texts("capabilities", &names, false)?;
    }
    out.time("connected", connecting)?;
    report_card(card, out)?;
    if !send_requests(&client, asked, out)? {
        return Ok(Err("the server can be connected to, but not all requests succeeded".to_owned()));
    }
    Ok(Ok(()))
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

/// The builder that reads the card of a server over HTTP.
fn card_source(settings: &Settings, timeouts: Timeouts) -> Option<Builder<HttpServer>> {
    let Server::Http { http, options, .. } = &settings.server else { return None };
    let builder =
        Client::builder().request_timeout(timeouts.request.min(CARD_TIMEOUT)).http("http://localhost/").ok()?;
    Some(builder.configure_http(|own| own.clone_from(http)).http_options(options.clone()))
}

/// Reports the card of the server. That it has none is no finding, and neither is any answer for a path that it does not know.
fn report_card<W: Write>(source: Option<Builder<HttpServer>>, out: &mut Report<W>) -> io::Result<()> {
    match source.map(Builder::server_card) {
        Some(Ok(Some(ServerCard { name, version, description, .. }))) => {
            out.text("card", &printable(&format!("{name} {version}: {description}")))
        }
        Some(Err(Error::Card { reason: reason @ CardFailure::Malformed(_), .. })) => {
            out.text("card", &printable(&reason.to_string()))
        }
        _ => Ok(()),
    }
}

/// A sign-in that sends its steps, and asks no person.
fn observed(authorization: Authorization, steps: Sender<String>) -> Authorization {
    authorization.configure(|config| config.may_ask_user = false).observe(move |event| {
        let step = match event {
            Event::Authorized(_) => "with a stored token, or one that needs no person".to_owned(),
            Event::Step(step @ Step::NoMetadata { .. }) => {
                format!("{step}; a server that expects a token of its own gets it with --bearer-env VAR")
            }
            Event::Step(step) => step.to_string(),
            Event::Refused(_) | Event::NoToken | Event::Waiting(_) | _ => return,
        };
        // After the connection, the receiver is gone.
        let _ = steps.send(step);
    })
}

/// Sends requests that change nothing, and the call that is asked for.
fn send_requests<W: Write>(client: &Client, asked: &Asked, out: &mut Report<W>) -> io::Result<bool> {
    let mut fine = true;
    // Revision 2026-07-28 has no ping.
    if client.detected_era().era == Era::Legacy {
        fine = timed(out, "ping", || client.request("ping", None))?.is_some();
    }
    let has_tools = client.initialize_result().member("capabilities").ok().flatten();
    let has_tools = has_tools.and_then(|capabilities| capabilities.member("tools").ok().flatten()).is_some();
    if has_tools {
        let Some(tools) = timed(out, "tools/list", || client.list_all_tools().collect::<Result<Vec<_>, _>>())? else {
            return Ok(false);
        };
        out.number("tools", tools.len())?;
        let (allowed, hidden): (Vec<_>, Vec<_>) =
            tools.iter().partition(|tool| asked.filter.allows(Primitive::Tool, &tool.name, None));
        if !hidden.is_empty() {
            out.number("hidden", hidden.len())?;
        }
        if asked.names {
            let names: Vec<_> = allowed.iter().map(|tool| printable(&tool.name)).collect();
            out.texts("tool names", &names, true)?;
        }
    }
    if let Some(tool) = &asked.tool {
        let params = Json::empty_object().with_member("arguments", &Json::empty_object());
        let params = params.with_member("name", &Json::from(tool.as_str()));
        out.text("called", &printable(tool))?;
        let call = || {
            let result = client.request("tools/call", Some(params)).map_err(|error| error.to_string())?;
            failure(&result).map_or(Ok(()), Err)
        };
        fine &= timed(out, "tools/call", call)?.is_some();
    }
    Ok(fine)
}

/// What a tool says about its failure, if it failed.
fn failure(result: &Json) -> Option<String> {
    let is_error = result.member("isError").ok().flatten().is_some_and(|flag| flag.as_bytes() == b"true");
    let content = || result.member("content").ok().flatten()?.read::<Vec<Content>>().ok();
    is_error.then(|| {
        let texts: Vec<_> = content().into_iter().flatten().filter_map(|content| content.text).collect();
        if texts.is_empty() {
            "the tool failed, and its result has no text".to_owned()
        } else {
            format!("the tool failed: {}", texts.join(" "))
        }
    })
}

/// Reports how long a request took, or why it failed.
fn timed<T, E: Display, W: Write>(
    out: &mut Report<W>,
    what: &str,
    request: impl FnOnce() -> Result<T, E>,
) -> io::Result<Option<T>> {
    let started = Instant::now();
    match request() {
        Ok(result) => {
            out.time(what, started.elapsed())?;
            Ok(Some(result))
        }
        Err(error) => {
            out.text(what, &printable(&error.to_string()))?;
            Ok(None)
        }
    }
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
        let fine =
            check(args.settings().unwrap(), args.timeouts(), &args.asked().unwrap(), &mut out, &|_| Ok(())).unwrap();
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
        for (capabilities, tools, called, asked, fine, shown) in [
            ("{}", "", "", &list[..2], true, "capabilities: none\n"),
            (WITH_TOOLS, r#"{"tools":[]}"#, "", &list[..], true, "capabilities: tools\n"),
            (WITH_TOOLS, "", "", &list[..], false, FAILED),
            (WITH_TOOLS, "", "", &list[..], false, "tools/list:   the server answered with error -32603: it fails\n"),
            (WITH_TOOLS, "{}", "", &list[..], false, FAILED),
            (
                WITH_TOOLS,
                r#"{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}"#,
                "",
                &list[..],
                true,
                "tools:        1\n",
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
    fn the_card_of_a_server_is_shown_and_no_other_answer_for_its_path_is() {
        const CARD: &str = r#"{"$schema":"","name":"com.example/\u001b[1m","version":"1","description":"The weather"}"#;
        for (status, body, shown) in [
            ("200 OK", CARD, "card:         com.example/\\u{1b}[1m 1: The weather\n"),
            ("200 OK", "{}", "card:         what it answered is no server card: "),
            ("200 OK", "<html>", ""),
            ("404 Not Found", "", ""),
            ("405 Method Not Allowed", "", ""),
        ] {
            let serve = mcp_server(|asked, connection| connection.json(result(&asked.id, r#"{"tools":[]}"#)));
            let server = LoopbackServer::start(move |request, connection| {
                if request.line.starts_with("GET /mcp/server-card ") {
                    connection.reply(status, &[], body)
                } else {
                    serve(request, connection)
                }
            });
            let (is_fine, found) = check_url(&[], &server.url());
            assert!(is_fine && found.contains(shown), "{found}");
            assert_eq!(found.contains("card:"), !shown.is_empty(), "{found}");
        }
    }

    #[test]
    fn a_server_that_answers_no_ping_fails_the_check() {
        let serve = mcp_server(|asked, connection| connection.json(result(&asked.id, r#"{"tools":[]}"#)));
        let server = LoopbackServer::start(move |request, connection| match PostedMessage::of(request) {
            Some(asked) if asked.method == "ping" => connection.reply("500 Oops", &[], ""),
            _ => serve(request, connection),
        });
        for options in [&[][..], &["--check-tool", "a"]] {
            let (fine, found) = check_url(options, &server.url());
            assert!(!fine && found.contains("\nping:         the server at") && !found.contains("\nok\n"), "{found}");
        }
    }

    #[test]
    fn a_modern_server_is_asked_for_no_ping_and_nothing_it_does_not_have() {
        let meta = r#"{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"server","version":"1"}},"#;
        let discovered = DISCOVERED.replacen('{', meta, 1);
        let server = LoopbackServer::start(mcp_server(move |asked, connection| match asked.method.as_str() {
            "server/discover" => connection.json(result(&asked.id, &discovered)),
            _ => connection.json(result(&asked.id, r#"{"resultType":"complete","tools":[]}"#)),
        }));
        let (fine, found) = check_url(&[], &server.url());
        assert!(fine && found.contains("era:          modern") && !found.contains("ping"), "{found}");
        assert!(found.contains("name:         server 1\n"), "{found}");
        assert!(!methods(&server).contains(&"ping".to_owned()));
    }

    #[test]
    fn capabilities_beyond_a_number_are_counted() {
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
            let asked = Asked::default();
            assert!(!check(args.settings().unwrap(), args.timeouts(), &asked, &mut out, &|_| Ok(())).unwrap());
        }
        // The machine's own timeouts would be ten seconds and more each.
        assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
        let hanging = LoopbackServer::start(mcp_server(|asked, connection| match asked.method.as_str() {
            "tools/list" => connection.hang(),
            _ => connection.json(result(&asked.id, "{}")),
        }));
        // A busy machine answers `initialize` within this time, too.
        let (fine, found) = check_url(&["--request-timeout", "2"], &hanging.url());
        assert!(!fine && found.contains("tools/list:   the server at") && found.contains("within 2s"), "{found}");
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

    /// A page of tools with these names.
    fn page(names: &[&str], next: &str) -> String {
        let tools: Vec<_> =
            names.iter().map(|name| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#)).collect();
        format!(r#"{{"tools":[{}]{next}}}"#, tools.join(","))
    }

    fn paging_server() -> LoopbackServer {
        LoopbackServer::start(mcp_server(|asked, connection| {
            let text = match asked.method.as_str() {
                "tools/list" if asked.params.contains("second") => page(&["c"], ""),
                "tools/list" => page(&["a", "b\\u001b"], r#","nextCursor":"second""#),
                "tools/call" if asked.params.contains("\"b") => r#"{"content":[],"isError":true}"#.to_owned(),
                "tools/call" if asked.params.contains("\"c") => {
                    let error = r#""error":{"code":-32602,"message":"no such tool"}"#;
                    return connection.json(format!(r#"{{"jsonrpc":"2.0","id":{},{error}}}"#, asked.id));
                }
                _ => r#"{"content":[]}"#.to_owned(),
            };
            connection.json(result(&asked.id, &text))
        }))
    }

    #[test]
    fn all_pages_are_counted_and_names_are_printed_if_asked_for() {
        let server = paging_server();
        let (fine, found) = check_url(&[], &server.url());
        assert!(fine && found.contains("tools:        3\n") && !found.contains("tool names"), "{found}");
        assert!(!methods(&server).contains(&"tools/call".to_owned()), "no tool is called unasked");
        let (fine, found) = check_url(&["--verbose", "--deny-tool", "c"], &server.url());
        assert!(fine && found.contains("tools:        3\nhidden:       1\n"), "{found}");
        assert!(found.contains("tool names:   a\n              b\\u{1b}\n"), "{found}");
        let (fine, found) = check_url(&["--verbose", "--deny-tool", "a"], &server.url());
        assert!(fine && found.contains("tool names:   b\\u{1b}\n              c\n"), "{found}");
    }

    /// An output that refuses each line that begins with this text.
    #[cfg(unix)]
    struct Refusing(&'static str);

    #[cfg(unix)]
    impl Write for Refusing {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if bytes.starts_with(self.0.as_bytes()) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(bytes.len()) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    #[cfg(unix)]
    fn a_line_that_cannot_be_printed_is_an_error_even_if_later_ones_can_be() {
        let answers = [&initialize_result("2025-11-25"), "{}", r#"{"tools":[]}"#];
        let [opening, ping, list] = [1, 2, 3].map(|id| result(&id.to_string(), answers[id - 1]));
        let script =
            format!("read -r x; echo '{opening}'; read -r x; read -r x; echo '{ping}'; read -r x; echo '{list}'; cat");
        for line in [
            "server:",
            "transport:",
            "revision:",
            "era:",
            "name:",
            "capabilities:",
            "connected:",
            "ping:",
            "tools/list:",
            "tools:",
            "ok",
            "none is refused",
        ] {
            let args = Args::parse_from(["mcp-proxy", "--check", "--protocol", "legacy", "--", "sh", "-c", &script]);
            let (settings, asked) = (args.settings().unwrap(), Asked::default());
            let checked = check(settings, args.timeouts(), &asked, &mut Refusing(line), &|_| Ok(()));
            match checked {
                Ok(fine) => assert!(fine && line == "none is refused", "{line}"),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{line}"),
            }
        }
    }

    #[test]
    fn the_tool_that_is_named_is_called_and_its_error_fails_the_check() {
        for (tool, expected) in [("a", true), ("b", false), ("c", false)] {
            let server = paging_server();
            let (fine, found) = check_url(&["--check-tool", tool], &server.url());
            assert_eq!(fine, expected, "{found}");
            assert!(found.contains(&format!("called:       {tool}\ntools/call:   ")), "{found}");
            assert_eq!(methods(&server).last().unwrap(), "tools/call");
        }
    }

    #[test]
    fn the_text_of_a_tool_that_fails_is_shown() {
        for (content, shown) in [
            (r#"[{"type":"text","text":"no \u001b[1mpath"}]"#, r"the tool failed: no \u{1b}[1mpath"),
            (r#"[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}]"#, "the tool failed: a b"),
            ("[]", "the tool failed, and its result has no text"),
            (r#"[{"text":7}]"#, "the tool failed, and its result has no text"),
        ] {
            let result = format!(r#"{{"content":{content},"isError":true}}"#);
            let server = server("{}", "", result.leak());
            let (fine, found) = check_url(&["--check-tool", "a"], &server.url());
            assert!(!fine && found.contains(&format!("\ntools/call:   {shown}\n")), "{found}");
            let (fine, found) = check_url(&["--check-tool", "a", "--json"], &server.url());
            let found: serde_json::Value = serde_json::from_str(&found).unwrap();
            assert!(!fine && found["tools_call"] == shown && found["ok"] == false, "{found}");
        }
        let result = format!(r#"{{"content":[{{"type":"text","text":"{}"}}],"isError":true}}"#, "x".repeat(9000));
        let (_, found) = check_url(&["--check-tool", "a"], &server("{}", "", result.leak()).url());
        assert!(found.lines().all(|line| line.len() < MAX_CHARS + 50) && found.contains("failed: xxx"), "{found}");
    }

    #[test]
    #[cfg(unix)]
    fn the_arguments_of_a_command_are_counted_and_not_shown() {
        for (words, shown) in [
            (&["true"][..], "server:       true\n"),
            (&["true", "4711"], "server:       true (and 1 argument, not shown because it may be secret)\n"),
            (&["true", "4711", "x"], "server:       true (and 2 arguments, not shown because they may be secret)\n"),
        ] {
            let args = Args::parse_from([&["mcp-proxy", "--check", "--"], words].concat());
            let mut out = Vec::new();
            check(args.settings().unwrap(), args.timeouts(), &Asked::default(), &mut out, &|_| Ok(())).unwrap();
            let found = String::from_utf8(out).unwrap();
            assert!(found.contains(shown) && !found.contains("4711"), "{found}");
        }
    }

    #[test]
    fn a_check_can_print_one_json_object() {
        let server = paging_server();
        let (fine, found) = check_url(&["--json", "--verbose"], &server.url());
        let found: serde_json::Value = serde_json::from_str(&found).unwrap();
        assert!(fine);
        assert_eq!((&found["ok"], &found["tools"], &found["tool_names"][2]), (&true.into(), &3.into(), &"c".into()));
        assert!(found["connected_ms"].is_number() && found["findings"].is_array(), "{found}");
        let (fine, found) = check_url(&["--json"], "http://127.0.0.1:1/mcp");
        let found: serde_json::Value = serde_json::from_str(&found).unwrap();
        assert!(!fine && found["ok"] == false);
        assert!(found["failed"].as_str().unwrap().contains("nothing listens there"), "{found}");
    }
}
