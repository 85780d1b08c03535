//! What the events of a sign-in mean for the machine that needs the token, and for a log.

use std::fmt;

use mcp_proto::auth::Credentials;
use mcp_proto::machine::HandleAuthorization;
use mcp_proto::{Instant, Severity};

use crate::{Event, Step, Waiting};

/// What a driver does with an event of a sign-in: it writes a line to its log, and passes the outcome to the machine of
/// the client or of the relay.
///
/// # Example
///
/// ```
/// use mcp_auth::{Event, SignInError};
/// use mcp_auth::SignInReport;
/// use mcp_proto::Severity;
///
/// let report = SignInReport::new(Event::Refused(SignInError::NoMetadata), "the server");
/// let (severity, text) = report.log.unwrap();
/// assert_eq!(severity, Severity::Warning);
/// assert!(text.starts_with("the server could not be signed in to: "));
/// assert!(report.outcome.is_some_and(|outcome| outcome.ends_sign_in()));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct SignInReport {
    /// What is passed to the machine; `None` if nothing is.
    pub outcome: Option<SignInOutcome>,
    /// A line for the log; `None` if there is none. It contains no token.
    pub log: Option<(Severity, String)>,
}

/// What a sign-in has led to. Its `Debug` form does not show the URL, which contains `state`.
#[non_exhaustive]
pub enum SignInOutcome {
    /// There is a token.
    Authorized(Credentials),
    /// There is none, for this reason.
    Refused(String),
    /// No token is stored, and none was demanded.
    NoToken,
    /// A person signs in at this URL.
    Waiting(String),
}

impl fmt::Debug for SignInOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Authorized(credentials) => f.debug_tuple("Authorized").field(credentials).finish(),
            Self::Refused(reason) => f.debug_tuple("Refused").field(reason).finish(),
            Self::NoToken => f.write_str("NoToken"),
            Self::Waiting(_) => f.write_str("Waiting(..)"),
        }
    }
}

impl SignInReport {
    /// What an event means for the machine that is connected to `server`, which is the name for the log.
    #[must_use]
    pub fn new(event: Event, server: &str) -> Self {
        let waits = |url, severity, text: &str| Self {
            outcome: Some(SignInOutcome::Waiting(url)),
            log: Some((severity, format!("signing in to {server}: {text}"))),
        };
        match event {
            Event::Authorized(authorized) => {
                Self { outcome: Some(SignInOutcome::Authorized(authorized.credentials)), log: None }
            }
            Event::Refused(error) => Self {
                log: Some((Severity::Warning, format!("{server} could not be signed in to: {error}"))),
                outcome: Some(SignInOutcome::Refused(error.to_string())),
            },
            Event::NoToken => Self { outcome: Some(SignInOutcome::NoToken), log: None },
            // The application opens the URL, or shows it.
            Event::Waiting(Waiting::Browser { url }) => waits(url, Severity::Info, "a person is asked"),
            // Nothing else shows the code.
            Event::Waiting(ref waiting @ Waiting::Device { ref url, .. }) => {
                waits(url.clone(), Severity::Warning, &waiting.to_string())
            }
            Event::Waiting(waiting @ Waiting::OtherProcess) => {
                Self { outcome: None, log: Some((Severity::Info, format!("signing in to {server}: {waiting}"))) }
            }
            Event::Step(step) => {
                let severity = match step {
                    // A person reads it also if nothing else comes.
                    Step::ErrorWithoutState { .. } => Severity::Warning,
                    Step::Quirk { .. } => Severity::Info,
                    Step::Document { .. }
                    | Step::AuthorizationServer { .. }
                    | Step::NoMetadata { .. }
                    | Step::Registered { .. } => Severity::Debug,
                };
                Self { outcome: None, log: Some((severity, format!("signing in to {server}: {step}"))) }
            }
            Event::SignedOut { .. } => Self { outcome: None, log: None },
        }
    }
}

impl SignInOutcome {
    /// Whether the sign-in has ended, or was not necessary.
    #[must_use]
    pub const fn ends_sign_in(&self) -> bool {
        !matches!(self, Self::Waiting(_))
    }

    /// Passes the outcome to the machine that it is for.
    pub fn pass_to<M: HandleAuthorization>(self, machine: &mut M, now: Instant) {
        let url = if let Self::Waiting(url) = &self { Some(url.as_str()) } else { None };
        machine.set_sign_in_url(url);
        match self {
            Self::Authorized(credentials) => machine.authorize(credentials, now),
            Self::Refused(reason) => machine.refuse_authorization(&reason, now),
            Self::NoToken | Self::Waiting(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oa_x_08_the_code_of_a_device_is_logged_where_it_is_seen_and_a_url_of_a_browser_is_not() {
        let url = "https://as.example/device".to_owned();
        let device = Waiting::Device { url: url.clone(), code: "WDJB-MJHT".to_owned(), url_with_code: None };
        for (waiting, severity, is_shown) in [
            (device, Severity::Warning, true),
            (Waiting::Browser { url: format!("{url}?state=WDJB-MJHT") }, Severity::Info, false),
        ] {
            let report = SignInReport::new(Event::Waiting(waiting), "s");
            let (own, text) = report.log.unwrap();
            assert_eq!((own, text.contains("WDJB-MJHT")), (severity, is_shown), "{text}");
            let Some(outcome @ SignInOutcome::Waiting(_)) = report.outcome else { panic!("a machine needs the URL") };
            assert!(!outcome.ends_sign_in());
        }
    }
}
