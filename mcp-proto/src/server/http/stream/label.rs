//! The label of a request's stream in the store. A reader needs it if the instance that adds the events has ended.

use bytes::Bytes;

use crate::conversation::keys::InstanceId;
use crate::json::Json;
use crate::jsonrpc::{Frame, Message, ParseError, RequestId};
use crate::server::snapshot::read_hex;

/// The instance that adds the events of a stream, and the requests that they answer.
pub(crate) struct Label {
    pub(crate) instance: InstanceId,
    pub(crate) requests: Box<[RequestId]>,
}

impl Label {
    pub(crate) fn to_bytes(&self) -> Bytes {
        let requests: Vec<_> = self.requests.iter().map(RequestId::to_json).collect();
        let instance = Json::from(self.instance.to_string());
        Json::empty_object().with_members(&[("i", &instance), ("r", &Json::array(&requests))]).to_bytes()
    }

    pub(crate) fn read(text: &Bytes) -> Option<Self> {
        let [instance, requests] = Json::parse(text.clone()).ok()?.first_members(["i", "r"]);
        let requests = requests.iter().flat_map(Json::elements);
        let requests = requests.filter_map(|id| RequestId::from_json_text(id.as_bytes())).collect();
        Some(Self { instance: InstanceId::new(read_hex(&instance?)?), requests })
    }
}

/// The ids of the requests in the body of a POST.
pub(crate) fn requests_of(frame: &Result<Frame, ParseError>) -> Box<[RequestId]> {
    let id_of = |message: &Message| match message {
        Message::Request(request) => Some(request.id.clone()),
        Message::Notification(_) | Message::Response(_) => None,
    };
    match frame {
        Ok(Frame::Single(message)) => id_of(message).into_iter().collect(),
        Ok(Frame::Batch(items)) => items.iter().flatten().filter_map(id_of).collect(),
        Err(_) => Box::default(),
    }
}
