//! `notifications/cancelled` in both directions (RULES section 9).

use crate::conversation::keys::RequestKey;
use crate::json::Json;
use crate::jsonrpc::{Message, Notification, RequestId};
use crate::spec::Method;

/// The notice that an own request is cancelled, by its key on the wire. Only `requestId` is set in `params`.
pub(crate) fn notice(wire: RequestKey, params: &Json) -> Message {
    let params = params.with_member("requestId", &wire.to_wire().to_json());
    Message::Notification(Notification::with_params(Method::CANCELLED, params))
}

/// The parameters of a notice, without `requestId`.
pub(crate) fn params(reason: Option<&str>) -> Json {
    let params = Json::empty_object();
    reason.map_or(params.clone(), |reason| params.with_member("reason", &Json::from(reason)))
}

/// The id of the request that the peer cancels; `None` if the notice is malformed, and is ignored then (CX-03).
pub(crate) fn cancelled_id(params: &Json) -> Option<RequestId> {
    RequestId::from_json_text(params.first_member("requestId")?.as_bytes())
}
