//! The parameters of calls that drivers offer as functions of their own.

use mcp_model::{
    CallToolRequestParams, CompleteRequestParams, CompletionArgument, CompletionReference, GetPromptRequestParams,
    JsonObject, PaginatedRequestParams, ReadResourceDirectoryRequestParams,
};
use mcp_proto::Json;
use serde::Serialize;

use super::Error;

/// The parameters of `tools/call`. `arguments` is a value whose JSON is an object, or `()` for none.
///
/// # Errors
///
/// [`Error::Arguments`] if its JSON is not an object.
///
/// # Example
///
/// ```
/// use mcp_application::{tool_call, Error};
///
/// #[derive(serde::Serialize)]
/// struct Place {
///     city: &'static str,
/// }
///
/// let params = tool_call("weather", Place { city: "Paris" })?;
/// assert_eq!(params.arguments.unwrap().as_json().as_bytes(), br#"{"city":"Paris"}"#);
/// assert_eq!(tool_call("now", ())?.arguments, None);
/// assert!(matches!(tool_call("weather", "Paris"), Err(Error::Arguments(_))));
/// # Ok::<(), Error>(())
/// ```
pub fn tool_call(name: &str, arguments: impl Serialize) -> Result<CallToolRequestParams, Error> {
    let params = CallToolRequestParams::new(name);
    match written(&arguments)? {
        Some(arguments) => {
            let arguments = JsonObject::try_from(arguments).map_err(serde::ser::Error::custom);
            Ok(params.arguments(arguments.map_err(Error::Arguments)?))
        }
        None => Ok(params),
    }
}

/// The parameters of `prompts/get`. `arguments` is a value whose JSON is an object of strings, or `()` for none.
///
/// # Errors
///
/// [`Error::Arguments`] if its JSON is of another form.
pub fn prompt(name: &str, arguments: impl Serialize) -> Result<GetPromptRequestParams, Error> {
    let mut params = GetPromptRequestParams::new(name);
    if let Some(arguments) = written(&arguments)? {
        params.arguments = Some(arguments.read().map_err(Error::Arguments)?);
    }
    Ok(params)
}

/// The parameters of `completion/complete`, for the `value` that was entered so far.
#[must_use]
pub fn completion(reference: impl Into<CompletionReference>, argument: &str, value: &str) -> CompleteRequestParams {
    CompleteRequestParams::new(reference, CompletionArgument::new(argument, value))
}

/// The parameters of a request for the page at `cursor`; `None` is the first page.
#[must_use]
pub fn page(cursor: Option<&str>) -> PaginatedRequestParams {
    let params = PaginatedRequestParams::new();
    cursor.map_or(params.clone(), |cursor| params.cursor(cursor))
}

/// The parameters of `resources/directory/read` for the page at `cursor`; `None` is the first page.
#[must_use]
pub fn directory(uri: &str, cursor: Option<&str>) -> ReadResourceDirectoryRequestParams {
    let params = ReadResourceDirectoryRequestParams::new(uri);
    cursor.map_or(params.clone(), |cursor| params.cursor(cursor))
}

/// The JSON of a value; `None` for `()` and other values without one.
fn written(value: &impl Serialize) -> Result<Option<Json>, Error> {
    let json = Json::from_serialize(value).map_err(Error::Arguments)?;
    Ok(Some(json).filter(|json| json.as_bytes() != b"null"))
}
