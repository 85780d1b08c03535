//! A server that is a router of functions: the functions, and what a client receives from it on every driver.

use mcp_application::router::{CompletionInput, HandlerError, Structured};
use mcp_application::skills::SkillDirectory;
use mcp_application::{Elicited, Error, IncomingRequest, Inputs};
use mcp_model::{
    AppCsp, AppUi, CallToolResult, JsonObject, Prompt, ReadResourceResult, Resource, ResourceTemplate,
    TextResourceContents, Tool, ToolUi,
};
use mcp_proto::server::Config;
use mcp_proto::{ErrorObject, Json, Method, ProtocolVersion};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Two numbers
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Divide {
    dividend: i64,
    /// Not 0
    divisor: i64,
    /// Repeated in a header
    #[schemars(extend("x-mcp-header" = "Region"))]
    #[expect(dead_code, reason = "the result does not depend on it")]
    region: Option<String>,
}

/// What is left
#[derive(Debug, Serialize, JsonSchema)]
pub struct Quotient {
    quotient: i64,
}

/// A name
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Name {
    /// Who it is
    name: String,
}

/// The tool `divide`.
///
/// # Errors
///
/// The divisor is 0.
pub fn divide(numbers: Divide) -> Result<Structured<Quotient>, HandlerError> {
    let quotient = numbers.dividend.checked_div(numbers.divisor).ok_or("division by zero")?;
    Ok(Structured(Quotient { quotient }))
}

/// The other properties of the tool `divide`.
pub fn describe(tool: Tool) -> Tool {
    tool.title("Division").description("Divides two numbers.")
}

/// The tool `parse`, whose result is no object.
///
/// # Errors
///
/// It is no number.
pub fn parse(name: Name) -> Result<Structured<i64>, HandlerError> {
    Ok(Structured(name.name.parse()?))
}

/// The tool `greet`, which asks the user.
///
/// # Errors
///
/// The answers of the user are malformed, or missing.
pub fn greet(incoming: &IncomingRequest) -> Result<String, HandlerError> {
    let mut inputs = Inputs::new(incoming)?;
    let Some(first) = inputs.elicit_as::<Name>("first", "Who are you?")? else { return Err(inputs.required()) };
    let Some(second) = inputs.elicit_as::<Name>("second", "And with you?")? else { return Err(inputs.required()) };
    match (first, second) {
        (Elicited::Accepted(first), Elicited::Accepted(second)) => {
            Ok(format!("Hello, {} and {}!", first.name, second.name))
        }
        _ => Ok("Hello!".to_owned()),
    }
}

/// The answer of a client's user to both questions of the tool `greet`.
pub fn answer_of_user(params: Option<&Json>) -> Json {
    let message = params.and_then(|params| params.first_member("message"));
    let is_first = message.is_some_and(|message| message == Json::from("Who are you?"));
    let name = if is_first { "Ada" } else { "Bob" };
    let content = Json::empty_object().with_member("name", &Json::from(name));
    Json::empty_object().with_members(&[("content", &content), ("action", &Json::from("accept"))])
}

/// The prompt `hello`.
///
/// # Errors
///
/// None.
pub fn hello(name: Name) -> Result<String, HandlerError> {
    Ok(format!("Say hello to {}.", name.name))
}

/// A prompt without a schema of its arguments.
pub fn bare_prompt() -> Prompt {
    Prompt::new("bare")
}

/// A resource.
pub fn resource() -> Resource {
    Resource::new("note:///today", "today").mime_type("text/plain")
}

/// A template, which would stand for the URI of the resource too.
pub fn template() -> ResourceTemplate {
    ResourceTemplate::new("note:///{name}", "notes")
}

/// A skill, one of whose files has this text.
pub fn skill(email: &'static str) -> SkillDirectory {
    SkillDirectory::new("acme/refunds", "Refunds an order", "Answer with `templates/email.md`.").file(
        "templates/email.md",
        "text/markdown",
        email,
    )
}

/// The text of a file of the skill.
pub const EMAIL: &str = "Dear customer";
/// The URI of this file.
pub const EMAIL_URI: &str = "skill://acme/refunds/templates/email.md";

/// Reads a note of the template.
///
/// # Errors
///
/// None.
pub fn note(name: Name) -> Result<Vec<u8>, HandlerError> {
    Ok(name.name.into_bytes())
}

/// More completions than a result may have.
///
/// # Errors
///
/// None.
pub fn complete(input: CompletionInput) -> Result<Vec<String>, HandlerError> {
    Ok((0..150).map(|number| format!("{}{number}", input.value)).collect())
}

/// The fallback answers each request with its method.
///
/// # Errors
///
/// None.
pub fn fall_back(method: &Method) -> Result<Json, ErrorObject> {
    Ok(Json::empty_object().with_member("fallback", &Json::from(method.as_str())))
}

/// Requests, and the texts of their answers: the result, or the code and the text of the error.
pub fn cases(version: ProtocolVersion) -> Vec<(&'static str, &'static str, String)> {
    let is_modern = version.rules().any_structured_content;
    let (wide_schema, wide_content) =
        if is_modern { (r#","outputSchema":{"type":"integer"}"#, r#","structuredContent":7"#) } else { ("", "") };
    let name_schema = r#"{"description":"A name","properties":{"name":{"description":"Who it is","type":"string"}},"required":["name"],"type":"object"}"#;
    let divide = concat!(
        r#"{"name":"divide","inputSchema":{"description":"Two numbers","properties":{"dividend":{"type":"integer"},"#,
        r#""divisor":{"description":"Not 0","type":"integer"},"#,
        r#""region":{"description":"Repeated in a header","type":"string","x-mcp-header":"Region"}},"required":["dividend","divisor"],"type":"object"},"#,
        r#""title":"Division","description":"Divides two numbers.","outputSchema":{"description":"What is left","properties":{"quotient":"#,
        r#"{"type":"integer"}},"required":["quotient"],"type":"object"}}"#,
    );
    let completions: Vec<_> = (0..100).map(|number| format!(r#""x{number}""#)).collect();
    let not_found = version.rules().resource_not_found;
    let skill_md = r#"{"uri":"skill://acme/refunds/SKILL.md","name":"refunds","description":"Refunds an order","mimeType":"text/markdown","size":91}"#;
    let skill = concat!(
        r#"{"uri":"skill://acme/refunds/SKILL.md","frontmatter":{"name":"refunds","description":"Refunds an order"},"resources":["#,
        r#"{"uri":"skill://acme/refunds/SKILL.md","digest":"sha256:49a2d4abe66e295a5cbd4651260a3688fb29ef7a3afa7c0f66b5bb1a54a12dfa","size":91},"#,
        r#"{"uri":"skill://acme/refunds/templates/email.md","digest":"sha256:a721d791f600743c55777631d66ef23af6471f6eac51ca0d42b34dbeec7384ed","size":13}]}"#,
    );
    let failed = |text: &str| format!(r#"{{"content":[{{"type":"text","text":"{text}"}}],"isError":true}}"#);
    vec![
        (
            "tools/list",
            "{}",
            format!(
                r#"{{"tools":[{divide},{{"name":"parse","inputSchema":{name_schema},"description":"Parses a number."{wide_schema}}},{{"name":"greet","inputSchema":{{"additionalProperties":false,"type":"object"}},"description":"Greets two users."}}]}}"#
            ),
        ),
        ("tools/list", r#"{"cursor":"x"}"#, "-32602 invalid params: no list has this cursor; request the list again, without one".into()),
        (
            "tools/call",
            r#"{"name":"divide","arguments":{"dividend":10,"divisor":3,"region":"eu"}}"#,
            r#"{"content":[{"type":"text","text":"{\"quotient\":3}"}],"structuredContent":{"quotient":3}}"#.into(),
        ),
        ("tools/call", r#"{"name":"divide","arguments":{"dividend":1,"divisor":0}}"#, failed("division by zero")),
        (
            "tools/call",
            r#"{"name":"divide","arguments":{"dividend":1}}"#,
            failed("invalid arguments: missing field `divisor`"),
        ),
        (
            "tools/call",
            r#"{"name":"parse","arguments":{"name":"7"}}"#,
            format!(r#"{{"content":[{{"type":"text","text":"7"}}]{wide_content}}}"#),
        ),
        ("tools/call", r#"{"name":"parse","arguments":{"name":"x"}}"#, failed("invalid digit found in string")),
        ("tools/call", r#"{"name":"none"}"#, "-32602 invalid params: there is no tool of this name; tools/list returns the names of all".into()),
        ("tools/call", r#"{"name":"divide","arguments":[]}"#, "-32602 invalid params: arguments: expected an object".into()),
        ("tools/call", r#"{"name":"greet"}"#, r#"{"content":[{"type":"text","text":"Hello, Ada and Bob!"}]}"#.into()),
        (
            "prompts/list",
            "{}",
            r#"{"prompts":[{"name":"hello","description":"Says hello.","arguments":[{"name":"name","description":"Who it is","required":true}]},{"name":"bare"}]}"#.into(),
        ),
        (
            "prompts/get",
            r#"{"name":"hello","arguments":{"name":"Ada"}}"#,
            r#"{"messages":[{"role":"user","content":{"type":"text","text":"Say hello to Ada."}}]}"#.into(),
        ),
        ("prompts/get", r#"{"name":"hello"}"#, "-32602 invalid params: invalid arguments: missing field `name`".into()),
        ("prompts/get", r#"{"name":"bare"}"#, "-32603 there is nothing to say".into()),
        ("prompts/get", r#"{"name":"none"}"#, "-32602 invalid params: there is no prompt of this name; prompts/list returns the names of all".into()),
        (
            "resources/list",
            "{}",
            format!(r#"{{"resources":[{{"uri":"note:///today","name":"today","mimeType":"text/plain"}},{skill_md}]}}"#),
        ),
        ("resources/templates/list", "{}", r#"{"resourceTemplates":[{"uriTemplate":"note:///{name}","name":"notes"}]}"#.into()),
        (
            "resources/read",
            r#"{"uri":"note:///today"}"#,
            r#"{"contents":[{"uri":"note:///today","text":"Today","mimeType":"text/plain"}]}"#.into(),
        ),
        ("resources/read", r#"{"uri":"note:///a%20b"}"#, r#"{"contents":[{"uri":"note:///a%20b","blob":"YSBi"}]}"#.into()),
        ("resources/read", r#"{"uri":"note:///a/b"}"#, format!("{not_found} resource not found")),
        ("skills/list", "{}", format!(r#"{{"skills":[{skill}]}}"#)),
        ("skills/list", r#"{"cursor":"x"}"#, "-32602 invalid params: no list has this cursor; request the list again, without one".into()),
        ("skills/get", r#"{"uri":"skill://acme/refunds/SKILL.md"}"#, format!(r#"{{"skill":{skill}}}"#)),
        (
            "skills/get",
            r#"{"uri":"skill://acme/refunds"}"#,
            "-32602 invalid params: no skill has this URI: 'skills/list' returns the URIs of all skills".into(),
        ),
        (
            "resources/read",
            r#"{"uri":"skill://acme/refunds/SKILL.md"}"#,
            r#"{"contents":[{"uri":"skill://acme/refunds/SKILL.md","mimeType":"text/markdown","text":"---\nname: \"refunds\"\ndescription: \"Refunds an order\"\n---\n\nAnswer with `templates/email.md`.\n"}]}"#.into(),
        ),
        (
            "resources/read",
            r#"{"uri":"skill://acme/refunds/templates/email.md"}"#,
            r#"{"contents":[{"uri":"skill://acme/refunds/templates/email.md","mimeType":"text/markdown","text":"Dear customer"}]}"#.into(),
        ),
        ("resources/read", r#"{"uri":"skill://acme/refunds/templates"}"#, format!("{not_found} resource not found")),
        (
            "resources/directory/read",
            r#"{"uri":"skill://acme/refunds"}"#,
            format!(r#"{{"resources":[{skill_md},{{"uri":"skill://acme/refunds/templates","name":"templates","mimeType":"inode/directory"}}]}}"#),
        ),
        (
            "resources/directory/read",
            r#"{"uri":"skill://acme/refunds/SKILL.md"}"#,
            "-32602 invalid params: no directory of a skill has this URI".into(),
        ),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"hello"},"argument":{"name":"name","value":"x"}}"#,
            format!(r#"{{"completion":{{"values":[{}],"total":150,"hasMore":true}}}}"#, completions.join(",")),
        ),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/resource","uri":"note:///{name}"},"argument":{"name":"name","value":""}}"#,
            r#"{"completion":{"values":["today"],"total":1,"hasMore":false}}"#.into(),
        ),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"hello"},"argument":{"name":"other","value":"x"}}"#,
            r#"{"completion":{"values":[]}}"#.into(),
        ),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"none"},"argument":{"name":"name","value":"x"}}"#,
            "-32602 invalid params: unknown prompt or resource template".into(),
        ),
        ("example/other", "{}", r#"{"fallback":"example/other"}"#.into()),
    ]
}

/// Checks an answer, in which the order of members does not matter, and which may have the members of modern results.
pub fn check(request: &str, answer: Result<Json, ErrorObject>, expected: &str) {
    match answer {
        Ok(result) => {
            let result = result.without_members(&["_meta", "cacheScope", "resultType", "ttlMs"]);
            let read = |text: &[u8]| serde_json::from_slice::<Value>(text).expect("JSON");
            assert_eq!(read(result.as_bytes()), read(expected.as_bytes()), "{request}");
        }
        Err(error) => assert_eq!(format!("{} {}", error.code(), error.message()), expected, "{request}"),
    }
}

/// A tool whose schemas state more than types: a text of at most five characters, of which it returns the number.
pub fn measured_tool() -> Tool {
    let schema = |text: &'static str| JsonObject::try_from(Json::parse(text).unwrap()).unwrap();
    Tool::new("measure", schema(r#"{"type":"object","properties":{"text":{"maxLength":5}},"required":["text"]}"#))
        .output_schema(schema(r#"{"type":"object","properties":{"length":{"minimum":1}},"required":["length"]}"#))
}

/// The arguments of [`measured_tool`].
#[derive(Debug, serde::Deserialize)]
pub struct Measured {
    text: String,
}

/// The function of [`measured_tool`], which does not conform to its schema for the empty text.
pub fn measure(measured: &Measured) -> JsonObject {
    JsonObject::new().with("length", measured.text.len())
}

/// The arguments with which [`measured_tool`] is called by a client that does not validate and by one that does, and what
/// the two receive: from a server that validates, and from one that does not.
pub const MEASUREMENTS: [(&str, [&str; 2], [&str; 2]); 3] = [
    ("seven", ["{\"length\":5}"; 2], ["{\"length\":5}"; 2]),
    (
        "eleven",
        [
            "invalid arguments: 'text': value is longer than 5 characters",
            "the arguments do not conform to the tool's inputSchema: 'text': value is longer than 5 characters",
        ],
        [
            "{\"length\":6}",
            "the arguments do not conform to the tool's inputSchema: 'text': value is longer than 5 characters",
        ],
    ),
    (
        "",
        [
            "the server answered with error -32603: the result of the tool does not conform to its outputSchema: 'length': value is \
             less than the minimum of 1",
            "the server answered with error -32603: the result of the tool does not conform to its outputSchema: 'length': value is \
             less than the minimum of 1",
        ],
        [
            "{\"length\":0}",
            "the server's result does not conform to the tool's outputSchema: 'length': value is less than the minimum of 1",
        ],
    ),
];

/// What the application receives.
pub fn shown(outcome: Result<CallToolResult, Error>) -> String {
    outcome.map_or_else(|error| error.to_string(), |result| result.all_text())
}

/// The requests of the specification's table that the hooks of extensions do not see, because a server with all capabilities
/// answers them before its router: those of a client that has opened a session, and those without one.
pub const NOT_HOOKED: [(ProtocolVersion, &[Method]); 2] = [
    (
        ProtocolVersion::V2025_11_25,
        &[
            Method::INITIALIZE,
            Method::PING,
            Method::RESOURCES_SUBSCRIBE,
            Method::RESOURCES_UNSUBSCRIBE,
            Method::LOGGING_SET_LEVEL,
        ],
    ),
    (
        ProtocolVersion::V2026_07_28,
        &[
            // The revision does not have all of these: its requests are refused then.
            Method::INITIALIZE,
            Method::PING,
            Method::SERVER_DISCOVER,
            Method::SUBSCRIPTIONS_LISTEN,
            Method::RESOURCES_SUBSCRIBE,
            Method::RESOURCES_UNSUBSCRIBE,
            Method::LOGGING_SET_LEVEL,
            Method::TASKS_RESULT,
            Method::TASKS_LIST,
        ],
    ),
];

/// Every request of the specification's table, as the lines of a client.
pub fn all_requests(version: ProtocolVersion) -> String {
    let mut meta = String::new();
    let mut lines = Vec::new();
    if version.is_stateless() {
        let version = format!(r#""io.modelcontextprotocol/protocolVersion":"{version}""#);
        meta = format!(r#","_meta":{{{version},"io.modelcontextprotocol/clientCapabilities":{{}}}}"#);
    } else {
        let client = r#""capabilities":{},"clientInfo":{"name":"c","version":"1"}"#;
        let params = format!(r#"{{"protocolVersion":"{version}",{client}}}"#);
        lines.push(format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{params}}}"#));
        lines.push(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned());
    }
    let params = format!(r#"{{"uri":"ui://clock/view","level":"info","notifications":{{}}{meta}}}"#);
    for (method, id) in Method::ALL.iter().filter(|method| method.is_request()).zip(1..) {
        lines.push(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#));
    }
    lines.join("\n") + "\n"
}

/// A server that declares what the requests of the specification need.
pub fn declaring_config() -> Config {
    let capabilities = r#"{"logging":{},"completions":{},"prompts":{},"resources":{"subscribe":true},"tools":{}}"#;
    Config::new("s", "1").capabilities(Json::parse(capabilities).expect("JSON"))
}

/// Asserts that hooks have seen all requests of the specification but these.
pub fn assert_seen(version: ProtocolVersion, seen: &[Method], not_hooked: &[Method]) {
    let requests = Method::ALL.iter().filter(|method| method.is_request());
    let not_seen: Vec<_> = requests.filter(|method| !seen.contains(method)).cloned().collect();
    assert_eq!(not_seen, not_hooked, "{version}");
}

/// The page of an app.
pub const APP_HTML: &str = "<!doctype html><title>Clock</title>";

/// The entry of an app.
pub fn app() -> Resource {
    Resource::app("ui://clock/view", "clock")
}

/// The page of an app with this URI.
pub fn app_at(uri: &str) -> ReadResourceResult {
    ReadResourceResult::new([TextResourceContents::app(uri, APP_HTML, &app_ui()).into()])
}

/// What the app needs.
pub fn app_ui() -> AppUi {
    AppUi::new().csp(AppCsp::new().connect_domains(["https://time.example.com".to_owned()])).prefers_border(true)
}

/// Links a tool to the app.
pub fn linked_to_app(tool: Tool) -> Tool {
    tool.description("Shows the time.").ui(&ToolUi::app("ui://clock/view"))
}

/// The function of that tool.
pub fn show_time(incoming: &IncomingRequest) -> String {
    format!("12:00, shown: {}", incoming.client_capabilities().shows_apps())
}
