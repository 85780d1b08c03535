//! The official JSON schemas of the protocol, which are not part of this repository, and values generated from them.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Once;

use mcp_proto::ProtocolVersion;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// The report about missing schemas is written once per process.
static REPORT_ONCE: Once = Once::new();

/// The schema of one revision.
#[derive(Debug)]
pub struct Schema {
    /// The revision.
    pub version: ProtocolVersion,
    root: Value,
    /// The member with the definitions, whose name depends on the revision.
    definitions: &'static str,
}

impl Schema {
    /// The schemas of all revisions. Reports missing schemas on stderr.
    ///
    /// The folder is the value of the environment variable `MCP_SCHEMAS`, or else `shared/spec/schema` beside the
    /// repository. The files are named `2025-11-25.json` and so on.
    pub fn all() -> Vec<Self> {
        let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/spec/schema");
        let folder = std::env::var_os("MCP_SCHEMAS").map_or(beside, PathBuf::from);
        let schemas: Vec<_> = ProtocolVersion::ALL.iter().filter_map(|&version| Self::load(&folder, version)).collect();
        let wanted = ProtocolVersion::ALL.len();
        if schemas.len() < wanted {
            REPORT_ONCE.call_once(|| report(wanted - schemas.len(), wanted, &folder));
        }
        schemas
    }

    fn load(folder: &Path, version: ProtocolVersion) -> Option<Self> {
        let text = fs::read(folder.join(format!("{version}.json"))).ok()?;
        let root: Value = serde_json::from_slice(&text).expect("a schema is JSON");
        let definitions = if root.get("$defs").is_some() { "$defs" } else { "definitions" };
        Some(Self { version, root, definitions })
    }

    /// The names of all definitions.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.root[self.definitions].as_object().expect("definitions").keys().map(String::as_str)
    }

    /// The definition with this name.
    pub fn definition(&self, name: &str) -> &Value {
        &self.root[self.definitions][name]
    }

    /// The names of the members of a union, which may have only one; empty if the revision has no such union.
    pub fn union(&self, name: &str) -> Vec<&str> {
        let definition = self.definition(name);
        let members = definition["anyOf"].as_array().map_or(std::slice::from_ref(definition), Vec::as_slice);
        members.iter().filter_map(target).collect()
    }

    /// A schema of this document as a separate document.
    pub fn document(&self, schema: &Value) -> Value {
        json!({
            "$schema": self.root["$schema"],
            self.definitions: self.root[self.definitions],
            "allOf": [schema],
        })
    }

    /// Follows a reference.
    pub fn resolve<'s>(&'s self, schema: &'s Value) -> &'s Value {
        target(schema).map_or(schema, |name| self.resolve(self.definition(name)))
    }

    /// Values of a schema of this document. With `all`, every optional member is present; without, some are, and so are
    /// some members that the schema allows but does not define.
    pub fn values(&self, schema: &Value, all: bool) -> BoxedStrategy<Value> {
        match target(schema) {
            // These refer to each other, which would never end.
            Some("JSONValue") => return application_value(),
            Some("JSONObject") => {
                let members = prop::collection::hash_map("[a-z]{1,4}", application_value(), 0..3);
                return members.prop_map(|members| members.into_iter().collect()).boxed();
            }
            Some(_) | None => {}
        }
        let schema = self.resolve(schema);
        if let Some(value) = schema.get("const") {
            return Just(value.clone()).boxed();
        }
        if let Some(words) = schema["enum"].as_array() {
            return prop::sample::select(words.clone()).boxed();
        }
        if let Some(choices) = schema["anyOf"].as_array() {
            return self.one_of(choices.iter(), all);
        }
        if let Some(parts) = schema["allOf"].as_array() {
            let parts: Vec<_> = parts.iter().map(|part| self.values(part, all)).collect();
            return parts.prop_map(merged).boxed();
        }
        match &schema["type"] {
            Value::Array(types) => {
                let choices: Vec<_> = types.iter().map(|one| json!({ "type": one })).collect();
                self.one_of(choices.iter(), all)
            }
            Value::String(one) => self.values_of_type(one, schema, all),
            _ => anything(),
        }
    }

    fn one_of<'s>(&self, choices: impl Iterator<Item = &'s Value>, all: bool) -> BoxedStrategy<Value> {
        prop::strategy::Union::new(choices.map(|choice| self.values(choice, all)).collect::<Vec<_>>()).boxed()
    }

    fn values_of_type(&self, one: &str, schema: &Value, all: bool) -> BoxedStrategy<Value> {
        match one {
            "null" => Just(Value::Null).boxed(),
            "boolean" => any::<bool>().prop_map(Value::from).boxed(),
            "integer" => {
                let least = schema["minimum"].as_i64().unwrap_or(i64::MIN);
                prop_oneof![least..=i64::MAX, 0..100_i64].prop_map(Value::from).boxed()
            }
            "number" => number(schema),
            "string" => string(schema),
            "array" => prop::collection::vec(self.values(&schema["items"], all), usize::from(all)..3)
                .prop_map(Value::from)
                .boxed(),
            "object" => self.object(schema, all),
            other => panic!("{other} is no type of JSON Schema"),
        }
    }

    fn object(&self, schema: &Value, all: bool) -> BoxedStrategy<Value> {
        let required: Vec<_> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let nothing = Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&nothing);
        let members: Vec<_> = properties
            .iter()
            .map(|(name, schema)| {
                let always = all || required.contains(&name.as_str());
                let name = name.clone();
                (self.values(schema, all), any::<bool>())
                    .prop_map(move |(value, given)| (always || given).then(|| (name.clone(), value)))
                    .boxed()
            })
            .collect();
        let more = match &schema["additionalProperties"] {
            Value::Bool(false) => return object(members, Just(Vec::new()).boxed()),
            Value::Object(schema) if !schema.is_empty() => self.values(&schema.clone().into(), all),
            _ => anything(),
        };
        let more = prop::collection::vec(("x-[a-z é\"]{0,5}", more), if all { 0..1 } else { 0..3 });
        object(members, more.boxed())
    }
}

/// The name of the definition that a schema refers to.
fn target(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.rsplit('/').next()
}

/// Reports the missing schemas. Writes to stderr directly, because `cargo test` hides the output of the print macros.
fn report(missing: usize, wanted: usize, folder: &Path) {
    let text = format!(
        "NOT CHECKED: {missing} of {wanted} official schemas are not in {}; set MCP_SCHEMAS to the folder that has them",
        folder.display(),
    );
    let _ = writeln!(io::stderr(), "{text}");
}

fn object(
    members: Vec<BoxedStrategy<Option<(String, Value)>>>,
    more: BoxedStrategy<Vec<(String, Value)>>,
) -> BoxedStrategy<Value> {
    (members, more)
        .prop_map(|(members, more)| Value::Object(members.into_iter().flatten().chain(more).collect()))
        .boxed()
}

fn merged(parts: Vec<Value>) -> Value {
    parts
        .into_iter()
        .filter_map(|part| if let Value::Object(part) = part { Some(part) } else { None })
        .flatten()
        .collect()
}

fn number(schema: &Value) -> BoxedStrategy<Value> {
    match (schema["minimum"].as_f64(), schema["maximum"].as_f64()) {
        (Some(least), Some(most)) => (least..=most).prop_map(Value::from).boxed(),
        _ => prop_oneof![any::<f64>().prop_map(Value::from), any::<i64>().prop_map(Value::from)]
            .prop_filter("JSON has no such number", Value::is_number)
            .boxed(),
    }
}

fn string(schema: &Value) -> BoxedStrategy<Value> {
    let text = match schema["format"].as_str() {
        Some("uri" | "uri-template") => "https://example\\.com/[a-z]{0,8}",
        Some("byte") => "([A-Za-z0-9+/]{4}){0,4}",
        _ => "\\PC{0,12}|[\"\\\\\n\u{1}/é]{0,4}",
    };
    text.prop_map(Value::from).boxed()
}

/// A value that the definition `JSONValue` allows, which omits `null`.
fn application_value() -> BoxedStrategy<Value> {
    let scalar = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    scalar.prop_recursive(2, 8, 3, |inner| prop::collection::vec(inner, 0..3).prop_map(Value::from)).boxed()
}

/// Any JSON.
fn anything() -> BoxedStrategy<Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    scalar
        .prop_recursive(2, 8, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::hash_map("[a-z]{1,4}", inner, 0..3).prop_map(|map| map.into_iter().collect()),
            ]
        })
        .boxed()
}
