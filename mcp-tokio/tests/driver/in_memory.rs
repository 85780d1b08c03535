//! A client and a server of one process, for tests of handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use mcp_model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ListToolsResult, ServerCapabilities, SubscriptionFilter,
    ToolsCapability,
};
use mcp_proto::client::CloseReason;
use mcp_proto::server::Config;
use mcp_proto::{ErrorObject, Json, Notification, ProtocolVersion, SessionKey};
use mcp_testkit::corpus;
use mcp_testkit::one_answer::{assert_answers, full_config};
use mcp_testkit::vocabulary::{Kind, Vocabulary};
use mcp_tokio::{Change, Client, Error, Incoming, Server, Service};

/// Answers with the name of the tool, and records the end of the session.
#[derive(Default)]
struct Echo {
    has_ended: Arc<AtomicBool>,
}

impl Service for Echo {
    async fn serve(&self, incoming: Incoming) -> Result<Json, ErrorObject> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        match incoming.method().as_str() {
            "tools/call" => {
                let name = incoming.params().and_then(|params| params.first_member("name"));
                let text = name.and_then(|name| name.as_string().map(std::borrow::Cow::into_owned));
                Ok(CallToolResult::text(text.unwrap_or_default()).into())
            }
            _ => Err(ErrorObject::method_not_found(incoming.method())),
        }
    }

    async fn ended(&self, _: SessionKey, _: CloseReason) {
        self.has_ended.store(true, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_of_each_revision_calls_a_server_in_memory_and_its_end_ends_the_server() {
    for &version in ProtocolVersion::ALL {
        let echo = Echo::default();
        let has_ended = Arc::clone(&echo.has_ended);
        let server = Server::new(full_config(), echo);
        let client = Client::builder().versions([version]).in_memory(&server).connect().await.unwrap();
        assert_eq!(client.version(), version);
        let called = client.request_as::<CallToolRequest>(&CallToolRequestParams::new("hello")).await.unwrap();
        assert_eq!(called.content, CallToolResult::text("hello").content);
        client.close().await;
        while !has_ended.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test]
async fn an_invalid_configuration_of_the_server_is_the_error_of_the_client() {
    let config = Config::new("s", "1").capabilities(Json::from("none"));
    let connected = Client::builder().in_memory(&Server::new(config, Echo::default())).connect().await;
    assert!(matches!(connected, Err(Error::Usage(_))), "{connected:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_server_writes_for_given_input_is_one_answer_for_each_request() {
    let vocabulary = Vocabulary::new().tool("hello", [("a", Kind::Integer)]);
    let server = Server::new(full_config(), Echo::default());
    for input in corpus::lines(&vocabulary) {
        assert_answers(&input, &server.replay(input.clone()).await.unwrap());
    }
}

#[tokio::test]
async fn a_client_with_a_cache_requests_a_list_again_when_its_time_is_over_or_it_has_changed() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    let serve = move |_: Incoming| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok::<_, ErrorObject>(ListToolsResult::new([]).into()) }
    };
    let capabilities = ServerCapabilities::new().tools(ToolsCapability::new().list_changed(true));
    let mut config = Config::new("s", "1").capabilities(capabilities);
    config.cache_ttl = Duration::from_secs(60);
    let server = Server::new(config, serve);
    let client = Client::builder().cache(100_000).in_memory(&server).connect().await.unwrap();
    for _ in 0..3 {
        client.list_tools(None).await.unwrap();
    }
    assert_eq!(requests.load(Ordering::SeqCst), 1);
    let mut changes = client.listen(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap();
    assert!(matches!(changes.next().await, Some(Change::Listening(_))));
    server.publisher().publish(Notification::new("notifications/tools/list_changed")).await.unwrap();
    assert!(matches!(changes.next().await, Some(Change::Notified(_))));
    client.list_tools(None).await.unwrap();
    assert_eq!(requests.load(Ordering::SeqCst), 2);
}
