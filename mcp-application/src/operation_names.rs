//! Which names of methods, tools and prompts the metrics of a server or a client may contain.

#![expect(clippy::disallowed_types, reason = "the requests of a server or a client share this; no machine contains it")]

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::operation::{MethodName, Operation, OperationEnd};

/// The most names of each kind that are kept.
const MOST: usize = 100;
/// What stands for all others, as in OpenTelemetry's conventions.
const OTHER: &str = "_OTHER";

/// The names that occur in the metrics and in the names of spans of one server or one client: those of which a request has
/// had a result. A peer can invent any number of names, so at most 100 methods besides those of the specification, 100
/// tools and prompts, and 100 codes of errors are kept. All others have the name `_OTHER`, or none.
///
/// # Example
///
/// ```
/// use mcp_application::{Operation, OperationEnd, OperationNames};
/// use mcp_proto::{Json, Method};
///
/// let names = OperationNames::default();
/// let operation = Operation::new(&Method::TOOLS_CALL, Some(&Json::parse(r#"{"name":"add"}"#)?));
/// assert_eq!(names.label(&operation).to_string(), "tools/call");
/// names.ended(&operation, &OperationEnd::of_answer(&Ok(Json::empty_object())));
/// assert_eq!(names.label(&operation).to_string(), "tools/call add");
/// # Ok::<(), mcp_proto::JsonError>(())
/// ```
#[derive(Default)]
pub struct OperationNames {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    methods: BTreeSet<Box<str>>,
    tools: BTreeSet<Box<str>>,
    prompts: BTreeSet<Box<str>>,
    codes: BTreeSet<i64>,
}

/// The names of a request that metrics may contain. Its `Display` form is the name of the span: the method, and the tool or
/// prompt after a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperationLabel<'o> {
    /// The method, or `_OTHER`.
    pub method: &'o str,
    /// The tool, if it is known.
    pub tool: Option<&'o str>,
    /// The prompt, if it is known.
    pub prompt: Option<&'o str>,
}

impl fmt::Display for OperationLabel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.method)?;
        match self.tool.or(self.prompt) {
            Some(target) => write!(f, " {target}"),
            None => Ok(()),
        }
    }
}

impl OperationNames {
    /// The names of this request that are known.
    #[must_use]
    pub fn label<'o>(&self, operation: &'o Operation) -> OperationLabel<'o> {
        self.known().label(operation)
    }

    /// A request has ended, so that its names may be known. Returns them.
    pub fn ended<'o>(&self, operation: &'o Operation, end: &OperationEnd) -> OperationLabel<'o> {
        let mut known = self.known();
        if end.is_known {
            if let MethodName::Other(name) = &operation.method {
                keep(&mut known.methods, name.as_str());
            }
            if let Some(name) = operation.tool() {
                keep(&mut known.tools, name);
            }
            if let Some(name) = operation.prompt() {
                keep(&mut known.prompts, name);
            }
        }
        known.label(operation)
    }

    /// [`OperationEnd::error_type`] for metrics.
    #[must_use]
    pub fn error_type(&self, end: &OperationEnd) -> Option<Cow<'static, str>> {
        if let Some(code) = end.status_code() {
            let codes = &mut self.known().codes;
            if codes.len() >= MOST && !codes.contains(&code) {
                return Some(OTHER.into());
            }
            codes.insert(code);
        }
        end.error_type()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn label<'o>(&self, operation: &'o Operation) -> OperationLabel<'o> {
        OperationLabel {
            method: match &operation.method {
                MethodName::Standard(name) => name,
                MethodName::Other(name) if self.methods.contains(name.as_str()) => name.as_str(),
                MethodName::Other(_) => OTHER,
            },
            tool: operation.tool().filter(|name| self.tools.contains(*name)),
            prompt: operation.prompt().filter(|name| self.prompts.contains(*name)),
        }
    }
}

/// Adds a name while there is room.
fn keep(names: &mut BTreeSet<Box<str>>, name: &str) {
    if names.len() < MOST && !names.contains(name) {
        names.insert(name.into());
    }
}

crate::opaque_debug!(OperationNames);

#[cfg(test)]
mod tests {
    use mcp_proto::{ErrorObject, Json, Method};

    use super::*;

    fn call(tool: &str) -> Operation {
        Operation::new(&Method::TOOLS_CALL, Some(&Json::parse(format!(r#"{{"name":"{tool}"}}"#)).expect("JSON")))
    }

    fn result() -> OperationEnd {
        OperationEnd::of_answer(&Ok(Json::empty_object()))
    }

    fn error(code: i64) -> OperationEnd {
        OperationEnd::of_answer(&Err(ErrorObject::new(code, "no")))
    }

    #[test]
    fn peers_cannot_make_up_names() {
        let names = OperationNames::default();
        for number in 0..500 {
            let (tool, method) = (call(&format!("made-up-{number}")), format!("made/up/{number}"));
            let method = Operation::new(&method.as_str().into(), None);
            for end in [error(-32602), OperationEnd::CANCELLED, OperationEnd::PANICKED] {
                assert_eq!(names.ended(&tool, &end).to_string(), "tools/call");
                assert_eq!(names.ended(&method, &end).to_string(), "_OTHER");
            }
        }
    }

    #[test]
    fn what_has_given_a_result_keeps_its_name_when_it_fails() {
        let names = OperationNames::default();
        let (tool, own) = (call("add"), Operation::new(&"own/method".into(), None));
        let params = Json::parse(r#"{"name":"add"}"#).expect("JSON");
        let prompt = Operation::new(&Method::PROMPTS_GET, Some(&params));
        for (operation, name) in [(&tool, "tools/call add"), (&own, "own/method")] {
            assert_eq!(names.ended(operation, &result()).to_string(), name);
            assert_eq!(names.ended(operation, &error(-32602)).to_string(), name);
        }
        assert_eq!(names.label(&prompt).to_string(), "prompts/get", "the name is that of a tool only");
        assert_eq!(names.ended(&prompt, &result()).to_string(), "prompts/get add");
    }

    #[test]
    fn as_many_names_are_kept_as_there_is_room_for() {
        let names = OperationNames::default();
        let mut kept = [0; 3];
        for number in 0..MOST + 50 {
            let own = Operation::new(&format!("own/{number}").as_str().into(), None);
            kept[0] += usize::from(names.ended(&call(&format!("t{number}")), &result()).tool.is_some());
            kept[1] += usize::from(names.ended(&own, &result()).method != OTHER);
            let code = i64::try_from(number).expect("a small number");
            kept[2] += usize::from(names.error_type(&error(code)).as_deref() != Some(OTHER));
        }
        assert_eq!(kept, [MOST; 3]);
        assert_eq!((names.label(&call("t0")).tool, names.label(&call("t140")).tool), (Some("t0"), None));
        assert_eq!(names.error_type(&error(0)).as_deref(), Some("0"));
        assert_eq!(names.error_type(&OperationEnd::CANCELLED).as_deref(), Some("cancelled"));
        assert_eq!(names.error_type(&result()), None);
    }
}
