//! The reserved keys of `_meta`: reading them from requests, and writing them into messages.
//!
//! Writing changes only the text of the written members; every other byte stays as it is.
//!
//! Rules: RULES 8.1.

use crate::json::Json;

/// The revision of a request.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The capabilities of the client, for this request.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The client's name and version.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// The least severe level of the log messages that the client requests for this request.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The server's name and version.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The id of the `subscriptions/listen` that a message belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// All reserved keys.
pub const KEYS: &[&str] =
    &[PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, SERVER_INFO, SUBSCRIPTION_ID];

/// The reserved members of a request's `_meta`. A value of the wrong type counts as missing.
///
/// Rules: MD-M-03.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RequestMeta {
    /// Whether there is a revision or a capabilities member, of any type, which only requests of the modern era have.
    ///
    /// Rules: ER-41.
    pub is_claimed: bool,
    /// The name of the revision, which may be unknown to this crate.
    pub version: Option<Box<str>>,
    /// An object.
    pub client_capabilities: Option<Json>,
    /// An object.
    pub client_info: Option<Json>,
    /// A string, which may not be a valid level.
    pub log_level: Option<Box<str>>,
}

impl RequestMeta {
    /// Reads the members from the parameters of a request.
    #[must_use]
    pub fn read(params: Option<&Json>) -> Self {
        let Some(meta) = params.and_then(|params| params.first_member("_meta")) else { return Self::default() };
        let [version, capabilities, info, level] =
            meta.first_members([PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL]);
        let is_claimed = version.is_some() || capabilities.is_some();
        let text = |value: Option<Json>| value.and_then(|value| value.as_string().map(|text| Box::from(&*text)));
        Self {
            is_claimed,
            version: text(version),
            client_capabilities: capabilities.filter(Json::is_object),
            client_info: info.filter(Json::is_object),
            log_level: text(level),
        }
    }
}

/// Returns `object` with these members of its `_meta` set. A `_meta` that is not an object is replaced.
#[must_use]
pub fn stamp(object: &Json, set: &[(&str, &Json)]) -> Json {
    let meta = object.first_member("_meta").filter(Json::is_object).unwrap_or(Json::empty_object());
    object.with_members(&[("_meta", &meta.with_members(set))])
}

/// Returns `object` without these keys of its `_meta`, and without the `_meta` if it is then empty.
#[must_use]
pub fn without_keys(object: &Json, keys: &[&str]) -> Json {
    let Some(meta) = object.first_member("_meta") else { return object.clone() };
    let stripped = meta.without_members(keys);
    if stripped == meta {
        object.clone()
    } else if stripped == Json::empty_object() {
        object.without_members(&["_meta"])
    } else {
        object.with_member("_meta", &stripped)
    }
}

/// Returns `params` of a notification with the id of the `subscriptions/listen` to which the notification belongs.
///
/// Rules: MD-L-04.
#[must_use]
pub fn with_subscription_id(params: &Json, id: &Json) -> Json {
    stamp(params, &[(SUBSCRIPTION_ID, id)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).expect("the test's text is JSON")
    }

    #[test]
    fn md_m_03_what_has_the_wrong_type_counts_as_missing() {
        let read = |meta: &str| RequestMeta::read(Some(&json(&format!(r#"{{"_meta":{meta}}}"#))));
        let full = read(
            r#"{"progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28",
                "io.modelcontextprotocol/clientCapabilities":{"roots":{}},
                "io.modelcontextprotocol/clientInfo":{"name":"c"},"io.modelcontextprotocol/logLevel":"loud"}"#,
        );
        assert_eq!(full.version.as_deref(), Some("2026-07-28"));
        assert_eq!(full.client_capabilities, Some(json(r#"{"roots":{}}"#)));
        assert_eq!(full.client_info, Some(json(r#"{"name":"c"}"#)));
        assert_eq!(full.log_level.as_deref(), Some("loud"));
        let wrong = read(
            r#"{"io.modelcontextprotocol/protocolVersion":20260728,"io.modelcontextprotocol/clientCapabilities":[],
                "io.modelcontextprotocol/clientInfo":"c","io.modelcontextprotocol/logLevel":7}"#,
        );
        assert_eq!(wrong, RequestMeta { is_claimed: true, ..RequestMeta::default() });
        for meta in ["[]", "null", "\"\"", "{}"] {
            assert_eq!(read(meta), RequestMeta::default(), "{meta}");
        }
        assert_eq!(RequestMeta::read(None), RequestMeta::default());
    }

    #[test]
    fn stamping_leaves_every_other_byte() {
        let id = json("7");
        for (before, after) in [
            ("{}", r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":7}}"#),
            (r#"{"uri":"a"}"#, r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"uri":"a"}"#),
            (
                r#"{ "_meta" : { "x": 1.0 } }"#,
                r#"{ "_meta" : {"io.modelcontextprotocol/subscriptionId":7, "x": 1.0 } }"#,
            ),
            (
                r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":"other"}}"#,
                r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":7}}"#,
            ),
            (r#"{"_meta":null}"#, r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":7}}"#),
        ] {
            assert_eq!(with_subscription_id(&json(before), &id).to_text(), after);
        }
    }
}
