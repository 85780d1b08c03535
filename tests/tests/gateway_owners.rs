//! What separates the users of a gateway: their principal, whatever their revision and that of the server, and whatever has
//! ended meanwhile.

use std::time::Duration;

use mcp_intermediary::gateway::{BackendKey, Sharing};
use mcp_proto::server::ExchangeKey;
use mcp_testkit::http_exchange::TestRequest;
use mcp_testkit::messages::{INITIALIZED, initialize_with, request, result};
use tests::gateway::{GatewayHarness, id_of};

const CAPABLE: &str = r#"{"elicitation":{},"roots":{}}"#;
const LOG: &str = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"a mark"}}"#;

fn gateway(sharing: Sharing) -> GatewayHarness {
    GatewayHarness::with(|config| config.sharing = sharing)
}

fn by(asked: TestRequest, principal: Option<&str>) -> TestRequest {
    if let Some(principal) = principal { asked.by(principal) } else { asked }
}

/// A stateless request of a client that can be asked and wants log messages; `members` end with a comma.
fn stateless(method: &str, members: &str) -> TestRequest {
    let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
    let level = r#""io.modelcontextprotocol/logLevel":"debug""#;
    let meta = format!(r#"{version},{level},"io.modelcontextprotocol/clientCapabilities":{CAPABLE}"#);
    let params = format!(r#"{{{members}"_meta":{{{meta}}}}}"#);
    TestRequest::post(request("7", method, &params)).repeating_headers("2026-07-28", method)
}

fn stateless_call() -> TestRequest {
    stateless("tools/call", r#""name":"a","#).with("mcp-name", "a")
}

/// The process that was started last answers the first request that it has received, as one of this revision; `members`
/// are those of its capabilities. Returns `None` if it was not of the era that was expected.
fn opened(gateway: &mut GatewayHarness, version: &str, members: &str) -> Option<BackendKey> {
    let process = gateway.last_started();
    let line = gateway.lines(process).concat();
    let is_modern = version == "2026-07-28";
    let id = id_of(&line).to_owned();
    if is_modern {
        let versions = r#""supportedVersions":["2026-07-28"]"#;
        gateway.reply(process, &result(&id, &format!(r#"{{"resultType":"complete",{versions},{members}}}"#)));
        return Some(process);
    }
    if line.contains("server/discover") {
        let unknown = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"m"}}}}"#);
        gateway.reply(process, &unknown);
        gateway.reply_to_initialize(process, version);
        gateway.stopped(process);
        return None;
    }
    let info = r#""serverInfo":{"name":"s","version":"1"}"#;
    gateway.reply(process, &result(&id, &format!(r#"{{"protocolVersion":"{version}",{info},{members}}}"#)));
    Some(process)
}

/// The process for a stateless request of this principal, which is of this revision; `None` if the request is refused.
fn process_for(gateway: &mut GatewayHarness, principal: Option<&str>, version: &str) -> Option<BackendKey> {
    let starts = gateway.starts();
    let exchange = gateway.ask(&by(stateless_call(), principal));
    while gateway.starts() > starts {
        let before = gateway.starts();
        if opened(gateway, version, r#""capabilities":{"tools":{},"logging":{}}"#).is_some()
            || gateway.starts() == before
        {
            break;
        }
    }
    for (process, _) in gateway.processes() {
        let lines = gateway.lines(process);
        if let Some(call) = lines.iter().find(|line| line.contains("tools/call")) {
            gateway.reply(process, &result(id_of(call), r#"{"content":[]}"#));
            assert!(gateway.responses.take(exchange).text().contains(r#""content":[]"#));
            return Some(process);
        }
    }
    let refused = gateway.responses.take(exchange);
    assert!(refused.text().contains("-32022"), "{}", refused.text());
    None
}

#[test]
fn stateless_requests_share_a_process_with_those_of_their_principal_alone_unless_all_share_one() {
    let clients = [Some("ada"), Some("eve"), None, Some("ada"), None];
    for (sharing, version, processes, principals) in [
        (Sharing::PerSession, "2026-07-28", [0, 1, 2, 0, 2].map(Some), [Some("ada"), Some("eve"), None]),
        (Sharing::PerPrincipal, "2026-07-28", [0, 1, 2, 0, 2].map(Some), [Some("ada"), Some("eve"), None]),
        (Sharing::Shared, "2026-07-28", [0; 5].map(Some), [None; 3]),
        (Sharing::PerSession, "2025-11-25", [None; 5], [None; 3]),
        (
            Sharing::PerPrincipal,
            "2025-11-25",
            [Some(0), Some(1), None, Some(0), None],
            [Some("ada"), Some("eve"), None],
        ),
        (Sharing::Shared, "2025-11-25", [0; 5].map(Some), [None; 3]),
    ] {
        let mut gateway = gateway(sharing);
        let mut seen: Vec<BackendKey> = Vec::new();
        let found = clients.map(|client| {
            let process = process_for(&mut gateway, client, version)?;
            if !seen.contains(&process) {
                assert_eq!(gateway.principal(process), principals[seen.len()], "{sharing:?}, {version}");
                seen.push(process);
            }
            seen.iter().position(|other| *other == process)
        });
        assert_eq!(found, processes, "{sharing:?}, {version}");
    }
}

/// What a server states about itself can name its user.
#[test]
fn what_a_process_states_about_itself_is_for_its_owner() {
    let mut gateway = gateway(Sharing::PerPrincipal);
    let discovered = |gateway: &mut GatewayHarness, user: &str| {
        let exchange = gateway.ask(&stateless("server/discover", "").by(user));
        let starts = gateway.starts();
        let stated = format!(r#""capabilities":{{"tools":{{}}}},"instructions":"for {user}""#);
        if opened(gateway, "2025-11-25", &stated).is_none() && gateway.starts() > starts {
            opened(gateway, "2025-11-25", &stated);
        }
        gateway.responses.take(exchange).text()
    };
    for user in ["ada", "eve"] {
        let text = discovered(&mut gateway, user);
        assert!(text.contains(&format!("for {user}")), "{text}");
    }
    let again = gateway.answer(&stateless("server/discover", "").by("ada")).text();
    assert!(again.contains("for ada"), "{again}");
    // After the end of the process, it does not speak for the next one.
    gateway.exit(gateway.processes()[0].0);
    let exchange = gateway.ask(&stateless("server/discover", "").by("ada"));
    opened(&mut gateway, "2025-11-25", r#""capabilities":{"tools":{}},"instructions":"anew""#);
    let text = gateway.responses.take(exchange).text();
    assert!(text.contains("anew"), "{text}");
}

/// How a call ends for its client without an answer of the server.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    /// `notifications/cancelled`, or the end of the exchange of a stateless request.
    Cancelled,
    SessionDeleted,
    TimedOut,
}

/// Two clients of a process, the first of which has a call that has ended.
struct Two {
    gateway: GatewayHarness,
    process: BackendKey,
    /// The call that has ended, as the process knows it.
    ended: String,
    /// The call of the other client.
    open: ExchangeKey,
    /// The session of the other client, if it has one.
    session: Option<String>,
}

/// The client that is asked.
#[derive(Debug, PartialEq)]
enum Asked {
    None,
    /// The one whose call has ended, which is still there.
    Owner,
    /// The other one.
    Other,
}

const TIMEOUT: Duration = Duration::from_secs(60);

/// Two sessions of a shared process. The second one has no call, if not `has_call`.
fn two_sessions(sharing: Sharing, end: End, has_call: bool) -> Two {
    let mut gateway = GatewayHarness::with(|config| {
        config.sharing = sharing;
        config.relay.request_timeout = TIMEOUT;
    });
    let exchanges =
        [(); 2].map(|()| gateway.ask(&TestRequest::post(initialize_with("0", "2025-11-25", CAPABLE)).by("ada")));
    let process = opened(&mut gateway, "2025-11-25", r#""capabilities":{"tools":{},"logging":{}}"#).expect("legacy");
    let ids = exchanges.map(|exchange| {
        let id = gateway.responses.take(exchange).headers["mcp-session-id"].to_str().expect("text").to_owned();
        gateway.answer(&TestRequest::post(INITIALIZED).by("ada").in_session(&id));
        id
    });
    gateway.lines(process);
    let call = |gateway: &mut GatewayHarness, id: &str| {
        let call = TestRequest::post(request("7", "tools/call", r#"{"name":"a"}"#)).by("ada").in_session(id);
        let exchange = gateway.ask(&call);
        (exchange, id_of(&gateway.lines(process).concat()).to_owned())
    };
    let (_, ended) = call(&mut gateway, &ids[0]);
    match end {
        End::Cancelled => {
            let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
            gateway.answer(&TestRequest::post(cancelled).by("ada").in_session(&ids[0]));
        }
        End::SessionDeleted => {
            gateway.answer(&TestRequest::new("DELETE", "").by("ada").in_session(&ids[0]));
        }
        End::TimedOut => gateway.pass(TIMEOUT),
    }
    assert!(gateway.lines(process).concat().contains("notifications/cancelled"), "{end:?}");
    let open = if has_call {
        call(&mut gateway, &ids[1]).0
    } else {
        gateway.ask(&TestRequest::get().by("ada").in_session(&ids[1]))
    };
    Two { gateway, process, ended, open, session: Some(ids[1].clone()) }
}

/// Two stateless calls at a process of this revision.
fn two_requests(sharing: Sharing, version: &str, end: End) -> Two {
    let mut gateway = GatewayHarness::with(|config| {
        config.sharing = sharing;
        config.relay.request_timeout = TIMEOUT;
    });
    let process = process_for(&mut gateway, Some("ada"), version).expect("it is served");
    gateway.lines(process);
    let first = gateway.ask(&stateless_call().by("ada"));
    let ended = id_of(&gateway.lines(process).concat()).to_owned();
    match end {
        End::Cancelled | End::SessionDeleted => gateway.disconnect(first),
        End::TimedOut => gateway.pass(TIMEOUT),
    }
    assert!(gateway.lines(process).concat().contains("notifications/cancelled"), "{end:?}");
    let open = gateway.ask(&stateless_call().by("ada"));
    gateway.lines(process);
    Two { gateway, process, ended, open, session: None }
}

impl Two {
    /// Where a question of the process goes.
    fn asks(&mut self, id: &str) -> Asked {
        let question = request(id, "elicitation/create", r#"{"message":"a mark","requestedSchema":{}}"#);
        self.gateway.reply(self.process, &question);
        let is_refused = self.gateway.lines(self.process).concat().contains("-32601");
        let sent = self.gateway.responses.take(self.open);
        match (is_refused, sent.data().concat().contains("a mark") || sent.text().contains("a mark")) {
            (true, false) => Asked::None,
            (false, true) => Asked::Other,
            (false, false) => Asked::Owner,
            (true, true) => panic!("refused, and shown to a client"),
        }
    }

    fn logs_to_the_other(&mut self) -> bool {
        self.gateway.reply(self.process, LOG);
        self.gateway.responses.take(self.open).data().concat().contains("a mark")
    }
}

#[test]
fn what_may_belong_to_a_call_that_has_ended_does_not_reach_another_client() {
    let ends = [End::Cancelled, End::SessionDeleted, End::TimedOut];
    for (sharing, end) in [Sharing::Shared, Sharing::PerPrincipal].into_iter().flat_map(|s| ends.map(|end| (s, end))) {
        let all = [
            (two_sessions(sharing, end, true), "sessions"),
            (two_sessions(sharing, end, false), "a session without a call"),
            (two_requests(sharing, "2025-11-25", end), "requests"),
        ];
        for (mut two, clients) in all {
            assert!(!two.logs_to_the_other(), "{sharing:?}, {end:?}, {clients}");
            let has_owner = clients == "a session without a call" && end != End::SessionDeleted;
            let asked = if has_owner { Asked::Owner } else { Asked::None };
            assert_eq!(two.asks(r#""q1""#), asked, "{sharing:?}, {end:?}, {clients}");
            // The server answers late. From then on, the call is over.
            let answered = result(&two.ended, r#"{"content":[{"type":"text","text":"a mark"}]}"#);
            two.gateway.reply(two.process, &answered);
            assert!(!two.gateway.responses.take(two.open).text().contains("a mark"));
            if clients != "requests" && !has_owner {
                assert!(two.logs_to_the_other(), "{sharing:?}, {end:?}, {clients}");
            }
            if !has_owner {
                assert_eq!(two.asks(r#""q2""#), Asked::Other, "{sharing:?}, {end:?}, {clients}");
            }
        }
        let mut two = two_requests(sharing, "2026-07-28", end);
        assert!(!two.logs_to_the_other(), "{sharing:?}, {end:?}");
        two.gateway.reply(two.process, &result(&two.ended, r#"{"resultType":"complete","content":[]}"#));
        assert!(two.logs_to_the_other(), "{sharing:?}, {end:?}");
    }
}

#[test]
fn a_call_that_has_ended_counts_as_long_as_a_request_may_take() {
    let mut two = two_sessions(Sharing::Shared, End::SessionDeleted, false);
    two.gateway.pass(TIMEOUT.saturating_sub(Duration::from_secs(1)));
    assert_eq!(two.asks(r#""q1""#), Asked::None);
    two.gateway.pass(Duration::from_secs(1));
    assert_eq!(two.asks(r#""q2""#), Asked::Other);
}

/// A client that has cancelled a call can be asked about its next one.
#[test]
fn the_calls_of_one_session_do_not_hinder_each_other() {
    let mut two = two_sessions(Sharing::Shared, End::Cancelled, true);
    let own = two.session.clone().expect("a session");
    let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
    two.gateway.reply(two.process, &result(&two.ended, "{}"));
    two.gateway.answer(&TestRequest::post(cancelled).by("ada").in_session(&own));
    let call = TestRequest::post(request("8", "tools/call", r#"{"name":"a"}"#)).by("ada").in_session(&own);
    two.open = two.gateway.ask(&call);
    two.gateway.lines(two.process);
    assert_eq!(two.asks(r#""q1""#), Asked::Other);
}

#[test]
fn a_process_for_everyone_receives_no_roots_and_offers_no_tasks_to_users() {
    let tasks = r#""tasks":{"list":{},"requests":{"tools":{"call":{}}}}"#;
    let extension = r#""extensions":{"io.modelcontextprotocol/tasks":{}}"#;
    let stated = format!(r#""capabilities":{{"tools":{{}},{tasks},{extension}}}"#);
    // A legacy process, and sessions.
    for principal in [Some("ada"), None] {
        let mut gateway = gateway(Sharing::Shared);
        let opening = by(TestRequest::post(initialize_with("0", "2025-11-25", CAPABLE)), principal);
        let exchange = gateway.ask(&opening);
        let process = gateway.last_started();
        let line = gateway.lines(process).concat();
        assert!(!line.contains("roots"), "{line}");
        gateway.put_back(process, &line);
        opened(&mut gateway, "2025-11-25", &stated).expect("legacy");
        let sent = gateway.responses.take(exchange);
        assert_eq!(sent.text().contains("tasks"), principal.is_none(), "{}", sent.text());
        let id = sent.headers["mcp-session-id"].to_str().expect("text").to_owned();
        gateway.answer(&by(TestRequest::post(INITIALIZED), principal).in_session(&id));
        gateway.lines(process);
        let mut is_passed = |method: &str, params: &str| {
            gateway.ask(&by(TestRequest::post(request("7", method, params)), principal).in_session(&id));
            gateway.lines(process).concat()
        };
        for method in ["tasks/list", "tasks/get", "tasks/result", "tasks/cancel", "tasks/update"] {
            assert_eq!(is_passed(method, r#"{"taskId":"t"}"#).is_empty(), principal.is_some(), "{method}");
        }
        let line = is_passed("tools/call", r#"{"name":"a","task":{"ttl":1}}"#);
        assert!(line.contains(r#""name":"a""#) && line.contains("ttl") == principal.is_none(), "{line}");
    }
    // A modern process, and stateless requests.
    for principal in [Some("ada"), None] {
        let mut gateway = gateway(Sharing::Shared);
        let first = gateway.ask(&by(stateless("server/discover", ""), principal));
        let process = opened(&mut gateway, "2026-07-28", &stated).expect("modern");
        let text = gateway.responses.take(first).text();
        assert_eq!(text.contains("io.modelcontextprotocol/tasks"), principal.is_none(), "{text}");
        let later = gateway.ask(&by(stateless("server/discover", r#""x":1,"#), principal));
        let line = gateway.lines(process).concat();
        gateway.reply(process, &result(id_of(&line), &format!(r#"{{"resultType":"complete",{stated}}}"#)));
        let text = gateway.responses.take(later).text();
        assert_eq!(text.contains("io.modelcontextprotocol/tasks"), principal.is_none(), "{text}");
        let get = by(stateless("tasks/get", r#""taskId":"t","#).with("mcp-name", "t"), principal);
        gateway.ask(&get);
        assert_eq!(gateway.lines(process).is_empty(), principal.is_some());
        let filter = r#""notifications":{"taskIds":["t"],"toolsListChanged":true},"#;
        gateway.ask(&by(stateless("subscriptions/listen", filter), principal));
        let line = gateway.lines(process).concat();
        assert!(line.contains("toolsListChanged") && line.contains("taskIds") == principal.is_none(), "{line}");
    }
    // A legacy process, and stateless requests.
    let mut gateway = gateway(Sharing::Shared);
    gateway.ask(&stateless_call().by("ada"));
    assert!(opened(&mut gateway, "2025-11-25", "").is_none());
    let line = gateway.lines(gateway.last_started()).concat();
    assert!(line.contains("initialize") && line.contains("elicitation") && !line.contains("roots"), "{line}");
}

#[test]
fn a_failure_to_start_pauses_the_client_that_has_caused_it_alone() {
    for sharing in [Sharing::PerSession, Sharing::PerPrincipal, Sharing::Shared] {
        for kind in ["principals", "addresses"] {
            let of = |asked: TestRequest, number: u8, name: &str| {
                if kind == "principals" { asked.by(name) } else { asked.from(number) }
            };
            let [ada, eve] = [(1, "ada"), (2, "eve")].map(|(number, name)| move |asked| of(asked, number, name));
            let mut gateway = gateway(sharing);
            let opening = || TestRequest::post(initialize_with("0", "2025-11-25", "{}"));
            gateway.ask(&ada(opening()));
            gateway.exit(gateway.last_started());
            let refused = gateway.answer(&ada(opening()));
            assert!(refused.text().contains("failed to start"), "{sharing:?}, {kind}: {}", refused.text());
            let exchange = gateway.ask(&eve(opening()));
            gateway.reply_to_initialize(gateway.last_started(), "2025-11-25");
            assert_eq!(gateway.responses.take(exchange).code(), 200, "{sharing:?}, {kind}");
            assert_eq!(gateway.starts(), 2, "{sharing:?}, {kind}");
            gateway.pass(Duration::from_secs(1));
            let opened = gateway.ask(&ada(opening()));
            assert!(!gateway.responses.take(opened).text().contains("failed to start"), "{sharing:?}, {kind}");
        }
    }
}

#[test]
fn an_exit_at_the_first_start_decides_nothing_about_the_revision() {
    for sharing in [Sharing::PerSession, Sharing::PerPrincipal, Sharing::Shared] {
        let mut gateway = gateway(sharing);
        let exchange = gateway.ask(&stateless_call().by("ada"));
        gateway.exit(gateway.last_started());
        if sharing != Sharing::PerSession {
            // It may have been one of an older revision, but it does not answer `initialize` either.
            assert!(gateway.lines(gateway.last_started()).concat().contains("initialize"));
            gateway.exit(gateway.last_started());
        }
        assert!(gateway.responses.take(exchange).is_over);
        gateway.pass(Duration::from_secs(1));
        let found = process_for(&mut gateway, Some("ada"), "2026-07-28");
        assert!(found.is_some(), "{sharing:?}");
    }
}

/// Its exit at discovery was no sign of an older revision then.
#[test]
fn after_an_exit_at_initialize_too_the_next_process_is_asked_for_its_revisions_at_once() {
    let mut gateway = gateway(Sharing::Shared);
    gateway.ask(&stateless_call().by("ada"));
    for asked in ["server/discover", "initialize"] {
        let line = gateway.lines(gateway.last_started()).concat();
        assert!(line.contains(asked), "{line}");
        gateway.exit(gateway.last_started());
    }
    gateway.ask(&stateless_call().by("eve"));
    let line = gateway.lines(gateway.last_started()).concat();
    assert!(gateway.starts() == 3 && line.contains("server/discover"), "{line}");
}
