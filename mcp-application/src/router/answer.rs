//! What handlers may return.

#[cfg(feature = "schema")]
use mcp_model::JsonObject;
use mcp_model::{
    BlobResourceContents, CallToolRequest, CallToolResult, CompleteRequest, CompleteResult, Completion,
    GetPromptRequest, GetPromptResult, PromptMessage, ReadResourceRequest, ReadResourceResult, ResourceContents,
    TextResourceContents,
};
use mcp_proto::{ErrorObject, Json};

use super::routed::RoutedCall;

/// The largest number of values of a completion (`server/utilities/completion` of every revision).
const COMPLETIONS: usize = 100;

/// What a handler of the request type `R` may return.
///
/// | request | types |
/// |---|---|
/// | [`CallToolRequest`] | [`CallToolResult`], a text, `()`, and `Structured` (feature `schema`) |
/// | [`GetPromptRequest`] | [`GetPromptResult`], messages, or a text as the message of the user |
/// | [`ReadResourceRequest`] | [`ReadResourceResult`], contents, a text, or bytes |
/// | [`CompleteRequest`] | [`CompleteResult`], or all values, of which the first 100 are sent |
///
/// A handler that needs input returns [`InputRequired`](mcp_proto::server::InputRequired) as its error.
pub trait IntoAnswer<R> {
    /// The result.
    ///
    /// # Errors
    ///
    /// The value cannot be written as JSON.
    fn into_answer(self, call: &RoutedCall) -> Result<Json, ErrorObject>;

    /// The schema of the structured content of a tool, if its results have any.
    #[cfg(feature = "schema")]
    #[must_use]
    fn output_schema() -> Option<JsonObject> {
        None
    }
}

macro_rules! answers {
    ($($request:ident: $type:ty = |$value:ident, $call:ident| $result:expr;)*) => {
        $(impl IntoAnswer<$request> for $type {
            fn into_answer(self, $call: &RoutedCall) -> Result<Json, ErrorObject> {
                let $value = self;
                Ok($result.into())
            }
        })*
    };
}

answers! {
    CallToolRequest: CallToolResult = |result, _call| result;
    CallToolRequest: String = |text, _call| CallToolResult::text(text);
    CallToolRequest: &str = |text, _call| CallToolResult::text(text);
    CallToolRequest: () = |_unit, _call| CallToolResult::new();
    GetPromptRequest: GetPromptResult = |result, _call| result;
    GetPromptRequest: Vec<PromptMessage> = |messages, _call| GetPromptResult::new(messages);
    GetPromptRequest: String = |text, _call| GetPromptResult::new([PromptMessage::user(text)]);
    GetPromptRequest: &str = |text, _call| GetPromptResult::new([PromptMessage::user(text)]);
    ReadResourceRequest: ReadResourceResult = |result, _call| result;
    ReadResourceRequest: ResourceContents = |contents, _call| ReadResourceResult::new([contents]);
    ReadResourceRequest: Vec<ResourceContents> = |contents, _call| ReadResourceResult::new(contents);
    ReadResourceRequest: String = |text, call| text_contents(call, text);
    ReadResourceRequest: &str = |text, call| text_contents(call, text.to_owned());
    ReadResourceRequest: Vec<u8> = |bytes, call| binary_contents(call, &bytes);
    CompleteRequest: CompleteResult = |result, _call| result;
    CompleteRequest: Vec<String> = |values, _call| first_values(values);
    CompleteRequest: Vec<&str> = |values, _call| first_values(values.into_iter().map(str::to_owned).collect());
}

fn text_contents(call: &RoutedCall, text: String) -> ReadResourceResult {
    let mut contents = TextResourceContents::new(call.uri(), text);
    contents.mime_type = call.mime_type().map(str::to_owned);
    ReadResourceResult::new([contents.into()])
}

fn binary_contents(call: &RoutedCall, bytes: &[u8]) -> ReadResourceResult {
    let mut contents = BlobResourceContents::from_bytes(call.uri(), bytes);
    contents.mime_type = call.mime_type().map(str::to_owned);
    ReadResourceResult::new([contents.into()])
}

fn first_values(mut values: Vec<String>) -> CompleteResult {
    let total = values.len();
    values.truncate(COMPLETIONS);
    CompleteResult::new(Completion::new(values).total(total).has_more(total > COMPLETIONS))
}

#[cfg(test)]
mod tests {
    use mcp_proto::ProtocolVersion;

    use super::*;

    #[test]
    fn contents_have_the_uri_that_was_asked_for_and_the_media_type_of_the_resource() {
        for (mime_type, member) in [(Some("text/x"), r#","mimeType":"text/x""#), (None, "")] {
            let call = RoutedCall::resource(
                Json::empty_object(),
                "x:a".to_owned(),
                mime_type.map(Into::into),
                ProtocolVersion::LATEST,
            );
            for (answer, expected) in [
                (IntoAnswer::<ReadResourceRequest>::into_answer("a", &call), r#""text":"a""#),
                (IntoAnswer::<ReadResourceRequest>::into_answer(vec![1_u8], &call), r#""blob":"AQ==""#),
            ] {
                let found = answer.unwrap().read::<serde_json::Value>().unwrap();
                let expected = format!(r#"{{"contents":[{{"uri":"x:a",{expected}{member}}}]}}"#);
                assert_eq!(found, serde_json::from_str::<serde_json::Value>(&expected).unwrap());
            }
        }
    }
}
