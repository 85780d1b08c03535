//! Protocol extensions of a server as values.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use mcp_model::JsonObject;
use mcp_proto::{ErrorObject, Json, Method, ProtocolVersion};
use serde::de::DeserializeOwned;

use super::arguments;
use super::routed::RoutedCall;
use crate::{IncomingRequest, InvalidService, extension_in};

/// The result of a request, or the error with which it is answered.
pub type RouteOutcome = Result<Json, ErrorObject>;

/// What a hook does with the outcome of a request.
pub type AfterRoute = Box<dyn FnOnce(RouteOutcome) -> RouteOutcome + Send>;

type RouteHook = Arc<dyn Fn(&IncomingRequest) -> Result<Option<AfterRoute>, ErrorObject> + Send + Sync>;

/// Answers the requests of an extension that have no handler, from their parameters and the size of pages; `None` for one
/// that is not of the extension.
pub(super) type OwnAnswers = Arc<dyn Fn(&Method, Option<&Json>, usize) -> Option<RouteOutcome> + Send + Sync>;

/// A protocol extension of a server: its id, what it declares in the capabilities, its methods and notifications, and its
/// hooks. `H` is the driver's type of handlers of requests, and `N` that of notifications. Applications use the `Extension` of
/// a driver, which is made of this.
#[derive(Clone)]
pub struct Extension<H, N> {
    row: Row<H>,
    notifications: BTreeMap<Method, N>,
    mistake: Option<InvalidService>,
}

/// What a router has of an extension.
#[derive(Clone)]
pub(super) struct Row<H> {
    id: Box<str>,
    settings: JsonObject,
    methods: BTreeMap<Method, H>,
    notifications: BTreeSet<Method>,
    own: Option<OwnAnswers>,
    hooks: Vec<RouteHook>,
    needs_client: bool,
    only_stateless: bool,
    /// It is one of the specification, which the router serves by itself.
    is_own: bool,
}

impl<H, N> Extension<H, N> {
    /// An extension without methods. The id is a name in reverse order of a domain, a slash, and a name: `com.example/search`.
    #[must_use]
    pub fn new(id: &str) -> Self {
        let mut extension = Self { row: Row::new(id), notifications: BTreeMap::new(), mistake: None };
        if !id.split_once('/').is_some_and(|(vendor, name)| !vendor.is_empty() && !name.is_empty()) {
            extension.mistake = Some(InvalidService::ExtensionId { id: id.into() });
        }
        extension
    }

    /// An extension that the specification has, whose methods are those of the specification.
    #[must_use]
    pub fn of_specification(id: &str) -> Self {
        Self { row: Row { is_own: true, ..Row::new(id) }, notifications: BTreeMap::new(), mistake: None }
    }

    /// Adds a setting, which the server declares with the extension.
    pub fn set(&mut self, name: &str, value: &Json) {
        self.row.settings = std::mem::take(&mut self.row.settings).with(name, value.clone());
    }

    /// Answers the methods of the extension only for clients that have declared it, and handles only their notifications.
    /// Others receive an error with the missing capability: -32021 in 2026-07-28, -32600 in earlier revisions.
    ///
    /// Rules: MD-M-05.
    pub const fn need_client(&mut self) {
        self.row.needs_client = true;
    }

    /// Serves the extension only in revisions without sessions.
    pub const fn serve_only_stateless(&mut self) {
        self.row.only_stateless = true;
    }

    /// Adds a method of the extension.
    pub fn add_method(&mut self, method: &str, handler: H) {
        let method = Method::from(method);
        if Method::ALL.contains(&method) {
            self.mistaken(InvalidService::ExtensionMethod { method: method.as_str().into() });
        }
        self.add_known(method, handler);
    }

    /// Adds a method that the specification has.
    pub fn add_known(&mut self, method: Method, handler: H) {
        let name = method.clone();
        if self.row.methods.insert(method, handler).is_some() {
            self.mistaken(duplicate_method(&name));
        }
    }

    /// Adds a notification that clients send.
    pub fn add_notification(&mut self, method: &str, handler: N) {
        let method = Method::from(method);
        if Method::ALL.contains(&method) {
            self.mistaken(InvalidService::ExtensionMethod { method: method.as_str().into() });
        }
        let name = method.clone();
        if self.notifications.insert(method, handler).is_some() {
            self.mistaken(duplicate_method(&name));
        }
    }

    /// Adds a hook, which is called for every request before it is routed, and may refuse it. What it returns is called
    /// with the outcome.
    pub fn add_hook<A>(&mut self, hook: impl Fn(&IncomingRequest) -> Result<A, ErrorObject> + Send + Sync + 'static)
    where
        A: FnOnce(RouteOutcome) -> RouteOutcome + Send + 'static,
    {
        self.row.hooks.push(Arc::new(move |request| hook(request).map(|after| Some(Box::new(after) as AfterRoute))));
    }

    /// Adds a hook that only refuses requests.
    pub fn add_check(&mut self, check: impl Fn(&IncomingRequest) -> Result<(), ErrorObject> + Send + Sync + 'static) {
        self.row.hooks.push(Arc::new(move |request| check(request).map(|()| None)));
    }

    fn mistaken(&mut self, mistake: InvalidService) {
        self.mistake.get_or_insert(mistake);
    }

    /// The row of a router, the handlers of notifications, and the mistake of the application.
    pub(super) fn into_parts(self) -> (Row<H>, BTreeMap<Method, N>, Option<InvalidService>) {
        let notifications = self.notifications.keys().cloned().collect();
        (Row { notifications, ..self.row }, self.notifications, self.mistake)
    }
}

/// The parameters of a notification; `None` if they do not have the shape of `P`.
#[must_use]
pub fn notification_params<P: DeserializeOwned>(params: Option<&Json>) -> Option<P> {
    arguments::read(params.unwrap_or(&Json::empty_object())).ok()
}

pub(super) fn duplicate_method(method: &Method) -> InvalidService {
    InvalidService::DuplicateRoute { kind: "methods of extensions", name: method.as_str().into() }
}

impl<H> Row<H> {
    fn new(id: &str) -> Self {
        Self {
            id: id.into(),
            settings: JsonObject::new(),
            methods: BTreeMap::new(),
            notifications: BTreeSet::new(),
            own: None,
            hooks: Vec::new(),
            needs_client: false,
            only_stateless: false,
            is_own: false,
        }
    }

    /// An extension that the router answers itself.
    #[cfg(feature = "skills")]
    pub(super) fn answered(id: &str, settings: JsonObject, own: OwnAnswers) -> Self {
        Self { settings, own: Some(own), is_own: true, ..Self::new(id) }
    }

    fn serves(&self, version: ProtocolVersion) -> bool {
        version.is_stateless() || !self.only_stateless
    }

    /// The capability of a client that has declared the extension.
    fn client_capability(&self) -> Json {
        let declared = Json::empty_object().with_member(&self.id, &Json::empty_object());
        Json::empty_object().with_member("extensions", &declared)
    }
}

/// The extensions of a router.
#[derive(Clone)]
pub(super) struct Extensions<H>(Vec<Row<H>>);

/// What is to be done with a request of an extension.
pub(super) enum Extended<H> {
    Answered(RouteOutcome),
    Handled(H, RoutedCall),
}

/// What the hooks of extensions do with the outcome of a request.
#[derive(Default)]
pub struct Hooked(Vec<AfterRoute>);

impl Hooked {
    /// Whether no hook waits for the outcome.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The outcome that the client receives: the hook that was called first sees the outcome last.
    ///
    /// # Errors
    ///
    /// The error for the client.
    pub fn finish(self, outcome: RouteOutcome) -> RouteOutcome {
        self.0.into_iter().rev().fold(outcome, |outcome, after| after(outcome))
    }
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hooked({})", self.0.len())
    }
}

impl<H: Clone> Extensions<H> {
    /// Adds an extension.
    ///
    /// # Errors
    ///
    /// Another one has the same id, or a method of the same name.
    pub(super) fn add(&mut self, row: Row<H>) -> Result<(), InvalidService> {
        for other in &self.0 {
            if other.id == row.id {
                return Err(InvalidService::DuplicateRoute { kind: "extensions", name: row.id });
            }
            if let Some(method) = row.methods.keys().find(|method| other.methods.contains_key(method)) {
                return Err(duplicate_method(method));
            }
        }
        self.0.push(row);
        Ok(())
    }

    /// Removes the extension of the specification with this id, if the router serves it.
    pub(super) fn remove(&mut self, id: &str) {
        self.0.retain(|row| !row.is_own || &*row.id != id);
    }

    /// The member `extensions` of the capabilities; `None` if there are none.
    pub(super) fn declared(&self) -> Option<JsonObject> {
        let declare = |all: JsonObject, row: &Row<H>| all.with(&row.id, row.settings.clone());
        (!self.0.is_empty()).then(|| self.0.iter().fold(JsonObject::new(), declare))
    }

    /// Calls the hooks for a request, and checks what its method needs.
    ///
    /// # Errors
    ///
    /// The outcome of the request, which must not be routed.
    pub(super) fn begin(&self, request: &IncomingRequest) -> Result<Hooked, RouteOutcome> {
        let mut hooked = Hooked::default();
        if self.0.iter().any(|row| !row.hooks.is_empty()) {
            request.set_hooked();
        }
        for hook in self.0.iter().flat_map(|row| &row.hooks) {
            match hook(request) {
                Ok(after) => hooked.0.extend(after),
                Err(refused) => return Err(hooked.finish(Err(refused))),
            }
        }
        let row = self.0.iter().find(|row| row.needs_client && row.methods.contains_key(request.method()));
        if let Some(row) = row.filter(|row| row.serves(request.version())) {
            if let Err(missing) = request.context().require(&row.client_capability()) {
                return Err(hooked.finish(Err(missing)));
            }
        }
        Ok(hooked)
    }

    /// Whether a notification is handled, if it is of a client with these capabilities.
    pub(super) fn take_notification(&self, method: &Method, client_capabilities: &Json) -> bool {
        let mut needing = self.0.iter().filter(|row| row.needs_client && row.notifications.contains(method));
        needing.all(|row| extension_in(client_capabilities, &row.id).is_some())
    }

    /// Finds what is to be done with a request; `None` if it is of no extension.
    pub(super) fn find(
        &self,
        method: &Method,
        params: Option<&Json>,
        version: ProtocolVersion,
        page_size: usize,
    ) -> Option<Extended<H>> {
        self.0.iter().filter(|row| row.serves(version)).find_map(|row| {
            if let Some(handler) = row.methods.get(method) {
                let params = params.cloned().unwrap_or(Json::empty_object());
                return Some(Extended::Handled(handler.clone(), RoutedCall::extended(params, method.clone(), version)));
            }
            row.own.as_ref()?(method, params, page_size).map(Extended::Answered)
        })
    }
}

impl<H> Default for Extensions<H> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<H> fmt::Debug for Extensions<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|row| &row.id)).finish()
    }
}

impl<H, N> fmt::Debug for Extension<H, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Extension").field(&self.row.id).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Routed, Router};
    use super::*;

    #[test]
    fn a_request_of_an_extension_for_stateless_revisions_is_of_the_fallback_in_others() {
        let mut extension = Extension::<u8, ()>::of_specification("io.modelcontextprotocol/tasks");
        extension.serve_only_stateless();
        extension.add_known(Method::TASKS_GET, 7);
        let mut router = Router::new();
        assert!(router.add_extension(extension).is_empty());
        let found = |version| router.route(&Method::TASKS_GET, None, version);
        assert!(matches!(found(ProtocolVersion::LATEST), Routed::Handled { handler: 7, .. }));
        assert!(matches!(found(ProtocolVersion::LATEST_LEGACY), Routed::Unrouted));
        let declared = Json::from(router.capabilities(false).unwrap()).to_string();
        assert_eq!(declared, r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#);
        router.remove_extension("io.modelcontextprotocol/tasks");
        assert!(matches!(router.route(&Method::TASKS_GET, None, ProtocolVersion::LATEST), Routed::Unrouted));
    }

    #[test]
    fn wrong_parameters_of_an_extension_are_named_after_one_prefix() {
        #[derive(Debug, serde::Deserialize)]
        struct Roll {
            #[serde(rename = "sides")]
            _sides: u32,
        }
        let method = Method::from("com.example/dice/roll");
        let mut extension = Extension::<u8, ()>::new("com.example/dice");
        extension.add_method("com.example/dice/roll", 7);
        let mut router = Router::new();
        assert!(router.add_extension(extension).is_empty());
        let params = Json::empty_object().with_member("sides", &Json::from("six"));
        let Routed::Handled { call, .. } = router.route(&method, Some(&params), ProtocolVersion::LATEST) else {
            panic!("the method is known");
        };
        let error = call.arguments::<Roll>().unwrap_err().to_string();
        assert!(error.starts_with("invalid params: 'sides': "), "{error}");
    }

    #[test]
    fn an_extension_of_the_application_is_not_replaced_by_one_of_the_specification() {
        let id = "io.modelcontextprotocol/tasks";
        let mut router = Router::<u8>::new();
        assert!(router.add_extension(Extension::<u8, ()>::new(id)).is_empty());
        router.remove_extension(id);
        assert!(router.add_extension(Extension::<u8, ()>::of_specification(id)).is_empty());
        let mistake = router.capabilities(false).unwrap_err().to_string();
        assert!(mistake.contains("two extensions have the name 'io.modelcontextprotocol/tasks'"), "{mistake}");
    }

    #[cfg(feature = "skills")]
    #[test]
    fn an_extension_of_the_application_is_not_replaced_by_skills() {
        let skill = crate::skills::SkillDirectory::new("refunds", "Refunds an order", "Ask first.");
        let mut router = Router::<u8>::new();
        assert!(router.add_extension(Extension::<u8, ()>::new("io.modelcontextprotocol/skills")).is_empty());
        router.add_skill(&skill);
        let mistake = router.capabilities(false).unwrap_err().to_string();
        assert!(mistake.contains("two extensions have the name"), "{mistake}");
    }
}
