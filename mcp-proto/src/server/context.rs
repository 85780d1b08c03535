//! The context of one request: its revision, and the identity, capabilities and settings of its client.

use super::principal::Principal;
use crate::conversation::keys::InstanceId;
use crate::error::UsageError;
use crate::json::Json;
use crate::jsonrpc::{ErrorObject, Notification};
use crate::spec::capability::capability_for;
use crate::spec::{LoggingLevel, Method, ProtocolVersion};

/// The revision, client and settings that apply to one request. Up to 2025-11-25, they are those of the session; since
/// 2026-07-28, those that the request itself states.
///
/// Rules: MD-M-04.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Context {
    /// The revision in force.
    pub version: ProtocolVersion,
    /// The capabilities that the client declares: an object.
    pub client_capabilities: Json,
    /// The client's name and version, as it states them: an object. Behaviour must not depend on it.
    ///
    /// Rules: MD-M-06.
    pub client_info: Option<Json>,
    /// The lowest level of log messages that the client has requested; `None` if none are sent to it.
    ///
    /// Rules: MD-M-09.
    pub logging_level: Option<LoggingLevel>,
    /// The sender of the request, if the driver authenticated it.
    pub principal: Option<Principal>,
    /// The instance that serves the stateless request, if it shares a store with others. It becomes a part of the ids of
    /// tasks ([`TaskId::for_call`](super::TaskId::for_call)).
    pub instance: Option<InstanceId>,
}

impl Context {
    /// The context of a request in this revision, of a client that declared these capabilities, for tests of functions
    /// that receive a context.
    #[must_use]
    pub const fn new(version: ProtocolVersion, client_capabilities: Json) -> Self {
        Self { version, client_capabilities, client_info: None, logging_level: None, principal: None, instance: None }
    }

    /// Whether a notification that relates to this stateless request may be sent.
    ///
    /// # Errors
    ///
    /// The notification is a change notification, which may be sent only on subscriptions (SH-S-14, MD-L-03).
    pub(super) fn lets_pass(&self, notification: &Notification) -> Result<bool, UsageError> {
        if notification.method.facts().change.is_some() {
            let what = "a change notification that relates to a request";
            return Err(UsageError::NotInRevision { what, version: self.version });
        }
        if notification.method != Method::MESSAGE {
            return Ok(true);
        }
        let level = notification.params.as_ref().and_then(|params| params.first_member("level"));
        let level = level.as_ref().and_then(Json::as_string).and_then(|level| LoggingLevel::from_text(&level));
        // Without a level in the request, no log messages are sent (MD-M-09).
        Ok(self.logging_level.is_some_and(|wanted| level.is_some_and(|level| level >= wanted)))
    }

    /// Whether a request for input may be sent to the client: its method is one of those that
    /// [`InputRequired`](super::InputRequired) may contain, and the client has declared the capability that it needs.
    ///
    /// Rules: MD-I-03, MD-I-04.
    #[must_use]
    pub fn accepts(&self, method: &Method, params: &Json) -> bool {
        capability_for(method, params).is_some_and(|needed| self.require(&needed).is_ok())
    }

    /// Checks whether the client has declared all these capabilities, in the form of `clientCapabilities`, such as
    /// `{"elicitation":{"url":{}}}`. An `elicitation` without a mode is the mode `form`.
    ///
    /// # Errors
    ///
    /// The answer to a request that needs them: an error whose data contains the missing ones.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::server::{Config, Event, Server};
    /// use mcp_proto::{Instant, Json, Output, Stdio};
    ///
    /// let mut config = Config::new("my-tools", "1.0.0");
    /// config.capabilities = Json::parse(r#"{"tools":{}}"#)?;
    /// let mut server = Server::new(Stdio::new(), config)?;
    /// let call = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}}}}}"#;
    /// server.handle_bytes(call, Instant::START);
    /// server.handle_bytes(b"\n", Instant::START);
    /// let Some(Output::Event(Event::Requested { ticket, .. })) = server.poll_output() else { unreachable!() };
    ///
    /// let context = server.context(&ticket).unwrap();
    /// assert!(context.require(&Json::parse(r#"{"roots":{}}"#)?).is_ok());
    /// let missing = context.require(&Json::parse(r#"{"roots":{},"sampling":{}}"#)?).unwrap_err();
    /// assert_eq!(missing.code(), -32021);
    /// assert_eq!(missing.data().unwrap().to_text(), r#"{"requiredCapabilities":{"sampling":{}}}"#);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Rules: MD-M-12, MD-M-05.
    pub fn require(&self, capabilities: &Json) -> Result<(), ErrorObject> {
        let mut missing = Json::empty_object();
        for (name, wanted) in capabilities.entries() {
            let Some(name) = name else { continue };
            let offered = self.client_capabilities.first_member(&name);
            let is_offered = match (&*name, offered) {
                (_, None) => false,
                ("elicitation", Some(offered)) => offers_mode(&offered, &wanted),
                (_, Some(offered)) => offers(&offered, &wanted),
            };
            if !is_offered {
                missing = missing.with_member(&name, &wanted);
            }
        }
        if missing == Json::empty_object() {
            return Ok(());
        }
        let data = Json::empty_object().with_member("requiredCapabilities", &missing);
        let text = "the request needs a capability that its client has not declared";
        Err(ErrorObject::with_data(self.version.rules().missing_capability, text, &data))
    }
}

/// Whether `offered` contains every member of `wanted`, at any depth.
fn offers(offered: &Json, wanted: &Json) -> bool {
    wanted.entries().all(|(name, wanted)| {
        let offered = name.and_then(|name| offered.first_member(&name));
        offered.is_some_and(|offered| offers(&offered, &wanted))
    })
}

fn offers_mode(offered: &Json, wanted: &Json) -> bool {
    let [form, url] = offered.first_members(["form", "url"]);
    let offered = if form.is_none() && url.is_none() {
        offered.with_member("form", &Json::empty_object())
    } else {
        offered.clone()
    };
    let is_any = wanted.entries().next().is_none();
    let wanted = if is_any { wanted.with_member("form", &Json::empty_object()) } else { wanted.clone() };
    offers(&offered, &wanted)
}
