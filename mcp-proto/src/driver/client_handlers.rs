//! The functions of an application for single kinds of requests and notifications of a server.

use std::collections::BTreeMap;
use std::fmt;

use crate::codec::json::Json;
use crate::codec::jsonrpc::ErrorObject;
use crate::spec::Method;

/// A kind of request that a server makes of the application, in both eras: as a request of its own, or as an input
/// request in a result (MD-I-03).
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
}

/// The functions of an application for single kinds of requests and notifications of a server. `Q` and `N` are the
/// driver's types of these functions.
///
/// # Example
///
/// ```
/// use mcp_proto::driver::{ClientHandlers, RequestKind};
/// use mcp_proto::{Json, Method};
///
/// let mut handlers = ClientHandlers::<fn() -> Json, ()>::new();
/// handlers.on_request(RequestKind::ListRoots, || Json::parse(r#"{"roots":[]}"#).unwrap());
/// assert!(handlers.for_request(&Method::ROOTS_LIST, None).unwrap().is_some());
/// assert_eq!(handlers.declared_in(&Json::empty_object()).as_bytes(), br#"{"roots":{}}"#);
/// ```
pub struct ClientHandlers<Q, N> {
    requests: BTreeMap<RequestKind, Q>,
    notifications: BTreeMap<Method, N>,
}

impl<Q, N> ClientHandlers<Q, N> {
    /// No functions.
    #[must_use]
    pub const fn new() -> Self {
        Self { requests: BTreeMap::new(), notifications: BTreeMap::new() }
    }

    /// Sets the function for requests of this kind.
    pub fn on_request(&mut self, kind: RequestKind, handler: Q) {
        self.requests.insert(kind, handler);
    }

    /// Sets the function for notifications of this method.
    pub fn on_notification(&mut self, method: Method, handler: N) {
        self.notifications.insert(method, handler);
    }

    /// The function for this request; `None` if there is none for any request of its method.
    ///
    /// # Errors
    ///
    /// The answer to an elicitation in a mode that the client did not declare, because the application has a function
    /// for another mode only (RULES 1.3).
    pub fn for_request(&self, method: &Method, params: Option<&Json>) -> Result<Option<&Q>, ErrorObject> {
        let handler = RequestKind::of(method, params).and_then(|kind| self.requests.get(&kind));
        if handler.is_none() && self.requests.keys().any(|kind| kind.method() == *method) {
            return Err(ErrorObject::invalid_params("the client has not declared this mode of elicitation"));
        }
        Ok(handler)
    }

    /// The function for notifications of this method.
    #[must_use]
    pub fn for_notification(&self, method: &Method) -> Option<&N> {
        self.notifications.get(method)
    }

    /// Capabilities with those that the functions for requests need. What is declared already is unchanged.
    #[must_use]
    pub fn declared_in(&self, capabilities: &Json) -> Json {
        let mut declared = capabilities.clone();
        for kind in self.requests.keys() {
            let Some(name) = kind.method().facts().client_capability else { continue };
            let known = declared.first_member(name).filter(Json::is_object).unwrap_or(Json::empty_object());
            let needed = match kind.inside() {
                Some(inside) if known.first_member(inside).is_none() => {
                    known.with_member(inside, &Json::empty_object())
                }
                Some(_) | None => known,
            };
            declared = declared.with_member(name, &needed);
        }
        declared
    }
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
        assert_eq!(refusal.code(), crate::code::INVALID_PARAMS);
        let unknown = json(r#"{"mode":"dance"}"#);
        assert!(handlers(&[ElicitForm, ElicitUrl]).for_request(&elicit, Some(&unknown)).is_err());
        assert_eq!(handlers(&[Sample]).for_request(&elicit, Some(&url)), Ok(None));
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
        ] {
            assert_eq!(handlers(kinds).declared_in(&json(before)), json(after), "{kinds:?} {before}");
        }
    }
}
