//! Our own clients at the server with every shape, in every revision and through a proxy between any two: the results are
//! those expected, and have the form of the official schema of the revision.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a panic fails the test")]

use mcp_intermediary::relay::Config as RelayConfig;
use mcp_model::JsonObject;
use mcp_proto::client::HttpConfig as ClientHttpConfig;
use mcp_proto::server::HttpConfig;
use mcp_proto::{ErrorObject, Json, Method, ProtocolVersion};
use mcp_tokio::{HttpOptions, Proxy};
use serde_json::Value;
use tests::schema::Schema;
use tests::zoo::{EXTENSION, EXTENSION_SETTING, ZooRequest, answer, check_form, check_lists, requests};
use tokio::net::TcpListener;

/// The user of a client: checks and fills in each form.
struct User(ProtocolVersion);

impl User {
    fn fill_in(&self, method: &Method, params: Option<Json>) -> Json {
        let params: Value = params.unwrap().read().unwrap();
        let mut request = serde_json::json!({ "method": method.as_str(), "params": params });
        let answer = answer(&request["params"]["requestedSchema"]);
        if !self.0.is_stateless() {
            request["jsonrpc"] = "2.0".into();
            request["id"] = 1.into();
        }
        check_form(self.0, "ElicitRequest", &request, &Schema::all());
        Json::from(answer)
    }
}

impl mcp_tokio::Handler for User {
    async fn requested(&self, method: Method, params: Option<Json>) -> Result<Json, ErrorObject> {
        Ok(self.fill_in(&method, params))
    }
}

impl mcp_blocking::Handler for User {
    fn requested(&self, method: Method, params: Option<Json>) -> Result<Json, ErrorObject> {
        Ok(self.fill_in(&method, params))
    }
}

fn capabilities() -> Json {
    Json::parse(r#"{"elicitation":{}}"#).unwrap()
}

/// Makes all requests, and checks what is received.
fn check(version: ProtocolVersion, mut request: impl FnMut(&ZooRequest) -> Result<Json, String>) {
    let schemas = Schema::all();
    let mut lists = Vec::new();
    for asked in requests(version) {
        let result = request(&asked).unwrap_or_else(|error| panic!("{version} {asked:?}: {error}"));
        asked.check(version, &result, &schemas);
        lists.push(result);
    }
    check_lists(&lists[0], &lists[1]);
}

/// What a client has found of the extension: its settings, unless a bridge declares none to it.
fn check_extension(settings: Option<&JsonObject>, is_declared: bool) {
    let (name, value) = EXTENSION_SETTING;
    let expected = JsonObject::new().with(name, value).to_string();
    assert_eq!(settings.map(JsonObject::to_string), is_declared.then_some(expected));
}

fn params(asked: &ZooRequest) -> Json {
    Json::from(asked.params.clone())
}

const INFINITE: &str = "the result of the tool cannot be written as JSON: 'rows[0].mean' is infinite or not a number";

#[test]
fn clients_of_mcp_blocking_read_every_shape_in_every_revision() {
    for &version in ProtocolVersion::ALL {
        let server = interop_zoo::blocking();
        let builder = mcp_blocking::Client::builder().versions([version]).capabilities(capabilities());
        let client = builder.handler(User(version)).in_memory(&server).connect().unwrap();
        check_extension(client.server_extension(EXTENSION).as_ref(), true);
        check(version, |asked| {
            client.request(asked.method.clone(), Some(params(asked))).map_err(|error| error.to_string())
        });
        let infinite = client.call_tool("infinite", ()).unwrap_err();
        assert!(infinite.to_string().contains(INFINITE), "{infinite}");
    }
}

async fn asks(client: &mcp_tokio::Client, version: ProtocolVersion, is_declared: bool) {
    check_extension(client.server_extension(EXTENSION).as_ref(), is_declared);
    let mut results = Vec::new();
    for asked in requests(version) {
        let result = client.request(asked.method.clone(), Some(params(&asked))).await;
        results.push(result.map_err(|error| error.to_string()));
    }
    let mut results = results.into_iter();
    check(version, |_| results.next().unwrap());
    let infinite = client.call_tool("infinite", ()).await.unwrap_err();
    assert!(infinite.to_string().contains(INFINITE), "{infinite}");
}

#[tokio::test]
async fn clients_of_mcp_tokio_read_every_shape_in_every_revision() {
    for &version in ProtocolVersion::ALL {
        let server = interop_zoo::tokio();
        let builder = mcp_tokio::Client::builder().versions([version]).capabilities(capabilities());
        let client = builder.handler(User(version)).in_memory(&server).connect().await.unwrap();
        asks(&client, version, true).await;
        client.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_shape_passes_a_proxy_between_any_two_eras() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://127.0.0.1:{}/mcp", listener.local_addr().unwrap().port());
    let service = interop_zoo::tokio().http(HttpConfig::new()).unwrap();
    let served = tokio::spawn(async move { service.serve(listener).await });
    let eras = [ProtocolVersion::LATEST_LEGACY, ProtocolVersion::LATEST];
    for upstream in eras {
        for version in eras {
            let mut config = RelayConfig::default();
            config.versions = vec![upstream];
            let proxy = Proxy::http(ClientHttpConfig::new(&url).unwrap(), HttpOptions::new(), config).unwrap();
            let (ours, theirs) = tokio::io::duplex(64 * 1024);
            let (read, write) = tokio::io::split(theirs);
            let running = tokio::spawn(proxy.run(read, write, ()));
            let (read, write) = tokio::io::split(ours);
            let builder = mcp_tokio::Client::builder().versions([version]).capabilities(capabilities());
            let client = builder.handler(User(version)).stream(read, write).connect().await.unwrap();
            // A client of a handshake cannot use what an extension of 2026-07-28 demands of it. Rules: BR-L-01.
            asks(&client, version, version.is_stateless() || !upstream.is_stateless()).await;
            client.close().await;
            running.await.unwrap().unwrap();
        }
    }
    served.abort();
}
