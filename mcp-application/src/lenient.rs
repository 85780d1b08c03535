//! Results that are partly of another form than the specification's: what can be read is read.

use mcp_model::{ModelError, Payload, Problem};
use mcp_proto::{Fault, Json};

/// The most members that are left out of one entry of a list, or of a result without its list.
const REPAIRS: usize = 16;

/// Reads the typed result of a request. Parts of another form do not make the whole result unreadable:
///
/// | part | what happens |
/// |---|---|
/// | an optional member, at any depth, such as `_meta`, the `sizes` of an icon or a hint | it is left out |
/// | a tool without an `inputSchema` | it takes any object |
/// | a resource or a link to one without a `name` | its URI is the name |
/// | an entry of the result's list that has no other required member | it is left out |
///
/// The fault states how much is lost, for an [`Observation`](super::Observation). The untyped result has everything.
///
/// # Errors
///
/// The result itself does not have the shape of `T`.
///
/// # Example
///
/// ```
/// use mcp_proto::Json;
/// use mcp_application::read_result;
/// use mcp_model::ListToolsResult;
///
/// let result = r#"{"tools":[{"name":"a"},{"inputSchema":{"type":"object"}},{"name":"b","inputSchema":{},"title":7}]}"#;
/// let (list, fault) = read_result::<ListToolsResult>(&Json::parse(result)?)?;
/// let names: Vec<_> = list.tools.iter().map(|tool| tool.name.as_str()).collect();
/// assert_eq!(names, ["a", "b"]);
/// assert_eq!(
///     fault.unwrap().to_string(),
///     "parts of a result could not be read: 1 entries and 2 members; the first: tools[0].inputSchema: missing"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read_result<T: Payload>(result: &Json) -> Result<(T, Option<Fault>), ModelError> {
    let first = match T::from_json(result) {
        Ok(value) => return Ok((value, None)),
        Err(error) => error,
    };
    let mut reading = Reading { entries: 0, members: 0 };
    let mut changed = result.clone();
    let mut has_read_list = false;
    for _ in 0..=REPAIRS {
        let error = match T::from_json(&changed) {
            Ok(value) => {
                let Reading { entries, members } = reading;
                return Ok((value, Some(Fault::UnreadableParts { entries, members, first: first.to_string().into() })));
            }
            Err(error) => error,
        };
        let steps = steps(error.path());
        changed = match steps.as_slice() {
            [Step::Member(list), Step::Index(_), ..] if !has_read_list => {
                let elements = changed.first_member(list).unwrap_or(Json::empty_object());
                let elements: Vec<_> =
                    elements.elements().filter_map(|element| reading.entry::<T>(list, element)).collect();
                has_read_list = true;
                changed.with_member(list, &Json::array(&elements))
            }
            steps => reading.repaired(&changed, steps, 0, error.problem()).ok_or(first.clone())?,
        };
    }
    Err(first)
}

/// How much was left out or replaced.
struct Reading {
    entries: usize,
    members: usize,
}

impl Reading {
    /// An element of the result's list as it can be read; `None` if it cannot.
    fn entry<T: Payload>(&mut self, list: &str, element: Json) -> Option<Json> {
        let mut entry = element;
        for _ in 0..=REPAIRS {
            // The list alone, so that reading all entries takes as long as reading the list.
            let alone = Json::empty_object().with_member(list, &Json::array([&entry]));
            let Err(error) = T::from_json(&alone) else { return Some(entry) };
            let steps = steps(error.path());
            // Problems outside of the entry do not matter here.
            let [Step::Member(_), Step::Index(_), inside @ ..] = steps.as_slice() else { return Some(entry) };
            let Some(repaired) = self.repaired(&entry, inside, 0, error.problem()) else { break };
            entry = repaired;
        }
        self.entries += 1;
        None
    }

    /// A value without what could not be read in it; `None` if nothing remains.
    fn repaired(&mut self, value: &Json, steps: &[Step<'_>], depth: usize, problem: Problem) -> Option<Json> {
        let (last, parents) = steps.split_last()?;
        let holder = parents.iter().try_fold(value.clone(), |value, step| step.of(&value));
        // A path may end in a map, whose names a path does not contain.
        let replaced = holder.as_ref().and_then(|holder| last.without(holder, problem));
        match replaced {
            Some(replaced) => {
                self.members += 1;
                Some(with(value, parents, &replaced))
            }
            // Without a required member, what contains it cannot be read either.
            None if depth < REPAIRS => self.repaired(value, parents, depth + 1, Problem::Expected("a readable value")),
            None => None,
        }
    }
}

/// A step on the way to a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step<'p> {
    Member(&'p str),
    Index(usize),
}

impl Step<'_> {
    fn of(self, value: &Json) -> Option<Json> {
        match self {
            Self::Member(name) => value.first_member(name),
            Self::Index(index) => value.elements().nth(index),
        }
    }

    /// Returns the holder without this value, or with a substitute for it; `None` if the value is missing and has no
    /// substitute.
    fn without(self, holder: &Json, problem: Problem) -> Option<Json> {
        match self {
            Self::Member("inputSchema") if problem == Problem::Missing => {
                let any_object = Json::empty_object().with_member("type", &Json::from("object"));
                Some(holder.with_member("inputSchema", &any_object))
            }
            Self::Member("name") if problem == Problem::Missing => {
                let uri = holder.first_member("uri").filter(|uri| uri.as_string().is_some())?;
                Some(holder.with_member("name", &uri))
            }
            Self::Member(name) => holder.first_member(name).map(|_| holder.without_members(&[name])),
            Self::Index(index) => {
                let elements: Vec<_> = holder.elements().collect();
                let others = elements.iter().enumerate().filter(|(other, _)| *other != index);
                (index < elements.len()).then(|| Json::array(others.map(|(_, element)| element)))
            }
        }
    }
}

/// The value with `inner` at the end of the path.
fn with(value: &Json, steps: &[Step<'_>], inner: &Json) -> Json {
    let Some((first, rest)) = steps.split_first() else { return inner.clone() };
    let Some(child) = first.of(value) else { return value.clone() };
    let child = with(&child, rest, inner);
    match *first {
        Step::Member(name) => value.with_member(name, &child),
        Step::Index(index) => {
            let mut elements: Vec<_> = value.elements().collect();
            if let Some(element) = elements.get_mut(index) {
                *element = child;
            }
            Json::array(&elements)
        }
    }
}

/// The steps of the path of a [`ModelError`].
fn steps(path: &str) -> Vec<Step<'_>> {
    let parts = path.split(['.', '[']).filter(|part| !part.is_empty());
    parts
        .map(|part| match part.strip_suffix(']').and_then(|index| index.parse().ok()) {
            Some(index) => Step::Index(index),
            None => Step::Member(part),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use mcp_model::{
        CallToolResult, ContentBlock, CreateMessageResult, GetPromptResult, InitializeResult, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, ReadResourceResult,
    };

    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).unwrap()
    }

    /// What is read of a result, and how much of it is not.
    fn read<T: Payload>(text: &str) -> (String, Option<(usize, usize)>) {
        let (value, fault) = read_result::<T>(&json(text)).unwrap_or_else(|error| panic!("{text}: {error}"));
        let lost = fault.map(|fault| {
            let Fault::UnreadableParts { entries, members, .. } = fault else { panic!("{fault}") };
            (entries, members)
        });
        (value.to_json().to_text().into_owned(), lost)
    }

    #[test]
    fn one_odd_entry_loses_no_other() {
        let good = r#"{"name":"good","inputSchema":{"type":"object"}}"#;
        for (odd, expected, lost) in [
            (r#"{"name":"a"}"#, r#"{"name":"a","inputSchema":{"type":"object"}}"#, (0, 1)),
            (r#"{"name":"a","inputSchema":null}"#, r#"{"name":"a","inputSchema":{"type":"object"}}"#, (0, 2)),
            (
                r#"{"name":"a","inputSchema":{},"icons":[{"src":"s","sizes":"48x48"},{"sizes":["any"]}]}"#,
                r#"{"name":"a","inputSchema":{},"icons":[{"src":"s"}]}"#,
                (0, 2),
            ),
            (
                r#"{"name":"a","inputSchema":{},"annotations":{"readOnlyHint":"true","title":"A"}}"#,
                r#"{"name":"a","inputSchema":{},"annotations":{"title":"A"}}"#,
                (0, 1),
            ),
            (
                r#"{"name":"a","inputSchema":{},"_meta":"x","outputSchema":true,"title":7,"execution":[]}"#,
                r#"{"name":"a","inputSchema":{}}"#,
                (0, 4),
            ),
            (
                r#"{"name":"a","inputSchema":{},"icons":[{"src":"s"},{"src":"t","sizes":7},{"src":"u"}]}"#,
                r#"{"name":"a","inputSchema":{},"icons":[{"src":"s"},{"src":"t"},{"src":"u"}]}"#,
                (0, 1),
            ),
            (
                r#"{"name":"a","inputSchema":{},"icons":[{"src":"s"},{"sizes":["any"]},{"src":"u"}]}"#,
                r#"{"name":"a","inputSchema":{},"icons":[{"src":"s"},{"src":"u"}]}"#,
                (0, 1),
            ),
            (r#"{"inputSchema":{}}"#, "", (1, 0)),
            (r#"{"inputSchema":{},"uri":7}"#, "", (1, 0)),
            (r#"{"name":7,"inputSchema":{}}"#, "", (1, 1)),
            (r#""a""#, "", (1, 0)),
            (r#"{"name":"a","name":"b","inputSchema":{}}"#, "", (1, 0)),
        ] {
            let separator = if expected.is_empty() { "" } else { "," };
            for (list, expected) in [
                (format!(r#"{{"tools":[{odd},{good}]}}"#), format!(r#"{{"tools":[{expected}{separator}{good}]}}"#)),
                (format!(r#"{{"tools":[{good},{odd}]}}"#), format!(r#"{{"tools":[{good}{separator}{expected}]}}"#)),
            ] {
                assert_eq!(read::<ListToolsResult>(&list), (expected, Some(lost)), "{list}");
            }
        }
    }

    #[test]
    fn what_the_specification_allows_is_not_reported() {
        let list = r#"{"tools":[{"name":"a","inputSchema":{},"title":null,"x":7}]}"#;
        assert_eq!(read::<ListToolsResult>(list).1, None);
    }

    #[test]
    fn every_list_and_result_is_read_in_parts() {
        type Read = fn(&str) -> (String, Option<(usize, usize)>);
        let cases: [(Read, &str, &str, (usize, usize)); 8] = [
            (
                read::<CallToolResult>,
                r#"{"content":[{"type":"resource_link","uri":"x:a"},{"type":"text"},{"type":"text","text":"b"}]}"#,
                r#"{"content":[{"type":"resource_link","uri":"x:a","name":"x:a"},{"type":"text","text":"b"}]}"#,
                (1, 1),
            ),
            (
                read::<CallToolResult>,
                r#"{"content":[],"isError":"no","_meta":7,"structuredContent":{"a":1}}"#,
                r#"{"content":[],"structuredContent":{"a":1}}"#,
                (0, 2),
            ),
            (
                read::<GetPromptResult>,
                r#"{"messages":[{"role":"user","content":{"type":"text","text":"a"}},{"role":"user"}]}"#,
                r#"{"messages":[{"role":"user","content":{"type":"text","text":"a"}}]}"#,
                (1, 0),
            ),
            (
                read::<ListPromptsResult>,
                r#"{"prompts":[{"name":"a","arguments":[{"description":"x"},{"name":"b","required":"yes"}]}]}"#,
                r#"{"prompts":[{"name":"a","arguments":[{"name":"b"}]}]}"#,
                (0, 2),
            ),
            (
                read::<ListResourcesResult>,
                r#"{"resources":[{"uri":"x:a"},{"name":"b"}],"nextCursor":7}"#,
                r#"{"resources":[{"uri":"x:a","name":"x:a"}]}"#,
                (1, 2),
            ),
            (
                read::<ListResourceTemplatesResult>,
                r#"{"resourceTemplates":[{"uriTemplate":"x:{a}"},{"uriTemplate":"x:{b}","name":"b"}]}"#,
                r#"{"resourceTemplates":[{"uriTemplate":"x:{b}","name":"b"}]}"#,
                (1, 0),
            ),
            (
                read::<ReadResourceResult>,
                r#"{"contents":[{"uri":"x:a","text":"a","mimeType":7},{"text":"b"}]}"#,
                r#"{"contents":[{"uri":"x:a","text":"a"}]}"#,
                (1, 1),
            ),
            (read::<ListToolsResult>, r#"{"tools":[7],"_meta":[]}"#, r#"{"tools":[]}"#, (1, 1)),
        ];
        for (read, text, expected, lost) in cases {
            assert_eq!(read(text), (expected.to_owned(), Some(lost)), "{text}");
        }
    }

    #[test]
    fn what_is_no_such_result_is_an_error() {
        for text in ["{}", "7", r#"{"tools":7}"#, r#"{"tools":{}}"#, r#"{"tools":[],"tools":[]}"#] {
            assert!(read_result::<ListToolsResult>(&json(text)).is_err(), "{text}");
        }
        assert!(matches!(
            read_result::<CallToolResult>(&json(r#"{"content":[{"type":"new"}]}"#)),
            Ok((CallToolResult { content, .. }, None)) if matches!(content[..], [ContentBlock::Other(_)])
        ));
    }

    #[test]
    fn what_is_reported_is_the_first_part_that_could_not_be_read() {
        let list = json(r#"{"tools":[{"name":"a","inputSchema":{}},{"name":"b"},7]}"#);
        let (_, fault) = read_result::<ListToolsResult>(&list).unwrap();
        assert!(fault.unwrap().to_string().ends_with("; the first: tools[1].inputSchema: missing"));
        let greeting = json(r#"{"protocolVersion":7,"capabilities":{},"serverInfo":{"name":"a","version":"1"}}"#);
        let error = read_result::<InitializeResult>(&greeting).unwrap_err();
        assert!(error.path() == "protocolVersion" && error.problem() != Problem::Missing, "{error}");
    }

    #[test]
    fn an_entry_or_a_result_with_too_many_odd_members_is_not_read() {
        let icons = |count: usize| vec![r#"{"src":7}"#; count].join(",");
        for (title, count, is_read) in
            [("", 7, true), (r#","title":7"#, 7, true), ("", 8, true), (r#","title":7"#, 8, false)]
        {
            // Each icon takes two: its member, and itself.
            let repairs = 2 * count + usize::from(!title.is_empty());
            let odd = format!(r#""name":"a"{title},"icons":[{}]"#, icons(count));
            let list = format!(r#"{{"tools":[{{{odd},"inputSchema":{{}}}}]}}"#);
            let found = read::<ListToolsResult>(&list).1;
            assert!(
                if is_read { found == Some((0, repairs)) } else { found.is_some_and(|(entries, _)| entries == 1) },
                "{list}"
            );
            let greeting =
                format!(r#"{{"protocolVersion":"x","capabilities":{{}},"serverInfo":{{{odd},"version":"1"}}}}"#);
            let found = read_result::<InitializeResult>(&json(&greeting)).ok().map(|(_, fault)| fault);
            assert_eq!(found.is_some(), is_read, "{greeting}");
        }
    }

    #[test]
    fn an_odd_entry_is_left_out_where_a_list_is_not_the_only_required_member() {
        let result = r#"{"role":"assistant","content":[{"type":"text"},{"type":"text","text":"b"}],"model":"m"}"#;
        let read = read::<CreateMessageResult>(result).0;
        assert_eq!(read, r#"{"role":"assistant","content":[{"type":"text","text":"b"}],"model":"m"}"#);
    }

    #[test]
    fn a_path_is_read_as_its_steps() {
        assert_eq!(
            steps("tools[10].icons[0].sizes"),
            [Step::Member("tools"), Step::Index(10), Step::Member("icons"), Step::Index(0), Step::Member("sizes")]
        );
        assert_eq!(steps(""), []);
    }
}
