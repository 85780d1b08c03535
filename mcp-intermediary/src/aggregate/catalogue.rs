//! The definitions of the tools of all servers that a language model may call, for a search.
//!
//! The definitions of a server are those of its list as it was read last. They are forgotten when the server is started
//! again, and read anew before the next search after they have changed. The index is made when it is needed and
//! something has changed.

use std::collections::{BTreeMap, BTreeSet};

use mcp_proto::Json;

use super::apps::is_for_model;
use super::event::ServerKey;
use super::pages::Part;
use super::ranking::{FIELDS, Ranking};

/// The maximum number of arguments of a tool that are read for the index, and of the bytes of a text.
const ARGUMENTS: usize = 64;
const TEXT: usize = 4096;
/// What a search returns of a definition.
const MEMBERS: [&str; 4] = ["name", "title", "description", "inputSchema"];

/// The definitions of the tools of all servers.
#[derive(Debug, Default)]
pub(super) struct Catalogue {
    servers: BTreeMap<ServerKey, Definitions>,
    /// `None` if something has changed since it was made.
    index: Option<Index>,
}

/// The definitions of the tools of a server.
#[derive(Debug)]
struct Definitions {
    /// As the server has sent them; none if they are too large.
    tools: Vec<Json>,
    /// `None` if they are too large.
    names: Option<BTreeSet<Box<str>>>,
    bytes: usize,
    /// They were read since the last change.
    is_current: bool,
}

/// All tools, with the names that clients see.
#[derive(Debug)]
struct Index {
    tools: Vec<(ServerKey, Json)>,
    ranking: Ranking,
}

impl Catalogue {
    /// Replaces the definitions of a server by those of a list that was read to its end. They are not kept if all would
    /// take more than this number of bytes.
    pub(super) fn set(&mut self, server: ServerKey, part: &Part, most: usize) {
        let mut tools = Vec::new();
        for page in &part.pages {
            let items = page.content.first_member("tools");
            tools.extend(items.iter().flat_map(Json::elements).filter(is_for_model));
        }
        if let Some(known) = self.servers.get_mut(&server).filter(|known| known.tools == tools) {
            known.is_current = true;
            return;
        }
        self.remove(server);
        let bytes: usize = tools.iter().map(Json::len).sum();
        let definitions = if self.bytes().saturating_add(bytes) > most {
            Definitions { tools: Vec::new(), names: None, bytes: 0, is_current: true }
        } else {
            let names = tools.iter().filter_map(|tool| Some(Box::from(&*tool.first_member("name")?.as_string()?)));
            let names = Some(names.collect());
            // A copy, because a slice would keep the whole page in memory.
            let tools = tools.into_iter().map(|tool| tool.detached_from(usize::MAX)).collect();
            Definitions { tools, names, bytes, is_current: true }
        };
        self.servers.insert(server, definitions);
    }

    /// The list of a server may have changed.
    pub(super) fn on_changed(&mut self, server: ServerKey) {
        if let Some(definitions) = self.servers.get_mut(&server) {
            definitions.is_current = false;
        }
    }

    /// Forgets the definitions of a server.
    pub(super) fn remove(&mut self, server: ServerKey) {
        self.servers.remove(&server);
        self.index = None;
    }

    /// Names of tools have become those of other servers.
    pub(super) fn on_renamed(&mut self) {
        self.index = None;
    }

    /// Whether the definitions of a server were read since their last change.
    pub(super) fn is_current(&self, server: ServerKey) -> bool {
        self.servers.get(&server).is_some_and(|definitions| definitions.is_current)
    }

    /// Whether a server has a tool for the model that it calls so itself; `None` if that is not known.
    pub(super) fn has(&self, server: ServerKey, name: &str) -> Option<bool> {
        let definitions = self.servers.get(&server).filter(|definitions| definitions.is_current)?;
        definitions.names.as_ref().map(|names| names.contains(name))
    }

    /// The bytes of all definitions.
    pub(super) fn bytes(&self) -> usize {
        self.servers.values().map(|definitions| definitions.bytes).sum()
    }

    /// The definitions of all servers, if the index is to be made of them.
    pub(super) fn unindexed(&self) -> Option<Vec<(ServerKey, Json)>> {
        if self.index.is_some() {
            return None;
        }
        let all = self.servers.iter();
        Some(all.flat_map(|(server, all)| all.tools.iter().map(|tool| (*server, tool.clone()))).collect())
    }

    /// Makes the index of tools with the names that clients see; `names` are those of the servers.
    pub(super) fn index(&mut self, tools: Vec<(ServerKey, Json)>, names: impl Fn(ServerKey) -> String) {
        let mut ranking = Ranking::default();
        for (server, tool) in &tools {
            let [name, title, description, server, arguments] = texts_of(tool, &names(*server));
            ranking.add([&name, &title, &server, &description, &arguments]);
        }
        self.index = Some(Index { tools, ranking });
    }

    /// The definitions that match a query best, of servers that satisfy a condition: at most this number, and with at most
    /// this number of bytes.
    pub(super) fn find(
        &self,
        query: &str,
        is_meant: impl Fn(ServerKey) -> bool,
        count: usize,
        bytes: usize,
    ) -> Vec<Json> {
        let Some(index) = &self.index else { return Vec::new() };
        let (mut found, mut taken) = (Vec::new(), 0_usize);
        let ranked = index.ranking.find(query).into_iter().filter_map(|tool| index.tools.get(tool));
        for (_, tool) in ranked.filter(|(server, _)| is_meant(*server)).take(count) {
            let definition = definition_of(tool);
            taken = taken.saturating_add(definition.len());
            if taken > bytes {
                break;
            }
            found.push(definition);
        }
        found
    }
}

/// What a search returns of a definition.
fn definition_of(tool: &Json) -> Json {
    let found = tool.first_members(MEMBERS);
    let members: Vec<_> =
        MEMBERS.into_iter().zip(&found).filter_map(|(name, member)| Some((name, member.as_ref()?))).collect();
    Json::empty_object().with_members(&members)
}

/// The texts of a definition that are searched: name, title, description, name of the server, and arguments.
fn texts_of(tool: &Json, server: &str) -> [String; FIELDS] {
    let text = |object: &Json, name: &str| {
        let text = object.first_member(name);
        let text = text.as_ref().and_then(Json::as_string).unwrap_or_default();
        let mut end = text.len().min(TEXT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.get(..end).unwrap_or_default().to_owned()
    };
    let mut title = text(tool, "title");
    if title.is_empty() {
        title = tool.first_member("annotations").map(|annotations| text(&annotations, "title")).unwrap_or_default();
    }
    let properties = tool.first_member("inputSchema").and_then(|schema| schema.first_member("properties"));
    let mut arguments = String::new();
    for (name, schema) in properties.iter().flat_map(Json::entries).take(ARGUMENTS) {
        for part in [&*name.unwrap_or_default(), &*text(&schema, "description")] {
            arguments.push_str(part);
            arguments.push(' ');
        }
    }
    [text(tool, "name"), title, text(tool, "description"), server.to_owned(), arguments]
}
