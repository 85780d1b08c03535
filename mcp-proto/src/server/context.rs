//! What holds for one request: its revision, and what its client is and can do.

use super::LoggingLevel;
use super::http::Principal;
use super::listen::Publication;
use crate::codec::json::Json;
use crate::codec::jsonrpc::{ErrorObject, Notification};
use crate::error::UsageError;
use crate::spec::Method;
use crate::spec::ProtocolVersion;

/// What holds for one request. Up to 2025-11-25 that is what `initialize` said, and since 2026-07-28 what the request
/// itself says (MD-M-04).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Context {
    /// The revision in force.
    pub version: ProtocolVersion,
    /// What the client can do: an object.
    pub client_capabilities: Json,
    /// Who the client says it is: an object. Nothing may depend on it (MD-M-06).
    pub client_info: Option<Json>,
    /// From which level on log messages are wanted; `None` for none at all (MD-M-09).
    pub logging_level: Option<LoggingLevel>,
    /// Who sent the request, if the driver checked that.
    pub principal: Option<Principal>,
}

impl Context {
    /// Whether a notification about the request may be sent, in the era where requests say what they want.
    ///
    /// # Errors
    ///
    /// It is about something else, which only those hear who listen to it (SH-S-14, MD-L-03).
    pub(super) fn lets_pass(&self, notification: &Notification) -> Result<bool, UsageError> {
        if Publication::of(&notification.method, Some("")).is_ok() {
            let what = "a change that is told with a request";
            return Err(UsageError::NotInRevision { what, version: self.version });
        }
        if notification.method != Method::MESSAGE {
            return Ok(true);
        }
        let level = notification.params.as_ref().and_then(|params| params.first_member("level"));
        let level = level.as_ref().and_then(Json::as_string).and_then(|level| LoggingLevel::from_text(&level));
        // MD-M-09
        Ok(self.logging_level.is_some_and(|wanted| level.is_some_and(|level| level >= wanted)))
    }

    /// Whether the client can do all of this, given as an object as in `clientCapabilities`, such as
    /// `{"elicitation":{"url":{}}}`. An `elicitation` that names no mode is the mode `form` (MD-M-12).
    ///
    /// # Errors
    ///
    /// The answer to a request that needs it: an error whose data names what is missing (MD-M-05).
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
    /// server.handle_bytes(call, Instant::now());
    /// server.handle_bytes(b"\n", Instant::now());
    /// let Some(Output::Event(Event::Requested { ticket, .. })) = server.poll_output() else { unreachable!() };
    ///
    /// let context = server.context(&ticket).unwrap();
    /// assert!(context.require(&Json::parse(r#"{"roots":{}}"#)?).is_ok());
    /// let missing = context.require(&Json::parse(r#"{"roots":{},"sampling":{}}"#)?).unwrap_err();
    /// assert_eq!(missing.code(), -32021);
    /// assert_eq!(missing.data().unwrap().to_text(), r#"{"requiredCapabilities":{"sampling":{}}}"#);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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

/// Whether every member of `wanted` is there, however deep.
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
