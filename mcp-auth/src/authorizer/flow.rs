//! A flow: what it is to achieve, what it has found and holds, and what it waits for.

use std::collections::{BTreeSet, VecDeque};

use mcp_proto::auth::{Secret, UnsignedJwt};

use super::request::{ClientRequest, Kind, Signed};
use super::without_query;
use crate::action::{FetchKey, Lock, SignKey};
use crate::authorization::{Attempt, RedirectError};
use crate::callback_host::CallbackHost;
use crate::client::ClientIdentity;
use crate::config::Config;
use crate::error::{FetchFailure, SignInError};
use crate::imported::Imported;
use crate::metadata::IssuerMetadata;
use crate::record::Tokens;

/// A flow, from its cause to a token or a refusal.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) need: Need,
    /// A person waits for its outcome, and may be asked.
    pub(super) has_person: bool,
    /// What is stored once discovery has ended.
    pub(super) imported: Option<Imported>,
    pub(super) locks: BTreeSet<Lock>,
    pub(super) found: Option<Found>,
    pub(super) is_listening: bool,
    /// The host and the port at which the driver was asked to listen.
    pub(super) callback_host: CallbackHost,
    pub(super) asked_port: Option<u16>,
    /// The registered client is unknown at the issuer.
    pub(super) must_register: bool,
    pub(super) registering: Registering,
    pub(super) repeated: Repeated,
    pub(super) step: Step,
}

/// What the flow is to achieve.
#[derive(Debug)]
pub(super) enum Need {
    /// A stored token, if there is one: at the start, and before a token expires.
    Stored,
    /// A token that the server accepts.
    New {
        /// The URL of the resource's metadata.
        named: Option<String>,
        has_challenge: bool,
        /// The challenge is for tokens that are bound to a key.
        demands_proofs: bool,
        /// The scopes of the challenge.
        scope: Option<String>,
        /// What the challenge demands of the person's sign-in (OA-S-04).
        sign_in_parameters: Vec<(String, String)>,
        /// The token that was sent lacks scopes.
        is_step_up: bool,
        /// The token was granted these scopes, so a refresh may help: some servers refuse expired tokens in this way.
        may_be_expired: bool,
        /// The stored tokens that were refused: their serial number, and the access token, because the numbers begin again
        /// after a sign-out.
        refused: Option<(u64, Secret)>,
    },
    /// No token at all: the stored ones are revoked and erased.
    SignOut,
}

impl Need {
    /// A token, although the server has demanded none yet.
    pub(super) const fn requested() -> Self {
        Self::New {
            named: None,
            has_challenge: false,
            demands_proofs: false,
            scope: None,
            sign_in_parameters: Vec::new(),
            is_step_up: false,
            may_be_expired: false,
            refused: None,
        }
    }
}

/// What discovery has found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) resource: Resource,
    pub(super) issuer: IssuerMetadata,
    /// No metadata were found: those of the issuer are what revision 2025-03-26 states for this case.
    pub(super) is_assumed: bool,
}

/// What a flow has done to register the client.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each happens for a reason of its own")]
pub(super) struct Registering {
    /// The client was registered by this flow, for the scopes that it requests.
    pub(super) is_done: bool,
    /// A client that another flow had registered was used by this flow.
    pub(super) is_earlier_used: bool,
    /// The redirect URI was refused, and another host tried (OA-R-05).
    pub(super) is_with_localhost: bool,
    /// The client was unknown, and registered again (OA-K-04).
    pub(super) is_repeated: bool,
    /// The scopes of the registration were refused, and left out (OA-R-05).
    pub(super) is_without_scope: bool,
}

/// What a flow does at most once, or a few times.
#[derive(Debug, Default)]
pub(super) struct Repeated {
    /// The code was refused, and another one requested (OA-K-04).
    pub(super) has_restarted: bool,
    /// The scopes were refused, and left out (OA-K-04).
    pub(super) is_without_scope: bool,
    /// How often a request was repeated with the nonce that the server had demanded (OA-X-07).
    pub(super) for_nonce: u8,
}

/// What a flow waits for.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing: the flow goes on with the current input.
    Ready,
    Discovering(Box<Discovery>),
    /// The lock of the record.
    Locking(Then),
    Loading(Then),
    /// The lock of sign-ins.
    LockingSignIn,
    Listening,
    Registering {
        fetch: FetchKey,
        url: String,
        redirect_uri: String,
    },
    AwaitingRedirect(Box<Awaited>),
    /// A person, who signs in on another device.
    AwaitingDevice(Box<ClientRequest>),
    /// A token that another program issues.
    Obtaining,
    /// A key to which tokens are bound.
    CreatingKey(Box<ClientRequest>),
    Signing(Box<Signing>),
    Requesting {
        fetch: FetchKey,
        request: Box<ClientRequest>,
    },
}

/// What happens once the record is locked and loaded.
#[derive(Debug)]
pub(super) enum Then {
    /// Stored tokens are used, refreshed or replaced.
    Decide,
    /// Stored tokens are used if they need not be refreshed. The record is not locked.
    UseAsItIs,
    /// New tokens are stored.
    Store(Box<Tokens>),
    /// A client that may be unknown at its issuer is forgotten, and the flow ends.
    Forget { client: String, error: SignInError },
    /// The issuer knows the client, because it has sent the person back. The flow ends.
    Keep { client: String, error: SignInError },
}

impl Step {
    /// The key and the URL of the request whose response is awaited.
    pub(super) fn request(&self) -> Option<(FetchKey, &str)> {
        match self {
            Self::Discovering(discovery) => Some((discovery.fetch, discovery.url())),
            Self::Registering { fetch, url, .. } => Some((*fetch, url)),
            Self::Requesting { fetch, request } => Some((*fetch, request.endpoint())),
            Self::Ready
            | Self::Locking(_)
            | Self::Loading(_)
            | Self::LockingSignIn
            | Self::Listening
            | Self::AwaitingRedirect(_)
            | Self::AwaitingDevice(_)
            | Self::Obtaining
            | Self::CreatingKey(_)
            | Self::Signing(_) => None,
        }
    }

    /// Whether tokens may be issued or stored without a further step of discovery or of a person.
    pub(super) const fn may_end_with_tokens(&self) -> bool {
        match self {
            Self::Locking(_)
            | Self::Loading(_)
            | Self::Obtaining
            | Self::CreatingKey(_)
            | Self::Signing(_)
            | Self::Requesting { .. } => true,
            Self::Ready
            | Self::Discovering(_)
            | Self::LockingSignIn
            | Self::Listening
            | Self::Registering { .. }
            | Self::AwaitingRedirect(_)
            | Self::AwaitingDevice(_) => false,
        }
    }
}

impl Flow {
    pub(super) fn new(need: Need) -> Self {
        Self {
            need,
            has_person: true,
            imported: None,
            locks: BTreeSet::new(),
            found: None,
            is_listening: false,
            callback_host: CallbackHost::default(),
            asked_port: None,
            must_register: false,
            registering: Registering::default(),
            repeated: Repeated::default(),
            step: Step::Ready,
        }
    }

    /// Whether tokens are for what discovery has found: never for another issuer (OA-M-02).
    pub(super) fn is_for(&self, tokens: &Tokens) -> bool {
        self.found.as_ref().is_none_or(|found| found.issuer.issuer() == tokens.issuer.issuer())
    }

    /// Whether stored tokens can be used as they are.
    pub(super) fn may_use(&self, tokens: &Tokens, serial: u64, unix: u64) -> bool {
        match &self.need {
            Need::Stored => tokens.is_valid(unix) && tokens.refresh_at().is_none_or(|at| at > unix),
            Need::New { scope, is_step_up, refused, .. } => {
                let is_refused = |(own, token): &(u64, Secret)| *own == serial && *token == tokens.access_token;
                let is_other = !refused.as_ref().is_some_and(is_refused);
                let covers = !*is_step_up || scope.as_deref().is_some_and(|scope| tokens.covers(scope));
                is_other && covers && tokens.is_valid(unix)
            }
            Need::SignOut => false,
        }
    }

    /// Whether a refresh may help: it never adds scopes to those that were granted.
    pub(super) const fn may_refresh(&self) -> bool {
        match self.need {
            Need::Stored => true,
            Need::New { is_step_up, may_be_expired, .. } => !is_step_up || may_be_expired,
            Need::SignOut => false,
        }
    }

    /// Why the flow ends if what it waits for does not come in time.
    pub(super) fn timed_out(&self, config: &Config) -> SignInError {
        match &self.step {
            Step::LockingSignIn => SignInError::UserTimedOut { after: config.user_timeout, reported: None },
            Step::AwaitingRedirect(awaited) => {
                SignInError::UserTimedOut { after: config.user_timeout, reported: awaited.reported.clone() }
            }
            Step::AwaitingDevice(request) => {
                let after = if let Kind::Device(codes) = &request.kind { codes.lifetime } else { config.user_timeout };
                SignInError::UserTimedOut { after, reported: None }
            }
            Step::Locking(Then::Forget { error, .. } | Then::Keep { error, .. })
            | Step::Loading(Then::Forget { error, .. } | Then::Keep { error, .. }) => error.clone(),
            Step::Locking(_) | Step::Loading(_) => SignInError::StoreTimedOut,
            Step::Ready | Step::Listening => SignInError::NotListening,
            Step::Obtaining => SignInError::NotObtained,
            Step::CreatingKey(_) | Step::Signing(_) => SignInError::NotSigned,
            step @ (Step::Discovering(_) | Step::Registering { .. } | Step::Requesting { .. }) => {
                let url = without_query(step.request().map_or("", |(_, url)| url));
                SignInError::Fetch { url, reason: FetchFailure::TimedOut }
            }
        }
    }
}

/// A document that is looked for in several places.
#[derive(Debug)]
pub(super) struct Discovery {
    pub(super) wanted: Wanted,
    /// The place of the current request.
    pub(super) url: String,
    /// The places that are left.
    pub(super) candidates: VecDeque<String>,
    pub(super) redirects: u32,
    /// The challenge has named the current place.
    pub(super) is_named: bool,
    /// Every place so far has stated that it has no document.
    pub(super) is_absent: bool,
    /// Why a place that comes before others could not be used, which is reported if none of the others can.
    pub(super) obstacle: Option<SignInError>,
    pub(super) fetch: FetchKey,
}

impl Discovery {
    pub(super) fn url(&self) -> &str {
        &self.url
    }
}

/// Which document is looked for.
#[derive(Debug)]
pub(super) enum Wanted {
    Resource,
    /// The metadata of the issuer that the resource names.
    Issuer {
        issuer: String,
        resource: Resource,
    },
    /// The metadata of a server without metadata of its resource (OA-L-01).
    Server,
}

impl Wanted {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Resource => "metadata of the resource",
            Self::Issuer { .. } | Self::Server => "metadata of the authorization server",
        }
    }
}

/// What the metadata of the resource states.
#[derive(Debug, Clone)]
pub(super) struct Resource {
    /// The parameter `resource` of all requests (OA-Q-05).
    pub(super) parameter: Option<String>,
    /// All scopes that it lists, separated by spaces; `None` if it lists none.
    pub(super) scope: Option<String>,
    /// It accepts only tokens that are bound to a key.
    pub(super) requires_proofs: bool,
}

/// An authorization request that waits for its redirect.
#[derive(Debug)]
pub(super) struct Awaited {
    pub(super) attempt: Attempt,
    pub(super) issuer: IssuerMetadata,
    pub(super) client: ClientIdentity,
    /// The error with which the browser has returned, although nothing shows that it belongs to this request.
    pub(super) reported: Option<RedirectError>,
}

/// A request that something is signed for.
#[derive(Debug)]
pub(super) struct Signing {
    pub(super) sign: SignKey,
    pub(super) unsigned: UnsignedJwt,
    pub(super) request: ClientRequest,
    pub(super) signed: Signed,
    pub(super) part: Part,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    Assertion,
    Proof,
}
