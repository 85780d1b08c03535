//! The typed model reads what the official schemas allow, loses nothing, and writes only what they allow.

use jsonschema::Validator;
use mcp_model::{
    Annotations, BlobResourceContents, CacheScope, CallToolRequestParams, CallToolResult, ClientCapabilities,
    CompleteRequestParams, CompleteResult, Completion, CompletionArgument, CompletionReference, ContentBlock,
    CreateMessageRequest, CreateMessageRequestParams, CreateMessageResult, CreateTaskResult, DiscoverResult,
    ElicitRequest, ElicitRequestFormParams, ElicitRequestParams, ElicitRequestURLParams, ElicitResult,
    ElicitationCapability, EnumOption, GetPromptRequestParams, GetPromptResult, GetTaskResult, Icon, Implementation,
    InitializeResult, InputRequest, InputRequiredResult, InputResponses, JsonObject, ListRootsRequest, ListRootsResult,
    ListToolsResult, LoggingLevel, LoggingMessageNotificationParams, Meta, Number, NumberKind, NumberSchema, Payload,
    PrimitiveSchemaDefinition, ProgressNotificationParams, ProgressToken, Prompt, PromptArgument, PromptMessage,
    PromptReference, ReadResourceResult, RequestedSchema, Resource, ResourceContents, ResourceLink, ResourceTemplate,
    Role, Root, RootsCapability, SamplingMessage, SamplingMessageContentBlock, ServerCapabilities, SkillResources,
    StringSchema, SubscriptionFilter, SubscriptionsAcknowledgedNotificationParams, SubscriptionsListenRequestParams,
    SubscriptionsListenResult, Task, TaskMetadata, TaskStatus, TextContent, TextResourceContents, TitledItems,
    TitledMultiSelectEnumSchema, Tool, ToolAnnotations, ToolResultContent, ToolUseContent, ToolsCapability, Ttl,
};
use mcp_proto::spec::meta::{CLIENT_CAPABILITIES, PROTOCOL_VERSION};
use mcp_proto::{ErrorObject, Json, Message, Method, ProtocolVersion, Response, code};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use tests::json_text;
use tests::model_types::{Entry, Shape, notifications, requests, shape, shapes};
use tests::schema::Schema;
use tests::vectors::Capture;

fn to_json(value: &Value) -> Json {
    Json::from_serialize(value).unwrap()
}

fn to_value(json: &Json) -> Value {
    json.read().unwrap()
}

fn read<T: Payload>(text: &str) -> T {
    T::from_json(&Json::parse(text.to_owned()).unwrap()).unwrap()
}

fn validator(schema: &Schema, part: &Value) -> Validator {
    jsonschema::validator_for(&schema.document(part)).unwrap()
}

fn methods() -> Vec<Entry> {
    requests().into_iter().chain(notifications()).collect()
}

/// The parts of a schema for which the model has a type, each with a name for messages.
fn parts(schema: &Schema) -> Vec<(String, &Value, Shape)> {
    let named = schema.names().filter_map(|name| {
        let shape = shape(name)?;
        Some((format!("{} {name}", schema.version), schema.definition(name), shape))
    });
    let params = methods().into_iter().filter_map(|entry| {
        let params = schema.definition(entry.name).pointer("/properties/params")?;
        Some((format!("{} {}", schema.version, entry.name), params, entry.params))
    });
    let results = requests().into_iter().filter_map(|entry| {
        let name = format!("{}Result", entry.name.strip_suffix("Request")?);
        let definition = schema.definition(&name);
        definition.is_object().then(|| (format!("{} {name}", schema.version), definition, entry.result.unwrap()))
    });
    named.chain(params).chain(results).collect()
}

/// A generated value with the `resultType` that distinguishes its type, for which the schema allows any string.
fn of_kind(name: &str, mut value: Value) -> Value {
    if name.ends_with(" InputRequiredResult") {
        value["resultType"] = json!("input_required");
    }
    value
}

#[test]
fn what_a_schema_allows_is_read_and_written_without_loss() {
    for schema in Schema::all() {
        for (name, part, shape) in parts(&schema) {
            let validator = validator(&schema, part);
            let config = ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() };
            let outcome = TestRunner::new(config).run(&schema.values(part, false), |value| {
                let value = of_kind(&name, value);
                prop_assert!(validator.is_valid(&value), "the test made a wrong value");
                let written = shape.rewrite(&to_json(&value));
                prop_assert_eq!(written.as_ref().map(to_value), Ok(value));
                Ok(())
            });
            assert!(outcome.is_ok(), "{name}: {outcome:?}");
        }
    }
}

#[test]
fn every_method_of_a_schema_has_its_types() {
    for schema in Schema::all() {
        for (union, entries) in [
            ("ClientRequest", requests()),
            ("ServerRequest", requests()),
            ("ClientNotification", notifications()),
            ("ServerNotification", notifications()),
        ] {
            for name in schema.union(union) {
                let entry = entries.iter().find(|entry| entry.name == name);
                let entry = entry.unwrap_or_else(|| panic!("{}: the model has no {name}", schema.version));
                let method = schema.definition(name).pointer("/properties/method/const");
                assert_eq!(method.and_then(Value::as_str), Some(entry.method.as_str()), "{name}");
            }
        }
    }
}

#[test]
fn every_definition_of_a_schema_has_its_type() {
    let without = [
        ("Annotated", "a base of others"),
        ("BaseMetadata", "a base of others"),
        ("CacheableResult", "a base of others"),
        ("ClientNotification", "a union of messages"),
        ("ClientRequest", "a union of messages"),
        ("ClientResult", "a union of results"),
        ("Cursor", "a string"),
        ("Error", "mcp_proto::ErrorObject"),
        ("HeaderMismatchError", "mcp_proto::ErrorObject"),
        ("Icons", "a base of others"),
        ("InputRequests", "a map of InputRequest"),
        ("InputResponse", "read as the result of the method that was requested"),
        ("InputResponseRequestParams", "a base of others"),
        ("InternalError", "mcp_proto::ErrorObject"),
        ("InvalidParamsError", "mcp_proto::ErrorObject"),
        ("InvalidRequestError", "mcp_proto::ErrorObject"),
        ("JSONArray", "mcp_proto::Json"),
        ("JSONObject", "mcp_model::JsonObject"),
        ("JSONRPCBatchRequest", "mcp_proto::Frame"),
        ("JSONRPCBatchResponse", "mcp_proto::Frame"),
        ("JSONRPCError", "mcp_proto::Response"),
        ("JSONRPCErrorResponse", "mcp_proto::Response"),
        ("JSONRPCMessage", "mcp_proto::Message"),
        ("JSONRPCNotification", "mcp_proto::Notification"),
        ("JSONRPCRequest", "mcp_proto::Request"),
        ("JSONRPCResponse", "mcp_proto::Response"),
        ("JSONRPCResultResponse", "mcp_proto::Response"),
        ("JSONValue", "mcp_proto::Json"),
        ("MetaObject", "mcp_model::Meta"),
        ("MethodNotFoundError", "mcp_proto::ErrorObject"),
        ("MissingRequiredClientCapabilityError", "mcp_proto::ErrorObject"),
        ("Notification", "a base of others"),
        ("NotificationMetaObject", "mcp_model::Meta"),
        ("PaginatedRequest", "a base of others"),
        ("PaginatedResult", "a base of others"),
        ("ParseError", "mcp_proto::ErrorObject"),
        ("RelatedTaskMetadata", "Meta::related_task"),
        ("Request", "a base of others"),
        ("RequestId", "mcp_proto::RequestId"),
        ("RequestMetaObject", "mcp_model::Meta"),
        ("ResourceRequestParams", "a base of others"),
        ("Result", "a base of others"),
        ("ResultMetaObject", "mcp_model::Meta"),
        ("ResultType", "a string, which the machines write and read"),
        ("ServerNotification", "a union of messages"),
        ("ServerRequest", "a union of messages"),
        ("ServerResult", "a union of results"),
        ("SubscriptionsListenResultMetaObject", "mcp_model::Meta"),
        ("TaskAugmentedRequestParams", "a base of others"),
        ("URLElicitationRequiredError", "mcp_proto::ErrorObject, whose data holds ElicitRequestURLParams"),
        ("UnsupportedProtocolVersionError", "mcp_proto::ErrorObject"),
    ];
    let known = |name: &str| {
        shape(name).is_some()
            // A whole response with a result of this method: `mcp_proto::Response`.
            || name.ends_with("ResultResponse")
            || methods().iter().any(|entry| entry.name == name)
            || without.iter().any(|(other, _)| *other == name)
    };
    for schema in Schema::all() {
        for name in schema.names() {
            assert!(known(name), "{}: the model has no {name}", schema.version);
        }
    }
}

/// Collects the places of all members that a schema names within itself, as JSON pointers below `at`.
fn places(schema: &Value, at: &str, found: &mut Vec<String>) {
    // These contain the application's own values, or any JSON in 2026-07-28, or are read on demand.
    let open = ["_meta", "inputSchema", "outputSchema", "structuredContent"];
    // Any JSON in 2026-07-28, and a member that the machines write and read.
    let untyped = ["structuredContent", "resultType"];
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        let place = format!("{at}/{name}");
        if !open.contains(&name.as_str()) {
            places(schema, &place, found);
        }
        if !untyped.contains(&name.as_str()) {
            found.push(place);
        }
    }
}

/// The model keeps an unknown member whatever its value is, so a known one is one whose wrong values are refused.
#[test]
fn every_member_that_a_schema_names_is_known_to_its_type() {
    let mut members = 0;
    for schema in Schema::all() {
        for (name, part, shape) in parts(&schema) {
            // A union reads an object with a wrong member as an unknown variant and keeps it, so unions are skipped
            // here.
            if name.ends_with(" ResourceContents") || !part["anyOf"].is_null() {
                continue;
            }
            let validator = validator(&schema, part);
            let whole = schema.values(part, true).new_tree(&mut TestRunner::deterministic()).unwrap().current();
            let whole = of_kind(&name, whole);
            let mut found = Vec::new();
            places(part, "", &mut found);
            for place in found {
                let refused = [json!(true), json!(7), json!([7])].into_iter().find_map(|wrong| {
                    let mut changed = whole.clone();
                    *changed.pointer_mut(&place)? = wrong;
                    (!validator.is_valid(&changed)).then(|| shape.rewrite(&to_json(&changed)))
                });
                let Some(refused) = refused else { continue };
                let error = refused.expect_err(&format!("{name}{place} was not read as its type"));
                assert!(format!("/{}", error.path().replace('.', "/")).starts_with(&place), "{name}{place}: {error}");
                members += 1;
            }
        }
    }
    assert!(members > 1000 || Schema::all().is_empty(), "{members}");
}

#[test]
fn every_kind_of_object_that_a_schema_names_is_known_to_its_union() {
    macro_rules! is_known {
        ($($union:ident: $($name:literal)*;)*) => {{
            fn is_known(name: &str, json: &Json) -> bool {
                match name {
                    $($($name)|* => !matches!($union::from_json(json).unwrap(), $union::Other(_)),)*
                    _ => panic!("{name} is of no union"),
                }
            }
            ([$($($name,)*)*], is_known)
        }};
    }
    let (names, is_known) = is_known! {
        CompletionReference: "PromptReference" "ResourceReference" "ResourceTemplateReference";
        ContentBlock: "TextContent" "ImageContent" "AudioContent" "ResourceLink" "EmbeddedResource";
        InputRequest: "CreateMessageRequest" "ElicitRequest" "ListRootsRequest";
        ElicitRequestParams: "ElicitRequestFormParams" "ElicitRequestURLParams";
        PrimitiveSchemaDefinition: "BooleanSchema" "EnumSchema" "LegacyTitledEnumSchema" "NumberSchema" "StringSchema"
            "TitledMultiSelectEnumSchema" "TitledSingleSelectEnumSchema" "UntitledMultiSelectEnumSchema"
            "UntitledSingleSelectEnumSchema";
        ResourceContents: "BlobResourceContents" "TextResourceContents";
        SamplingMessageContentBlock: "ToolResultContent" "ToolUseContent";
    };
    for schema in Schema::all() {
        for name in schema.names().filter(|name| names.contains(name)) {
            let values = schema.values(schema.definition(name), false);
            let value = values.new_tree(&mut TestRunner::deterministic()).unwrap().current();
            assert!(is_known(name, &to_json(&value)), "{} {name}", schema.version);
        }
    }
}

/// Objects from the constructors of the model, with the first revision that has each and its name in the schema.
fn built() -> Vec<(ProtocolVersion, &'static str, Json)> {
    let oldest = ProtocolVersion::V2024_11_05;
    let audio = ProtocolVersion::V2025_03_26;
    let titles = ProtocolVersion::V2025_06_18;
    let tasks = ProtocolVersion::V2025_11_25;
    let modern = ProtocolVersion::V2026_07_28;
    let schema = JsonObject::new().with("type", "object");
    let task = Task::new("t1", TaskStatus::Working, "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", Ttl::Unlimited);
    let form = RequestedSchema::form()
        .with_required("name", StringSchema::new().min_length(1))
        .with("age", NumberSchema::new(NumberKind::Integer).minimum(0));
    let choice = EnumOption::new("a", "A");
    let choices = RequestedSchema::form().with("any", TitledMultiSelectEnumSchema::new(TitledItems::new([choice])));
    let asked = CreateMessageRequestParams::new([SamplingMessage::user("Hello?")], 10).temperature(0.5);
    let tool_use = ToolUseContent::new("u1", "weather", JsonObject::new());
    let tool_result = ToolResultContent::new("u1");
    let argument = CompletionArgument::new("city", "Pa");
    vec![
        (oldest, "CallToolResult", CallToolResult::text("hi").into()),
        (oldest, "CallToolResult", CallToolResult::new().into()),
        (oldest, "CallToolResult", CallToolResult::error("no").into()),
        (oldest, "CallToolResult", CallToolResult::image(b"\x89PNG", "image/png").and("a text").into()),
        (oldest, "CallToolResult", CallToolResult::resource(TextResourceContents::new("file:///a", "a")).into()),
        (
            oldest,
            "CallToolResult",
            CallToolResult::resource(BlobResourceContents::from_bytes("file:///a", b"a")).into(),
        ),
        (audio, "CallToolResult", CallToolResult::audio(b"RIFF", "audio/wav").into()),
        (titles, "CallToolResult", CallToolResult::resource_link(ResourceLink::new("file:///a", "a")).into()),
        (titles, "CallToolResult", CallToolResult::resource_link(Resource::new("file:///a", "a").size(7_u64)).into()),
        (titles, "CallToolResult", CallToolResult::structured(JsonObject::new().with("n", 1)).into()),
        (oldest, "Tool", Tool::without_arguments("a").description("A").into()),
        (audio, "Tool", Tool::new("a", schema.clone()).annotations(ToolAnnotations::new().read_only_hint(true)).into()),
        (tasks, "Tool", Tool::new("a", schema).title("A").icons([Icon::new("https://example.com/a.png")]).into()),
        (oldest, "ListToolsResult", ListToolsResult::new([Tool::without_arguments("a")]).next_cursor("p2").into()),
        (oldest, "Prompt", Prompt::new("a").arguments([PromptArgument::new("b").required(true)]).into()),
        (oldest, "GetPromptResult", GetPromptResult::new([PromptMessage::assistant("a")]).into()),
        (
            oldest,
            "ReadResourceResult",
            ReadResourceResult::new([TextResourceContents::new("file:///a", "").into()]).into(),
        ),
        (oldest, "ResourceTemplate", ResourceTemplate::new("file:///{a}", "a").mime_type("text/plain").into()),
        (
            oldest,
            "TextContent",
            TextContent::new("a").annotations(Annotations::new().priority(0.5).audience([Role::User])).into(),
        ),
        (oldest, "CompleteResult", CompleteResult::new(Completion::new(["Paris".to_owned()]).total(1)).into()),
        (tasks, "CompleteRequestParams", CompleteRequestParams::new(PromptReference::new("a"), argument).into()),
        (oldest, "Implementation", Implementation::new("a", "1").into()),
        (
            oldest,
            "ClientCapabilities",
            ClientCapabilities::new().roots(RootsCapability::new().list_changed(true)).into(),
        ),
        (titles, "ClientCapabilities", ClientCapabilities::new().elicitation(ElicitationCapability::new()).into()),
        (
            oldest,
            "ServerCapabilities",
            ServerCapabilities::new().tools(ToolsCapability::new()).logging(JsonObject::new()).into(),
        ),
        (
            oldest,
            "InitializeResult",
            InitializeResult::new("2024-11-05", ServerCapabilities::new(), Implementation::new("a", "1")).into(),
        ),
        (oldest, "ListRootsResult", ListRootsResult::new([Root::new("file:///a").name("a")]).into()),
        (tasks, "CreateMessageRequestParams", asked.into()),
        (oldest, "CreateMessageResult", CreateMessageResult::new(Role::Assistant, "Hi.", "m").into()),
        (
            tasks,
            "CreateMessageResult",
            CreateMessageResult::new(Role::Assistant, vec![tool_use.into(), tool_result.into()], "m").into(),
        ),
        (tasks, "ElicitRequestFormParams", ElicitRequestFormParams::new("Who?", form).into()),
        (tasks, "ElicitRequestFormParams", ElicitRequestFormParams::new("Which?", choices).into()),
        (
            tasks,
            "ElicitRequestURLParams",
            ElicitRequestURLParams::new("Go", "https://example.com").elicitation_id("e1").into(),
        ),
        (titles, "ElicitResult", ElicitResult::accept(JsonObject::new().with("name", "Ada")).into()),
        (titles, "ElicitResult", ElicitResult::cancel().into()),
        (tasks, "CallToolRequestParams", CallToolRequestParams::new("a").task(TaskMetadata::new().ttl(60_000)).into()),
        (tasks, "GetTaskResult", GetTaskResult::from(task.clone()).into()),
        (tasks, "CreateTaskResult", CreateTaskResult::new(task).meta(Meta::new().with_related_task("t1")).into()),
        (
            tasks,
            "LoggingMessageNotificationParams",
            LoggingMessageNotificationParams::new(LoggingLevel::Info, "a").into(),
        ),
        (
            modern,
            "DiscoverResult",
            DiscoverResult::new(["2026-07-28".to_owned()], ServerCapabilities::new()).instructions("Ask.").into(),
        ),
        (modern, "ListToolsResult", ListToolsResult::new([]).ttl_ms(5).cache_scope(CacheScope::Public).into()),
        (
            modern,
            "SubscriptionsListenRequestParams",
            SubscriptionsListenRequestParams::new(SubscriptionFilter::new().tools_list_changed(true)).into(),
        ),
        (
            modern,
            "SubscriptionsListenResult",
            SubscriptionsListenResult::new().meta(Meta::new().with_subscription_id(&7.into())).into(),
        ),
        (
            modern,
            "SubscriptionsAcknowledgedNotificationParams",
            SubscriptionsAcknowledgedNotificationParams::new(SubscriptionFilter::new().resource("file:///a")).into(),
        ),
        (
            modern,
            "InputRequiredResult",
            InputRequiredResult::new()
                .ask("form", ElicitRequestFormParams::new("Who?", RequestedSchema::form()))
                .ask("url", ElicitRequestURLParams::new("Go", "https://example.com"))
                .ask("text", CreateMessageRequestParams::new([SamplingMessage::user("Hello?")], 10))
                .ask("roots", InputRequest::list_roots())
                .request_state("s")
                .into(),
        ),
        (modern, "InputRequiredResult", InputRequiredResult::new().request_state("s").into()),
        (
            modern,
            "CallToolRequestParams",
            CallToolRequestParams::new("a")
                .input_responses(InputResponses::new().with("form", ElicitResult::decline()))
                .request_state("s")
                .into(),
        ),
        (tasks, "ProgressNotificationParams", ProgressNotificationParams::new(7, 0.5).total(1).message("half").into()),
    ]
}

/// The value with the members that the machines of 2026-07-28 add to parameters and results.
fn completed(made: &Json, definition: &Value) -> Value {
    let added = [
        ("resultType", json!("complete")),
        ("ttlMs", json!(0)),
        ("cacheScope", json!("private")),
        ("_meta", json!({ PROTOCOL_VERSION: "2026-07-28", CLIENT_CAPABILITIES: {} })),
    ];
    let mut value = to_value(made);
    for (name, add) in added {
        let is_required = definition["required"].as_array().is_some_and(|all| all.contains(&json!(name)));
        if is_required && value[name].is_null() {
            value[name] = add;
        }
    }
    value
}

#[test]
fn what_the_constructors_make_is_what_a_schema_allows() {
    for schema in Schema::all() {
        for (since, name, made) in built() {
            let definition = schema.definition(name);
            let is_removed = schema.version > ProtocolVersion::LATEST_LEGACY && definition.is_null();
            if since <= schema.version && !is_removed {
                let outcome = validator(&schema, definition)
                    .validate(&completed(&made, definition))
                    .map_err(|error| error.to_string());
                assert_eq!(outcome, Ok(()), "{} {name}: {}", schema.version, made.to_text());
            }
        }
    }
}

#[test]
fn recorded_messages_are_read_and_written_without_loss() {
    let (mut read, mut results, mut strange) = (0, 0, Vec::new());
    for capture in Capture::all("") {
        let messages = capture.messages();
        for (side, message) in &messages {
            let (what, shape, payload) = match message {
                Message::Request(request) => {
                    let Some(entry) = requests().into_iter().find(|entry| entry.method == request.method) else {
                        continue;
                    };
                    (entry.name, entry.params, request.params.clone())
                }
                Message::Notification(notification) => {
                    let Some(entry) = notifications().into_iter().find(|entry| entry.method == notification.method)
                    else {
                        continue;
                    };
                    (entry.name, entry.params, notification.params.clone())
                }
                Message::Response(Response::Result { id, result }) => {
                    // In revision 2026-07-28, a result may require input instead of being the result of the method.
                    if to_value(result)["resultType"] == "input_required" {
                        continue;
                    }
                    let mut asked = messages.iter().filter_map(|(by, message)| match message {
                        Message::Request(request) if by != side && request.id == *id => Some(&request.method),
                        _ => None,
                    });
                    let Some(method) = asked.next() else { continue };
                    if asked.any(|other| other != method) {
                        continue; // Some clients reuse ids.
                    }
                    let Some(entry) = requests().into_iter().find(|entry| entry.method == *method) else { continue };
                    (entry.name, entry.result.unwrap(), Some(result.clone()))
                }
                Message::Response(Response::Error { .. }) => continue,
            };
            let Some(payload) = payload else { continue };
            match shape.rewrite(&payload) {
                Ok(written) => {
                    assert_eq!(to_value(&written), to_value(&payload), "{}: {what}", capture.name);
                    read += 1;
                    results += usize::from(shape.name == "result");
                }
                Err(error) => strange.push(format!("{}: {what} {}: {error}", capture.name, shape.name)),
            }
        }
    }
    // The client in this recording sent a result without `roots`.
    assert_eq!(strange, ["server-everysse-2024-11-05.txt: ListRootsRequest result: roots: missing"]);
    assert!(read > 700 && results > 300, "{read} payloads, {results} results");
}

/// JSON that nearly has the members that the types expect, with wrong values. An error must not show `secret`.
fn almost() -> impl Strategy<Value = String> {
    let names = [
        "_meta",
        "action",
        "annotations",
        "anyOf",
        "argument",
        "arguments",
        "blob",
        "capabilities",
        "completion",
        "content",
        "contents",
        "enum",
        "icons",
        "items",
        "messages",
        "mode",
        "name",
        "oneOf",
        "progress",
        "progressToken",
        "prompts",
        "properties",
        "ref",
        "requestedSchema",
        "resource",
        "resources",
        "role",
        "secret",
        "status",
        "structuredContent",
        "task",
        "text",
        "title",
        "tools",
        "ttl",
        "type",
        "uri",
        "values",
    ];
    let words = [
        "secret",
        "text",
        "image",
        "resource",
        "tool_result",
        "ref/prompt",
        "object",
        "string",
        "array",
        "form",
        "user",
    ];
    let leaf = prop_oneof![
        json_text::value(),
        prop::sample::select(words.to_vec()).prop_map(|word| format!("\"{word}\"")),
        Just("\"secret\"".to_owned()),
    ];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..3).prop_map(|elements| format!("[{}]", elements.join(","))),
            4 => prop::collection::vec((prop::sample::select(names.to_vec()), inner), 0..6).prop_map(|members| {
                let members: Vec<_> = members.into_iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_json_is_read_or_refused_without_showing_it(text in almost()) {
        let json = Json::parse(text).unwrap();
        for shape in shapes().into_iter().chain(methods().into_iter().map(|entry| entry.params)) {
            match shape.rewrite(&json) {
                Ok(written) => {
                    // Reading and writing the output again gives the same output.
                    prop_assert_eq!(shape.rewrite(&written), Ok(written), "{}", shape.name);
                }
                Err(error) => {
                    let shown = format!("{error} {error:?} {:?}", ErrorObject::from(error.clone()).message());
                    prop_assert!(!shown.contains("secret"), "{shown}");
                }
            }
        }
    }

    #[test]
    fn unknown_members_keep_their_bytes(value in json_text::value()) {
        let blank_free = Json::parse(value).unwrap();
        let text = format!(r#"{{"name":"a","inputSchema":{{"type":"object"}},"x":{}}}"#, blank_free.to_text());
        let tool: Tool = read(&text);
        prop_assert_eq!(&tool.extra["x"], &blank_free);
        let written = tool.to_json();
        prop_assert_eq!(written.to_text(), text);
    }
}

#[test]
fn numbers_keep_their_digits() {
    for digits in ["1", "1.0", "-0", "1e400", "12345678901234567890123456789.10"] {
        let text = format!(r#"{{"progressToken":1,"progress":{digits}}}"#);
        let params: ProgressNotificationParams = read(&text);
        assert_eq!(params.to_json().to_text(), text);
    }
    for (number, written) in [
        (Number::from(f64::NAN), "0.0"),
        (Number::from(f64::INFINITY), "1.7976931348623157e+308"),
        (Number::from(0.1), "0.1"),
        (Number::from(u64::MAX), "18446744073709551615"),
    ] {
        assert_eq!(number.to_json().to_text(), written);
    }
}

#[test]
fn values_and_content_of_a_newer_revision_are_kept() {
    let text = r#"{"content":[{"type":"video","data":"AA==","n":1.0},{"type":"text","text":"a"}]}"#;
    let result: CallToolResult = read(text);
    assert!(matches!(result.content[..], [ContentBlock::Other(_), ContentBlock::Text(_)]), "{result:?}");
    assert_eq!(result.to_json().to_text(), text);

    let text = r#"{"level":"chatty","data":null}"#;
    let params: LoggingMessageNotificationParams = read(text);
    assert_eq!(params.level, LoggingLevel::Other("chatty".to_owned()));
    assert_eq!(params.to_json().to_text(), text);
}

#[test]
fn absent_content_is_read_as_empty_and_written() {
    let result: CallToolResult = read(r#"{"structuredContent":{"a":1}}"#);
    assert_eq!(result.content, []);
    assert_eq!(result.to_json().to_text(), r#"{"content":[],"structuredContent":{"a":1}}"#);
}

#[test]
fn a_member_that_is_null_is_absent_unless_null_is_a_value() {
    let tool: Tool = read(r#"{"name":"a","inputSchema":{},"title":null}"#);
    assert_eq!(tool.title, None);
    let result: CallToolResult = read(r#"{"content":[],"structuredContent":null}"#);
    assert_eq!(result.to_json().to_text(), r#"{"content":[],"structuredContent":null}"#);
}

#[test]
fn a_member_is_written_once_whatever_extra_holds() {
    let mut tool = Tool::new("a", JsonObject::new());
    tool.extra.insert("name".to_owned(), Json::from("b"));
    tool.extra.insert("x".to_owned(), Json::from(1));
    assert_eq!(tool.to_json().to_text(), r#"{"name":"a","inputSchema":{},"x":1}"#);
}

#[test]
fn p2_two_members_of_one_name_are_refused() {
    for text in [r#"{"name":"a","name":"b"}"#, r#"{"name":"a","x":1,"\u0078":2}"#] {
        let json = Json::parse(text).unwrap();
        let error = CallToolRequestParams::from_json(&json).unwrap_err();
        assert_eq!(error.to_string(), "an object has two members of one name");
    }
}

#[test]
fn errors_name_the_place_and_answer_the_caller() {
    for (text, expected) in [
        ("[]", "expected an object"),
        ("{}", "requestedSchema: missing"),
        (
            r#"{"requestedSchema":{"type":"object","properties":{},"required":["secret",7]}}"#,
            "requestedSchema.required[1]: expected a string",
        ),
        (r#"{"requestedSchema":{"type":"secret","properties":{}}}"#, "requestedSchema.type: expected object"),
    ] {
        let mut text = text.to_owned();
        if text.len() > 1 && text.starts_with('{') {
            text = text.replacen('{', r#"{"message":"m","#, 1).replace(",}", "}");
        }
        let error = ElicitRequestFormParams::from_json(&Json::parse(text).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), expected);
        let answer = ErrorObject::from(error);
        assert_eq!((answer.code(), answer.message()), (code::INVALID_PARAMS, format!("invalid params: {expected}")));
    }
}

#[test]
fn types_that_derive_serde_may_hold_types_of_the_model() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Cache {
        tools: Vec<Tool>,
        token: ProgressToken,
    }
    let text = r#"{"tools":[{"name":"a","inputSchema":{"b":1,"a":1.0},"x":[1e2]}],"token":"t"}"#;
    let cache: Cache = serde_json::from_str(text).unwrap();
    assert_eq!(cache.token, ProgressToken::from("t"));
    assert_eq!(serde_json::to_string(&cache).unwrap(), text);
    let error = serde_json::from_str::<Cache>(r#"{"tools":[{"name":7,"secret":1}]}"#).err().unwrap();
    assert!(error.to_string().starts_with("name: expected a string"), "{error}");
}

#[test]
fn base64_is_read_with_and_without_padding_and_errors_show_none() {
    for data in ["aGk=", "aGk"] {
        let blob = BlobResourceContents::new("file:///a", data);
        assert_eq!(blob.to_bytes().as_deref(), Ok(&b"hi"[..]));
    }
    let error = BlobResourceContents::new("file:///a", "sec*ret").to_bytes().unwrap_err();
    assert_eq!(error.to_string(), "blob: expected Base64");
}

#[test]
fn metadata_is_read_on_demand_and_never_in_the_way() {
    let params: CallToolRequestParams =
        read(r#"{"name":"a","_meta":{"progressToken":[],"io.modelcontextprotocol/related-task":7}}"#);
    let meta = params.meta.unwrap();
    assert_eq!((meta.progress_token(), meta.related_task()), (None, None));
    let meta = Meta::new().with_progress_token(7).with_related_task("t1");
    assert_eq!((meta.progress_token(), meta.related_task().as_deref()), (Some(ProgressToken::from(7)), Some("t1")));
}

#[test]
fn md_i_05_the_input_of_a_repeated_request_is_read_as_the_result_of_its_method() {
    let params: CallToolRequestParams = read(
        r#"{"name":"a","inputResponses":{"form":{"action":"accept"},"text":{"role":"assistant","content":{"type":"text","text":"Hi."},"model":"m"},"roots":{"roots":[]},"bad":{}},"requestState":"s"}"#,
    );
    let form = params.input_response::<ElicitRequest>("form").unwrap().unwrap();
    let text = params.input_response::<CreateMessageRequest>("text").unwrap().unwrap();
    let roots = params.input_response::<ListRootsRequest>("roots").unwrap().unwrap();
    assert_eq!((form, text.content.as_text(), roots.roots), (ElicitResult::new("accept"), Some("Hi."), vec![]));
    assert_eq!(params.input_response::<ElicitRequest>("other"), Ok(None));
    let error = params.input_response::<ElicitRequest>("bad").unwrap_err();
    assert_eq!(error.to_string(), "inputResponses.bad.action: missing");
    assert_eq!(params.request_state.as_deref(), Some("s"));
    assert_eq!(CallToolRequestParams::new("a").input_response::<ElicitRequest>("form"), Ok(None));
}

#[test]
fn a_request_for_input_is_the_request_of_an_older_revision() {
    for (text, method, params) in [
        (r#"{"method":"roots/list"}"#, Method::ROOTS_LIST, None),
        (r#"{"method":"roots/list","params":{"x":1}}"#, Method::ROOTS_LIST, Some(r#"{"x":1}"#)),
        (
            r#"{"method":"elicitation/create","params":{"mode":"url","message":"m","url":"u"}}"#,
            Method::ELICITATION_CREATE,
            Some(r#"{"mode":"url","message":"m","url":"u"}"#),
        ),
        (
            r#"{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":5}}"#,
            Method::SAMPLING_CREATE_MESSAGE,
            Some(r#"{"messages":[],"maxTokens":5}"#),
        ),
        (r#"{"method":"x/new","params":[1.0]}"#, Method::from("x/new"), Some("[1.0]")),
    ] {
        let request: InputRequest = read(text);
        assert_eq!(request.to_json().to_text(), text);
        let (found, given) = request.to_request().unwrap();
        assert_eq!((found, given.as_ref().map(Json::to_text).as_deref()), (method, params));
    }
}

#[test]
fn constructors_write_what_they_were_given() {
    let object = || JsonObject::new().with("n", 1).with("m", "a");
    let resource = Resource::new("file:///a", "a").size(7_u64);
    let form = RequestedSchema::form()
        .with("age", NumberSchema::new(NumberKind::Integer))
        .with_required("name", StringSchema::new());
    let table: Vec<(Json, &str)> = vec![
        (JsonObject::new().into(), "{}"),
        (object().into(), r#"{"n":1,"m":"a"}"#),
        (JsonObject::from_serialize(&json!({"n": 1})).unwrap().into(), r#"{"n":1}"#),
        (ContentBlock::from("a").into(), r#"{"type":"text","text":"a"}"#),
        (ContentBlock::from("a".to_owned()).into(), r#"{"type":"text","text":"a"}"#),
        (SamplingMessageContentBlock::from("a").into(), r#"{"type":"text","text":"a"}"#),
        (SamplingMessage::user("a").into(), r#"{"role":"user","content":{"type":"text","text":"a"}}"#),
        (
            SamplingMessage::assistant(vec!["a".into(), "b".into()]).into(),
            r#"{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#,
        ),
        (PromptMessage::user("a").into(), r#"{"role":"user","content":{"type":"text","text":"a"}}"#),
        (PromptMessage::assistant("a").into(), r#"{"role":"assistant","content":{"type":"text","text":"a"}}"#),
        (ResourceLink::from(resource).into(), r#"{"type":"resource_link","uri":"file:///a","name":"a","size":7}"#),
        (ElicitResult::accept(object()).into(), r#"{"action":"accept","content":{"n":1,"m":"a"}}"#),
        (ElicitResult::decline().into(), r#"{"action":"decline"}"#),
        (ElicitResult::cancel().into(), r#"{"action":"cancel"}"#),
        (
            form.into(),
            r#"{"type":"object","properties":{"age":{"type":"integer"},"name":{"type":"string"}},"required":["name"]}"#,
        ),
        (
            Tool::without_arguments("a").into(),
            r#"{"name":"a","inputSchema":{"type":"object","additionalProperties":false}}"#,
        ),
        (CallToolResult::text("a").into(), r#"{"content":[{"type":"text","text":"a"}]}"#),
        (
            CallToolResult::image(b"hi", "image/png").and("a").into(),
            r#"{"content":[{"type":"image","data":"aGk=","mimeType":"image/png"},{"type":"text","text":"a"}]}"#,
        ),
        (
            CallToolResult::audio(b"hi", "audio/wav").and_image(b"a", "image/png").and_audio(b"b", "audio/ogg").into(),
            r#"{"content":[{"type":"audio","data":"aGk=","mimeType":"audio/wav"},{"type":"image","data":"YQ==","mimeType":"image/png"},{"type":"audio","data":"Yg==","mimeType":"audio/ogg"}]}"#,
        ),
        (
            CallToolResult::resource_link(ResourceLink::new("file:///a", "a")).into(),
            r#"{"content":[{"type":"resource_link","uri":"file:///a","name":"a"}]}"#,
        ),
        (
            CallToolResult::resource(BlobResourceContents::from_bytes("file:///a", b"hi")).into(),
            r#"{"content":[{"type":"resource","resource":{"uri":"file:///a","blob":"aGk="}}]}"#,
        ),
        (
            CallToolResult::structured(object()).into(),
            r#"{"content":[{"type":"text","text":"{\"n\":1,\"m\":\"a\"}"}],"structuredContent":{"n":1,"m":"a"}}"#,
        ),
        (CallToolResult::error("a").into(), r#"{"content":[{"type":"text","text":"a"}],"isError":true}"#),
        (Ttl::from(60_000).to_json(), "60000"),
        (Ttl::Unlimited.to_json(), "null"),
        (Meta::new().with("k", 1).into(), r#"{"k":1}"#),
        (InputResponses::new().with("sure", ElicitResult::decline()).into(), r#"{"sure":{"action":"decline"}}"#),
        (SkillResources::Dynamic.to_json(), r#""dynamic""#),
        (
            SubscriptionFilter::new().resource("file:///a").resource("file:///b").task("t").into(),
            r#"{"resourceSubscriptions":["file:///a","file:///b"],"taskIds":["t"]}"#,
        ),
        (CacheScope::from(mcp_proto::spec::CacheScope::Public).into(), r#""public""#),
        (CacheScope::from(mcp_proto::spec::CacheScope::Private).into(), r#""private""#),
        (ProgressToken::from(7).into(), "7"),
        (ProgressToken::from("t").into(), r#""t""#),
        (LoggingLevel::from(mcp_proto::spec::LoggingLevel::Error).into(), r#""error""#),
        (LoggingLevel::from(mcp_proto::spec::LoggingLevel::Debug).into(), r#""debug""#),
    ];
    for (json, text) in table {
        assert_eq!(json.to_text(), text);
    }
}

#[test]
fn accessors_show_what_stands_in_the_text() {
    let number: Number = read("-1.5");
    assert_eq!((number.as_f64(), number.as_i64(), number.as_u64()), (-1.5, None, None));
    let number: Number = read("-42");
    assert_eq!((number.as_f64(), number.as_i64(), number.as_u64()), (-42.0, Some(-42), None));
    let number: Number = read("42");
    assert_eq!((number.as_i64(), number.as_u64(), number.to_string().as_str()), (Some(42), Some(42), "42"));

    let (token, text): (ProgressToken, ProgressToken) = (read("42"), read(r#""t""#));
    assert_eq!((token.as_i64(), token.as_str(), text.as_i64(), text.as_str()), (Some(42), None, None, Some("t")));

    let meta: Meta = read(r#"{"k":1}"#);
    assert_eq!((meta.get("k"), meta.get("l")), (Some(&Json::from(1)), None));

    let meta: Meta = read(
        r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/logLevel":"info","io.modelcontextprotocol/serverInfo":{"name":"s","version":"2"},"io.modelcontextprotocol/subscriptionId":"7"}"#,
    );
    assert_eq!(meta.protocol_version().as_deref(), Some("2026-07-28"));
    assert_eq!(meta.client_capabilities(), Some(ClientCapabilities::new().roots(RootsCapability::new())));
    assert_eq!(meta.client_info(), Some(Implementation::new("c", "1")));
    assert_eq!(meta.server_info(), Some(Implementation::new("s", "2")));
    assert_eq!((meta.log_level(), meta.subscription_id()), (Some(LoggingLevel::Info), Some("7".into())));
    let found = DiscoverResult::new([], ServerCapabilities::new());
    assert_eq!((found.server_info(), found.meta(meta).server_info().unwrap().name.as_str()), (None, "s"));

    let block: ContentBlock = read(r#"{"type":"text","text":"a"}"#);
    assert_eq!(block.as_text(), Some("a"));
    let block: ContentBlock = read(r#"{"type":"image","data":"","mimeType":"a/b"}"#);
    assert_eq!(block.as_text(), None);

    let contents = ResourceContents::from(TextResourceContents::new("file:///a", "a"));
    assert_eq!(contents.as_text(), Some("a"));
    assert_eq!(ResourceContents::from(BlobResourceContents::from_bytes("file:///a", b"a")).as_text(), None);

    let one: SamplingMessage = read(r#"{"role":"user","content":{"type":"text","text":"a"}}"#);
    let two: SamplingMessage =
        read(r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#);
    assert_eq!((one.content.as_text(), one.content.blocks().len()), (Some("a"), 1));
    assert_eq!((two.content.as_text(), two.content.blocks()), (Some("a"), &["a".into(), "b".into()][..]));

    let params: GetPromptRequestParams = read(r#"{"name":"p","arguments":{"city":"Paris"}}"#);
    assert_eq!((params.argument("city"), params.argument("town")), (Some("Paris"), None));

    let params: CallToolRequestParams = read(r#"{"name":"t","arguments":{"city":"Paris"}}"#);
    assert_eq!(params.read_arguments::<Value>().unwrap(), json!({"city": "Paris"}));
    let params: CallToolRequestParams = read(r#"{"name":"t"}"#);
    assert_eq!(params.read_arguments::<Value>().unwrap(), json!({}));

    let object: JsonObject = read(r#"{"a":1}"#);
    assert_eq!((object.as_json().to_text(), object.read::<Value>().unwrap()), (r#"{"a":1}"#.into(), json!({"a": 1})));

    let blob = BlobResourceContents::from_bytes("file:///a", b"hi");
    assert_eq!((blob.blob.as_str(), blob.to_bytes().as_deref()), ("aGk=", Ok(&b"hi"[..])));

    let error = Tool::from_json(&Json::parse(r#"{"name":7}"#).unwrap()).unwrap_err();
    assert_eq!((error.path(), error.to_string().as_str()), ("name", "name: expected a string"));
    let error = Tool::from_json(&Json::parse("7").unwrap()).unwrap_err();
    assert_eq!((error.path(), error.to_string().as_str()), ("", "expected an object"));
}

#[test]
fn the_members_of_a_form_field_determine_its_kind() {
    macro_rules! kinds {
        ($($text:literal => $kind:ident;)*) => {
            $({
                let field: PrimitiveSchemaDefinition = read($text);
                assert!(matches!(field, PrimitiveSchemaDefinition::$kind(_)), "{}: {field:?}", $text);
                assert_eq!(field.to_json().to_text(), $text);
            })*
        };
    }
    kinds! {
        r#"{"type":"string"}"# => String;
        r#"{"type":"string","oneOf":[{"const":"a","title":"A"}]}"# => TitledSingleSelectEnum;
        r#"{"type":"string","enum":["a"],"enumNames":["A"]}"# => LegacyTitledEnum;
        r#"{"type":"string","enum":["a"]}"# => UntitledSingleSelectEnum;
        r#"{"type":"number"}"# => Number;
        r#"{"type":"integer"}"# => Number;
        r#"{"type":"boolean"}"# => Boolean;
        r#"{"type":"array","items":{"anyOf":[{"const":"a","title":"A"}]}}"# => TitledMultiSelectEnum;
        r#"{"type":"array","items":{"type":"string","enum":["a"]}}"# => UntitledMultiSelectEnum;
        r#"{"type":"array","items":{}}"# => Other;
        r#"{"type":"array"}"# => Other;
        r#"{"type":"date"}"# => Other;
    }
}

#[test]
fn the_reason_why_a_single_form_field_is_unreadable_names_the_member() {
    for (text, path, expected) in [
        (r#"{"type":7}"#, "type", "type: expected a string"),
        ("7", "", "expected an object"),
        (r#"{"type":"boolean","title":7}"#, "title", "title: expected a string"),
    ] {
        let error = PrimitiveSchemaDefinition::from_json(&Json::parse(text).unwrap()).unwrap_err();
        assert_eq!((error.path(), error.to_string().as_str()), (path, expected), "{text}");
    }
}

#[test]
fn a_mode_of_another_type_does_not_make_a_question_a_form() {
    let error = ElicitRequestParams::from_json(&Json::parse(r#"{"mode":7}"#).unwrap()).unwrap_err();
    assert_eq!((error.path(), error.to_string().as_str()), ("mode", "mode: expected a string"));
}

#[test]
fn the_schema_of_any_object_demands_an_object() {
    let schema = schemars::SchemaGenerator::default().into_root_schema_for::<JsonObject>();
    assert_eq!((&schema.as_value()["title"], &schema.as_value()["type"]), (&json!("JsonObject"), &json!("object")));
}

#[test]
fn names_of_methods_are_constants() {
    for entry in methods() {
        assert_eq!(Method::from(entry.method.as_str()), entry.method);
    }
}
