//! The types of the zoo. Most fields have no description, so that their schemas have none.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Maps {
    pub counts: BTreeMap<String, u32>,
    pub nested: BTreeMap<String, BTreeMap<String, bool>>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Anything {
    pub value: Value,
    pub optional: Option<Value>,
    pub list: Vec<Value>,
    pub pair: (Value, bool),
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    pub name: String,
    pub children: Vec<Node>,
    pub next: Option<Box<Node>>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action")]
pub enum Edit {
    Insert { text: String },
    Delete {},
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub enum Outline {
    Circle { radius: f64 },
    Line(f64),
    Empty,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind")]
pub enum Animals {
    Bird { wings: u8 },
    Fish,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "t", content = "c")]
pub enum Adjacent {
    Text(String),
    None,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Untagged {
    Number(i64),
    Text(String),
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub enum Mixed {
    Nothing,
    Something(u8),
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Enums {
    pub external: Outline,
    pub internal: Animals,
    pub adjacent: Adjacent,
    pub untagged: Untagged,
    pub unit: Mixed,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Page {
    pub limit: Option<u32>,
    pub offset: u32,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Flattened {
    pub id: String,
    #[serde(flatten)]
    pub page: Page,
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Metres(pub f64);

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Name {
    pub name: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Point(pub i32, pub i32);

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Newtypes {
    pub metres: Metres,
    pub name: Name,
    pub pair: (u8, String),
    pub point: Point,
    pub unit: (),
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Numbers {
    pub small: u8,
    pub signed: i8,
    pub large: u64,
    pub huge: i128,
    pub single: f32,
    pub double: f64,
    pub size: usize,
    pub letter: char,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub enum Colour {
    Red,
    Green,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub enum Speed {
    Slow,
    /// In a week
    Normal,
    #[schemars(title = "Tomorrow")]
    Fast,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    /// Up to 40
    Small,
    /// From 41 on
    Large,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Choices {
    pub colour: Colour,
    /// How fast it is sent
    pub speed: Speed,
    pub size: Size,
    pub colours: Vec<Colour>,
    /// Another one
    pub other: Option<Speed>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Inner {
    pub a: u8,
    pub b: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Optional {
    pub number: Option<u8>,
    pub text: Option<String>,
    /// Which one
    pub colour: Option<Colour>,
    pub inner: Option<Inner>,
    pub inners: Option<Vec<Inner>>,
    #[expect(clippy::option_option, reason = "a shape that clients may receive")]
    pub twice: Option<Option<u8>>,
    pub shape: Option<Outline>,
    #[serde(default)]
    pub numbers: Vec<Option<u8>>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Lists {
    pub inners: Vec<Inner>,
    pub nested: Vec<Vec<Inner>>,
    pub three: [u8; 3],
    pub set: BTreeSet<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Unicode {
    #[serde(rename = "größe")]
    pub size: u8,
    #[serde(rename = "名前")]
    pub name: String,
    #[serde(rename = "a b")]
    pub blank: bool,
    #[serde(rename = "quote\"d")]
    pub quoted: char,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Names {
    #[serde(rename = "x-mcp-header")]
    pub header: String,
    pub r#type: String,
    pub properties: Inner,
    pub required: bool,
    pub default: u8,
    pub r#const: String,
    pub r#enum: Vec<String>,
    pub items: BTreeMap<String, String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Defaults {
    #[serde(default = "no_text")]
    pub text: String,
    #[serde(default = "three")]
    pub number: u8,
    #[serde(default = "green")]
    pub colour: Colour,
    #[serde(default = "inner")]
    pub inner: Inner,
    #[serde(default)]
    pub optional: Option<String>,
}

/// What only a schema states.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    #[schemars(range(min = 1, max = 9))]
    pub level: u8,
    #[schemars(length(min = 1), regex(pattern = r"^\S*$"))]
    pub name: String,
    #[schemars(length(max = 2))]
    pub tags: Vec<String>,
    #[schemars(length(min = 1))]
    pub note: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Clock {
    pub zone: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Text {
    pub text: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Words {
    pub words: usize,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    pub mean: f64,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    pub rows: Vec<Row>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Form {
    /// Any text
    #[schemars(length(min = 1, max = 20))]
    pub text: String,
    #[schemars(email)]
    pub mail: String,
    #[schemars(range(min = 1, max = 9))]
    pub count: u8,
    pub weight: Option<f64>,
    pub gift: bool,
    pub colour: Colour,
    /// How fast it is sent
    pub speed: Speed,
    pub size: Size,
    /// Another one
    pub other: Option<Colour>,
    pub note: Option<String>,
    #[serde(default = "no_text")]
    pub wrapping: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListForm {
    pub colours: Vec<Colour>,
    /// All that are fast enough
    pub speeds: Vec<Speed>,
    pub some: Option<Vec<Colour>>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Review {
    /// What is reviewed
    pub code: String,
    pub approach: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Animal {
    pub colour: Colour,
    pub id: u32,
}

fn no_text() -> String {
    "none".to_owned()
}

const fn three() -> u8 {
    3
}

const fn green() -> Colour {
    Colour::Green
}

const fn inner() -> Inner {
    Inner { a: 1, b: None }
}
