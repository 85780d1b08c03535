//! HTTP headers of requests, and fields from the headers of responses.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, COOKIE, DATE, LOCATION, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use http::response::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};

use super::cookies::Cookies;
use crate::auth::Credentials;
use crate::error::{Failed, Refusal};
use crate::limits::Limits;
use crate::spec::ProtocolVersion;
use crate::spec::header::{LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID, body_kind};
use crate::sse::EventId;
use crate::url::HttpUrl;

/// The id of a session: bytes 0x21 to 0x7E only, and a secret (SH-S-41, SH-C-07).
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SessionId(HeaderValue);

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionId")
    }
}

/// The headers that all requests of a session have in common.
#[derive(Debug)]
pub(crate) struct Common<'c> {
    pub(crate) user: &'c HeaderMap,
    /// The user's headers before these, which the server may still repeat.
    pub(crate) former_user: &'c HeaderMap,
    pub(crate) credentials: Option<&'c Credentials>,
    pub(crate) session: Option<&'c SessionId>,
    /// The session before, whose id the server may still repeat.
    pub(crate) former_session: Option<&'c SessionId>,
    pub(crate) cookies: Option<&'c Cookies>,
    pub(crate) version: Option<ProtocolVersion>,
}

impl Common<'_> {
    /// A POST with one message (SH-C-01 to SH-C-03).
    pub(crate) fn post(&self, to: &HttpUrl, body: Bytes, mirrored: Option<&HeaderMap>) -> Request<Bytes> {
        let mut request = self.request(Method::POST, to, body);
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // Headers that repeat parts of the body (RULES 8.2).
        headers.extend(mirrored.into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())));
        request
    }

    /// A GET that opens a stream (SH-C-38, SH-C-39), or resumes one with a cursor (SH-C-32).
    pub(crate) fn get(&self, from: &HttpUrl, cursor: Option<&EventId>) -> Request<Bytes> {
        let mut request = self.request(Method::GET, from, Bytes::new());
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(cursor) = cursor.and_then(EventId::to_header_value) {
            headers.insert(LAST_EVENT_ID, cursor);
        }
        request
    }

    /// A DELETE that ends the session (SH-C-09).
    pub(crate) fn delete(&self, at: &HttpUrl) -> Request<Bytes> {
        self.request(Method::DELETE, at, Bytes::new())
    }

    /// Replaces in a text of the server what the client keeps secret: the values of its headers and cookies, the ids of
    /// this session and the one before, and the values in the query of `endpoint`. A server may repeat what it has refused.
    pub(crate) fn without_secrets(&self, text: String, endpoint: &HttpUrl) -> String {
        let token = self.credentials.map(Credentials::header);
        let sessions = [self.session, self.former_session].into_iter().flatten().map(|SessionId(id)| id);
        let headers = self
            .user
            .values()
            .chain(self.former_user.values())
            .chain(token)
            .chain(sessions)
            .filter_map(|value| value.to_str().ok());
        // A scheme, as of `Bearer`, is no secret.
        let headers = headers.flat_map(|value| value.split(' '));
        let query = endpoint.query().unwrap_or_default().split('&');
        let query = query.map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value));
        let cookies = self.cookies.into_iter().flat_map(Cookies::values);
        let secrets = headers.chain(query).chain(cookies).filter(|secret| secret.len() >= SHORTEST_SECRET);
        // The longest first, so that no part of a secret that contains another one stays.
        let mut secrets: Vec<_> = secrets.collect();
        secrets.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.into_iter().fold(text, |text, secret| text.replace(secret, "[…]"))
    }

    fn request(&self, method: Method, to: &HttpUrl, body: Bytes) -> Request<Bytes> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = to.to_uri();
        let headers = request.headers_mut();
        // The user's headers, which include credentials, are sent with every request, and only to this origin
        // (SH-C-18).
        headers.extend(self.user.iter().map(|(name, value)| (name.clone(), value.clone())));
        // As the user's headers, an access token is sent with every request, and only to this origin (OA-U-01).
        if let Some(credentials) = self.credentials {
            headers.insert(AUTHORIZATION, credentials.header().clone());
        }
        if let (Some(cookies), false) = (self.cookies, headers.contains_key(COOKIE)) {
            headers.extend(cookies.header(to.path()).map(|cookies| (COOKIE, cookies)));
        }
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        // Every request in a session carries its id (SH-C-06).
        if let Some(SessionId(id)) = self.session {
            headers.insert(SESSION_ID, id.clone());
        }
        // Every request after `initialize` carries the revision (SH-C-05).
        if let Some(version) = self.version.filter(|version| version.rules().version_header) {
            headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(version.as_str()));
        }
        request
    }
}

/// The fewest characters of a value that is replaced in texts for people. Shorter ones are words such as `Bearer`.
const SHORTEST_SECRET: usize = 8;

/// The session id in the headers of a response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SessionHeader {
    Absent,
    Valid(SessionId),
    /// Not visible ASCII, empty, too long, or repeated (HT3).
    Invalid,
}

pub(crate) fn session_id(headers: &HeaderMap, limits: &Limits) -> SessionHeader {
    let mut values = headers.get_all(SESSION_ID).iter();
    let Some(value) = values.next() else { return SessionHeader::Absent };
    let bytes = value.as_bytes();
    let visible = !bytes.is_empty() && bytes.iter().all(|byte| matches!(byte, b'!'..=b'~'));
    if !visible || bytes.len() > limits.session_id || values.next().is_some() {
        return SessionHeader::Invalid;
    }
    let mut value = value.clone();
    value.set_sensitive(true);
    SessionHeader::Valid(SessionId(value))
}

/// Whether the body has a content encoding other than `identity`, which was not requested (HT10).
pub(crate) fn is_encoded(headers: &HeaderMap) -> bool {
    headers.get_all(CONTENT_ENCODING).iter().any(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"))
}

pub(crate) fn location(headers: &HeaderMap) -> Option<&str> {
    headers.get(LOCATION)?.to_str().ok()
}

pub(crate) fn refusal(status: StatusCode, headers: &HeaderMap, limits: &Limits) -> Refusal {
    Refusal {
        status,
        body: body_kind(headers),
        retry_after: retry_after(headers).map(|after| after.min(limits.max_retry)),
        challenges: headers.get_all(WWW_AUTHENTICATE).iter().cloned().collect(),
        explanation: None,
    }
}

/// The delay of `Retry-After`, as a number of seconds or as a date (HT8). A date is compared with the response's
/// `Date`: the core has no clock, and the server's clock may differ anyway.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let until = seconds_of_date(value)?;
    let now = seconds_of_date(headers.get(DATE)?.to_str().ok()?)?;
    Some(Duration::from_secs(until.saturating_sub(now)))
}

/// The seconds since 1970 of a date such as `Sun, 06 Nov 1994 08:49:37 GMT`, the only form that RFC 9110 allows senders
/// to use.
pub(super) fn seconds_of_date(text: &str) -> Option<u64> {
    let mut fields = text.split_once(", ")?.1.split(' ');
    let day: u64 = fields.next()?.parse().ok()?;
    let month = fields.next()?;
    let year: u64 = fields.next()?.parse().ok()?;
    let mut time = fields.next()?.split(':').map(|field| field.parse::<u64>().ok());
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    if fields.next() != Some("GMT") || !(1970..=9999).contains(&year) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let is_leap = |year: u64| (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let february = if is_leap(year) { 29 } else { 28 };
    let months = [
        ("Jan", 31),
        ("Feb", february),
        ("Mar", 31),
        ("Apr", 30),
        ("May", 31),
        ("Jun", 30),
        ("Jul", 31),
        ("Aug", 31),
        ("Sep", 30),
        ("Oct", 31),
        ("Nov", 30),
        ("Dec", 31),
    ];
    let position = months.iter().position(|(name, _)| *name == month)?;
    let length = months.get(position)?.1;
    if day == 0 || day > length {
        return None;
    }
    let before_year: u64 = (1970..year).map(|year| if is_leap(year) { 366 } else { 365 }).sum();
    let before_month: u64 = months.iter().take(position).map(|(_, length)| length).sum();
    Some(((before_year + before_month + day - 1) * 24 + hour) * 3600 + minute * 60 + second)
}

/// Why a response is not the expected stream.
pub(super) fn not_a_stream(head: &Parts, limits: &Limits) -> Failed {
    if !head.status.is_success() {
        return Failed::Refused(refusal(head.status, &head.headers, limits));
    }
    if is_encoded(&head.headers) {
        return Failed::ContentEncoding;
    }
    Failed::NotAStream { body: body_kind(&head.headers) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    #[test]
    fn ht3_a_session_id_is_visible_ascii_once_and_not_too_long() {
        let limits = Limits::default();
        let [longest, long] = [limits.session_id, limits.session_id + 1].map(|length| "x".repeat(length));
        for (values, valid) in [
            (vec!["a1-~!"], true),
            (vec!["bad id"], false),
            (vec![""], false),
            (vec!["\u{e9}"], false),
            (vec![longest.as_str()], true),
            (vec![long.as_str()], false),
            (vec!["a", "a"], false),
        ] {
            let fields: Vec<_> = values.iter().map(|value| ("mcp-session-id", *value)).collect();
            let header = session_id(&headers(&fields), &limits);
            assert_eq!(matches!(header, SessionHeader::Valid(_)), valid, "{values:?}");
        }
        assert_eq!(session_id(&HeaderMap::new(), &limits), SessionHeader::Absent);
    }

    #[test]
    fn a_session_id_is_never_printed() {
        assert_eq!(format!("{:?}", SessionId(HeaderValue::from_static("secret"))), "SessionId");
    }

    #[test]
    fn ht8_retry_after_is_seconds_or_a_date() {
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        for (fields, expected) in [
            (vec![("retry-after", "120")], Some(120)),
            (vec![("retry-after", "99999999999999999999")], Some(u64::MAX)),
            (vec![("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT"), date], Some(30)),
            (vec![("retry-after", "Sat, 05 Nov 1994 08:50:07 GMT"), date], Some(0)),
            (vec![("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")], None),
            (vec![("retry-after", "soon"), date], None),
            (vec![("retry-after", "-5"), date], None),
            (vec![("retry-after", "Sun, 31 Feb 1994 08:50:07 GMT"), date], None),
            (vec![], None),
        ] {
            assert_eq!(retry_after(&headers(&fields)), expected.map(Duration::from_secs), "{fields:?}");
        }
    }

    #[test]
    fn ht8_dates_are_counted_from_1970_on_and_must_exist() {
        for (date, seconds) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
            ("Thu, 31 Dec 1970 23:59:59 GMT", 31_535_999),
            ("Fri, 01 Jan 1971 00:00:00 GMT", 31_536_000),
            ("Tue, 29 Feb 1972 12:30:15 GMT", 68_214_615),
            ("Wed, 01 Mar 1972 00:00:00 GMT", 68_256_000),
            ("Fri, 31 Dec 1999 23:59:59 GMT", 946_684_799),
            ("Tue, 29 Feb 2000 00:00:01 GMT", 951_782_401),
            ("Wed, 01 Mar 2000 00:00:00 GMT", 951_868_800),
            ("Thu, 30 Apr 2026 10:20:30 GMT", 1_777_544_430),
            ("Sun, 31 May 2026 00:00:00 GMT", 1_780_185_600),
            ("Tue, 30 Jun 2026 00:00:00 GMT", 1_782_777_600),
            ("Fri, 31 Jul 2026 00:00:00 GMT", 1_785_456_000),
            ("Mon, 31 Aug 2026 00:00:00 GMT", 1_788_134_400),
            ("Wed, 30 Sep 2026 00:00:00 GMT", 1_790_726_400),
            ("Sat, 31 Oct 2026 00:00:00 GMT", 1_793_404_800),
            ("Mon, 30 Nov 2026 00:00:00 GMT", 1_795_996_800),
            ("Sat, 31 Jan 2026 00:00:00 GMT", 1_769_817_600),
            ("Sun, 28 Feb 2100 00:00:00 GMT", 4_107_456_000),
            ("Mon, 01 Mar 2100 00:00:00 GMT", 4_107_542_400),
            ("Sat, 01 Jan 2101 00:00:00 GMT", 4_133_980_800),
            ("Sun, 31 Dec 2400 23:59:59 GMT", 13_601_087_999),
            ("Fri, 31 Dec 9999 23:59:59 GMT", 253_402_300_799),
            // A leap second counts as the first second of the next minute.
            ("Sat, 31 Dec 2016 23:59:60 GMT", 1_483_228_800),
        ] {
            assert_eq!(seconds_of_date(date), Some(seconds), "{date}");
        }
        for date in [
            "Wed, 31 Dec 1969 23:59:59 GMT",
            "Sat, 01 Jan 10000 00:00:00 GMT",
            "Wed, 29 Feb 2023 00:00:00 GMT",
            "Mon, 29 Feb 2100 00:00:00 GMT",
            "Thu, 00 Jan 2026 00:00:00 GMT",
            "Sun, 32 Jan 2026 00:00:00 GMT",
            "Thu, 31 Apr 2026 00:00:00 GMT",
            "Thu, 01 Jan 2026 24:00:00 GMT",
            "Thu, 01 Jan 2026 00:60:00 GMT",
            "Thu, 01 Jan 2026 00:00:61 GMT",
            "Thu, 01 Jan 2026 00:00 GMT",
            "Thu, 01 Jan 2026 00:00:00 CET",
            "Thu, 01 Jan 2026 00:00:00",
            "01 Jan 2026 00:00:00 GMT",
            "Thu, 01 jan 2026 00:00:00 GMT",
            "",
        ] {
            assert_eq!(seconds_of_date(date), None, "{date}");
        }
    }
}
