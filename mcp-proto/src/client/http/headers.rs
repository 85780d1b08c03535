//! HTTP headers: the ones that are sent, and what is read from the ones that arrive.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, DATE, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};

use super::endpoint::Endpoint;
use crate::error::Refusal;
use crate::headers::{LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID, body_kind};
use crate::limits::Limits;
use crate::sse::EventId;
use crate::version::ProtocolVersion;

/// The server's name for a session: 0x21 to 0x7E only, and a secret (SH-S-41, SH-C-07).
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SessionId(HeaderValue);

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionId")
    }
}

/// What a session's requests have in common.
#[derive(Debug)]
pub(crate) struct Common<'c> {
    pub(crate) user: &'c HeaderMap,
    pub(crate) session: Option<&'c SessionId>,
    pub(crate) version: Option<ProtocolVersion>,
}

impl Common<'_> {
    /// SH-C-01 to SH-C-03
    pub(crate) fn post(&self, to: &Endpoint, body: Bytes, mirrored: Option<&HeaderMap>) -> Request<Bytes> {
        let mut request = self.request(Method::POST, to, body);
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // RULES 8.2
        headers.extend(mirrored.into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())));
        request
    }

    /// SH-C-38, SH-C-39, and SH-C-32 with a cursor
    pub(crate) fn get(&self, from: &Endpoint, cursor: Option<&EventId>) -> Request<Bytes> {
        let mut request = self.request(Method::GET, from, Bytes::new());
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(cursor) = cursor.and_then(EventId::to_header_value) {
            headers.insert(LAST_EVENT_ID, cursor);
        }
        request
    }

    /// SH-C-09
    pub(crate) fn delete(&self, at: &Endpoint) -> Request<Bytes> {
        self.request(Method::DELETE, at, Bytes::new())
    }

    fn request(&self, method: Method, to: &Endpoint, body: Bytes) -> Request<Bytes> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = to.to_uri();
        let headers = request.headers_mut();
        // SH-C-18: the user's headers, credentials among them, go with every request, and only to this origin.
        headers.extend(self.user.iter().map(|(name, value)| (name.clone(), value.clone())));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        // SH-C-06
        if let Some(SessionId(id)) = self.session {
            headers.insert(SESSION_ID, id.clone());
        }
        // SH-C-05
        if let Some(version) = self.version.filter(|version| version.rules().version_header) {
            headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(version.as_str()));
        }
        request
    }
}

/// What the headers of a response say about a session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SessionHeader {
    Absent,
    Valid(SessionId),
    /// HT3
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

/// HT10
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
    }
}

/// `Retry-After` as a number of seconds, or as a date, which is measured from the server's own `Date` (HT8): the core
/// has no clock, and the server's may differ from ours anyway.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let until = seconds_of_date(value)?;
    let now = seconds_of_date(headers.get(DATE)?.to_str().ok()?)?;
    Some(Duration::from_secs(until.saturating_sub(now)))
}

/// The seconds since 1970 of a date such as `Sun, 06 Nov 1994 08:49:37 GMT`, the only form that RFC 9110 lets be sent.
fn seconds_of_date(text: &str) -> Option<u64> {
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
        assert_eq!(seconds_of_date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(seconds_of_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(seconds_of_date("Sat, 21 Nov 2026 03:01:50 GMT"), Some(1_795_230_110));
    }
}
