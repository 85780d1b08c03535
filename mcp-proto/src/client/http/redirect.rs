//! Redirects: followed if they keep the origin and the message, refused otherwise (HT1, HT2).

use http::StatusCode;
use http::response::Parts;

use super::endpoint::Endpoint;
use super::exchange::{Exchange, Purpose};
use super::headers::location;
use super::{Http, HttpAction};
use crate::Instant;
use crate::client::transport::TransportOutput;
use crate::codec::text::Excerpt;
use crate::error::{Failed, Fault, RedirectRefused};

impl Http {
    /// The target of a redirect (HT1). `None` if the response is not a redirect; an error if it must not be followed.
    pub(super) fn redirect(&self, exchange: &Exchange, head: &Parts) -> Option<Result<Endpoint, Failed>> {
        let redirects = match &exchange.purpose {
            Purpose::Post(posted) => posted.redirects,
            Purpose::GetStream { redirects }
            | Purpose::Resume { redirects, .. }
            | Purpose::TwoEndpointStream { redirects } => *redirects,
            Purpose::Delete | Purpose::Drain => return None,
        };
        match head.status {
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER => {
                return Some(Err(refused(RedirectRefused::DropsBody, head)));
            }
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => {}
            _ => return None,
        }
        Some(match location(&head.headers) {
            None => Err(refused(RedirectRefused::NoLocation, head)),
            Some(_) if redirects >= self.limits.redirects => Err(refused(RedirectRefused::TooOften, head)),
            Some(location) => {
                let target = self.config.endpoint.same_origin(location);
                target.ok_or_else(|| refused(RedirectRefused::CrossOrigin, head))
            }
        })
    }

    pub(super) fn redirected(
        &mut self,
        exchange: &mut Exchange,
        status: StatusCode,
        target: Result<Endpoint, Failed>,
        now: Instant,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        let purpose = std::mem::replace(&mut exchange.purpose, Purpose::Drain);
        exchange.discard_rest(&self.limits);
        let target = match target {
            Ok(target) => target,
            Err(reason) => {
                match purpose {
                    Purpose::Post(posted) => self.undelivered(posted.message, reason, output),
                    Purpose::GetStream { .. } => output.fault(Fault::NoServerStream { reason }),
                    purpose @ (Purpose::Resume { .. }
                    | Purpose::TwoEndpointStream { .. }
                    | Purpose::Delete
                    | Purpose::Drain) => self.stream_failed(purpose, reason, now, output),
                }
                return;
            }
        };
        if status == StatusCode::PERMANENT_REDIRECT && self.mode.is_streamable() {
            self.config.endpoint = target.clone();
        }
        match purpose {
            Purpose::Post(posted) => {
                self.deliveries.redirected(posted.message, target);
                self.post(posted.message, now, output);
            }
            Purpose::GetStream { redirects } => {
                self.get(Some(&target), Purpose::GetStream { redirects: redirects + 1 }, output);
            }
            Purpose::Resume { request, redirects } => {
                let purpose = Purpose::Resume { request, redirects: redirects + 1 };
                let exchange = self.get(Some(&target), purpose, output);
                self.deliveries.read_on(request, exchange);
            }
            Purpose::TwoEndpointStream { redirects } => {
                self.get(Some(&target), Purpose::TwoEndpointStream { redirects: redirects + 1 }, output);
            }
            Purpose::Delete | Purpose::Drain => {}
        }
    }
}

fn refused(reason: RedirectRefused, head: &Parts) -> Failed {
    Failed::Redirected { reason, to: location(&head.headers).map(shown) }
}

/// A `Location` for people to read, without what may be secret: user information, query and fragment.
fn shown(location: &str) -> Excerpt {
    let location = location.split(['?', '#']).next().unwrap_or_default();
    let begin = location.find("//").map_or(0, |position| position + 2);
    let (scheme, rest) = location.split_at(begin);
    let end = if begin == 0 { 0 } else { rest.find(['/', '\\']).unwrap_or(rest.len()) };
    let (authority, path) = rest.split_at(end);
    let host = authority.rsplit('@').next().unwrap_or_default();
    Excerpt::new(&format!("{scheme}{host}{path}"), 200)
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn defect_b7_a_location_is_shown_without_its_secrets() {
        for (location, expected) in [
            ("https://other.example:8/mcp/x?key=secret#y", "https://other.example:8/mcp/x"),
            ("https://user:secret@other.example/mcp", "https://other.example/mcp"),
            ("https://a@b@other.example", "https://other.example"),
            ("//user:secret@other.example/a@b", "//other.example/a@b"),
            ("/mcp/?key=secret", "/mcp/"),
            ("login?user=secret", "login"),
            ("?secret", ""),
            ("https://other.example/a//b", "https://other.example/a//b"),
        ] {
            assert_eq!(shown(location).as_str(), expected);
        }
        assert_eq!(shown(&"x".repeat(10_000)).as_str().chars().count(), 201);
    }
}
