//! Tools and a prompt that require input from the client before they answer.

use std::time::Duration;

use mcp_model::{CallToolResult, GetPromptResult, PromptMessage};
use mcp_proto::server::InputRequired;
use mcp_proto::{ErrorObject, Json};
use serde_json::{Value, json};

use super::caller::Caller;
use super::invalid;

/// The time for which a sealed state is valid.
const LIFETIME: Duration = Duration::from_secs(600);

/// One of these tools.
pub(super) struct Asking {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    call: fn(&Caller<'_>, &Answers) -> Result<Json, ErrorObject>,
}

pub(super) const TOOLS: [Asking; 9] = [
    Asking {
        name: "test_input_required_result_elicitation",
        description: "Asks for a name",
        call: |_, answers| {
            Ok(match answers.text("user_name", "name") {
                Some(name) => text(&format!("Hello, {name}!")),
                None => ask_for_name().into(),
            })
        },
    },
    Asking {
        name: "test_input_required_result_sampling",
        description: "Asks the client's model",
        call: |_, answers| {
            Ok(match answers.sampled("capital_question") {
                Some(answer) => text(&answer),
                None => InputRequired::new()
                    .ask("capital_question", "sampling/createMessage", prompt("What is the capital of France?", 100))
                    .into(),
            })
        },
    },
    Asking {
        name: "test_input_required_result_list_roots",
        description: "Asks for the client's roots",
        call: |_, answers| {
            Ok(match answers.roots("client_roots") {
                Some(roots) => text(&format!("The roots are {roots}.")),
                None => InputRequired::new().ask("client_roots", "roots/list", Json::empty_object()).into(),
            })
        },
    },
    Asking {
        name: "test_input_required_result_request_state",
        description: "Asks for a confirmation, and knows that it has asked",
        call: confirmed,
    },
    Asking {
        name: "test_input_required_result_tampered_state",
        description: "Asks for a confirmation, and trusts no other state than its own",
        call: confirmed,
    },
    Asking {
        name: "test_input_required_result_multiple_inputs",
        description: "Asks for a name, a greeting and the client's roots",
        call: multiple,
    },
    Asking {
        name: "test_input_required_result_multi_round",
        description: "Asks twice, one thing after the other",
        call: multi_round,
    },
    Asking {
        name: "test_input_required_result_capabilities",
        description: "Asks for what the client can give",
        call: what_is_declared,
    },
    Asking {
        name: "test_streaming_elicitation",
        description: "Asks for a name, without a request of the server's own",
        call: |_, answers| {
            Ok(match answers.text("user_name", "name") {
                Some(name) => text(&format!("Hello, {name}!")),
                None => ask_for_name().into(),
            })
        },
    },
];

impl Asking {
    pub(super) fn call(&self, caller: &Caller<'_>) -> Result<Json, ErrorObject> {
        (self.call)(caller, &Answers::of(caller))
    }
}

/// What a tool requires that needs the user's name.
pub(super) fn ask_for_name() -> InputRequired {
    InputRequired::new().ask("user_name", "elicitation/create", name_form())
}

/// A prompt whose text depends on the user.
pub(super) fn prompt_with_context(caller: &Caller<'_>) -> Json {
    let Some(context) = Answers::of(caller).text("user_context", "context") else {
        let form = form("What context should the prompt use?", "context", "string");
        return InputRequired::new().ask("user_context", "elicitation/create", form).into();
    };
    GetPromptResult::new([PromptMessage::user(format!("The context is: {context}"))]).into()
}

/// The client's answer with this key, if the request has it.
pub(super) fn answer(caller: &Caller<'_>, key: &str) -> Option<Value> {
    Answers::of(caller).0.get(key).cloned()
}

fn confirmed(caller: &Caller<'_>, answers: &Answers) -> Result<Json, ErrorObject> {
    let state = caller.open_state()?;
    let is_confirmed = answers.content("confirm").is_some_and(|content| content["ok"].is_boolean());
    if state.as_deref() == Some("asked") && is_confirmed {
        return Ok(text("Confirmed: state-ok"));
    }
    let asked = InputRequired::new().ask("confirm", "elicitation/create", form("Please confirm", "ok", "boolean"));
    Ok(asked.state(&caller.seal_state("asked", LIFETIME)).into())
}

fn multiple(caller: &Caller<'_>, answers: &Answers) -> Result<Json, ErrorObject> {
    let state = caller.open_state()?;
    let given = (answers.text("user_name", "name"), answers.sampled("greeting"), answers.roots("client_roots"));
    if let (Some(_), (Some(name), Some(greeting), Some(roots))) = (state, given) {
        return Ok(text(&format!("{greeting} {name}! Your roots are {roots}.")));
    }
    Ok(InputRequired::new()
        .ask("user_name", "elicitation/create", name_form())
        .ask("greeting", "sampling/createMessage", prompt("Generate a greeting", 50))
        .ask("client_roots", "roots/list", Json::empty_object())
        .state(&caller.seal_state("asked", LIFETIME))
        .into())
}

fn multi_round(caller: &Caller<'_>, answers: &Answers) -> Result<Json, ErrorObject> {
    let state = caller.open_state()?;
    let name = state.as_deref().and_then(|state| state.strip_prefix("name:")).map(str::to_owned);
    if let (Some(name), Some(color)) = (&name, answers.text("step2", "color")) {
        return Ok(text(&format!("{name} likes {color}.")));
    }
    let asked_before = state.as_deref() == Some("first");
    let Some(name) = name.or_else(|| answers.text("step1", "name").filter(|_| asked_before)) else {
        let form = form("Step 1: What is your name?", "name", "string");
        let state = caller.seal_state("first", LIFETIME);
        return Ok(InputRequired::new().ask("step1", "elicitation/create", form).state(&state).into());
    };
    let form = form("Step 2: What is your favorite color?", "color", "string");
    let state = caller.seal_state(&format!("name:{name}"), LIFETIME);
    Ok(InputRequired::new().ask("step2", "elicitation/create", form).state(&state).into())
}

fn what_is_declared(caller: &Caller<'_>, answers: &Answers) -> Result<Json, ErrorObject> {
    if let Some(given) = answers.text("user_name", "name").or_else(|| answers.sampled("greeting")) {
        return Ok(text(&format!("The client gave: {given}")));
    }
    let mut asked = InputRequired::new().state(&caller.seal_state("asked", LIFETIME));
    if caller.declares("elicitation") {
        asked = asked.ask("user_name", "elicitation/create", name_form());
    }
    if caller.declares("sampling") {
        asked = asked.ask("greeting", "sampling/createMessage", prompt("Generate a greeting", 50));
    }
    if !caller.declares("elicitation") && !caller.declares("sampling") {
        return Err(invalid("the client can be asked for nothing"));
    }
    Ok(asked.into())
}

/// The client's `inputResponses`. Answers of another form than requested are treated as absent.
pub(super) struct Answers(Value);

impl Answers {
    pub(super) fn of(caller: &Caller<'_>) -> Self {
        let answers = caller.params().and_then(|params| params.member("inputResponses").ok().flatten());
        Self(answers.and_then(|answers| answers.read().ok()).unwrap_or_default())
    }

    /// The content of the form with this key, if the user has accepted it.
    pub(super) fn content(&self, key: &str) -> Option<&Value> {
        let answer = &self.0[key];
        (answer["action"] == "accept").then(|| &answer["content"])
    }

    pub(super) fn text(&self, key: &str, field: &str) -> Option<String> {
        self.content(key)?[field].as_str().map(str::to_owned)
    }

    fn sampled(&self, key: &str) -> Option<String> {
        self.0[key]["content"]["text"].as_str().map(str::to_owned)
    }

    fn roots(&self, key: &str) -> Option<String> {
        let roots = self.0[key]["roots"].as_array()?;
        Some(roots.iter().filter_map(|root| root["uri"].as_str()).collect::<Vec<_>>().join(", "))
    }
}

fn text(text: &str) -> Json {
    CallToolResult::text(text).into()
}

fn name_form() -> Json {
    form("What is your name?", "name", "string")
}

pub(super) fn form(message: &str, field: &str, kind: &str) -> Json {
    let schema = json!({ "type": "object", "properties": { field: { "type": kind } }, "required": [field] });
    to_json(&json!({ "message": message, "requestedSchema": schema }))
}

fn prompt(text: &str, max_tokens: u32) -> Json {
    let message = json!({ "role": "user", "content": { "type": "text", "text": text } });
    to_json(&json!({ "messages": [message], "maxTokens": max_tokens }))
}

fn to_json(value: &Value) -> Json {
    Json::from_serialize(value).expect("a tree of JSON is JSON")
}
