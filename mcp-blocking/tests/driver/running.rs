//! A server over real sockets, for the tests of both drivers.

use std::net::TcpListener;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mcp_blocking::{HttpService, Incoming, Server, ServerStopper, Service, StateKeys};
use mcp_proto::client::{Call, Outcome};
use mcp_proto::server::{Config, HttpConfig, InputRequired, Progress};
use mcp_proto::{ErrorObject, Json, Method, Notification, code};

/// A server on its own thread, stopped at the end of the test.
pub(crate) struct Running {
    pub(crate) url: String,
    pub(crate) address: String,
    pub(crate) stopper: ServerStopper,
    pub(crate) thread: Option<JoinHandle<()>>,
}

impl Running {
    pub(crate) fn new() -> Self {
        Self::with(|_, _| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut HttpConfig, &mut Config)) -> Self {
        let (mut http, mut config) = (HttpConfig::new(), Config::new("test", "1"));
        config.capabilities = json(r#"{"tools":{}}"#);
        change(&mut http, &mut config);
        Self::of(Server::new(config, serve).http(http).unwrap())
    }

    /// Starts a server with this service.
    #[allow(dead_code, reason = "not each of the tests needs it")]
    pub(crate) fn serving(config: Config, service: impl Service) -> Self {
        Self::of(Server::new(config, service).http(HttpConfig::new()).unwrap())
    }

    /// Starts a server that allows few connections, for tests with many clients.
    #[allow(dead_code, reason = "not each of the tests needs it")]
    pub(crate) fn crowded() -> Self {
        let (mut http, mut config) = (HttpConfig::new(), Config::new("test", "1"));
        tests::on_the_wire::configure_crowded(&mut http, &mut config);
        let mut service = Server::new(config, serve).http(http).unwrap();
        service.max_connections = tests::on_the_wire::CONNECTIONS;
        service.head_timeout = tests::on_the_wire::HEAD_TIME;
        Self::of(service)
    }

    pub(crate) fn of(service: HttpService) -> Self {
        Self::at("127.0.0.1:0", service)
    }

    /// Starts a server at this address.
    pub(crate) fn at(address: &str, service: HttpService) -> Self {
        tests::deadline::set();
        let listener = TcpListener::bind(address).unwrap();
        let (address, stopper) = (listener.local_addr().unwrap().to_string(), service.stopper());
        let thread = thread::spawn(move || {
            service.serve(listener).unwrap();
        });
        Self { url: format!("http://{address}/mcp"), address, stopper, thread: Some(thread) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stopper.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

fn serve(incoming: &Incoming) -> Result<Json, ErrorObject> {
    match incoming.method().as_str() {
        "echo" | "nap" | "pause" => {
            match incoming.method().as_str() {
                "nap" => thread::sleep(Duration::from_millis(50)),
                "pause" => thread::sleep(Duration::from_millis(1500)),
                _ => {}
            }
            Ok(incoming.params().cloned().unwrap_or(Json::empty_object()))
        }
        "tools/list" => Ok(json(tests::on_the_wire::TOOLS)),
        "tools/call" if incoming.params().is_some_and(|params| params.member("name") == Ok(Some("hello".into()))) => {
            Ok(json(r#"{"content":[{"type":"text","text":"Hello!"}]}"#))
        }
        "wait" => {
            while !incoming.is_cancelled() {
                thread::sleep(Duration::from_millis(5));
            }
            Ok(json(r#"{"cancelled":true}"#))
        }
        "count" => {
            for step in 1..=3 {
                let progress = Progress { progress: f64::from(step), total: Some(3.0), message: None };
                incoming.progress(progress);
            }
            incoming.notify(Notification::with_params("notifications/message", json(r#"{"data":"counted"}"#))).unwrap();
            Ok(json(r#"{"counted":3}"#))
        }
        "ask" => match incoming.ask(Call::new("elicitation/create")).unwrap() {
            Outcome::Result(answer) => Ok(answer),
            Outcome::Error(error) => Err(error),
            Outcome::Failed(reason) => Err(ErrorObject::new(code::INTERNAL_ERROR, &reason.to_string())),
        },
        "away" => {
            incoming.release();
            thread::sleep(Duration::from_millis(50));
            Ok(json(r#"{"back":true}"#))
        }
        "large" => Ok(Json::from("x".repeat(12_000_000).as_str())),
        "panic" => panic!("a handler may fail"),
        "flood" => {
            let filler = "x".repeat(100_000);
            for _ in 0..1000 {
                let params = Json::from_serialize(&std::collections::BTreeMap::from([("data", &filler)])).unwrap();
                let _ = incoming.notify(Notification::with_params("notifications/message", params));
            }
            Ok(Json::empty_object())
        }
        "burst" => {
            for step in 1..=20_000 {
                incoming.progress(Progress { progress: f64::from(step), total: None, message: None });
            }
            Ok(Json::empty_object())
        }
        "change" => {
            incoming.publish(Notification::new("notifications/tools/list_changed")).unwrap();
            Ok(Json::empty_object())
        }
        "touch" => {
            let change = Notification { method: Method::RESOURCES_UPDATED, params: incoming.params().cloned() };
            incoming.publish(change).unwrap();
            Ok(Json::empty_object())
        }
        "tools/call" => {
            let keys = StateKeys::new([8; 32]).earlier([7; 32]);
            let answers = incoming.params().and_then(|params| params.member("inputResponses").unwrap());
            if let (Some(answers), Some("asked")) = (answers, keys.open(incoming)?.as_deref()) {
                return Ok(answers);
            }
            // Sealed with the earlier key, as if the server's key had changed meanwhile; the state can still be opened.
            let state = StateKeys::new([7; 32]).seal(incoming, "asked", Duration::from_secs(60));
            Ok(InputRequired::new().ask("who", "elicitation/create", Json::empty_object()).state(&state).into())
        }
        "client" => Ok(incoming.client_info().map_or(Json::empty_object(), Json::from)),
        _ => Err(ErrorObject::new(code::METHOD_NOT_FOUND, "method not found")),
    }
}
