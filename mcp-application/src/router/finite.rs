//! Finds infinity and NaN in a value. `serde_json` writes them as null, which the schema of a number excludes.

use std::fmt;

use mcp_proto::Json;
use serde::Serialize;
use serde::ser::{self, Serializer};

/// Where the first number is that JSON does not have, such as `stops[2].price`; `None` if there is none. `written` is the
/// JSON of the value.
pub(super) fn not_finite<T: Serialize + ?Sized>(value: &T, written: &Json) -> Option<String> {
    // Each such number is a null there.
    memchr::memmem::find(written.as_bytes(), b"null")?;
    value.serialize(Finite).err()?.0
}

/// The path to such a number; `None` for other errors of the value, which writing it would have had.
#[derive(Debug)]
struct NotFinite(Option<String>);

impl NotFinite {
    fn inside(self, name: &str) -> Self {
        Self(self.0.map(|path| match path.as_str() {
            "" => name.to_owned(),
            deeper if deeper.starts_with('[') => format!("{name}{deeper}"),
            deeper => format!("{name}.{deeper}"),
        }))
    }
}

impl fmt::Display for NotFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number is infinite or not a number")
    }
}

impl std::error::Error for NotFinite {}

impl ser::Error for NotFinite {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self(None)
    }
}

/// A serializer that writes nothing.
struct Finite;

impl Finite {
    fn check(is_finite: bool) -> Result<(), NotFinite> {
        if is_finite { Ok(()) } else { Err(NotFinite(Some(String::new()))) }
    }
}

macro_rules! ignored {
    ($($method:ident $type:ty)*) => {
        $(fn $method(self, _: $type) -> Result<(), NotFinite> {
            Ok(())
        })*
    };
}

impl Serializer for Finite {
    type Ok = ();
    type Error = NotFinite;
    type SerializeSeq = Elements;
    type SerializeTuple = Elements;
    type SerializeTupleStruct = Elements;
    type SerializeTupleVariant = Elements;
    type SerializeMap = Members;
    type SerializeStruct = Members;
    type SerializeStructVariant = Members;

    ignored! {
        serialize_bool bool
        serialize_i8 i8
        serialize_i16 i16
        serialize_i32 i32
        serialize_i64 i64
        serialize_i128 i128
        serialize_u8 u8
        serialize_u16 u16
        serialize_u32 u32
        serialize_u64 u64
        serialize_u128 u128
        serialize_char char
        serialize_str &str
        serialize_bytes &[u8]
        serialize_unit_struct &'static str
    }

    fn serialize_f32(self, number: f32) -> Result<(), NotFinite> {
        Self::check(number.is_finite())
    }

    fn serialize_f64(self, number: f64) -> Result<(), NotFinite> {
        Self::check(number.is_finite())
    }

    fn serialize_none(self) -> Result<(), NotFinite> {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), NotFinite> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), NotFinite> {
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Result<(), NotFinite> {
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), NotFinite> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), NotFinite> {
        value.serialize(self).map_err(|error| error.inside(variant))
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Elements, NotFinite> {
        Ok(Elements::default())
    }

    fn serialize_tuple(self, _: usize) -> Result<Elements, NotFinite> {
        Ok(Elements::default())
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Elements, NotFinite> {
        Ok(Elements::default())
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Elements, NotFinite> {
        Ok(Elements { variant: Some(variant), index: 0 })
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Members, NotFinite> {
        Ok(Members::default())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Members, NotFinite> {
        Ok(Members::default())
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Members, NotFinite> {
        Ok(Members { variant: Some(variant), key: String::new() })
    }
}

#[derive(Default)]
struct Elements {
    variant: Option<&'static str>,
    index: usize,
}

impl Elements {
    fn check<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotFinite> {
        let index = self.index;
        self.index += 1;
        value.serialize(Finite).map_err(|error| {
            let error = error.inside(&format!("[{index}]"));
            match self.variant {
                Some(variant) => error.inside(variant),
                None => error,
            }
        })
    }
}

#[derive(Default)]
struct Members {
    variant: Option<&'static str>,
    /// Of the member whose value is next.
    key: String,
}

impl Members {
    fn check<T: Serialize + ?Sized>(&self, key: &str, value: &T) -> Result<(), NotFinite> {
        value.serialize(Finite).map_err(|error| {
            let error = error.inside(key);
            match self.variant {
                Some(variant) => error.inside(variant),
                None => error,
            }
        })
    }
}

macro_rules! elements {
    ($($trait:ident $method:ident)*) => {
        $(impl ser::$trait for Elements {
            type Ok = ();
            type Error = NotFinite;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotFinite> {
                self.check(value)
            }

            fn end(self) -> Result<(), NotFinite> {
                Ok(())
            }
        })*
    };
}

elements! {
    SerializeSeq serialize_element
    SerializeTuple serialize_element
    SerializeTupleStruct serialize_field
    SerializeTupleVariant serialize_field
}

macro_rules! members {
    ($($trait:ident)*) => {
        $(impl ser::$trait for Members {
            type Ok = ();
            type Error = NotFinite;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), NotFinite> {
                self.check(key, value)
            }

            fn end(self) -> Result<(), NotFinite> {
                Ok(())
            }
        })*
    };
}

members! { SerializeStruct SerializeStructVariant }

impl ser::SerializeMap for Members {
    type Ok = ();
    type Error = NotFinite;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), NotFinite> {
        let key = Json::from_serialize(key).map_err(|_| NotFinite(None))?;
        self.key = key.as_string().unwrap_or_else(|| key.to_text()).into_owned();
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotFinite> {
        self.check(&self.key, value)
    }

    fn end(self) -> Result<(), NotFinite> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Serialize, Default)]
    struct Report {
        mean: f64,
        absent: Option<u8>,
        unit: (),
        large: i128,
        any: serde_json::Value,
        rows: Vec<BTreeMap<u8, (f32, f32)>>,
        shape: Option<Shape>,
    }

    #[derive(Serialize)]
    enum Shape {
        Circle { radius: f64 },
        Line(f64),
        Box(f64, f64),
    }

    fn found(report: &Report) -> Option<String> {
        not_finite(report, &Json::from_serialize(report).unwrap())
    }

    #[test]
    fn a_number_that_json_has_not_is_found_by_its_path() {
        assert_eq!(found(&Report::default()), None);
        assert_eq!(found(&Report { mean: f64::NAN, ..Report::default() }).as_deref(), Some("mean"));
        let rows = vec![BTreeMap::from([(1, (0.0, 0.0))]), BTreeMap::from([(2, (0.0, f32::INFINITY))])];
        assert_eq!(found(&Report { rows, ..Report::default() }).as_deref(), Some("rows[1].2[1]"));
        for (shape, path) in [
            (Shape::Circle { radius: f64::NEG_INFINITY }, "shape.Circle.radius"),
            (Shape::Line(f64::NAN), "shape.Line"),
            (Shape::Box(0.0, f64::NAN), "shape.Box[1]"),
        ] {
            assert_eq!(found(&Report { shape: Some(shape), ..Report::default() }).as_deref(), Some(path));
        }
    }
}
