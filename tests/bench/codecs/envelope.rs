//! Decoding of frames into messages (classified by method and id, the payload raw but validated), and encoding of the
//! same messages. Compared with derived structs with raw values for `serde_json` and `sonic-rs`.

mod side_by_side;

use bytes::Bytes;
use mcp_proto::{Frame, Limits, Message, Response};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use side_by_side::{Contender, contest, with_warm_memory};
use sonic_rs::LazyValue;

/// The equivalent in plain `serde`: every member that an envelope can have, with raw payloads.
#[derive(Deserialize, Serialize)]
struct Envelope<'m, V> {
    jsonrpc: &'m str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<V>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<V>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<V>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<V>,
}

impl<V> Envelope<'_, V> {
    fn measure(self, length: impl Fn(V) -> usize) -> usize {
        assert_eq!(self.jsonrpc, "2.0");
        assert!(self.id.is_some() && self.error.is_none());
        self.method.map_or(0, str::len) + self.params.or(self.result).map_or(0, length)
    }
}

type Raw<'m> = Envelope<'m, &'m RawValue>;
type Lazy<'m> = Envelope<'m, LazyValue<'m>>;

fn raw_value(frame: &Bytes) -> usize {
    serde_json::from_slice::<Raw<'_>>(frame).expect("valid").measure(|payload| payload.get().len())
}

fn raw_value_again(frame: &Bytes) -> usize {
    let raw: Raw<'_> = serde_json::from_slice(frame).expect("valid");
    serde_json::to_vec(&raw).expect("serialisable").len()
}

fn sonic(frame: &Bytes) -> usize {
    sonic_rs::from_slice::<Lazy<'_>>(frame).expect("valid").measure(|payload| payload.as_raw_str().len())
}

fn sonic_again(frame: &Bytes) -> usize {
    let lazy: Lazy<'_> = sonic_rs::from_slice(frame).expect("valid");
    sonic_rs::to_vec(&lazy).expect("serialisable").len()
}

fn tree(frame: &Bytes) -> usize {
    let tree: serde_json::Value = serde_json::from_slice(frame).expect("valid");
    tree.as_object().map_or(0, serde_json::Map::len)
}

fn mcp_proto(frame: &Bytes, limits: &Limits) -> usize {
    match Frame::parse(frame, limits).expect("valid") {
        Frame::Single(Message::Request(request)) => {
            request.method.as_str().len() + request.params.map_or(0, |params| params.len())
        }
        Frame::Single(Message::Response(Response::Result { result, .. })) => result.len(),
        Frame::Single(Message::Notification(_) | Message::Response(Response::Error { .. })) | Frame::Batch(_) => {
            unreachable!("no contest has one")
        }
    }
}

fn mcp_proto_again(frame: &Bytes, limits: &Limits) -> usize {
    match Frame::parse(frame, limits).expect("valid") {
        Frame::Single(message) => message.to_bytes().len(),
        Frame::Batch(_) => unreachable!("no contest has one"),
    }
}

/// A result of about `length` bytes of the kind that servers write: text with a few escapes.
fn text_result(length: usize) -> String {
    let sentence = "The quick brown fox jumps over the lazy dog, and then it rests a while.\\n";
    let text = sentence.repeat(length / sentence.len() + 1);
    format!(r#"{{"jsonrpc":"2.0","id":17,"result":{{"content":[{{"type":"text","text":"{text}"}}],"isError":false}}}}"#)
}

/// A structured result of about `length` bytes: a list of tools.
fn list_result(length: usize) -> String {
    let tool = r#"{"name":"search","description":"Searches the docs.","inputSchema":{"type":"object","properties":{"query":{"type":"string","minLength":1},"limit":{"type":"integer","default":10}},"required":["query"]}}"#;
    let tools = vec![tool; length / tool.len() + 1].join(",");
    format!(r#"{{"result":{{"tools":[{tools}]}},"jsonrpc":"2.0","id":"request-17"}}"#)
}

fn main() {
    with_warm_memory();
    let limits = Limits::default();
    let request =
        r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2.5}}}"#;
    let frames = [
        ("request, 100 B", request.to_owned()),
        ("result, text, 200 B", text_result(80)),
        ("result, text, 2 KB", text_result(2000)),
        ("result, text, 100 KB", text_result(100_000)),
        ("result, text, 10 MB", text_result(10_000_000)),
        ("result, tools, 2 KB", list_result(2000)),
        ("result, tools, 100 KB", list_result(100_000)),
        ("result, tools, 10 MB", list_result(10_000_000)),
    ]
    .map(|(title, frame)| (title, Bytes::from(frame)));
    println!("Frame to message; in brackets: how many times as fast as it mcp-proto is\n");
    for (title, frame) in &frames {
        let contenders = vec![
            Contender::new("mcp-proto", || mcp_proto(frame, &limits)),
            Contender::new("sonic-rs", || sonic(frame)),
            Contender::new("RawValue", || raw_value(frame)),
            Contender::new("Value", || tree(frame)),
        ];
        contest(title, (frame.len() > 10_000).then_some(frame.len()), contenders);
    }
    println!("\nThe same, and written again\n");
    for (title, frame) in &frames {
        let contenders = vec![
            Contender::new("mcp-proto", || mcp_proto_again(frame, &limits)),
            Contender::new("sonic-rs", || sonic_again(frame)),
            Contender::new("RawValue", || raw_value_again(frame)),
        ];
        contest(title, (frame.len() > 10_000).then_some(frame.len()), contenders);
    }
}
