//! Scenarios for servers that listen on sockets. They are the same for every driver.
//!
//! The server is configured by [`configure`], and its service has these methods:
//!
//! | method | what it does |
//! |---|---|
//! | `echo` | answers with its parameters, or `{}` |
//! | `nap` | like `echo`, after a delay |
//! | `pause` | like `echo`, after a delay in which a driver has looked several times whether the client is there |
//! | `count` | reports progress three times, sends one notification, and answers `{"counted":3}` |
//! | `ask` | sends `elicitation/create` to the client, and answers with the client's result |
//! | `panic` | panics |
//! | `change` | publishes that the list of tools has changed, and answers `{}` |
//! | `touch` | publishes that the resource in its parameters has changed, and answers `{}` |
//! | `tools/list` | answers with [`TOOLS`] |
//! | `tools/call` of `who` | requires input `who` by `elicitation/create` with a sealed state `asked`; with both, echoes `inputResponses` |
//! | `large` | answers with a string of 12 MB |
//! | `flood` | sends a thousand notifications of 100 kB, and answers `{}` |
//!
//! [`wire_tests!`](crate::wire_tests) generates a test from each scenario.

#![expect(missing_docs, reason = "the names of the scenarios state the required behaviour")]

use std::cell::RefCell;
use std::thread;
use std::time::Duration;

use mcp_proto::server::{Config, HttpConfig};
use mcp_testkit::bad_requests::{self, PING, Row};
use mcp_testkit::http_exchange::{TestRequest, TestResponse, initialize, modern};
use mcp_testkit::raw_client::{RawClient, RawConnection, text};
use mcp_testkit::waiting::wait_until;

/// Generates a test from each scenario. Its argument is a function that takes a configuring function, starts a server
/// that is configured by it, and returns a value with an `address` that stops the server on drop.
#[macro_export]
macro_rules! wire_tests {
    ($start:path) => {
        $crate::wire_tests! { $start:
            admission_answers_as_its_table_states
            or6_a_half_sent_request_ends_by_its_deadline
            or6_a_body_of_unknown_length_is_bounded
            or7_pipelined_requests_keep_their_order
            rp3_requests_of_one_id_each_get_their_own_answer
            rp6_rp8_broken_messages_are_answered_and_cost_nothing_else
            rp1_rp2_answers_to_no_pending_request_change_nothing
            rp9_a_flood_of_notifications_is_taken
            rp11_a_call_can_be_taken_back
            rp15_a_handler_that_panics_fails_its_own_request
            se1_se2_a_session_begins_once
            se3_se11_a_session_that_has_ended_is_unknown
            se5_clients_do_not_name_sessions
            se6_sessions_are_bounded
            se7_a_session_has_one_stream_of_its_own
            se8_nothing_is_replayed_for_a_forged_event
            se9_missing_events_are_reported
            se12_the_header_of_the_revision_is_checked_in_every_revision
            sh_s_13_requests_to_the_client_travel_with_their_request
            sh_s_21_an_answer_becomes_a_stream_when_something_precedes_it
            sh_s_52_a_call_survives_its_connection
            sh_s_54_priming_events_are_sent_only_in_revisions_that_have_them
            le4_hs_04_a_two_endpoint_session_answers_on_its_stream
            hm5_headers_that_repeat_arguments_must_match_the_body
            hm11_requests_of_one_id_that_stand_alone_each_get_their_own_answer
            md_l_a_subscription_delivers_changes
            a_subscription_is_answered_by_the_server_and_delivers_changes
            mr1_mr4_md_i_input_is_required_in_both_eras_alike
            a_client_that_does_not_read_delays_no_other
            b9_a_client_that_disconnects_at_any_byte_disturbs_no_other
            a_client_that_ends_its_sending_side_receives_its_response
            or7_what_follows_a_broken_body_is_no_request
            or2_no_continue_is_sent_for_refused_requests
        }
        $crate::wire_tests! { $start, configure, held:
            fr14_a_server_ends_in_time_whatever_its_clients_read
        }
        #[test]
        fn each_spelling_of_a_request_is_served_or_refused() {
            let server = $start($crate::on_the_wire::configure);
            let client = ::mcp_testkit::raw_client::RawClient::new(&server.address);
            $crate::http1_requests::each_spelling_of_a_request_is_served_or_refused(&client);
        }

        #[test]
        fn each_json_text_is_answered_with_the_right_code() {
            let server = $start($crate::on_the_wire::configure);
            let client = ::mcp_testkit::raw_client::RawClient::new(&server.address);
            $crate::json_over_the_wire::each_body_is_answered_with_the_right_code(&client);
        }

        #[test]
        fn a_server_is_reached_through_a_reverse_proxy() {
            use $crate::behind_reverse_proxy;
            let server = $start(behind_reverse_proxy::configure);
            behind_reverse_proxy::a_server_is_reached_through_a_reverse_proxy(&::mcp_testkit::raw_client::RawClient::new(&server.address));
        }

        #[test]
        fn a_server_is_reached_below_a_path_of_a_reverse_proxy() {
            use $crate::behind_reverse_proxy;
            let server = $start(behind_reverse_proxy::configure_below);
            let client = ::mcp_testkit::raw_client::RawClient::new(&server.address);
            behind_reverse_proxy::a_server_is_reached_below_a_path_of_a_reverse_proxy(&client);
        }

        $crate::wire_tests! { $start, configure_few:
            hm10_a_client_of_the_newer_revision_that_goes_has_cancelled
            hm10_a_client_that_goes_behind_a_pipelined_byte_has_cancelled
            hm10_a_client_that_goes_after_it_has_ended_its_sending_side_has_cancelled
        }
        $crate::wire_tests! { $start, configure_flooded:
            rp10_as_many_requests_are_served_as_the_limit_of_the_machine_allows
        }
        $crate::wire_tests! { $start, configure_unread:
            what_clients_do_not_take_is_bounded_in_sum_and_ends_in_time
            a_client_that_takes_its_answer_slowly_gets_all_of_it
            a_stream_that_is_not_taken_ends_in_time
        }
        $crate::wire_tests! { $start, configure_brief:
            se10_a_session_whose_id_never_reached_its_client_expires
        }
    };
    ($start:path: $($scenario:ident)*) => {
        $crate::wire_tests! { $start, configure: $($scenario)* }
    };
    ($start:path, $configure:ident, held: $($scenario:ident)*) => {
        $(
            #[test]
            fn $scenario() {
                let server = $start($crate::on_the_wire::$configure);
                let held = $crate::on_the_wire::$scenario(&::mcp_testkit::raw_client::RawClient::new(&server.address));
                let began = std::time::Instant::now();
                drop(server);
                // The documented limit is 5 s. The server must not wait for a blocked write, which fails after 30 s.
                assert!(began.elapsed() < std::time::Duration::from_secs(25), "the server did not end");
                drop(held);
            }
        )*
    };
    ($start:path, $configure:ident: $($scenario:ident)*) => {
        $(
            #[test]
            fn $scenario() {
                let server = $start($crate::on_the_wire::$configure);
                $crate::on_the_wire::$scenario(&::mcp_testkit::raw_client::RawClient::new(&server.address));
            }
        )*
    };
}

/// The maximum number of sessions.
const SESSIONS: usize = 6;
/// The number of bytes of events that are kept for replay.
const REPLAY: usize = 64 * 1024;
/// The maximum number of requests of all clients together, with [`configure_few`].
const FEW: usize = 4;
/// The maximum number of requests of one session, with [`configure_flooded`]: more than any queue or pool of a driver
/// holds.
const FLOOD: usize = 4200;

/// Configures a server for the scenarios.
pub fn configure(http: &mut HttpConfig, config: &mut Config) {
    bad_requests::configure(http, config);
    http.body_timeout = Duration::from_millis(300);
    http.max_sessions = SESSIONS;
    http.replay = REPLAY;
}

/// Configures a server that serves few requests concurrently.
pub fn configure_few(http: &mut HttpConfig, config: &mut Config) {
    configure(http, config);
    config.limits.requests_in_total = FEW;
    http.keep_alive = Duration::from_secs(1);
}

/// Configures a server that serves many requests of one client concurrently.
pub fn configure_flooded(http: &mut HttpConfig, config: &mut Config) {
    configure(http, config);
    (config.limits.batch, config.limits.requests_in) = (2 * FLOOD, FLOOD);
    config.limits.message = 1 << 20;
}

/// The maximum number of connections of a server for the scenarios with many connections.
pub const CONNECTIONS: usize = 8;
/// The time limit for a request head in the scenarios with many connections.
pub const HEAD_TIME: Duration = Duration::from_millis(500);

/// Configures a server for the scenarios with many connections.
pub fn configure_crowded(http: &mut HttpConfig, config: &mut Config) {
    bad_requests::configure(http, config);
}

/// How long a client may read nothing, in the scenarios of unread responses.
const UNREAD_TIME: Duration = Duration::from_secs(4);

/// Configures a server with room for one large response, which the client must read soon.
pub fn configure_unread(http: &mut HttpConfig, config: &mut Config) {
    configure(http, config);
    http.unread_timeout = UNREAD_TIME;
    config.limits.held = 13 << 20;
}

/// Configures a server with room for one session, which expires after 1 s without use.
pub fn configure_brief(http: &mut HttpConfig, config: &mut Config) {
    configure(http, config);
    http.max_sessions = 1;
    http.session_idle = Duration::from_secs(1);
}

/// The result of `tools/list`.
pub const TOOLS: &str = r#"{"tools":[{"name":"hello","description":"Says hello.","inputSchema":{"type":"object"}},{"name":"who","inputSchema":{"type":"object","properties":{"page":{"type":"integer","x-mcp-header":"Page"}}}}]}"#;

fn call(session: &str, id: &str, method: &str, params: &str) -> TestRequest {
    TestRequest::post(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#))
        .in_session(session)
}

fn result(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

const WITH_PROGRESS: &str = r#"{"_meta":{"progressToken":"t"}}"#;

pub fn admission_answers_as_its_table_states(server: &RawClient) {
    let id = server.session("2025-11-25");
    for Row { name, asked, status, code } in bad_requests::rows(&id) {
        let sent = server.answer(&asked);
        assert_eq!(sent.code(), status, "{name}: {}", sent.text());
        assert!(sent.text().contains(&format!("\"code\":{code}")), "{name}: {}", sent.text());
    }
    assert_eq!(server.answer(&TestRequest::post(PING).in_session(&id)).code(), 200, "the session is as it was");
}

pub fn or6_a_half_sent_request_ends_by_its_deadline(server: &RawClient) {
    let id = server.session("2025-06-18");
    let half = TestRequest::post("{").in_session(&id).with("content-length", "100");
    assert_eq!(server.answer(&half).code(), 408);
}

pub fn or6_a_body_of_unknown_length_is_bounded(server: &RawClient) {
    let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\naccept: */*\r\ncontent-type: application/json\r\n";
    let text = format!("{head}transfer-encoding: chunked\r\nconnection: close\r\n\r\n7d0\r\n{}", "x".repeat(2000));
    let sent = server.raw(text.as_bytes());
    assert!(sent.starts_with("HTTP/1.1 413 "), "{sent}");
}

pub fn or7_pipelined_requests_keep_their_order(server: &RawClient) {
    let id = server.session("2025-06-18");
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\naccept: */*\r\ncontent-type: application/json\r\nmcp-session-id: {id}\r\n"
    );
    let body = |n: u32| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"echo","params":{{"n":{n}}}}}"#);
    // A body with a length, a chunked body, and one whose request expects a `100 Continue`.
    let texts = [
        format!("{head}content-length: {}\r\n\r\n{}", body(0).len(), body(0)),
        format!("{head}transfer-encoding: chunked\r\n\r\n{:x}\r\n{}\r\n0\r\n\r\n", body(1).len(), body(1)),
        format!(
            "{head}expect: 100-continue\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{}",
            body(2).len(),
            body(2)
        ),
    ];
    let answers = server.raw(texts.concat().as_bytes());
    let found: Vec<_> = (0..3).map(|n| answers.find(&format!(r#""result":{{"n":{n}}}"#))).collect();
    assert!(found.iter().all(Option::is_some) && found.is_sorted(), "{answers}");
    assert!(answers.contains("HTTP/1.1 100 Continue\r\n\r\n"), "{answers}");
}

pub fn rp3_requests_of_one_id_each_get_their_own_answer(server: &RawClient) {
    let sessions = [server.session("2025-06-18"), server.session("2025-11-25")];
    let mut open: Vec<_> = (0..16)
        .map(|n| {
            let params = format!(r#"{{"n":{n}}}"#);
            (server.open(&call(&sessions[n % 2], "1", "nap", &params)), params)
        })
        .collect();
    for (conversation, params) in &mut open {
        assert_eq!(conversation.until(|sent| sent.is_over).text(), result("1", params));
    }
}

pub fn rp6_rp8_broken_messages_are_answered_and_cost_nothing_else(server: &RawClient) {
    let (id, old) = (server.session("2025-06-18"), server.session("2025-03-26"));
    for (body, session, status, code) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":"echo","result":null}"#, &id, 400, "-32600"),
        (r#"{"jsonrpc":"2.0","id":null,"method":"echo"}"#, &id, 400, "-32600"),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"echo"}"#, &id, 400, "-32600"),
        (r#"{"id":1,"method":"echo"}"#, &id, 400, "-32600"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"echo","params":[]}"#, &id, 400, "-32602"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"echo","params":{"a":1,"a":2}}"#, &id, 400, "-32602"),
        ("[]", &id, 400, "-32600"),
        ("[]", &old, 400, "-32600"),
        ("\u{feff}{}", &id, 400, "-32"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"nothing"}"#, &id, 200, "-32601"),
    ] {
        let sent = server.answer(&TestRequest::post(body).in_session(session));
        assert_eq!(sent.code(), status, "{body}: {}", sent.text());
        assert!(sent.text().contains(&format!("\"code\":{code}")), "{body}: {}", sent.text());
    }
    let batch = r#"[{"jsonrpc":"2.0","id":"a","method":"echo"},{"jsonrpc":"2.0","method":"n"},1,{"jsonrpc":"2.0","id":"a","method":"nap"}]"#;
    let sent = server.answer(&TestRequest::post(batch).in_session(&old)).text();
    assert_eq!(sent.matches(&result("\"a\"", "{}")).count(), 2, "{sent}");
    assert_eq!((sent.matches("jsonrpc").count(), sent.matches("-32600").count()), (3, 1), "{sent}");
    for session in [&id, &old] {
        assert_eq!(server.answer(&call(session, "9", "echo", "{}")).text(), result("9", "{}"));
    }
}

pub fn rp1_rp2_answers_to_no_pending_request_change_nothing(server: &RawClient) {
    let id = server.session("2025-06-18");
    for body in [
        result("77", "{}"),
        r#"{"jsonrpc":"2.0","id":77,"method":"echo","params":{},"result":{}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}"#.to_owned(),
    ] {
        for _ in 0..2 {
            assert_eq!(server.answer(&TestRequest::post(body.clone()).in_session(&id)).code(), 202, "{body}");
        }
    }
    assert_eq!(server.answer(&call(&id, "77", "echo", "{}")).text(), result("77", "{}"));
}

pub fn rp9_a_flood_of_notifications_is_taken(server: &RawClient) {
    let id = server.session("2025-06-18");
    let body = r#"{"jsonrpc":"2.0","method":"notifications/flood"}"#;
    let one = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\naccept: */*\r\ncontent-type: application/json\r\nmcp-session-id: {id}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut flood = server.connect();
    flood.write(one.repeat(2000).as_bytes());
    flood.write(one.replace("host: localhost", "host: localhost\r\nconnection: close").as_bytes());
    assert_eq!(flood.rest().matches("HTTP/1.1 202 ").count(), 2001);
    assert_eq!(server.answer(&call(&id, "1", "echo", "{}")).text(), result("1", "{}"));
}

pub fn rp11_a_call_can_be_taken_back(server: &RawClient) {
    let (id, other) = (server.session("2025-06-18"), server.session("2025-06-18"));
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"w"}}"#;
    let (mut cancelled, mut foreign) = (served(server, &id, "\"w\""), served(server, &id, "8"));
    // A cancellation in another session, or with an id of another type, refers to another request.
    for (body, session) in [(cancel, &other), (&cancel.replace("\"w\"", "\"8\""), &id)] {
        assert_eq!(server.answer(&TestRequest::post(body.to_owned()).in_session(session)).code(), 202);
    }
    assert!(cancelled.is_silent() && foreign.is_silent());
    assert_eq!(server.answer(&TestRequest::post(cancel).in_session(&id)).code(), 202);
    let data = cancelled.until(|sent| sent.is_over).data();
    assert!(!data.iter().any(|data| data.contains(r#""id":"w""#)), "it is not answered: {data:?}");
    assert!(foreign.is_silent());
}

/// A call that the server is certainly serving, because the client has received a request from it.
fn served(server: &RawClient, session: &str, id: &str) -> RawConnection {
    let mut conversation = server.open(&call(session, id, "ask", "{}"));
    conversation.events(1);
    conversation
}

pub fn rp15_a_handler_that_panics_fails_its_own_request(server: &RawClient) {
    let id = server.session("2025-06-18");
    let sent = server.answer(&call(&id, "1", "panic", "{}"));
    assert!(sent.text().contains("\"code\":-32603"), "{}", sent.text());
    assert_eq!(server.answer(&call(&id, "2", "echo", "{}")).text(), result("2", "{}"));
}

pub fn se1_se2_a_session_begins_once(server: &RawClient) {
    assert_eq!(server.answer(&TestRequest::post(PING)).code(), 400, "there is no session");
    let id = server.session("2025-03-26");
    let again = server.answer(&TestRequest::post(initialize("2025-11-25")).in_session(&id));
    assert_eq!(again.code(), 400);
    assert!(again.text().contains("-32600"), "{}", again.text());
    // The revision of the session stays in force: it supports batches.
    let batch = server.answer(&TestRequest::post(format!("[{PING}]")).in_session(&id));
    assert_eq!(batch.text(), format!("[{}]", result("\"p\"", "{}")));
}

pub fn se3_se11_a_session_that_has_ended_is_unknown(server: &RawClient) {
    let id = server.session("2025-06-18");
    let mut own = server.open(&TestRequest::get().in_session(&id));
    assert_eq!(own.until(|sent| sent.code() != 0).code(), 200);
    let mut waiting = served(server, &id, "1");
    let delete = TestRequest::new("DELETE", "");
    assert_eq!(server.answer(&delete.clone().in_session("0123456789abcdef")).code(), 404, "of another session");
    assert_eq!(server.answer(&delete.clone().in_session(&id)).code() / 100, 2);
    assert!(own.until(|sent| sent.is_over).is_stream);
    assert!(waiting.until(|sent| sent.is_over).text().contains("-32603"), "the pending request is answered");
    for asked in [TestRequest::post(PING), TestRequest::get(), delete] {
        assert_eq!(server.answer(&asked.in_session(&id)).code(), 404);
    }
}

pub fn se5_clients_do_not_name_sessions(server: &RawClient) {
    let mine = "0123456789abcdef0123456789abcdef";
    assert_eq!(server.answer(&TestRequest::post(initialize("2025-06-18")).in_session(mine)).code(), 404);
    let ids: Vec<_> = (0..4).map(|_| server.session("2025-06-18")).collect();
    for id in &ids {
        assert!(id.len() >= 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        assert!(ids.iter().filter(|other| *other == id).count() == 1 && id != mine);
    }
}

pub fn se6_sessions_are_bounded(server: &RawClient) {
    for _ in 0..SESSIONS {
        server.session("2025-06-18");
    }
    let refused = server.answer(&TestRequest::post(initialize("2025-06-18")));
    assert_eq!(refused.code(), 503);
    assert!(refused.headers.contains_key("retry-after"));
}

pub fn se7_a_session_has_one_stream_of_its_own(server: &RawClient) {
    let id = server.session("2025-06-18");
    let get = TestRequest::get().in_session(&id);
    let mut first = server.open(&get);
    first.until(|sent| sent.code() == 200);
    assert_eq!(server.answer(&get).code(), 409);
    assert!(first.is_silent(), "the first one is as it was");
    drop(first);
    // The server detects soon that the client has disconnected.
    let mut codes = (0..100).map(|_| {
        thread::sleep(Duration::from_millis(50));
        server.open(&get).until(|sent| sent.code() != 0).code()
    });
    assert!(codes.any(|code| code == 200));
}

pub fn se8_nothing_is_replayed_for_a_forged_event(server: &RawClient) {
    let (id, other) = (server.session("2025-11-25"), server.session("2025-11-25"));
    let sent = server.answer(&call(&id, "1", "count", WITH_PROGRESS));
    let ids = sent.ids();
    let last = ids.last().expect("events have ids");
    let (tag, number) = last.split_once('-').expect("a tag and a number");
    let future = format!("{tag}-{}", number.parse::<u64>().expect("a number") + 1);
    for (session, event) in
        [(&other, last.as_str()), (&id, "0-0"), (&id, future.as_str()), (&id, ""), (&id, "x".repeat(5000).as_str())]
    {
        let sent = server.answer(&TestRequest::get().in_session(session).with("last-event-id", event));
        assert_eq!(sent.code(), 400, "{event}");
    }
    let replayed = server.answer(&TestRequest::get().in_session(&id).with("last-event-id", &ids[1]));
    assert_eq!(replayed.ids(), ids[2..], "its own are");
}

pub fn se9_missing_events_are_reported(server: &RawClient) {
    let id = server.session("2025-11-25");
    let began = server.open(&call(&id, "1", "flood", "{}")).until(|sent| !sent.ids().is_empty()).ids();
    // The server continues to write, and discards events beyond the replay limit.
    let back = TestRequest::get().in_session(&id).with("last-event-id", &began[0]);
    let mut codes = (0..100).map(|_| {
        thread::sleep(Duration::from_millis(50));
        server.open(&back).until(|sent| sent.code() != 0).code()
    });
    assert!(codes.any(|code| code == 400));
    assert_eq!(server.answer(&TestRequest::post(PING).in_session(&id)).code(), 200);
}

pub fn se10_a_session_whose_id_never_reached_its_client_expires(server: &RawClient) {
    let open = TestRequest::post(initialize("2025-11-25"));
    server.open(&open).until(|sent| sent.code() == 200);
    let mut codes = (0..100).map(|_| {
        thread::sleep(Duration::from_millis(50));
        server.answer(&open).code()
    });
    assert!(codes.any(|code| code == 200));
}

pub fn se12_the_header_of_the_revision_is_checked_in_every_revision(server: &RawClient) {
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let id = server.session(version);
        let ping = TestRequest::post(PING).in_session(&id);
        for (named, status) in [(version, 200), ("2024-10-07", 400), ("draft", 400)] {
            assert_eq!(server.answer(&ping.clone().with("mcp-protocol-version", named)).code(), status, "{named}");
        }
        assert_eq!(server.answer(&ping).code(), 200, "row 21");
    }
}

pub fn sh_s_13_requests_to_the_client_travel_with_their_request(server: &RawClient) {
    let id = server.session("2025-06-18");
    let mut asking = server.open(&call(&id, "1", "ask", "{}"));
    assert_eq!(asking.events(1), [r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}"#]);
    let accept = r#"{"action":"accept"}"#;
    assert_eq!(server.answer(&TestRequest::post(result("1", accept)).in_session(&id)).code(), 202);
    assert_eq!(asking.until(|sent| sent.is_over).data()[1], result("1", accept));
}

pub fn sh_s_21_an_answer_becomes_a_stream_when_something_precedes_it(server: &RawClient) {
    let id = server.session("2025-06-18");
    let plain = server.answer(&call(&id, "1", "echo", WITH_PROGRESS));
    assert!(!plain.is_stream);
    let streamed = server.answer(&call(&id, "1", "count", WITH_PROGRESS));
    assert!(streamed.is_stream && streamed.is_over);
    let data = streamed.data();
    assert_eq!(data.len(), 5, "{data:?}");
    assert!(data[..3].iter().all(|data| data.contains(r#""progressToken":"t""#)), "{data:?}");
    assert_eq!(data[4], result("1", r#"{"counted":3}"#));
}

pub fn sh_s_52_a_call_survives_its_connection(server: &RawClient) {
    let id = server.session("2025-11-25");
    let mut asking = server.open(&call(&id, "1", "ask", "{}"));
    let began = asking.until(|sent| sent.data().len() == 1).ids();
    drop(asking);
    let accept = r#"{"action":"accept"}"#;
    assert_eq!(server.answer(&TestRequest::post(result("1", accept)).in_session(&id)).code(), 202);
    let resumed = server.answer(&TestRequest::get().in_session(&id).with("last-event-id", &began[1]));
    assert_eq!(resumed.data(), [result("1", accept)]);
}

pub fn sh_s_54_priming_events_are_sent_only_in_revisions_that_have_them(server: &RawClient) {
    for (version, ids) in [("2025-11-25", 6), ("2025-06-18", 5)] {
        let id = server.session(version);
        let sent = server.answer(&call(&id, "1", "count", WITH_PROGRESS));
        assert_eq!((sent.ids().len(), sent.data().len()), (ids, 5), "{version}: {}", sent.text());
    }
}

pub fn le4_hs_04_a_two_endpoint_session_answers_on_its_stream(server: &RawClient) {
    let mut stream = server.open(&TestRequest::get().at("/sse"));
    let place = stream.events(1)[0].clone();
    assert!(place.starts_with("/messages?"), "{place}");
    let post = |body: String| server.answer(&TestRequest::post(body).at(&place));
    assert_eq!(post(initialize("2024-11-05")).code(), 202);
    assert!(stream.events(2)[1].contains(r#""protocolVersion":"2024-11-05""#));
    assert_eq!(post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned()).code(), 202);
    assert_eq!(post(r#"{"jsonrpc":"2.0","id":5,"method":"echo"}"#.to_owned()).code(), 202);
    assert_eq!(stream.events(3)[2], result("5", "{}"));
    drop(stream);
    // The session ends with its stream (HS-10).
    let mut codes = (0..100).map(|_| {
        thread::sleep(Duration::from_millis(50));
        post(PING.to_owned()).code()
    });
    assert!(codes.any(|code| code == 404));
}

pub fn hm5_headers_that_repeat_arguments_must_match_the_body(server: &RawClient) {
    assert_eq!(server.answer(&TestRequest::stateless("1", "tools/list", "")).code(), 200);
    for (argument, page, status) in [
        ("42", Some("42"), 200),
        ("42", Some("42.0"), 200),
        ("42", Some("43"), 400),
        ("42", None, 400),
        ("null", None, 200),
        ("null", Some("null"), 400),
    ] {
        let body = modern("1", "tools/call", &format!(r#""name":"who","arguments":{{"page":{argument}}},"#))
            .replace("apabilities\":{}", r#"apabilities":{"elicitation":{}}"#);
        let mut asked = TestRequest::post(body).repeating_headers("2026-07-28", "tools/call").with("mcp-name", "who");
        asked = page.iter().fold(asked, |asked, page| asked.with("mcp-param-page", page));
        let sent = server.answer(&asked);
        assert_eq!(sent.code(), status, "{argument} {page:?}: {}", sent.text());
        assert!(status == 200 || sent.text().contains("\"code\":-32020"));
    }
}

/// Makes as many requests that wait as are served at one time: the next one is refused. The request that shows this may
/// have taken the place of one, which is made again then.
fn as_many_as_may_wait(server: &RawClient, ask: impl Fn() -> RawConnection) -> Vec<RawConnection> {
    let waiting = RefCell::new((0..FEW).map(|_| ask()).collect::<Vec<_>>());
    wait_until(|| {
        for client in waiting.borrow_mut().iter_mut() {
            if !client.is_silent() {
                *client = ask();
            }
        }
        server.answer(&TestRequest::stateless("1", "echo", "")).code() == 503
    });
    waiting.into_inner()
}

pub fn hm10_a_client_of_the_newer_revision_that_goes_has_cancelled(server: &RawClient) {
    let mut waiting = as_many_as_may_wait(server, || server.open(&TestRequest::stateless("1", "wait", "")));
    drop(waiting.pop());
    // A request whose client has disconnected is served no longer.
    wait_until(|| server.answer(&TestRequest::stateless("1", "echo", "")).code() == 200);
    for client in &mut waiting {
        assert!(client.is_silent());
    }
}

pub fn rp10_as_many_requests_are_served_as_the_limit_of_the_machine_allows(server: &RawClient) {
    const BEYOND: usize = 5;
    let (id, other) = (server.session("2025-03-26"), server.session("2025-03-26"));
    let batch = |messages: Vec<String>| TestRequest::post(format!("[{}]", messages.join(","))).in_session(&id);
    let calls = (0..FLOOD + BEYOND).map(|n| format!(r#"{{"jsonrpc":"2.0","id":{n},"method":"wait"}}"#));
    let mut flood = server.open(&batch(calls.collect()));
    // Requests beyond the limit are refused with a `Retry-After`.
    let echo = |session: &str| server.answer(&call(session, "\"e\"", "echo", "{}"));
    // The whole flood comes first: a request that is being answered would take the place of one of it.
    thread::sleep(Duration::from_millis(300));
    wait_until(|| {
        thread::sleep(Duration::from_millis(10));
        is_busy(&echo(&id))
    });
    assert!(echo(&id).text().contains("the server is overloaded"));
    assert_eq!(
        server.answer(&TestRequest::post(PING).in_session(&other)).code(),
        200,
        "other clients are not concerned"
    );
    assert!(flood.is_silent());
    // Only the requests beyond the limit were refused. The others are cancelled and get no response.
    let cancelled = (0..FLOOD)
        .map(|n| format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{n}}}}}"#));
    assert_eq!(server.answer(&batch(cancelled.collect())).code(), 202);
    let refused = |n| {
        let error = r#"{"code":-32603,"message":"the server is overloaded; try again later"}"#;
        format!(r#"{{"jsonrpc":"2.0","id":{n},"error":{error}}}"#)
    };
    let refused: Vec<_> = (FLOOD..FLOOD + BEYOND).map(refused).collect();
    assert_eq!(flood.until(|sent| sent.is_over).text(), format!("[{}]", refused.join(",")));
    assert_eq!(echo(&id).text(), result("\"e\"", "{}"));
}

pub fn hm11_requests_of_one_id_that_stand_alone_each_get_their_own_answer(server: &RawClient) {
    let asked = |n: u32| TestRequest::stateless("1", "nap", &format!(r#""n":{n},"#));
    let mut open: Vec<_> = (0..3).map(|n| (n, server.open(&asked(n)))).collect();
    for (n, client) in &mut open {
        let text = client.until(|sent| sent.is_over).text();
        assert!(text.contains(&format!(r#""n":{n},"#)) && text.contains(r#""id":1,"#), "{text}");
    }
}

pub fn md_l_a_subscription_delivers_changes(server: &RawClient) {
    let listen = |id: &str, filter: &str| {
        server.open(&TestRequest::stateless(id, "subscriptions/listen", &format!(r#""notifications":{filter},"#)))
    };
    let (mut listening, mut silent) = (listen("1", r#"{"toolsListChanged":true}"#), listen("1", "{}"));
    assert!(listening.events(1)[0].contains("notifications/subscriptions/acknowledged"));
    assert_eq!(silent.events(1).len(), 1);
    assert_eq!(server.answer(&TestRequest::stateless("\"c\"", "change", "")).code(), 200);
    let events = listening.events(2);
    assert!(events[1].contains("notifications/tools/list_changed") && events[1].contains(r#"subscriptionId":1"#));
    assert!(silent.is_silent());
}

pub fn a_subscription_is_answered_by_the_server_and_delivers_changes(server: &RawClient) {
    let (id, other) = (server.session("2025-06-18"), server.session("2025-11-25"));
    let [mut own, mut silent] = [&id, &other].map(|id| {
        let mut stream = server.open(&TestRequest::get().in_session(id));
        stream.until(|sent| sent.code() == 200);
        stream
    });
    let filter = r#""notifications":{"resourceSubscriptions":["a:b"]},"#;
    let mut listening = server.open(&TestRequest::stateless("7", "subscriptions/listen", filter));
    assert_eq!(listening.events(1).len(), 1);
    let (resource, another) = (r#"{"uri":"a:b"}"#, r#"{"uri":"c:d"}"#);
    let ask = |method: &str, params: &str| server.answer(&call(&id, "1", method, params)).text();
    assert!(ask("resources/subscribe", "{}").contains("\"code\":-32602"));
    assert_eq!(ask("resources/subscribe", resource), result("1", "{}"));
    for touched in [another, resource] {
        assert_eq!(ask("touch", touched), result("1", "{}"));
    }
    assert_eq!(
        own.events(1),
        [r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}"#]
    );
    assert!(listening.events(2)[1].contains(r#""uri":"a:b""#));
    assert_eq!(ask("resources/unsubscribe", resource), result("1", "{}"));
    assert_eq!(ask("touch", resource), result("1", "{}"));
    assert_eq!((listening.events(3).len(), own.events(1).len()), (3, 1), "it is not subscribed any more");
    assert!(silent.is_silent());
}

pub fn mr1_mr4_md_i_input_is_required_in_both_eras_alike(server: &RawClient) {
    let answer = r#"{"action":"accept"}"#;
    let elicits = |body: String| body.replace("apabilities\":{}", r#"apabilities":{"elicitation":{}}"#);
    let ask = |members: &str| {
        let body = elicits(modern("1", "tools/call", &format!(r#""name":"who",{members}"#)));
        server
            .answer(&TestRequest::post(body).repeating_headers("2026-07-28", "tools/call").with("mcp-name", "who"))
            .text()
    };
    let required = ask("");
    assert!(required.contains(r#""resultType":"input_required""#), "{required}");
    let state = required.split(r#""requestState":""#).nth(1).and_then(|rest| rest.split('"').next()).expect("a state");
    let retry = |state: &str| ask(&format!(r#""inputResponses":{{"who":{answer}}},"requestState":"{state}","#));
    let given = format!(r#""who":{answer}"#);
    assert!(retry(state).contains(&given));
    // A `requestState` that was altered is refused (MR1).
    assert!(retry(&format!("{state}A")).contains("\"code\":-32602"));

    let opened = server.answer(&TestRequest::post(elicits(initialize("2025-11-25"))));
    let id = opened.headers["mcp-session-id"].to_str().expect("text").to_owned();
    let confirmed = TestRequest::post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).in_session(&id);
    assert_eq!(server.answer(&confirmed).code(), 202);
    let mut calling = server.open(&call(&id, "7", "tools/call", r#"{"name":"who"}"#));
    assert!(calling.events(1)[0].contains("elicitation/create"));
    assert_eq!(server.answer(&TestRequest::post(result("1", answer)).in_session(&id)).code(), 202);
    assert!(calling.until(|sent| sent.is_over).data()[1].contains(&given));
}

pub fn b9_a_client_that_disconnects_at_any_byte_disturbs_no_other(server: &RawClient) {
    let id = server.session("2025-11-25");
    for asked in [
        call(&id, "1", "echo", "{}"),
        call(&id, "2", "count", WITH_PROGRESS),
        TestRequest::get().in_session(&id),
        TestRequest::stateless("3", "echo", ""),
    ] {
        let request = text(&asked);
        // Cutting at every byte would take long: this cuts at every 11th byte, and after the whole request.
        for at in (1..request.len()).step_by(11).chain([request.len()]) {
            server.connect().write(&request[..at]);
        }
    }
    assert_eq!(server.answer(&call(&id, "4", "echo", "{}")).text(), result("4", "{}"));
    assert_eq!(server.answer(&TestRequest::stateless("5", "echo", "")).code(), 200);
}

pub fn a_client_that_does_not_read_delays_no_other(server: &RawClient) {
    let (id, other) = (server.session("2025-06-18"), server.session("2025-06-18"));
    let _unread = server.open(&call(&id, "1", "flood", "{}"));
    for n in 0..50 {
        let n = n.to_string();
        for session in [&id, &other] {
            assert_eq!(server.answer(&call(session, &n, "echo", "{}")).text(), result(&n, "{}"));
        }
    }
}

pub fn hm10_a_client_that_goes_behind_a_pipelined_byte_has_cancelled(server: &RawClient) {
    let mut waiting = as_many_as_may_wait(server, || {
        let mut client = server.connect();
        client.ask(&TestRequest::stateless("1", "wait", ""));
        client
    });
    for client in &mut waiting {
        client.write(b"G");
    }
    thread::sleep(Duration::from_millis(100));
    assert!(waiting.iter_mut().all(RawConnection::is_silent));
    drop(waiting.pop());
    // A request whose client has disconnected is served no longer.
    wait_until(|| server.answer(&TestRequest::stateless("1", "echo", "")).code() == 200);
}

/// Scripts and `nc -N` do so after a whole request.
pub fn a_client_that_ends_its_sending_side_receives_its_response(server: &RawClient) {
    let id = server.session("2025-06-18");
    for (asked, expected) in [
        (call(&id, "1", "echo", r#"{"x":1}"#), result("1", r#"{"x":1}"#)),
        (call(&id, "1", "pause", r#"{"x":1}"#), result("1", r#"{"x":1}"#)),
        (call(&id, "1", "count", WITH_PROGRESS), r#""counted":3"#.to_owned()),
        (TestRequest::stateless("1", "pause", ""), r#""result":{"#.to_owned()),
    ] {
        for _ in 0..3 {
            let mut client = server.open(&asked);
            client.end_sending();
            let sent = client.until(|sent| sent.is_over);
            assert!(sent.code() == 200 && sent.text().contains(&expected), "{asked:?}: {sent:?}");
        }
    }
    // A stream without an end, and one that waits for what the client sends on another connection.
    let mut stream = server.open(&TestRequest::get().in_session(&id));
    stream.end_sending();
    stream.until(|sent| sent.code() == 200);
    let mut asking = server.open(&call(&id, "1", "ask", "{}"));
    asking.end_sending();
    let question = asking.events(1).remove(0);
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(server.answer(&call(&id, "2", "change", "{}")).code(), 200);
    assert!(stream.events(1)[0].contains("list_changed"));
    let question = question.split_once(r#""id":"#).expect("an id").1;
    let number: String = question.chars().take_while(|c| !matches!(c, ',' | '}')).collect();
    let answered = server.answer(&TestRequest::post(result(&number, r#"{"action":"accept"}"#)).in_session(&id));
    assert_eq!(answered.code(), 202);
    assert!(asking.until(|sent| sent.is_over).text().contains(&result("1", r#"{"action":"accept"}"#)));
}

pub fn hm10_a_client_that_goes_after_it_has_ended_its_sending_side_has_cancelled(server: &RawClient) {
    let mut waiting = as_many_as_may_wait(server, || server.open(&TestRequest::stateless("1", "wait", "")));
    waiting.iter().for_each(RawConnection::end_sending);
    // The server has found out that they read.
    for client in &mut waiting {
        assert!(client.read_part().starts_with("HTTP/1.1 100 "), "a client has been given up");
    }
    drop(waiting.pop());
    // A request whose client has disconnected is served no longer.
    wait_until(|| server.answer(&TestRequest::stateless("1", "echo", "")).code() == 200);
    for client in &mut waiting {
        assert!(client.read_part().starts_with("HTTP/1.1 100 "), "a client has been given up");
    }
}

/// Bodies whose end is ambiguous. Another reader could take the bytes that follow for a request.
const BROKEN_BODIES: &[&str] = &[
    "2\n{}\r\n0\r\n\r\n",
    "2;x\n{}\r\n0\r\n\r\n",
    "2;x=\"\n\"\r\n{}\r\n0\r\n\r\n",
    "2\r\n{}\n0\r\n\r\n",
    "2\r\n{}\r\n0\n\r\n",
    "2\r\n{}\r\n0\r\n\n",
    "2\r\n{}x\r\n0\r\n\r\n",
    "3\r\n{}\r\n0\r\n\r\n",
    "0x2\r\n{}\r\n0\r\n\r\n",
    "+2\r\n{}\r\n0\r\n\r\n",
    "-2\r\n{}\r\n0\r\n\r\n",
    "\r\n{}\r\n0\r\n\r\n",
    "10000000000000002\r\n{}\r\n0\r\n\r\n",
];

pub fn or7_what_follows_a_broken_body_is_no_request(server: &RawClient) {
    let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\naccept: */*\r\ncontent-type: application/json\r\n";
    // The first gets a 404 if it is taken for a request. The second closes a connection that is still open.
    let next = "GET /evil HTTP/1.1\r\nhost: localhost\r\n\r\nPUT /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let fields = [
        "transfer-encoding: chunked, identity\r\n",
        "transfer-encoding: xchunked\r\n",
        "transfer-encoding : chunked\r\n",
        "content-length: 2\r\ncontent-length: 3\r\n",
        "content-length: +2\r\n",
        "content-length: 2, 3\r\n",
    ];
    let bodies = BROKEN_BODIES.iter().map(|body| format!("{head}transfer-encoding: chunked\r\n\r\n{body}{next}"));
    let heads = fields.iter().map(|fields| format!("{head}{fields}\r\n2\r\n{{}}\r\n0\r\n\r\n{next}"));
    for text in bodies.chain(heads) {
        let answers = server.raw(text.as_bytes());
        assert!(!answers.contains("HTTP/1.1 404 "), "{text:?}: {answers}");
        assert!(answers.starts_with("HTTP/1.1 400 ") || answers.starts_with("HTTP/1.1 501 "), "{text:?}: {answers}");
    }
}

pub fn or2_no_continue_is_sent_for_refused_requests(server: &RawClient) {
    let ask = |version: &str, host: &str| {
        let mut client = server.connect();
        let head =
            format!("POST /mcp HTTP/{version}\r\nhost: {host}\r\naccept: */*\r\ncontent-type: application/json\r\n");
        client
            .write(format!("{head}expect: 100-continue\r\nconnection: close\r\ncontent-length: 2\r\n\r\n").as_bytes());
        thread::sleep(Duration::from_millis(100));
        client.write(b"{}");
        client.rest()
    };
    let fine = ask("1.1", "localhost");
    assert!(fine.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 400 "), "{fine}");
    let refused = ask("1.1", "evil.example");
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    let old = ask("1.0", "localhost");
    assert!(old.starts_with("HTTP/1.") && old.contains(" 400 ") && !old.contains("Continue"), "{old}");
}

/// Leaves large responses unread; the server must still end in time.
pub fn fr14_a_server_ends_in_time_whatever_its_clients_read(server: &RawClient) -> Vec<RawConnection> {
    let (id, other) = (server.session("2025-06-18"), server.session("2025-06-18"));
    let mut held = Vec::new();
    for method in ["large", "flood"] {
        let ask = |number: u32| server.open(&call(&id, &number.to_string(), method, "{}"));
        // The four clients read nothing, one byte per second, 100 kB and then nothing, and disconnect at once.
        held.push(ask(1));
        ask(2).read_slowly();
        let mut halfway = ask(3);
        halfway.read_bytes(100_000);
        held.push(halfway);
        drop(ask(4));
    }
    for n in 0..20 {
        let n = n.to_string();
        assert_eq!(server.answer(&call(&other, &n, "echo", "{}")).text(), result(&n, "{}"));
    }
    held
}

/// Whether the server refuses a request because it is busy. Such a response has a `Retry-After`.
fn is_busy(sent: &TestResponse) -> bool {
    assert!(sent.code() == 200 || sent.code() == 503, "{sent:?}");
    assert!(sent.code() == 200 || sent.headers.contains_key("retry-after"), "{sent:?}");
    sent.code() == 503
}

/// `shut_down` begins to stop the server, with more time than this scenario takes.
pub fn a_server_that_is_shut_down_answers_what_is_in_progress(server: &RawClient, shut_down: impl FnOnce()) {
    let id = server.session("2025-11-25");
    let mut idle = server.connect();
    idle.write(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert_eq!(idle.until(|sent| sent.is_over).code(), 404);
    let mut opened = server.open(&TestRequest::get().in_session(&id));
    assert_eq!(opened.until(|sent| sent.code() != 0).code(), 200);
    let mut asked = served(server, &id, "1");
    shut_down();
    // The idle connection and the stream of the session are closed; the call goes on.
    opened.rest();
    idle.rest();
    assert!(asked.is_silent());
    let refused = server.answer(&call(&id, "2", "echo", "{}"));
    assert!(refused.code() == 503 && refused.headers.contains_key("retry-after"), "{refused:?}");
    assert!(refused.text().contains(r#""id":2,"error":{"code":-32603"#), "{}", refused.text());
    let question = asked.events(1).swap_remove(0);
    let question = mcp_proto::Json::parse(question).unwrap().member("id").unwrap().unwrap();
    let answer = result(&question.to_text(), r#"{"action":"decline"}"#);
    assert_eq!(server.answer(&TestRequest::post(answer).in_session(&id)).code(), 202);
    let sent = asked.until(|sent| sent.is_over).data();
    assert_eq!(sent.last(), Some(&result("1", r#"{"action":"decline"}"#)));
}

/// `shut_down` begins to stop the server, with little time.
pub fn a_server_that_is_shut_down_cancels_what_takes_too_long(server: &RawClient, shut_down: impl FnOnce()) {
    let id = server.session("2025-11-25");
    let mut asked = served(server, &id, "1");
    shut_down();
    let sent = asked.until(|sent| sent.is_over).data();
    assert!(sent.last().is_some_and(|last| last.contains(r#""id":1,"error":{"code":-32603"#)), "{sent:?}");
}

pub fn connections_without_requests_make_room(server: &RawClient) {
    // Some connections have sent nothing, some the beginning of a request, some a whole request that was answered.
    let text = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for sent in ["", "GET / HT", text] {
        let idle: Vec<_> = (0..CONNECTIONS * 2)
            .map(|position| {
                if position == CONNECTIONS {
                    // A connection is idle a moment after its client has the answer. Until then, it is not the one that was
                    // idle longest.
                    thread::sleep(Duration::from_millis(200));
                }
                let mut client = server.connect();
                client.write(sent.as_bytes());
                if sent == text {
                    assert_eq!(client.until(|sent| sent.code() != 0).code(), 404);
                }
                client
            })
            .collect();
        let id = server.session("2025-06-18");
        assert_eq!(server.answer(&call(&id, "1", "echo", "{}")).text(), result("1", "{}"), "{sent:?}");
        // The connections that were idle longest are closed before their own timeout.
        for mut client in idle.into_iter().take(CONNECTIONS) {
            client.rest();
        }
    }
}

pub fn streams_that_are_held_block_no_other_client(server: &RawClient) {
    let listen = TestRequest::stateless("1", "subscriptions/listen", r#""notifications":{"toolsListChanged":true},"#);
    let mut held = Vec::new();
    let mut refused = 0;
    for n in 0..CONNECTIONS * 2 {
        let asked =
            if n % 2 == 0 { listen.clone() } else { TestRequest::get().in_session(&server.session("2025-06-18")) };
        let mut stream = server.open(&asked);
        if is_busy(&stream.until(|sent| sent.code() != 0)) {
            refused += 1;
            stream.rest();
        } else {
            held.push(stream);
        }
    }
    assert_eq!(refused, CONNECTIONS * 2 - CONNECTIONS / 2 - CONNECTIONS / 4);
    let id = server.session("2025-06-18");
    assert_eq!(server.answer(&call(&id, "1", "echo", "{}")).text(), result("1", "{}"));
    // A client at another address gets its share at once.
    for asked in [listen, TestRequest::get().in_session(&id)] {
        let mut other = server.connect_from([127, 0, 0, 2].into());
        other.ask(&asked);
        assert_eq!(other.until(|sent| sent.code() != 0).code(), 200);
    }
}

pub fn with_all_connections_in_use_clients_are_refused_with_a_status(server: &RawClient) {
    let id = server.session("2025-06-18");
    let mut busy: Vec<_> = (0..CONNECTIONS).map(|n| served(server, &id, &n.to_string())).collect();
    assert!(is_busy(&server.answer(&TestRequest::post(PING).in_session(&id))));
    drop(busy.pop());
    // The server detects soon that the client has disconnected.
    let free = (0..200).any(|_| {
        thread::sleep(Duration::from_millis(50));
        !is_busy(&server.answer(&TestRequest::post(PING).in_session(&id)))
    });
    assert!(free);
    assert!(busy.iter_mut().all(|client| client.events(1).len() == 1), "the others are served");
}

pub fn connections_beyond_all_limits_are_refused_with_a_status(server: &RawClient) {
    let id = server.session("2025-06-18");
    let mut busy: Vec<_> = (0..CONNECTIONS).map(|n| served(server, &id, &n.to_string())).collect();
    // More connections than the server reads requests from. They send nothing, a part of a request, or a whole one.
    let ping = mcp_testkit::raw_client::text(&TestRequest::post(PING).in_session(&id));
    let crowd: Vec<_> = (0..120)
        .map(|n| {
            let mut client = server.connect();
            client.write([&[], &ping[..20], &ping[..]][n % 3]);
            client
        })
        .collect();
    for mut client in crowd {
        let answer = client.rest();
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("retry-after: 5\r\n"), "{answer}");
        let (head, body) = answer.split_once("\r\n\r\n").expect("the end of the head");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{answer}");
    }
    assert!(busy.iter_mut().all(|client| client.events(1).len() == 1), "the others are served");
}

pub fn a_head_that_never_ends_is_answered_with_408(server: &RawClient) {
    for sent in ["G", "POST /mcp HTTP/1.1\r\nhost: localhost\r\nx: "] {
        let mut client = server.connect();
        client.write(sent.as_bytes());
        let ends = (0..1000).any(|_| {
            client.write(b"y");
            thread::sleep(Duration::from_millis(20));
            !client.is_silent()
        });
        assert!(ends, "{sent:?}");
        let answer = client.rest();
        assert!(answer.starts_with("HTTP/1.1 408 "), "{sent:?}: {answer}");
    }
    // A connection that is idle between requests is not answered with a 408, because there is no request.
    let mut idle = server.connect();
    thread::sleep(HEAD_TIME * 3);
    assert!(idle.is_silent());
    idle.write(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    assert!(idle.rest().starts_with("HTTP/1.1 404 "));
}

/// Bytes of the result of `large`.
const LARGE: usize = 12_000_000;

pub fn what_clients_do_not_take_is_bounded_in_sum_and_ends_in_time(server: &RawClient) {
    let id = server.session("2025-06-18");
    let large = |n: usize| call(&id, &n.to_string(), "large", "{}");
    let mut unread = server.open(&large(1));
    // The response has begun, and the rest of it is buffered until the client reads.
    unread.read_bytes(1000);
    let refused = server.answer(&large(2)).text().contains(r#""code":-32603"#);
    // On a slow machine, the unread response may have reached its time limit, which frees its room.
    assert!(refused || unread.is_closed());
    let echoed = server.answer(&call(&id, "3", "echo", r#"{"x":1}"#));
    assert_eq!(echoed.text(), result("3", r#"{"x":1}"#));
    // Then the connection of the unread response is closed, which frees its room.
    let is_served = (4..200).any(|n| {
        thread::sleep(Duration::from_millis(50));
        server.open(&large(n)).count_rest() > LARGE
    });
    assert!(is_served);
    let taken = unread.count_rest();
    assert!(taken < LARGE, "{taken}");
}

pub fn a_client_that_takes_its_answer_slowly_gets_all_of_it(server: &RawClient) {
    const STEPS: u32 = 10;
    let id = server.session("2025-06-18");
    let mut slow = server.open(&call(&id, "1", "large", "{}"));
    for _ in 0..STEPS {
        thread::sleep(UNREAD_TIME / 5);
        slow.read_bytes(LARGE / STEPS as usize);
    }
    assert!(slow.count_rest() > 0);
}

pub fn a_stream_that_is_not_taken_ends_in_time(server: &RawClient) {
    let id = server.session("2025-06-18");
    let mut unread = server.open(&call(&id, "1", "flood", "{}"));
    unread.read_bytes(1000);
    thread::sleep(UNREAD_TIME / 2);
    let echoed = server.answer(&call(&id, "2", "echo", "{}"));
    assert_eq!(echoed.text(), result("2", "{}"));
    // The client reads nothing until the server has closed the connection.
    let is_closed = (0..200).any(|_| {
        thread::sleep(Duration::from_millis(50));
        unread.is_closed()
    });
    assert!(is_closed);
    assert!(unread.count_rest() < 100_000_000);
}

/// Closing a socket with unread bytes could destroy the response on its way, so the server keeps reading for a moment.
pub fn b16_a_refused_client_may_continue_writing_for_a_moment(server: &RawClient) {
    let id = server.session("2025-06-18");
    let goes_on = |mut client: RawConnection, code| {
        assert_eq!(client.until(|sent| sent.code() != 0).code(), code);
        for _ in 0..4 {
            assert!(!client.is_closed(), "{code}");
            thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(client.rest().matches("HTTP/1.1 ").count(), 1, "{code}");
    };
    let mut late = server.connect();
    late.write(b"POST /mcp HTTP/1.1\r\nx: ");
    goes_on(late, 408);
    let busy: Vec<_> = (0..CONNECTIONS).map(|n| served(server, &id, &n.to_string())).collect();
    goes_on(server.open(&TestRequest::post(PING).in_session(&id)), 503);
    drop(busy);
}
