//! A client and four servers of an aggregate that act in random order, under one seed and a virtual clock.
//!
//! Each call has a mark of its own, which is in its arguments, its result, its progress, its question, and what is logged
//! about it. Servers are slow, silent at all or at one list, have lists without end, exit and are started again. One of
//! them is hostile in half of the runs: it lists resources and templates that are those of others, sends progress with the
//! tokens and answers with the ids of others, answers twice, sends questions and log messages about calls that have ended, and many
//! notifications of changed lists. In half of the runs, several clients share the aggregate. Each server has its name as the
//! prefix of its tools, another one, or none at one of them; a hostile server without a prefix lists tools with the prefixes of
//! others. The filters of servers change at any moment, as a configuration that is read again changes them.
//!
//! [`Defect`] has aggregates that are broken on purpose, each of which an invariant notices. Seen to be noticed in the machine
//! itself, too: the cursor of a list contains the place of one server only; a list waits for a server that is late; the resource
//! of two servers is listed by both; a template comes before a listed URI; a change of its list drops what a server has listed.

mod defects;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use defects::Broken;
use mcp_intermediary::aggregate::{Event, Prefix};
use mcp_intermediary::relay::{Filter, Rule};
use mcp_proto::spec::Primitive;
use mcp_proto::{Json, Load, Method, ProtocolVersion, RequestKey};
use mcp_testkit::random::Random;

pub use defects::Defect;

use crate::aggregate::{AggregateHarness, Offer, member};
use crate::seeded::{self, Instead};

const STEPS: usize = 80;
/// One prefix is the beginning of another one.
const NAMES: [&str; 4] = ["a", "a_b", "b", "c"];
/// The hostile server, if there is one.
const HOSTILE: usize = 3;
/// How long the client waits for one server.
const WAIT: Duration = Duration::from_secs(5);
/// The prefixes of the servers that do not have their names.
const PREFIXES: [&str; 4] = ["p", "p_a", "x", "slow"];
/// The tools of each server.
const TOOLS: [&str; 5] = ["x", "slow", "ask", "progress", "log"];
/// The tool that filters deny.
const DENIED: &str = "x";
const LISTS: [&str; 4] = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];
/// What only a hostile server sends, and nothing may be passed on of.
const POISON: &str = "poison";

/// What has happened in one or more runs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Calls that ended with their results.
    pub results: usize,
    /// Calls that ended with errors.
    pub errors: usize,
    /// Processes that exited.
    pub exits: usize,
    /// Calls that the client cancelled.
    pub cancelled: usize,
    /// Questions that reached the client.
    pub asked: usize,
    /// Lists that were read to their end.
    pub lists: usize,
    /// Servers that were late with something.
    pub late: usize,
    /// Lists that were longer than the aggregate reads.
    pub too_long: usize,
    /// Lines that a hostile server has sent.
    pub injected: usize,
    /// Changes of the filter of a server.
    pub reloads: usize,
    /// Calls of tools that a filter denied.
    pub denied: usize,
}

impl Report {
    /// Adds what has happened in another run.
    pub fn add(&mut self, other: &Self) {
        self.results += other.results;
        self.errors += other.errors;
        self.exits += other.exits;
        self.cancelled += other.cancelled;
        self.asked += other.asked;
        self.lists += other.lists;
        self.late += other.late;
        self.too_long += other.too_long;
        self.injected += other.injected;
        self.reloads += other.reloads;
        self.denied += other.denied;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { results, errors, exits, cancelled, asked, lists, late, too_long, injected, reloads, denied } = self;
        write!(f, "{results} results, {errors} errors, {exits} exits, {cancelled} cancelled, {asked} questions, ")?;
        write!(f, "{lists} lists, {late} times late, {too_long} lists too long, {injected} hostile lines, ")?;
        write!(f, "{reloads} changes of a filter, {denied} calls denied")
    }
}

/// A call of the client.
#[derive(Debug, Clone, Copy)]
struct Sent {
    mark: u64,
    server: usize,
    /// The number of starts of the server.
    start: usize,
    /// Whether the tool is the one that a filter may deny.
    may_be_denied: bool,
}

struct Run {
    random: Random,
    harness: AggregateHarness,
    is_legacy: bool,
    is_shared: bool,
    is_hostile: bool,
    prefixes: [Prefix; 4],
    /// Whether the filter of each server denies a tool, and whether one has.
    denies: [bool; 4],
    has_denied: [bool; 4],
    /// The marks of calls that were denied when they were made, and are since.
    denied: BTreeSet<u64>,
    /// The marks are consecutive numbers.
    marks: u64,
    open: BTreeMap<RequestKey, Sent>,
    /// All calls.
    sent: BTreeMap<RequestKey, Sent>,
    /// The calls that have ended for the client without a result.
    ended: Vec<Sent>,
    /// The calls that have reached their servers, with the number of starts of the server.
    reached: BTreeSet<(u64, usize)>,
    /// Other open requests.
    others: Vec<RequestKey>,
    /// What was held when nothing had happened yet.
    idle: Load,
    report: Report,
}

impl Run {
    fn new(run: &mut seeded::Run<'_, Defect>) -> Self {
        let mut random = Random::new(run.seed());
        let (legacy, modern) = (ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28);
        let client = *random.pick(&[legacy, modern]);
        let (is_shared, is_hostile) = (random.one_in(2), random.one_in(2));
        let message = *random.pick(&[4096, 16 << 20]);
        let mut prefixes =
            PREFIXES.map(|prefix| if random.one_in(2) { Prefix::ServerName } else { Prefix::Text(prefix.into()) });
        if random.one_in(2) {
            // Two would have the same names.
            prefixes[usize::try_from(random.below(4)).expect("small")] = Prefix::Off;
        }
        let offers = [0, 1, 2, 3].map(|server| {
            // What is injected has the form of an older revision.
            let version = if server == HOSTILE && is_hostile { legacy } else { *random.pick(&[legacy, modern]) };
            let mut offer = Offer::new(&[version], &TOOLS);
            offer.page = *random.pick(&[2, 3, 100]);
            offer.description = *random.pick(&[0, 0, 1500]);
            offer.resources = vec![resource(server)];
            offer.templates = vec![format!("{}:{{id}}", NAMES[server])];
            offer
        });
        let servers: Vec<_> = NAMES.into_iter().zip(offers).collect();
        let mut harness = AggregateHarness::with(&[client], &servers, |config| {
            config.is_shared = is_shared;
            for (server, prefix) in config.servers.iter_mut().zip(&prefixes) {
                server.prefix = prefix.clone();
            }
            config.relay.limits.message = message;
        });
        if client == modern {
            let filter = r#"{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}"#;
            harness.client.listen(Json::parse(filter).expect("JSON"), harness.now).expect("a subscription");
            harness.settle();
        }
        // The owners of the resources are known before anything goes wrong.
        for list in LISTS {
            harness.read_to_end(list, WAIT);
        }
        if is_hostile {
            let others = (0..HOSTILE).map(resource);
            harness.servers[HOSTILE].offer.resources.extend(others);
            if prefixes[HOSTILE] == Prefix::Off {
                let of_others = (0..HOSTILE).map(|other| format!("{}__x", prefix_of(&prefixes, other)));
                harness.servers[HOSTILE].offer.tools.extend(of_others);
            }
            harness.servers[HOSTILE].offer.templates.push("{+any}".to_owned());
            harness.servers[HOSTILE].offer.templates.extend((0..HOSTILE).map(resource));
        }
        let idle = harness.aggregate.load();
        let is_legacy = client == legacy;
        run.note(|| format!("{client}, shared {is_shared}, hostile {is_hostile}, messages of {message}"));
        let mut broken = Broken::new(run);
        harness.instead = Some(Instead(Box::new(move |action| broken.instead(action))));
        harness.notices_exits = !run.is(Defect::IgnoresExits);
        harness.has_timers = !run.is(Defect::IgnoresTimers);
        Self {
            random,
            harness,
            is_legacy,
            is_shared,
            is_hostile,
            prefixes,
            denies: [false; 4],
            has_denied: [false; 4],
            denied: BTreeSet::new(),
            marks: 0,
            open: BTreeMap::new(),
            sent: BTreeMap::new(),
            ended: Vec::new(),
            reached: BTreeSet::new(),
            others: Vec::new(),
            idle,
            report: Report::default(),
        }
    }

    fn step(&mut self, run: &mut seeded::Run<'_, Defect>) {
        let server = self.server();
        let what = self.random.below(24);
        run.note(|| format!("{:?}: {what} at {}", self.harness.now, NAMES[server]));
        match what {
            0..=5 => self.call(server),
            6 | 7 => {
                let list = self.random.text(&LISTS);
                self.others.push(self.harness.request(list, "{}"));
            }
            8 => {
                let uri = resource(server);
                self.others.push(self.harness.request("resources/read", &format!(r#"{{"uri":"{uri}"}}"#)));
            }
            9 | 10 => self.harness.answer_slow(server),
            11 => self.cancel(),
            12 if self.harness.is_running(server) => self.exit(server),
            13 => self.harness.servers[server].offer.is_broken ^= true,
            14 => {
                if self.harness.servers[server].offer.is_silent {
                    self.harness.speak(server);
                } else if self.random.one_in(3) {
                    self.harness.servers[server].offer.is_silent = true;
                }
            }
            15 => {
                if self.harness.servers[server].offer.silent_for.is_empty() {
                    let list = self.random.text(&LISTS);
                    self.harness.servers[server].offer.silent_for.push(list);
                } else {
                    self.harness.answer_all(server);
                }
            }
            16 => {
                let is_endless = self.random.one_in(6);
                self.harness.servers[server].offer.is_endless = is_endless;
            }
            17 | 18 => self.read_list(),
            19 | 20 if self.is_hostile => self.inject(run),
            22 | 23 => self.change_filter(server, run.is(Defect::IgnoresFilters)),
            _ => {
                let time = self.random.time(Duration::from_secs(4));
                self.harness.pass(time);
            }
        }
        self.check();
    }

    fn server(&mut self) -> usize {
        usize::try_from(self.random.below(4)).expect("small")
    }

    fn call(&mut self, server: usize) {
        self.marks += 1;
        let (mark, name) = (self.marks, NAMES[server]);
        let tool = self.random.text(&TOOLS);
        let arguments = format!(r#"{{"to":"{name}","mark":"<{mark}>"}}"#);
        // One without a prefix has its name as the prefix, too.
        let prefix = prefix_of(&self.prefixes, server);
        let params = format!(r#"{{"name":"{prefix}__{tool}","arguments":{arguments}}}"#);
        let start = self.harness.servers[server].starts;
        let sent = Sent { mark, server, start, may_be_denied: tool == DENIED };
        if sent.may_be_denied && self.denies[server] {
            self.report.denied += 1;
            self.denied.insert(mark);
        }
        // What the call causes at once is checked against it.
        let asked = self.harness.asked.len();
        let request = self.harness.request("tools/call", &params);
        self.open.insert(request, sent);
        self.sent.insert(request, sent);
        for question in self.harness.asked.drain(asked..).collect::<Vec<_>>() {
            self.report.asked += 1;
            assert_eq!(marks_in(&question), [mark].into(), "a question of another call: {question}");
        }
    }

    /// The filter of a server denies the tool, or allows it again.
    fn change_filter(&mut self, server: usize, is_ignored: bool) {
        self.report.reloads += 1;
        self.denies[server] ^= true;
        self.has_denied[server] = true;
        let mut filter = Filter::new();
        if self.denies[server] {
            filter.add(Rule::deny(Primitive::Tool, DENIED).expect("a pattern"));
        } else {
            let is_of_server = |mark: &u64| self.sent.values().any(|sent| sent.mark == *mark && sent.server == server);
            self.denied.retain(|mark| !is_of_server(mark));
        }
        if !is_ignored {
            let key = self.harness.server_key(server);
            self.harness.aggregate.set_filter(key, filter, self.harness.now);
            self.harness.settle();
        }
    }

    fn cancel(&mut self) {
        let Some(request) = self.open.keys().next().copied() else { return };
        if self.harness.outcomes.contains_key(&request) {
            return;
        }
        self.harness.client.cancel(request, None, self.harness.now);
        self.harness.settle();
        self.report.cancelled += 1;
        let Sent { mark, server, .. } = self.open[&request];
        let at = &self.harness.servers[server];
        let is_served = !at.offer.is_silent && at.serves(&format!("<{mark}>"));
        assert!(!is_served, "call {mark} was cancelled, and is still served");
    }

    fn exit(&mut self, server: usize) {
        self.harness.exit(server);
        self.report.exits += 1;
        for (request, sent) in &self.open {
            let is_of_process = sent.server == server && sent.start == self.harness.servers[server].starts;
            let is_open = is_of_process && !self.harness.outcomes.contains_key(request);
            assert!(!is_open, "call {} has no outcome, and its server has exited", sent.mark);
        }
    }

    /// Reads a list to its end: it has all items of each server that is in time.
    fn read_list(&mut self) {
        let list = self.random.text(&LISTS);
        let method = Method::from(list);
        let late = self.late();
        let (mut in_time, mut is_awaited) = (Vec::new(), false);
        for server in (0..4).filter(|server| self.harness.is_usable(*server)) {
            let offer = &self.harness.servers[server].offer;
            let is_silent = offer.is_silent || offer.silent_for.contains(&list);
            if late.contains(&(server, method.clone())) {
                continue;
            }
            is_awaited |= is_silent;
            in_time.extend(Some(server).filter(|_| !is_silent));
        }
        let (mut found, longest) = self.harness.read_to_end(list, WAIT * 2);
        self.report.lists += 1;
        let bound = if is_awaited { WAIT } else { Duration::ZERO };
        assert!(longest <= bound, "{list} took {longest:?}");
        found.sort();
        let count = found.len();
        found.dedup();
        assert_eq!(found.len(), count, "{list} has an item twice");
        for server in in_time {
            for item in self.items(server, list) {
                assert!(found.contains(&item), "{list} lacks {item}: {found:?}");
            }
        }
        for server in (0..4).filter(|server| list == "tools/list" && self.denies[*server]) {
            let item = self.visible(server, DENIED);
            assert!(!found.contains(&item), "{list} has {item}, which is denied: {found:?}");
        }
    }

    /// The items of a server that its list must have.
    fn items(&self, server: usize, list: &str) -> Vec<String> {
        let offer = &self.harness.servers[server].offer;
        match list {
            "tools/list" if offer.is_endless => Vec::new(),
            "tools/list" => {
                let tools = TOOLS.iter().filter(|tool| !self.denies[server] || **tool != DENIED);
                tools.map(|tool| self.visible(server, tool)).collect()
            }
            "prompts/list" => vec![self.visible(server, "p")],
            "resources/list" => vec![resource(server)],
            _ => vec![format!("{}:{{id}}", NAMES[server])],
        }
    }

    /// The name that a list has for a tool or prompt of a server.
    fn visible(&self, server: usize, name: &str) -> String {
        match self.prefixes[server] {
            Prefix::Off => name.to_owned(),
            _ => format!("{}__{name}", prefix_of(&self.prefixes, server)),
        }
    }

    /// What servers are late with, as the aggregate has reported it.
    fn late(&self) -> BTreeSet<(usize, Method)> {
        let mut late = BTreeSet::new();
        for event in &self.harness.events {
            if let Event::Late { server, method } = event {
                late.insert((server.index(), method.clone()));
            } else if let Event::InTime { server, method } = event {
                late.remove(&(server.index(), method.clone()));
            }
        }
        late
    }

    /// The hostile server sends what concerns calls of others, or of itself that have ended.
    fn inject(&mut self, run: &mut seeded::Run<'_, Defect>) {
        if !self.harness.is_running(HOSTILE) {
            return;
        }
        self.report.injected += 1;
        let number = self.random.below(40);
        let ended: Vec<_> = self
            .ended
            .iter()
            .filter(|sent| sent.server == HOSTILE && sent.start == self.harness.servers[HOSTILE].starts)
            .map(|sent| sent.mark)
            .collect();
        let mark = ended.last().map_or_else(|| POISON.to_owned(), |mark| format!("<{mark}>"));
        let has_others = self.harness.servers[HOSTILE].may_have_other_requests();
        let may_say = self.is_legacy && self.is_shared && !has_others && (!ended.is_empty() || !self.has_call(HOSTILE));
        let line = match self.random.below(7) {
            0 => {
                let token = if self.random.one_in(2) { number.to_string() } else { format!("\"{number}\"") };
                // A token of one of its own calls is its own progress.
                if self.has_call(HOSTILE) || has_others {
                    return;
                }
                let params = format!(r#"{{"progressToken":{token},"progress":0.5,"message":"{POISON}"}}"#);
                format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#)
            }
            1 => {
                if self.harness.servers[HOSTILE].has_open_requests() || self.has_call(HOSTILE) {
                    return;
                }
                let content = format!(r#"{{"content":[{{"type":"text","text":"{POISON}"}}]}}"#);
                format!(r#"{{"jsonrpc":"2.0","id":{},"result":{content}}}"#, 1000 + number)
            }
            2 => {
                let written = String::from_utf8_lossy(&self.harness.servers[HOSTILE].written).into_owned();
                let answers: Vec<_> = written.lines().filter(|line| line.contains(r#""text":"c "#)).collect();
                let Some(again) = answers.last() else { return };
                (*again).to_owned()
            }
            3 if may_say => {
                let schema = r#""requestedSchema":{"type":"object","properties":{}}"#;
                let params = format!(r#"{{"message":"late {mark}",{schema}}}"#);
                format!(
                    r#"{{"jsonrpc":"2.0","id":"late-{}","method":"elicitation/create","params":{params}}}"#,
                    self.report.injected
                )
            }
            4 if may_say => {
                let params = format!(r#"{{"level":"error","data":"late {mark}"}}"#);
                format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{params}}}"#)
            }
            5 => {
                let uri = resource(usize::try_from(number % 3).expect("small"));
                format!(r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":"{uri}"}}}}"#)
            }
            _ => {
                let list = self.random.text(&["tools", "prompts", "resources"]);
                let line = format!(r#"{{"jsonrpc":"2.0","method":"notifications/{list}/list_changed"}}"#);
                let changed = Method::from(format!("notifications/{list}/list_changed").as_str());
                self.harness.take_notified(&changed);
                for _ in 0..30 {
                    self.harness.inject(HOSTILE, &line);
                }
                let after = self.harness.take_notified(&changed);
                assert!(after <= 1, "{after} notifications of changes at one moment");
                return;
            }
        };
        self.harness.inject(HOSTILE, &line);
        if run.is(Defect::TrustsServers) {
            self.harness.client.handle_bytes(format!("{line}\n").as_bytes(), self.harness.now);
            self.harness.settle();
        }
    }

    fn has_call(&self, server: usize) -> bool {
        self.open.values().any(|sent| sent.server == server)
    }

    /// Each outcome is from the server that the request is for, and no server and no call has received anything else.
    fn check(&mut self) {
        for (request, text) in std::mem::take(&mut self.harness.progress) {
            let own = self.sent.get(&request).map(|sent| sent.mark);
            assert!(marks_in(&text).into_iter().eq(own), "progress of another call: {text}");
            assert!(!text.contains(POISON), "{text}");
        }
        let open: BTreeSet<_> = self.open.values().map(|sent| sent.mark).collect();
        let cancelled: BTreeSet<_> = self.ended.iter().map(|sent| sent.mark).collect();
        let notified = std::mem::take(&mut self.harness.notified);
        let notified = notified.into_iter().filter(|(method, _)| *method == "notifications/message");
        for text in std::mem::take(&mut self.harness.asked).into_iter().chain(notified.map(|(_, params)| params)) {
            assert!(!text.contains(POISON), "what a hostile server sends is passed on: {text}");
            self.report.asked += 1;
            let marks = marks_in(&text);
            let is_of_ended = marks.iter().any(|mark| cancelled.contains(mark) || !open.contains(mark));
            assert!(!self.is_shared || !self.is_legacy || !is_of_ended, "it concerns an ended call: {text}");
        }
        let unexpected = std::mem::take(&mut self.harness.unexpected);
        // A client that has cancelled a call may have crossed its answer.
        let is_late = |fault: &String| fault.contains("LateResponse") && !self.ended.is_empty();
        let unexpected: Vec<_> = unexpected.iter().filter(|fault| !is_late(fault)).collect();
        assert!(unexpected.is_empty(), "the client received an answer that it does not expect: {unexpected:?}");
        let ended: Vec<_> =
            self.open.keys().copied().filter(|request| self.harness.outcomes.contains_key(request)).collect();
        for request in ended {
            let sent = self.open.remove(&request).expect("it is open");
            let name = NAMES[sent.server];
            match self.harness.outcome(request).expect("an outcome") {
                Ok(result) => {
                    let is_own = result.contains(&format!(r#""text":"{name} "#));
                    assert!(is_own, "the answer to another call, not of {name}: {result}");
                    assert_eq!(
                        marks_in(&result),
                        [sent.mark].into(),
                        "the answer to another call, at {name}: {result}"
                    );
                    assert!(!self.denied.contains(&sent.mark), "a denied call has a result, of {name}: {result}");
                    self.report.results += 1;
                }
                Err(error) => {
                    if error == "failed: timed_out" {
                        self.check_timeout(sent);
                    }
                    let is_named = error.contains(&format!("the server '{name}'"));
                    // A modern client can be asked only if it is clear about which call (BR-M-05).
                    let is_refused = error == "-32603 the client did not give what the request needs";
                    let is_of_client = error == "failed: cancelled" || error == "failed: timed_out";
                    let is_denied =
                        sent.may_be_denied && self.has_denied[sent.server] && error.contains("unknown tool");
                    assert!(is_named || is_refused || is_of_client || is_denied, "{name}: {error}");
                    // What has not reached the server is not one of its calls.
                    if !is_denied {
                        self.ended.push(sent);
                    }
                    self.report.errors += 1;
                }
            }
        }
        for (at, (server, name)) in self.harness.servers.iter_mut().zip(NAMES).enumerate() {
            for (method, params) in std::mem::take(&mut server.requests) {
                match method.as_str() {
                    "tools/call" => {
                        let is_denied = marks_in(&params).into_iter().any(|mark| self.denied.contains(&mark));
                        assert!(!is_denied, "a denied call has reached its server: {params}");
                        let is_again = params.contains("inputResponses") || params.contains("\"ask\"");
                        let is_new =
                            marks_in(&params).into_iter().all(|mark| self.reached.insert((mark, server.starts)));
                        assert!(is_new || is_again, "a call has reached its server twice: {params}");
                        let to = Json::parse(params.clone()).expect("JSON");
                        let to = to.first_member("arguments").expect("arguments").to_text().into_owned();
                        assert_eq!(member(&to, "to"), name, "a call of another server: {params}");
                    }
                    "resources/read" => assert_eq!(member(&params, "uri"), resource(at), "read at {name}"),
                    _ => {}
                }
            }
            // What is injected may be answered with an error.
            server.answers.clear();
        }
        let harness = &mut self.harness;
        self.others.retain(|request| match harness.outcome(*request) {
            Some(Ok(result)) => {
                assert!(!result.contains(POISON), "{result}");
                false
            }
            Some(Err(_)) => false,
            None => true,
        });
    }

    /// A call that took too long has reached its server, unless that was silent, and the server has not answered it.
    fn check_timeout(&self, sent: Sent) {
        let (server, mark) = (&self.harness.servers[sent.server], format!("<{}>", sent.mark));
        if server.starts != sent.start {
            return;
        }
        let has = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(&mark);
        let answered = String::from_utf8_lossy(&server.written);
        let is_answered = answered.lines().any(|line| line.contains(&mark) && line.contains("\"content\""));
        assert!(!is_answered, "the answer to call {} has not reached its client", sent.mark);
        assert!(has(&server.received), "call {} has not reached its server", sent.mark);
    }

    /// All servers work again and answer everything; the client is notified of what is there, and finds it.
    fn finish(mut self) -> Report {
        for server in 0..4 {
            if self.denies[server] {
                self.change_filter(server, false);
            }
            let offer = &mut self.harness.servers[server].offer;
            (offer.is_broken, offer.is_endless) = (false, false);
            self.harness.answer_all(server);
            self.harness.speak(server);
        }
        for _ in 0..12 {
            self.harness.pass(Duration::from_secs(40));
            for server in 0..4 {
                self.harness.answer_slow(server);
            }
        }
        self.check();
        assert_eq!((self.open.len(), self.others.len()), (0, 0), "each request has an outcome");
        for list in LISTS {
            // The first one makes the aggregate read lists that were late again, and the client is notified.
            let changed = Method::from(match list {
                "tools/list" => "notifications/tools/list_changed",
                "prompts/list" => "notifications/prompts/list_changed",
                _ => "notifications/resources/list_changed",
            });
            self.harness.notified.clear();
            let expected: BTreeSet<_> = (0..4).flat_map(|server| self.items(server, list)).collect();
            let (found, longest) = self.harness.read_to_end(list, WAIT * 2);
            assert_eq!(longest, Duration::ZERO, "{list} waits");
            let has_all = |found: Vec<String>| expected.is_subset(&found.into_iter().collect());
            if !has_all(found) {
                self.harness.pass(Duration::from_secs(2));
                assert!(self.harness.take_notified(&changed) >= 1, "the client is not notified of {changed}");
                let (found, _) = self.harness.read_to_end(list, WAIT * 2);
                assert!(has_all(found), "{list} is not complete after the notification");
            }
        }
        self.harness.pass(Duration::from_secs(2));
        self.check();
        let late = self.late();
        assert!(late.is_empty(), "{late:?} after all were in time");
        assert_eq!(self.harness.aggregate.load(), self.idle);
        for name in NAMES {
            let server = NAMES.iter().position(|known| *known == name).expect("it is one of them");
            let tool = self.visible(server, "x");
            let answer = self.harness.call(&tool, &format!(r#"{{"to":"{name}"}}"#));
            assert!(answer.is_ok(), "{answer:?}");
        }
        let events = self.harness.events.iter();
        self.report.late = events.clone().filter(|event| matches!(event, Event::Late { .. })).count();
        self.report.too_long = events.filter(|event| matches!(event, Event::ListTooLong { .. })).count();
        self.harness.close();
        let left: Vec<_> = (0..4).filter(|server| self.harness.is_running(*server)).collect();
        assert!(left.is_empty(), "a server is left: {left:?}");
        assert!(self.harness.is_closed());
        let load = self.harness.aggregate.load();
        assert_eq!((load.requests_in, load.requests_out, load.held, load.timers), (0, 0, 0, 0), "{load:?}");
        self.report
    }
}

/// The prefix with which the tools of a server can be called.
fn prefix_of(prefixes: &[Prefix; 4], server: usize) -> &str {
    match &prefixes[server] {
        Prefix::Text(text) => text,
        _ => NAMES[server],
    }
}

/// The resource of a server.
fn resource(server: usize) -> String {
    format!("{}:1", NAMES[server])
}

/// The marks in a text.
fn marks_in(text: &str) -> BTreeSet<u64> {
    let starts = text.split('<').skip(1);
    starts.filter_map(|rest| rest.split_once('>')?.0.parse().ok()).collect()
}

/// A client and the servers of an aggregate.
#[derive(Debug)]
pub struct Aggregates;

impl seeded::Simulation for Aggregates {
    type Defect = Defect;
    type Report = Report;

    const OPTIONS: &'static str = "--aggregates ";
    const DEFECTS: &'static [(Defect, &'static str)] = defects::DEFECTS;

    fn steps(_: u64) -> usize {
        STEPS
    }

    fn run(mut run: seeded::Run<'_, Defect>) -> Report {
        let mut simulation = Run::new(&mut run);
        for step in 0..STEPS {
            if run.has(step) {
                simulation.random = run.random(step);
                simulation.step(&mut run);
            }
        }
        simulation.finish()
    }

    fn add(sum: &mut Report, report: &Report) {
        sum.add(report);
    }
}
