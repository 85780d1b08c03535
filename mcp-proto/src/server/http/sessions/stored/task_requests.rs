//! Requests about tasks of another instance.
//!
//! The id of a task names the instance that has created it ([`TaskId::for_call`](crate::server::TaskId::for_call)). Only
//! that instance knows the task, so that it answers, wherever the request arrives:
//!
//! ```text
//!   client             instance that receives the request             instance of the task
//!     ── tasks/get ──▶ Find ──▶ Found ──▶ Send ─────── asked ────────▶ handled as any request
//!     ◀── response ─── HTTP response ◀──────────────── answered ────── its response
//! ```
//!
//! The tasks of an instance that has ended are lost: the instance that receives the request handles it, and has no such
//! task.

use bytes::Bytes;
use http::{Response, StatusCode};

use crate::conversation::keys::InstanceId;
use crate::json::Json;
use crate::jsonrpc::{Message, Request};
use crate::server::http::exchange::refusal::{Refusal, empty, json};
use crate::server::http::purpose::{Asked, Exchange, StreamOpening};
use crate::server::http::sessions::stored::pending::Pending;
use crate::server::http::{ExchangeKey, Http, HttpAction, Output, Stage};
use crate::server::principal::Principal;
use crate::server::snapshot::hex;
use crate::server::tasks::TaskId;
use crate::server::transport::{Envelope, Inbound};
use crate::spec::UnreadableId;
use crate::spec::meta::RequestMeta;
use crate::store::{StoreAction, StoreKey, StoreResult};

/// A request about a task, until the store has answered whether the instance of the task runs.
pub(crate) struct TaskRequest {
    instance: InstanceId,
    request: Request,
    envelope: Box<Envelope>,
}

impl TaskRequest {
    fn len(&self) -> usize {
        self.request.params.as_ref().map_or(0, Json::len)
    }
}

impl Http {
    /// The other instance whose task a request is about.
    pub(crate) fn instance_of_task(&self, request: &Request, envelope: &Envelope) -> Option<InstanceId> {
        let here = self.config.stored()?.instance;
        if self.stage != Stage::Serving || !is_about_task(request) || !envelope.agrees() {
            return None;
        }
        let id = request.params.as_ref()?.first_member("taskId")?;
        TaskId::instance_of(&id.as_string()?).filter(|instance| *instance != here)
    }

    /// Asks the store whether the instance with the task of a request runs.
    pub(crate) fn find_instance_of_task(
        &mut self,
        exchange: ExchangeKey,
        instance: InstanceId,
        request: Request,
        envelope: Box<Envelope>,
        output: &mut Output<'_>,
    ) {
        let asked = TaskRequest { instance, request, envelope };
        if !self.makes_room(asked.len(), output) {
            return self.respond(exchange, Refusal::overloaded().into_response(UnreadableId::Omitted), output);
        }
        self.store.queued += asked.len();
        self.store.task_requests.insert(exchange, asked);
        self.ask_store(Pending::TaskInstance(exchange), output, |key| StoreAction::Find { key, instance });
    }

    /// The exchange of a request about a task has ended, or the request is passed on.
    pub(crate) fn take_task_request(&mut self, exchange: ExchangeKey) -> Option<TaskRequest> {
        let asked = self.store.task_requests.remove(&exchange)?;
        self.store.queued = self.store.queued.saturating_sub(asked.len());
        Some(asked)
    }

    pub(crate) fn on_task_instance_found(
        &mut self,
        exchange: ExchangeKey,
        result: &StoreResult,
        output: &mut Output<'_>,
    ) {
        let Some(asked) = self.take_task_request(exchange) else { return };
        match result {
            StoreResult::Found(true) => {
                let TaskRequest { instance, request, envelope } = asked;
                let principal = envelope.principal.as_ref().map(principal_to_json);
                let request = Json::from_valid_text(Message::Request(request).to_bytes());
                let message = Json::empty_object().with_members(&[("m", &request), ("k", &"asked".into())]);
                let message = principal.iter().fold(message, |message, principal| message.with_member("p", principal));
                let Some(here) = self.config.stored().map(|config| hex(config.instance.number())) else { return };
                self.ask_store(Pending::TaskAnswer(exchange), output, |key| StoreAction::Send {
                    to: Some(instance),
                    message: message.with_members(&[("n", &hex(key.0)), ("i", &here)]).to_bytes(),
                });
            }
            StoreResult::Found(false) => {
                let TaskRequest { request, envelope, .. } = asked;
                let meta = RequestMeta::read(request.params.as_ref());
                output.inbound.push_back(Inbound::Stateless { request, meta, envelope, reply_to: exchange.to_reply() });
            }
            StoreResult::Loaded(_)
            | StoreResult::Done
            | StoreResult::Conflict
            | StoreResult::Events(_)
            | StoreResult::Failed => self.on_no_task_answer(exchange, output),
        }
    }

    /// The instance of a task cannot be reached, or has not answered in time.
    pub(crate) fn on_no_task_answer(&mut self, exchange: ExchangeKey, output: &mut Output<'_>) {
        self.respond(exchange, Refusal::task_unavailable().into_response(UnreadableId::Omitted), output);
    }

    /// Another instance has received a request about a task of this one. `number` is how it refers to the request.
    pub(crate) fn on_task_request(
        &mut self,
        from: InstanceId,
        number: u64,
        request: Request,
        principal: Option<&Json>,
        output: &mut Output<'_>,
    ) {
        if !is_about_task(&request) {
            return;
        }
        if self.stage == Stage::Closed {
            let response = Refusal::stopped().into_response(UnreadableId::Omitted);
            return Self::answer_elsewhere(from, number, response, output);
        }
        let exchange = self.exchanges.new_key();
        let asked = Asked::Elsewhere { instance: from, number };
        let (head, opening) = (Box::new(http::Request::new(()).into_parts().0), StreamOpening::default());
        self.insert_exchange(exchange, Exchange::Waiting { asked, head, opening });
        let meta = RequestMeta::read(request.params.as_ref());
        let principal = principal.and_then(principal_from_json);
        let envelope = Box::new(Envelope { principal, ..Envelope::NONE });
        output.inbound.push_back(Inbound::Stateless { request, meta, envelope, reply_to: exchange.to_reply() });
    }

    /// Sends a response back to the instance that has received the request.
    pub(crate) fn answer_elsewhere(
        instance: InstanceId,
        number: u64,
        response: Response<Bytes>,
        output: &mut Output<'_>,
    ) {
        let message = Json::empty_object().with_members(&[
            ("n", &hex(number)),
            ("c", &u32::from(response.status().as_u16()).into()),
            ("k", &"answered".into()),
        ]);
        let body = response.into_body();
        let message = if body.is_empty() { message } else { message.with_member("m", &Json::from_valid_text(body)) };
        output.out.act(HttpAction::Store(StoreAction::Send { to: Some(instance), message: message.to_bytes() }));
    }

    /// The instance of a task has answered.
    pub(crate) fn on_task_answer(
        &mut self,
        number: u64,
        status: Option<&Json>,
        body: Option<Json>,
        output: &mut Output<'_>,
    ) {
        let status = status.and_then(|status| StatusCode::from_u16(status.read().ok()?).ok());
        // A server sends no other status. Some of the others have no body, and another response follows them.
        let is_sent = |status: &StatusCode| matches!(status.as_u16(), 200 | 202 | 400..=599);
        let Some(status) = status.filter(is_sent) else { return };
        if let Some(exchange) = self.take_task_answer(StoreKey(number), output) {
            let response = body.map_or_else(|| empty(status), |body| json(status, body.to_bytes()));
            self.respond(exchange, response, output);
        }
    }
}

fn is_about_task(request: &Request) -> bool {
    request.method.facts().named_by == Some("taskId")
}

fn principal_to_json(principal: &Principal) -> Json {
    let scopes: Vec<_> = principal.scopes().collect();
    let members = [
        ("l", principal.claims().cloned()),
        ("c", (!scopes.is_empty()).then(|| scopes.join(" ").into())),
        ("u", principal.subject().map(Json::from)),
        ("n", Some(principal.as_str().into())),
    ];
    let members: Vec<_> = members.iter().filter_map(|(name, value)| Some((*name, value.as_ref()?))).collect();
    Json::empty_object().with_members(&members)
}

fn principal_from_json(principal: &Json) -> Option<Principal> {
    let [name, subject, scopes, claims] = principal.first_members(["n", "u", "c", "l"]);
    let mut principal = Principal::new(&name?.as_string()?);
    if let Some(subject) = subject.as_ref().and_then(Json::as_string) {
        principal = principal.with_subject(&subject);
    }
    if let Some(scopes) = scopes.as_ref().and_then(Json::as_string) {
        principal = principal.with_scopes(&scopes);
    }
    Some(match claims {
        Some(claims) => principal.with_claims(claims),
        None => principal,
    })
}
