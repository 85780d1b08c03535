//! Rules for resources hold for what servers read, however a URI is spelled.

use std::cell::Cell;

use mcp_intermediary::relay::{Config, Filter, Rule};
use mcp_proto::spec::Primitive;
use mcp_proto::{Era, Json};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tests::relay_pair::RelayPair;
use tests::uri_readers::{ALLOWING, DENYING, is_allowed, is_denied, is_unchanged, resources};

fn denying(patterns: &[&str]) -> Filter {
    let mut filter = Filter::new();
    for pattern in patterns {
        filter.add(Rule::deny(Primitive::Resource, pattern).expect("a pattern"));
    }
    filter
}

fn allowing(patterns: &[&str]) -> Filter {
    let mut filter = Filter::new();
    for pattern in patterns {
        filter.add(Rule::allow(Primitive::Resource, pattern).expect("a pattern"));
    }
    filter
}

fn allows(filter: &Filter, uri: &str) -> bool {
    filter.allows(Primitive::Resource, uri, None)
}

/// Pairs of all eras and transports with this filter.
fn pairs(filter: &Filter) -> Vec<RelayPair> {
    RelayPair::all(|config: &mut Config| config.filter = filter.clone())
}

/// A text as JSON.
fn quoted(text: &str) -> String {
    Json::from(text).to_text().into_owned()
}

/// What some server reads as a resource that these rules deny.
const DENIED: &[(&str, &[&str])] = &[
    (
        "file:///etc/*",
        &[
            "file:///etc/shadow",
            "file:/etc/shadow",
            "file:etc/shadow",
            "file://localhost/etc/shadow",
            " file:///etc/shadow",
            "\tfile:///etc/shadow",
            "\u{feff}file:///etc/shadow",
            "file:///etc/shadow ",
            "fi\tle:///etc/shadow",
            "fi\nle:///etc/shadow",
            "file:///e\ttc/shadow",
            "file:///et\nc/shadow",
            "file:///et\rc/shadow",
            "file:/\t/\n/etc/shadow",
            "file:/./etc/shadow",
            "file:///./etc/shadow",
            "file:///x/../etc/shadow",
            "file:///x/.\t./etc/shadow",
            "file:///%2e/etc/shadow",
            "file:///x/%2e%2E/etc/shadow",
            "file:///x/%2\te%2e/etc/shadow",
            "FILE:///etc/shadow",
            "File:///ETC/shadow",
            "file:///ETC/shadow",
            "file:////etc/shadow",
            "file:///etc//shadow",
            "file:///%65tc/shadow",
            "file:///etc%2Fshadow",
            "file:///etc%2fshadow",
            "file:///%2Fetc%2Fshadow",
            "file:///etc%5Cshadow",
            "file:///etc\\shadow",
            "file:\\\\\\etc\\shadow",
            "file:///x%2F..%2Fetc/shadow",
            "file:///..%5Cetc/shadow",
            "file:///etc%252Fshadow",
            "file:///%2565tc/shadow",
            "file:///%25%36%35tc/shadow",
            "file:///etc/shadow?x",
            "file:///etc/shadow#x",
            "file:///etc/shadow?#",
            "file:///x?/../etc/shadow",
            "file:///x#/../etc/shadow",
            "file:///etc/shadow%00.txt",
            "file:///etc/shadow%0A",
            "file:///etc/",
            "file://user@/etc/shadow",
            "file://:80/etc/shadow",
            "file://127.0.0.1/etc/shadow",
            "file://%65/etc/shadow",
            "file:///\u{ff45}tc/shadow",
            "file:///e\u{ad}tc/shadow",
        ],
    ),
    (
        "file:///etc/shadow",
        &[
            "file:///etc/shadow",
            "file:///etc/shadow/",
            "file:///etc/shadow?x",
            "file:///etc/shadow#",
            "file:///etc/Shadow",
            "file:///etc/shadow%3Fx",
            "file:///etc/shadow%23x",
            "file:///etc/shadow%2F",
            "file:///etc/shadow%20",
            "file:///etc/shadow%2520",
            "file:///etc/shadow%E3%80%80",
            "file:///etc/shadow%20?x",
        ],
    ),
    ("file:///a%2Ab", &["file:///a%2Ab", "file:///a*b"]),
    (
        "file:///C:/secret/*",
        &[
            "file:///C:/secret/x",
            "file:///c:/secret/x",
            "file:///C:/Secret/x",
            "file:///C|/secret/x",
            "file:///C%3A/secret/x",
            "file:///C%7C/secret/x",
            "file:///C%257C/secret/x",
            "file:///C%7C/secret/a:b",
            "file:///C%7Csecret/x",
            "file:///a/C:/secret/x",
            "file:///aC:/secret/x",
            "file:///a%2Fc%3A%2Fsecret/x",
            "file:///C:secret/x",
            "file:///D:/../C:/secret/x",
        ],
    ),
    (
        "https://internal.example/*",
        &[
            "https://internal.example/x",
            "https://internal.example:443/x",
            "https://internal.example:/x",
            "https://internal.example:0443/x",
            "https:/internal.example/x",
            "https:internal.example/x",
            "https:///internal.example/x",
            "https:////internal.example/x",
            "https:\\\\internal.example\\x",
            "https://user@internal.example/x",
            "https://a@b@internal.example/x",
            "https://user:p@internal.example/x",
            "https://@internal.example/x",
            "https://\u{ff49}nternal.example/x",
            "https://internal\u{3002}example/x",
            "https://internal\u{ff0e}example/x",
            "https://inter\u{ad}nal.example/x",
            "https://int\nernal.example/x",
            "https://int\ternal.example/x",
            "https://%69nternal.example/x",
            "https://internal%2Eexample/x",
            "https://INTERNAL.example/x",
            "HTTPS://internal.example/x",
            "https://internal.example./x",
            "https://internal.example",
            "https://internal.example?x",
            "https://internal.example#x",
            "https://internal.example\\x",
            "https://internal.example/x?y#z",
            "https://internal.example//x",
            "https://internal.example/./x",
            "h\nttps://internal.example/x",
            " https://internal.example/x",
            "\0https://internal.example/x",
        ],
    ),
    (
        "http://127.0.0.1/*",
        &[
            "http://127.0.0.1/x",
            "http://127.1/x",
            "http://2130706433/x",
            "http://0x7f.1/x",
            "http://0177.0.0.1/x",
            "http://127.0.0.1./x",
            "http://127.0.0.01/x",
            "http://\u{ff11}27.0.0.1/x",
            "http://127\u{3002}0.0.1/x",
            "http://127.0.0.1:80/x",
            "http://%31%32%37.0.0.1/x",
        ],
    ),
    (
        "http://[::1]/*",
        &[
            "http://[::1]/x",
            "http://[0:0::1]/x",
            "http://[::0001]/x",
            "http://[0:0:0:0:0:0:0:1]/x",
            "http://[::0.0.0.1]/x",
            "http://[::1]:80/x",
            "http://[::1]:/x",
        ],
    ),
    (
        "https://example.com/",
        &["https://example.com/", "https://xn--example-.com/", "https://example.com", "https://example.com/?x"],
    ),
    (
        "docs://secret/*",
        &[
            "docs://secret/x",
            "docs:secret/x",
            "docs:/secret/x",
            "docs:///secret/x",
            "docs://SECRET/x",
            "docs://u@secret/x",
            "docs://secret//x",
            "docs://public%2F..%2F..%2Fsecret/x",
            "docs://public/..%2F..%2Fsecret/x",
            "docs://public/../../secret/x",
            "docs://../secret/x",
            "docs://./secret/x",
            "docs://%73ecret/x",
            "docs://secret%2Fx",
            "docs://sec\tret/x",
            "docs://secret\\x",
            "docs:secret%2Fx",
            "Docs://secret/x",
            "docs://secret:/x",
            "docs:%2F/@secret/x",
            "docs:/%2F@secret/x",
            "docs:%2F%2Fu@secret/x",
            "docs:%2F/secret:/x",
            "docs:%252F%252Fu@secret/x",
            "docs:%5C%5C@secret/x",
            "docs:%255C/@secret/x",
            "docs://u%2540secret/x",
            "docs://u%252540secret/x",
            "docs://secret%253A80/x",
            "docs://%20secret/x",
            "docs:///%20secret/x",
            "docs:/%2520secret/x",
            "docs:/%2F%C2%85secret/x",
        ],
    ),
    (
        "note:private*",
        &[
            "note:private1",
            "note:PRIVATE",
            "Note:private",
            "note:priv%61te",
            "note: private",
            "note:\nprivate",
            "note:/private",
            "note://private",
            "note:private?x",
            "note:%70rivate",
            "note:%20private",
            "note:/%20private",
            "no\tte:private",
            "note:x/../private",
        ],
    ),
    (
        "*/secret/*",
        &[
            "file:///secret/x",
            "https://h/secret/x",
            "x://secret/y",
            "file:///a/secret%2Fx",
            "file:///a%2Fsecret/x",
            "x:secret/y",
            "file:///a//secret//x",
        ],
    ),
];

/// What some server reads as something else than these rules allow.
const NOT_ALLOWED: &[(&str, &[&str])] = &[
    (
        "file:///home/me/*",
        &[
            "file:///home/me/.\t./.\t./etc/shadow",
            "file:///home/me/.\n./.\n./etc/shadow",
            "file:///home/me/.\r./.\r./etc/shadow",
            "file:///home/me/%2\te./etc/shadow",
            "file:///home/me/%2\te%2\te/%2\te%2\te/etc/shadow",
            "file:///home/me/../../etc/shadow",
            "file:///home/me/%2e%2e/x",
            "file:///home/me/..%2F..%2Fetc/shadow",
            "file:///home/me/..%5C..%5Cetc/shadow",
            "file:///home/me/..%252F..%252Fetc/shadow",
            "file:///home/me/%252e%252e/x",
            "file:///home/me/..\\..\\etc\\shadow",
            "file:///home/me/x?/../../../etc/shadow",
            "file:///home/me/x#/../../../etc/shadow",
            "file:///home/me/%C0%AE%C0%AE/x",
            "file:///home/me/x%00/../../etc/shadow",
            "file:///home/me/..",
            "file:///home/me/..%20",
            "file:///home/me/%20../x",
            "file:///home/me",
            "file:///home/Me/x",
            "file:///home/me%2Fx",
            "file:////home/me/x",
        ],
    ),
    (
        "file:///home/me/*.md",
        &[
            "file:///home/me/key?x.md",
            "file:///home/me/key#x.md",
            "file:///home/me/key?#.md",
            "file:///home/me/key%3Fx.md",
            "file:///home/me/key%23x.md",
            "file:///home/me/key%253Fx.md",
            "file:///home/me/key%00.md",
        ],
    ),
    ("file:///home/*/pub/*", &["file:///home//pub/x", "file:///home/%2Fpub/x"]),
    (
        "https://api.example/v1/*",
        &[
            "https://api.example/v1/../v2/x",
            "https://api.example/v1/%2E%2E/v2",
            "https://api.example/v1/..%2Fv2/x",
            "https://api.example:8443/v1/x",
            "https://api.example@evil.example/v1/x",
            "http://api.example/v1/x",
        ],
    ),
    (
        "https://api.example/search?q=*",
        &[
            "https://api.example/search",
            "https://api.example/other?q=x",
            "https://api.example/search?r=x",
            "https://api.example/search?q=x/../y",
        ],
    ),
    (
        "https://*.example/*",
        &[
            "https://evil.com?.example/x",
            "https://evil.com#.example/x",
            "https://evil.com\\.example/x",
            "https://u@evil.com/.example/../x",
        ],
    ),
    (
        "docs://public/*",
        &["docs://public/..%2F..%2Fsecret/x", "docs:public/x", "docs:///public/x", "docs://public", "docs://Public/x"],
    ),
    ("note:a*", &["note:b", "note:a/../b", "note:%61", "Note:a"]),
];

/// URIs of ordinary servers, in canonical form.
const ORDINARY: &[&str] = &[
    "file:///home/me/a%20b.txt",
    "file:///home/me/%E6%96%87%E4%BB%B6.md",
    "file:///C:/Users/me/notes.md",
    "file:///home/me/.config/app.toml",
    "file:///home/me/...",
    "https://example.com/",
    "https://example.com/search?q=a%20b&lang=en",
    "https://api.example.com:8443/v1/items/7#part",
    "https://example.com/redirect?to=https%3A%2F%2Fother.example%2Fx",
    "http://127.0.0.1:3000/health",
    "test://static/resource/1",
    "demo://resource/static/document/x.md",
    "ui://widget/x.html",
    "postgres://host/db/table/schema",
    "postgres://host:5432/db/public.users/schema",
    "github://repo/owner/name/issues/7",
    "github://repo/owner%2Fname",
    "memo:today",
    "memo://insights",
    "screen://localhost",
    "docs://a/b%20c",
    "note://internal/note-1",
    "skill://acme/refunds/SKILL.md",
    "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66",
    "mailto:me@example.com",
    "git+ssh://host/repo",
    "instructions:///usage",
    "weather:current/berlin",
];

/// The requests that refer to one resource, and the eras of the clients that make them.
fn requests_for(uri: &str, era: Era) -> Vec<(&'static str, String)> {
    let uri = quoted(uri);
    let of_both = ["resources/read", "resources/directory/read", "skills/get"];
    let legacy = ["resources/subscribe", "resources/unsubscribe"];
    let methods = of_both.iter().chain(legacy.iter().filter(|_| era == Era::Legacy));
    let mut requests: Vec<_> = methods.map(|method| (*method, format!(r#""uri":{uri}"#))).collect();
    let argument = r#""argument":{"name":"a","value":""}"#;
    requests.push(("completion/complete", format!(r#""ref":{{"type":"ref/resource","uri":{uri}}},{argument}"#)));
    requests
}

/// That no message of a client about this resource is passed on, and no message of the server.
fn assert_is_unknown(pair: &mut RelayPair, uri: &str) {
    let name = pair.name();
    let not_found = if pair.client_era() == Era::Legacy { -32002 } else { -32602 };
    for (method, members) in requests_for(uri, pair.client_era()) {
        pair.ask(method, &members);
        assert!(pair.asked().is_empty(), "{method} {uri:?} in {name}");
        let line = pair.only_line();
        let expected = format!(r#""code":{not_found},"message":"resource not found: it is not available here""#);
        assert!(line.contains(&expected), "{line} in {name}");
    }
    pair.ask("resources/list", "");
    pair.answer(&format!(r#""resources":[{{"name":"r","uri":{}}}]"#, quoted(uri)));
    let line = pair.only_line();
    assert!(line.contains(r#""resources":[]"#), "{line} in {name}");
}

#[test]
fn a_denied_resource_is_unknown_in_every_request_however_it_is_spelled() {
    for (rule, uris) in DENIED {
        for mut pair in pairs(&denying(&[rule])) {
            for uri in *uris {
                assert_is_unknown(&mut pair, uri);
            }
        }
    }
}

#[test]
fn what_is_not_allowed_is_unknown_in_every_request_however_it_is_spelled() {
    for (rule, uris) in NOT_ALLOWED {
        for mut pair in pairs(&allowing(&[rule])) {
            for uri in *uris {
                assert_is_unknown(&mut pair, uri);
            }
        }
    }
}

#[test]
fn nobody_subscribes_to_another_spelling_of_a_denied_resource() {
    for (rule, uris) in DENIED {
        let filter = denying(&[rule]);
        let listed: Vec<_> = uris.iter().map(|uri| quoted(uri)).collect();
        let wanted = format!(r#""notifications":{{"resourceSubscriptions":[{},"ok://1"]}}"#, listed.join(","));
        for server in [Era::Legacy, Era::Modern] {
            for is_http in [true, false] {
                let mut pair = RelayPair::open(Era::Modern, server, is_http, |config| config.filter = filter.clone());
                pair.ask("subscriptions/listen", &wanted);
                let asked: Vec<_> = pair.asked().iter().map(|(_, params)| params.to_text().into_owned()).collect();
                let asked = asked.concat();
                assert!(asked.contains("ok://1"), "{asked} in {}", pair.name());
                assert!(!listed.iter().any(|uri| asked.contains(uri)), "{asked} in {}", pair.name());
            }
        }
    }
}

#[test]
fn a_change_of_another_spelling_of_a_denied_resource_is_not_delivered() {
    for (rule, uris) in DENIED {
        let filter = denying(&[rule]);
        let mut pair = RelayPair::open(Era::Legacy, Era::Legacy, false, |config| config.filter = filter.clone());
        for uri in *uris {
            pair.notify("notifications/resources/updated", &format!(r#""uri":{}"#, quoted(uri)));
        }
        assert_eq!(pair.received(), [""; 0], "{rule}");
        pair.notify("notifications/resources/updated", r#""uri":"ok://1""#);
        assert!(pair.only_line().contains("ok://1"));
    }
}

#[test]
fn ordinary_resources_pass_where_others_are_denied() {
    for filter in [denying(&["file:///etc/*", "https://internal.example/*", "docs://secret/*"]), allowing(&["*"])] {
        for mut pair in pairs(&filter) {
            for uri in ORDINARY {
                let name = pair.name();
                // A modern server has no subscriptions by request.
                let is_legacy = pair.client_era() == Era::Legacy && !pair.is_converted();
                let era = if is_legacy { Era::Legacy } else { Era::Modern };
                for (method, members) in requests_for(uri, era) {
                    pair.ask(method, &members);
                    let asked = pair.asked();
                    let [(passed, params)] = &asked[..] else { panic!("{method} {uri}: {asked:?} in {name}") };
                    assert!(passed == method && params.to_text().contains(&members), "{method} {uri} in {name}");
                    pair.answer("");
                    pair.received();
                }
                pair.ask("resources/list", "");
                pair.answer(&format!(r#""resources":[{{"name":"r","uri":"{uri}"}}]"#));
                let line = pair.only_line();
                assert!(line.contains(uri), "{line} in {name}");
            }
        }
    }
}

#[test]
fn a_query_is_allowed_with_its_path_or_by_a_pattern_that_has_one() {
    for (pattern, uri) in [
        ("https://api.example/*", "https://api.example/search?q=x#y"),
        ("https://api.example/search?q=*", "https://api.example/search?q=a%3Fb%2Fc"),
        ("https://api.example/search?q=*", "https://api.example/search?q=?"),
        ("https://api.example/*?q=*", "https://api.example/any/path?q=1"),
        ("https://api.example/x*", "https://api.example/x?y"),
        ("note:?*", "note:a?b"),
    ] {
        assert!(allows(&allowing(&[pattern]), uri), "{pattern} {uri}");
    }
}

#[test]
fn a_template_is_compared_as_it_is_written() {
    let template = |filter: &Filter, template: &str| filter.allows_template(template, None);
    let denying = denying(&["file:///etc/*", "docs://{secret}/*"]);
    for denied in [
        "file:///etc/{name}",
        "FILE:///etc/{name}",
        "file:///ETC/{name}",
        "docs://{secret}/{x}",
        "file:///a b/{x}",
        "file:///{x}/../y",
    ] {
        assert!(!template(&denying, denied), "{denied}");
    }
    for allowed in ["file:///{path}", "file:///{+path}", "docs://{x}/{y}", "https://h/s{?q}", "{scheme}://x"] {
        assert!(template(&denying, allowed), "{allowed}");
    }
    let allowing = allowing(&["https://h/s{?q}", "file:///home/me/*"]);
    for (uri, is_allowed) in [
        ("https://h/s{?q}", true),
        ("file:///home/me/{+name}", true),
        ("https://h/s{?r}", false),
        ("file:///{x}", false),
    ] {
        assert_eq!(template(&allowing, uri), is_allowed, "{uri}");
    }
    // No server has a resource with a brace in its URI.
    assert!(!allows(&allowing, "file:///home/me/{name}"));
    assert!(template(&Filter::new(), "any text") && allows(&Filter::new(), "any text"));
}

#[test]
fn a_pattern_that_no_canonical_uri_matches_is_refused_with_the_reason() {
    for (pattern, reason) in [
        ("file:/etc/*", "two slashes must follow its scheme"),
        ("file://localhost/etc/*", "three must follow file:"),
        ("FILE:///etc/*", "its scheme must be in lower case"),
        ("/etc/*", "it has no scheme"),
        ("https://internal.example:443/*", "it must have no port if that is the usual one"),
        ("file:///a b/*", "it has a blank"),
        ("file:///etc/../*", "it has a segment . or .."),
    ] {
        for rule in [Rule::allow(Primitive::Resource, pattern), Rule::deny(Primitive::Resource, pattern)] {
            let error = rule.map(|_| ()).expect_err(pattern).to_string();
            assert!(error.contains("canonical form") && error.contains(reason), "{error}");
        }
        assert!(Rule::deny(Primitive::Tool, pattern).is_ok(), "names have no form");
    }
}

// ---- any URI

const BEGINNINGS: [&str; 17] = [
    "file:///etc/shadow",
    "https://internal.example/x",
    "docs://secret/x",
    "note:private",
    "file:///home/me/etc/shadow",
    "file:///home/me/a%20b",
    "https://api.example/v1/x?q=1",
    "docs://public/secret/x",
    "note:open",
    "file:///home/me/../../etc/shadow",
    "docs:%2F%2Fsecret/x",
    "docs:/public%2Fsecret/x",
    "file:///etc",
    "docs://secret",
    "file:///home/me/..",
    "file:///home/me/../x",
    "file:///C:/secret/x",
];

/// What is put into a URI.
const PIECES: [&str; 66] = [
    "\t",
    "\n",
    "\r",
    "\0",
    " ",
    "\u{b}",
    "\u{feff}",
    "\\",
    "/",
    "//",
    "///",
    ".",
    "..",
    "/./",
    "/../",
    "/../../",
    "%2e",
    "%2E",
    "%2E%2E/",
    "..%2F",
    "..%2f",
    "..%5C",
    "%252E%252E/",
    "..%252F",
    "%2F",
    "%5C",
    "%252F",
    "%2F%2F",
    "%253A",
    "%255C",
    "u%2540",
    "u%40",
    "%252540",
    "%00",
    "%09",
    "%0A",
    "%20",
    "%2520",
    "%C2%A0",
    "%7C",
    "/C:/",
    "%C0%AE",
    "%FF",
    "%EF%BC%8E",
    "@",
    "u@",
    "u:p@",
    ":",
    ":443",
    ":80",
    ":8443",
    "?",
    "#",
    "?x",
    "#x",
    ";x",
    "*",
    "\u{ff0e}",
    "\u{3002}",
    "\u{ad}",
    "\u{200b}",
    "\u{130}",
    "localhost",
    "xn--",
    "[",
    "%25",
];

/// A change of one place of a URI.
#[derive(Debug, Clone)]
enum Change {
    Insert(usize, &'static str),
    Remove(usize),
    Escape(usize),
    EscapeTwice(usize),
    EscapeInLowerCase(usize),
    Case(usize),
    Wide(usize),
    Backslash(usize),
}

fn change() -> impl Strategy<Value = Change> {
    let at = || 0..64_usize;
    prop_oneof![
        5 => (at(), 0..PIECES.len()).prop_map(|(at, piece)| Change::Insert(at, PIECES[piece])),
        1 => at().prop_map(Change::Remove),
        1 => at().prop_map(Change::Escape),
        1 => at().prop_map(Change::EscapeTwice),
        1 => at().prop_map(Change::EscapeInLowerCase),
        1 => at().prop_map(Change::Case),
        1 => at().prop_map(Change::Wide),
        1 => at().prop_map(Change::Backslash),
    ]
}

fn changed(beginning: &str, changes: &[Change]) -> String {
    let mut symbols: Vec<char> = beginning.chars().collect();
    for change in changes {
        let (Change::Insert(at, _)
        | Change::Remove(at)
        | Change::Escape(at)
        | Change::EscapeTwice(at)
        | Change::EscapeInLowerCase(at)
        | Change::Case(at)
        | Change::Wide(at)
        | Change::Backslash(at)) = change;
        let length = if let Change::Insert(..) = change { symbols.len() + 1 } else { symbols.len() };
        let Some(at) = at.checked_rem(length) else { continue };
        let escaped = |symbol: char, percent: &str| {
            let mut buffer = [0; 4];
            let bytes: Vec<_> =
                symbol.encode_utf8(&mut buffer).bytes().map(|byte| format!("{percent}{byte:02X}")).collect();
            bytes.concat()
        };
        let new: String = match change {
            Change::Insert(_, piece) => {
                symbols.splice(at..at, piece.chars());
                continue;
            }
            Change::Remove(_) => String::new(),
            Change::Escape(_) => escaped(symbols[at], "%"),
            Change::EscapeTwice(_) => escaped(symbols[at], "%25"),
            Change::EscapeInLowerCase(_) => escaped(symbols[at], "%").to_lowercase(),
            Change::Case(_) if symbols[at].is_uppercase() => symbols[at].to_lowercase().collect(),
            Change::Case(_) => symbols[at].to_uppercase().collect(),
            Change::Wide(_) if symbols[at].is_ascii_graphic() => {
                char::from_u32(u32::from(symbols[at]) + 0xfee0).expect("a wide character").into()
            }
            Change::Wide(_) => "\u{3000}".to_owned(),
            Change::Backslash(_) => "\\".to_owned(),
        };
        symbols.splice(at..=at, new.chars());
    }
    symbols.into_iter().collect()
}

fn uri() -> impl Strategy<Value = String> {
    let changes = proptest::collection::vec(change(), 0..5);
    (0..BEGINNINGS.len(), changes).prop_map(|(beginning, changes)| changed(BEGINNINGS[beginning], &changes))
}

/// Runs this for so many URIs, or for as many as `PROPTEST_CASES` says if that is more. The function returns whether the
/// case was one that the property is about.
fn for_uris(least: u32, holds: impl Fn(&str) -> Result<bool, TestCaseError>) {
    let concerned = Cell::new(0);
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let cases = config.cases.max(least);
    let mut runner = TestRunner::new(ProptestConfig { cases, ..config });
    let outcome = runner.run(&uri(), |uri| {
        let is_concerned = holds(&uri)?;
        concerned.set(concerned.get() + u32::from(is_concerned));
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    assert!(concerned.get() * 50 > cases, "only {} of {cases} were concerned", concerned.get());
}

#[test]
fn what_any_parser_reads_as_denied_is_not_passed_on() {
    let filter = denying(&DENYING);
    for_uris(10_000, |uri| {
        let denied = resources(uri).into_iter().find(is_denied);
        prop_assert!(denied.is_none() || !allows(&filter, uri), "{:?} is {:?}", uri, denied);
        Ok(denied.is_some())
    });
}

#[test]
fn what_any_parser_reads_as_not_allowed_is_not_passed_on() {
    let filter = allowing(&ALLOWING);
    for_uris(10_000, |uri| {
        let is_passed = allows(&filter, uri);
        let other = resources(uri).into_iter().find(|resource| !is_allowed(resource));
        prop_assert!(other.is_none() || !is_passed, "{:?} is {:?}", uri, other);
        Ok(is_passed)
    });
}

#[test]
fn parsers_of_both_standards_leave_a_uri_unchanged_that_is_compared() {
    // Denies none of them.
    let filter = denying(&["x-none:"]);
    for_uris(10_000, |uri| {
        let is_compared = allows(&filter, uri);
        prop_assert!(!is_compared || is_unchanged(uri), "{:?}", uri);
        Ok(is_compared)
    });
    for uri in ORDINARY {
        assert!(is_unchanged(uri), "{uri}");
    }
}

#[test]
fn the_machine_passes_on_what_the_filter_allows() {
    let filter = denying(&DENYING);
    let pairs = std::cell::RefCell::new(pairs(&filter));
    for_uris(400, |uri| {
        let is_allowed = allows(&filter, uri);
        for pair in pairs.borrow_mut().iter_mut() {
            pair.ask("resources/read", &format!(r#""uri":{}"#, quoted(uri)));
            prop_assert_eq!(!pair.asked().is_empty(), is_allowed, "{:?} in {}", uri, pair.name());
            if is_allowed {
                pair.answer("");
            }
            pair.received();
        }
        Ok(!is_allowed)
    });
}
