//! Two tools in the place of all: one that searches the tools of all servers, and one that calls what was found.
//!
//! A call of the second one is made a call of the tool that it names before it is routed, with the same ticket, so that
//! progress, cancellation, tasks, retries with input and results are those of that tool.

use mcp_proto::spec::Primitive;
use mcp_proto::{Instant, Json, Method, Ticket};

use super::Aggregate;
use super::apps::{is_for_model, is_for_pages};
use super::list_kind::ListKind;
use super::pages::Position;
use super::pending::Then;

/// The names of the two tools.
const SEARCH: &str = "search_tools";
const CALL: &str = "call_tool";
/// What instructions begin with.
pub(super) const INSTRUCTIONS: &str =
    "Most tools are not listed: find them with search_tools, and call them with call_tool.";
/// The number of tools that a search returns without `limit`, and the maximum.
const USUAL: u64 = 8;
const MOST: u64 = 50;

/// The definition of the tool that searches.
const SEARCH_DEFINITION: &str = concat!(
    r#"{"name":"search_tools","title":"Search tools","description":"Finds tools by words that their names, titles, "#,
    r#"descriptions and arguments contain, and returns the definitions of those that match best. Call them with call_tool.","#,
    r#""inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"Words that say what the tool "#,
    r#"does, such as: create pull request"},"limit":{"type":"integer","minimum":1,"maximum":50,"description":"The maximum "#,
    r#"number of tools; 8 if it is not stated"}},"required":["query"]},"outputSchema":{"type":"object","properties":"#,
    r#"{"tools":{"type":"array","items":{"type":"object"}}},"required":["tools"]},"#,
    r#""annotations":{"readOnlyHint":true,"openWorldHint":false}}"#
);
/// The definition of the tool that calls.
const CALL_DEFINITION: &str = concat!(
    r#"{"name":"call_tool","title":"Call a tool","description":"Calls a tool that search_tools has returned. The result is "#,
    r#"that of the tool.","inputSchema":{"type":"object","properties":{"name":{"type":"string","description":"The name of "#,
    r#"the tool, as search_tools has returned it"},"arguments":{"type":"object","description":"The arguments of the tool, "#,
    r#"as its inputSchema describes them"}},"required":["name"]},"execution":{"taskSupport":"optional"}}"#
);

/// A call of one of the two tools.
pub(super) enum LazyCall {
    Search {
        query: String,
        limit: usize,
    },
    /// These are the parameters of the call of the tool that is named.
    Call(Json),
    /// The arguments are wrong, for this reason.
    Wrong(&'static str),
}

/// The definitions of the two tools. In a session, the second one may be called as a task.
pub(super) fn definitions(is_stateless: bool) -> Vec<Json> {
    let definitions = [SEARCH_DEFINITION, CALL_DEFINITION].iter().filter_map(|text| Json::parse(*text).ok());
    let hidden = if is_stateless { &["execution"][..] } else { &[] };
    definitions.map(|definition| definition.without_members(hidden)).collect()
}

/// The result of a call that has failed.
pub(super) fn tool_error(text: &str) -> Json {
    let content = Json::empty_object().with_members(&[("type", &"text".into()), ("text", &text.into())]);
    Json::empty_object().with_members(&[("content", &Json::array(&[content])), ("isError", &Json::from(true))])
}

impl Aggregate {
    /// Whether clients see an item in lists; a tool has the name that they see. Tools that only pages call are not found
    /// with a search: a page calls them by their names.
    pub(super) fn is_visible(&self, kind: ListKind, item: &Json) -> bool {
        let Some(listed) = self.config.lazy_tools.as_ref().filter(|_| kind == ListKind::Tools) else { return true };
        if is_for_pages(item) && !is_for_model(item) {
            return true;
        }
        let name = item.first_member(kind.name());
        let name = name.as_ref().and_then(Json::as_string);
        name.is_some_and(|name| listed.allows(Primitive::Tool, &name, None))
    }

    /// Whether the name is that of one of the two tools, so that no server can have it.
    pub(super) fn is_reserved(&self, name: &str) -> bool {
        self.config.lazy_tools.is_some() && [SEARCH, CALL].contains(&name)
    }

    /// The call of one of the two tools that a request is.
    pub(super) fn lazy_call(&self, method: &Method, params: Option<&Json>) -> Option<LazyCall> {
        if self.config.lazy_tools.is_none() || *method != Method::TOOLS_CALL {
            return None;
        }
        let params = params?;
        let [name, arguments] = params.first_members(["name", "arguments"]);
        let arguments = arguments.unwrap_or(Json::empty_object());
        match name.as_ref().and_then(Json::as_string).as_deref() {
            Some(SEARCH) => {
                let [query, limit] = arguments.first_members(["query", "limit"]);
                let query = query.as_ref().and_then(Json::as_string).map(String::from);
                let Some(query) = query else { return Some(LazyCall::Wrong("query must be a string")) };
                let limit = limit.map_or(Some(USUAL), |limit| limit.read::<u64>().ok());
                let limit = limit.filter(|limit| (1..=MOST).contains(limit));
                Some(match limit.and_then(|limit| usize::try_from(limit).ok()) {
                    Some(limit) => LazyCall::Search { query, limit },
                    None => LazyCall::Wrong("limit must be a number from 1 to 50"),
                })
            }
            Some(CALL) => {
                let [name, own] = arguments.first_members(["name", "arguments"]);
                let Some(name) = name.filter(|name| name.as_string().is_some()) else {
                    return Some(LazyCall::Wrong(
                        "name must be a string: the name of a tool that search_tools has returned",
                    ));
                };
                let params = params.without_members(&["arguments"]).with_member("name", &name);
                Some(LazyCall::Call(own.map_or_else(|| params.clone(), |own| params.with_member("arguments", &own))))
            }
            Some(_) | None => None,
        }
    }

    /// Searches the tools of all servers, after the lists were read that have changed.
    pub(super) fn on_search(
        &mut self,
        ticket: Ticket,
        query: String,
        limit: usize,
        params: Option<&Json>,
        now: Instant,
    ) {
        let mut unread = self.servers_with(ListKind::Tools);
        unread.retain(|server| !self.catalogue.is_current(*server));
        if unread.is_empty() {
            return self.answer_search(ticket, &query, limit, now);
        }
        let meta = params.and_then(|params| params.first_member("_meta"));
        let asked = meta.map(|meta| Json::empty_object().with_member("_meta", &meta));
        let positions = unread.into_iter().map(Position::first).collect();
        self.begin_list(Then::Search { ticket, query, limit }, ListKind::Tools, positions, false, asked, now);
    }

    /// Answers a search with what is known of servers that can be used.
    pub(super) fn answer_search(&mut self, ticket: Ticket, query: &str, limit: usize, now: Instant) {
        if let Some(tools) = self.catalogue.unindexed() {
            let visible = tools
                .into_iter()
                .filter_map(|(server, tool)| Some((server, self.learn(server, ListKind::Tools, &tool, now)?)));
            let visible: Vec<_> = visible.collect();
            let members = &self.members;
            let name = |server| members.get(&server).map(|member| String::from(&*member.name)).unwrap_or_default();
            self.catalogue.index(visible, name);
        }
        // The definitions are in the answer twice.
        let bytes = self.most_of_answer() / 2;
        let found = self.catalogue.find(query, |server| self.is_usable(server), limit, bytes);
        let found = Json::empty_object().with_member("tools", &Json::array(&found));
        let text = Json::from(&*found.to_text());
        let content = Json::empty_object().with_members(&[("type", &"text".into()), ("text", &text)]);
        let result =
            Json::empty_object().with_members(&[("content", &Json::array(&[content])), ("structuredContent", &found)]);
        self.respond(ticket, Ok(result), now);
    }
}
