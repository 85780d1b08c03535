//! Tests that the `Debug` output of this crate's public types contains no payload, no header and no session id.

use std::net::TcpListener;
use std::process::Command;
use std::sync::mpsc::sync_channel;
use std::thread;

use mcp_auth::ClientIdentity;
use mcp_blocking::sign_in::Authorization;
use mcp_blocking::{
    AggregateProxy, AggregateServer, Backend, Client, Gateway, HttpOptions, HttpSettings, Incoming, Proxy, Server,
    StateKeys,
};
use mcp_intermediary::{aggregate, gateway, relay};
use mcp_proto::server::{Config, HttpConfig, Principal};
use mcp_proto::{Json, client};
use mcp_testkit::http_exchange::TestRequest;
use mcp_testkit::raw_client::RawClient;

const SECRET: &str = "hush-5f1e";

#[test]
fn what_a_server_hands_out_shows_no_secrets() {
    let (sender, received) = sync_channel(4);
    let serve = move |incoming: &Incoming| {
        assert_eq!(incoming.headers()["authorization"], SECRET, "the handler itself sees it");
        sender.send(format!("{incoming:?}")).unwrap();
        Ok(Json::empty_object())
    };
    let server = Server::new(Config::new("s", "1"), serve);
    let service = server.http(HttpConfig::new()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (remote, stopper) = (RawClient::new(&listener.local_addr().unwrap().to_string()), service.stopper());
    let mut shown = vec![format!("{server:?}"), format!("{service:?}"), format!("{:?}", server.stream())];
    shown.extend([format!("{stopper:?}"), format!("{:?}", service.publisher())]);
    shown.push(format!("{:?}", StateKeys::new([171; 32])));
    let serving = thread::spawn(move || {
        service.serve(listener).unwrap();
    });
    let session = remote.session("2025-06-18");
    let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"a":"{SECRET}"}}}}"#);
    let call = TestRequest::post(call).in_session(&session).with("authorization", SECRET).with("cookie", SECRET);
    assert_eq!(remote.answer(&call).code(), 200);
    shown.push(received.recv().unwrap());
    assert!(shown.last().unwrap().contains("tools/call"), "{shown:?}");
    for text in shown {
        assert!(!text.contains(SECRET) && !text.contains(&session) && !text.contains("171"), "{text}");
    }
    stopper.stop();
    serving.join().unwrap();
}

#[test]
fn what_connects_to_a_server_shows_no_secrets() {
    let command = || {
        let mut command = Command::new("server");
        command.arg(SECRET).env("KEY", SECRET);
        command
    };
    let url = format!("http://127.0.0.1:1/mcp?key={SECRET}");
    let mut http = client::HttpConfig::new(&url).unwrap();
    http.header("Authorization", SECRET).unwrap();
    let mut options = HttpOptions::new();
    options.proxy(&format!("http://user:{SECRET}@127.0.0.1:1")).unwrap();
    let settings = HttpSettings::new(http.clone(), options.clone());
    let to_http = Proxy::http_with(&settings, relay::Config::default()).unwrap();
    let to_child = Proxy::child(command(), relay::Config::default()).unwrap();
    let to_processes = Backend::command(move |_| command());
    let to_proxies = Backend::proxy({
        let (http, options) = (http.clone(), options.clone());
        move |_| Ok(Proxy::http(http.clone(), options.clone(), relay::Config::default())?)
    });
    let gateway = Gateway::new().authenticate(|_| Ok(Principal::new(SECRET)));
    let gateway = gateway.server(gateway::Config::default(), to_proxies).unwrap();
    let to_several = AggregateProxy::new(aggregate::Config::new("all", "1"));
    let to_several = to_several.server(SECRET, relay::Config::default(), AggregateServer::command(command));
    let server = AggregateServer::command(command);
    let builder = Client::builder().http(&url).unwrap().bearer(SECRET).unwrap().http_options(options.clone());
    let authorization =
        Authorization::new(&url, "n").unwrap().obtain_token(|| Ok(SECRET.to_owned())).configure(|config| {
            config.registered = Some(ClientIdentity::new("id").with_secret(SECRET.into()));
            config.authorization_parameter("login_hint", SECRET).unwrap();
        });
    let (authorization_form, redirects) = (format!("{authorization:?}"), authorization.redirects());
    let sign_in = authorization.start(options.clone(), |_| {}).unwrap();
    for (name, shown) in [
        ("Authorization", authorization_form),
        ("Redirects", format!("{redirects:?}")),
        ("SignIn", format!("{sign_in:?}")),
        ("Proxy", format!("{to_http:?} {to_http:#?}")),
        ("Proxy", format!("{to_child:?} {to_child:#?}")),
        ("Stopper", format!("{:?} {:?}", to_http.stopper(), to_child.stopper())),
        ("Backend", format!("{to_processes:?}")),
        ("Gateway", format!("{gateway:?} {:?} {:?}", gateway.stopper(), gateway.status())),
        ("AggregateProxy", format!("{to_several:?} {:?}", to_several.stopper())),
        ("AggregateServer", format!("{server:?}")),
        ("HttpOptions", format!("{options:?}")),
        ("HttpSettings", format!("{settings:?}")),
        ("Builder", format!("{builder:?}")),
        ("Builder", format!("{:?}", Client::builder().child(command()))),
        ("ServerProcess", format!("{:?}", Client::builder().child(command()).process())),
    ] {
        assert!(shown.starts_with(name) && !shown.contains(SECRET), "{shown}");
    }
}
