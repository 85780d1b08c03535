//! Tools that may take long, and what a client receives about their tasks from every driver.

use std::thread;
use std::time::Duration;

use http::request::Parts;
use mcp_application::router::HandlerError;
use mcp_application::{Error, IncomingRequest, Inputs};
use mcp_model::{
    CallToolResult, ElicitRequestFormParams, ElicitRequestParams, ElicitResult, JsonObject, Payload, RequestedSchema,
    Tool,
};
use mcp_proto::auth::Challenge;
use mcp_proto::server::{InputRequired, Principal};
use mcp_proto::{ErrorObject, Json};
use mcp_testkit::http_exchange::TestRequest;
use mcp_testkit::raw_client::RawClient;

use crate::routed;

/// The capabilities of a client that fetches results later, and whose user can be asked.
pub const CAPABILITIES: &str = r#"{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

/// A tool without arguments.
pub fn tool(name: &str) -> Tool {
    Tool::new(name, JsonObject::new().with("type", "object"))
}

/// What the tool `book` asks its user.
pub fn form() -> ElicitRequestFormParams {
    ElicitRequestFormParams::new("Who are you?", RequestedSchema::form())
}

/// The result of the tool `book`: what its user has entered.
///
/// # Errors
///
/// Nothing was entered.
pub fn booked(answer: ElicitResult) -> Result<String, HandlerError> {
    let entered = answer.content.ok_or("nothing was entered")?;
    Ok(entered.as_json().to_text().into_owned())
}

/// What the tool `pair` asks at one time.
pub fn pair() -> InputRequired {
    ["first", "second"].iter().fold(InputRequired::new(), |all, key| {
        all.ask(key, "elicitation/create", ElicitRequestParams::from(form()).to_json())
    })
}

/// What the tool `greet` needs before it becomes a task: an answer of its user.
///
/// # Errors
///
/// The user is to be asked first.
pub fn asked_before(incoming: &IncomingRequest) -> Result<ElicitResult, HandlerError> {
    let mut inputs = Inputs::new(incoming)?;
    inputs.elicit("name", form())?.ok_or_else(|| inputs.required())
}

/// The tool `panic`.
///
/// # Panics
///
/// Always.
pub fn panics() -> &'static str {
    panic!("a panic of a function")
}

/// The answer of the user who books.
pub fn entered() -> ElicitResult {
    ElicitResult::accept(JsonObject::new().with("name", "Ada"))
}

/// Tools, and the outcomes of their calls for a client whose user answers as [`entered`], with and without a task.
pub const CALLS: [(&str, &str); 5] = [
    ("book", r#"{"name":"Ada"}"#),
    (
        "pair",
        r#"{"first":{"action":"accept","content":{"name":"Ada"}},"second":{"action":"accept","content":{"name":"Ada"}}}"#,
    ),
    ("greet", r#"{"name":"Ada"}"#),
    ("fail", "no room"),
    ("panic", "the server answered with error -32603: internal error"),
];

/// The text of an outcome.
pub fn text(outcome: Result<CallToolResult, Error>) -> String {
    let text = |result: CallToolResult| result.content[0].as_text().expect("a text").to_owned();
    outcome.map_or_else(|error| error.to_string(), text)
}

/// A call of a tool, and the requests about its task.
#[derive(Debug)]
pub struct Case {
    /// The parameters of `tools/call`.
    call: &'static str,
    steps: &'static [Step],
}

#[derive(Debug)]
struct Step {
    method: &'static str,
    /// Members of the parameters besides the id.
    more: &'static str,
    /// The status until which the request is made again and again.
    until: Option<&'static str>,
    /// The expected member of the result, or the result.
    member: Option<&'static str>,
    expected: &'static str,
}

const fn get(until: &'static str, member: &'static str, expected: &'static str) -> Step {
    Step { method: "tasks/get", more: "", until: Some(until), member: Some(member), expected }
}

const fn step(method: &'static str, more: &'static str, expected: &'static str) -> Step {
    Step { method, more, until: None, member: None, expected }
}

/// Calls of the tools `book`, which asks its user; `pair`, which asks twice at one time; `greet`, which has asked before; `fail`, which fails with the text `no room`; `panic`, which panics; and
/// `wait`, which ends only when it is cancelled.
pub const CASES: [Case; 6] = [
    Case {
        call: r#"{"name":"book"}"#,
        steps: &[
            get("input_required", "statusMessage", r#""asking""#),
            get(
                "input_required",
                "inputRequests",
                r#"{"name":{"method":"elicitation/create","params":{"message":"Who are you?","requestedSchema":{"type":"object","properties":{}}}}}"#,
            ),
            step("tasks/update", r#","inputResponses":{"other":1}"#, "{}"),
            get("input_required", "status", r#""input_required""#),
            step("tasks/update", r#","inputResponses":{"name":{"action":"accept","content":{"name":"Ada"}}}"#, "{}"),
            get("completed", "result", r#"{"content":[{"type":"text","text":"{\"name\":\"Ada\"}"}]}"#),
            step("tasks/cancel", "", "{}"),
            get("completed", "status", r#""completed""#),
        ],
    },
    Case {
        call: r#"{"name":"pair"}"#,
        steps: &[
            get(
                "input_required",
                "inputRequests",
                r#"{"first":{"method":"elicitation/create","params":{"message":"Who are you?","requestedSchema":{"type":"object","properties":{}}}},"second":{"method":"elicitation/create","params":{"message":"Who are you?","requestedSchema":{"type":"object","properties":{}}}}}"#,
            ),
            step("tasks/update", r#","inputResponses":{"first":{"action":"decline"}}"#, "{}"),
            get(
                "input_required",
                "inputRequests",
                r#"{"second":{"method":"elicitation/create","params":{"message":"Who are you?","requestedSchema":{"type":"object","properties":{}}}}}"#,
            ),
            step("tasks/update", r#","inputResponses":{"second":{"action":"cancel"}}"#, "{}"),
            get(
                "completed",
                "result",
                r#"{"content":[{"type":"text","text":"{\"first\":{\"action\":\"decline\"},\"second\":{\"action\":\"cancel\"}}"}]}"#,
            ),
        ],
    },
    Case {
        call: r#"{"name":"greet","inputResponses":{"name":{"action":"accept","content":{"name":"Bob"}}}}"#,
        steps: &[get("completed", "result", r#"{"content":[{"type":"text","text":"{\"name\":\"Bob\"}"}]}"#)],
    },
    Case {
        call: r#"{"name":"fail"}"#,
        steps: &[get("completed", "result", r#"{"content":[{"type":"text","text":"no room"}],"isError":true}"#)],
    },
    Case {
        call: r#"{"name":"panic"}"#,
        steps: &[get("failed", "error", r#"{"code":-32603,"message":"internal error"}"#)],
    },
    Case {
        call: r#"{"name":"wait"}"#,
        steps: &[
            get("working", "status", r#""working""#),
            step("tasks/update", "", "-32602 invalid params: inputResponses: expected an object"),
            step("tasks/cancel", "", "{}"),
            get("cancelled", "status", r#""cancelled""#),
        ],
    },
];

impl Case {
    /// Makes the requests with this function, and checks the answers.
    ///
    /// # Panics
    ///
    /// An answer is not as expected.
    pub fn check(&self, mut request: impl FnMut(&str, Json) -> Result<Json, ErrorObject>) {
        let json = |text: String| Json::parse(text).expect("JSON");
        let created = request("tools/call", json(self.call.to_owned())).expect("a task");
        assert_eq!(created.first_member("resultType"), Some(Json::from("task")), "{self:?}");
        let task = created.first_member("taskId").expect("an id").to_text().into_owned();
        for step in self.steps {
            let mut attempts = 0;
            let answer = loop {
                let answer = request(step.method, json(format!(r#"{{"taskId":{task}{}}}"#, step.more)));
                let status = answer.as_ref().ok().and_then(|answer| answer.first_member("status"));
                if step.until.is_none_or(|until| status == Some(Json::from(until))) {
                    break answer;
                }
                attempts += 1;
                assert!(attempts < 2000, "{step:?}: {answer:?}");
                thread::sleep(Duration::from_millis(2));
            };
            let answer = match step.member {
                Some(member) => answer.map(|answer| answer.first_member(member).expect("the member")),
                None => answer,
            };
            routed::check(&format!("{} {step:?}", self.call), answer, step.expected);
        }
    }
}

/// The header with the name of the principal.
const PRINCIPAL: &str = "x-principal";

/// The principal of a request, which has none without the header.
///
/// # Errors
///
/// None.
pub fn authenticate(head: &Parts) -> Result<Option<Principal>, Challenge> {
    Ok(head.headers.get(PRINCIPAL).and_then(|name| name.to_str().ok()).map(Principal::new))
}

/// The scenario for a server with the tool `wait`, which does not end by itself, and [`authenticate`]: the changes of a task
/// reach only the subscriptions of its principal (SE-10). `publish` publishes that the list of tools has changed.
///
/// # Panics
///
/// If the server does not do what it should.
pub fn changes_reach_only_the_principal(server: &RawClient, mut publish: impl FnMut()) {
    const PRINCIPALS: [Option<&str>; 3] = [Some("ada"), Some("eve"), None];
    let by = |asked: TestRequest, principal: Option<&str>| match principal {
        Some(principal) => asked.with(PRINCIPAL, principal),
        None => asked,
    };
    let with_tasks = |mut asked: TestRequest| {
        let body = std::str::from_utf8(&asked.body).expect("UTF-8");
        let declared = format!(r#"clientCapabilities":{CAPABILITIES}"#);
        asked.body = body.replace(r#"clientCapabilities":{}"#, &declared).into();
        asked
    };
    for owner in PRINCIPALS {
        let created = server.answer(&by(with_tasks(TestRequest::stateless_call("1", "wait", "")), owner));
        let created = Json::parse(created.text()).expect("JSON");
        let task = created.first_member("result").and_then(|result| result.first_member("taskId")).expect("a task");
        let task = task.as_string().expect("an id").into_owned();
        let filter = format!(r#""notifications":{{"toolsListChanged":true,"taskIds":["{task}"]}},"#);
        let listen = with_tasks(TestRequest::stateless("2", "subscriptions/listen", &filter));
        let mut streams = PRINCIPALS.map(|principal| {
            let mut stream = server.open(&by(listen.clone(), principal));
            assert!(stream.events(1)[0].contains(&task), "it is acknowledged");
            stream
        });
        let cancel = TestRequest::stateless("3", "tasks/cancel", &format!(r#""taskId":"{task}","#));
        assert_eq!(server.answer(&by(with_tasks(cancel.with("mcp-name", &task)), owner)).code(), 200);
        for (principal, stream) in PRINCIPALS.into_iter().zip(&mut streams).filter(|(own, _)| *own == owner) {
            assert!(stream.events(2)[1].contains("cancelled"), "{principal:?}");
        }
        publish();
        for (principal, stream) in PRINCIPALS.into_iter().zip(&mut streams) {
            let after = 1 + usize::from(principal == owner);
            let next = stream.events(after + 1).remove(after);
            assert!(next.contains("notifications/tools/list_changed"), "{principal:?} of {owner:?}: {next}");
        }
    }
}
