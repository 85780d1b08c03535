//! A client and a server of one process, for tests of handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use mcp_blocking::{Change, Client, Error, Incoming, Server, Service};
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
use mcp_testkit::waiting::LONG;

/// Answers with the name of the tool, and reports the end of the session.
struct Echo {
    ended: SyncSender<()>,
}

impl Service for Echo {
    fn serve(&self, incoming: &Incoming) -> Result<Json, ErrorObject> {
        match incoming.method().as_str() {
            "tools/call" => {
                let name = incoming.params().and_then(|params| params.first_member("name"));
                let text = name.and_then(|name| name.as_string().map(std::borrow::Cow::into_owned));
                Ok(CallToolResult::text(text.unwrap_or_default()).into())
            }
            _ => Err(ErrorObject::method_not_found(incoming.method())),
        }
    }

    fn ended(&self, _: SessionKey, _: CloseReason) {
        let _ = self.ended.try_send(());
    }
}

fn echo() -> Echo {
    tests::deadline::set();
    Echo { ended: sync_channel(1).0 }
}

#[test]
fn a_client_of_each_revision_calls_a_server_in_memory_and_its_end_ends_the_server() {
    for &version in ProtocolVersion::ALL {
        let (ended, end) = sync_channel(1);
        let server = Server::new(full_config(), Echo { ended });
        let client = Client::builder().versions([version]).in_memory(&server).connect().unwrap();
        assert_eq!(client.version(), version);
        let called = client.request_as::<CallToolRequest>(&CallToolRequestParams::new("hello")).unwrap();
        assert_eq!(called.content, CallToolResult::text("hello").content);
        client.close();
        end.recv_timeout(LONG).unwrap();
    }
}

#[test]
fn an_invalid_configuration_of_the_server_is_the_error_of_the_client() {
    let config = Config::new("s", "1").capabilities(Json::from("none"));
    let connected = Client::builder().in_memory(&Server::new(config, echo())).connect();
    assert!(matches!(connected, Err(Error::Usage(_))), "{connected:?}");
}

#[test]
fn what_a_server_writes_for_given_input_is_one_answer_for_each_request() {
    let vocabulary = Vocabulary::new().tool("hello", [("a", Kind::Integer)]);
    let server = Server::new(full_config(), echo());
    for input in corpus::lines(&vocabulary) {
        assert_answers(&input, &server.replay(input.clone()).unwrap());
    }
}

#[test]
fn a_client_with_a_cache_requests_a_list_again_when_its_time_is_over_or_it_has_changed() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    let serve = move |_: &Incoming| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(ListToolsResult::new([]).into())
    };
    let capabilities = ServerCapabilities::new().tools(ToolsCapability::new().list_changed(true));
    let mut config = Config::new("s", "1").capabilities(capabilities);
    config.cache_ttl = Duration::from_secs(60);
    let server = Server::new(config, serve);
    let client = Client::builder().cache(100_000).in_memory(&server).connect().unwrap();
    for _ in 0..3 {
        client.list_tools(None).unwrap();
    }
    assert_eq!(requests.load(Ordering::SeqCst), 1);
    let mut changes = client.listen(SubscriptionFilter::new().tools_list_changed(true)).unwrap();
    assert!(matches!(changes.next(), Some(Change::Listening(_))));
    server.publisher().publish(Notification::new("notifications/tools/list_changed")).unwrap();
    assert!(matches!(changes.next(), Some(Change::Notified(_))));
    client.list_tools(None).unwrap();
    assert_eq!(requests.load(Ordering::SeqCst), 2);
}
