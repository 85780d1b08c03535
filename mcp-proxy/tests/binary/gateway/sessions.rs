//! Sessions and their processes.

use std::thread;

use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_testkit::messages::request;
use mcp_testkit::waiting::wait_until;
use tests::ending_servers::runs;

use super::serving::{Asks, ENDED, Serving, before, member};

#[test]
fn br_t_06_each_session_has_a_process_or_all_share_one() {
    for (share, processes) in [("session", 2), ("all", 1)] {
        let serving = Serving::start(&["--share", share]);
        let (a, b) = (serving.session(), serving.session());
        let pids = [a.pid(), b.pid(), a.pid(), b.pid()];
        assert_eq!((pids[0], pids[1]), (pids[2], pids[3]), "{share}");
        assert_eq!(pids[0] == pids[1], processes == 1, "{share}");
        assert_eq!(serving.load(), (2, processes), "{share}");
        a.delete();
        assert_eq!(b.pid(), pids[1], "{share}");
        if processes == 2 {
            wait_until(|| !runs(pids[0]));
            serving.wait_for_load((1, 1));
        }
        assert_eq!(serving.end("TERM").0, ENDED, "{share}");
        assert!(!runs(pids[1]), "{share}");
    }
}

#[test]
fn sessions_of_one_user_share_a_process_that_is_told_who_it_is() {
    let options =
        ["--share", "principal", "--user-env", "MCP_USER", "--token-env", "ada=TOKEN_A", "--token-env", "bob=TOKEN_B"];
    let mut command = before(&[&["--health"], &options[..]].concat(), super::serving::SERVER);
    command.envs([("TOKEN_A", "token-of-ada"), ("TOKEN_B", "token-of-bob"), ("MCP_USER", "inherited")]);
    let serving = Serving::spawn(command);
    let open = |token| serving.open(Asks::with(token)).unwrap();
    let sessions = ["token-of-ada", "token-of-ada", "token-of-bob"].map(open);
    let [first, second, third] = sessions.each_ref().map(|session| session.call("pid"));
    assert_eq!(first, second);
    assert_eq!([&first, &third].map(|answer| member(answer, "user")), ["ada", "bob"]);
    assert_ne!(member(&first, "pid"), member(&third, "pid"));
    assert_eq!(serving.load(), (3, 2));
    // A session belongs to its user (SE-02).
    let stolen = TestRequest::post(request("1", "pid", "{}")).in_session(&sessions[0].id);
    let stolen = serving.raw.answer(&Asks::with("token-of-bob").request(stolen));
    assert_eq!(stolen.code(), 404, "{}", stolen.text());
}

#[test]
fn a_client_that_vanishes_in_a_call_keeps_its_session_until_it_is_idle() {
    let serving = Serving::start(&["--session-idle", "2", "--request-timeout", "3"]);
    let (a, b) = (serving.session(), serving.session());
    let (of_a, of_b) = (a.pid(), b.pid());
    let call = serving.raw.open(&a.post(&request("8", "wait", "{}")));
    serving.wait_for_error("waits");
    drop(call);
    assert_eq!(b.pid(), of_b);
    assert_eq!(a.pid(), of_a, "the session continues");
    serving.wait_for_load((0, 0));
    assert!(!runs(of_a) && !runs(of_b));
    let (code, errors) = serving.end("INT");
    assert_eq!(code, ENDED, "{errors}");
}

#[test]
fn a_stream_can_be_opened_again_and_twice_without_the_loss_of_its_session() {
    let serving = Serving::start(&[]);
    let session = serving.session();
    let pid = session.pid();
    let get = || {
        let mut stream = serving.raw.open(&TestRequest::get().in_session(&session.id));
        (stream.until(|sent| sent.code() > 0).code(), stream)
    };
    for _ in 0..3 {
        // The connection of the stream before may be known to be closed only after a moment.
        let open = std::cell::RefCell::new(None);
        wait_until(|| {
            let (code, stream) = get();
            *open.borrow_mut() = Some(stream);
            code == 200
        });
        assert_eq!(get().0, 409, "a session has one stream of its own (SE7)");
        assert_eq!(session.pid(), pid);
    }
    assert_eq!(serving.load(), (1, 1));
}

/// Clients that never end their sessions, such as those that are killed.
#[test]
fn a_thousand_sessions_stay_within_the_limits() {
    let serving = Serving::start(&["--max-sessions", "12", "--max-backends", "10"]);
    let opened = thread::scope(|scope| {
        let clients: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let codes =
                        (0..125).map(|_| serving.raw.answer(&TestRequest::post(initialize("2025-11-25"))).code());
                    let codes: Vec<_> = codes.collect();
                    assert!(codes.iter().all(|code| [200, 503].contains(code)), "{codes:?}");
                    codes.iter().filter(|code| **code == 200).count()
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum::<usize>()
    });
    assert_eq!(opened, 10);
    assert_eq!(serving.load(), (10, 10));
    let (code, _) = serving.end("TERM");
    assert_eq!(code, ENDED);
}

#[test]
fn a_client_that_does_not_read_holds_up_no_other() {
    let serving = Serving::start(&[]);
    let (a, b) = (serving.session(), serving.session());
    let unread: Vec<_> = (0..8).map(|_| serving.raw.open(&a.post(&request("8", "flood", "{}")))).collect();
    let pid = b.pid();
    for _ in 0..20 {
        assert_eq!(b.pid(), pid);
    }
    for mut conversation in unread {
        let answer = conversation.until(|sent| sent.is_over);
        assert!(answer.code() == 200 && answer.body.len() > 1 << 20);
    }
}

#[test]
fn a_server_that_does_not_read_holds_up_no_other_and_is_written_only_what_it_may_hold() {
    let serving = Serving::start(&[]);
    let (a, b) = (serving.session(), serving.session());
    let sleeping = serving.raw.open(&a.post(&request("8", "sleep", "{}")));
    serving.wait_for_error("sleeps");
    let large = request("9", "pid", &format!(r#"{{"text":"{}"}}"#, "x".repeat(4 << 20)));
    let mut calls: Vec<_> = (0..96).map(|_| serving.raw.open(&a.post(&large))).collect();
    let pid = b.pid();
    // Of 384 MiB, the gateway holds a part, and refuses the others.
    let refused = calls.iter_mut().filter_map(|call| (!call.is_silent()).then(|| call.until(|sent| sent.is_over)));
    for answer in refused {
        assert!(answer.text().contains(r#""error":"#), "{}", answer.text());
    }
    assert_eq!(b.pid(), pid);
    // `Limits::held` counts the bytes of bodies, 64 MiB. Their buffers have up to twice that while they grow, and 16 MiB
    // wait for the server. The allocator adds to this.
    #[cfg(target_os = "linux")]
    assert!(serving.proxy.peak_memory() < 192 << 10, "{} KiB", serving.proxy.peak_memory());
    let (code, errors) = serving.end("TERM");
    assert_eq!(code, ENDED, "{errors}");
    drop((sleeping, calls));
}

#[test]
fn silent_streams_have_no_thread_and_one_too_many_is_refused_with_the_name_of_the_limit() {
    let serving = Serving::start(&["--share", "all", "--max-connections", "20"]);
    let sessions: Vec<_> = (0..11).map(|_| serving.session()).collect();
    let asked = |number: usize| TestRequest::get().in_session(&sessions[number].id);
    let open = |number| {
        let mut stream = serving.raw.open(&asked(number));
        assert_eq!(stream.until(|sent| sent.code() != 0).code(), 200, "{number}");
        stream
    };
    let mut streams: Vec<_> = (0..10).map(open).collect();
    let refused = serving.raw.answer(&asked(10));
    assert_eq!(refused.code(), 503);
    assert!(refused.text().contains("half of max_connections"), "{}", refused.text());
    #[cfg(target_os = "linux")]
    wait_until(|| {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", serving.id())).unwrap();
        let mut names = tasks.flatten().map(|task| std::fs::read_to_string(task.path().join("comm")));
        !names.any(|name| name.is_ok_and(|name| name.trim_end() == "mcp-connection"))
    });
    let left = streams.remove(0);
    drop(left);
    wait_until(|| {
        let mut stream = serving.raw.open(&asked(10));
        let is_open = stream.until(|sent| sent.code() != 0).code() == 200;
        is_open && stream.is_silent()
    });
    if !cfg!(windows) {
        let (code, errors) = serving.end("TERM");
        assert_eq!(code, ENDED, "{errors}");
        for stream in &mut streams {
            assert!(stream.rest().ends_with("0\r\n\r\n"));
        }
    }
}

/// Connections without a request, as a machine leaves behind that was cut off from the network.
#[test]
fn connections_without_requests_make_room_and_one_too_many_is_refused_with_503() {
    let serving = Serving::start(&["--max-connections", "4"]);
    let silent: Vec<_> = (0..20).map(|_| serving.raw.connect()).collect();
    let session = serving.session();
    drop(silent);
    let calls: Vec<_> = (0..4).map(|_| serving.raw.open(&session.post(&request("8", "wait", "{}")))).collect();
    for _ in 0..4 {
        serving.wait_for_error("waits");
    }
    let refused = serving.raw.answer(&session.post(&request("9", "pid", "{}")));
    assert_eq!(refused.code(), 503, "{}", refused.text());
    drop(calls);
    wait_until(|| serving.raw.answer(&session.post(&request("9", "pid", "{}"))).code() == 200);
}

/// The shell sets the limit, and the gateway takes its place.
#[cfg(target_os = "linux")]
#[test]
fn the_limit_of_descriptors_is_raised_for_the_connections_or_a_line_says_that_it_cannot_be() {
    for (limit, is_enough) in [("-S -n 100", true), ("-n 100", false)] {
        let gateway = before(&["--max-connections", "1000", "--health"], super::serving::SERVER);
        let mut command = std::process::Command::new("sh");
        command.arg("-c").arg(format!("ulimit {limit}; exec \"$0\" \"$@\"")).arg(gateway.get_program());
        command.args(gateway.get_args()).stdin(std::process::Stdio::null());
        for (name, value) in gateway.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let serving = Serving::spawn_after_warnings(command);
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", serving.id())).unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
        let soft: u32 = line.split_whitespace().nth(3).unwrap().parse().unwrap();
        assert_eq!(soft > 1000, is_enough, "{line}");
        let warned =
            serving.warnings.iter().any(|line| line.contains("--max-connections 1000 needs more file descriptors"));
        assert_eq!(warned, !is_enough, "{:?}", serving.warnings);
    }
}
