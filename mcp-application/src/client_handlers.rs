//! The functions of an application for single kinds of requests and notifications of a server.

use std::collections::BTreeMap;
use std::fmt;

use mcp_model::{ClientCapabilities, JsonObject};
use mcp_proto::spec::UI_EXTENSION;
use mcp_proto::{ErrorObject, Json, Method};

/// A kind of request that a server makes of the application, in both eras: as a request of its own, or as an input
/// request in a result.
///
/// Rules: MD-I-03.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RequestKind {
    /// `elicitation/create` with a form.
    ElicitForm,
    /// `elicitation/create` with a URL.
    ElicitUrl,
    /// `sampling/createMessage`.
    Sample,
    /// `roots/list`.
    ListRoots,
}

impl RequestKind {
    const EACH: [Self; 4] = [Self::ElicitForm, Self::ElicitUrl, Self::Sample, Self::ListRoots];

    /// The kind of a request; `None` if it is of another method, or an elicitation in an unknown mode.
    #[must_use]
    pub fn of(method: &Method, params: Option<&Json>) -> Option<Self> {
        if *method == Method::ELICITATION_CREATE {
            let mode = params.and_then(|params| params.first_member("mode"));
            return match mode.as_ref().map(Json::as_bytes) {
                None | Some(b"\"form\"" | b"null") => Some(Self::ElicitForm),
                Some(b"\"url\"") => Some(Self::ElicitUrl),
                Some(_) => None,
            };
        }
        [Self::Sample, Self::ListRoots].into_iter().find(|kind| kind.method() == *method)
    }

    const fn method(self) -> Method {
        match self {
            Self::ElicitForm | Self::ElicitUrl => Method::ELICITATION_CREATE,
            Self::Sample => Method::SAMPLING_CREATE_MESSAGE,
            Self::ListRoots => Method::ROOTS_LIST,
        }
    }

    /// The member of the capability that this kind needs.
    const fn inside(self) -> Option<&'static str> {
        match self {
            Self::ElicitForm => Some("form"),
            Self::ElicitUrl => Some("url"),
            Self::Sample | Self::ListRoots => None,
        }
    }

    /// Whether a client with these capabilities handles requests of this kind. An empty `elicitation` is for forms.
    fn is_declared(self, capabilities: &Json) -> bool {
        let declared = self.method().facts().client_capability.and_then(|name| capabilities.first_member(name));
        declared.filter(Json::is_object).is_some_and(|declared| match self.inside() {
            Some(inside) => {
                let is_empty = declared.entries().next().is_none();
                declared.first_member(inside).is_some() || (self == Self::ElicitForm && is_empty)
            }
            None => true,
        })
    }
}

/// The functions of an application for single kinds of requests and notifications of a server. `Q` and `N` are the
/// driver's types of these functions.
///
/// # Example
///
/// ```
/// use mcp_application::{ClientHandlers, RequestKind};
/// use mcp_proto::{Json, Method};
///
/// let mut handlers = ClientHandlers::<fn() -> Json, ()>::new();
/// handlers.on_request(RequestKind::ListRoots, || Json::parse(r#"{"roots":[]}"#).unwrap());
/// assert_eq!(handlers.declare_in(&Json::empty_object()).as_bytes(), br#"{"roots":{}}"#);
/// assert!(handlers.for_request(&Method::ROOTS_LIST, None).unwrap().is_some());
/// ```
pub struct ClientHandlers<Q, N> {
    requests: BTreeMap<RequestKind, Q>,
    notifications: BTreeMap<Method, N>,
    /// The kinds that the application has declared itself.
    declared: Vec<RequestKind>,
}

impl<Q, N> ClientHandlers<Q, N> {
    /// No functions.
    #[must_use]
    pub const fn new() -> Self {
        Self { requests: BTreeMap::new(), notifications: BTreeMap::new(), declared: Vec::new() }
    }

    /// Sets the function for requests of this kind.
    pub fn on_request(&mut self, kind: RequestKind, handler: Q) {
        self.requests.insert(kind, handler);
    }

    /// Sets the function for notifications of this method.
    pub fn on_notification(&mut self, method: Method, handler: N) {
        self.notifications.insert(method, handler);
    }

    /// The function for this request; `None` if there is none for any request of its method, or the application has
    /// declared the kind itself.
    ///
    /// # Errors
    ///
    /// The answer to an elicitation in a mode that the client did not declare, because the application has a function
    /// for another mode only.
    ///
    /// Rules: RULES 1.3.
    pub fn for_request(&self, method: &Method, params: Option<&Json>) -> Result<Option<&Q>, ErrorObject> {
        let kind = RequestKind::of(method, params);
        let handler = kind.and_then(|kind| self.requests.get(&kind));
        let is_declared = kind.is_some_and(|kind| self.declared.contains(&kind));
        if handler.is_none() && !is_declared && self.requests.keys().any(|kind| kind.method() == *method) {
            return Err(ErrorObject::invalid_params("the client has not declared this mode of elicitation"));
        }
        Ok(handler)
    }

    /// The function for notifications of this method.
    #[must_use]
    pub fn for_notification(&self, method: &Method) -> Option<&N> {
        self.notifications.get(method)
    }

    /// Adds the capabilities that the functions for requests need to those of the application. A kind of request that
    /// the application has declared, without a function here, is left to the application.
    #[must_use]
    pub fn declare_in(&mut self, capabilities: &Json) -> Json {
        self.declared = RequestKind::EACH.into_iter().filter(|kind| kind.is_declared(capabilities)).collect();
        let mut declared = capabilities.clone();
        for kind in self.requests.keys() {
            let Some(name) = kind.method().facts().client_capability else { continue };
            let mut known = declared.first_member(name).filter(Json::is_object).unwrap_or(Json::empty_object());
            // With a further mode, an empty object would no longer stand for forms.
            let form = self.declared.iter().find(|declared| **declared == RequestKind::ElicitForm);
            for inside in [kind, form.unwrap_or(kind)].into_iter().filter(|of| of.method() == kind.method()) {
                let inside = inside.inside().filter(|inside| known.first_member(inside).is_none());
                if let Some(inside) = inside {
                    known = known.with_member(inside, &Json::empty_object());
                }
            }
            declared = declared.with_member(name, &known);
        }
        declared
    }
}

/// These capabilities of a client, and an extension with these settings. What else they contain is not changed.
///
/// # Example
///
/// ```
/// use mcp_application::{apps_extension, with_extension};
/// use mcp_proto::Json;
///
/// let capabilities = Json::parse(r#"{"roots":{},"extensions":{"com.example/x":{"a":1.0}},"other":7}"#)?;
/// let (id, settings) = apps_extension();
/// assert_eq!(
///     with_extension(&capabilities, id, settings).to_string(),
///     concat!(
///         r#"{"roots":{},"extensions":{"com.example/x":{"a":1.0},"io.modelcontextprotocol/ui":"#,
///         r#"{"mimeTypes":["text/html;profile=mcp-app"]}},"other":7}"#
///     )
/// );
/// # Ok::<(), mcp_proto::JsonError>(())
/// ```
#[must_use]
pub fn with_extension(capabilities: &Json, id: &str, settings: JsonObject) -> Json {
    let extensions = capabilities.first_member("extensions").and_then(|known| JsonObject::try_from(known).ok());
    let declared = extensions.unwrap_or_default().with(id, settings);
    capabilities.with_member("extensions", declared.as_json())
}

/// The extension with which a client states that it shows the pages of MCP Apps, and its settings.
#[must_use]
pub fn apps_extension() -> (&'static str, JsonObject) {
    (UI_EXTENSION, ClientCapabilities::apps_settings())
}

/// The settings with which a peer has declared an extension in these capabilities; `None` if it has not.
#[must_use]
pub fn extension_in(capabilities: &Json, id: &str) -> Option<JsonObject> {
    JsonObject::try_from(capabilities.first_member("extensions")?.first_member(id)?).ok()
}

impl<Q, N> Default for ClientHandlers<Q, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<Q, N> fmt::Debug for ClientHandlers<Q, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (requests, notifications) = (self.requests.keys(), self.notifications.keys());
        f.debug_struct("ClientHandlers")
            .field("requests", &requests.collect::<Vec<_>>())
            .field("notifications", &notifications.collect::<Vec<_>>())
            .field("declared", &self.declared)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use RequestKind::{ElicitForm, ElicitUrl, ListRoots, Sample};

    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).unwrap()
    }

    fn handlers(kinds: &[RequestKind]) -> ClientHandlers<RequestKind, ()> {
        let mut handlers = ClientHandlers::new();
        for kind in kinds {
            handlers.on_request(*kind, *kind);
        }
        handlers
    }

    #[test]
    fn a_request_reaches_the_function_of_its_kind() {
        let all = handlers(&[ElicitForm, ElicitUrl, Sample, ListRoots]);
        for (method, params, kind) in [
            ("roots/list", None, Some(ListRoots)),
            ("sampling/createMessage", Some("{}"), Some(Sample)),
            ("elicitation/create", None, Some(ElicitForm)),
            ("elicitation/create", Some(r#"{"message":"m"}"#), Some(ElicitForm)),
            ("elicitation/create", Some(r#"{"mode":null}"#), Some(ElicitForm)),
            ("elicitation/create", Some(r#"{"mode":"form"}"#), Some(ElicitForm)),
            ("elicitation/create", Some(r#"{"mode":"url"}"#), Some(ElicitUrl)),
            ("ping", None, None),
        ] {
            let params = params.map(json);
            assert_eq!(all.for_request(&method.into(), params.as_ref()).unwrap().copied(), kind, "{method} {params:?}");
        }
    }

    #[test]
    fn a_mode_that_was_not_declared_is_refused_and_a_method_without_functions_is_not_decided() {
        let (url, elicit) = (json(r#"{"mode":"url"}"#), Method::ELICITATION_CREATE);
        let refusal = handlers(&[ElicitForm]).for_request(&elicit, Some(&url)).unwrap_err();
        assert_eq!(refusal.code(), mcp_proto::code::INVALID_PARAMS);
        let unknown = json(r#"{"mode":"dance"}"#);
        assert!(handlers(&[ElicitForm, ElicitUrl]).for_request(&elicit, Some(&unknown)).is_err());
        assert_eq!(handlers(&[Sample]).for_request(&elicit, Some(&url)), Ok(None));
    }

    #[test]
    fn a_mode_that_the_application_has_declared_is_left_to_it() {
        let (form, url) = (json(r#"{"mode":"form"}"#), json(r#"{"mode":"url"}"#));
        for (kind, declared, other) in [
            (ElicitForm, r#"{"elicitation":{"url":{}}}"#, &url),
            (ElicitUrl, r#"{"elicitation":{"form":{}}}"#, &form),
            (ElicitUrl, r#"{"elicitation":{}}"#, &form),
        ] {
            let mut handlers = handlers(&[kind]);
            let _ = handlers.declare_in(&json(declared));
            assert_eq!(handlers.for_request(&Method::ELICITATION_CREATE, Some(other)), Ok(None), "{declared}");
        }
    }

    #[test]
    fn the_capabilities_follow_from_the_functions_and_keep_what_is_declared() {
        for (kinds, before, after) in [
            (&[][..], "{}", "{}"),
            (&[ElicitForm], "{}", r#"{"elicitation":{"form":{}}}"#),
            (&[ElicitUrl], r#"{"elicitation":{"form":{"x":1}}}"#, r#"{"elicitation":{"url":{},"form":{"x":1}}}"#),
            (&[ElicitForm], r#"{"elicitation":{"form":{"x":1}}}"#, r#"{"elicitation":{"form":{"x":1}}}"#),
            (&[Sample, ListRoots], r#"{"sampling":{"tools":{}}}"#, r#"{"roots":{},"sampling":{"tools":{}}}"#),
            (&[ListRoots], r#"{"roots":{"listChanged":true}}"#, r#"{"roots":{"listChanged":true}}"#),
            (&[ListRoots], "[]", "[]"),
            // An empty `elicitation` is for forms.
            (&[ElicitUrl], r#"{"elicitation":{}}"#, r#"{"elicitation":{"form":{},"url":{}}}"#),
            (&[ElicitForm], r#"{"elicitation":{}}"#, r#"{"elicitation":{"form":{}}}"#),
        ] {
            assert_eq!(handlers(kinds).declare_in(&json(before)), json(after), "{kinds:?} {before}");
        }
    }
}
