//! The `Debug` output of all public types, each with a marked secret wherever the type can hold one.

#![cfg(all(feature = "http-client", feature = "http-server", feature = "redis"))]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::Path;
use std::sync::{Arc, Mutex};

use mcp_auth::ClientIdentity;
use mcp_model::{JsonObject, ListToolsRequest, PaginatedRequestParams, ServerCapabilities, ToolsCapability};
use mcp_proto::auth::Challenge;
use mcp_proto::client::Call;
use mcp_proto::server::{Config, HttpConfig, Principal};
use mcp_proto::store::{StoreAction, StoreKey, StoreResult};
use mcp_proto::{ErrorObject, InstanceId, Json, Notification, ProtocolVersion};
use mcp_testkit::http_client::legacy_versions;
use mcp_testkit::loopback_server::{LoopbackServer, mcp_server, modern_server};
use mcp_testkit::messages::{INITIALIZED, initialize, request, result};
use mcp_tokio::sign_in::{Authorization, PrivateKey};
use mcp_tokio::store::{InMemory, Messages, Redis, Store};
use mcp_tokio::{
    Backend, Builder, Change, Client, Error, Extension, Gateway, HttpOptions, HttpSettings, Incoming, Listener,
    LocalFunctionEnded, Proxy, Router, Server, SharedRouter, StateKeys, reqwest,
};
use tokio::net::TcpListener;
use tower_service::Service as _;

/// A client for servers that begin with `initialize`.
fn legacy_client() -> Builder {
    Client::builder().versions(legacy_versions())
}

/// The text that must not be printed, neither as text nor as a list of numbers.
const SECRET: &str = "marked-secret";

/// The types and their `Debug` output.
#[derive(Default)]
struct Forms(BTreeMap<&'static str, String>);

impl Forms {
    fn add(&mut self, name: &'static str, value: &impl Debug) {
        let form = format!("{value:?} {value:#?}");
        let numbers = format!("{:?}", SECRET.as_bytes());
        let numbers = numbers.trim_matches(['[', ']']).replace(' ', "");
        let squeezed: String = form.split_whitespace().collect();
        for hidden in [SECRET, &numbers] {
            assert!(!squeezed.contains(hidden), "the Debug form of {name}: {form}");
        }
        self.0.entry(name).or_default().push_str(&form);
    }
}

fn secret() -> Json {
    Json::parse(format!(r#"{{"x":"{SECRET}"}}"#)).unwrap()
}

/// All types of a client.
async fn client_forms(forms: &mut Forms) {
    let server = LoopbackServer::start(mcp_server(|asked, connection| {
        if asked.method == "wait" {
            return connection.hang();
        }
        connection.json(result(&asked.id, &format!("\"{SECRET}\"")))
    }));
    let url = format!("{}?key={SECRET}", server.url());
    let builder = legacy_client().name("n", SECRET).capabilities(secret());
    forms.add("Builder", &builder);
    let own = reqwest::Client::builder()
        .user_agent(SECRET)
        .proxy(reqwest::Proxy::all(format!("http://user:{SECRET}@127.0.0.1:1")).unwrap().basic_auth("user", SECRET))
        .default_headers([(http::header::COOKIE, SECRET.parse().unwrap())].into_iter().collect());
    let builder = builder.http(&url).unwrap().bearer(SECRET).unwrap().header("X-Key", SECRET).unwrap();
    let direct = reqwest::Client::builder().no_proxy();
    let client = builder.http_options(HttpOptions::new().client(direct)).connect().await.unwrap();
    let builder =
        legacy_client().http(&url).unwrap().bearer(SECRET).unwrap().http_options(HttpOptions::new().client(own));
    forms.add("Builder", &builder);
    forms.add("Client", &client);
    let call = client.call(Call::new("wait").params(secret())).await.unwrap();
    forms.add("InFlight", &call);
    drop(call);
    forms.add("ListItems", &client.list_all_tools());
    let error = client.request_as::<ListToolsRequest>(&PaginatedRequestParams::new()).await.unwrap_err();
    forms.add("Error", &error);
    forms.add("Error", &Error::Server(ErrorObject::with_data(-1, "m", &secret())));
    client.close().await;

    let modern = modern_server();
    let url = format!("{}?key={SECRET}", modern.url());
    let client =
        Client::builder().versions(ProtocolVersion::ALL.iter().copied()).http(&url).unwrap().connect().await.unwrap();
    let filter = format!(r#"{{"toolsListChanged":true,"resourceSubscriptions":["{SECRET}"]}}"#);
    let mut subscription = client.listen(Json::parse(filter).unwrap()).await.unwrap();
    forms.add("Subscription", &subscription);
    while let Some(change) = subscription.next().await {
        forms.add("Change", &change);
    }
    forms.add("Change", &Change::Listening(secret()));
    forms.add("Change", &Change::Notified(Notification { method: "x".into(), params: Some(secret()) }));
}

/// All types of a server.
async fn server_forms(forms: &mut Forms) {
    let seen = Arc::new(Mutex::new(Vec::<Incoming>::new()));
    let keep = Arc::clone(&seen);
    let serve = move |incoming: Incoming| {
        keep.lock().unwrap().push(incoming);
        async { Ok::<_, ErrorObject>(Json::from(SECRET)) }
    };
    let capabilities = ServerCapabilities::new().tools(ToolsCapability::new());
    let server = Server::new(Config::new("n", SECRET).capabilities(capabilities), serve);
    forms.add("Server", &server);
    forms.add("InMemoryServer", &Client::builder().in_memory(&server));
    forms.add("StateKeys", &StateKeys::new(*b"marked-secretmarked-secret012345"));
    let mut service = server
        .http(HttpConfig::new())
        .unwrap()
        .authenticate(|_| async { Ok::<_, Challenge>(Principal::new(SECRET).with_scopes(SECRET)) });
    forms.add("HttpService", &service);
    gateway_forms(forms).await;
    forms.add("ServerPublisher", &service.publisher());

    let mut session = None;
    for body in [initialize("1", "2025-11-25"), INITIALIZED.to_owned(), request("2", "tools/call", &secret().to_text())]
    {
        let mut request = http::Request::post(format!("http://127.0.0.1/mcp?key={SECRET}"))
            .header("host", "127.0.0.1")
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {SECRET}"))
            .header("cookie", SECRET)
            .header("x-api-key", SECRET);
        if let Some(session) = &session {
            request = request.header("mcp-session-id", session);
        }
        let request = request.body(axum::body::Body::from(body)).unwrap();
        let answer = service.call(request).await.unwrap();
        session = answer.headers().get("mcp-session-id").cloned().or(session);
        forms.add("HttpBody", answer.body());
    }
    let session = session.unwrap();
    let seen = seen.lock().unwrap();
    let [incoming] = &seen[..] else { panic!("{seen:?}") };
    let form = format!("{incoming:?}");
    assert!(!form.contains(session.to_str().unwrap()), "a session id in {form}");
    forms.add("Incoming", incoming);
}

/// A gateway, and what can be behind it.
async fn gateway_forms(forms: &mut Forms) {
    let command = || {
        let mut command = tokio::process::Command::new("server");
        command.arg(SECRET).env("KEY", SECRET);
        command
    };
    let http = mcp_proto::client::HttpConfig::new(&format!("http://127.0.0.1:1/mcp?key={SECRET}")).unwrap();
    let proxy = Proxy::http(http, HttpOptions::new(), mcp_intermediary::relay::Config::default()).unwrap();
    forms.add("Backend", &Backend::child(command()));
    forms.add("Backend", &Backend::stream(SECRET.as_bytes(), tokio::io::sink()));
    forms.add("Backend", &Backend::proxy(proxy));
    let gateway = Gateway::new(mcp_intermediary::gateway::Config::default(), move |_| {
        let backend = Backend::child(command());
        async { Ok(backend) }
    });
    forms.add("Gateway", &gateway);
    let service = gateway.http().unwrap();
    forms.add("HttpService", &service);
    forms.add("GatewayMonitor", &service.monitor());
    forms.add("GatewayStatus", &service.monitor().status().await.unwrap());
}

fn sign_in_forms(forms: &mut Forms) {
    let authorization = Authorization::new(&format!("http://127.0.0.1:1/mcp?key={SECRET}"), "n").unwrap();
    let authorization = authorization.obtain_token(|| Ok(SECRET.to_owned())).configure(|config| {
        config.registered = Some(ClientIdentity::new("id").with_secret(SECRET.into()));
        config.authorization_parameter("login_hint", SECRET).unwrap();
    });
    forms.add("Authorization", &authorization);
    forms.add("Redirects", &authorization.redirects());
    forms.add("SignIn", &authorization.start(HttpOptions::new(), |_| {}).unwrap());
    let (pem, ..) = tests::keys::KEYS[0];
    let key = PrivateKey::from_pem(pem).unwrap();
    forms.add("PrivateKey", &key);
    let secret = pem.lines().nth(1).unwrap();
    assert!(!format!("{key:?}").contains(secret));
}

/// The stores, with a session.
async fn store_forms(forms: &mut Forms) {
    let store = InMemory::new();
    let (key, session, bytes) = (StoreKey::new(1), SECRET.into(), SECRET.into());
    let expires_in = std::time::Duration::from_secs(60);
    let save = StoreAction::Save { key, session, expected: 0, bytes, expires_in };
    assert_eq!(store.carry_out(InstanceId::new(1), save).await, StoreResult::Done);
    forms.add("InMemory", &store);
    forms.add("Redis", &Redis::open(&format!("redis://{SECRET}:{SECRET}@127.0.0.1:1/")).unwrap());
    let (sender, _messages) = tokio::sync::mpsc::channel(1);
    let messages = Messages::new(sender);
    messages.pass(SECRET.into()).await;
    forms.add("Messages", &messages);
}

/// A router, and what a tool of it receives in a task.
async fn router_forms(forms: &mut Forms) {
    let (keep, mut kept) = tokio::sync::mpsc::unbounded_channel();
    let router = Router::new().task_tool(
        "tool",
        |tool| tool.description(SECRET),
        move |_: JsonObject, context| {
            let _ = keep.send(format!("{context:?}"));
            async { Ok(SECRET) }
        },
    );
    forms.add("Router", &router);
    let extension = Extension::new("com.example/extension").setting("key", SECRET);
    forms.add("Extension", &extension.before(|_| Err(ErrorObject::invalid_params(SECRET))));
    forms.add("LocalFunctionEnded", &LocalFunctionEnded);
    forms.add("Listener", &Listener::from(TcpListener::bind("127.0.0.1:0").await.unwrap()));
    let router = router.with_state(Arc::new(SECRET), |router| {
        forms.add("StateRouter", &router);
        router
    });
    forms.add("SharedRouter", &SharedRouter::new(router.clone()));
    let server = Server::new(Config::new("n", "1"), router);
    let client = Client::builder().in_memory(&server).connect().await.unwrap();
    let task = client.call_tool_as_task("tool", JsonObject::new().with("a", SECRET)).await.unwrap();
    let shown = format!("{task:?}");
    assert!(!shown.contains(task.id().unwrap()), "{shown}");
    forms.add("ToolTask", &task);
    forms.add("TaskContext", &kept.recv().await.unwrap());
    client.close().await;
}

#[tokio::test]
async fn no_debug_form_of_a_public_type_prints_a_secret() {
    let mut forms = Forms::default();
    Box::pin(client_forms(&mut forms)).await;
    server_forms(&mut forms).await;
    proxy_forms(&mut forms);
    sign_in_forms(&mut forms);
    router_forms(&mut forms).await;
    store_forms(&mut forms).await;
    let seen: BTreeSet<_> = forms.0.into_keys().map(str::to_owned).collect();
    let mut types = public_types(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    // These are of crates below.
    types.extend(["Change", "Error", "PrivateKey", "StateKeys"].map(str::to_owned));
    // It has no values.
    types.remove("AwsLc");
    assert_eq!(seen, types, "every public type is looked at");
}

/// The types of a proxy, and of each kind of server.
fn proxy_forms(forms: &mut Forms) {
    let url = format!("http://127.0.0.1:1/mcp?key={SECRET}");
    let command = || {
        let mut command = tokio::process::Command::new("server");
        command.arg(SECRET).env("KEY", SECRET);
        command
    };
    forms.add("HttpOptions", &HttpOptions::new().client(reqwest::Client::builder().user_agent(SECRET)));
    forms.add("HttpServer", &legacy_client().http(&url).unwrap().bearer(SECRET).unwrap());
    forms.add("ChildServer", &legacy_client().child(command()));
    forms.add("StreamServer", &legacy_client().stream(tokio::io::empty(), tokio::io::sink()));
    let mut http = mcp_proto::client::HttpConfig::new(&url).unwrap();
    http.header("Authorization", SECRET).unwrap();
    let settings = HttpSettings::new(http, HttpOptions::new()).unwrap();
    forms.add("HttpSettings", &settings);
    let proxy = Proxy::http_with(&settings, mcp_intermediary::relay::Config::default()).unwrap();
    forms.add("Proxy", &proxy);
    forms.add("Proxy", &Proxy::child(command(), mcp_intermediary::relay::Config::default()).unwrap());
    forms.add("Stopper", &proxy.stopper());
}

/// The public structs and enums in a folder.
fn public_types(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(public_types(&path));
            continue;
        }
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let line = line.trim_start();
            let name = line.strip_prefix("pub struct ").or_else(|| line.strip_prefix("pub enum "));
            found.extend(name.map(|name| name.split(|c: char| !c.is_alphanumeric()).next().unwrap_or(name).to_owned()));
        }
    }
    found
}
