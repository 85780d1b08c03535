//! The connection to the server: its phase, how it is opened, and what is in force after the handshake.

use super::config::Config;
use super::detection::Detection;
use super::handshake::Handshake;
use super::identity::Identity;
use super::restore::Settings;
use crate::conversation::backoff::{Backoff, Jitter};
use crate::conversation::call::AddedMeta;
use crate::conversation::keys::RequestKey;
use crate::conversation::outcome::CloseReason;
use crate::conversation::outgoing::Sending;
use crate::error::UsageError;
use crate::json::Json;
use crate::spec::{Method, ProtocolVersion};

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) phase: ConnectionPhase,
    pub(super) identity: Identity,
    pub(super) handshake: Handshake,
    pub(super) detection: Detection,
    /// What the latest handshake has established; `None` before the first one.
    pub(super) established: Option<Established>,
    pub(super) backoff: Backoff,
    pub(super) jitter: Jitter,
}

impl Connection {
    /// # Errors
    ///
    /// [`UsageError::NotAnObject`] if the client's information or capabilities are not an object.
    pub(super) fn new(config: &Config, silence_means_legacy: bool) -> Result<Self, UsageError> {
        Ok(Self {
            phase: ConnectionPhase::Idle,
            identity: Identity::new(config.client_info.clone(), config.capabilities.clone())?,
            handshake: Handshake::new(None),
            detection: Detection::new(&config.versions, config.known_era, silence_means_legacy),
            established: None,
            backoff: Backoff::new(),
            jitter: Jitter::new(config.seed),
        })
    }

    /// The revision in force; `None` before the first handshake.
    pub(super) const fn version(&self) -> Option<ProtocolVersion> {
        match &self.established {
            Some(Established::Session(session)) => Some(session.version),
            Some(Established::Stateless(stateless)) => Some(stateless.version),
            None => None,
        }
    }

    pub(super) const fn stateless(&self) -> Option<&Stateless> {
        match &self.established {
            Some(Established::Stateless(stateless)) => Some(stateless),
            Some(Established::Session(_)) | None => None,
        }
    }

    pub(super) const fn is_stateless(&self) -> bool {
        self.stateless().is_some()
    }

    /// The settings of the session, if a request has changed any.
    pub(super) const fn settings(&self) -> Option<&Settings> {
        match &self.established {
            Some(Established::Session(session)) => session.settings.as_ref(),
            Some(Established::Stateless(_)) | None => None,
        }
    }

    pub(super) const fn settings_mut(&mut self) -> Option<&mut Settings> {
        match &mut self.established {
            Some(Established::Session(session)) => session.settings.as_mut(),
            Some(Established::Stateless(_)) | None => None,
        }
    }

    /// The settings of the session, if there is a session, for a request that changes one.
    pub(super) fn settings_to_change(&mut self) -> Option<&mut Settings> {
        match &mut self.established {
            Some(Established::Session(session)) => Some(session.settings.get_or_insert_default()),
            Some(Established::Stateless(_)) | None => None,
        }
    }

    /// Forgets the settings of the session: the next one has none of them.
    pub(super) fn clear_settings(&mut self) {
        if let Some(Established::Session(session)) = &mut self.established {
            session.settings = None;
        }
    }

    /// A session was opened in this revision. The session takes over the settings of the one that it replaces.
    pub(super) fn establish_session(&mut self, version: ProtocolVersion) {
        let settings = match self.established.take() {
            Some(Established::Session(session)) => session.settings,
            Some(Established::Stateless(_)) | None => None,
        };
        self.established = Some(Established::Session(Session { version, settings }));
    }

    /// Requests are exchanged in this revision, without a session.
    pub(super) fn establish_stateless(&mut self, version: ProtocolVersion) {
        self.established = Some(Established::Stateless(Stateless { version }));
    }
}

/// The state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionPhase {
    /// `connect` was not called.
    Idle,
    /// `initialize` or `server/discover` was sent and is not answered yet.
    Opening {
        request: RequestKey,
        /// The application asked for the connection; otherwise the client connects again by itself.
        awaited: bool,
    },
    /// `initialize` was answered, and the application has not confirmed the session yet.
    Unconfirmed,
    /// `notifications/initialized` was sent and is not accepted yet.
    Confirming,
    /// The handshake is over.
    Ready,
    /// There is no connection. A timer or a request will open it again.
    Down,
    /// The connection is being closed.
    Closing(CloseReason),
    /// The connection is closed.
    Closed,
}

impl ConnectionPhase {
    pub(super) const fn opening(self) -> Option<RequestKey> {
        match self {
            Self::Opening { request, .. } => Some(request),
            Self::Idle
            | Self::Unconfirmed
            | Self::Confirming
            | Self::Ready
            | Self::Down
            | Self::Closing(_)
            | Self::Closed => None,
        }
    }

    /// Requests are sent before the confirmation, too, as soon as `initialize` was answered (LC-11). They wait only
    /// while the confirmation is being delivered, because messages over HTTP can overtake each other (BR-T-08).
    pub(super) const fn takes_requests(self) -> bool {
        matches!(self, Self::Unconfirmed | Self::Ready)
    }
}

/// What a handshake has established.
#[derive(Debug)]
pub(super) enum Established {
    /// A session, which began with `initialize`.
    Session(Session),
    /// An exchange of independent requests: each has all that the server needs.
    Stateless(Stateless),
}

#[derive(Debug)]
pub(super) struct Session {
    version: ProtocolVersion,
    /// `None` until a request changes one.
    settings: Option<Settings>,
}

/// An exchange of requests without a session.
#[derive(Debug)]
pub(super) struct Stateless {
    version: ProtocolVersion,
}

impl Stateless {
    /// Parameters with what every request states (MD-M-01).
    pub(super) fn stamped(&self, identity: &Identity, params: Option<&Json>) -> Json {
        identity.stamped(params, self.version, AddedMeta::Identity)
    }

    /// Completes the parameters of a request, unless the application has.
    pub(super) fn prepare(&self, identity: &Identity, sending: &mut Sending) {
        if sending.meta == AddedMeta::Nothing {
            return;
        }
        let mut params = sending.params.take().unwrap_or(Json::empty_object());
        if let Some(input) = sending.input.take() {
            params = params.with_member("inputResponses", &responses(&input));
        }
        if let Some(state) = sending.state.take() {
            params = params.with_member("requestState", &state);
        }
        sending.params = Some(identity.stamped(Some(&params), self.version, sending.meta));
    }

    /// Whether a result of this method may ask for input.
    pub(super) fn may_require_input(&self, method: &Method) -> bool {
        self.version.rules().may_require_input(method)
    }
}

/// The `inputResponses`: each answer under the key of its request (MD-I-05).
fn responses(inputs: &[(Json, Option<Json>)]) -> Json {
    let mut text = vec![b'{'];
    for (key, answer) in inputs {
        let Some(answer) = answer else { continue };
        if text.len() > 1 {
            text.push(b',');
        }
        text.extend_from_slice(key.as_bytes());
        text.push(b':');
        text.extend_from_slice(answer.as_bytes());
    }
    text.push(b'}');
    Json::from_valid_text(text.into())
}
