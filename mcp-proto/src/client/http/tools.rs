//! Headers that repeat parts of a message's body (RULES 8.2); those for the arguments of tools are learned from results
//! of `tools/list` (RULES 8.3).

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderValue};

use crate::error::Fault;
use crate::json::Json;
use crate::jsonrpc::Message;
use crate::spec::Method;
use crate::spec::header::{METHOD, NAME};
use crate::spec::param_headers::{Annotations, encode};

/// The maximum number of characters of a tool's name in a fault.
const MAX_NAME: usize = 128;

/// The annotations of tools by name, as they were last listed (MD-P-06). Tools without annotations are not stored.
#[derive(Debug, Default)]
pub(super) struct Tools {
    known: BTreeMap<Box<str>, Known>,
    /// The names by the time at which they were learned, the oldest first.
    order: BTreeMap<u64, Box<str>>,
    last_learned: u64,
    weight: usize,
}

/// What is stored for a tool.
#[derive(Debug)]
struct Known {
    annotations: Annotations,
    learned: u64,
}

impl Tools {
    /// The headers that repeat parts of a message's body (RULES 8.2, 8.3).
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
            if let Some(Known { annotations, .. }) = self.known.get(&*name) {
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

    /// Stores the annotations in a result of `tools/list`. Returns the result without the tools whose annotations are
    /// invalid, if there are any, and a fault for each of them (MD-P-05).
    pub(super) fn learn(&mut self, result: &Json, limit: usize) -> (Option<Json>, Vec<Fault>) {
        let mut faults = Vec::new();
        let Some(tools) = result.first_member("tools").filter(|tools| tools.as_bytes().starts_with(b"[")) else {
            return (None, faults);
        };
        let mut kept = vec![b'['];
        for tool in tools.elements() {
            let [name, schema] = tool.first_members(["name", "inputSchema"]);
            let name = name.as_ref().and_then(Json::as_string).unwrap_or_default();
            match schema.as_ref().map_or(Ok(Annotations::default()), Annotations::read) {
                Ok(annotations) => {
                    self.remember(&name, annotations, limit);
                    if kept.len() > 1 {
                        kept.push(b',');
                    }
                    kept.extend_from_slice(tool.as_bytes());
                }
                Err(reason) => {
                    self.forget(&name);
                    let tool = name.chars().take(MAX_NAME).collect::<String>().into();
                    faults.push(Fault::InvalidTool { tool, reason });
                }
            }
        }
        kept.push(b']');
        let cut = (!faults.is_empty()).then(|| result.with_member("tools", &Json::from_valid_text(kept.into())));
        (cut, faults)
    }

    fn remember(&mut self, name: &str, annotations: Annotations, limit: usize) {
        self.forget(name);
        if annotations.is_empty() {
            return;
        }
        self.weight += weight(name, &annotations);
        self.last_learned += 1;
        self.known.insert(name.into(), Known { annotations, learned: self.last_learned });
        self.order.insert(self.last_learned, name.into());
        while self.weight > limit {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, name: &str) {
        if let Some(Known { annotations, learned }) = self.known.remove(name) {
            self.weight -= weight(name, &annotations);
            self.order.remove(&learned);
        }
    }
}

fn weight(name: &str, annotations: &Annotations) -> usize {
    2 * (name.len() + size_of::<Box<str>>()) + annotations.weight()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::param_headers::InvalidAnnotation;

    fn list(tools: &str) -> Json {
        Json::parse(format!(r#"{{"x": 1.0, "tools" : {tools} ,"nextCursor":"2"}}"#)).expect("the test's text is JSON")
    }

    fn tool(name: &str, property: &str) -> String {
        format!(r#"{{ "name":"{name}","inputSchema":{{"type":"object","properties":{{"a":{property}}}}}}}"#)
    }

    #[test]
    fn md_p_05_only_tools_with_invalid_annotations_are_taken_out() {
        let good = tool("good", r#"{"type":"string","x-mcp-header":"A"}"#);
        let plain = tool("plain", r#"{"type":"number"}"#);
        let bad = tool("bad", r#"{"type":"number","x-mcp-header":"A"}"#);
        let mut tools = Tools::default();
        let (cut, faults) = tools.learn(&list(&format!("[{good}, {bad} ,{plain}]")), 10_000);
        assert_eq!(cut, Some(list(&format!("[{good},{plain}]"))));
        assert_eq!(faults, [Fault::InvalidTool { tool: "bad".into(), reason: InvalidAnnotation::Type }]);
        assert!(
            tools.known.contains_key("good") && !tools.known.contains_key("plain") && !tools.known.contains_key("bad")
        );
        // Without annotations, the tool of that name needs no headers any more.
        let (cut, faults) = tools.learn(&list(&format!("[{}]", tool("good", "true"))), 10_000);
        assert_eq!((cut, faults.len()), (None, 0));
        assert!(!tools.known.contains_key("good"));
        assert_eq!(tools.weight, 0);
    }

    #[test]
    fn a_tool_weighs_its_annotations_and_both_copies_of_its_name() {
        let listed = |name| list(&format!("[{}]", tool(name, r#"{"type":"string","x-mcp-header":"A"}"#)));
        let weight_of = |name| {
            let mut tools = Tools::default();
            tools.learn(&listed(name), 10_000);
            tools.weight
        };
        assert_eq!(weight_of("abcd") - weight_of("abc"), 2);
        let mut tools = Tools::default();
        tools.learn(&listed("abc"), 10_000);
        let annotations = tools.known["abc"].annotations.weight();
        assert_eq!(tools.weight, annotations + 2 * (3 + size_of::<Box<str>>()));
        // A limit that is reached and not passed keeps the tool.
        for (limit, is_kept) in [(tools.weight, true), (tools.weight - 1, false)] {
            let mut bounded = Tools::default();
            bounded.learn(&listed("abc"), limit);
            assert_eq!(bounded.known.contains_key("abc"), is_kept, "{limit}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut tools = Tools::default();
        for number in 0..1000 {
            let listed = tool(&format!("tool{number}"), r#"{"type":"string","x-mcp-header":"A"}"#);
            assert!(tools.learn(&list(&format!("[{listed}]")), 2000).1.is_empty());
            assert!(tools.weight <= 2000 && tools.known.len() == tools.order.len());
        }
        assert!(tools.known.contains_key("tool999") && !tools.known.contains_key("tool0"));
    }
}
