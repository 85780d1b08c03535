//! Redirects: followed if they keep the origin and the message, refused otherwise (HT1, HT2).

use http::StatusCode;
use http::response::Parts;

use super::Http;
use super::exchange::{Exchange, Purpose};
use super::headers::location;
use crate::Instant;
use crate::client::transport::TransportOutput;
use crate::error::{Failed, Fault, RedirectRefused};
use crate::url::{HttpUrl, shown};

impl Http {
    /// The target of a redirect (HT1). `None` if the response is not a redirect; an error if it must not be followed.
    pub(super) fn redirect(&self, exchange: &Exchange, head: &Parts) -> Option<Result<HttpUrl, Failed>> {
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
                let is_downgrade = self.config.endpoint.is_https() && location.starts_with("http://");
                let reason = if is_downgrade { RedirectRefused::Unencrypted } else { RedirectRefused::CrossOrigin };
                target.ok_or_else(|| refused(reason, head))
            }
        })
    }

    pub(super) fn redirected(
        &mut self,
        exchange: &mut Exchange,
        status: StatusCode,
        target: Result<HttpUrl, Failed>,
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
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
                self.deliveries.read_on(request, exchange, output.timers);
            }
            Purpose::TwoEndpointStream { redirects } => {
                self.mode.stream_is_at(target.clone());
                self.get(Some(&target), Purpose::TwoEndpointStream { redirects: redirects + 1 }, output);
            }
            Purpose::Delete | Purpose::Drain => {}
        }
    }
}

fn refused(reason: RedirectRefused, head: &Parts) -> Failed {
    Failed::Redirected { reason, to: location(&head.headers).map(shown) }
}
