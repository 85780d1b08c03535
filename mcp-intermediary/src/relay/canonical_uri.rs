//! The form of URIs that every parser reads alike.
//!
//! Servers read URIs with parsers of RFC 3986, of the WHATWG URL standard, or of neither, and many change what they read: they
//! drop control characters, resolve dot segments, or decode escapes. A rule compares text, so that it holds for a server only
//! if the server reads that text as it is. A URI is canonical if parsers of both standards leave it unchanged, and if no dot
//! segment, control character, blank at an end, authority or part of an authority appears when its escapes are decoded, once
//! or repeatedly.

use core::net::{Ipv4Addr, Ipv6Addr};

/// The schemes that the WHATWG URL standard calls special, but for `file`, with their default ports.
const SPECIAL: [(&str, u16); 5] = [("ftp", 21), ("http", 80), ("https", 443), ("ws", 80), ("wss", 443)];

/// Checks that a URI is canonical.
///
/// # Errors
///
/// What is not, as a part of a sentence.
pub(super) fn check(uri: &str) -> Result<(), &'static str> {
    Beginning { text: uri, is_whole: true }.check()?;
    check_text(uri)
}

/// Checks that the text outside of the expressions of a URI template can be a part of a canonical URI.
///
/// # Errors
///
/// The problem, as a part of a sentence.
pub(super) fn check_template(template: &str) -> Result<(), &'static str> {
    let mut parts = template.split('{');
    let beginning = parts.next().unwrap_or_default();
    let mut text = beginning.to_owned();
    for part in parts {
        let (_, after) = part.split_once('}').ok_or("a brace in it is not closed")?;
        // The letter stands for any value of the expression.
        text.push('x');
        text.push_str(after);
    }
    Beginning { text: beginning, is_whole: beginning == template }.check()?;
    check_text(&text)
}

/// Checks that a pattern can match a canonical URI, or a template that [`check_template`] accepts.
///
/// # Errors
///
/// The problem, as a part of a sentence.
pub(super) fn check_pattern(pattern: &str) -> Result<(), &'static str> {
    let end = pattern.find(['*', '?', '{']).unwrap_or(pattern.len());
    let beginning = pattern.get(..end).unwrap_or(pattern);
    Beginning { text: beginning, is_whole: beginning == pattern }.check()?;
    // A `?` stands for one character, and braces may be those of a template.
    check_text(&pattern.replace(['?', '{', '}'], "*"))
}

/// The beginning of a URI, or all of it.
struct Beginning<'t> {
    text: &'t str,
    /// Whether nothing follows.
    is_whole: bool,
}

impl Beginning<'_> {
    fn check(&self) -> Result<(), &'static str> {
        let Some((scheme, rest)) = self.text.split_once(':') else {
            return if self.is_whole { Err(NO_SCHEME) } else { check_scheme(self.text) };
        };
        check_scheme(scheme)?;
        if scheme.is_empty() {
            return Err(NO_SCHEME);
        }
        let begins_with_escape = rest.trim_start_matches('/').starts_with('%');
        if begins_with_escape && decoded(rest, true).trim_start_matches(['/', '\\']).starts_with(is_blank) {
            return Err(BLANK_AT_END);
        }
        let default_port = SPECIAL.iter().find(|(special, _)| *special == scheme).map(|(_, port)| *port);
        let is_special = scheme == "file" || default_port.is_some();
        let Some(rest) = rest.strip_prefix("//") else {
            let may_follow = !self.is_whole && "//".starts_with(rest);
            if is_special && !may_follow {
                return Err("two slashes must follow its scheme");
            }
            if begins_with_two_slashes(rest) {
                return Err("it has escapes that begin a host when they are decoded");
            }
            return check_after_authority(rest, false);
        };
        let end = rest.find(['/', '?', '#']);
        let is_complete = self.is_whole || end.is_some();
        let (authority, after) = rest.split_at(end.unwrap_or(rest.len()));
        if scheme != "file" {
            check_authority(authority, default_port, is_complete)?;
        } else if !authority.is_empty() || begins_with_two_slashes(after) {
            // Windows reads two slashes after an empty host as the beginning of a host.
            return Err("it has a host or too many slashes: three must follow file:");
        }
        if is_special && is_complete && !after.starts_with('/') {
            return Err("a slash must follow its host");
        }
        check_after_authority(after, is_special)
    }
}

const NO_SCHEME: &str = "it has no scheme, such as file:";
const UPPER_CASE: &str = "its host must be in lower case";
const ESCAPE: &str = "its host has an escape that hosts do not have";
const BLANK_AT_END: &str = "it has an escaped blank where parsers remove blanks";
const ADDRESS: &str = "its host must be a name, or an IP address in its usual form";

/// Whether parsers may remove a character at the beginning and at the end of a text. Control characters are never canonical.
fn is_blank(symbol: char) -> bool {
    symbol.is_whitespace() && !symbol.is_ascii_control() || symbol == '\u{feff}'
}

/// Whether a text begins with two slashes when its escapes are decoded. Some servers take a backslash for a slash.
fn begins_with_two_slashes(text: &str) -> bool {
    matches!(decoded(text, true).as_bytes(), [b'/' | b'\\', b'/' | b'\\', ..])
}

/// Checks a scheme, or the beginning of one.
fn check_scheme(scheme: &str) -> Result<(), &'static str> {
    if scheme.contains(|symbol: char| symbol.is_ascii_uppercase()) {
        return Err("its scheme must be in lower case");
    }
    let is_rest = |symbol: char| symbol.is_ascii_lowercase() || symbol.is_ascii_digit() || "+-.".contains(symbol);
    let has_letter = scheme.chars().next().is_none_or(|first| first.is_ascii_lowercase());
    if has_letter && scheme.chars().all(is_rest) { Ok(()) } else { Err(NO_SCHEME) }
}

/// Checks a host and its port. More follows if they are not complete. Only special schemes have a default port.
fn check_authority(authority: &str, default_port: Option<u16>, is_complete: bool) -> Result<(), &'static str> {
    if authority.contains('@') {
        return Err("it must have no user name");
    }
    let (host, port) = if authority.starts_with('[') {
        let Some(end) = authority.find(']') else {
            return if is_complete { Err(ADDRESS) } else { Ok(()) };
        };
        let (host, port) = authority.split_at(end + 1);
        let address = host.trim_matches(['[', ']']);
        // An address that ends with an IPv4 address can be written in two ways.
        let is_canonical = |found: Ipv6Addr| !address.contains('.') && found.to_string() == address;
        if !address.parse().is_ok_and(is_canonical) || !port.is_empty() && !port.starts_with(':') {
            return Err(ADDRESS);
        }
        (host, port.strip_prefix(':'))
    } else {
        let (host, port) = authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port)));
        check_host(host, default_port.is_some(), is_complete || port.is_some())?;
        (host, port)
    };
    let Some(port) = port else { return Ok(()) };
    if host.is_empty() {
        return Err("it has a port without a host");
    }
    let number = port.parse::<u16>().ok().filter(|number| number.to_string() == port);
    match number {
        _ if !is_complete && port.bytes().all(|digit| digit.is_ascii_digit()) => Ok(()),
        None => Err("its port must be a number"),
        Some(_) if number == default_port => Err("it must have no port if that is the usual one"),
        Some(_) => Ok(()),
    }
}

/// Checks a host that is no IPv6 address. More follows if it is not complete.
fn check_host(host: &str, is_special: bool, is_complete: bool) -> Result<(), &'static str> {
    let mut rest = host.chars();
    while let Some(symbol) = rest.next() {
        let is_name = symbol.is_ascii_lowercase() || symbol.is_ascii_digit() || "-._".contains(symbol);
        let is_other = !is_special && "~!$&'()*+,;=".contains(symbol);
        if symbol == '%' && !is_special {
            // An escaped separator of parts of a URI would separate them when it is decoded.
            let is_data = |byte: u8| !byte.is_ascii_graphic() || b"\"%<>^`{|}".contains(&byte);
            if !rest.as_str().get(..2).and_then(value_of).is_some_and(is_data) {
                return Err(ESCAPE);
            }
            rest.nth(1);
        } else if !is_name && !is_other {
            let is_case = symbol.is_ascii_uppercase();
            return Err(if is_case { UPPER_CASE } else { "its host has a character that hosts do not have" });
        }
    }
    let plain = decoded(host, true);
    if plain.contains(['/', '\\', '?', '#', '@', ':', '[', ']']) {
        return Err(ESCAPE);
    }
    let mut labels = plain.split('.').rev();
    let last = labels.next().unwrap_or_default();
    let may_be_empty = !is_complete || host.is_empty() && !is_special;
    if labels.any(str::is_empty) || last.is_empty() && !may_be_empty {
        return Err("its host is empty or has an empty label");
    }
    if !is_special || !is_complete {
        return Ok(());
    }
    // Some parsers read a label that encodes only ASCII characters as these.
    let encodes_ascii =
        |label: &str| label.strip_prefix("xn--").is_some_and(|code| code.is_empty() || code.ends_with('-'));
    let is_hexadecimal = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let is_number =
        last.bytes().all(|digit| digit.is_ascii_digit()) || last.strip_prefix("0x").is_some_and(is_hexadecimal);
    let is_address = host.parse().is_ok_and(|address: Ipv4Addr| address.to_string() == host);
    if is_number && !is_address || host.split('.').any(encodes_ascii) { Err(ADDRESS) } else { Ok(()) }
}

/// Checks the path, the query and the fragment as far as their characters depend on where they are.
fn check_after_authority(text: &str, is_special: bool) -> Result<(), &'static str> {
    let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
    if text.contains(['[', ']']) || fragment.contains('#') {
        return Err("it has one of the characters []# where it must be escaped");
    }
    let has_apostrophe = before.split_once('?').is_some_and(|(_, query)| query.contains('\''));
    if is_special && has_apostrophe { Err("an apostrophe in its query must be escaped") } else { Ok(()) }
}

/// Checks the characters, the escapes and the dot segments of a text.
fn check_text(text: &str) -> Result<(), &'static str> {
    let is_plain = |symbol: char| symbol.is_ascii_alphanumeric() || "-._~:/?#[]@!$&'()*+,;=%".contains(symbol);
    if let Some(other) = text.chars().find(|symbol| !is_plain(*symbol)) {
        return Err(match other {
            '\\' => "it has a backslash",
            _ if other.is_ascii_control() => "it has a control character",
            _ => "it has a blank or another character that must be escaped",
        });
    }
    for after in text.split('%').skip(1) {
        let value = after.get(..2).and_then(value_of);
        let value = value.ok_or("a % in it must be followed by two hexadecimal digits in capitals")?;
        if value.is_ascii_alphanumeric() || b"-._~".contains(&value) {
            return Err("it has an escape that is not needed");
        }
    }
    for is_repeated in [false, true] {
        let decoded = decoded(text, is_repeated);
        if decoded.contains(|symbol: char| symbol.is_ascii_control()) {
            return Err("it has an escaped control character");
        }
        // Parsers read bytes that are no UTF-8 in many ways, also as another character.
        if decoded.contains(char::REPLACEMENT_CHARACTER) {
            return Err("its escapes must be UTF-8");
        }
        let mut segments = decoded.split(['/', '\\', '?', '#', ':']);
        if segments.any(|segment| matches!(segment.trim_matches(is_blank), "." | "..")) {
            return Err("it has a segment . or ..");
        }
        if decoded.split(['?', '#']).any(|part| part.ends_with(is_blank)) {
            return Err(BLANK_AT_END);
        }
    }
    Ok(())
}

/// Decodes the escapes of a text; if this is repeated, also escapes that appear when others are decoded.
pub(super) fn decoded(text: &str, is_repeated: bool) -> String {
    let mut plain = Vec::with_capacity(text.len());
    // The bytes from here on may contain an escape.
    let mut start = 0;
    for byte in text.bytes() {
        plain.push(byte);
        while let Some(value) = escape_at_end(plain.get(start..).unwrap_or_default()) {
            plain.truncate(plain.len() - 3);
            plain.push(value);
            if !is_repeated {
                start = plain.len();
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

fn escape_at_end(text: &[u8]) -> Option<u8> {
    let [.., b'%', high, low] = text else { return None };
    let digit = |digit: &u8| char::from(*digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

/// The value of two hexadecimal digits in capitals.
fn value_of(digits: &str) -> Option<u8> {
    let is_canonical = digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'A'..=b'F'));
    u8::from_str_radix(digits, 16).ok().filter(|_| is_canonical)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_that_all_parsers_leave_as_it_is_is_canonical() {
        for uri in [
            "file:///",
            "file:///home/me/a%20b.txt",
            "file:///C:/x",
            "file:///a//b",
            "https://example.com/",
            "https://example.com:8443/a/b?q=x%20y&u=https%3A%2F%2Fh%2F#part",
            "http://127.0.0.1/",
            "http://[::1]:8080/x",
            "ws://h_1/",
            "https://xn--bcher-kva.example/",
            "test://static/resource/1",
            "demo://resource/static/document/x.md",
            "ui://widget/x.html",
            "postgres://host/db/table/schema",
            "github://repo/a%2Fb",
            "memo:today",
            "note:1",
            "urn:isbn:1",
            "mailto:a@b.example",
            "screen://localhost",
            "docs://a/b%20c",
            "docs://a%20b/%C3%BC",
            "docs://100%25",
            "file:///a/%20b%20/c",
            "https://h/?q=a%20b#%20c",
            "docs:%2Fa",
            "docs:/a%2F/b%5C%5C",
            "docs://h/%2F%2Fa",
            "docs:a%2F%2Fu@h",
            "docs:///a",
            "docs:/a",
            "docs://",
            "x+y-z.1:",
            "a:b:c",
            "a://h:0/",
            "a:100%25",
            "data:text/plain;base64,SGk=",
            "a:x?y#z?/",
        ] {
            assert_eq!(check(uri), Ok(()), "{uri}");
            assert_eq!(check_template(uri), Ok(()), "{uri}");
            assert_eq!(check_pattern(uri), Ok(()), "{uri}");
        }
    }

    /// The beginning of the reason, and what it is the reason for.
    const NOT_CANONICAL: &[(&str, &[&str])] = &[
        ("it has no scheme", &["", "a", "/etc", "//h/x", "1:x", ":x", "é:x", " file:///x", "a b:c", "\tfile:///x"]),
        ("its scheme must be in lower case", &["File:///x", "NOTE:1"]),
        ("two slashes must follow", &["file:/x", "file:x", "file:", "https:h", "https:/h/x", "ws:/x"]),
        (
            "it has a host",
            &[
                "file:////etc/x",
                "file:///%2Fetc/x",
                "file:///%5Ch",
                "file:///%252Fh",
                "file://///h/x",
                "file://localhost/x",
                "file://h",
                "file://C:/x",
                "file://etc/shadow",
            ],
        ),
        ("a slash must follow", &["file://", "file://?x", "https://h", "https://h?x", "wss://h:1#x"]),
        ("it must have no user name", &["https://u@h/", "https://u:p@h/", "https://@h/", "x://u@h"]),
        ("its host must be in lower case", &["https://H/", "docs://README", "x://a%20B/"]),
        (
            "its host is empty",
            &[
                "https:///h/",
                "https://h./",
                "https://a..b/",
                "https://.h/",
                "x://../y",
                "x://a./",
                "x://./y",
                "x://a%252e/",
            ],
        ),
        (
            "its host must be a name",
            &[
                "http://127.1/",
                "http://2130706433/",
                "http://0x7f.1/",
                "http://0x7f000001/",
                "http://1.2.3.08/",
                "http://1.2.3.256/",
                "http://a.1/",
                "http://[::0:1]/",
                "http://[0:0:0:0:0:0:0:1]/",
                "http://[::A]/",
                "http://[::ffff:1.2.3.4]/",
                "http://[::1]x/",
                "http://[::1/",
                "http://[]/",
                "x://[::01]/",
                "https://xn--example-/",
                "https://a.xn--/",
                "http://0x/",
                "http://[fe80::1%25eth0]/",
                "http://[v1.x]/",
            ],
        ),
        (
            "its host has a character",
            &[
                "https://a!b/",
                "https://h%20/",
                "https://%65/",
                "https://ｅ/",
                "https://a。b/",
                "https://a\u{ad}b/",
                "https://a\tb/",
                "https://a\\b/",
                "x://é/",
                "x://a\nb/",
            ],
        ),
        (
            "its host has an escape",
            &[
                "x://%65/",
                "x://a%2Fb/",
                "x://a%40b/",
                "x://a%3Ab",
                "x://%5C/",
                "x://a%2e/",
                "x://a%2",
                "x://a%c3%BC/",
                "x://%2E%2E/y",
                "x://u%2540h",
                "x://u%252540h/",
                "x://h%253a1",
                "x://a%252fb",
                "x://a%255cb",
                "x://a%253fb",
                "x://a%2523b",
                "x://%255b",
                "x://%255d",
            ],
        ),
        (
            "it has escapes that begin a host",
            &["x:%2F/h", "x:/%2Fu@h", "x:%2F%2Fh/y", "x:%5C%5Ch", "x:/%5Ch", "x:%5C/h", "x:%252F/h", "x:%255C%25252Fh"],
        ),
        ("it has a port without", &["x://:1/", "x://:/"]),
        (
            "its port must be",
            &[
                "https://h:/",
                "https://h:080/",
                "https://h:65536/",
                "https://h:1:2/",
                "x://h:/",
                "x://h:a/",
                "x://h:+1/",
                "http://[::1]:/",
            ],
        ),
        ("it must have no port", &["https://h:443/", "http://h:80/", "ws://h:80/", "wss://h:443/", "ftp://h:21/"]),
        ("it has one of the characters", &["file:///[x", "a:]", "a:x#y#z", "https://h/?[x]"]),
        ("an apostrophe", &["https://h/?q='x'"]),
        ("it has a backslash", &["file:///a\\b", "note:\\"]),
        ("it has a control character", &["file:///a\tb", "file:///a\r", "note:\n", "note:\0", "file:///\u{7f}"]),
        (
            "it has a blank",
            &[
                "file:///a b",
                "note: 1",
                "file:///é",
                "file:///C|/x",
                "a:<b>",
                "a:\"",
                "a:^",
                "a:`",
                "a:{b}",
                "file:///a\u{2028}",
            ],
        ),
        ("a % in it", &["note:%", "note:%2", "note:%zz", "file:///a%2f", "file:///%c3%bc", "note:%+1"]),
        ("it has an escape that is not needed", &["file:///%61", "file:///a%2Eb", "note:%7E", "note:%2D"]),
        ("it has an escaped control", &["file:///a%00", "file:///%0A", "note:%7F", "file:///%2500", "note:%252500"]),
        (
            "its escapes must be UTF-8",
            &["file:///%FF", "file:///%C0%AE", "file:///%C3x", "file:///%25FF", "file:///%25C3%BC"],
        ),
        (
            "it has a segment",
            &[
                "file:///./x",
                "file:///a/../x",
                "file:///..",
                "file:///a/.",
                "note:..",
                "note:../x",
                "file:///a%2F..%2Fx",
                "file:///..%5Cx",
                "file:///a?/../x",
                "file:///a#/../x",
                "file:///a/..?x",
                "file:///%252E%252E/x",
                "file:///%252e./x",
                "file:///a/..%20",
                "file:///a/%20../x",
                "file:///.%C2%85/x",
                "file:///..%2520",
                "file:///..%EF%BB%BF",
            ],
        ),
        (
            "it has an escaped blank",
            &[
                "file:///a%20",
                "file:///a%20?x",
                "file:///a%20#x",
                "https://h/?q=a%20",
                "https://h/%3Fa%20",
                "file:///a%C2%85",
                "file:///a%2520",
                "note:a%EF%BB%BF",
                "note:%20a",
                "note:%2520a",
                "note:%C2%85a",
                "note:/%20a",
                "note:%2F%20a",
                "note:/%5C%2520a",
                "docs://%20h/a",
                "docs:///%20a",
                "file:///%20/a",
            ],
        ),
    ];

    #[test]
    fn what_any_parser_changes_is_not_canonical_and_the_reason_is_stated() {
        for (reason, uris) in NOT_CANONICAL {
            for uri in *uris {
                let found = check(uri);
                assert!(found.is_err_and(|found| found.starts_with(reason)), "{uri:?}: {found:?}, not {reason}");
            }
        }
    }

    #[test]
    fn what_is_outside_of_the_expressions_of_a_template_is_canonical() {
        for template in [
            "file:///{path}",
            "file:///{+path}",
            "{scheme}://h/x",
            "{+uri}",
            "https://{host}:{port}/x",
            "https://h/s{?q,page}",
            "file:///a/.{name}",
            "note:{id}",
            "https://h{/path*}",
            "test://t/{a}/b%20c/{b}",
            "x://{a}.example/",
            "file:/{/path}",
        ] {
            assert_eq!(check_template(template), Ok(()), "{template}");
        }
        for template in [
            "file:/x{path}",
            "file://h{host}/x",
            "FILE:///{path}",
            "file:///a b/{x}",
            "file:///{x}/../y",
            "file:///{x}%2f",
            "file:///{x",
            "file:///x}",
            "file:///{x}/{",
            "https://H.{x}/",
            "https://u@{h}/",
            "file:///{x}/..",
            "file:///%2{x}",
        ] {
            assert!(check_template(template).is_err(), "{template}");
        }
    }

    #[test]
    fn a_pattern_can_match_a_canonical_uri() {
        for pattern in [
            "*",
            "**",
            "?",
            "*secret*",
            "*://h/*",
            "file:*",
            "file:/*",
            "file:///etc/*",
            "fi?e:///x",
            "https://*/x",
            "https://*.example/*",
            "https://h:*/x",
            "https://h:8?/",
            "https://h?x",
            "https://h*",
            "https://1*",
            "https://127.*/",
            "https://[::*",
            "note:?*",
            "note://{id}",
            "file:///{+path}",
            "https://h/s{?q}",
            "*/..?/x",
            "file:///*.md",
            "x://a.*",
            "*[::1]*",
            "https://h/s?q=*",
        ] {
            assert_eq!(check_pattern(pattern), Ok(()), "{pattern}");
        }
        for pattern in [
            "/etc/*",
            "etc",
            "file:etc/*",
            "file://localhost/*",
            "FILE:///*",
            "https://H/*",
            "https://u@*",
            "https://h:443/*",
            "file:///a b/*",
            "*/../*",
            "file:///*/..",
            "file:///*%2f*",
            "*é*",
            "file:///%65tc/*",
            "https://h",
            "https://h:x*",
            "*\\*",
            "file:///etc/%*",
            "https://a..*",
            "1*:x",
        ] {
            assert!(check_pattern(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn escapes_are_decoded_once_or_repeatedly() {
        for (text, once, repeatedly) in [
            ("a%41%2f", "aA/", "aA/"),
            ("%2541", "%41", "A"),
            ("%252541", "%2541", "A"),
            ("%%41", "%A", "%A"),
            ("%%34%31", "%41", "A"),
            ("%2%35", "%25", "%"),
            ("%zz%4", "%zz%4", "%zz%4"),
            ("%C3%BC", "ü", "ü"),
            ("%ff", "\u{fffd}", "\u{fffd}"),
            ("", "", ""),
        ] {
            assert_eq!((decoded(text, false).as_str(), decoded(text, true).as_str()), (once, repeatedly), "{text}");
        }
    }
}
