//! Headers that repeat parts of a message's body; those for arguments are learned from lists of tools (RULES 8.2, 8.3).

use http::{HeaderMap, HeaderValue};

use super::{Http, HttpAction};
use crate::client::carrier::Wire;
use crate::codec::json::Json;
use crate::codec::jsonrpc::{Message, Response};
use crate::spec::Method;
use crate::spec::header::{METHOD, NAME};
use crate::spec::param_headers::encode;

impl Http {
    pub(super) fn mirrored(&self, message: &Message) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let (method, params) = match message {
            Message::Request(request) => (&request.method, request.params.as_ref()),
            // Servers may expect the headers on notifications, too (A11).
            Message::Notification(notification) => (&notification.method, notification.params.as_ref()),
            Message::Response(_) => return headers,
        };
        // This header has no encoding (MD-H-06). It is omitted if it cannot carry the method, which the server then
        // refuses.
        if let Ok(value) = HeaderValue::from_str(method.as_str()) {
            headers.insert(METHOD, value);
        }
        let member = |name| params.and_then(|params| params.first_member(name));
        let Some(name) = method.facts().named_by.and_then(member) else { return headers };
        let Some(name) = name.as_string() else { return headers };
        headers.insert(NAME, encode(&name));
        if *method == Method::TOOLS_CALL {
            if let Some(annotations) = self.tools.get(&name) {
                let arguments = member("arguments");
                for (header, value) in annotations.values(arguments.as_ref()) {
                    // A value that is absent or null has no header (MD-P-06).
                    if let Some(value) = value {
                        headers.insert(header.clone(), encode(&value));
                    }
                }
            }
        }
        headers
    }

    /// Stores the annotations in a list of tools, and removes the tools whose annotations are invalid.
    pub(super) fn learn_tools(&mut self, response: Response, wire: &mut Wire<'_, HttpAction>) -> Response {
        let Response::Result { id, result } = response else { return response };
        let (cut, faults): (Option<Json>, _) = self.tools.learn(&result, self.limits.tool_headers);
        for fault in faults {
            wire.fault(fault);
        }
        Response::Result { id, result: cut.unwrap_or(result) }
    }
}
