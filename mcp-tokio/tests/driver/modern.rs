//! The client with servers of revision 2026-07-28, and with servers that do not support it.

use mcp_proto::client::{DetectedBy, DetectedEra};
use mcp_proto::{Era, ErrorObject, Json, Method, ProtocolVersion};
use mcp_testkit::modern_answers::ROOTS;
#[cfg(feature = "http-client")]
use mcp_testkit::modern_answers::{CAPABILITIES, FOUND, MODERN_ANSWERS, NEXT};
use mcp_tokio::{Client, Handler};

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

struct Roots;

impl Handler for Roots {
    async fn requested(&self, method: Method, _params: Option<Json>) -> Result<Json, ErrorObject> {
        assert_eq!(method.as_str(), "roots/list");
        Ok(json(ROOTS))
    }
}

#[cfg(feature = "http-client")]
#[tokio::test]
async fn input_subscriptions_and_cancellation_over_http() {
    use mcp_tokio::Change;

    let server = mcp_testkit::loopback_server::modern_server();
    let builder = Client::builder().versions(ProtocolVersion::ALL.iter().copied()).handler(Roots);
    let builder = builder.capabilities(json(CAPABILITIES));
    let client = builder.http(&server.url()).unwrap().connect().await.unwrap();
    assert_eq!(client.version(), ProtocolVersion::V2026_07_28);
    assert_eq!(client.detected_era(), DetectedEra { era: Era::Modern, by: DetectedBy::Discovered });
    let params = json(r#"{"name":"t","arguments":{}}"#);
    client.request("tools/call", Some(params)).await.unwrap();
    let calls = server.requests();
    let last = String::from_utf8_lossy(&calls.last().unwrap().body).into_owned();
    assert!(
        last.contains(r#""inputResponses":{"r":{"roots":[]}}"#) && last.contains(r#""requestState":"s""#),
        "{last}"
    );

    let mut changes = client.listen(json(r#"{"toolsListChanged":true}"#)).await.unwrap();
    let Some(Change::Listening(filter)) = changes.next().await else { panic!() };
    assert_eq!(filter.to_text(), r#"{"toolsListChanged":true}"#);
    let Some(Change::Notified(notification)) = changes.next().await else { panic!() };
    assert_eq!(notification.method, Method::TOOLS_LIST_CHANGED);
    assert!(matches!(changes.next().await, Some(Change::Ended(Ok(_)))));
    assert!(changes.next().await.is_none());

    // Cancelling a call closes the response stream of its request (CX-07).
    let params = json(r#"{"name":"hang"}"#);
    let waiting = client.call(mcp_proto::client::Call::new("tools/call").params(params)).await.unwrap();
    let seen = server.clone();
    let wait = move || {
        seen.wait(|server| {
            let last = server.requests().pop()?;
            String::from_utf8_lossy(&last.body).contains("hang").then_some(())
        })
    };
    tokio::task::spawn_blocking(wait).await.unwrap().unwrap();
    drop(waiting);
    let seen = server.clone();
    let wait = move || seen.wait(|server| (server.closed_connections() > 0).then_some(()));
    tokio::task::spawn_blocking(wait).await.unwrap().unwrap();
    client.close().await;
    assert!(server.requests().iter().all(|request| !String::from_utf8_lossy(&request.body).contains("cancelled")));
}

#[cfg(feature = "http-client")]
#[tokio::test]
async fn modern_answers_are_outcomes_at_once_and_the_next_call_succeeds() {
    for case in MODERN_ANSWERS {
        let server = case.server();
        let builder = Client::builder().versions([ProtocolVersion::V2026_07_28]).handler(Roots);
        match builder.capabilities(json(CAPABILITIES)).http(&server.url()).unwrap().connect().await {
            Ok(client) => {
                assert!(case.connects(), "{}", case.name);
                case.judge(client.request(case.method, None).await);
                assert_eq!(client.request(NEXT, None).await.unwrap(), json(FOUND), "{}", case.name);
            }
            Err(error) => case.judge(Err(error)),
        }
    }
}

#[cfg(unix)]
#[tokio::test]
async fn er_06_a_child_that_ends_when_it_is_asked_is_started_once_more() {
    let marker = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("asked-{}", std::process::id()));
    let answer = mcp_testkit::messages::result("2", &mcp_testkit::messages::initialize_result("2025-11-25"));
    let mut command = tokio::process::Command::new("sh");
    let script = r#"read -r line; if [ -e "$0" ]; then printf '%s\n' "$1"; cat >/dev/null; else : >"$0"; exit 1; fi"#;
    command.args(["-c", script]).arg(&marker).arg(answer);
    let client = Client::builder()
        .versions(ProtocolVersion::ALL.iter().copied())
        .handler(Roots)
        .child(command)
        .connect()
        .await
        .unwrap();
    std::fs::remove_file(marker).unwrap();
    assert_eq!(client.detected_era(), DetectedEra { era: Era::Legacy, by: DetectedBy::Exited });
    assert_eq!(client.version(), ProtocolVersion::V2025_11_25);
    client.close().await;
}
