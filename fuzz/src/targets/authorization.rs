//! What servers publish and answer when a client signs in: challenges, metadata documents, responses with tokens.

use http::{HeaderValue, StatusCode};
use mcp_auth::{
    InvalidMetadata, IssuerMetadata, ProviderQuirk, ResourceMetadata, TokenError, TokenResponse, TokenScheme,
};
use mcp_proto::auth::{Challenge, ProtectedResource, Secret};
use serde_json::{Value, json};

/// The bytes of challenges that are read (OA-W-03).
const MAX_CHALLENGE_BYTES: usize = 8 * 1024;

/// The number of challenges that are read (OA-W-03).
const MAX_CHALLENGES: usize = 16;

/// The longest token in bytes (OA-K-03).
const MAX_TOKEN: usize = 16 * 1024;

/// Challenges: a naive reader of well-formed fields reads the same; every field is read as if it were alone, up to the
/// limits; and what was read can be written and read again (OA-W-01, OA-W-03).
///
/// The first byte is the number of times that the fields are repeated, so that the limits are reached. The fields are
/// separated by line feeds.
pub fn challenge(data: &[u8]) {
    let [times, text @ ..] = data else { return };
    let fields: Vec<_> = text.split(|byte| *byte == b'\n').flat_map(HeaderValue::from_bytes).collect();
    let fields: Vec<_> = std::iter::repeat_n(fields, usize::from(*times) + 1).flatten().collect();
    let read = Challenge::parse(&fields);
    assert!(read.len() <= MAX_CHALLENGES);

    let mut left = MAX_CHALLENGE_BYTES;
    let within = fields.iter().take_while(|field| {
        let fits = field.len() <= left;
        left = left.saturating_sub(field.len());
        fits
    });
    let within: Vec<_> = within.collect();
    let each: Vec<_> = within.iter().flat_map(|field| Challenge::parse([*field])).take(MAX_CHALLENGES).collect();
    assert_eq!(written(&each), written(&read), "a field changes how another one is read");

    let naive: Option<Vec<_>> = within.iter().map(|field| NaiveChallenge::read(field.as_bytes())).collect();
    if let Some(naive) = naive {
        let naive: Vec<_> = naive.into_iter().flatten().take(MAX_CHALLENGES).collect();
        assert_eq!(naive.iter().map(NaiveChallenge::written).collect::<Vec<_>>(), written(&read));
        for (naive, read) in naive.iter().zip(&read) {
            for (name, value) in &naive.parameters {
                assert_eq!(read.parameter(&name.to_ascii_uppercase()), Some(&**value));
            }
            let names: Vec<_> = naive.parameters.iter().map(|(name, _)| name).collect();
            let shown = format!("Challenge {{ scheme: {:?}, parameters: {names:?} }}", naive.scheme);
            assert_eq!(format!("{read:?}"), shown, "the debug form has something else than names");
        }
        let joined = within.iter().map(|field| field.as_bytes()).collect::<Vec<_>>().join(&b", "[..]);
        if joined.len() <= MAX_CHALLENGE_BYTES {
            let joined = HeaderValue::from_bytes(&joined).expect("fields");
            assert_eq!(written(&Challenge::parse([&joined])), written(&read), "fields may be joined");
        }
    }

    for challenge in &read {
        reads_again(challenge);
    }
    let is_of_token = |challenge: &&Challenge| ["bearer", "dpop"].contains(&&*challenge.scheme().to_ascii_lowercase());
    let names_metadata = |challenge: &&Challenge| challenge.parameter("resource_metadata").is_some();
    let first = read.iter().filter(is_of_token).find(names_metadata).or_else(|| read.iter().find(is_of_token));
    assert_eq!(Challenge::for_token(&read).map(std::ptr::from_ref), first.map(std::ptr::from_ref));

    let text = String::from_utf8_lossy(text);
    let own = Challenge::bearer().with("error_description", &text).with(text.lines().next().unwrap_or_default(), "x");
    reads_again(&own);
}

/// A challenge that is written is read again, unless it has become too long: escapes take room.
fn reads_again(challenge: &Challenge) {
    let field = challenge.to_header_value();
    assert_eq!(field.as_bytes(), challenge.to_string().as_bytes());
    if field.len() <= MAX_CHALLENGE_BYTES {
        assert_eq!(written(&Challenge::parse([&field])), [challenge.to_string()]);
    }
}

fn written(challenges: &[Challenge]) -> Vec<String> {
    challenges.iter().map(Challenge::to_string).collect()
}

/// A challenge, read by the letter of RFC 9110.
struct NaiveChallenge {
    scheme: String,
    parameters: Vec<(String, String)>,
    /// It has a token68 in place of parameters.
    has_token68: bool,
}

impl NaiveChallenge {
    /// The challenges of a field, without those that have a parameter twice; `None` if the field is not well-formed.
    fn read(field: &[u8]) -> Option<Vec<Self>> {
        let mut challenges: Vec<Self> = Vec::new();
        for element in list_elements(field)? {
            if let Some(parameter) = naive_parameter(element) {
                let challenge = challenges.last_mut().filter(|challenge| !challenge.has_token68)?;
                challenge.parameters.push(parameter);
                continue;
            }
            let (scheme, rest) = split_token(element)?;
            let argument = rest.trim_ascii_start();
            let mut challenge = Self { scheme, parameters: Vec::new(), has_token68: false };
            if !argument.is_empty() {
                if rest.first() != Some(&b' ') || rest.contains(&b'\t') && !argument.contains(&b'=') {
                    return None;
                }
                if is_token68(argument) {
                    challenge.has_token68 = true;
                } else {
                    challenge.parameters.push(naive_parameter(argument)?);
                }
            }
            challenges.push(challenge);
        }
        challenges.retain(|challenge| {
            let names = challenge.parameters.iter().map(|(name, _)| name);
            names.clone().all(|name| names.clone().filter(|other| *other == name).count() == 1)
        });
        Some(challenges)
    }

    fn written(&self) -> String {
        let quoted = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"");
        let parameters = self.parameters.iter().map(|(name, value)| format!("{name}=\"{}\"", quoted(value)));
        let parameters = parameters.collect::<Vec<_>>().join(", ");
        format!("{} {parameters}", self.scheme).trim_end().to_owned()
    }
}

/// The elements of a list that are not empty (RFC 9110, section 5.6.1), whose quoted strings may contain commas.
fn list_elements(field: &[u8]) -> Option<Vec<&[u8]>> {
    let (mut elements, mut start) = (Vec::new(), 0);
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (position, byte) in field.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => {
                elements.push(&field[start..position]);
                start = position + 1;
            }
            _ => {}
        }
    }
    elements.push(&field[start..]);
    let elements = elements.into_iter().map(<[u8]>::trim_ascii).filter(|element| !element.is_empty());
    (!is_quoted).then(|| elements.collect())
}

/// `auth-param` (RFC 9110, section 11.2).
fn naive_parameter(text: &[u8]) -> Option<(String, String)> {
    let (name, rest) = split_token(text)?;
    let value = rest.trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
    let value = match value {
        [b'"', inside @ .., b'"'] => unescaped(inside)?,
        _ => split_token(value).filter(|(_, rest)| rest.is_empty())?.0,
    };
    Some((name.to_ascii_lowercase(), value))
}

/// The text of a quoted string; `None` if it ends earlier.
fn unescaped(inside: &[u8]) -> Option<String> {
    let mut text = Vec::new();
    let mut bytes = inside.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return None,
            b'\\' => text.push(*bytes.next()?),
            byte => text.push(*byte),
        }
    }
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// The token at the beginning, and what follows.
fn split_token(text: &[u8]) -> Option<(String, &[u8])> {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let length = text.iter().take_while(|byte| is_token(byte)).count();
    let (token, rest) = text.split_at(length);
    (length > 0).then(|| (String::from_utf8_lossy(token).into_owned(), rest))
}

fn is_token68(text: &[u8]) -> bool {
    let end = text.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    let is_own = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(byte);
    end > 0 && text[..end].iter().all(is_own)
}

/// Metadata documents: what was accepted belongs to the server and the issuer that it was looked for, all endpoints are
/// `https` or on this machine, and what was read can be written and read again (OA-P-02 to OA-A-06).
///
/// The first line is the URL of the server, the second one that of the issuer or of a document; the rest is the document.
pub fn metadata(data: &[u8]) {
    let mut parts = data.splitn(3, |byte| *byte == b'\n');
    let (Some(server), Some(named), Some(document)) = (parts.next(), parts.next(), parts.next()) else { return };
    let (server, named) = (String::from_utf8_lossy(server), String::from_utf8_lossy(named));
    let value: Option<Value> = serde_json::from_slice(document).ok();
    places_of_resource(&server, &named);
    places_of_issuer(&named);
    resource(document, value.as_ref(), &server);
    issuer(document, value.as_ref(), &named);
}

/// The places of the metadata of a resource are on its own origin, and the first is that where a server publishes it. One
/// that a challenge names comes before them; it is on the own origin too if it is relative.
fn places_of_resource(server: &str, named: &str) {
    if let Ok(places) = ResourceMetadata::candidates(server, Some(named)) {
        let (first, others) = places.split_first().expect("a place");
        let is_absolute = named.to_ascii_lowercase().starts_with("http");
        assert!(is_absolute && first == named || origin(first) == origin(server), "{named} became {first}");
        assert!(is_secure(first) || origin(first) == origin(server), "{named}");
        let mut usual = ResourceMetadata::candidates(server, None).expect("the URL of the server");
        usual.retain(|place| place != first);
        assert_eq!(others, usual, "{named}");
    }
    let published = ProtectedResource::new(server);
    let Ok(places) = ResourceMetadata::candidates(server, None) else {
        assert!(published.is_err(), "{server}");
        return;
    };
    let published = published.expect("a URL that a client may use");
    assert!(places.len() <= 2);
    for place in &places {
        assert_eq!(origin(place), origin(server));
        let named = ResourceMetadata::candidates(server, Some(place)).expect("a place");
        assert_eq!((&named[0], named.len()), (place, places.len()), "no place occurs twice");
    }
    assert_eq!(after_origin(&places[0]), after_origin(published.metadata_url()));
    assert_eq!(after_origin(&places[places.len() - 1]), "/.well-known/oauth-protected-resource");

    // What a server publishes about itself is accepted by a client that uses the same URL.
    let published = published.authorization_server("https://as.example").expect("a URL");
    let read = ResourceMetadata::parse(&published.to_json(), server).expect("the metadata of this server");
    assert_eq!(read.resource(), server);
}

/// Metadata of an issuer is looked for on its own origin, and at the root only if it has no path (OA-A-01).
fn places_of_issuer(issuer: &str) {
    let Ok(places) = IssuerMetadata::candidates(issuer) else { return };
    assert!(is_secure(issuer), "{issuer}");
    let path = after_origin(issuer).split('?').next().unwrap_or_default().trim_end_matches('/');
    let path = encoded(path);
    for place in &places {
        assert_eq!(origin(place), origin(issuer));
        assert!(after_origin(place).contains(&*path), "{place}");
    }
    assert_eq!(places.len(), if path.is_empty() { 2 } else { 3 });
}

fn resource(document: &[u8], value: Option<&Value>, server: &str) {
    let Ok(read) = ResourceMetadata::parse(document, server) else { return };
    // A member that is ignored may be no UTF-8, or a number without measure, which another reader refuses.
    let Some(value) = value else { return };
    assert!(value.is_object());
    assert_eq!(value["resource"], read.resource());
    assert_eq!(value["authorization_servers"], json!(read.authorization_servers()));
    assert!(!read.authorization_servers().is_empty());
    assert_eq!(
        value.get("scopes_supported").filter(|scopes| !scopes.is_null()).cloned(),
        read.scopes_supported().map(|scopes| json!(scopes))
    );
    let requires_dpop = value.get("dpop_bound_access_tokens_required") == Some(&json!(true));
    assert_eq!(requires_dpop, read.requires_dpop());

    assert_eq!(origin(read.resource()), origin(server), "the resource of another origin");
    let segments = |url: &str| -> Vec<String> {
        let path = encoded(after_origin(url).split('?').next().unwrap_or_default());
        let path = path.strip_suffix('/').unwrap_or(&path);
        path.split('/').map(str::to_owned).collect()
    };
    let (own, of_server) = (segments(read.resource()), segments(server));
    assert!(of_server.starts_with(&own), "{} is not above {server}", read.resource());
}

fn issuer(document: &[u8], value: Option<&Value>, issuer: &str) {
    let named = IssuerMetadata::parse(document, Some(issuer));
    let any = IssuerMetadata::parse(document, None);
    let Ok(read) = any else {
        assert!(named.is_err());
        return;
    };
    if read.issuer() == issuer {
        assert_eq!(named.as_ref(), Ok(&read));
    } else {
        assert!(matches!(named, Err(InvalidMetadata::OtherIssuer { .. })), "{issuer} is not {}", read.issuer());
    }
    // A member that is ignored may be no UTF-8, or a number without measure, which another reader refuses.
    let Some(value) = value else { return };
    assert!(value.is_object());
    assert_eq!(value["issuer"], read.issuer());
    for (member, url) in [
        ("authorization_endpoint", read.authorization_endpoint()),
        ("token_endpoint", Some(read.token_endpoint())),
        ("registration_endpoint", read.registration_endpoint()),
        ("device_authorization_endpoint", read.device_authorization_endpoint()),
        ("revocation_endpoint", read.revocation_endpoint()),
    ] {
        assert_eq!(value[member].as_str(), url, "{member}");
        assert!(url.is_none_or(is_secure), "{member}: {url:?}");
    }
    let again = serde_json::to_vec(&read).expect("texts");
    assert_eq!(IssuerMetadata::parse(&again, Some(read.issuer())), Ok(read));
}

/// The part of a URL that a port or a path may follow, and the rest.
fn split_url(url: &str) -> (String, &str, &str) {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    (scheme.to_ascii_lowercase(), authority, rest)
}

/// Scheme, host and port, without differences of spelling.
fn origin(url: &str) -> (String, String, u32) {
    let (scheme, authority, _) = split_url(url);
    // The last colon of an IPv6 address without a port is inside of its brackets.
    let port = authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
    let (host, port) = port.map_or((authority, None), |(host, port)| (host, port.parse().ok()));
    let implied = if scheme == "https" { 443 } else { 80 };
    (scheme, host.to_ascii_lowercase(), port.unwrap_or(implied))
}

fn after_origin(url: &str) -> &str {
    split_url(url).2
}

/// A path with the characters that a URL must not contain in percent-encoding.
fn encoded(path: &str) -> String {
    let is_kept = |byte: u8| byte.is_ascii() && !b"\"<>^`{|}".contains(&byte);
    let write = |byte| if is_kept(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    path.bytes().map(write).collect()
}

/// Whether credentials may be sent to a URL: with `https` anywhere, with `http` to this machine, and only if no two
/// parsers find different hosts in it (OA-A-06).
fn is_secure(url: &str) -> bool {
    let (scheme, host, _) = origin(url);
    let host = host.strip_suffix('.').unwrap_or(&host);
    let is_loopback = host == "localhost"
        || host.ends_with(".localhost")
        || host.starts_with("127.") && host.parse::<std::net::Ipv4Addr>().is_ok()
        || host.starts_with('[')
            && (host.ends_with("::1]") || host.contains("127.") || host.contains("7f") || host.ends_with(":1]"));
    let is_plain = !url.contains(['\\', '#', ' ', '\t', '\r', '\n', '\0']) && !split_url(url).1.contains('@');
    is_plain && !host.is_empty() && (scheme == "https" || scheme == "http" && is_loopback)
}

/// Responses of token endpoints: a token is accepted exactly if the response is one by the letter of the rules, and
/// neither errors nor debug forms have it (OA-K-03, OA-K-04, OA-N-04).
///
/// The first byte selects the status; the rest is the body.
pub fn token_response(data: &[u8]) {
    let [status, body @ ..] = data else { return };
    let statuses = [200, 200, 200, 201, 302, 400, 401, 403, 408, 425, 429, 500, 503];
    let status = StatusCode::from_u16(statuses[usize::from(*status) % statuses.len()]).expect("a status");
    let parsed = TokenResponse::parse(status, body);
    let value: Option<Value> = serde_json::from_slice(body).ok();
    match &parsed {
        Ok(response) => {
            // A member that is ignored may be no UTF-8, or a number without measure, which another reader refuses.
            if let Some(value) = &value {
                assert!(is_token_response(status, value), "{status} {value}");
                accepted(response, value);
            }
        }
        Err(error) => refused(error, status),
    }
    // Written again, so that no member occurs twice.
    let Some(mut value) = value else { return };
    let again = TokenResponse::parse(status, value.to_string().as_bytes());
    assert_eq!(again.is_ok(), is_token_response(status, &value), "{status} {value}");
    if again.is_ok() {
        for (length, is_accepted) in [(0, false), (1, true), (MAX_TOKEN, true), (MAX_TOKEN + 1, false)] {
            let holder = if is_of_user(&value) { &mut value["authed_user"] } else { &mut value };
            holder["access_token"] = json!("t".repeat(length));
            let parsed = TokenResponse::parse(status, value.to_string().as_bytes());
            assert_eq!(parsed.is_ok(), is_accepted, "a token of {length} bytes");
        }
    }
}

/// Whether the token of a response is that of the person: the response has none of its own (`TokenOfUser`).
fn is_of_user(value: &Value) -> bool {
    let own = &value["authed_user"];
    value["access_token"].is_null() && value["error"].is_null() && own["error"].is_null() && has_token(own)
}

fn accepted(response: &TokenResponse, value: &Value) {
    let is_of_user = is_of_user(value);
    assert_eq!(response.quirks.contains(&ProviderQuirk::TokenOfUser), is_of_user);
    let value = if is_of_user { &value["authed_user"] } else { value };
    assert_eq!(value["access_token"], response.access_token.reveal());
    for (member, secret) in [("refresh_token", &response.refresh_token), ("id_token", &response.id_token)] {
        let own = value[member].as_str().filter(|token| is_sent(token));
        assert_eq!(own, secret.as_ref().map(Secret::reveal), "{member}");
    }
    let scheme = match &*kind(value) {
        "n_a" => None,
        "dpop" => Some(TokenScheme::Dpop),
        _ => Some(TokenScheme::Bearer),
    };
    assert_eq!(response.scheme, scheme);
    assert!(response.expires_in.is_none_or(|seconds| seconds <= 3_200_000_000));
    let mut other = response.clone();
    other.access_token = "other".into();
    other.refresh_token = other.refresh_token.map(|_| "other".into());
    other.id_token = other.id_token.map(|_| "other".into());
    assert_eq!(format!("{response:?}"), format!("{other:?}"), "the debug form depends on a secret");
}

fn refused(error: &TokenError, status: StatusCode) {
    let is_temporary = status.is_server_error() || [408, 425, 429].contains(&status.as_u16());
    assert_eq!(matches!(error, TokenError::Temporary(_)), is_temporary, "{status}: {error}");
    let shown = error.to_string();
    assert!(!shown.chars().any(char::is_control) && shown.len() < 8 * 1024, "{shown}");
}

fn kind(value: &Value) -> String {
    value["token_type"].as_str().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Whether a response has a token that can be used.
fn is_token_response(status: StatusCode, value: &Value) -> bool {
    if status != StatusCode::OK || !value["error"].is_null() || !has_types(value) {
        return false;
    }
    let value = if is_of_user(value) { &value["authed_user"] } else { value };
    // A type that can only be used as a bearer token, or none.
    let kinds = ["bearer", "dpop", "n_a", "", "user", "bot", "bearertoken"];
    has_token(value) && kinds.contains(&&*kind(value)) && value["access_token"].as_str().is_some_and(is_sent)
}

/// Whether an object has a token, and all members of a response have the right types.
fn has_token(value: &Value) -> bool {
    has_types(value) && value["access_token"].is_string()
}

fn has_types(value: &Value) -> bool {
    let is_text = |member: &str| value.get(member).is_none_or(|own| own.is_string() || own.is_null());
    let expires_in = value.get("expires_in").is_none_or(|own| own.is_string() || own.is_null() || own.is_number());
    let texts =
        ["access_token", "token_type", "scope", "refresh_token", "id_token", "issued_token_type", "error_description"];
    value.is_object() && expires_in && texts.into_iter().all(is_text)
}

/// Whether a token can be sent in a header.
fn is_sent(token: &str) -> bool {
    (1..=MAX_TOKEN).contains(&token.len()) && token.chars().all(|c| c.is_ascii_graphic())
}
