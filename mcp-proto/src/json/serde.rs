//! `Serialize` and `Deserialize` for `Json`, so that derived types can contain it with its bytes unchanged.

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::Json;

/// Writes the text unchanged, which only the serialisers of `serde_json` support.
impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text: &RawValue = self.read().map_err(S::Error::custom)?;
        text.serialize(serializer)
    }
}

/// Reads the text unchanged, which only the deserialisers of `serde_json` support. Values that serde has buffered, for
/// `flatten` or an untagged enum, are refused, because their text is lost.
impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text: Box<str> = Box::<RawValue>::deserialize(deserializer)?.into();
        Self::parse(String::from(text)).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Holder {
        kept: Json,
    }

    #[test]
    fn a_json_inside_another_type_keeps_its_bytes() {
        for text in [
            r#"{"kept":{"b":1.0,"a":[12345678901234567890.10, "\u00e9\ud800"]}}"#,
            // A name that `serde_json` uses internally.
            r#"{"kept":{"$serde_json::private::RawValue":"1.0"}}"#,
        ] {
            let holder: Holder = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&holder).unwrap(), text);
        }
    }

    #[test]
    fn what_is_too_deep_to_be_a_json_is_refused_inside_another_type_too() {
        let deep = format!(r#"{{"kept":{}{}}}"#, "[".repeat(2000), "]".repeat(2000));
        assert!(serde_json::from_str::<Holder>(&deep).is_err());
    }
}
