//! What may be seen, said without the protocol: calls, what became of them, and exchanges that are over.

use std::collections::{BTreeMap, BTreeSet};

use mcp_proto::client::{Outcome, SubscriptionKey};
use mcp_proto::server::{ExchangeKey, HttpAction};
use mcp_proto::{Failed, Json, RequestKey};

use super::ByRequest;

/// All calls of a simulation.
#[derive(Debug, Default)]
pub struct Model {
    waiting: ByRequest<String>,
    calls: BTreeMap<String, Call>,
    subscriptions: BTreeSet<SubscriptionKey>,
    exchanges: BTreeMap<ExchangeKey, Sent>,
    results: usize,
}

/// One call.
#[derive(Debug, Default)]
struct Call {
    taken_back: bool,
    /// How often the server's application has begun to serve it.
    begun: u32,
    answer: Option<Answer>,
}

/// What the server's application has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The text.
    Echo,
    /// An error.
    Refusal,
}

/// How far the answer of an HTTP server has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Streaming,
    Over,
}

impl Model {
    /// The client has made a call.
    pub fn called(&mut self, request: RequestKey, text: &str) {
        assert!(self.waiting.insert(request, text.to_owned()).is_none(), "{request:?} names two requests");
        assert!(self.calls.insert(text.to_owned(), Call::default()).is_none(), "plans call with different texts");
    }

    /// A request that the client waits for.
    pub fn nth_waiting(&self, nth: u64) -> Option<RequestKey> {
        let count = u64::try_from(self.waiting.len()).expect("few");
        let nth = usize::try_from(nth.checked_rem(count)?).expect("few");
        self.waiting.keys().nth(nth).copied()
    }

    /// The client takes a call back.
    pub fn taken_back(&mut self, request: RequestKey) {
        let text = self.waiting.get(&request).expect("a request that waits");
        self.calls.get_mut(text).expect("a call").taken_back = true;
    }

    /// The client has subscribed.
    pub fn listens(&mut self, key: SubscriptionKey) {
        assert!(self.subscriptions.insert(key), "{key:?} names two subscriptions");
    }

    /// A subscription that has not ended.
    pub fn any_subscription(&self) -> Option<SubscriptionKey> {
        self.subscriptions.first().copied()
    }

    /// A subscription has ended.
    pub fn listening_ended(&mut self, key: SubscriptionKey) {
        assert!(self.subscriptions.remove(&key), "{key:?} ended twice");
    }

    /// A request has made progress.
    pub fn progressed(&self, request: RequestKey) {
        assert!(self.waiting.contains_key(&request), "progress of {request:?}, which has ended");
    }

    /// A request has ended.
    pub fn ended(&mut self, request: RequestKey, outcome: &Outcome) {
        let text = self.waiting.remove(&request).unwrap_or_else(|| panic!("{request:?} ended twice: {outcome:?}"));
        let call = &self.calls[&text];
        match outcome {
            Outcome::Result(result) => {
                assert!(!call.taken_back, "a result for what was taken back: {text}");
                let echoed = result.member("text").expect("unique members");
                assert_eq!(echoed, Some(Json::from(text.as_str())), "the answer to another call");
                assert_eq!(call.answer, Some(Answer::Echo), "an answer that nobody gave: {text}");
                self.results += 1;
            }
            // Somebody in between may have refused it, too.
            Outcome::Error(error) => assert!(!call.taken_back, "{} for what was taken back: {text}", error.code()),
            Outcome::Failed(Failed::Cancelled) => assert!(call.taken_back, "nobody has taken {text} back"),
            Outcome::Failed(_) => assert!(!call.taken_back, "another end than being taken back: {text}"),
        }
    }

    /// The server's application begins to serve a call, of which this is the first that it sees.
    pub fn begun(&mut self, text: &str) {
        let call = self.calls.get_mut(text).unwrap_or_else(|| panic!("nobody has called with {text}"));
        call.begun += 1;
        assert!(call.begun == 1, "{text} was delivered {} times", call.begun);
    }

    /// The server's application answers.
    pub fn answered(&mut self, text: &str, answer: Answer) {
        let call = self.calls.get_mut(text).expect("a call that was begun");
        assert!(call.begun > 0, "{text} was answered before it was asked");
        call.answer = Some(answer);
    }

    /// An HTTP server sends something: never after the end.
    pub fn acted(&mut self, action: &HttpAction) {
        let (exchange, is_begun, then) = match action {
            HttpAction::Respond { exchange, .. } => (*exchange, false, Sent::Over),
            HttpAction::Stream { exchange, .. } => (*exchange, false, Sent::Streaming),
            HttpAction::Write { exchange, .. } => (*exchange, true, Sent::Streaming),
            HttpAction::Finish { exchange } => (*exchange, true, Sent::Over),
            action => panic!("{action:?} is new"),
        };
        let before = self.exchanges.insert(exchange, then);
        let expected = is_begun.then_some(Sent::Streaming);
        assert_eq!(before, expected, "{action:?} in the wrong place");
    }

    /// Another HTTP server begins, and names its exchanges anew.
    pub fn restarted(&mut self) {
        self.exchanges.clear();
    }

    /// Everything has had its time.
    pub fn nobody_waits(&self) {
        assert!(self.waiting.is_empty(), "{:?} never ended", self.waiting);
    }

    /// The client has closed.
    pub fn is_over(&self) {
        self.nobody_waits();
        assert!(self.subscriptions.is_empty(), "{:?} never ended", self.subscriptions);
    }

    /// How many calls were made.
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// How many had their results.
    pub fn results(&self) -> usize {
        self.results
    }
}
