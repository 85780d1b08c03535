//! One line of the log: its time, level, message and fields, as text or as JSON.

use std::fmt::Write as _;

use jiff::Timestamp;
use log::kv::{Error, Key, Value, VisitSource};
use log::{Level, Record};
use serde_json::{Map, Number, Value as Json};

use super::LogFormat;

/// A line, whose texts are ready to be shown.
pub(super) struct Line {
    time: Timestamp,
    level: Level,
    message: String,
    /// Names and values, in their order.
    fields: Vec<(String, Json)>,
}

impl Line {
    /// The line for a record. `shown` makes a text fit for display.
    pub(super) fn new(record: &Record<'_>, time: Timestamp, shown: impl Fn(&str) -> String) -> Self {
        let mut fields = Fields { shown: &shown, all: Vec::new() };
        // Reading the fields does not fail.
        let _ = record.key_values().visit(&mut fields);
        let fields = fields.all;
        Self { time, level: record.level(), message: shown(&record.args().to_string()), fields }
    }

    /// A line of the program about its own records, without fields.
    pub(super) const fn plain(level: Level, time: Timestamp, message: String) -> Self {
        Self { time, level, message, fields: Vec::new() }
    }

    /// The line without its end.
    pub(super) fn format(&self, format: LogFormat) -> String {
        // Milliseconds are what people compare, and RFC 3339 is what programs read.
        let (time, level) = (format!("{:.3}", self.time), self.level.as_str().to_ascii_lowercase());
        match format {
            LogFormat::Text => {
                let mut text = format!("{time} mcp-proxy: {level}: {}", self.message);
                for (name, value) in &self.fields {
                    // Writing to a string does not fail.
                    let _ = match value.as_str().filter(|value| is_one_word(value)) {
                        Some(value) => write!(text, " {name}={value}"),
                        None => write!(text, " {name}={value}"),
                    };
                }
                text
            }
            LogFormat::Json => {
                let mut members = Map::new();
                members.insert("time".to_owned(), time.into());
                members.insert("level".to_owned(), level.into());
                members.insert("message".to_owned(), self.message.clone().into());
                members.extend(self.fields.iter().cloned());
                Json::from(members).to_string()
            }
        }
    }
}

/// Whether a value is shown without quotes.
fn is_one_word(value: &str) -> bool {
    !value.is_empty() && !value.contains([' ', '"', '=', '\\'])
}

struct Fields<'s, F> {
    shown: &'s F,
    all: Vec<(String, Json)>,
}

impl<'kvs, F: Fn(&str) -> String> VisitSource<'kvs> for Fields<'_, F> {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), Error> {
        let value = if let Some(number) = value.to_u64() {
            number.into()
        } else if let Some(number) = value.to_i64() {
            number.into()
        } else if let Some(number) = value.to_f64().and_then(Number::from_f64) {
            number.into()
        } else {
            (self.shown)(&value.to_string()).into()
        };
        self.all.push((key.as_str().to_owned(), value));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(format: LogFormat, fields: &[(&str, Value<'_>)]) -> String {
        let time = Timestamp::from_millisecond(1_795_000_000_070).unwrap();
        let args = format_args!("a request ended");
        let record = Record::builder().level(Level::Info).args(args).key_values(&fields).build();
        Line::new(&record, time, |text| text.replace("secret", "[secret]")).format(format)
    }

    #[test]
    fn a_line_has_its_time_its_level_and_its_fields() {
        let fields = [
            ("server", Value::from("files")),
            ("user.id", Value::from("https://a.example ada")),
            ("empty", Value::from("")),
            ("tool", Value::from("a=\"secret\"")),
            ("bytes", Value::from(12_u64)),
            ("error.type", Value::from(-32601_i64)),
            ("duration", Value::from(0.0125)),
        ];
        assert_eq!(
            line(LogFormat::Text, &fields),
            "2026-11-18T11:06:40.070Z mcp-proxy: info: a request ended server=files user.id=\"https://a.example ada\" \
             empty=\"\" tool=\"a=\\\"[secret]\\\"\" bytes=12 error.type=-32601 duration=0.0125"
        );
        let json: Json = serde_json::from_str(&line(LogFormat::Json, &fields)).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "time": "2026-11-18T11:06:40.070Z", "level": "info", "message": "a request ended", "server": "files",
                "user.id": "https://a.example ada", "empty": "", "tool": "a=\"[secret]\"", "bytes": 12,
                "error.type": -32601, "duration": 0.0125,
            })
        );
        assert_eq!(line(LogFormat::Text, &[]), "2026-11-18T11:06:40.070Z mcp-proxy: info: a request ended");
    }
}
