//! HTTP responses of servers of 2026-07-28 that are forbidden or unusual, and the outcome that a client must report.
//! The client has this revision only and supports `roots/list`. Every driver with a client runs the table over
//! sockets.
//!
//! Each name begins with the rows of the catalogue that it belongs to.

use std::fmt::Display;
use std::io;

use mcp_proto::Json;

use crate::bad_answers::{RESULT, judge};
use crate::loopback_server::{Connection, LoopbackServer, PostedMessage, mcp_server};
use crate::messages::{COMPLETE, DISCOVERED, complete, event, request, result};

/// The capabilities that the client declares.
pub const CAPABILITIES: &str = r#"{"roots":{}}"#;
/// The client's result for `roots/list`.
pub const ROOTS: &str = r#"{"roots":[]}"#;
/// The result of [`NEXT`].
pub const FOUND: &str = COMPLETE;
/// A method that the server answers correctly.
pub const NEXT: &str = "prompts/list";

/// A bad response to a request.
#[derive(Debug, Clone, Copy)]
pub struct ModernAnswer {
    /// The rows of the catalogue, and what is wrong.
    pub name: &'static str,
    /// The method of the request. With `server/discover`, the client fails to connect.
    pub method: &'static str,
    answer: fn(&PostedMessage, &mut Connection) -> io::Result<()>,
    /// The result that the client accepts, or a part of its error.
    expected: Result<&'static str, &'static str>,
}

impl ModernAnswer {
    /// Starts a server that answers this method with the bad response, and everything else correctly.
    pub fn server(&self) -> LoopbackServer {
        let Self { method, answer, .. } = *self;
        LoopbackServer::start(mcp_server(move |asked, connection| match asked.method.as_str() {
            wrong if wrong == method => answer(asked, connection),
            "server/discover" => connection.json(result(&asked.id, DISCOVERED)),
            _ => connection.json(complete(&asked.id)),
        }))
    }

    /// Whether the client can connect.
    pub fn connects(&self) -> bool {
        self.method != "server/discover"
    }

    /// Whether the client must accept it; otherwise it must report an error. A client whose errors have other texts than
    /// those of `mcp-proto` is tested with this instead of [`judge`](Self::judge).
    pub const fn is_accepted(&self) -> bool {
        self.expected.is_ok()
    }

    /// Compares the outcome of the request, or of the attempt to connect, with the expected one.
    pub fn judge(&self, outcome: Result<Json, impl Display>) {
        judge(self.name, self.expected, outcome);
    }

    /// The same for a client of an older revision behind a relay, whose results have no `resultType`.
    pub fn judge_bridged(&self, outcome: Result<Json, impl Display>) {
        let expected = self.expected.map(|text| text.replace(r#""resultType":"complete","#, ""));
        judge(self.name, expected.as_deref().map_err(|text| *text), outcome);
    }
}

/// Sends a result that requires input and has these further members.
fn required(asked: &PostedMessage, connection: &mut Connection, members: &str) -> io::Result<()> {
    connection.json(result(&asked.id, &format!(r#"{{"resultType":"input_required",{members}}}"#)))
}

const QUESTION: &str = r#""inputRequests":{"r":{"method":"roots/list"}}"#;
const NO_QUESTION: &str = "it requires input without stating which, or for a method that takes none";
const BAD_TOOL: &str = r#"{"name":"bad","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"A B"}}}}"#;

/// The table of bad responses.
pub const MODERN_ANSWERS: &[ModernAnswer] = &[
    ModernAnswer {
        name: "RP17: no kind of result",
        method: "tools/call",
        answer: |asked, connection| connection.json(result(&asked.id, RESULT)),
        expected: Ok(RESULT),
    },
    ModernAnswer {
        name: "RP17: an unknown kind of result",
        method: "tools/call",
        answer: |asked, connection| connection.json(result(&asked.id, r#"{"resultType":"other","content":[]}"#)),
        expected: Err("its 'resultType' is unknown"),
    },
    ModernAnswer {
        name: "RP17: a kind that is no string",
        method: "tools/call",
        answer: |asked, connection| connection.json(result(&asked.id, r#"{"resultType":7,"content":[]}"#)),
        expected: Err("its 'resultType' is unknown"),
    },
    ModernAnswer {
        name: "MR5, RP17: questions about a method that has none",
        method: "tools/list",
        answer: |asked, connection| required(asked, connection, QUESTION),
        expected: Err(NO_QUESTION),
    },
    ModernAnswer {
        name: "MR2: a state of more than a message may hold",
        method: "prompts/get",
        answer: |asked, connection| {
            required(asked, connection, &format!(r#""requestState":"{}""#, "s".repeat(16 << 20)))
        },
        expected: Err("16777216"),
    },
    ModernAnswer {
        name: "MR2: ten thousand questions",
        method: "prompts/get",
        answer: |asked, connection| {
            let questions = (0..10_000).map(|number| format!(r#""{number}":{{"method":"roots/list"}}"#));
            let questions = questions.collect::<Vec<_>>().join(",");
            required(asked, connection, &format!(r#""inputRequests":{{{questions}}}"#))
        },
        expected: Err("it required more than"),
    },
    ModernAnswer {
        name: "MR2: a question that is none",
        method: "prompts/get",
        answer: |asked, connection| required(asked, connection, r#""inputRequests":{"r":{"method":"tools/call"}}"#),
        expected: Err(NO_QUESTION),
    },
    ModernAnswer {
        name: "MR2: a question that the client did not declare",
        method: "prompts/get",
        answer: |asked, connection| {
            let question = r#"{"method":"elicitation/create","params":{"message":"?","requestedSchema":{}}}"#;
            required(asked, connection, &format!(r#""inputRequests":{{"e":{question}}}"#))
        },
        expected: Err("the client did not declare"),
    },
    ModernAnswer {
        name: "MR2: neither questions nor a state",
        method: "prompts/get",
        answer: |asked, connection| required(asked, connection, r#""x":1"#),
        expected: Err(NO_QUESTION),
    },
    ModernAnswer {
        name: "MR3: questions without end",
        method: "prompts/get",
        answer: |asked, connection| required(asked, connection, QUESTION),
        expected: Err("it required input 10 times"),
    },
    ModernAnswer {
        name: "RP14: a request of the server's",
        method: "tools/call",
        answer: |asked, connection| {
            connection.begin_events()?;
            connection.chunk(event(&request("7", "roots/list", "{}")))?;
            connection.chunk(event(&complete(&asked.id)))?;
            connection.finish()
        },
        expected: Ok(FOUND),
    },
    ModernAnswer {
        name: "HM6: a tool that cannot be called over HTTP",
        method: "tools/list",
        answer: |asked, connection| {
            let good = r#"{"name":"good","inputSchema":{}}"#;
            connection.json(result(&asked.id, &format!(r#"{{"resultType":"complete","tools":[{BAD_TOOL},{good}]}}"#)))
        },
        expected: Ok(r#"{"resultType":"complete","tools":[{"name":"good","inputSchema":{}}]}"#),
    },
    ModernAnswer {
        name: "HM12: an intermediary that forces an older revision",
        method: "server/discover",
        answer: |_, connection| connection.reply("400 Bad Request", &[], ""),
        expected: Err("supports none of the revisions of MCP that this client may use"),
    },
];
