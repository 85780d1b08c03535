//! Tests that the `Debug` output of this crate's public types contains no payload, no header and no session id.

use std::sync::mpsc::sync_channel;
use std::thread;

use mcp_blocking::{Incoming, Server, StateKeys};
use mcp_proto::Json;
use mcp_proto::server::Config;
use mcp_testkit::http_exchange::TestRequest;
use mcp_testkit::raw_client::RawClient;

const SECRET: &str = "hush-5f1e";

#[test]
fn defect_x2_what_a_server_hands_out_shows_no_secrets() {
    let (sender, received) = sync_channel(4);
    let server = Server::bind("127.0.0.1:0", Config::new("s", "1")).unwrap();
    let (remote, stopper) = (RawClient::new(&server.address().to_string()), server.stopper());
    let mut shown = vec![format!("{server:?}"), format!("{stopper:?}"), format!("{:?}", server.publisher())];
    shown.push(format!("{:?}", StateKeys::new([171; 32])));
    let serving = thread::spawn(move || {
        let serve = move |incoming: &Incoming| {
            assert_eq!(incoming.headers()["authorization"], SECRET, "the handler itself sees it");
            sender.send(format!("{incoming:?}")).unwrap();
            Ok(Json::empty_object())
        };
        server.run(serve).unwrap();
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
