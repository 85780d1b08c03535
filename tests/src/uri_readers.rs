//! What servers read as a URI, and which of it the rules of a filter concern.

use fluent_uri::{Iri, Uri};
use url::Url;

/// A resource as a server reads it: its scheme, host with a port that is not the usual one, and path.
pub type Resource = (String, String, String);

/// All that servers may read: with a parser of the WHATWG URL standard, with one of RFC 3986 or 3987 that normalizes, or by
/// splitting the text as Python does, of the text as it is or decoded once or twice, with or without backslashes; then with
/// the host and the path as they are or decoded once or twice, with or without backslashes, and with or without blanks at both
/// ends of the path.
#[must_use]
pub fn resources(uri: &str) -> Vec<Resource> {
    let mut found: Vec<Resource> = Vec::new();
    for text in spellings(uri) {
        if let Ok(url) = Url::parse(&text) {
            let port = url.port().map_or(String::new(), |port| format!(":{port}"));
            let host = format!("{}{port}", url.host_str().unwrap_or_default());
            found.push((url.scheme().to_owned(), host, url.path().to_owned()));
        }
        if let Ok(uri) = Uri::parse(&*text) {
            let uri = uri.normalize();
            let authority = uri.authority().map_or("", |authority| authority.as_str());
            found.push(split_authority(uri.scheme().as_str(), authority, uri.path().as_str()));
        }
        if let Ok(iri) = Iri::parse(&*text) {
            let iri = iri.normalize();
            let authority = iri.authority().map_or("", |authority| authority.as_str());
            found.push(split_authority(iri.scheme().as_str(), authority, iri.path().as_str()));
        }
        found.extend(split(&text));
    }
    let mut read = Vec::new();
    for (scheme, host, path) in found {
        for host in spellings(&host) {
            for path in spellings(&path) {
                for path in [&*path, path.trim()] {
                    read.push((scheme.clone(), host.to_lowercase(), resolved(path)));
                }
            }
        }
    }
    read
}

/// The text as it is and decoded once or twice, each with and without backslashes.
fn spellings(text: &str) -> Vec<String> {
    let mut spellings = Vec::new();
    for text in [text.to_owned(), decoded(text), decoded(&decoded(text))] {
        for text in [text.replace('\\', "/"), text] {
            if !spellings.contains(&text) {
                spellings.push(text);
            }
        }
    }
    spellings
}

/// As `urlsplit` of Python: tabs and line breaks are removed, and nothing is normalized.
fn split(text: &str) -> Option<Resource> {
    let text: String = text.chars().filter(|symbol| !"\t\n\r".contains(*symbol)).collect();
    let text = text.trim_start_matches(|symbol: char| symbol <= ' ');
    let (scheme, rest) = text.split_once(':')?;
    let rest = rest.split(['?', '#']).next()?;
    let (authority, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", rest),
    };
    Some(split_authority(&scheme.to_lowercase(), authority, path))
}

fn split_authority(scheme: &str, authority: &str, path: &str) -> Resource {
    let host = authority.rsplit('@').next().unwrap_or_default().to_lowercase();
    let usual = match scheme {
        "https" => ":443",
        "http" => ":80",
        _ => ":",
    };
    let host = host.strip_suffix(usual).or(host.strip_suffix(':')).unwrap_or(&host);
    (scheme.to_owned(), host.to_owned(), path.to_owned())
}

/// A text whose escapes are decoded once.
#[must_use]
pub fn decoded(text: &str) -> String {
    let mut plain = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits =
            (*first == b'%').then(|| after.get(..2)).flatten().and_then(|digits| std::str::from_utf8(digits).ok());
        let value =
            digits.filter(|digits| !digits.starts_with('+')).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        plain.push(value.unwrap_or(*first));
        rest = if value.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// The path as a file system reads it: up to a NUL, without empty and dot segments.
fn resolved(path: &str) -> String {
    let path = path.split('\0').next().unwrap_or_default();
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            _ => segments.push(segment),
        }
    }
    format!("/{}", segments.join("/"))
}

/// Whether the rules of [`DENYING`] deny a resource.
#[must_use]
pub fn is_denied((scheme, host, path): &Resource) -> bool {
    let path = format!("{}/", path.to_lowercase());
    match scheme.as_str() {
        "file" => path.starts_with("/etc/") || on_drive(&path).starts_with("/c:/secret/"),
        "https" => host.trim_end_matches('.') == "internal.example",
        // Servers of such schemes may join the host to the path, and remove slashes and blanks before it.
        "docs" => resolved(without_beginning(&format!("{host}/{path}"))).to_lowercase().starts_with("/secret/"),
        "note" => without_beginning(&path).starts_with("private"),
        _ => false,
    }
}

fn without_beginning(text: &str) -> &str {
    text.trim_start_matches('/').trim_start()
}

/// A path as `nturl2path` of Python reads it on Windows: from the letter before the only `:` or `|` on, which is a drive.
fn on_drive(path: &str) -> String {
    let parts = path.split_once([':', '|']).filter(|(_, after)| !after.contains([':', '|']));
    let drive = parts.and_then(|(before, after)| Some((before.chars().next_back()?, after)));
    match drive.filter(|(letter, _)| letter.is_ascii_alphabetic()) {
        Some((letter, after)) => format!("/{letter}:{}/", resolved(after)),
        None => path.to_owned(),
    }
}

/// Rules that deny what [`is_denied`] finds.
pub const DENYING: [&str; 9] = [
    "file:///etc",
    "file:///etc/*",
    "file:///C:/secret",
    "file:///C:/secret/*",
    "https://internal.example/*",
    "docs://secret",
    "docs://secret/*",
    "note:private*",
    "note:private",
];

/// Whether the rules of [`ALLOWING`] allow a resource.
#[must_use]
pub fn is_allowed((scheme, host, path): &Resource) -> bool {
    match scheme.as_str() {
        "file" => host.is_empty() && path.starts_with("/home/me"),
        "https" => host == "api.example" && path.starts_with("/v1"),
        "docs" => host == "public" && !path.contains("/../"),
        _ => false,
    }
}

/// Rules that allow only what [`is_allowed`] finds.
pub const ALLOWING: [&str; 3] = ["file:///home/me/*", "https://api.example/v1/*", "docs://public/*"];

/// Whether parsers of both standards leave a URI unchanged.
#[must_use]
pub fn is_unchanged(uri: &str) -> bool {
    let (url, parsed) = (Url::parse(uri), Uri::parse(uri));
    // Whether a label is valid that is encoded depends on the tables of Unicode. One that is not has no other reading.
    let is_other_host = url.is_err() && uri.contains("xn--");
    (is_other_host || url.is_ok_and(|url| url.as_str() == uri))
        && parsed.is_ok_and(|parsed| parsed.normalize().as_str() == uri)
}
