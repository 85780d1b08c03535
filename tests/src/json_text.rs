//! Generators of valid and invalid JSON texts for property tests.

use std::fmt::Write;

use proptest::prelude::*;

/// An object of about `size` bytes whose names are distinct and as short as possible.
pub fn keys(size: usize) -> String {
    let mut text = String::from(r#"{"":0"#);
    let mut number = 0_u64;
    while text.len() < size {
        write!(text, r#","{number:x}":0"#).expect("strings take everything");
        number += 1;
    }
    text + "}"
}

/// Valid JSON values as text, in every spelling that the grammar allows.
pub fn value() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        "-?(0|[1-9][0-9]{0,3})(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?",
        Just("12345678901234567890123456789.10".to_owned()),
        Just("-0.0e-0".to_owned()),
        Just("1e400".to_owned()),
    ];
    let scalar =
        prop_oneof![Just("null".to_owned()), Just("true".to_owned()), Just("false".to_owned()), number, string(),];
    scalar.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            (prop::collection::vec(inner.clone(), 0..6), blank())
                .prop_map(|(elements, blank)| { format!("[{blank}{}]", elements.join(&format!("{blank},"))) }),
            (prop::collection::vec((key(), inner), 0..6), blank()).prop_map(|(members, blank)| {
                // A number in each name makes the names of one object distinct.
                let members: Vec<_> = members
                    .into_iter()
                    .enumerate()
                    .map(|(number, (key, value))| format!("\"{number}{key}\"{blank}:{blank}{value}"))
                    .collect();
                format!("{{{blank}{}{blank}}}", members.join(","))
            }),
        ]
    })
}

/// A valid object as text.
pub fn object() -> impl Strategy<Value = String> {
    prop::collection::vec(value(), 0..5).prop_map(|values| {
        let members: Vec<_> =
            values.into_iter().enumerate().map(|(number, value)| format!("\"m{number}\":{value}")).collect();
        format!("{{{}}}", members.join(","))
    })
}

/// Texts that are almost JSON: valid texts with bytes removed, changed or added.
pub fn almost_json() -> impl Strategy<Value = Vec<u8>> {
    let edit =
        (any::<prop::sample::Index>(), prop::sample::select(b"{}[]\",:\\0-1e.+ntu \n\x00\xff\xc3\xa9".to_vec()), 0..3);
    (value(), prop::collection::vec(edit, 0..4)).prop_map(|(text, edits)| {
        let mut bytes = text.into_bytes();
        for (index, byte, kind) in edits {
            let at = index.index(bytes.len() + 1);
            match kind {
                0 if at < bytes.len() => {
                    bytes.remove(at);
                }
                1 if at < bytes.len() => bytes[at] = byte,
                _ => bytes.insert(at, byte),
            }
        }
        bytes
    })
}

fn string() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop_oneof![
            "[a-zA-Z0-9 é日😀/]{0,20}",
            prop::sample::select(vec!["\\n", "\\\"", "\\\\", "\\/", "\\u0041", "\\ud83d\\ude00", "\\ud800", "\\u0000"])
                .prop_map(str::to_owned),
        ],
        0..4,
    )
    .prop_map(|parts| format!("\"{}\"", parts.concat()))
}

fn key() -> impl Strategy<Value = String> {
    // Some of these names have a special meaning in JavaScript or `serde_json`.
    let named = ["\\u0041", "é", "__proto__", "$serde_json::private::RawValue", "$serde_json::private::Number"];
    prop_oneof!["[a-zA-Z]{0,6}", prop::sample::select(named.to_vec()).prop_map(str::to_owned)]
}

fn blank() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "", " ", "\n", " \r\n\t"]).prop_map(str::to_owned)
}
