//! What handlers may return.

use std::borrow::Cow;

use bytes::Bytes;
use mcp_model::{
    AudioContent, BlobResourceContents, CallToolRequest, CallToolResult, CompleteRequest, CompleteResult, Completion,
    ContentBlock, EmbeddedResource, GetPromptRequest, GetPromptResult, ImageContent, JsonObject, PromptMessage,
    ReadResourceRequest, ReadResourceResult, ResourceContents, ResourceLink, TextContent, TextResourceContents,
};
use mcp_proto::{ErrorObject, Json, code};

use super::HandlerError;
use super::routed::RoutedCall;

/// The largest number of values of a completion (`server/utilities/completion` of every revision).
const COMPLETIONS: usize = 100;

/// What a handler of the request type `R` may return.
///
/// | request | types |
/// |---|---|
/// | [`CallToolRequest`] | a text, a number or a `bool`, which become a text; a [`ContentBlock`] or what is in it, such as [`ImageContent`]; several [`ContentBlock`]s; `Structured` (feature `schema`); JSON without a schema ([`Json`], also `Json::from(json!(…))` of `serde_json`, and [`JsonObject`]), which becomes structured content and the same as text; `()`; [`CallToolResult`] |
/// | [`GetPromptRequest`] | a text or a [`ContentBlock`] as the message of the user, one or several [`PromptMessage`]s, [`GetPromptResult`] |
/// | [`ReadResourceRequest`] | a text, bytes, JSON as text, one or several [`ResourceContents`], [`ReadResourceResult`] |
/// | [`CompleteRequest`] | all values, of which the first 100 are sent, or [`CompleteResult`] |
///
/// An `Option` that is `None` is a tool's result without content, and of a resource the error that it was not found.
///
/// A handler that needs input returns [`InputRequired`](mcp_proto::server::InputRequired) as its error.
///
/// # Example
///
/// ```
/// use mcp_model::{CallToolRequest, ContentBlock, ImageContent, Tool};
/// use mcp_application::router::{HandlerError, IntoAnswer, Routed, Router};
/// use mcp_proto::{Json, Method, ProtocolVersion};
///
/// fn result(value: impl IntoAnswer<CallToolRequest>) -> String {
///     let mut router = Router::new();
///     router.add_tool(&Tool::without_arguments("t"), ());
///     let params = Json::parse(r#"{"name":"t"}"#).unwrap();
///     let routed = router.route(&Method::TOOLS_CALL, Some(&params), ProtocolVersion::LATEST);
///     let Routed::Handled { call, .. } = routed else { panic!() };
///     call.answer(Ok::<_, HandlerError>(value)).unwrap().to_string()
/// }
///
/// assert_eq!(result(6), r#"{"content":[{"type":"text","text":"6"}]}"#);
/// assert_eq!(result(()), r#"{"content":[]}"#);
/// let image = ImageContent::from_bytes(b"\x89PNG", "image/png");
/// assert_eq!(
///     result(vec![ContentBlock::from("A chart"), image.into()]),
///     r#"{"content":[{"type":"text","text":"A chart"},{"type":"image","data":"iVBORw==","mimeType":"image/png"}]}"#
/// );
/// ```
#[diagnostic::on_unimplemented(
    message = "a function for a `{R}` cannot return `{Self}`",
    label = "`{Self}` is not an answer to a `{R}`",
    note = "the documentation of `IntoAnswer` lists the types that are",
    note = "a tool whose result is a value of your own returns `Structured(value)`, which needs the feature `schema`"
)]
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
    CallToolRequest: Cow<'_, str> = |text, _call| CallToolResult::text(text);
    CallToolRequest: ContentBlock = |block, _call| CallToolResult::new().and(block);
    CallToolRequest: TextContent = |block, _call| CallToolResult::new().and(block);
    CallToolRequest: ImageContent = |block, _call| CallToolResult::new().and(block);
    CallToolRequest: AudioContent = |block, _call| CallToolResult::new().and(block);
    CallToolRequest: ResourceLink = |block, _call| CallToolResult::new().and(block);
    CallToolRequest: EmbeddedResource = |block, _call| CallToolResult::new().and(block);
    CallToolRequest: Vec<ContentBlock> = |blocks, _call| blocks.into_iter().fold(CallToolResult::new(), CallToolResult::and);
    CallToolRequest: Json = |value, _call| json_content(value);
    CallToolRequest: JsonObject = |value, _call| json_content(value.into());
    CallToolRequest: () = |_unit, _call| CallToolResult::new();
    GetPromptRequest: GetPromptResult = |result, _call| result;
    GetPromptRequest: PromptMessage = |message, _call| GetPromptResult::new([message]);
    GetPromptRequest: Vec<PromptMessage> = |messages, _call| GetPromptResult::new(messages);
    GetPromptRequest: String = |text, _call| GetPromptResult::new([PromptMessage::user(text)]);
    GetPromptRequest: &str = |text, _call| GetPromptResult::new([PromptMessage::user(text)]);
    GetPromptRequest: Cow<'_, str> = |text, _call| GetPromptResult::new([PromptMessage::user(text.into_owned())]);
    GetPromptRequest: ContentBlock = |block, _call| GetPromptResult::new([PromptMessage::user(block)]);
    ExtensionRequest: Json = |result, _call| result;
    ReadResourceRequest: ReadResourceResult = |result, _call| result;
    ReadResourceRequest: ResourceContents = |contents, _call| ReadResourceResult::new([contents]);
    ReadResourceRequest: Vec<ResourceContents> = |contents, _call| ReadResourceResult::new(contents);
    ReadResourceRequest: String = |text, call| text_contents(call, text);
    ReadResourceRequest: &str = |text, call| text_contents(call, text.to_owned());
    ReadResourceRequest: Cow<'_, str> = |text, call| text_contents(call, text.into_owned());
    ReadResourceRequest: Json = |value, call| text_contents(call, value.to_string());
    ReadResourceRequest: JsonObject = |value, call| text_contents(call, value.as_json().to_string());
    ReadResourceRequest: Vec<u8> = |bytes, call| binary_contents(call, &bytes);
    ReadResourceRequest: &[u8] = |bytes, call| binary_contents(call, bytes);
    ReadResourceRequest: Bytes = |bytes, call| binary_contents(call, &bytes);
    CompleteRequest: CompleteResult = |result, _call| result;
    CompleteRequest: Vec<String> = |values, _call| first_values(values);
    CompleteRequest: Vec<&str> = |values, _call| first_values(values.into_iter().map(str::to_owned).collect());
}

/// The request of an extension: see [`extension_result`].
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "it has no values")]
pub enum ExtensionRequest {}

/// Writes the result of a method of an extension.
///
/// # Errors
///
/// It is no JSON object.
pub fn extension_result(result: &impl serde::Serialize) -> Result<Json, HandlerError> {
    let written = Json::from_serialize(result).ok().filter(Json::is_object);
    let error = || ErrorObject::new(code::INTERNAL_ERROR, "the result of the method is no JSON object");
    written.ok_or_else(|| error().into())
}

macro_rules! answers_as_text {
    ($($type:ty)*) => {
        $(impl IntoAnswer<CallToolRequest> for $type {
            fn into_answer(self, _: &RoutedCall) -> Result<Json, ErrorObject> {
                Ok(CallToolResult::text(self.to_string()).into())
            }
        })*
    };
}

answers_as_text! { bool i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64 }

impl<O: IntoAnswer<CallToolRequest>> IntoAnswer<CallToolRequest> for Option<O> {
    fn into_answer(self, call: &RoutedCall) -> Result<Json, ErrorObject> {
        self.map_or_else(|| ().into_answer(call), |output| output.into_answer(call))
    }
}

impl<O: IntoAnswer<ReadResourceRequest>> IntoAnswer<ReadResourceRequest> for Option<O> {
    fn into_answer(self, call: &RoutedCall) -> Result<Json, ErrorObject> {
        self.ok_or_else(|| call.resource_not_found())?.into_answer(call)
    }
}

fn json_content(value: Json) -> CallToolResult {
    CallToolResult::text(value.to_text()).structured_content(value)
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

    fn call() -> RoutedCall {
        RoutedCall::new(Json::empty_object(), ProtocolVersion::LATEST)
    }

    fn of_tool(output: impl IntoAnswer<CallToolRequest>) -> String {
        output.into_answer(&call()).unwrap().to_string()
    }

    fn of_prompt(output: impl IntoAnswer<GetPromptRequest>) -> String {
        output.into_answer(&call()).unwrap().to_string()
    }

    #[test]
    fn a_tool_may_return_plain_values_content_and_json() {
        let texts: [(String, &str); 8] = [
            (of_tool(-6_i32), "-6"),
            (of_tool(u64::MAX), "18446744073709551615"),
            (of_tool(0.5_f64), "0.5"),
            (of_tool(true), "true"),
            (of_tool(Cow::Borrowed("a")), "a"),
            (of_tool(TextContent::new("b")), "b"),
            (of_tool(ContentBlock::from("c")), "c"),
            (of_tool(Some("d")), "d"),
        ];
        for (found, text) in texts {
            assert_eq!(found, format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#));
        }
        let image = r#"{"type":"image","data":"AQ==","mimeType":"image/png"}"#;
        let content = || ImageContent::from_bytes(&[1], "image/png");
        assert_eq!(of_tool(content()), format!(r#"{{"content":[{image}]}}"#));
        let blocks = vec![ContentBlock::from("a"), content().into()];
        assert_eq!(of_tool(blocks), format!(r#"{{"content":[{{"type":"text","text":"a"}},{image}]}}"#));
        for nothing in [of_tool(()), of_tool(None::<String>), of_tool(Vec::<ContentBlock>::new())] {
            assert_eq!(nothing, r#"{"content":[]}"#);
        }
        let json = || Json::parse(r#"{"a":1.0}"#).unwrap();
        let expected = r#"{"content":[{"type":"text","text":"{\"a\":1.0}"}],"structuredContent":{"a":1.0}}"#;
        let object = JsonObject::try_from(json()).unwrap();
        for found in [of_tool(json()), of_tool(object)] {
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_prompt_may_return_one_message_or_one_block() {
        let expected = r#"{"messages":[{"role":"user","content":{"type":"text","text":"a"}}]}"#;
        for found in
            [of_prompt(PromptMessage::user("a")), of_prompt(ContentBlock::from("a")), of_prompt(Cow::Borrowed("a"))]
        {
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn contents_that_there_are_not_are_not_found() {
        for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
            let call = RoutedCall::resource(Json::empty_object(), "x:a".to_owned(), None, version);
            let error = IntoAnswer::<ReadResourceRequest>::into_answer(None::<String>, &call).unwrap_err();
            assert_eq!(error, ErrorObject::resource_not_found("x:a", version));
            assert!(IntoAnswer::<ReadResourceRequest>::into_answer(Some("a"), &call).is_ok());
        }
    }

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
                (IntoAnswer::<ReadResourceRequest>::into_answer(Json::from(true), &call), r#""text":"true""#),
                (IntoAnswer::<ReadResourceRequest>::into_answer(vec![1_u8], &call), r#""blob":"AQ==""#),
                (IntoAnswer::<ReadResourceRequest>::into_answer(&[1_u8][..], &call), r#""blob":"AQ==""#),
                (IntoAnswer::<ReadResourceRequest>::into_answer(Bytes::from_static(&[1]), &call), r#""blob":"AQ==""#),
            ] {
                let found = answer.unwrap().read::<serde_json::Value>().unwrap();
                let expected = format!(r#"{{"contents":[{{"uri":"x:a",{expected}{member}}}]}}"#);
                assert_eq!(found, serde_json::from_str::<serde_json::Value>(&expected).unwrap());
            }
        }
    }
}
