//! The first message of the client, and what the aggregate states about itself.

use mcp_proto::client::CloseReason;
use mcp_proto::spec::{Change, List, TASKS_EXTENSION};
use mcp_proto::{ErrorObject, Instant, Json, Load, Method, Ticket, code};

use super::connection::Opener;
use super::{Action, Aggregate, AggregateTimer, Event, lazy};

/// The maximum of the bytes of one server's instructions, and of all together.
const INSTRUCTIONS: usize = 8 * 1024;
const ALL_INSTRUCTIONS: usize = 64 * 1024;
/// The extensions that an aggregate serves if one of its servers does: ids of tasks contain their server, and interfaces
/// are resources.
const EXTENSIONS: [&str; 2] = [TASKS_EXTENSION, "io.modelcontextprotocol/ui"];

/// How far the aggregate has been opened.
pub(super) enum Stage {
    /// The client has sent nothing.
    Awaiting,
    /// The servers are being started. The client's requests are held.
    Opening { opener: Opener, held: Vec<(Ticket, Method, Option<Json>)> },
    /// The client was answered.
    Open { opener: Opener },
    /// The client has gone.
    Closed { reason: CloseReason },
}

impl Stage {
    pub(super) const fn opener(&self) -> Option<&Opener> {
        match self {
            Self::Opening { opener, .. } | Self::Open { opener } => Some(opener),
            Self::Awaiting | Self::Closed { .. } => None,
        }
    }

    pub(super) fn load(&self) -> Load {
        let waiting = if let Self::Opening { held, .. } = self { held.len() } else { 0 };
        let mut load = Load::default();
        (load.held, load.waiting) = (self.opener().map_or(0, Opener::len), waiting);
        load
    }
}

impl Aggregate {
    /// Starts the servers, and holds the request until they can be used.
    pub(super) fn on_first_request(&mut self, ticket: Ticket, method: Method, params: Option<Json>, now: Instant) {
        let context = self.server.context(&ticket).filter(|context| context.version.is_stateless());
        let opener = match context {
            Some(context) => Opener::Requests {
                client_info: context.client_info.unwrap_or(Json::empty_object()),
                capabilities: context.client_capabilities,
            },
            None if method == Method::INITIALIZE => {
                let params = params.clone().filter(Json::is_object).unwrap_or(Json::empty_object());
                Opener::Session(params)
            }
            None => {
                let error = ErrorObject::new(code::INVALID_REQUEST, "the session is not initialized");
                return self.respond(ticket, Err(error), now);
            }
        };
        self.stage = Stage::Opening { opener, held: vec![(ticket, method, params)] };
        self.timers.set(AggregateTimer::Opening, now + self.config.server_timeout);
        for server in self.keys() {
            self.start(server, now);
        }
        self.open_if_settled(now);
    }

    /// Starts a server, unless its earlier process has not ended.
    pub(super) fn start(&mut self, server: super::ServerKey, now: Instant) {
        let Some(opener) = self.stage.opener() else { return };
        let Some(member) = self.members.get_mut(&server) else { return };
        if !matches!(member.state, super::MemberState::Stopped) {
            return;
        }
        // The configuration was checked.
        if member.connect(opener, now).is_ok() {
            self.out.act(Action::Start { server });
            self.active.insert(server);
        }
    }

    /// Answers the client if each server was connected or has failed. It does not wait for a server that was late before,
    /// unless no server can be used yet.
    pub(super) fn open_if_settled(&mut self, now: Instant) {
        let is_usable = self.members.values().any(super::Member::is_usable);
        let is_awaited = |member: &super::Member| !(member.is_settled || (member.is_late && is_usable));
        if !self.members.values().any(is_awaited) {
            self.open(now);
        }
    }

    /// The client has waited long enough for servers that are not connected.
    pub(super) fn open_without_late(&mut self, now: Instant) {
        for (server, member) in &mut self.members {
            if !member.is_settled && !std::mem::replace(&mut member.is_late, true) {
                self.out.report(Event::Late { server: *server, method: Method::INITIALIZE });
            }
        }
        self.open(now);
    }

    /// Answers the client, with what is known of the servers.
    pub(super) fn open(&mut self, now: Instant) {
        let (opener, held) = match std::mem::replace(&mut self.stage, Stage::Awaiting) {
            Stage::Opening { opener, held } => (opener, held),
            stage @ (Stage::Awaiting | Stage::Open { .. } | Stage::Closed { .. }) => {
                self.stage = stage;
                return;
            }
        };
        self.timers.clear(AggregateTimer::Opening);
        let mut config = self.server.config().clone();
        config.versions = opener.versions();
        config.capabilities = self.capabilities();
        config.instructions = self.instructions();
        // The servers decide about subscriptions.
        config.reports_subscribe = true;
        config.manual_acknowledgement = true;
        self.stage = Stage::Open { opener };
        // The configuration was checked, and the aggregate is opened once.
        let _ = self.server.serve(config);
        for (ticket, method, params) in held {
            self.server.handle_again(ticket, method, params, now);
        }
    }

    /// The capabilities of any server that the aggregate can serve. A server that was not connected yet may have all.
    fn capabilities(&self) -> Json {
        let any = |name: &str| self.members.values().any(|member| member.has(name));
        let mut all = Json::empty_object();
        let truth = Json::from(true);
        for list in List::ALL {
            let (name, flag) = Change::List(*list).capability();
            if any(name) || (*list == List::Tools && self.config.lazy_tools.is_some()) {
                all = all.with_member(name, &Json::empty_object().with_member(flag, &truth));
            }
        }
        let (name, flag) = Change::Resource.capability();
        if self.members.values().any(|member| member.has_flag(name, flag)) {
            let resources = all.first_member(name).unwrap_or(Json::empty_object());
            all = all.with_member(name, &resources.with_member(flag, &truth));
        }
        for name in ["completions", "logging"] {
            if any(name) {
                all = all.with_member(name, &Json::empty_object());
            }
        }
        let known = || self.members.values().filter_map(|member| member.capabilities.as_ref());
        // The list of tasks would have to be composed of those of all servers.
        if let Some(tasks) = known().find_map(|known| known.first_member("tasks")).filter(Json::is_object) {
            all = all.with_member("tasks", &tasks.without_members(&["list"]));
        }
        let mut extensions = Json::empty_object();
        for known in known().filter_map(|known| known.first_member("extensions")) {
            for name in EXTENSIONS {
                if let Some(extension) = known.first_member(name).filter(Json::is_object) {
                    extensions = extensions.with_missing_members(&Json::empty_object().with_member(name, &extension));
                }
            }
        }
        if extensions != Json::empty_object() {
            all = all.with_member("extensions", &extensions);
        }
        all
    }

    /// The instructions of all servers.
    fn instructions(&self) -> Option<Box<str>> {
        let mut all = String::new();
        if self.config.lazy_tools.is_some() {
            all.push_str(lazy::INSTRUCTIONS);
            all.push_str("\n\n");
        }
        for member in self.members.values() {
            let Some(instructions) = &member.instructions else { continue };
            let text = format!("# {}\n\n{instructions}\n\n", member.name);
            if all.len() + text.len() <= ALL_INSTRUCTIONS {
                all.push_str(&text);
            }
        }
        let all = all.trim_end();
        (!all.is_empty()).then(|| all.into())
    }
}

/// The instructions in the result of `initialize` or `server/discover`, cut off at their limit.
pub(super) fn instructions_of(result: &Json) -> Option<Box<str>> {
    let text = result.first_member("instructions")?;
    let text = text.as_string()?;
    let mut end = text.len().min(INSTRUCTIONS);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = text.get(..end).unwrap_or_default().trim();
    (!text.is_empty()).then(|| text.into())
}
