//! Reads arguments as the type of a handler. An error states the argument that is wrong.

use std::fmt;
use std::str::FromStr;

use mcp_proto::Json;
use mcp_proto::spec::param_headers::integer_text;
use serde::de::value::{Error, MapDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;

/// Reads an object. If that fails, numbers such as `5.0`, which are integers by JSON Schema, are read as integers.
///
/// # Errors
///
/// The text names the argument that is wrong, and may quote it.
pub(crate) fn read<A: DeserializeOwned>(arguments: &Json) -> Result<A, String> {
    arguments.read().or_else(|error| {
        let whole = with_whole_numbers(arguments).and_then(|whole| whole.read().ok());
        whole.ok_or_else(|| named(arguments, &error))
    })
}

/// Reads an object. A member that is a number or a boolean in `A`, and a text in the object, is parsed from it.
///
/// # Errors
///
/// As for [`read`].
pub(super) fn read_texts<A: DeserializeOwned>(texts: &Json) -> Result<A, String> {
    texts.read().or_else(|_| {
        let members: Vec<_> = texts.entries().filter_map(|(name, value)| Some((name?, value))).collect();
        let texts: Vec<_> = members.iter().map(|(_, value)| value.as_string()).collect();
        let members = members
            .iter()
            .zip(&texts)
            .map(|((name, value), text)| (name.as_str(), Member { name, value, text: text.as_deref() }));
        A::deserialize(MapDeserializer::new(members)).map_err(|error: Error| error.to_string())
    })
}

/// The text of an error, with the name of the argument instead of a position in a text that the caller does not have.
fn named(arguments: &Json, error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let text = text.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&text);
    let lines = arguments.as_bytes().split_inclusive(|byte| *byte == b'\n');
    let offset = lines.take(line.saturating_sub(1)).map(<[u8]>::len).sum::<usize>() + column;
    match arguments.path_to(offset) {
        path if line > 0 && !path.is_empty() => format!("'{path}': {text}"),
        _ => text.to_owned(),
    }
}

/// The same with each number such as `5.0` or `1e3` as an integer; `None` if there is none.
fn with_whole_numbers(json: &Json) -> Option<Json> {
    let text = json.to_text();
    let mut whole = String::with_capacity(text.len());
    let mut is_changed = false;
    let mut rest = text.as_ref();
    while let Some(at) = rest.find(|first: char| first == '"' || first == '-' || first.is_ascii_digit()) {
        let (before, from) = rest.split_at(at);
        whole.push_str(before);
        let end = if from.starts_with('"') { end_of_string(from) } else { end_of_number(from) };
        let (token, after) = from.split_at(end);
        rest = after;
        if !token.starts_with('"') && token.contains(['.', 'e', 'E']) {
            let integer = integer_text(token);
            is_changed |= integer != token;
            // Integers have no negative zero.
            whole.push_str(if integer == "-0" { "0" } else { &integer });
        } else {
            whole.push_str(token);
        }
    }
    whole.push_str(rest);
    is_changed.then(|| Json::from_valid_text(whole.into()))
}

fn end_of_number(text: &str) -> usize {
    text.find(|byte: char| !(byte.is_ascii_digit() || matches!(byte, '-' | '+' | '.' | 'e' | 'E')))
        .unwrap_or(text.len())
}

/// The length of the string at the beginning, with its quotes.
fn end_of_string(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    });
    end.map_or(text.len(), |end| end + 2)
}

/// One member, whose text is read as what its type asks for.
#[derive(Debug, Clone, Copy)]
struct Member<'t> {
    name: &'t str,
    value: &'t Json,
    /// `None` if the value is no text.
    text: Option<&'t str>,
}

impl Member<'_> {
    fn parse<T: FromStr>(self, expected: &str) -> Result<T, Error> {
        let Some(text) = self.text else {
            return Err(self.named(&Error::invalid_type(Unexpected::Other("no text"), &expected)));
        };
        text.parse().map_err(|_| self.named(&Error::invalid_value(Unexpected::Str(text), &expected)))
    }

    fn named(self, error: &impl fmt::Display) -> Error {
        Error::custom(format_args!("'{}': {error}", self.name))
    }
}

impl IntoDeserializer<'_, Error> for Member<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! parsed {
    ($($method:ident $visit:ident $type:ty)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            visitor.$visit(self.parse::<$type>(stringify!($type))?).map_err(|error: Error| self.named(&error))
        })*
    };
}

impl<'de> Deserializer<'de> for Member<'_> {
    type Error = Error;

    parsed! {
        deserialize_bool visit_bool bool
        deserialize_i8 visit_i8 i8
        deserialize_i16 visit_i16 i16
        deserialize_i32 visit_i32 i32
        deserialize_i64 visit_i64 i64
        deserialize_i128 visit_i128 i128
        deserialize_u8 visit_u8 u8
        deserialize_u16 visit_u16 u16
        deserialize_u32 visit_u32 u32
        deserialize_u64 visit_u64 u64
        deserialize_u128 visit_u128 u128
        deserialize_f32 visit_f32 f32
        deserialize_f64 visit_f64 f64
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if let Some(text) = self.text {
            return visitor.visit_str(text).map_err(|error: Error| self.named(&error));
        }
        let mut json = serde_json::Deserializer::from_reader(self.value.as_bytes());
        json.deserialize_any(visitor).map_err(|error| self.named(&error))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let text = IntoDeserializer::<Error>::into_deserializer(self.text.unwrap_or_default());
        text.deserialize_enum(name, variants, visitor).map_err(|error| self.named(&error))
    }

    forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    enum Colour {
        Red,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(transparent)]
    struct Metres(f64);

    #[derive(Debug, PartialEq, Deserialize)]
    struct Stop {
        city: String,
        nights: u8,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Trip {
        #[serde(default)]
        count: i64,
        #[serde(default)]
        large: i128,
        #[serde(default)]
        stops: Vec<Stop>,
        colour: Option<Colour>,
        any: Option<serde_json::Value>,
    }

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).unwrap()
    }

    #[test]
    fn an_error_names_the_argument() {
        let cases = [
            (r#"{"count":"x"}"#, r#"'count': invalid type: string "x", expected i64"#),
            (r#"{"any":1,"count":true}"#, "'count': invalid type: boolean `true`, expected i64"),
            ("{ \"any\" : [1,\n2] ,\n \"count\" : 1.5 }", "'count': invalid type: floating point `1.5`, expected i64"),
            (r#"{"stops":{}}"#, "'stops': invalid type: map, expected a sequence"),
            (
                r#"{"stops":[{"city":"a","nights":1},{"city":"b","nights":300}]}"#,
                "'stops[1].nights': invalid value: integer `300`, expected u8",
            ),
            (r#"{"stops":[{"city":"a"}]}"#, "'stops[0]': missing field `nights`"),
            (r#"{"colour":"Blue"}"#, "'colour': unknown variant `Blue`, expected `Red`"),
            (r#"{"count":1,"count":2}"#, "duplicate field `count`"),
        ];
        for (text, expected) in cases {
            assert_eq!(read::<Trip>(&json(text)).unwrap_err(), expected, "{text}");
        }
        assert_eq!(read::<Stop>(&json("{}")).unwrap_err(), "missing field `city`");
    }

    #[test]
    fn a_path_has_a_bounded_depth() {
        let text = format!("{}\"x\"{}", "[".repeat(20), "]".repeat(20));
        assert_eq!(json(&text).path_to(20), "[0]".repeat(8));
    }

    #[test]
    fn a_number_that_is_an_integer_by_json_schema_is_read_for_an_integer() {
        let text =
            r#"{ "count": -5.0, "large": 3.0, "stops" : [{"city":"1.0, \" 2.0 é","nights":2e0}], "any":[1.0, 1.5] }"#;
        let trip = read::<Trip>(&json(text)).unwrap();
        assert_eq!((trip.count, trip.large), (-5, 3));
        assert_eq!(trip.stops, [Stop { city: "1.0, \" 2.0 é".into(), nights: 2 }]);
        for (number, value) in [("1e3", 1000), ("-0.0", 0), ("9007199254740991.0", 9_007_199_254_740_991)] {
            let read = read::<Trip>(&json(&format!(r#"{{"count":{number}}}"#)));
            assert_eq!(read.map(|trip| trip.count), Ok(value), "{number}");
        }
        for number in ["1.5", "1e300", "9007199254740994.0"] {
            assert!(read::<Trip>(&json(&format!(r#"{{"count":{number}}}"#))).is_err(), "{number}");
        }
    }

    #[test]
    fn what_can_be_read_as_it_is_stays_as_it_is() {
        let trip = read::<Trip>(&json(r#"{"any":1.0}"#)).unwrap();
        assert_eq!(trip.any, Some(serde_json::json!(1.0)));
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Variables {
        id: u32,
        #[serde(default)]
        large: Option<u128>,
        #[serde(default)]
        deep: Option<bool>,
        #[serde(default)]
        length: Option<Metres>,
        #[serde(default)]
        colour: Option<Colour>,
        #[serde(default)]
        name: String,
        #[serde(default)]
        list: Vec<String>,
    }

    #[test]
    fn texts_are_read_as_what_the_type_asks_for() {
        let texts = r#"{"id":"7","large":"340282366920938463463374607431768211455","deep":"true","length":"1.5","colour":"Red","name":"7","other":"x"}"#;
        let expected = Variables {
            id: 7,
            large: Some(u128::MAX),
            deep: Some(true),
            length: Some(Metres(1.5)),
            colour: Some(Colour::Red),
            name: "7".into(),
            list: Vec::new(),
        };
        assert_eq!(read_texts::<Variables>(&json(texts)), Ok(expected));
        assert!(read_texts::<mcp_model::JsonObject>(&json(texts)).is_ok());
    }

    #[test]
    fn a_list_is_read_beside_texts() {
        let read = read_texts::<Variables>(&json(r#"{"id":"7","list":["a","b"],"deep":"true"}"#)).unwrap();
        assert_eq!((read.id, read.deep, read.list), (7, Some(true), vec!["a".to_owned(), "b".to_owned()]));
        let error = read_texts::<Variables>(&json(r#"{"id":["7"]}"#)).unwrap_err();
        assert_eq!(error, "'id': invalid type: no text, expected u32");
        let error = read_texts::<Variables>(&json(r#"{"id":"7","list":{"a":"b"}}"#)).unwrap_err();
        assert!(error.starts_with("'list': invalid type: map, expected a sequence"), "{error}");
    }

    #[test]
    fn a_text_of_another_type_is_an_error_that_names_the_variable() {
        let cases = [
            (r#"{"id":"x"}"#, r#"'id': invalid value: string "x", expected u32"#),
            (r#"{"id":"-1"}"#, r#"'id': invalid value: string "-1", expected u32"#),
            (r#"{"id":"1","deep":"yes"}"#, r#"'deep': invalid value: string "yes", expected bool"#),
            (r#"{"id":"1","colour":"Blue"}"#, "'colour': unknown variant `Blue`, expected `Red`"),
            (r#"{"id":"1","list":"a"}"#, r#"'list': invalid type: string "a", expected a sequence"#),
            (r#"{"name":"x"}"#, "missing field `id`"),
        ];
        for (texts, expected) in cases {
            assert_eq!(read_texts::<Variables>(&json(texts)).unwrap_err(), expected, "{texts}");
        }
    }
}
