//! Prompts.

use mcp_model::{
    EmbeddedResource, GetPromptRequest, GetPromptRequestParams, GetPromptResult, ImageContent, ListPromptsResult,
    Prompt, PromptArgument, PromptMessage, RequestMethod,
};
use mcp_proto::{ErrorObject, Json};

use super::caller::Caller;
use super::samples::PNG;
use super::{input, invalid, resources};

pub(crate) fn list() -> ListPromptsResult {
    ListPromptsResult::new([
        Prompt::new("test_simple_prompt").description("A prompt without arguments"),
        Prompt::new("test_prompt_with_arguments").description("A prompt with arguments").arguments([
            PromptArgument::new("arg1").description("The first argument").required(true),
            PromptArgument::new("arg2").description("The second argument").required(true),
        ]),
        Prompt::new("test_prompt_with_embedded_resource")
            .description("A prompt with a resource")
            .arguments([PromptArgument::new("resourceUri").description("The URI of the resource").required(true)]),
        Prompt::new("test_prompt_with_image").description("A prompt with a picture"),
        Prompt::new("test_input_required_result_prompt").description("A prompt that asks its user first"),
    ])
}

pub(crate) fn get(caller: &Caller<'_>) -> Result<Json, ErrorObject> {
    let get = GetPromptRequest::params(caller.params())?;
    if get.name == "test_input_required_result_prompt" {
        return Ok(input::prompt_with_context(caller));
    }
    plain(&get).map(Json::from)
}

fn plain(get: &GetPromptRequestParams) -> Result<GetPromptResult, ErrorObject> {
    match get.name.as_str() {
        "test_simple_prompt" => Ok(GetPromptResult::new([PromptMessage::user("This is a simple prompt for testing.")])),
        "test_prompt_with_arguments" => with_arguments(get),
        "test_prompt_with_embedded_resource" => with_resource(get),
        "test_prompt_with_image" => Ok(with_image()),
        unknown => Err(invalid(&format!("unknown prompt: {unknown}"))),
    }
}

fn argument<'a>(get: &'a GetPromptRequestParams, name: &str) -> Result<&'a str, ErrorObject> {
    get.argument(name).ok_or_else(|| invalid(&format!("the prompt needs a text as its argument {name}")))
}

fn with_arguments(get: &GetPromptRequestParams) -> Result<GetPromptResult, ErrorObject> {
    let (first, second) = (argument(get, "arg1")?, argument(get, "arg2")?);
    let text = format!("Prompt with arguments: arg1='{first}', arg2='{second}'");
    Ok(GetPromptResult::new([PromptMessage::user(text)]))
}

fn with_resource(get: &GetPromptRequestParams) -> Result<GetPromptResult, ErrorObject> {
    let resource = resources::text(argument(get, "resourceUri")?, "Embedded resource content for testing.");
    Ok(GetPromptResult::new([
        PromptMessage::user(EmbeddedResource::new(resource)),
        PromptMessage::user("Please process the embedded resource above."),
    ]))
}

fn with_image() -> GetPromptResult {
    GetPromptResult::new([
        PromptMessage::user(ImageContent::new(PNG, "image/png")),
        PromptMessage::user("Please analyze the image above."),
    ])
}
