//! What the body of an HTTP error says to a person, in one of the shapes that servers, gateways and HTTP proxies use.
//!
//! | body | explanation |
//! |---|---|
//! | JSON-RPC: `{"error":{"code":-32000,"message":"M"}}` | `M` |
//! | OAuth (RFC 6749): `{"error":"E","error_description":"D"}` | `E: D` |
//! | problem details (RFC 9457): `{"title":"T","detail":"D"}` | `T: D` |
//! | `{"message":"M"}`, `{"detail":"M"}`, `{"errors":[{"message":"M"}]}` and the like | `M` |
//! | a JSON string | the string |
//! | HTML or XML | the title, the first heading, or the element `pre` or `Message` |
//! | other text | the text |

use std::borrow::Cow;

use crate::json::Json;

/// Members that name the kind of an error.
const KINDS: [&str; 3] = ["error", "title", "fault"];
/// Members that describe an error, the most specific first.
const DESCRIPTIONS: [&str; 10] = [
    "error_description",
    "detail",
    "message",
    "errorMessage",
    "Message",
    "msg",
    "faultstring",
    "reason",
    "description",
    "errors",
];
/// Nested values are read up to this depth, as in `{"errors":[{"error":{"message":"M"}}]}`.
const MAX_DEPTH: usize = 4;
/// Elements of HTML and XML whose text explains an error.
const ELEMENTS: [&str; 4] = ["title", "h1", "pre", "message"];
/// A title that explains nothing.
const NO_TITLE: &str = "error";
/// The most bytes of an explanation that are looked at.
const MAX_BYTES: usize = 4096;

/// The explanation in the body of an HTTP error, or in the beginning of it, with single blanks for white space.
///
/// `None` if the body is empty, is not text, or has none of the known shapes.
///
/// # Example
///
/// ```
/// use mcp_proto::find_explanation;
///
/// let body = br#"{"error":"invalid_grant","error_description":"the code was used before"}"#;
/// assert_eq!(find_explanation(body).as_deref(), Some("invalid_grant: the code was used before"));
/// assert_eq!(find_explanation(b""), None);
/// ```
#[must_use]
pub fn find_explanation(body: &[u8]) -> Option<String> {
    let text = readable(body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body))?.trim();
    let found = match text.bytes().next()? {
        b'{' | b'[' | b'"' => of_json(&Json::parse(text.to_owned()).ok()?, 0)?,
        b'<' => of_markup(text)?,
        _ => text.to_owned(),
    };
    let mut words = String::new();
    for word in found.split_whitespace() {
        if words.len() + word.len() > MAX_BYTES {
            break;
        }
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
    }
    (!words.is_empty()).then_some(words)
}

/// The text of a body, whose last character may be cut.
fn readable(body: &[u8]) -> Option<&str> {
    match std::str::from_utf8(body) {
        Ok(text) => Some(text),
        Err(error) if error.error_len().is_none() => std::str::from_utf8(body.get(..error.valid_up_to())?).ok(),
        Err(_) => None,
    }
    .filter(|text| !text.contains('\0'))
}

fn of_json(value: &Json, depth: usize) -> Option<String> {
    if let Some(text) = value.as_string() {
        return Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    }
    if depth == MAX_DEPTH {
        return None;
    }
    if value.is_array() {
        return of_json(&value.elements().next()?, depth + 1);
    }
    if !value.is_object() {
        return None;
    }
    let read = |members: &[Option<Json>]| members.iter().flatten().find_map(|member| of_json(member, depth + 1));
    let kind = read(&value.first_members(KINDS));
    let description = read(&value.first_members(DESCRIPTIONS));
    match (kind, description) {
        (Some(kind), Some(description)) if kind != description => Some(format!("{kind}: {description}")),
        (kind, description) => description.or(kind),
    }
}

/// The text of the first of [`ELEMENTS`] that the markup contains.
fn of_markup(markup: &str) -> Option<String> {
    let lower = markup.to_ascii_lowercase();
    ELEMENTS.iter().find_map(|element| {
        let tag = lower.find(&format!("<{element}"))?;
        let begin = tag + lower.get(tag..)?.find('>')? + 1;
        let end = begin + lower.get(begin..)?.find('<')?;
        let text = unescaped(markup.get(begin..end)?);
        let says_nothing = text.trim().is_empty() || text.trim().eq_ignore_ascii_case(NO_TITLE);
        (!says_nothing).then(|| text.into_owned())
    })
}

/// Replaces the entities that titles commonly contain.
fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return text.into();
    }
    // The ampersand is last, so that `&amp;lt;` stays `&lt;`.
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&nbsp;", " "), ("&amp;", "&")];
    entities.iter().fold(text.to_owned(), |text, (entity, character)| text.replace(entity, character)).into()
}

#[cfg(test)]
mod tests {
    use super::find_explanation;

    #[test]
    fn every_common_shape_of_an_error_is_explained() {
        for (body, expected) in [
            (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"No session"}}"#, Some("No session")),
            (
                r#"{"error":"invalid_token","error_description":"It has expired"}"#,
                Some("invalid_token: It has expired"),
            ),
            (r#"{"error":"Invalid session ID"}"#, Some("Invalid session ID")),
            (r#"{"error":{"type":"x","message":"Rate limit","status":429}}"#, Some("Rate limit")),
            (
                r#"{"type":"about:blank","title":"Out of credit","status":403,"detail":"Balance is 30"}"#,
                Some("Out of credit: Balance is 30"),
            ),
            (r#"{"title":"Bad Request","status":400}"#, Some("Bad Request")),
            (r#"{"statusCode":401,"error":"Unauthorized","message":"No key"}"#, Some("Unauthorized: No key")),
            (r#"{"message":"Internal Server Error"}"#, Some("Internal Server Error")),
            (r#"{"detail":"Not Found"}"#, Some("Not Found")),
            (r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#, Some("field required")),
            (
                r#"{"errors":[{"code":7,"message":"Authentication error"}],"success":false}"#,
                Some("Authentication error"),
            ),
            (r#"{"errors":["one","two"]}"#, Some("one")),
            (r#"{"fault":{"faultstring":"Invalid ApiKey","detail":{"errorcode":"x"}}}"#, Some("Invalid ApiKey")),
            (r#"{"error":true,"message":"Denied"}"#, Some("Denied")),
            (r#"{"error":"Denied","message":"Denied"}"#, Some("Denied")),
            (r#"{"error":"","message":" "}"#, None),
            (r#"{"errorMessage":"No key"}"#, Some("No key")),
            (r#"{"Message":"No key"}"#, Some("No key")),
            (r#"{"reason":"No key"}"#, Some("No key")),
            (r#"{"description":"No key"}"#, Some("No key")),
            (r#"{"fault":"No key"}"#, Some("No key")),
            // The most specific description.
            (r#"{"error":"E","errors":["x"],"description":"y","message":"z","error_description":"D"}"#, Some("E: D")),
            (r#"{"message":"Bad Request","detail":"No key"}"#, Some("No key")),
            (r#""Just a string""#, Some("Just a string")),
            ("{}", None),
            ("[]", None),
            (r#"{"status":400}"#, None),
            (r#"{"message":"cut"#, None),
            ("Invalid session ID\n", Some("Invalid session ID")),
            ("two\r\n  lines", Some("two lines")),
            ("\u{feff}with a mark", Some("with a mark")),
            ("<html><head><title>502 Bad Gateway</title></head></html>", Some("502 Bad Gateway")),
            ("<!doctype html><TITLE lang=en>\n Sign in &amp; go &lt;on&gt;\n</TITLE>", Some("Sign in & go <on>")),
            ("<title>Error</title><body><pre>Cannot POST /mcp</pre>", Some("Cannot POST /mcp")),
            ("<title>&quot;a&quot;&nbsp;&#39;b&#39; &amp;lt;</title>", Some("\"a\" 'b' &lt;")),
            ("<title>ERROR</title><h1>error </h1><pre>Denied</pre>", Some("Denied")),
            ("<html><body><h1 class='x'>Forbidden</h1>nginx</body></html>", Some("Forbidden")),
            ("<?xml version='1.0'?><Error><Code>X</Code><Message>Denied</Message></Error>", Some("Denied")),
            ("<html><body>nothing</body></html>", None),
            ("<title>never closed", None),
            ("<title", None),
            ("", None),
            (" \n", None),
            ("a\0b", None),
        ] {
            assert_eq!(find_explanation(body.as_bytes()).as_deref(), expected, "{body}");
        }
        assert_eq!(find_explanation(b"\xff\xfe"), None);
        assert_eq!(find_explanation("caf\u{e9}".as_bytes().get(..4).unwrap()).as_deref(), Some("caf"));
    }

    #[test]
    fn deep_and_long_bodies_are_bounded() {
        let deep = |depth| format!("{}\"far\"{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(find_explanation(deep(4).as_bytes()).as_deref(), Some("far"));
        assert_eq!(find_explanation(deep(5).as_bytes()), None);
        assert_eq!(find_explanation(deep(100_000).as_bytes()), None);
        let long = "word ".repeat(100_000);
        assert!(
            find_explanation(long.as_bytes())
                .is_some_and(|words| words.len() <= super::MAX_BYTES && words.len() > 4000)
        );
        assert_eq!(find_explanation("x".repeat(5000).as_bytes()), None);
    }
}
