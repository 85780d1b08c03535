//! Redirects: followed on the same origin where they keep the message, refused everywhere else (HT1, HT2).

use http::StatusCode;
use http::response::Parts;

use super::endpoint::Endpoint;
use super::exchange::{Exchange, Post, Purpose};
use super::headers::location;
use super::{Http, HttpAction, Place};
use crate::Instant;
use crate::client::carrier::Wire;
use crate::error::{Failed, Fault, RedirectRefused};

impl Http {
    /// Where a redirect leads, if this is one and it may be followed (HT1); the inner error says why it may not.
    pub(super) fn redirect(&self, exchange: &Exchange, head: &Parts) -> Option<Result<Endpoint, RedirectRefused>> {
        let redirects = match &exchange.purpose {
            Purpose::Post(post) => post.redirects,
            Purpose::ServerStream { redirects }
            | Purpose::Resume { redirects, .. }
            | Purpose::TwoEndpointStream { redirects } => *redirects,
            Purpose::Delete | Purpose::Leftover => return None,
        };
        match head.status {
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER => {
                return Some(Err(RedirectRefused::DropsBody));
            }
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => {}
            _ => return None,
        }
        Some(match location(&head.headers) {
            None => Err(RedirectRefused::NoLocation),
            Some(_) if redirects >= self.limits.redirects => Err(RedirectRefused::TooOften),
            Some(location) => self.config.endpoint.same_origin(location).ok_or(RedirectRefused::CrossOrigin),
        })
    }

    pub(super) fn redirected(
        &mut self,
        exchange: &mut Exchange,
        status: StatusCode,
        target: Result<Endpoint, RedirectRefused>,
        now: Instant,
        wire: &mut Wire<'_, HttpAction>,
    ) {
        let purpose = std::mem::replace(&mut exchange.purpose, Purpose::Leftover);
        exchange.leave(&self.limits);
        let target = match target {
            Ok(target) => target,
            Err(reason) => {
                let reason = Failed::Redirected { reason };
                match purpose {
                    Purpose::Post(post) => self.undelivered(post.role, reason, wire),
                    Purpose::ServerStream { .. } => wire.fault(Fault::NoServerStream { reason }),
                    purpose @ (Purpose::Resume { .. }
                    | Purpose::TwoEndpointStream { .. }
                    | Purpose::Delete
                    | Purpose::Leftover) => self.stream_failed(purpose, reason, now, wire),
                }
                return;
            }
        };
        if status == StatusCode::PERMANENT_REDIRECT && self.wiring.is_streamable() {
            self.config.endpoint = target.clone();
        }
        match purpose {
            Purpose::Post(post) if self.is_void(&post) => {}
            Purpose::Post(post) => {
                let redirects = post.redirects + 1;
                self.post(Post { to: Some(target), redirects, ..post }, now, wire);
            }
            Purpose::ServerStream { redirects } => {
                self.get(Some(&target), Purpose::ServerStream { redirects: redirects + 1 }, wire);
            }
            Purpose::Resume { request, redirects } => {
                let purpose = Purpose::Resume { request, redirects: redirects + 1 };
                let exchange = self.get(Some(&target), purpose, wire);
                self.place(request, Place::Exchange(exchange));
            }
            Purpose::TwoEndpointStream { redirects } => {
                self.get(Some(&target), Purpose::TwoEndpointStream { redirects: redirects + 1 }, wire);
            }
            Purpose::Delete | Purpose::Leftover => {}
        }
    }
}
