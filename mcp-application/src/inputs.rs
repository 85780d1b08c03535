//! Input that a handler needs from the client: answers of its user or of its language model.

use std::collections::BTreeMap;

#[cfg(any(feature = "schema", feature = "validation"))]
use mcp_model::ElicitAction;
#[cfg(feature = "schema")]
use mcp_model::ElicitRequestFormParams;
#[cfg(feature = "validation")]
use mcp_model::JsonObject;
use mcp_model::{
    CreateMessageRequest, CreateMessageRequestParams, CreateMessageResult, ElicitRequest, ElicitRequestParams,
    ElicitResult, ListRootsRequest, ListRootsResult, Payload, RequestMethod, RequestParams,
};
#[cfg(feature = "validation")]
use mcp_proto::code;
use mcp_proto::server::InputRequired;
use mcp_proto::{ErrorObject, Json, ProtocolVersion};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
#[cfg(feature = "schema")]
use serde::de::DeserializeOwned;

use super::IncomingRequest;
#[cfg(feature = "schema")]
use crate::router::{HandlerError, arguments, form_of};
#[cfg(feature = "validation")]
use crate::validation::CompiledSchema;

/// Input that a handler needs from the client, in both eras.
///
/// The handler asks for everything that it needs, each time that it is called for the request. While an answer is
/// missing, it returns [`Inputs::required`] as its error, and is called again with the answers: from the beginning, so
/// that nothing with an effect may be done before. Answers of earlier rounds are kept in `requestState`, which comes back
/// with the request: a client could alter them, as it could alter the answers themselves.
///
/// # Example: two questions, the second of which depends on the first answer
///
/// ```
/// use mcp_application::{IncomingRequest, Inputs};
/// use mcp_model::{ElicitAction, ElicitRequestFormParams, RequestedSchema, StringSchema};
/// use mcp_application::router::HandlerError;
///
/// fn book(incoming: &IncomingRequest) -> Result<String, HandlerError> {
///     let mut inputs = Inputs::new(incoming)?;
///     let form = RequestedSchema::form().with_required("city", StringSchema::new());
///     let Some(city) = inputs.elicit("city", ElicitRequestFormParams::new("Which city?", form))? else {
///         return Err(inputs.required());
///     };
///     if city.action != ElicitAction::Accept {
///         return Ok("Nothing was booked.".into());
///     }
///     let form = RequestedSchema::form().with_required("hotel", StringSchema::new());
///     let Some(hotel) = inputs.elicit("hotel", ElicitRequestFormParams::new("Which hotel there?", form))? else {
///         return Err(inputs.required());
///     };
///     Ok(format!("The hotel: {:?}", hotel.action))
/// }
/// ```
///
/// Rules: MD-I-10.
#[derive(Debug)]
pub struct Inputs {
    #[cfg_attr(not(feature = "schema"), expect(dead_code, reason = "the forms of types are made for it"))]
    version: ProtocolVersion,
    answers: BTreeMap<String, Json>,
    required: InputRequired,
    #[cfg(feature = "validation")]
    is_validated: bool,
}

impl Inputs {
    /// Reads the answers in a request.
    ///
    /// # Errors
    ///
    /// They, or the state, do not have the form that they must have.
    ///
    /// Rules: MD-I-11.
    pub fn new(incoming: &IncomingRequest) -> Result<Self, ErrorObject> {
        Self::read(incoming.params(), incoming.version())
    }

    fn read(params: Option<&Json>, version: ProtocolVersion) -> Result<Self, ErrorObject> {
        let members = params.map(|params| params.first_members(["inputResponses", "requestState"]));
        let [responses, state] = members.unwrap_or_default();
        let malformed = |what| ErrorObject::invalid_params(what);
        let mut answers = BTreeMap::new();
        if let Some(state) = state {
            let earlier = state.as_string().and_then(|state| Json::parse(state.into_owned()).ok());
            let earlier = earlier.filter(Json::is_object);
            let earlier = earlier.ok_or_else(|| malformed("requestState is not one of this request"))?;
            answers.extend(earlier.entries().filter_map(|(key, answer)| Some((key?, answer))));
        }
        if let Some(responses) = responses {
            if !responses.is_object() {
                return Err(malformed("inputResponses must be an object"));
            }
            answers.extend(responses.entries().filter_map(|(key, answer)| Some((key?, answer))));
        }
        Ok(Self {
            version,
            answers,
            required: InputRequired::new(),
            #[cfg(feature = "validation")]
            is_validated: false,
        })
    }

    /// Validates what users enter into forms by the schemas of the forms: lengths, ranges, choices and formats. A field that is
    /// null where the form accepts none is taken as not filled in.
    #[cfg(feature = "validation")]
    #[must_use]
    pub const fn validated(mut self) -> Self {
        self.is_validated = true;
        self
    }

    /// The answer to a form, or to the request to visit a URL; `None` if the user must be asked first. The key is unique
    /// in the request.
    ///
    /// # Errors
    ///
    /// The answer does not have the form that it must have.
    ///
    /// Rules: MD-I-11.
    pub fn elicit(
        &mut self,
        key: &str,
        params: impl Into<ElicitRequestParams>,
    ) -> Result<Option<ElicitResult>, ErrorObject> {
        let params = params.into();
        let answer = self.answer_to::<ElicitRequest>(key, &params)?;
        #[cfg(feature = "validation")]
        let answer = match answer {
            Some(answer) if self.is_validated => Some(accepted(key, &params, answer)?),
            answer => answer,
        };
        Ok(answer)
    }

    /// What the user has entered into the form that [`form_of`](crate::router::form_of) makes of `T`; `None` if the
    /// user must be asked first. The key is unique in the request.
    ///
    /// # Errors
    ///
    /// `T` cannot be shown as a form of the client's revision, or what the client has sent is not a `T`.
    #[cfg(feature = "schema")]
    pub fn elicit_as<T: DeserializeOwned + JsonSchema>(
        &mut self,
        key: &str,
        message: &str,
    ) -> Result<Option<Elicited<T>>, HandlerError> {
        let form = form_of::<T>(self.version)?;
        let Some(answer) = self.elicit(key, ElicitRequestFormParams::new(message, form))? else { return Ok(None) };
        Ok(Some(match answer.action {
            ElicitAction::Accept => {
                let content = answer.content.map_or(Json::empty_object(), Json::from);
                Elicited::Accepted(arguments::read(&content).map_err(|error| {
                    let reason = format!("the answer to '{key}' does not match its form: {error}");
                    ErrorObject::invalid_params(&reason)
                })?)
            }
            ElicitAction::Decline => Elicited::Declined,
            ElicitAction::Cancel | ElicitAction::Other(_) | _ => Elicited::Cancelled,
        }))
    }

    /// The message that the client's language model has written; `None` if it must be asked first. The key is unique in
    /// the request.
    ///
    /// Sampling is deprecated since 2026-07-28, and goes on working: a server calls a language model by itself instead.
    ///
    /// # Errors
    ///
    /// As for [`Inputs::elicit`].
    pub fn sample(
        &mut self,
        key: &str,
        params: &CreateMessageRequestParams,
    ) -> Result<Option<CreateMessageResult>, ErrorObject> {
        self.answer_to::<CreateMessageRequest>(key, params)
    }

    /// The roots of the client; `None` if it must be asked first. The key is unique in the request.
    ///
    /// Roots are deprecated since 2026-07-28, and go on working: the arguments of a tool, the URIs of resources or the
    /// configuration of the server state instead what it works on.
    ///
    /// # Errors
    ///
    /// As for [`Inputs::elicit`].
    pub fn roots(&mut self, key: &str) -> Result<Option<ListRootsResult>, ErrorObject> {
        self.answer_to::<ListRootsRequest>(key, &RequestParams::new())
    }

    fn answer_to<R: RequestMethod>(&mut self, key: &str, params: &R::Params) -> Result<Option<R::Result>, ErrorObject> {
        if let Some(answer) = self.answers.get(key) {
            let malformed = |error| ErrorObject::invalid_params(&format!("the answer to '{key}': {error}"));
            return R::Result::from_json(answer).map(Some).map_err(malformed);
        }
        self.required = std::mem::take(&mut self.required).ask(key, R::METHOD, params.to_json());
        Ok(None)
    }

    /// The requests for input that are not answered yet, as the error that the handler returns.
    #[must_use = "the handler returns it"]
    pub fn required<E: From<InputRequired>>(self) -> E {
        let Self { answers, required, .. } = self;
        if answers.is_empty() {
            return E::from(required);
        }
        let answers: Vec<_> = answers.iter().map(|(key, answer)| (key.as_str(), answer)).collect();
        E::from(required.state(&Json::empty_object().with_members(&answers).to_text()))
    }
}

/// What a user has done with a form.
#[cfg(feature = "schema")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elicited<T> {
    /// The user has entered this.
    Accepted(T),
    /// The user has refused.
    Declined,
    /// The user has closed the form without a choice.
    Cancelled,
}

/// The answer, if what was entered conforms to the form.
#[cfg(feature = "validation")]
fn accepted(key: &str, params: &ElicitRequestParams, mut answer: ElicitResult) -> Result<ElicitResult, ErrorObject> {
    let (ElicitRequestParams::Form(form), ElicitAction::Accept) = (params, &answer.action) else { return Ok(answer) };
    let schema = CompiledSchema::of_form(&form.requested_schema).map_err(|error| {
        ErrorObject::new(code::INTERNAL_ERROR, &format!("the form '{key}' is no JSON Schema: {error}"))
    })?;
    let entered = answer.content.take().map_or(Json::empty_object(), Json::from);
    let accepted = schema.accept(&entered).map_err(|mismatch| {
        ErrorObject::invalid_params(&format!("the answer to '{key}' does not match its form: {mismatch}"))
    })?;
    answer.content = JsonObject::try_from(accepted).ok();
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use mcp_model::{ElicitAction, ElicitRequestFormParams, RequestedSchema};

    use super::*;

    fn inputs(params: &str) -> Result<Inputs, ErrorObject> {
        Inputs::read(Some(&Json::parse(params.to_owned()).unwrap()), ProtocolVersion::LATEST)
    }

    fn form() -> ElicitRequestFormParams {
        ElicitRequestFormParams::new("?", RequestedSchema::form())
    }

    #[test]
    fn md_i_10_answers_of_earlier_rounds_come_back_with_the_state() {
        let mut first = inputs("{}").unwrap();
        assert!(first.elicit("a", form()).unwrap().is_none());
        let required = Json::from(first.required::<InputRequired>());
        assert!(required.first_member("requestState").is_none());

        let mut second = inputs(r#"{"inputResponses":{"a":{"action":"accept","content":{"x":1}}}}"#).unwrap();
        assert!(second.elicit("a", form()).unwrap().is_some());
        assert!(second.roots("b").unwrap().is_none());
        let required = Json::from(second.required::<InputRequired>());
        let state = required.first_member("requestState").unwrap();

        let retry =
            Json::parse(r#"{"inputResponses":{"b":{"roots":[]}}}"#).unwrap().with_member("requestState", &state);
        let mut third = Inputs::read(Some(&retry), ProtocolVersion::LATEST).unwrap();
        assert_eq!(third.elicit("a", form()).unwrap().unwrap().action, ElicitAction::Accept);
        assert_eq!(third.roots("b").unwrap().unwrap().roots, []);
    }

    #[test]
    fn md_i_11_malformed_answers_and_states_are_errors() {
        for params in
            [r#"{"inputResponses":[]}"#, r#"{"requestState":7}"#, r#"{"requestState":"x"}"#, r#"{"requestState":"[]"}"#]
        {
            assert_eq!(inputs(params).unwrap_err().code(), -32602, "{params}");
        }
        let mut inputs = inputs(r#"{"inputResponses":{"a":{"action":7}}}"#).unwrap();
        let error = inputs.elicit("a", form()).unwrap_err();
        assert_eq!(
            (error.code(), error.message().as_str()),
            (-32602, "invalid params: the answer to 'a': action: expected a string")
        );
    }

    #[cfg(feature = "validation")]
    #[test]
    fn what_is_entered_into_a_form_is_validated_if_that_is_wanted() {
        use mcp_model::{NumberSchema, StringSchema};

        let form = RequestedSchema::form()
            .with_required("persons", NumberSchema::new(mcp_model::NumberKind::Integer).minimum(1).maximum(8))
            .with("mail", StringSchema::new().format("email"));
        let form = || ElicitRequestFormParams::new("?", form.clone());
        let answered = |answer: &str| inputs(&format!(r#"{{"inputResponses":{{"a":{answer}}}}}"#)).unwrap();
        for (answer, wrong) in [
            (r#"{"action":"accept","content":{"persons":2,"mail":"ada@example.com"}}"#, None),
            (r#"{"action":"decline"}"#, None),
            (
                r#"{"action":"accept","content":{"persons":9}}"#,
                Some("'persons': value is greater than the maximum of 8"),
            ),
            (r#"{"action":"accept","content":{"persons":2,"mail":"x"}}"#, Some("'mail': value is not a \"email\"")),
            (r#"{"action":"accept"}"#, Some("\"persons\" is a required property")),
        ] {
            assert!(answered(answer).elicit("a", form()).is_ok(), "{answer}");
            let validated = answered(answer).validated().elicit("a", form());
            let expected =
                wrong.map(|wrong| format!("invalid params: the answer to 'a' does not match its form: {wrong}"));
            assert_eq!(validated.err().map(|error| error.message()), expected, "{answer}");
        }
        let unfilled = r#"{"action":"accept","content":{"persons":2,"mail":null}}"#;
        let accepted = answered(unfilled).validated().elicit("a", form()).unwrap().unwrap();
        assert_eq!(accepted.content.unwrap().to_string(), r#"{"persons":2}"#);
    }
}
