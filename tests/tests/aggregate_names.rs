//! The names of tools and prompts of an aggregate whose servers have other prefixes than their names, or none.

use std::time::Duration;

use mcp_intermediary::aggregate::{Event, Prefix};
use mcp_proto::{Json, Method, ProtocolVersion};
use tests::aggregate::{AggregateHarness, Offer, names};

const LEGACY: &[ProtocolVersion] = &[ProtocolVersion::V2025_11_25];
const MODERN: &[ProtocolVersion] = &[ProtocolVersion::V2026_07_28];
/// The revisions of the client and of the servers.
const ERAS: [(&[ProtocolVersion], &[ProtocolVersion]); 4] =
    [(LEGACY, LEGACY), (LEGACY, MODERN), (MODERN, MODERN), (MODERN, LEGACY)];

/// How long the client waits for one server.
const WAIT: Duration = Duration::from_secs(5);

fn text(prefix: &str) -> Prefix {
    Prefix::Text(prefix.into())
}

/// An aggregate of servers with these names, prefixes and tools.
fn with(
    client: &[ProtocolVersion],
    versions: &[ProtocolVersion],
    servers: &[(&str, Prefix, &[&str])],
    change: impl Fn(usize, &mut Offer),
) -> AggregateHarness {
    let offers = servers.iter().enumerate().map(|(index, (name, _, tools))| {
        let mut offer = Offer::new(versions, tools);
        change(index, &mut offer);
        (*name, offer)
    });
    let offers: Vec<_> = offers.collect();
    AggregateHarness::with(client, &offers, |config| {
        for (server, (_, prefix, _)) in config.servers.iter_mut().zip(servers) {
            server.prefix = prefix.clone();
        }
    })
}

/// The pairs of servers with the same names in this list: the owner, and the other one.
fn same_names(harness: &AggregateHarness, of_list: &Method) -> Vec<(usize, usize)> {
    let pairs = harness.events.iter().filter_map(|event| match event {
        Event::SameName { owner, other, method } if method == of_list => Some((owner.index(), other.index())),
        _ => None,
    });
    pairs.collect()
}

/// The number of calls that each server has received.
fn calls(harness: &AggregateHarness) -> Vec<usize> {
    harness.servers.iter().map(|server| server.called().len()).collect()
}

#[test]
fn tools_and_prompts_have_the_prefixes_of_the_configuration_or_none() {
    for (client, versions) in ERAS {
        let servers = [
            ("files", Prefix::Off, &["read", "ask"][..]),
            ("github", text("gh"), &["x", "ask"]),
            ("mail", Prefix::ServerName, &["x"]),
        ];
        let mut harness = with(client, versions, &servers, |_, _| {});
        assert_eq!(harness.tools(), ["read", "ask", "gh__x", "gh__ask", "mail__x"], "{client:?} {versions:?}");
        let list = harness.ask("prompts/list", "{}").expect("a list");
        assert_eq!(names(&list, "prompts", "name"), ["p", "gh__p", "mail__p"]);
        for (tool, answer) in [("read", "files read {}"), ("gh__x", "github x {}"), ("mail__x", "mail x {}")] {
            assert_eq!(harness.call(tool, "{}").as_deref(), Ok(answer));
        }
        for unknown in ["x", "github__x", "gh__", "other"] {
            let before = calls(&harness);
            let answer = harness.call(unknown, "{}");
            assert!(answer.is_err() || unknown == "gh__", "{unknown}: {answer:?}");
            assert!(unknown == "gh__" || calls(&harness) == before, "no server was asked: {unknown}");
        }
        for (prompt, server) in [("p", "files"), ("gh__p", "github"), ("mail__p", "mail")] {
            let got = harness.ask("prompts/get", &format!(r#"{{"name":"{prompt}"}}"#)).expect("a prompt");
            assert!(got.contains(&format!(r#""text":"{server} p""#)), "{got}");
            let reference = format!(r#"{{"type":"ref/prompt","name":"{prompt}"}}"#);
            let params = format!(r#"{{"ref":{reference},"argument":{{"name":"n","value":"v"}}}}"#);
            let completed = harness.ask("completion/complete", &params).expect("a completion");
            assert!(completed.contains(&format!(r#""values":["{server}"]"#)), "{completed}");
        }
        // The state of a call that waits for input has its way back to the server without a prefix.
        for (tool, server) in [("ask", "files"), ("gh__ask", "github")] {
            assert_eq!(harness.call(tool, "{}"), Ok(format!("{server} true")), "{client:?} {versions:?}");
        }
        assert_eq!(same_names(&harness, &Method::TOOLS_LIST), []);
    }
}

#[test]
fn of_servers_without_a_prefix_the_first_has_a_name_and_both_are_reported_once() {
    for (client, versions) in ERAS {
        let servers = [("b", Prefix::Off, &["x", "y"][..]), ("a", Prefix::Off, &["x", "z"])];
        let mut harness = with(client, versions, &servers, |_, _| {});
        for _ in 0..3 {
            assert_eq!(harness.tools(), ["x", "y", "z"]);
            let list = harness.ask("prompts/list", "{}").expect("a list");
            assert_eq!(names(&list, "prompts", "name"), ["p"]);
        }
        assert_eq!(harness.call("x", "{}"), Ok("b x {}".into()));
        assert_eq!(harness.call("a__x", "{}"), Ok("a x {}".into()), "its tag is its prefix, too");
        for list in [Method::TOOLS_LIST, Method::PROMPTS_LIST] {
            assert_eq!(same_names(&harness, &list), [(0, 1)], "{list}");
        }
        // Another process may be another version, so that it is reported again.
        harness.exit(1);
        harness.pass(Duration::from_secs(3));
        assert_eq!(harness.tools(), ["x", "y", "z"]);
        assert_eq!(same_names(&harness, &Method::TOOLS_LIST), [(0, 1), (0, 1)]);
    }
}

#[test]
fn a_server_without_a_prefix_never_receives_the_calls_of_an_earlier_one() {
    for (client, versions) in ERAS {
        let servers = [("a", Prefix::Off, &["x"][..]), ("b", Prefix::Off, &["x", "y"])];
        let mut harness = with(client, versions, &servers, |_, _| {});
        assert_eq!(harness.tools(), ["x", "y"]);
        // While the first one is being started again, its name is that of no other server.
        harness.servers[0].offer.is_broken = true;
        harness.exit(0);
        for _ in 0..3 {
            let error = harness.call("x", "{}").expect_err("its server is not running");
            assert!(error.contains("the server 'a'"), "{error}");
            assert_eq!(harness.tools(), ["y"], "{client:?} {versions:?}");
            harness.pass(Duration::from_secs(1));
        }
        harness.servers[0].offer.is_broken = false;
        harness.pass(Duration::from_secs(40));
        assert_eq!(harness.call("x", "{}"), Ok("a x {}".into()));
        assert_eq!(harness.tools(), ["x", "y"]);
        // It lists the name no more.
        harness.servers[0].offer.tools = vec!["z".into()];
        harness.publish(0, &Method::TOOLS_LIST_CHANGED, "{}");
        assert_eq!(
            harness.call("x", "{}"),
            Ok("a x {}".into()),
            "what was listed earlier is valid until it is read again"
        );
        assert_eq!(harness.tools(), ["z", "x", "y"]);
        assert_eq!(harness.call("x", "{}"), Ok("b x {}".into()));
    }
}

#[test]
fn while_an_earlier_server_has_not_listed_its_names_a_later_one_appears_with_its_tag() {
    for (client, versions) in ERAS {
        for is_silent in [false, true] {
            let servers =
                [("a", Prefix::Off, &["x"][..]), ("b", Prefix::Off, &["x", "y"]), ("c", Prefix::ServerName, &["x"])];
            let mut harness = with(client, versions, &servers, |index, offer| {
                if index == 0 {
                    offer.is_silent = is_silent;
                    offer.silent_for = if is_silent { Vec::new() } else { vec!["tools/list"] };
                }
            });
            harness.pass(WAIT);
            if client == MODERN {
                let filter = Json::parse(r#"{"toolsListChanged":true}"#).expect("JSON");
                harness.client.listen(filter, harness.now).expect("a subscription");
                harness.settle();
            }
            assert_eq!(harness.read_to_end("tools/list", WAIT * 2).0, ["b__x", "b__y", "c__x"]);
            for name in ["x", "y", "other"] {
                let error = harness.call(name, "{}").expect_err("it may be that of the first server");
                assert!(error.contains("the server 'a' has not listed"), "{error}");
            }
            assert_eq!(harness.call("b__x", "{}"), Ok("b x {}".into()));
            assert_eq!(calls(&harness), [0, 1, 0]);
            harness.pass(Duration::from_secs(2));
            harness.notified.clear();
            if is_silent {
                harness.speak(0);
            } else {
                harness.answer_all(0);
            }
            harness.pass(Duration::from_secs(2));
            assert!(harness.take_notified(&Method::TOOLS_LIST_CHANGED) >= 1, "{client:?} {versions:?}");
            assert_eq!(harness.tools(), ["x", "y", "c__x"], "{client:?} {versions:?} {is_silent}");
            assert_eq!(harness.call("x", "{}"), Ok("a x {}".into()));
            assert_eq!(harness.call("y", "{}"), Ok("b y {}".into()));
        }
    }
}

#[test]
fn a_name_is_looked_up_at_the_servers_without_a_prefix_before_it_is_used() {
    for (client, versions) in ERAS {
        let servers =
            [("a", Prefix::Off, &["x"][..]), ("b", Prefix::Off, &["x", "y"]), ("c", Prefix::ServerName, &["x"])];
        let mut harness = with(client, versions, &servers, |_, _| {});
        // The client knows the names from an earlier session.
        for (name, answer) in [("x", "a x {}"), ("y", "b y {}")] {
            assert_eq!(harness.call(name, "{}").as_deref(), Ok(answer), "{client:?} {versions:?}");
        }
        let lists = |harness: &AggregateHarness| {
            let lists = |server: &tests::aggregate::TestServer| {
                server.requests.iter().filter(|(method, _)| method == "tools/list").count()
            };
            harness.servers.iter().map(lists).collect::<Vec<_>>()
        };
        assert_eq!(lists(&harness), [1, 1, 0], "each list is read once, and only of servers that may have the name");
        harness.call("nothing", "{}").expect_err("no server has it");
        assert_eq!(lists(&harness), [1, 1, 0], "all names are known");
    }
}

#[test]
fn a_server_without_a_prefix_cannot_have_a_name_with_the_prefix_of_another() {
    for (client, versions) in ERAS {
        let servers = [
            ("a", Prefix::Off, &["gh__x", "c__x", "own"][..]),
            ("github", text("gh"), &["y"]),
            ("c", Prefix::Off, &["x"]),
        ];
        let mut harness = with(client, versions, &servers, |_, _| {});
        assert_eq!(harness.tools(), ["own", "gh__y", "x"]);
        assert_eq!(same_names(&harness, &Method::TOOLS_LIST), [(1, 0), (2, 0)]);
        // The server with this prefix answers, although it does not list the name.
        assert_eq!(harness.call("gh__x", "{}"), Ok("github x {}".into()));
        assert_eq!(harness.call("c__x", "{}"), Ok("c x {}".into()));
        assert_eq!(calls(&harness), [0, 1, 1]);
    }
}

#[test]
fn a_server_without_tools_keeps_no_name_of_a_later_one() {
    for (client, versions) in ERAS {
        let servers = [("a", Prefix::Off, &[][..]), ("b", Prefix::Off, &["x"])];
        let mut harness = with(client, versions, &servers, |index, offer| {
            if index == 0 {
                offer.capabilities = r#"{"resources":{}}"#;
            }
        });
        assert_eq!(harness.call("x", "{}"), Ok("b x {}".into()));
        assert_eq!(harness.tools(), ["x"]);
    }
}
