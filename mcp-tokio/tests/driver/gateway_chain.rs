//! Both directions, one after the other: a client on a byte stream, a proxy to HTTP, a gateway, and a server on a byte stream,
//! in each pair of revisions.

#![cfg(all(feature = "http-client", feature = "http-server"))]

use mcp_application::router::{HandlerError, NoArguments};
use mcp_application::{Elicited, Inputs};
use mcp_intermediary::{gateway, relay};
use mcp_model::{ElicitResult, JsonObject};
use mcp_proto::client::{Call, HttpConfig};
use mcp_proto::server::{Config, Progress};
use mcp_proto::{Json, ProtocolVersion};
use mcp_testkit::waiting::LONG;
use mcp_tokio::{Backend, Client, Error, Gateway, HttpOptions, Incoming, Proxy, Router, Server};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::io::{DuplexStream, duplex, split};
use tokio::net::TcpListener;
use tokio::time::timeout;

#[derive(Deserialize, JsonSchema)]
struct Guest {
    name: String,
}

/// A server of this revision only, whose tools report progress and ask the user.
fn server(version: ProtocolVersion) -> Server {
    let count = async |_: NoArguments, incoming: Incoming| {
        for step in [1.0, 2.0] {
            incoming.progress(Progress::new(step)).await;
        }
        Ok::<_, HandlerError>("counted")
    };
    let greet = async |_: NoArguments, incoming: Incoming| {
        let mut inputs = Inputs::new(&incoming)?;
        match inputs.elicit_as::<Guest>("guest", "Who are you?")? {
            Some(Elicited::Accepted(Guest { name })) => Ok(format!("Hello, {name}!")),
            Some(Elicited::Declined | Elicited::Cancelled) => Err(HandlerError::from("nobody")),
            None => Err(inputs.required()),
        }
    };
    let router = Router::new().tool("count", "Counts.", count).tool("greet", "Greets.", greet);
    let mut config = Config::new("far", "1");
    config.versions = vec![version];
    Server::new(config, router)
}

/// A client of this revision, and of all older ones of its era, at the other end of the stream.
async fn connect(version: ProtocolVersion, stream: DuplexStream) -> Result<Client, Error> {
    tests::deadline::set();
    let known = ProtocolVersion::ALL.iter().copied();
    let known = known.filter(|other| *other <= version && other.is_stateless() == version.is_stateless());
    let builder = Client::builder()
        .versions(known)
        .on_elicit_form(async |_| Ok(ElicitResult::accept(JsonObject::new().with("name", "Ada"))));
    let (read, write) = split(stream);
    timeout(LONG, builder.stream(read, write).connect()).await.expect("an outcome")
}

async fn called(client: &Client, tool: &str) -> (String, usize) {
    let params = Json::empty_object().with_member("name", &Json::from(tool));
    let mut call = client.call(Call::new("tools/call").params(params).with_progress()).await.unwrap();
    let mut steps = 0;
    while call.progress().await.is_some() {
        steps += 1;
    }
    let result = timeout(LONG, call.wait()).await.expect("an outcome").unwrap();
    (result.to_text().into_owned(), steps)
}

#[tokio::test]
async fn each_pair_of_revisions_is_joined_by_a_proxy_and_a_gateway() {
    for far in ProtocolVersion::ALL.iter().copied() {
        let gateway = Gateway::new(gateway::Config::default(), move |_| {
            let (near, end) = duplex(1024);
            tokio::spawn(async move {
                let (read, write) = split(end);
                server(far).serve_stream(read, write).await
            });
            let (read, write) = split(near);
            async { Ok(Backend::stream(read, write)) }
        });
        let service = gateway.http().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let served = service.clone();
        let serving = tokio::spawn(async move { served.serve(listener).await });
        for near in ProtocolVersion::ALL.iter().copied() {
            let what = format!("a client of {near}, a server of {far}");
            let proxy =
                Proxy::http(HttpConfig::new(&url).unwrap(), HttpOptions::new(), relay::Config::default()).unwrap();
            let (ours, theirs) = duplex(1024);
            let (input, output) = split(theirs);
            let proxying = tokio::spawn(proxy.run(input, output, ()));
            let outcome = connect(near, ours).await;
            // Within an era, client and server must have a revision in common.
            let is_same_era = near.is_stateless() == far.is_stateless();
            if is_same_era && far > near {
                assert!(outcome.is_err(), "{what}: {outcome:?}");
            } else {
                let client = outcome.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(client.version(), if is_same_era { far } else { near }, "{what}");
                let (text, steps) = called(&client, "count").await;
                assert!(text.contains("counted") && steps == 2, "{what}: {steps} {text}");
                if near.min(far) >= ProtocolVersion::V2025_06_18 {
                    let (text, _) = called(&client, "greet").await;
                    assert!(text.contains("Hello, Ada!"), "{what}: {text}");
                }
                client.close().await;
            }
            timeout(LONG, proxying).await.expect("the proxy ends").unwrap().unwrap();
        }
        timeout(LONG, service.close()).await.expect("the gateway ends");
        serving.await.unwrap().unwrap();
    }
}
