//! Protocol extensions: methods, notifications, what is declared, and hooks.

use std::net::TcpListener;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use mcp_blocking::{
    Backend, Change, Client, Error, Extension, Gateway, HandlerError, HttpOptions, Incoming, Proxy, Router, Server,
    Service, TaskContext, pipe,
};
use mcp_intermediary::{gateway, relay};
use mcp_model::{JsonObject, RequestMethod, Tool};
use mcp_proto::client::Call;
use mcp_proto::server::{Config, HttpConfig};
use mcp_proto::{ErrorObject, Json, Method, Notification, ProtocolVersion, SessionKey, client};
use mcp_testkit::waiting::LONG;
use tests::routed::{NOT_HOOKED, all_requests, assert_seen, declaring_config};
use tests::{hooked_tasks, routed_tasks};

const ID: &str = "com.example/search";
const QUERY: &str = "com.example/search/query";
const ERAS: [ProtocolVersion; 2] = [ProtocolVersion::LATEST_LEGACY, ProtocolVersion::LATEST];

#[derive(serde::Deserialize)]
struct Query {
    words: String,
}

#[derive(serde::Serialize)]
struct Hits {
    hits: Vec<String>,
}

/// The method for typed calls.
struct Find;

impl RequestMethod for Find {
    const METHOD: Method = Method::from_static(QUERY);
    type Params = JsonObject;
    type Result = JsonObject;
}

fn search() -> Extension {
    Extension::new(ID).setting("languages", "en").method(QUERY, |query: Query, _: &Incoming| {
        match query.words.as_str() {
            "" => Err(HandlerError::from(ErrorObject::new(7, "no words"))),
            "fail" => Err("the index is gone".into()),
            words => Ok(Hits { hits: vec![words.to_owned()] }),
        }
    })
}

fn server(extension: Extension) -> Server {
    let hello = |_: JsonObject, _: &Incoming| Ok("hello");
    let tool = Tool::new("hello", JsonObject::new().with("type", "object"));
    Server::new(Config::new("s", "1"), Router::new().tool_with_schema(&tool, hello).extension(extension))
}

fn connect(server: &Server, version: ProtocolVersion, has_extension: bool) -> Client {
    let builder = Client::builder().versions([version]);
    let settings = JsonObject::new().with("pages", 3);
    let builder = if has_extension { builder.extension(ID, settings) } else { builder };
    builder.in_memory(server).connect().unwrap()
}

fn query(client: &Client, params: Option<&str>) -> Result<String, (i64, String)> {
    let params = params.map(|params| Json::parse(params.to_owned()).unwrap());
    match client.request(QUERY, params) {
        Ok(result) => Ok(result.first_member("hits").unwrap().to_string()),
        Err(Error::Server(error)) => Err((error.code(), error.message())),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_method_is_typed_and_served_with_and_without_the_client_s_declaration() {
    for version in ERAS {
        for has_extension in [true, false] {
            let client = connect(&server(search()), version, has_extension);
            assert_eq!(client.server_extension(ID).unwrap().to_string(), r#"{"languages":"en"}"#);
            assert_eq!(client.server_extension("com.example/other"), None);
            assert_eq!(query(&client, Some(r#"{"words":"ä","other":1}"#)), Ok(r#"["ä"]"#.to_owned()));
            let found = client.request_as::<Find>(&JsonObject::new().with("words", "b")).unwrap();
            assert_eq!(found.as_json().first_member("hits").unwrap().to_string(), r#"["b"]"#);
            assert_eq!(query(&client, Some(r#"{"words":""}"#)), Err((7, "no words".to_owned())));
            assert_eq!(query(&client, Some(r#"{"words":"fail"}"#)), Err((-32603, "the index is gone".to_owned())));
            let (code, text) = query(&client, Some(r#"{"words":7}"#)).unwrap_err();
            assert!(code == -32602 && text.contains("invalid params") && text.contains("words"), "{text}");
            assert_eq!(query(&client, None).unwrap_err().0, -32602);
            assert_eq!(client.call_tool("hello", ()).unwrap().all_text(), "hello");
        }
    }
}

#[test]
fn a_method_that_needs_the_client_s_declaration_names_it_to_others() {
    for version in ERAS {
        let server = server(search().needs_client());
        assert!(query(&connect(&server, version, true), Some(r#"{"words":"a"}"#)).is_ok());
        let client = connect(&server, version, false);
        let Err(Error::Server(error)) = client.request(QUERY, None) else { panic!("an answer") };
        let data = error.data().map(|data| data.to_string()).unwrap_or_default();
        assert!(data.contains(ID), "{version}: {error:?}");
        assert_eq!(client.call_tool("hello", ()).unwrap().all_text(), "hello");
    }
}

#[test]
fn hooks_see_every_request_of_the_router_and_the_outcome_in_the_opposite_order() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let hooked = |name: &'static str| {
        let log = Arc::clone(&log);
        Extension::new(&format!("com.example/{name}")).around(move |request| {
            let method = request.method().to_string();
            let pages = request.client_extension(ID).map(|settings| settings.to_string()).unwrap_or_default();
            log.lock().unwrap().push(format!("{name} before {method} {pages}"));
            if method == "com.example/refused" && name == "inner" {
                return Err(ErrorObject::new(8, "refused"));
            }
            let log = Arc::clone(&log);
            Ok(move |outcome: Result<Json, ErrorObject>| {
                let code = outcome.as_ref().err().map(ErrorObject::code);
                log.lock().unwrap().push(format!("{name} after {method} {code:?}"));
                outcome.map(|result| result.with_member(name, &Json::from(true)))
            })
        })
    };
    let router = Router::new().extension(hooked("outer")).extension(hooked("inner")).extension(search());
    let client = connect(&Server::new(Config::new("s", "1"), router), ProtocolVersion::LATEST, true);
    let take = || std::mem::take(&mut *log.lock().unwrap());
    take();
    let params = Json::empty_object().with_member("words", &Json::from("a"));
    let result = client.request(QUERY, Some(params)).unwrap();
    assert!(result.first_member("inner").is_some() && result.first_member("outer").is_some());
    let pages = r#"{"pages":3}"#;
    assert_eq!(
        take(),
        [
            format!("outer before {QUERY} {pages}"),
            format!("inner before {QUERY} {pages}"),
            format!("inner after {QUERY} None"),
            format!("outer after {QUERY} None"),
        ]
    );
    let Err(Error::Server(error)) = client.request("com.example/refused", None) else { panic!("an answer") };
    assert_eq!(error.code(), 8);
    assert_eq!(
        take(),
        [
            format!("outer before com.example/refused {pages}"),
            format!("inner before com.example/refused {pages}"),
            "outer after com.example/refused Some(8)".to_owned(),
        ]
    );
    let Err(Error::Server(error)) = client.request("com.example/unknown", None) else { panic!("an answer") };
    assert_eq!((error.code(), take().len()), (-32601, 4));
}

#[test]
fn hooks_receive_an_internal_error_after_a_panic_and_make_the_answer() {
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&outcomes);
    let extension = search().around(move |_| {
        let log = Arc::clone(&log);
        Ok(move |outcome: Result<Json, ErrorObject>| {
            log.lock().unwrap().push(outcome.as_ref().err().map(ErrorObject::code));
            outcome.map_err(|error| ErrorObject::new(error.code(), "noted"))
        })
    });
    let tool = Tool::new("panics", JsonObject::new().with("type", "object"));
    let router = Router::new().extension(extension).tool_with_schema(&tool, |_: JsonObject, incoming: &Incoming| {
        assert!(incoming.params().is_none(), "a defect of the function");
        Ok("")
    });
    let server = Server::new(Config::new("s", "1"), router);
    for version in ERAS {
        let client = connect(&server, version, true);
        let Err(Error::Server(error)) = client.call_tool("panics", ()) else { panic!("an answer") };
        assert_eq!((error.code(), error.message()), (-32603, "noted".to_owned()));
        assert_eq!(std::mem::take(&mut *outcomes.lock().unwrap()), [Some(-32603)], "{version}");
    }
}

#[test]
fn hooks_of_a_client_see_each_call_and_its_outcome_in_the_opposite_order() {
    for version in ERAS {
        let log = Arc::new(Mutex::new(Vec::new()));
        let hooked = |name: &'static str| {
            let log = Arc::clone(&log);
            move |call: Call| {
                log.lock().unwrap().push(format!("{name} before {}", call.method()));
                if call.method().as_str() == "com.example/refused" && name == "inner" {
                    return Err(Error::SetUp("the client refuses this".into()));
                }
                let params = call.parameters().cloned().unwrap_or(Json::empty_object());
                let call = call.params(params.with_member("words", &Json::from(name)));
                let log = Arc::clone(&log);
                Ok((call, move |outcome: Result<Json, Error>| {
                    log.lock().unwrap().push(format!("{name} after {}", outcome.is_ok()));
                    outcome.map(|result| result.with_member(name, &Json::from(true)))
                }))
            }
        };
        let builder = Client::builder().versions([version]).around_calls(hooked("outer")).around_calls(hooked("inner"));
        let client = builder.in_memory(&server(search())).connect().unwrap();
        let take = || std::mem::take(&mut *log.lock().unwrap());
        take();
        let both = [
            format!("outer before {QUERY}"),
            format!("inner before {QUERY}"),
            "inner after true".to_owned(),
            "outer after true".to_owned(),
        ];
        let result = client.request(QUERY, None).unwrap();
        assert_eq!(result.first_member("hits").unwrap().to_string(), r#"["inner"]"#);
        assert!(result.first_member("inner").is_some() && result.first_member("outer").is_some());
        assert_eq!(take(), both, "{version}");
        client.request_as::<Find>(&JsonObject::new()).unwrap();
        assert_eq!(take(), both, "{version}");
        let found = client.call_as::<Find>(&JsonObject::new()).unwrap().wait().unwrap();
        assert!(found.as_json().first_member("outer").is_some());
        assert_eq!(take(), both, "{version}");
        let error = client.request("com.example/refused", None).unwrap_err();
        assert_eq!(error.to_string(), "the client refuses this");
        assert_eq!(take(), ["outer before com.example/refused", "inner before com.example/refused"]);
        client.request("com.example/unknown", None).unwrap_err();
        assert_eq!(take()[2..], ["inner after false", "outer after false"]);
        // Only the machine sends it.
        let reserved = client.request("initialize", None);
        assert!(matches!(reserved, Err(Error::Usage(_))), "{reserved:?}");
        assert_eq!(take(), ["outer before initialize", "inner before initialize"], "{version}");
        let reserved = client.call(Call::new("initialize"));
        assert!(matches!(reserved, Err(Error::Usage(_))), "{reserved:?}");
        assert_eq!(take(), ["outer before initialize", "inner before initialize"], "{version}");
    }
}

#[test]
fn notifications_of_an_extension_that_needs_the_client_s_declaration_are_ignored_from_others() {
    for (needs_client, expected) in [(true, &["declared"][..]), (false, &["declared", "undeclared"])] {
        let (sender, received) = channel();
        let sender = Mutex::new(sender);
        let extension = search().notification("com.example/search/seen", move |_, query: Query| {
            sender.lock().unwrap().send(query.words).unwrap();
        });
        let server = server(if needs_client { extension.needs_client() } else { extension });
        for has_extension in [false, true] {
            let client = connect(&server, ProtocolVersion::LATEST_LEGACY, has_extension);
            let words = if has_extension { "declared" } else { "undeclared" };
            let params = Json::empty_object().with_member("words", &Json::from(words));
            client.notify(Notification::with_params("com.example/search/seen", params)).unwrap();
            // The server has received the notification before it answers this.
            assert_eq!(client.call_tool("hello", ()).unwrap().all_text(), "hello");
        }
        let mut seen = Vec::new();
        while seen.len() < expected.len() {
            seen.push(received.recv_timeout(LONG).unwrap());
        }
        // The order in which notifications are handled is not guaranteed.
        seen.sort();
        assert_eq!(seen, expected);
    }
}

#[test]
fn notifications_of_an_extension_reach_its_function() {
    let (sender, received) = channel();
    let sender = Mutex::new(sender);
    let extension = search().notification("com.example/search/seen", move |_, query: Query| {
        sender.lock().unwrap().send(query.words).unwrap();
    });
    let client = connect(&server(extension), ProtocolVersion::LATEST_LEGACY, true);
    for words in [Json::from(7), Json::from("a")] {
        let params = Json::empty_object().with_member("words", &words);
        client.notify(Notification::with_params("com.example/search/seen", params)).unwrap();
    }
    assert_eq!(received.recv_timeout(LONG).unwrap(), "a");
}

#[test]
fn hooks_see_all_requests_of_the_specification_but_those_that_the_server_answers_before_its_router() {
    for (version, not_hooked) in NOT_HOOKED {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let extension = Extension::new("com.example/audit").before(move |request| {
            log.lock().unwrap().push(request.method().clone());
            Ok(())
        });
        let server = Server::new(declaring_config(), Router::new().extension(extension));
        server.replay(all_requests(version)).unwrap();
        assert_seen(version, &seen.lock().unwrap(), not_hooked);
    }
}

/// A server over HTTP with the extension, whose hook and function send what they see.
fn observed_server() -> (String, Receiver<String>) {
    let (sender, seen) = channel();
    let sender = Mutex::new(sender);
    let of_notification = Mutex::new(sender.lock().unwrap().clone());
    let extension = search()
        .before(move |request| {
            let settings = request.client_extension(ID).map(|settings| settings.to_string());
            sender.lock().unwrap().send(format!("{} {settings:?}", request.method())).unwrap();
            Ok(())
        })
        .notification("com.example/search/seen", move |_, query: Query| {
            of_notification.lock().unwrap().send(format!("seen {}", query.words)).unwrap();
        });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let service =
        Server::new(Config::new("s", "1"), Router::new().extension(extension)).http(HttpConfig::new()).unwrap();
    thread::spawn(move || service.serve(listener));
    (url, seen)
}

/// What the client and the server of an extension see of each other.
fn check_what_travels(client: &Client, seen: &Receiver<String>, version: ProtocolVersion) {
    assert_eq!(client.version(), version);
    assert_eq!(client.server_extension(ID).unwrap().to_string(), r#"{"languages":"en"}"#);
    assert_eq!(query(client, Some(r#"{"words":"ä\u0000"}"#)), Ok(r#"["ä\u0000"]"#.to_owned()));
    let next = || seen.recv_timeout(LONG).unwrap();
    assert_eq!(next(), format!("{QUERY} {:?}", Some(r#"{"pages":3}"#)));
    assert_eq!(query(client, Some(r#"{"words":""}"#)), Err((7, "no words".to_owned())));
    next();
    // Clients of revisions without sessions send no notifications.
    if !version.is_stateless() {
        let params = Json::empty_object().with_member("words", &Json::from("a"));
        client.notify(Notification::with_params("com.example/search/seen", params)).unwrap();
        assert_eq!(next(), "seen a");
    }
}

#[test]
fn an_extension_travels_through_a_proxy() {
    for version in ERAS {
        let (url, seen) = observed_server();
        let proxy = Proxy::http(client::HttpConfig::new(&url).unwrap(), HttpOptions::new(), relay::Config::default());
        let ((from_client, to_proxy), (from_proxy, to_client)) = (pipe(), pipe());
        let proxy = proxy.unwrap();
        let running = thread::spawn(move || proxy.run(from_client, to_client, ()));
        let settings = JsonObject::new().with("pages", 3);
        let builder = Client::builder().versions([version]).extension(ID, settings).stream(from_proxy, to_proxy);
        let client = builder.connect().unwrap();
        check_what_travels(&client, &seen, version);
        drop(client);
        running.join().unwrap().unwrap();
    }
}

#[test]
fn an_extension_travels_through_a_gateway() {
    for version in ERAS {
        let (url, seen) = observed_server();
        let backend = Backend::proxy(move |_| {
            Ok(Proxy::http(client::HttpConfig::new(&url)?, HttpOptions::new(), relay::Config::default())?)
        });
        let gateway = Gateway::new().server(gateway::Config::default(), backend).unwrap();
        let (stopper, listener) = (gateway.stopper(), TcpListener::bind("127.0.0.1:0").unwrap());
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let running = thread::spawn(move || gateway.serve(listener));
        let settings = JsonObject::new().with("pages", 3);
        let builder = Client::builder().versions([version]).extension(ID, settings).http(&url).unwrap();
        let client = builder.connect().unwrap();
        check_what_travels(&client, &seen, version);
        drop(client);
        stopper.stop();
        running.join().unwrap().unwrap();
    }
}

/// A router with the tool `secret`, whose outcome is one, once it is released.
fn with_secret(released: &Arc<Mutex<Receiver<()>>>) -> Router {
    let released = Arc::clone(released);
    let secret = move |arguments: JsonObject, task: &mut TaskContext<'_>| {
        released.lock().unwrap().recv_timeout(LONG).unwrap();
        task.set_message("secret");
        hooked_tasks::outcome(&arguments)
    };
    Router::new().task_tool_with_schema(&routed_tasks::tool("secret"), secret)
}

/// What a client that has subscribed to a task of the tool `secret` receives besides answers: the task and the notifications about
/// it, and the answer to `tasks/get` at the end.
fn received_about_a_task(router: Router, release: &SyncSender<()>, arguments: &str) -> (String, Result<Json, Error>) {
    let server = Server::new(hooked_tasks::config(), router);
    let capabilities = Json::parse(routed_tasks::CAPABILITIES).unwrap();
    let builder = Client::builder().versions([ProtocolVersion::LATEST]).capabilities(capabilities);
    let client = builder.in_memory(&server).connect().unwrap();
    let call = Json::parse(format!(r#"{{"name":"secret","arguments":{arguments}}}"#)).unwrap();
    let created = client.request("tools/call", Some(call)).unwrap();
    let (task, filter) = hooked_tasks::task_and_filter(&created);
    let mut changes = client.listen(filter).unwrap();
    let Some(Change::Listening(honoured)) = changes.next() else { panic!("an acknowledgement") };
    let mut received = vec![format!("{} {}", created.to_text(), honoured.to_text())];
    release.send(()).unwrap();
    let mut attempts = 0;
    let answer = loop {
        let answer = client.request("tasks/get", Some(task.clone()));
        attempts += 1;
        if hooked_tasks::has_ended(&answer) || attempts == 100 {
            break answer;
        }
        thread::sleep(Duration::from_millis(2));
    };
    // What is published of a task arrives before it, unless the thread that publishes waits for more than this.
    thread::sleep(Duration::from_millis(50));
    server.publisher().publish(Notification::new(Method::TOOLS_LIST_CHANGED)).unwrap();
    loop {
        let change = changes.next();
        let Some(Change::Notified(change)) = change else { panic!("{change:?}") };
        if change.method == Method::TOOLS_LIST_CHANGED {
            return (received.join("\n"), answer);
        }
        received.push(format!("{} {}", change.method, change.params.unwrap().to_text()));
    }
}

#[test]
fn what_hooks_have_not_seen_of_a_task_reaches_no_client() {
    tests::deadline::set();
    let redacting = || Extension::new("com.example/redacting").around(|_| Ok(hooked_tasks::redacted));
    let refusing = || Extension::new("com.example/refusing").before(hooked_tasks::refuse_results);
    for arguments in hooked_tasks::ARGUMENTS {
        let (release, released) = sync_channel(1);
        let released = Arc::new(Mutex::new(released));
        let secret = || with_secret(&released);
        // Without hooks, a subscription has the outcome.
        let (received, answer) = received_about_a_task(secret(), &release, arguments);
        hooked_tasks::check_published(&received, &answer);
        for router in [
            secret().extension(redacting()),
            Router::new().extension(redacting()).fallback(secret()),
            Router::new().fallback(secret().extension(redacting())),
        ] {
            let (received, answer) = received_about_a_task(router, &release, arguments);
            hooked_tasks::check_hidden(&received);
            hooked_tasks::check_redacted(&answer);
        }
        for router in [secret().extension(refusing()), Router::new().extension(refusing()).fallback(secret())] {
            let (received, answer) = received_about_a_task(router, &release, arguments);
            hooked_tasks::check_hidden(&received);
            assert!(matches!(answer, Err(Error::Server(error)) if error.code() == hooked_tasks::REFUSED));
        }
    }
}

/// A service that panics when it is asked whether it takes `notifications/panic`.
struct PanicsInTakes(SyncSender<Method>);

impl Service for PanicsInTakes {
    fn serve(&self, _: &Incoming) -> Result<Json, ErrorObject> {
        Ok(Json::empty_object())
    }

    fn takes(&self, notification: &Notification, _: &Json) -> bool {
        assert_ne!(notification.method.as_str(), "notifications/panic", "a defect of the application");
        true
    }

    fn notified(&self, _: SessionKey, notification: Notification) {
        self.0.send(notification.method).unwrap();
    }
}

/// A client that sends `notifications/panic` is served on, and the notification is not taken.
fn check_after_a_panic_in_takes(client: &Client, taken: &Receiver<Method>) {
    // Over HTTP, notifications can be sent once the server has accepted `notifications/initialized`.
    client.request("com.example/any", None).unwrap();
    for method in ["notifications/panic", "notifications/own"] {
        client.notify(Notification::new(method)).unwrap();
        client.request("com.example/any", None).unwrap();
    }
    loop {
        match taken.recv_timeout(LONG).unwrap().as_str() {
            "notifications/own" => break,
            method => assert_eq!(method, "notifications/initialized"),
        }
    }
}

#[test]
fn a_server_goes_on_after_a_panic_in_takes() {
    tests::deadline::set();
    let (sender, taken) = sync_channel(64);
    for server in [
        Server::new(Config::new("s", "1"), PanicsInTakes(sender.clone())),
        Server::new(Config::new("s", "1"), Router::new().fallback(PanicsInTakes(sender))),
    ] {
        check_after_a_panic_in_takes(&connect(&server, ProtocolVersion::LATEST_LEGACY, false), &taken);
    }
}

#[test]
fn a_server_over_http_goes_on_after_a_panic_in_takes() {
    tests::deadline::set();
    let (sender, taken) = sync_channel(64);
    let service = Server::new(Config::new("s", "1"), PanicsInTakes(sender)).http(HttpConfig::new()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    thread::spawn(move || service.serve(listener));
    for _ in 0..2 {
        let builder = Client::builder().versions([ProtocolVersion::LATEST_LEGACY]).http(&url).unwrap();
        check_after_a_panic_in_takes(&builder.connect().unwrap(), &taken);
    }
}

#[test]
fn mistakes_are_stated_when_the_server_is_created() {
    let method = |name: &str| Extension::new(ID).method(name, |_: JsonObject, _: &Incoming| Ok(JsonObject::new()));
    let twice = method(QUERY).method(QUERY, |_: JsonObject, _: &Incoming| Ok(JsonObject::new()));
    let other = Extension::new("com.example/other").method(QUERY, |_: JsonObject, _: &Incoming| Ok(JsonObject::new()));
    for (router, text) in [
        (Router::new().extension(Extension::new("search")), "the extension 'search' cannot be declared"),
        (Router::new().extension(Extension::new("/search")), "the extension '/search' cannot be declared"),
        (Router::new().extension(method("tools/call")), "the method 'tools/call' is one of the specification"),
        (Router::new().extension(twice), "two methods of extensions have the name"),
        (Router::new().extension(search()).extension(other), "two methods of extensions have the name"),
        (Router::new().extension(search()).extension(Extension::new(ID)), "two extensions have the name"),
    ] {
        let error = Server::new(Config::new("s", "1"), router).replay("").unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}
