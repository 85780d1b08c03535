//! Which session a request names, and what it does there.

use http::request::Parts;
use http::{Method, StatusCode};

use crate::conversation::keys::SessionKey;
use crate::server::http::Http;
use crate::server::http::exchange::head;
use crate::server::http::exchange::refusal::Refusal;
use crate::server::http::purpose::Plan;
use crate::server::principal::Principal;
use crate::spec::header::{LAST_EVENT_ID, SESSION_ID, accepts};

/// The id of the session that a POST to the message endpoint names (HS-08).
pub(crate) fn message_session_id(head: &Parts) -> Option<&str> {
    head.uri.query()?.split('&').find_map(|pair| pair.strip_prefix("sessionId="))
}

impl Http {
    /// Plans a POST that names a session.
    pub(crate) fn plan_post(&self, head: &Parts, principal: Option<&Principal>) -> Result<Plan, Refusal> {
        let session = self.session_of_revision(head, principal)?;
        Ok(Plan::Post { session: Some(session) })
    }

    /// Plans a GET, which opens the GET stream of a session or resumes a stream.
    pub(crate) fn plan_get(&self, head: &Parts, principal: Option<&Principal>) -> Result<Plan, Refusal> {
        if !accepts(&head.headers, "text/event-stream") {
            return Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, "the answer is text/event-stream"));
        }
        let session = self.session_of_revision(head, principal)?;
        match head::single(&head.headers, &LAST_EVENT_ID) {
            Ok(None) => Ok(Plan::Get { session }),
            Ok(Some(after)) => Ok(Plan::Resume { session, after: after.into() }),
            Err(()) => Err(Refusal::unknown_event()),
        }
    }

    /// A GET of the stream endpoint opens a two-endpoint session (HS-01, HS-02).
    pub(crate) fn plan_stream(head: &Parts) -> Result<Plan, Refusal> {
        if head.method != Method::GET {
            return Err(Refusal::method("GET"));
        }
        if !accepts(&head.headers, "text/event-stream") {
            return Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, "the answer is text/event-stream"));
        }
        Ok(Plan::OpenStream)
    }

    /// A POST to the message endpoint (HS-07) names its session in the query (HS-08).
    pub(crate) fn plan_message(&self, head: &Parts, principal: Option<&Principal>) -> Result<Plan, Refusal> {
        if head.method != Method::POST {
            return Err(Refusal::method("POST"));
        }
        head::check_body(head, &self.exchanges.limits)?;
        let id = message_session_id(head);
        let session = id.and_then(|id| self.sessions.find(id, true, principal)).ok_or_else(Refusal::unknown_session)?;
        Ok(Plan::PostMessage { session })
    }

    /// The session of a request: 400 without a session id (row 16), 404 if it is unknown (row 17) or belongs to another
    /// principal (SE4).
    fn session_of(&self, head: &Parts, principal: Option<&Principal>) -> Result<SessionKey, Refusal> {
        match head::single(&head.headers, &SESSION_ID) {
            Ok(Some(id)) => self.sessions.find(id, false, principal).ok_or_else(Refusal::unknown_session),
            Ok(None) => Err(Refusal::no_session()),
            Err(()) => Err(Refusal::unknown_session()),
        }
    }

    pub(crate) fn session_of_revision(
        &self,
        head: &Parts,
        principal: Option<&Principal>,
    ) -> Result<SessionKey, Refusal> {
        let session = self.session_of(head, principal)?;
        head::check_version(&head.headers, &self.versions)?;
        Ok(session)
    }
}
