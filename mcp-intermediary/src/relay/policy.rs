//! Applies the filter and the pins to what passes between clients and a server.
//!
//! This happens before a request is joined to the server, and before what the server sends is joined to a client, so that
//! neither the eras of both sides nor the number of clients makes a difference. Names are read as strictly as possible: what
//! two readers could understand differently is refused (P1, P2).

use mcp_proto::client::{self, ClientTransport, Outcome};
use mcp_proto::server::{self, Principal, Server, ServerTransport};
use mcp_proto::spec::{Change, List, Listing, Primitive, Reference};
use mcp_proto::{ErrorObject, Instant, Json, Method, ProtocolVersion, RequestKey, SessionKey, code};

use super::filter::Filter;
use super::pinning::PinnedTools;
use super::pins::Pins;
use super::readings::without_case;
use super::{Config, Event, Upstream};

/// What clients may use of a server.
pub(crate) struct Policy {
    filter: Filter,
    pinned: Option<PinnedTools>,
}

impl Policy {
    /// The policy of this configuration; `None` if clients may use everything.
    pub(crate) fn new(config: &Config) -> Option<Self> {
        let policy = Self { filter: config.filter.clone(), pinned: config.pinning.clone().map(PinnedTools::new) };
        let mut primitives = [Primitive::Tool, Primitive::Prompt, Primitive::Resource].into_iter();
        primitives.any(|primitive| policy.restricts(primitive)).then_some(policy)
    }

    /// Applies another filter from now on. The pins stay. Returns the lists that may have changed for clients.
    pub(crate) fn set_filter(policy: &mut Option<Self>, filter: Filter) -> Vec<List> {
        let policy = policy.get_or_insert(Self { filter: Filter::new(), pinned: None });
        let is_concerned =
            |list: &List| [&policy.filter, &filter].iter().any(|filter| filter.has_rules_for(list.primitive()));
        let lists = List::ALL.iter().copied().filter(is_concerned).collect();
        policy.filter = filter;
        lists
    }

    /// Checks an event of the machine that clients are connected to. A request that is refused is answered here.
    pub(crate) fn check_client<S: ServerTransport>(
        &self,
        event: server::Event,
        server: &mut Server<S>,
        now: Instant,
    ) -> Option<server::Event> {
        // The machine has dropped notifications whose methods are exactly those of requests.
        if let server::Event::Notified { method, .. } = &event {
            return if plain(method).is_request() { None } else { Some(event) };
        }
        let server::Event::Requested { ticket, method, params } = event else { return Some(event) };
        // A request that has ended meanwhile has no principal, so that no rule can allow it.
        let context = server.context(&ticket)?;
        match self.check_request(&method, params, context.principal.as_ref(), context.version) {
            Ok(params) => Some(server::Event::Requested { ticket, method, params }),
            Err(error) => {
                // Any error code may be sent, because a server behind it could have chosen it.
                let _ = server.respond(ticket, Err(error), now);
                None
            }
        }
    }

    /// Checks an event of the machine that faces the server. `session` is the only one that uses it, if that is known.
    #[expect(clippy::wildcard_enum_match_arm, reason = "no other event has content of a list or resource")]
    pub(crate) fn check_server<S: ServerTransport, T: ClientTransport>(
        &mut self,
        event: client::Event,
        session: Option<SessionKey>,
        server: &Server<S>,
        upstream: &mut Upstream<T>,
    ) -> Option<client::Event> {
        match event {
            client::Event::Responded { request, outcome: Outcome::Result(result) } => {
                let outcome = self.check_result(request, result, server, upstream)?;
                Some(client::Event::Responded { request, outcome })
            }
            client::Event::Notified { scope, method, params } => {
                let is_allowed =
                    method.facts().change != Some(Change::Resource) || !self.restricts(Primitive::Resource) || {
                        let request = if let client::Scope::Request(request) = scope { Some(request) } else { None };
                        let principal = match request {
                            Some(request) => principal_of(request, server, upstream),
                            None => session.and_then(|session| server.principal(session).cloned()),
                        };
                        let uri = params.as_ref().and_then(|params| only_member(params, "uri").ok().flatten());
                        let uri = uri.as_ref().and_then(Json::as_string);
                        uri.is_some_and(|uri| self.filter.allows(Primitive::Resource, &uri, principal.as_ref()))
                    };
                is_allowed.then_some(client::Event::Notified { scope, method, params })
            }
            event => Some(event),
        }
    }

    /// New pins are stored, perhaps beside those of other processes, which apply.
    pub(crate) fn set_stored_pins(&mut self, stored: Pins) {
        if let Some(pinned) = &mut self.pinned {
            pinned.set_stored(stored);
        }
    }

    /// Whether a client whose principal is not known may subscribe to a resource.
    pub(super) fn allows_resource(&self, uri: &str) -> bool {
        self.filter.allows(Primitive::Resource, uri, None)
    }

    /// Whether anything of this kind may be refused.
    fn restricts(&self, primitive: Primitive) -> bool {
        let is_pinned = self.pinned.is_some() && primitive == Primitive::Tool;
        is_pinned || self.filter.has_rules_for(primitive)
    }

    /// Checks what a request refers to; returns the parameters to pass on.
    ///
    /// # Errors
    ///
    /// The answer to the request.
    fn check_request(
        &self,
        method: &Method,
        params: Option<Json>,
        principal: Option<&Principal>,
        version: ProtocolVersion,
    ) -> Result<Option<Json>, ErrorObject> {
        let facts = method.facts();
        let restricted = match facts.refers_to {
            Some(Reference::Tool) => self.restricts(Primitive::Tool),
            Some(Reference::Prompt) => self.restricts(Primitive::Prompt),
            Some(Reference::Resource | Reference::Subscriptions) => self.restricts(Primitive::Resource),
            Some(Reference::Completion) => self.restricts(Primitive::Prompt) || self.restricts(Primitive::Resource),
            None => false,
        };
        if !restricted {
            // A server that ignores case or blanks would understand it as another one.
            let other = plain(method);
            let is_other = other != *method && (other.facts().refers_to.is_some() || other.facts().lists.is_some());
            return if is_other { Err(ErrorObject::method_not_found(method)) } else { Ok(params) };
        }
        let object = params.clone().unwrap_or(Json::empty_object());
        // A server may read an array by position.
        if !object.is_object() {
            return Err(ErrorObject::invalid_params("they must be an object"));
        }
        let check = |primitive, name: Option<&Json>| self.check_name(primitive, name, principal, version);
        match facts.refers_to {
            Some(Reference::Tool) => check(Primitive::Tool, only_member(&object, "name")?.as_ref())?,
            Some(Reference::Prompt) => check(Primitive::Prompt, only_member(&object, "name")?.as_ref())?,
            Some(Reference::Resource) => check(Primitive::Resource, only_member(&object, "uri")?.as_ref())?,
            Some(Reference::Completion) => self.check_completion(&object, principal, version)?,
            Some(Reference::Subscriptions) => {
                return self.without_denied_subscriptions(&object, principal).map(Some);
            }
            None => {}
        }
        Ok(params)
    }

    /// Checks what a completion is for. Whatever its reference states as its type, no member of it may name what is denied.
    fn check_completion(
        &self,
        params: &Json,
        principal: Option<&Principal>,
        version: ProtocolVersion,
    ) -> Result<(), ErrorObject> {
        let Some(target) = only_member(params, "ref")?.filter(Json::is_object) else {
            return Err(ErrorObject::invalid_params("ref must be an object"));
        };
        let [name, uri] = [only_member(&target, "name")?, only_member(&target, "uri")?];
        if name.is_none() && uri.is_none() {
            return Err(ErrorObject::invalid_params("ref must have a name or a uri"));
        }
        if name.is_some() && self.restricts(Primitive::Prompt) {
            self.check_name(Primitive::Prompt, name.as_ref(), principal, version)?;
        }
        let Some(uri) = uri.filter(|_| self.restricts(Primitive::Resource)) else { return Ok(()) };
        // No URI has a brace, and every template has one.
        match uri.as_string().filter(|uri| uri.contains('{')) {
            Some(template) if self.filter.allows_template(&template, principal) => Ok(()),
            Some(template) => Err(not_available(Primitive::Resource, &template, version)),
            None => self.check_name(Primitive::Resource, Some(&uri), principal, version),
        }
    }

    fn check_name(
        &self,
        primitive: Primitive,
        name: Option<&Json>,
        principal: Option<&Principal>,
        version: ProtocolVersion,
    ) -> Result<(), ErrorObject> {
        let Some(name) = name.and_then(Json::as_string) else {
            return Err(ErrorObject::invalid_params("the name or URI must be a string"));
        };
        if !self.filter.allows(primitive, &name, principal) {
            return Err(not_available(primitive, &name, version));
        }
        if let Some(pinned) = self.pinned.as_ref().filter(|_| primitive == Primitive::Tool) {
            return pinned.refusal(&name).map_or(Ok(()), Err);
        }
        Ok(())
    }

    /// The parameters of `subscriptions/listen` without denied resources: the acknowledgement does not contain them, as if the
    /// server did not have them (MD-L-02).
    fn without_denied_subscriptions(&self, params: &Json, principal: Option<&Principal>) -> Result<Json, ErrorObject> {
        let Some(wanted) = only_member(params, "notifications")? else { return Ok(params.clone()) };
        if !wanted.is_object() {
            return Err(ErrorObject::invalid_params("notifications must be an object"));
        }
        let Some(uris) = only_member(&wanted, "resourceSubscriptions")? else { return Ok(params.clone()) };
        if !uris.is_array() {
            return Err(ErrorObject::invalid_params("resourceSubscriptions must be an array"));
        }
        let is_allowed =
            |uri: &Json| uri.as_string().is_some_and(|uri| self.filter.allows(Primitive::Resource, &uri, principal));
        let all: Vec<_> = uris.elements().collect();
        let allowed: Vec<_> = all.iter().filter(|uri| is_allowed(uri)).collect();
        if allowed.len() == all.len() {
            return Ok(params.clone());
        }
        let wanted = wanted.with_member("resourceSubscriptions", &Json::array(allowed));
        Ok(params.with_member("notifications", &wanted))
    }

    /// Leaves out of a list what its client may not use. All other bytes stay. `None` if the list is held until new pins are
    /// stored.
    fn check_result<S: ServerTransport, T: ClientTransport>(
        &mut self,
        request: RequestKey,
        result: Json,
        server: &Server<S>,
        upstream: &mut Upstream<T>,
    ) -> Option<Outcome> {
        let listing = upstream.method_of(request).and_then(|method| method.facts().lists);
        let Some(listing) = listing.filter(|listing| self.restricts(listing.primitive)) else {
            return Some(Outcome::Result(result));
        };
        let must_wait = |policy: &Self| {
            listing.primitive == Primitive::Tool && policy.pinned.as_ref().is_some_and(PinnedTools::is_waiting)
        };
        if must_wait(self) {
            upstream.held_lists.push((request, result));
            return None;
        }
        let principal = principal_of(request, server, upstream);
        let allowed = self.without_denied(listing, &result, principal.as_ref(), &mut |event| upstream.report(event));
        // The list has changed the pins.
        if must_wait(self) {
            upstream.held_lists.push((request, result));
            return None;
        }
        let outcome = allowed.map_or_else(
            || {
                let text = "the list of the server cannot be read, so that what is not available cannot be left out";
                Outcome::Error(ErrorObject::new(code::INTERNAL_ERROR, text))
            },
            Outcome::Result,
        );
        Some(outcome)
    }

    /// `None` if it is not certain what the list is.
    fn without_denied(
        &mut self,
        listing: Listing,
        result: &Json,
        principal: Option<&Principal>,
        report: &mut impl FnMut(Event),
    ) -> Option<Json> {
        let Some(list) = only_member(result, listing.member).ok()? else { return Some(result.clone()) };
        if !list.is_array() {
            return None;
        }
        let (mut all, mut kept) = (0, Vec::new());
        for element in list.elements() {
            all += 1;
            if self.keeps(listing, &element, principal, report) {
                kept.push(element);
            }
        }
        if let Some(pinned) = self.pinned.as_mut().filter(|_| listing.primitive == Primitive::Tool) {
            let is_last = result.first_member("nextCursor").is_none_or(|cursor| cursor.as_bytes() == b"null");
            pinned.end_page(is_last, report);
        }
        let is_same = kept.len() == all;
        Some(if is_same { result.clone() } else { result.with_member(listing.member, &Json::array(&kept)) })
    }

    /// Whether an element stays in a list.
    fn keeps(
        &mut self,
        listing: Listing,
        element: &Json,
        principal: Option<&Principal>,
        report: &mut impl FnMut(Event),
    ) -> bool {
        let name = only_member(element, listing.id).ok().flatten();
        let Some(name) = name.as_ref().and_then(Json::as_string) else {
            let is_pinned = self.pinned.as_ref().is_none_or(PinnedTools::blocks);
            return !is_pinned && !self.filter.has_rules_for(listing.primitive);
        };
        let is_allowed = if listing.has_templates() {
            self.filter.allows_template(&name, principal)
        } else {
            self.filter.allows(listing.primitive, &name, principal)
        };
        if !is_allowed {
            return false;
        }
        if let Some(pinned) = self.pinned.as_mut().filter(|_| listing.primitive == Primitive::Tool) {
            return pinned.admits(&name, element, report);
        }
        true
    }
}

/// The principal of the client that has made a request.
fn principal_of<S: ServerTransport, T: ClientTransport>(
    request: RequestKey,
    server: &Server<S>,
    upstream: &Upstream<T>,
) -> Option<Principal> {
    server.context(upstream.ticket_of(request)?)?.principal
}

/// The method as a server could understand it that ignores case, blanks and control characters.
fn plain(method: &Method) -> Method {
    let visible: String =
        method.as_str().chars().filter(|symbol| !symbol.is_whitespace() && !symbol.is_control()).collect();
    Method::from(without_case(&visible).to_ascii_lowercase().as_str())
}

/// The answer of a server that does not have the tool, prompt or resource.
fn not_available(primitive: Primitive, name: &str, version: ProtocolVersion) -> ErrorObject {
    match primitive {
        Primitive::Resource => {
            let error = ErrorObject::resource_not_found(name, version);
            let data = error.data().unwrap_or(Json::empty_object());
            ErrorObject::with_data(error.code(), "resource not found: it is not available here", &data)
        }
        Primitive::Tool => ErrorObject::new(code::INVALID_PARAMS, "unknown tool: it is not available here"),
        Primitive::Prompt => ErrorObject::new(code::INVALID_PARAMS, "unknown prompt: it is not available here"),
    }
}

/// The member of this name.
///
/// # Errors
///
/// There are two, also if one is written in another case: different readers use different ones.
fn only_member(object: &Json, name: &str) -> Result<Option<Json>, ErrorObject> {
    let folded = without_case(name);
    let mut found = None;
    for (own, value) in object.entries() {
        // No letter has other cases of more than three times its bytes.
        let own = own.filter(|own| own.len() <= 4 * name.len());
        let is_other = own.as_deref().is_some_and(|own| own != name && without_case(own) == folded);
        let is_it = own.as_deref() == Some(name);
        if is_other || is_it && found.is_some() {
            return Err(ErrorObject::invalid_params("two members have one name, perhaps in different cases"));
        }
        if is_it {
            found = Some(value);
        }
    }
    Ok(found)
}
