//! Requests to the port to which the browser returns (OA-B-01).

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, REFERRER_POLICY,
};
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, request};
use mcp_proto::Instant;

use super::Authorizer;
use super::flow::Step;
use super::sign_in::Returned;
use crate::authorization::RedirectError;

impl Authorizer {
    /// A request has arrived at the port that the driver was asked to listen on. Returns the response, which the driver
    /// sends before it closes the connection.
    ///
    /// Anything but the redirect of the current sign-in has no effect: browsers also ask for icons, and other programs
    /// of this machine, or pages in its browser, may send requests of their own.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::Instant;
    /// use mcp_auth::{Authorizer, Config};
    ///
    /// let mut authorizer = Authorizer::new(Config::new("https://mcp.example/mcp", "my-app")?);
    /// let (head, ()) = http::Request::get("/favicon.ico").header("Host", "127.0.0.1:4000").body(()).unwrap().into_parts();
    /// assert_eq!(authorizer.handle_callback(&head, Instant::START).status(), 404);
    /// # Ok::<(), mcp_proto::UsageError>(())
    /// ```
    pub fn handle_callback(&mut self, head: &request::Parts, now: Instant) -> Response<Bytes> {
        let is_local = head.headers.get(HOST).and_then(|host| host.to_str().ok()).is_some_and(is_loopback_host);
        if head.method != Method::GET || head.uri.path() != self.config.callback_path || !is_local {
            return page(StatusCode::NOT_FOUND, "Not found", "There is nothing here.");
        }
        // The path is included: in a query alone, a question mark would be taken for the beginning of the query.
        let url = head.uri.path_and_query().map(PathAndQuery::as_str).unwrap_or_default();
        // A page of another site may send requests in the background.
        let is_page = head.headers.get("sec-fetch-dest").is_none_or(|destination| destination == "document");
        let returned = match self.flow.take() {
            Some(flow) if matches!(flow.step, Step::AwaitingRedirect(_)) => self.on_redirect(flow, url, is_page, now),
            flow => {
                self.flow = flow;
                Returned::Unexpected
            }
        };
        match returned {
            Returned::WithCode => {
                let text = "Your application completes the sign-in now, and shows whether it succeeds. You can close this \
                            window.";
                page(StatusCode::OK, "Response received", text)
            }
            Returned::Again => {
                let text = "The authorization server refuses the requested scopes for this client. Your application \
                            registers another one, and opens another window.";
                page(StatusCode::OK, "Not signed in yet", text)
            }
            Returned::Refused(error) => page(StatusCode::OK, "Not signed in", &sentence(&error)),
            Returned::WithoutState(error) => {
                let text = "It names no sign-in, so that your application still waits for another response.";
                page(StatusCode::BAD_REQUEST, "Not signed in", &format!("{} {text}", sentence(&error)))
            }
            Returned::Unexpected => {
                let text = "This response belongs to no sign-in that is in progress. Begin again in your application.";
                page(StatusCode::BAD_REQUEST, "Not expected", text)
            }
        }
    }
}

/// An error as a sentence of its own.
fn sentence(error: &RedirectError) -> String {
    let text = error.to_string();
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_ascii_uppercase());
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    first.into_iter().chain(characters).chain(end.chars()).collect()
}

/// A text of another program inside of HTML.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(c),
        }
    }
    escaped
}

/// Whether the `Host` of a request is this machine, and not a name that another site points here (DNS rebinding).
fn is_loopback_host(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        Some(_) | None => host,
    };
    matches!(name, "127.0.0.1" | "localhost" | "[::1]")
}

/// A page for the person at the browser. The page repeats nothing of the request but the error, as text.
fn page(status: StatusCode, title: &str, text: &str) -> Response<Bytes> {
    let text = escaped(text);
    let body = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\
         <body><h1>{title}</h1><p>{text}</p></body></html>\n"
    );
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    let length = HeaderValue::from(response.body().len());
    let headers = response.headers_mut();
    let fields: [(HeaderName, &'static str); 5] = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        // The URL contains the code.
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
        (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (CONNECTION, "close"),
    ];
    for (name, value) in fields {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(CONTENT_LENGTH, length);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_another_program_has_no_meaning_in_a_page() {
        let response = page(StatusCode::OK, "Title", r#"<b a="c" d='e'>&amp;"#);
        let body = String::from_utf8_lossy(response.body());
        assert!(body.contains("<p>&lt;b a=&quot;c&quot; d=&#39;e&#39;&gt;&amp;amp;</p>"), "{body}");
    }

    #[test]
    fn au13_oa_b_01_only_names_of_this_machine_are_its_host() {
        for (host, expected) in [
            ("127.0.0.1:4000", true),
            ("127.0.0.1", true),
            ("localhost:4000", true),
            ("[::1]:4000", true),
            ("[::1]", true),
            ("evil.example:4000", false),
            ("127.0.0.1.evil.example:4000", false),
            ("localhost.evil.example", false),
            ("127.0.0.1:4000:5000", false),
            ("", false),
        ] {
            assert_eq!(is_loopback_host(host), expected, "{host}");
        }
    }
}
