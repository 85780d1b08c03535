//! The definitions of tools that were pinned, as a value that the driver loads and stores.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::{self, Write};
use std::sync::Arc;

use mcp_proto::{Excerpt, Json, JsonError};

use super::definition::{Definition, Digest, ToolField, VALUE, Value};

/// The version of the text form.
const VERSION: &[u8] = b"1";
/// The maximum number of bytes of the text form.
const FILE: usize = 32 << 20;
/// The maximum number of nested arrays and objects in it.
const DEPTH: usize = 1024;
/// The maximum number of tools.
const TOOLS: usize = 4096;
/// The maximum number of bytes of the name of a tool.
pub(super) const NAME: usize = 1024;
/// The maximum number of bytes of values that are kept to show differences.
const TEXT: usize = 4 << 20;

/// The definitions of tools, each as it was when the tool was listed first. Cloning is cheap.
///
/// Of each tool, the title, the description, the schemas and the annotations are pinned: the SHA-256 value of each in its
/// canonical form ([`Json::to_canonical`]), and of its text as much as a difference needs. There are at most 4,096 tools.
///
/// # Example: the text form
///
/// ```
/// use mcp_intermediary::relay::Pins;
///
/// let text = Pins::new().to_text();
/// assert_eq!(text, "{\n\"version\": 1,\n\"complete\": false,\n\"tools\": {}\n}\n");
/// assert_eq!(Pins::parse(text.as_bytes()), Ok(Pins::new()));
/// assert!(Pins::parse(b"{}").is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Pins(Arc<Pinned>);

#[derive(Clone, PartialEq, Eq, Default)]
struct Pinned {
    /// Whether the list of tools was seen to its end.
    is_complete: bool,
    tools: BTreeMap<Box<str>, Definition>,
    /// The bytes of the values that are kept.
    text: usize,
}

/// Shows the number of tools only.
impl fmt::Debug for Pins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pins({} tools)", self.len())
    }
}

/// Why a text contains no pins.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPins {
    /// The text is too long.
    #[error("it has more than {limit} bytes")]
    TooLarge {
        /// The maximum number of bytes.
        limit: usize,
    },
    /// The text is not JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// The version is missing, or is another one.
    #[error("it is not an object with the member \"version\": 1")]
    Version,
    /// A member is missing, of the wrong type, or there twice.
    #[error("its member \"{member}\" is missing, of the wrong type, or there twice")]
    Member {
        /// The name of the member.
        member: &'static str,
    },
    /// There are too many tools, or one has too long a name.
    #[error("it has more than {tools} tools, or a tool whose name has more than {name} bytes")]
    TooMany {
        /// The maximum number of tools.
        tools: usize,
        /// The maximum number of bytes of a name.
        name: usize,
    },
    /// Something about a tool is missing, unknown or of the wrong type.
    #[error(
        "the pin of the tool '{tool}' is incomplete, there twice, or has an unknown member; remove it to pin the tool anew"
    )]
    Tool {
        /// The name of the tool.
        tool: Excerpt,
    },
    /// A value was changed, or its digest was.
    #[error("the value of {field} of the tool '{tool}' does not match its digest; remove the tool to pin it anew")]
    Digest {
        /// The name of the tool.
        tool: Excerpt,
        /// The field.
        field: ToolField,
    },
}

impl Pins {
    /// No pins.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of tools.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.tools.len()
    }

    /// Whether there are no tools.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.tools.is_empty()
    }

    /// These pins, and the pins of `others` for tools that have none here.
    #[must_use]
    pub fn with_missing(mut self, others: &Self) -> Self {
        for (name, definition) in &others.0.tools {
            if self.get(name).is_none() {
                // A tool for which there is no room is pinned when it is listed again.
                let _ = self.insert(name, definition.clone());
            }
        }
        if others.is_complete() {
            self.set_complete();
        }
        self
    }

    /// Reads the text form.
    ///
    /// # Errors
    ///
    /// [`InvalidPins`] states what is wrong. A text that is not understood in full is refused, because its pins would be lost
    /// otherwise.
    pub fn parse(text: &[u8]) -> Result<Self, InvalidPins> {
        if text.len() > FILE {
            return Err(InvalidPins::TooLarge { limit: FILE });
        }
        // A value may be nested as deeply as any in a message.
        let json = Json::parse_within(text.to_vec(), DEPTH)?;
        if json.member("version").ok().flatten().is_none_or(|version| version.as_bytes() != VERSION) {
            return Err(InvalidPins::Version);
        }
        let member = |member| json.member(member).ok().flatten().ok_or(InvalidPins::Member { member });
        let mut pins = Self::new();
        match member("complete")?.as_bytes() {
            b"true" => pins.set_complete(),
            b"false" => {}
            _ => return Err(InvalidPins::Member { member: "complete" }),
        }
        let tools = member("tools")?;
        if !tools.is_object() {
            return Err(InvalidPins::Member { member: "tools" });
        }
        for (name, pin) in tools.entries() {
            let tool = || Excerpt::new(name.as_deref().unwrap_or_default(), 80);
            let invalid = || InvalidPins::Tool { tool: tool() };
            let name = name.as_deref().filter(|name| pins.get(name).is_none()).ok_or_else(invalid)?;
            let mut definition = Definition::default();
            if !pin.is_object() {
                return Err(invalid());
            }
            for (field, value) in pin.entries() {
                let field = field.as_deref().and_then(ToolField::from_name).ok_or_else(invalid)?;
                let value = read_value(&value).ok_or_else(invalid)?;
                if value.is_whole && value != Value::new(&value.start) {
                    return Err(InvalidPins::Digest { tool: tool(), field });
                }
                if definition.values.insert(field, value).is_some() {
                    return Err(invalid());
                }
            }
            pins.insert(name, definition).map_err(|_| InvalidPins::TooMany { tools: TOOLS, name: NAME })?;
        }
        Ok(pins)
    }

    /// The text form: JSON, with a line for each field.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("{{\n\"version\": 1,\n\"complete\": {},\n\"tools\": {{", self.is_complete());
        for (at, (name, definition)) in self.0.tools.iter().enumerate() {
            let separator = if at > 0 { "," } else { "" };
            // Writing to a `String` cannot fail.
            let _ = write!(text, "{separator}\n  {}: {{", Json::from(&**name).to_text());
            for (at, (field, value)) in definition.values.iter().enumerate() {
                let separator = if at > 0 { "," } else { "" };
                let digest = hexadecimal(&value.digest);
                let (member, value) = if value.is_whole {
                    ("value", value.start.to_string())
                } else {
                    ("start", Json::from(&*value.start).to_text().into_owned())
                };
                let _ =
                    write!(text, "{separator}\n    \"{field}\": {{\"sha256\": \"{digest}\", \"{member}\": {value}}}");
            }
            text.push_str(if definition.values.is_empty() { "}" } else { "\n  }" });
        }
        text.push_str(if self.is_empty() { "}\n}\n" } else { "\n}\n}\n" });
        text
    }

    /// Whether the list of tools was seen to its end.
    pub(super) fn is_complete(&self) -> bool {
        self.0.is_complete
    }

    pub(super) fn set_complete(&mut self) {
        Arc::make_mut(&mut self.0).is_complete = true;
    }

    /// Whether no more tools can be pinned.
    pub(super) fn is_full(&self) -> bool {
        self.len() >= TOOLS
    }

    pub(super) fn get(&self, name: &str) -> Option<&Definition> {
        self.0.tools.get(name)
    }

    /// Pins a tool that is not pinned.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if there are too many tools, or if the name is too long.
    pub(super) fn insert(&mut self, name: &str, definition: Definition) -> Result<(), NoRoom> {
        if self.is_full() || name.len() > NAME {
            return Err(NoRoom);
        }
        let pinned = Arc::make_mut(&mut self.0);
        let has_room = pinned.text + definition.text_len() <= TEXT;
        let definition = if has_room { definition } else { definition.without_text() };
        if let Entry::Vacant(entry) = pinned.tools.entry(name.into()) {
            pinned.text += definition.text_len();
            entry.insert(definition);
        }
        Ok(())
    }
}

/// There is no room for one more pin.
#[derive(Debug)]
pub(super) struct NoRoom;

fn read_value(pin: &Json) -> Option<Value> {
    let (mut digest, mut kept) = (None, None);
    for (name, value) in pin.entries() {
        let is_first = match name.as_deref()? {
            "sha256" => digest.replace(read_digest(&value.as_string()?)?).is_none(),
            "value" => kept.replace((value.to_canonical().to_text().into(), true)).is_none(),
            "start" => kept.replace((Box::from(&*value.as_string()?), false)).is_none(),
            _ => return None,
        };
        if !is_first {
            return None;
        }
    }
    let (start, is_whole): (Box<str>, bool) = kept?;
    (start.len() <= VALUE || is_whole).then_some(Value { digest: digest?, start, is_whole })
}

fn hexadecimal(digest: &Digest) -> String {
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn read_digest(text: &str) -> Option<Digest> {
    let mut digest = Digest::default();
    if text.len() != 2 * digest.len() || !text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    for (at, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pins of tools with these names and definitions.
    fn pins(tools: &[(&str, &str)]) -> Pins {
        let mut pins = Pins::new();
        for (name, tool) in tools {
            let tool = Json::parse((*tool).to_owned()).expect("JSON");
            pins.insert(name, Definition::of(&tool)).expect("there is room");
        }
        pins
    }

    #[test]
    fn pins_are_the_same_after_they_were_written_and_read() {
        let long = format!(r#"{{"description":"{}"}}"#, "é".repeat(VALUE));
        let deep = format!(r#"{{"inputSchema":{}1{}}}"#, "[".repeat(1000), "]".repeat(1000));
        let deep = Json::parse_within(deep, DEPTH).expect("JSON");
        let mut pins = pins(&[
            ("echo", r#"{"title":"E","description":"a \u202e","inputSchema":{"b":1.0,"a":[]},"annotations":{}}"#),
            ("", "{}"),
            ("a\nb\"", r#"{"description":"d","description":"e","outputSchema":null}"#),
            ("long", &long),
        ]);
        pins.insert("deep", Definition::of(&deep)).expect("there is room");
        for _ in 0..2 {
            let text = pins.to_text();
            let read = Pins::parse(text.as_bytes());
            assert_eq!(read.as_ref().map(Pins::to_text), Ok(text));
            assert_eq!(read, Ok(pins.clone()));
            pins.set_complete();
        }
    }

    #[test]
    fn a_person_can_read_the_text_form() {
        let text = pins(&[("echo", r#"{"description":"Echoes","inputSchema":{"type":"object"}}"#)]).to_text();
        let expected = r#"{
"version": 1,
"complete": false,
"tools": {
  "echo": {
    "description": {"sha256": "DIGEST", "value": "Echoes"},
    "inputSchema": {"sha256": "DIGEST", "value": {"type":"object"}}
  }
}
}
"#;
        let parts = text.split("\"sha256\": \"").enumerate();
        let shown: Vec<_> =
            parts.map(|(at, part)| if at > 0 { format!("DIGEST{}", &part[64..]) } else { part.into() }).collect();
        assert_eq!(shown.join("\"sha256\": \""), expected);
    }

    #[test]
    fn a_text_that_is_not_understood_in_full_is_refused() {
        let good = pins(&[("echo", r#"{"description":"Echoes"}"#), ("two", "{}")]).to_text();
        for (from, to, error) in [
            ("{", "[", "not JSON at byte"),
            ("\"version\": 1", "\"version\": 2", "\"version\": 1"),
            ("\"version\": 1", "\"version\": 1, \"version\": 1", "\"version\": 1"),
            ("\"complete\": false", "\"complete\": 0", "its member \"complete\""),
            ("\"tools\": {", "\"tool\": {", "its member \"tools\""),
            ("\"Echoes\"", "\"echoes\"", "description of the tool 'echo' does not match its digest"),
            ("\"description\"", "\"descriptio\"", "the pin of the tool 'echo' is incomplete"),
            ("\"value\"", "\"text\"", "the pin of the tool 'echo' is incomplete"),
            ("\"sha256\": \"", "\"sha256\": \"0", "the pin of the tool 'echo' is incomplete"),
            ("\"two\"", "\"echo\"", "the pin of the tool 'echo' is incomplete, there twice"),
            ("\"two\": {}", "\"two\": []", "the pin of the tool 'two' is incomplete"),
        ] {
            assert!(good.contains(from), "{from}");
            let found = Pins::parse(good.replacen(from, to, 1).as_bytes()).unwrap_err().to_string();
            assert!(found.contains(error), "{found}");
        }
        assert_eq!(Pins::parse(&vec![b' '; FILE + 1]), Err(InvalidPins::TooLarge { limit: FILE }));
    }

    #[test]
    fn pins_are_bounded_in_number_and_in_text() {
        let mut pins = Pins::new();
        let definition =
            Definition::of(&Json::parse(format!(r#"{{"description":"{}"}}"#, "d".repeat(VALUE))).expect("JSON"));
        for number in 0..TOOLS {
            pins.insert(&number.to_string(), definition.clone()).expect("there is room");
        }
        assert!(pins.insert("more", definition.clone()).is_err() && pins.is_full());
        assert!(pins.0.text <= TEXT && pins.0.text + VALUE > TEXT, "{} bytes", pins.0.text);
        assert!(pins.get(&(TOOLS - 1).to_string()) == Some(&definition), "its digest is there");
        let text = pins.to_text();
        assert!(text.len() < FILE && Pins::parse(text.as_bytes()) == Ok(pins));
        assert!(Pins::new().insert(&"n".repeat(NAME + 1), definition).is_err());
    }

    #[test]
    fn pins_of_others_are_added_for_tools_that_have_none() {
        let (own, mut others) = (pins(&[("a", r#"{"title":"1"}"#)]), pins(&[("a", r#"{"title":"2"}"#), ("b", "{}")]));
        others.set_complete();
        let mut both = pins(&[("a", r#"{"title":"1"}"#), ("b", "{}")]);
        both.set_complete();
        assert_eq!(own.with_missing(&others), both);
    }
}
