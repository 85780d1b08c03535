//! Requests of revisions up to 2025-11-25 at a server that opens no sessions
//! ([`SessionMode::None`](super::SessionMode::None)): each is served by itself (ER-43).

use super::shared::Shared;
use super::stateless::{Stateless, route};
use super::transport::{Kind, ReplyTo, ServerTransport};
use super::{Config, Context, Principal};
use crate::json::Json;
use crate::jsonrpc::{ErrorObject, Message, Request, Response};
use crate::spec::{Change, List, LoggingLevel, Method, ProtocolVersion, code};

impl Stateless {
    /// Handles a request for which its HTTP headers state this revision.
    pub(super) fn on_sessionless<T: ServerTransport>(
        &mut self,
        request: Request,
        version: ProtocolVersion,
        principal: Option<Principal>,
        reply_to: ReplyTo,
        shared: &mut Shared<'_, T>,
    ) {
        shared.handle_request_of(principal.as_ref());
        let admitted = admit(&request, shared);
        let config = shared.config();
        let Request { id, method, params } = request;
        if let Err(error) = admitted {
            return shared.refuse(Some(id), error, route(reply_to, Kind::Refusal));
        }
        if let Some(answer) = shared.serving().and_then(|config| answer(config, &method, params.as_ref())) {
            // As in a session, an unknown method is an answer like any other (row 26).
            let is_refused = answer.as_ref().is_err_and(|error| error.code() != code::METHOD_NOT_FOUND);
            let kind = if is_refused { Kind::Refusal } else { Kind::Reply };
            return shared.write(&Message::Response(Response::new(id, answer)), route(reply_to, kind));
        }
        let context = Context {
            version,
            // What the client has stated in `initialize` is not stored.
            client_capabilities: Json::empty_object(),
            client_info: None,
            logging_level: config.declares("logging").then_some(LoggingLevel::Debug),
            principal,
            instance: None,
        };
        self.report(id, method, params, context, reply_to, None, shared);
    }
}

/// Checks whether a request is served.
///
/// # Errors
///
/// The answer to the request.
fn admit<T: ServerTransport>(request: &Request, shared: &mut Shared<'_, T>) -> Result<(), ErrorObject> {
    if shared.is_draining && request.method != Method::PING {
        return Err(ErrorObject::stopping());
    }
    shared.check_method(&request.method)?;
    shared.check_members(request.params.as_ref())?;
    // Parameters must be an object (JR-12).
    if shared.serving().is_some() && request.params.as_ref().is_some_and(|params| !params.is_object()) {
        return Err(ErrorObject::invalid_params("they must be an object"));
    }
    Ok(())
}

/// The answer to a request of the protocol, which the application does not receive.
fn answer(config: &Config, method: &Method, params: Option<&Json>) -> Option<Result<Json, ErrorObject>> {
    if *method == Method::PING {
        return Some(Ok(Json::empty_object()));
    }
    if *method == Method::INITIALIZE {
        let asked = params.and_then(|params| params.first_member("protocolVersion"));
        let asked = asked.as_ref().and_then(Json::as_string);
        return Some(match asked {
            Some(asked) => {
                let result = config.initialize_result(config.negotiate(&asked));
                Ok(result.with_member("capabilities", &capabilities(&config.capabilities)))
            }
            None => Err(ErrorObject::invalid_params("no protocolVersion")),
        });
    }
    // A setting would be in effect for no other request (ER-43).
    method.facts().changes_setting.map(|_| Err(ErrorObject::method_not_found(method)))
}

/// The capabilities without those that need a session: to receive changes, and to subscribe to resources (ER-43).
fn capabilities(declared: &Json) -> Json {
    let changes = List::EACH.map(Change::List).into_iter().chain([Change::Resource]);
    changes.map(Change::capability).fold(declared.clone(), |declared, (name, flag)| {
        let Some(capability) = declared.first_member(name).filter(Json::is_object) else { return declared };
        declared.with_member(name, &capability.without_members(&[flag]))
    })
}
