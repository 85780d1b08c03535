//! Servers that consist of functions.
#![cfg(feature = "schema")]

use std::net::TcpListener;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use mcp_blocking::{Client, Error, Handler, Incoming, Router, Server, SharedRouter};
use mcp_proto::model::{JsonObject, ListToolsRequest, PaginatedRequestParams, Tool};
use mcp_proto::router::{HandlerError, NoArguments};
use mcp_proto::server::{Config, HttpConfig};
use mcp_proto::skills::SkillMismatch;
use mcp_proto::{ErrorObject, Json, Method, Notification, ProtocolVersion, UsageError};
use tests::routed;

struct User(Sender<Method>);

impl Handler for User {
    fn notified(&self, notification: Notification) {
        let _ = self.0.send(notification.method);
    }

    fn requested(&self, _: Method, params: Option<Json>) -> Result<Json, ErrorObject> {
        Ok(routed::answer_of_user(params.as_ref()))
    }
}

fn router() -> Router {
    Router::new()
        .tool_with("divide", routed::describe, |numbers, _| routed::divide(numbers))
        .tool("parse", "Parses a number.", |name, _| routed::parse(name))
        .tool("greet", "Greets two users.", |_: NoArguments, incoming: &Incoming| routed::greet(incoming))
        .prompt("hello", "Says hello.", |name, _| routed::hello(name))
        .prompt_with_arguments(&routed::bare_prompt(), |_: JsonObject, _| {
            Err::<&str, _>(HandlerError::new("there is nothing to say"))
        })
        .resource(&routed::resource(), |_| Ok("Today"))
        .resource_template(&routed::template(), |name, _| routed::note(name))
        .skill(&routed::skill(routed::EMAIL))
        .complete_prompt("hello", "name", |input, _| routed::complete(input))
        .complete_template("note:///{name}", "name", |_, _| Ok(vec!["today"]))
        .fallback(|incoming: &Incoming| routed::fall_back(incoming.method()))
}

/// A server over HTTP, which the test leaves running, and a client of it.
fn connect(server: &Server, version: ProtocolVersion) -> (Client, Receiver<Method>) {
    let service = server.http(HttpConfig::new()).expect("a configuration");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    thread::spawn(move || service.serve(listener));
    let (notified, notifications) = channel();
    let capabilities = Json::parse(r#"{"elicitation":{}}"#).expect("JSON");
    let builder = Client::builder().versions([version]).capabilities(capabilities).handler(User(notified));
    (builder.http(&url).expect("a URL").connect().expect("a connection"), notifications)
}

#[test]
fn clients_of_every_revision_receive_the_answers_of_the_functions() {
    for &version in ProtocolVersion::ALL {
        let (client, _notifications) = connect(&Server::new(Config::new("tests", "1"), router()), version);
        for (method, params, expected) in routed::cases(version) {
            // Older revisions have neither forms nor completions of other arguments.
            if params.contains("greet") && !version.rules().elicitation {
                continue;
            }
            let answer = match client.request(method, Some(Json::parse(params).unwrap())) {
                Ok(result) => Ok(result),
                Err(Error::Server(error)) => Err(error),
                Err(error) => panic!("{version} {method} {params}: {error}"),
            };
            routed::check(&format!("{version} {method} {params}"), answer, &expected);
        }
    }
}

#[test]
fn clients_are_notified_of_tools_that_are_added_and_removed() {
    let shared = SharedRouter::new(router());
    let (client, notifications) =
        connect(&Server::new(Config::new("tests", "1"), shared.clone()), ProtocolVersion::LATEST_LEGACY);
    let late = Tool::without_arguments("late");
    let add = |router: Router| router.tool_with_schema(&late, |_: JsonObject, _| Ok("late"));
    shared.change(|router| add(router).without_tool("parse")).unwrap();
    assert_eq!(notifications.recv().unwrap(), Method::TOOLS_LIST_CHANGED);
    let list = client.request_as::<ListToolsRequest>(&PaginatedRequestParams::new()).unwrap();
    let names: Vec<_> = list.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["divide", "greet", "late"]);

    // A mistake changes nothing, and no list has changed if only a function has.
    let mistake = shared.change(|router| add(router).without_tool("greet")).unwrap_err();
    assert!(matches!(mistake, UsageError::DuplicateRoute { .. }), "{mistake}");
    shared.change(|router| add(router.without_tool("late"))).unwrap();
    shared.change(|router| router.without_prompt("bare")).unwrap();
    assert_eq!(notifications.recv().unwrap(), Method::PROMPTS_LIST_CHANGED);
    // The last prompt leaves an empty list.
    shared.change(|router| router.without_prompt("hello")).unwrap();
    let list = client.request("prompts/list", None).unwrap();
    routed::check("prompts/list", Ok(list), r#"{"prompts":[]}"#);
    client.close();
}

#[test]
fn a_client_uses_only_files_that_the_entry_of_their_skill_describes() {
    let shared = SharedRouter::new(router());
    let (client, notifications) =
        connect(&Server::new(Config::new("tests", "1"), shared.clone()), ProtocolVersion::LATEST_LEGACY);
    let skills = client.list_all_skills().collect::<Result<Vec<_>, _>>().unwrap();
    let [skill] = skills.as_slice() else { panic!("{skills:?}") };
    assert_eq!(client.read_skill_file(skill, routed::EMAIL_URI).unwrap(), routed::EMAIL.as_bytes());
    let directory = client.read_directory("skill://acme/refunds/templates", None).unwrap();
    assert_eq!(directory.resources.iter().map(|file| file.uri.as_str()).collect::<Vec<_>>(), [routed::EMAIL_URI]);

    // The new text is as long as the old one, so that the list of resources does not differ.
    let changed = "Dear visitors";
    shared.change(|router| router.without_skill(&skill.uri).skill(&routed::skill(changed))).unwrap();
    assert_eq!(notifications.recv().unwrap(), Method::RESOURCES_LIST_CHANGED);
    let refused = client.read_skill_file(skill, routed::EMAIL_URI).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the file cannot be used: the file has another digest than the entry of the skill states; if the skill has changed, \
         request its entry again"
    );
    let skill = client.get_skill(&skill.uri).unwrap();
    assert_eq!(client.read_skill_file(&skill, routed::EMAIL_URI).unwrap(), changed.as_bytes());
    let unlisted = client.read_skill_file(&skill, "skill://acme/refunds/other.md").unwrap_err();
    assert!(matches!(unlisted, Error::Skill(SkillMismatch::NotListed)), "{unlisted}");
    client.close();
}

#[test]
fn mistakes_of_a_router_are_reported_when_its_server_is_started() {
    let text = |_: String, _: &Incoming| Ok("");
    let server = Server::new(Config::new("tests", "1"), Router::new().tool("echo", "Repeats a text.", text));
    let error = server.serve_stream(std::io::empty(), std::io::sink()).unwrap_err();
    assert_eq!(error.to_string(), "the arguments of the tool 'echo' must be an object: use a struct with named fields");
}
