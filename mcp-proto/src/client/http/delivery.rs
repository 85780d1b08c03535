//! Messages on their way to the server: one table, in which each message has one state.
//!
//! ```text
//!          room for an exchange            2xx                    stream breaks
//! Queued ──────────────────────▶ Sending ───────────▶ Reading ─────────────────▶ Resuming
//!  ▲  ▲                           │ │ │                  ▲                           │
//!  │  └───────── Retrying ◀───────┘ │ └▶ Accepted        └── GET with Last-Event-ID ─┘
//!  │     (not delivered, or 429)    │    (two endpoints)
//!  ├────── WaitingForSession ◀──────┤                  (GET: 401 or 403) Reading ──▶ WaitingToResume
//!  │      (404 for the session)     │                                      ▲               │
//!  └─── WaitingForAuthorization ◀───┘                                      └───────────────┘
//!        (401 or 403)                                                         credentials
//! ```
//!
//! While authorization is awaited, queued messages are moved to `WaitingForAuthorization` as well. They keep their order.
//!
//! A request stays in the table until it has its outcome, any other message until the server has accepted it.

mod queues;
mod resent;

use std::collections::BTreeMap;
use std::time::Duration;

use queues::{Index, Line};

pub(super) use queues::{Post, Queue};
pub(super) use resent::{Demand, Resent};

use super::cursor::Cursor;
use super::exchange::ExchangeKey;
use super::{HttpTimer, Timers};
use crate::Instant;
use crate::client::transport::{Backlog, Role};
use crate::conversation::backoff::Jitter;
use crate::conversation::keys::RequestKey;
use crate::url::HttpUrl;

/// The first pause before a message that did not reach the server is tried again; it doubles.
const RETRY_AFTER: Duration = Duration::from_millis(250);

/// All messages on their way.
#[derive(Debug)]
pub(super) struct Deliveries {
    table: BTreeMap<DeliveryKey, Delivery>,
    index: Index,
    /// The last position that was assigned in the order of waiting messages.
    last_position: u64,
    last_message: u64,
    has_reported_waiting: bool,
}

/// Identifies one message on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeliveryKey {
    Request(RequestKey),
    /// A message that is not a request.
    Message(u64),
}

/// How far a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// It waits to be sent.
    Unsent,
    /// It is on this exchange.
    On(ExchangeKey),
    /// The server has it, and no exchange belongs to it now.
    Delivered,
}

/// A message that was removed from the table.
#[derive(Debug)]
pub(super) struct Removed {
    pub(super) role: Role,
    /// Its result lists tools, whose schemas define headers.
    pub(super) lists_tools: bool,
    /// The exchange that it was on.
    pub(super) exchange: Option<ExchangeKey>,
}

impl Deliveries {
    pub(super) const fn new() -> Self {
        Self {
            table: BTreeMap::new(),
            index: Index {
                order: BTreeMap::new(),
                backlog: Backlog { messages: 0, message_bytes: 0, bytes: 0 },
                being_sent: 0,
                resuming: 0,
            },
            last_position: 0,
            last_message: 0,
            has_reported_waiting: false,
        }
    }

    /// Adds a message, and queues it.
    pub(super) fn add(&mut self, post: Post, lists_tools: bool, timers: &mut Timers) {
        self.last_message += 1;
        let key = post.role.request().map_or(DeliveryKey::Message(self.last_message), DeliveryKey::Request);
        let role = post.role;
        let state = DeliveryState::queued(self.next_position(), post);
        let delivery = Delivery { role, lists_tools, resent: Resent::default(), state };
        self.index.enter(key, &delivery.state, timers);
        if let Some(earlier) = self.table.insert(key, delivery) {
            self.index.leave(key, &earlier.state, timers);
        }
    }

    /// Queues a message after all others of its kind.
    pub(super) fn enqueue(&mut self, key: DeliveryKey, timers: &mut Timers) {
        let position = self.next_position();
        self.change_post(key, timers, |post| DeliveryState::queued(position, post));
    }

    /// Queues a message where it was queued before.
    pub(super) fn enqueue_in_place(&mut self, key: DeliveryKey, timers: &mut Timers) {
        self.change_post(key, timers, |post| DeliveryState::queued(post.position, post));
    }

    /// Schedules another attempt for a message that did not reach the server. Returns `false`, and does nothing, if it
    /// would be made later than `within` after the first attempt.
    pub(super) fn retry_later(
        &mut self,
        key: DeliveryKey,
        within: Duration,
        now: Instant,
        timers: &mut Timers,
    ) -> bool {
        let Some(post) = self.post_mut(key) else { return false };
        let since = *post.first_tried.get_or_insert(now);
        let at = now + RETRY_AFTER * 2_u32.saturating_pow(post.attempts.min(16));
        if at > since + within {
            return false;
        }
        self.retry_at(key, at, timers);
        true
    }

    /// The server refused a message, and asked to wait this long: it is sent again then, and later each time that it is
    /// refused. Returns the pause. Does nothing, and returns `None`, for a message that is not a request if the server
    /// would have it later than `within` after the first attempt.
    pub(super) fn retry_as_asked(
        &mut self,
        key: DeliveryKey,
        asked: Duration,
        within: Duration,
        jitter: &mut Jitter,
        now: Instant,
        timers: &mut Timers,
    ) -> Option<Duration> {
        let post = self.post_mut(key)?;
        let pause = asked.max(RETRY_AFTER * 2_u32.saturating_pow(post.attempts.min(8)));
        let pause = pause + jitter.on(pause);
        let at = now + pause;
        if key.request().is_none() && at > *post.first_tried.get_or_insert(now) + within {
            return None;
        }
        self.retry_at(key, at, timers);
        Some(pause)
    }

    fn retry_at(&mut self, key: DeliveryKey, at: Instant, timers: &mut Timers) {
        let position = self.next_position();
        self.change_post(key, timers, |mut post| {
            post.attempts = post.attempts.saturating_add(1);
            DeliveryState::Retrying { position, at, post }
        });
    }

    /// The connection of a message was closed before its response began. Returns whether it is sent again: once, if that
    /// does no harm.
    pub(super) fn repeat(&mut self, key: DeliveryKey, timers: &mut Timers) -> bool {
        let Some(post) = self.post_mut(key) else { return false };
        let may_repeat = std::mem::replace(&mut post.may_repeat, false);
        if may_repeat {
            self.enqueue(key, timers);
        }
        may_repeat
    }

    /// Lets a message wait for the next session.
    pub(super) fn wait_for_session(&mut self, key: DeliveryKey, timers: &mut Timers) {
        let position = self.next_position();
        self.change_post(key, timers, |post| DeliveryState::WaitingForSession { position, post });
    }

    /// A message waits for authorization until `until`, because the server demands it.
    pub(super) fn wait_for_authorization(&mut self, key: DeliveryKey, until: Instant, timers: &mut Timers) {
        let wait = |post: Post| DeliveryState::WaitingForAuthorization { position: post.position, until, post };
        self.change_post(key, timers, wait);
    }

    /// Authorization is awaited: all queued messages wait for it until `until`. Returns the request among them that opens
    /// the connection.
    pub(super) fn hold_queued(&mut self, until: Instant, timers: &mut Timers) -> Option<RequestKey> {
        let queued = [Line::Requests, Line::Pings, Line::Others].map(|line| self.waiting_in(line));
        let mut opening = None;
        for key in queued.into_iter().flatten() {
            self.wait_for_authorization(key, until, timers);
            opening = opening.or(self.opening(key));
        }
        opening
    }

    /// Queues the messages that waited for authorization, in the order in which they were queued first. Returns the
    /// request among them that opens the connection.
    pub(super) fn release_authorized(&mut self, timers: &mut Timers) -> Option<RequestKey> {
        let mut opening = None;
        for key in self.waiting_for_authorization() {
            self.enqueue_in_place(key, timers);
            opening = opening.or(self.opening(key));
        }
        opening
    }

    /// The messages that wait for authorization, in order.
    pub(super) fn waiting_for_authorization(&self) -> Vec<DeliveryKey> {
        self.waiting_in(Line::Authorization)
    }

    /// The stream of a request waits for authorization until `until`, because the server demands it before the stream
    /// is resumed.
    pub(super) fn wait_to_resume(&mut self, request: RequestKey, until: Instant, timers: &mut Timers) {
        self.change(DeliveryKey::Request(request), timers, |state| match state {
            DeliveryState::Reading { cursor, .. } | DeliveryState::Resuming { cursor, .. } => {
                DeliveryState::WaitingToResume { until, cursor }
            }
            state @ (DeliveryState::Queued { .. }
            | DeliveryState::Retrying { .. }
            | DeliveryState::WaitingForSession { .. }
            | DeliveryState::WaitingForAuthorization { .. }
            | DeliveryState::Sending { .. }
            | DeliveryState::Accepted
            | DeliveryState::WaitingToResume { .. }) => state,
        });
    }

    /// The requests whose streams wait for authorization.
    pub(super) fn waiting_to_resume(&self) -> Vec<RequestKey> {
        let waits =
            |(_, delivery): &(RequestKey, &Delivery)| matches!(delivery.state, DeliveryState::WaitingToResume { .. });
        self.requests().filter(waits).map(|(request, _)| request).collect()
    }

    /// How often a message was sent again because of challenges.
    pub(super) fn resent_mut(&mut self, key: DeliveryKey) -> Option<&mut Resent> {
        self.table.get_mut(&key).map(|delivery| &mut delivery.resent)
    }

    pub(super) fn resent(&self, key: DeliveryKey) -> Option<&Resent> {
        self.table.get(&key).map(|delivery| &delivery.resent)
    }

    fn opening(&self, key: DeliveryKey) -> Option<RequestKey> {
        self.table.get(&key)?.role.opening()
    }

    /// A message was refused because its session is lost. Returns whether it may be sent once more.
    pub(super) fn may_try_second_session(&mut self, key: DeliveryKey) -> bool {
        let Some(post) = self.post_mut(key) else { return false };
        !std::mem::replace(&mut post.is_second_session, true)
    }

    /// The session is lost: messages that were not delivered wait for the next one, except those that are of use in
    /// this session only, which are dropped (SH-C-08).
    pub(super) fn keep_undelivered_for_next_session(&mut self, timers: &mut Timers) {
        for line in [Line::Requests, Line::Pings, Line::Others, Line::Retrying, Line::Authorization] {
            for key in self.waiting_in(line) {
                match self.table.get(&key).map(|delivery| delivery.role) {
                    Some(Role::Request(_) | Role::Notification) => self.wait_for_session(key, timers),
                    Some(
                        Role::Initialize(_)
                        | Role::Discover(..)
                        | Role::Confirmation
                        | Role::Answer
                        | Role::Cancellation,
                    )
                    | None => {
                        self.remove(key, timers);
                    }
                }
            }
        }
    }

    /// The next session is open: messages that waited for it are queued.
    pub(super) fn enqueue_for_session(&mut self, timers: &mut Timers) {
        for key in self.waiting_in(Line::NextSession) {
            self.enqueue(key, timers);
        }
    }

    /// A message was refused by a server that may support only the older transport: it is queued for that one.
    pub(super) fn enqueue_for_fallback(&mut self, key: DeliveryKey, timers: &mut Timers) {
        if let Some(post) = self.post_mut(key) {
            (post.to, post.redirects) = (None, 0);
        }
        self.enqueue(key, timers);
    }

    /// A message is sent on an exchange.
    pub(super) fn sent_on(&mut self, key: DeliveryKey, exchange: ExchangeKey, timers: &mut Timers) {
        self.change_post(key, timers, |post| DeliveryState::Sending { exchange, post });
    }

    /// The exchange of a message was redirected.
    pub(super) fn redirected(&mut self, key: DeliveryKey, to: HttpUrl) {
        if let Some(post) = self.post_mut(key) {
            post.to = Some(to);
            post.redirects += 1;
        }
    }

    /// The answer to a request is read from an exchange: the message is not needed any more.
    pub(super) fn read_on(&mut self, request: RequestKey, exchange: ExchangeKey, timers: &mut Timers) {
        self.change(DeliveryKey::Request(request), timers, |state| match state {
            DeliveryState::Sending { .. } => DeliveryState::Reading { exchange, cursor: Cursor::new() },
            DeliveryState::Reading { cursor, .. }
            | DeliveryState::Resuming { cursor, .. }
            | DeliveryState::WaitingToResume { cursor, .. } => DeliveryState::Reading { exchange, cursor },
            state @ (DeliveryState::Queued { .. }
            | DeliveryState::Retrying { .. }
            | DeliveryState::WaitingForSession { .. }
            | DeliveryState::WaitingForAuthorization { .. }
            | DeliveryState::Accepted) => state,
        });
    }

    /// A two-endpoint server has accepted a request, and answers on its stream.
    pub(super) fn accepted(&mut self, request: RequestKey, timers: &mut Timers) {
        self.change(DeliveryKey::Request(request), timers, |state| match state {
            DeliveryState::Sending { .. } => DeliveryState::Accepted,
            state @ (DeliveryState::Queued { .. }
            | DeliveryState::Retrying { .. }
            | DeliveryState::WaitingForSession { .. }
            | DeliveryState::WaitingForAuthorization { .. }
            | DeliveryState::Reading { .. }
            | DeliveryState::Accepted
            | DeliveryState::Resuming { .. }
            | DeliveryState::WaitingToResume { .. }) => state,
        });
    }

    /// The stream with the answer to a request broke, and is opened again at this time.
    pub(super) fn resume_later(&mut self, request: RequestKey, at: Instant, timers: &mut Timers) {
        self.change(DeliveryKey::Request(request), timers, |state| match state {
            DeliveryState::Reading { cursor, .. } => DeliveryState::Resuming { at, cursor },
            state @ (DeliveryState::Queued { .. }
            | DeliveryState::Retrying { .. }
            | DeliveryState::WaitingForSession { .. }
            | DeliveryState::WaitingForAuthorization { .. }
            | DeliveryState::Sending { .. }
            | DeliveryState::Accepted
            | DeliveryState::Resuming { .. }
            | DeliveryState::WaitingToResume { .. }) => state,
        });
    }

    /// Removes a message: it has its outcome, or is not needed any more. An exchange that it is on stays open.
    pub(super) fn remove(&mut self, key: DeliveryKey, timers: &mut Timers) -> Option<Removed> {
        let Delivery { role, lists_tools, state, .. } = self.table.remove(&key)?;
        self.index.leave(key, &state, timers);
        Some(Removed { role, lists_tools, exchange: state.exchange() })
    }

    /// The connection ends: requests and messages for the next session are dropped, and messages that wait for another
    /// attempt are tried now.
    pub(super) fn keep_messages_of_session(&mut self, timers: &mut Timers) {
        let requests: Vec<_> = self.requests().map(|(request, _)| DeliveryKey::Request(request)).collect();
        for key in requests.into_iter().chain(self.waiting_in(Line::NextSession)) {
            self.remove(key, timers);
        }
        for key in self.waiting_in(Line::Retrying) {
            self.enqueue(key, timers);
        }
    }

    /// Whether this is the first time that a request waits for an exchange.
    pub(super) fn waits_first(&mut self) -> bool {
        let is_first = !self.has_reported_waiting && self.first_queued(Queue::Requests).is_some();
        self.has_reported_waiting |= is_first;
        is_first
    }

    /// Where the stream with the answer to a request is resumed.
    pub(super) fn cursor_mut(&mut self, request: RequestKey) -> Option<&mut Cursor> {
        match &mut self.table.get_mut(&DeliveryKey::Request(request))?.state {
            DeliveryState::Reading { cursor, .. }
            | DeliveryState::Resuming { cursor, .. }
            | DeliveryState::WaitingToResume { cursor, .. } => Some(cursor),
            DeliveryState::Queued { .. }
            | DeliveryState::Retrying { .. }
            | DeliveryState::WaitingForSession { .. }
            | DeliveryState::WaitingForAuthorization { .. }
            | DeliveryState::Sending { .. }
            | DeliveryState::Accepted => None,
        }
    }

    pub(super) fn cursor(&self, request: RequestKey) -> Option<&Cursor> {
        match &self.table.get(&DeliveryKey::Request(request))?.state {
            DeliveryState::Reading { cursor, .. }
            | DeliveryState::Resuming { cursor, .. }
            | DeliveryState::WaitingToResume { cursor, .. } => Some(cursor),
            DeliveryState::Queued { .. }
            | DeliveryState::Retrying { .. }
            | DeliveryState::WaitingForSession { .. }
            | DeliveryState::WaitingForAuthorization { .. }
            | DeliveryState::Sending { .. }
            | DeliveryState::Accepted => None,
        }
    }

    /// The message, until the response to it has begun.
    pub(super) fn post(&self, key: DeliveryKey) -> Option<&Post> {
        self.table.get(&key)?.state.post()
    }

    /// Whether a message is still in the table: it has no outcome, and was not dropped.
    pub(super) fn contains(&self, key: DeliveryKey) -> bool {
        self.table.contains_key(&key)
    }

    pub(super) fn contains_request(&self, request: RequestKey) -> bool {
        self.contains(DeliveryKey::Request(request))
    }

    pub(super) fn progress(&self, request: RequestKey) -> Option<Progress> {
        let state = &self.table.get(&DeliveryKey::Request(request))?.state;
        Some(match state {
            DeliveryState::Queued { .. }
            | DeliveryState::Retrying { .. }
            | DeliveryState::WaitingForSession { .. }
            | DeliveryState::WaitingForAuthorization { .. } => Progress::Unsent,
            DeliveryState::Sending { exchange, .. } | DeliveryState::Reading { exchange, .. } => {
                Progress::On(*exchange)
            }
            DeliveryState::Accepted | DeliveryState::Resuming { .. } | DeliveryState::WaitingToResume { .. } => {
                Progress::Delivered
            }
        })
    }

    /// Whether a request may have an answer: one that was not sent, or whose stream is closed, cannot.
    pub(super) fn may_be_answered(&self, request: RequestKey) -> bool {
        self.table.get(&DeliveryKey::Request(request)).is_some_and(|delivery| match delivery.state {
            DeliveryState::Sending { .. } | DeliveryState::Reading { .. } | DeliveryState::Accepted => true,
            DeliveryState::Queued { .. }
            | DeliveryState::Retrying { .. }
            | DeliveryState::WaitingForSession { .. }
            | DeliveryState::WaitingForAuthorization { .. }
            | DeliveryState::Resuming { .. }
            | DeliveryState::WaitingToResume { .. } => false,
        })
    }

    /// The requests that the server may have received.
    pub(super) fn delivered(&self) -> impl Iterator<Item = RequestKey> {
        let delivered = |(_, delivery): &(RequestKey, &Delivery)| delivery.state.waiting().is_none();
        self.requests().filter(delivered).map(|(request, _)| request)
    }

    /// The requests that wait for an exchange.
    pub(super) fn queued_requests(&self) -> impl Iterator<Item = RequestKey> {
        [Line::Requests, Line::Pings]
            .into_iter()
            .flat_map(|line| self.index.waiting_in(line))
            .filter_map(DeliveryKey::request)
    }

    /// The first message of a queue.
    pub(super) fn first_queued(&self, queue: Queue) -> Option<DeliveryKey> {
        if self.is_none_waiting() { None } else { self.index.waiting_in(queue.line()).next() }
    }

    /// Whether no message waits to be sent, which is the common case.
    pub(super) fn is_none_waiting(&self) -> bool {
        self.index.order.is_empty()
    }

    /// The number of requests whose streams are opened again after a pause, or after authorization.
    pub(super) const fn resuming(&self) -> usize {
        self.index.resuming
    }

    /// The messages that wait to be sent.
    pub(super) const fn backlog(&self) -> Backlog {
        self.index.backlog
    }

    /// Bytes of messages that are not requests, and that the server has not accepted.
    pub(super) const fn unaccepted(&self) -> usize {
        self.index.backlog.message_bytes + self.index.being_sent
    }

    /// The number of messages that wait, and bytes of those that wait to be sent.
    pub(super) fn load(&self) -> (usize, usize) {
        let waiting = self.index.order.len();
        (waiting + self.index.resuming, self.index.backlog.bytes - waiting * size_of::<Post>())
    }

    const fn next_position(&mut self) -> u64 {
        self.last_position += 1;
        self.last_position
    }

    /// Moves a message from its state into the next one.
    fn change(&mut self, key: DeliveryKey, timers: &mut Timers, next: impl FnOnce(DeliveryState) -> DeliveryState) {
        let Some(delivery) = self.table.get_mut(&key) else { return };
        self.index.leave(key, &delivery.state, timers);
        delivery.state = next(std::mem::replace(&mut delivery.state, DeliveryState::Accepted));
        self.index.enter(key, &delivery.state, timers);
    }

    /// Moves a message that may still be sent into the next state.
    fn change_post(&mut self, key: DeliveryKey, timers: &mut Timers, next: impl FnOnce(Post) -> DeliveryState) {
        self.change(key, timers, |state| match state {
            DeliveryState::Queued { post, .. }
            | DeliveryState::Retrying { post, .. }
            | DeliveryState::WaitingForSession { post, .. }
            | DeliveryState::WaitingForAuthorization { post, .. }
            | DeliveryState::Sending { post, .. } => next(post),
            state @ (DeliveryState::Reading { .. }
            | DeliveryState::Accepted
            | DeliveryState::Resuming { .. }
            | DeliveryState::WaitingToResume { .. }) => state,
        });
    }

    /// For changes of anything but the role and the body: the index has sums that depend on these two.
    fn post_mut(&mut self, key: DeliveryKey) -> Option<&mut Post> {
        match &mut self.table.get_mut(&key)?.state {
            DeliveryState::Queued { post, .. }
            | DeliveryState::Retrying { post, .. }
            | DeliveryState::WaitingForSession { post, .. }
            | DeliveryState::WaitingForAuthorization { post, .. }
            | DeliveryState::Sending { post, .. } => Some(post),
            DeliveryState::Reading { .. }
            | DeliveryState::Accepted
            | DeliveryState::Resuming { .. }
            | DeliveryState::WaitingToResume { .. } => None,
        }
    }

    fn requests(&self) -> impl Iterator<Item = (RequestKey, &Delivery)> {
        self.table.iter().filter_map(|(key, delivery)| Some((key.request()?, delivery)))
    }

    fn waiting_in(&self, line: Line) -> Vec<DeliveryKey> {
        self.index.waiting_in(line).collect()
    }
}

impl DeliveryKey {
    pub(super) const fn request(self) -> Option<RequestKey> {
        match self {
            Self::Request(request) => Some(request),
            Self::Message(_) => None,
        }
    }
}

/// A message on its way.
#[derive(Debug)]
struct Delivery {
    role: Role,
    /// Its result lists tools, whose schemas define headers.
    lists_tools: bool,
    /// How often it was sent again because of challenges.
    resent: Resent,
    state: DeliveryState,
}

/// How far a message has come.
#[derive(Debug)]
enum DeliveryState {
    /// It waits for an exchange, or for the server's endpoint.
    Queued { position: u64, post: Post },
    /// It was not delivered, or the server asked to wait. It is sent again at this time.
    Retrying { position: u64, at: Instant, post: Post },
    /// It waits for the next session.
    WaitingForSession { position: u64, post: Post },
    /// It waits for authorization until this time.
    WaitingForAuthorization { position: u64, until: Instant, post: Post },
    /// The message is on this exchange. The response has not begun, or its body (an HTTP error, or JSON) shows whether
    /// the session is lost.
    Sending { exchange: ExchangeKey, post: Post },
    /// The answer to it is read from this exchange, or the stream with the answer is being resumed there.
    Reading { exchange: ExchangeKey, cursor: Cursor },
    /// A two-endpoint server has accepted it and answers on its stream.
    Accepted,
    /// The stream with the answer broke and is opened again at this time.
    Resuming { at: Instant, cursor: Cursor },
    /// The stream with the answer waits for authorization until this time, and is then opened again.
    WaitingToResume { until: Instant, cursor: Cursor },
}

impl DeliveryState {
    const fn queued(position: u64, mut post: Post) -> Self {
        post.position = position;
        Self::Queued { position, post }
    }

    /// The message, if it may still be sent.
    const fn post(&self) -> Option<&Post> {
        match self {
            Self::Queued { post, .. }
            | Self::Retrying { post, .. }
            | Self::WaitingForSession { post, .. }
            | Self::WaitingForAuthorization { post, .. }
            | Self::Sending { post, .. } => Some(post),
            Self::Reading { .. } | Self::Accepted | Self::Resuming { .. } | Self::WaitingToResume { .. } => None,
        }
    }

    const fn exchange(&self) -> Option<ExchangeKey> {
        match self {
            Self::Sending { exchange, .. } | Self::Reading { exchange, .. } => Some(*exchange),
            Self::Queued { .. }
            | Self::Retrying { .. }
            | Self::WaitingForSession { .. }
            | Self::WaitingForAuthorization { .. }
            | Self::Accepted
            | Self::Resuming { .. }
            | Self::WaitingToResume { .. } => None,
        }
    }

    /// Bytes of a message that is not a request, while it is on an exchange.
    fn being_sent(&self) -> usize {
        if let Self::Sending { post, .. } = self { post.message_bytes() } else { 0 }
    }

    /// Whether it is a stream that is opened again after a pause, or after authorization.
    const fn is_resuming(&self) -> bool {
        matches!(self, Self::Resuming { .. } | Self::WaitingToResume { .. })
    }

    /// The timer of the message with this key, and its deadline.
    fn timer(&self, key: DeliveryKey) -> Option<(HttpTimer, Instant)> {
        Some(match self {
            Self::Retrying { position, at, .. } => (HttpTimer::Retry { position: *position, key }, *at),
            Self::Resuming { at, .. } => (HttpTimer::Resume(key.request()?), *at),
            Self::WaitingForAuthorization { position, until, .. } => {
                (HttpTimer::Authorization { position: *position, key }, *until)
            }
            Self::WaitingToResume { until, .. } => (HttpTimer::Authorization { position: 0, key }, *until),
            Self::Queued { .. }
            | Self::WaitingForSession { .. }
            | Self::Sending { .. }
            | Self::Reading { .. }
            | Self::Accepted => return None,
        })
    }

    /// The line in which it waits, and its position there.
    const fn waiting(&self) -> Option<(Line, u64, &Post)> {
        match self {
            Self::Queued { position, post } => Some((post.queue().line(), *position, post)),
            Self::Retrying { position, post, .. } => Some((Line::Retrying, *position, post)),
            Self::WaitingForSession { position, post } => Some((Line::NextSession, *position, post)),
            Self::WaitingForAuthorization { position, post, .. } => Some((Line::Authorization, *position, post)),
            Self::Sending { .. }
            | Self::Reading { .. }
            | Self::Accepted
            | Self::Resuming { .. }
            | Self::WaitingToResume { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::ClientTimer;

    const WITHIN: Duration = Duration::from_secs(10);

    fn request(number: i64) -> RequestKey {
        RequestKey::from_wire(&number.into(), None).expect("the number is positive")
    }

    fn post(role: Role, is_ping: bool, length: usize) -> Post {
        Post { is_ping, ..Post::new(role, vec![b'x'; length].into()) }
    }

    /// The next timer that is due, with the position 0.
    fn pop_due(timers: &mut Timers, now: Instant) -> Option<HttpTimer> {
        let ClientTimer::Transport(mut timer) = timers.pop_due(now)? else { return None };
        if let HttpTimer::Retry { position, .. } | HttpTimer::Authorization { position, .. } = &mut timer {
            *position = 0;
        }
        Some(timer)
    }

    const fn retry(key: DeliveryKey) -> HttpTimer {
        HttpTimer::Retry { position: 0, key }
    }

    const fn no_authorization(key: DeliveryKey) -> HttpTimer {
        HttpTimer::Authorization { position: 0, key }
    }

    /// Two requests, a ping, a notification and an answer, in this order.
    fn five(timers: &mut Timers) -> (Deliveries, [DeliveryKey; 5]) {
        let mut deliveries = Deliveries::new();
        for (role, is_ping, length) in [
            (Role::Request(request(1)), false, 1),
            (Role::Request(request(2)), false, 20),
            (Role::Request(request(3)), true, 300),
            (Role::Notification, false, 4000),
            (Role::Answer, false, 50_000),
        ] {
            deliveries.add(post(role, is_ping, length), false, timers);
        }
        let [one, two, ping] = [1, 2, 3].map(|number| DeliveryKey::Request(request(number)));
        (deliveries, [one, two, ping, DeliveryKey::Message(4), DeliveryKey::Message(5)])
    }

    fn lines(deliveries: &Deliveries) -> [Vec<DeliveryKey>; 5] {
        [Line::Requests, Line::Pings, Line::Others, Line::Retrying, Line::NextSession]
            .map(|line| deliveries.waiting_in(line))
    }

    /// Compares all derived values with what a look at every message gives.
    fn check(deliveries: &Deliveries, timers: &Timers) {
        let (mut order, mut timed, mut being_sent, mut resuming) = (BTreeMap::new(), 0, 0, 0);
        let mut backlog = Backlog::default();
        for (key, delivery) in &deliveries.table {
            if let Some((line, position, post)) = delivery.state.waiting() {
                assert_eq!(order.insert((line, position), *key), None);
                let weight = post.body.len() + size_of::<Post>();
                backlog.bytes += weight;
                if key.request().is_none() {
                    backlog.messages += 1;
                    backlog.message_bytes += weight;
                }
            }
            match &delivery.state {
                DeliveryState::Retrying { .. } | DeliveryState::WaitingForAuthorization { .. } => timed += 1,
                DeliveryState::Resuming { .. } | DeliveryState::WaitingToResume { .. } => {
                    (timed, resuming) = (timed + 1, resuming + 1);
                }
                DeliveryState::Sending { post, .. } if key.request().is_none() => being_sent += post.body.len(),
                DeliveryState::Queued { .. }
                | DeliveryState::WaitingForSession { .. }
                | DeliveryState::Sending { .. }
                | DeliveryState::Reading { .. }
                | DeliveryState::Accepted => {}
            }
        }
        let index = &deliveries.index;
        assert_eq!(index.order, order);
        assert_eq!((index.being_sent, index.resuming, timers.len()), (being_sent, resuming, timed));
        let sums = |backlog: Backlog| (backlog.messages, backlog.message_bytes, backlog.bytes);
        assert_eq!(sums(index.backlog), sums(backlog));
        assert_eq!(deliveries.unaccepted(), backlog.message_bytes + being_sent);
        assert_eq!(deliveries.load(), (order.len() + resuming, backlog.bytes - order.len() * size_of::<Post>()));
    }

    /// Every transition, for one message.
    const STEPS: [fn(&mut Deliveries, DeliveryKey, &mut Timers); 17] = [
        Deliveries::enqueue,
        |deliveries, key, timers| {
            deliveries.retry_later(key, WITHIN, Instant::START, timers);
        },
        Deliveries::wait_for_session,
        |deliveries, key, timers| deliveries.sent_on(key, ExchangeKey::FIRST, timers),
        |deliveries, key, timers| of_request(key, |request| deliveries.read_on(request, ExchangeKey::FIRST, timers)),
        |deliveries, key, timers| of_request(key, |request| deliveries.accepted(request, timers)),
        |deliveries, key, timers| {
            of_request(key, |request| deliveries.resume_later(request, Instant::START + WITHIN, timers));
        },
        Deliveries::enqueue_for_fallback,
        |deliveries, key, timers| {
            deliveries.remove(key, timers);
        },
        |deliveries, _, timers| deliveries.keep_undelivered_for_next_session(timers),
        |deliveries, _, timers| deliveries.enqueue_for_session(timers),
        |deliveries, _, timers| deliveries.keep_messages_of_session(timers),
        |deliveries, key, timers| deliveries.wait_for_authorization(key, Instant::START + WITHIN, timers),
        |deliveries, key, timers| {
            of_request(key, |request| deliveries.wait_to_resume(request, Instant::START + WITHIN, timers));
        },
        |deliveries, _, timers| {
            deliveries.hold_queued(Instant::START + WITHIN, timers);
        },
        |deliveries, _, timers| {
            deliveries.release_authorized(timers);
        },
        Deliveries::enqueue_in_place,
    ];

    fn of_request(key: DeliveryKey, act: impl FnOnce(RequestKey)) {
        if let Some(request) = key.request() {
            act(request);
        }
    }

    #[test]
    fn sums_and_order_follow_from_the_states_whatever_the_sequence_of_transitions() {
        // The positions in `STEPS` of the transitions that lead into each state.
        let (retry, wait, send, read, accept, resume, challenge, wait_to_resume) = (1, 2, 3, 4, 5, 6, 12, 13);
        let into_each_state: [&[usize]; 9] = [
            &[],
            &[retry],
            &[wait],
            &[send],
            &[send, read],
            &[send, accept],
            &[send, read, resume],
            &[send, challenge],
            &[send, read, wait_to_resume],
        ];
        for (kind, into_state) in (0..5).flat_map(|kind| into_each_state.map(|steps| (kind, steps))) {
            for sequence in 0..STEPS.len().pow(2) {
                let timers = &mut Timers::new();
                let (mut deliveries, keys) = five(timers);
                // Another message is on an exchange meanwhile.
                deliveries.sent_on(keys[(kind + 2) % 5], ExchangeKey::FIRST, timers);
                for step in into_state.iter().chain(&[sequence / STEPS.len(), sequence % STEPS.len()]) {
                    STEPS[*step](&mut deliveries, keys[kind], timers);
                    check(&deliveries, timers);
                }
            }
        }
    }

    #[test]
    fn waiting_messages_keep_their_order_in_each_line() {
        let timers = &mut Timers::new();
        let (mut deliveries, [one, two, ping, notification, answer]) = five(timers);
        check(&deliveries, timers);
        assert_eq!(lines(&deliveries), [vec![one, two], vec![ping], vec![notification, answer], vec![], vec![]]);
        let queued: Vec<_> = deliveries.queued_requests().map(DeliveryKey::Request).collect();
        assert_eq!(queued, [one, two, ping]);
        // Messages that are queued again come after the others of their queue.
        for key in [one, notification] {
            deliveries.sent_on(key, ExchangeKey::FIRST, timers);
            deliveries.enqueue(key, timers);
        }
        assert_eq!(lines(&deliveries), [vec![two, one], vec![ping], vec![answer, notification], vec![], vec![]]);
        // Other attempts are made in the order in which the first ones failed.
        for key in [ping, answer, two] {
            assert!(deliveries.retry_later(key, WITHIN, Instant::START, timers));
        }
        assert_eq!(lines(&deliveries), [vec![one], vec![], vec![notification], vec![ping, answer, two], vec![]]);
        let due = std::iter::from_fn(|| pop_due(timers, Instant::START + RETRY_AFTER));
        assert_eq!(due.collect::<Vec<_>>(), [ping, answer, two].map(retry));
        // Only requests and notifications are of use in the next session.
        deliveries.keep_undelivered_for_next_session(timers);
        assert_eq!(lines(&deliveries), [vec![], vec![], vec![], vec![], vec![one, notification, ping, two]]);
        assert!(!deliveries.contains(answer) && timers.is_empty());
        deliveries.enqueue_for_session(timers);
        assert_eq!(lines(&deliveries), [vec![one, two], vec![ping], vec![notification], vec![], vec![]]);
        check(&deliveries, timers);
    }

    #[test]
    fn messages_that_wait_for_authorization_keep_their_order_and_wait_for_a_limited_time() {
        let timers = &mut Timers::new();
        let (mut deliveries, [one, two, ping, notification, answer]) = five(timers);
        let opening = request(9);
        deliveries.add(post(Role::Initialize(opening), false, 1), false, timers);
        let [first_until, until] = [WITHIN, WITHIN * 2].map(|within| Instant::START + within);
        for key in [two, one] {
            deliveries.sent_on(key, ExchangeKey::FIRST, timers);
            deliveries.wait_for_authorization(key, first_until, timers);
        }
        assert_eq!(deliveries.hold_queued(until, timers), Some(opening));
        assert_eq!(deliveries.hold_queued(until + WITHIN, timers), None, "they wait already");
        let all = [one, two, ping, notification, answer, DeliveryKey::Request(opening)];
        assert_eq!(deliveries.waiting_for_authorization(), all);
        assert_eq!(lines(&deliveries), [const { vec![] }; 5]);
        assert_eq!(
            (deliveries.progress(request(1)), deliveries.may_be_answered(request(1))),
            (Some(Progress::Unsent), false)
        );
        assert!(deliveries.post(one).is_some() && deliveries.delivered().next().is_none());
        check(&deliveries, timers);
        let due = std::iter::from_fn(|| pop_due(timers, first_until));
        assert_eq!(due.collect::<Vec<_>>(), [one, two].map(no_authorization));
        assert_eq!(timers.next(), Some(until));
        deliveries.remove(two, timers);
        // What is queued meanwhile comes after what waits.
        deliveries.add(post(Role::Request(request(10)), false, 1), false, timers);
        assert_eq!(deliveries.release_authorized(timers), Some(opening));
        let requests = [one, DeliveryKey::Request(opening), DeliveryKey::Request(request(10))];
        assert_eq!(lines(&deliveries), [requests.to_vec(), vec![ping], vec![notification, answer], vec![], vec![]]);
        assert_eq!((timers.len(), deliveries.release_authorized(timers)), (0, None));
        // The session is lost while messages wait.
        deliveries.hold_queued(until, timers);
        deliveries.keep_undelivered_for_next_session(timers);
        assert_eq!(deliveries.waiting_for_authorization(), []);
        let kept = vec![one, ping, notification, DeliveryKey::Request(request(10))];
        assert_eq!(deliveries.waiting_in(Line::NextSession), kept);
        check(&deliveries, timers);
    }

    #[test]
    fn a_stream_that_waits_for_authorization_keeps_its_cursor_and_its_exchange() {
        for is_paused in [false, true] {
            let timers = &mut Timers::new();
            let (mut deliveries, [one, ..]) = five(timers);
            let (key, until) = (request(1), Instant::START + WITHIN);
            deliveries.wait_to_resume(key, until, timers);
            assert!(deliveries.waiting_to_resume().is_empty(), "it was not sent yet");
            deliveries.sent_on(one, ExchangeKey::FIRST, timers);
            deliveries.read_on(key, ExchangeKey::FIRST, timers);
            deliveries.cursor_mut(key).expect("a stream is read").asked_to_wait(WITHIN);
            if is_paused {
                deliveries.resume_later(key, Instant::START, timers);
            }
            deliveries.wait_to_resume(key, until, timers);
            check(&deliveries, timers);
            assert_eq!((deliveries.waiting_to_resume(), deliveries.resuming()), (vec![key], 1));
            assert_eq!((deliveries.progress(key), deliveries.may_be_answered(key)), (Some(Progress::Delivered), false));
            assert_eq!(pop_due(timers, until), Some(no_authorization(one)));
            deliveries.wait_to_resume(key, until, timers);
            deliveries.read_on(key, ExchangeKey::SECOND, timers);
            assert_eq!((deliveries.progress(key), deliveries.resuming()), (Some(Progress::On(ExchangeKey::SECOND)), 0));
            assert!(format!("{:?}", deliveries.cursor(key)).contains("retry: Some(10s)"));
            check(&deliveries, timers);
        }
    }

    #[test]
    fn requests_and_messages_for_another_session_are_dropped_at_the_end() {
        let timers = &mut Timers::new();
        let (mut deliveries, [_, _, _, notification, answer]) = five(timers);
        deliveries.wait_for_session(notification, timers);
        deliveries.add(post(Role::Cancellation, false, 7), false, timers);
        deliveries.retry_later(answer, WITHIN, Instant::START, timers);
        deliveries.keep_messages_of_session(timers);
        let expected = [vec![], vec![], vec![DeliveryKey::Message(6), answer], vec![], vec![]];
        assert_eq!(lines(&deliveries), expected);
        assert_eq!((deliveries.table.len(), timers.next()), (2, None));
        check(&deliveries, timers);
    }

    #[test]
    fn a_message_is_sent_again_after_growing_pauses_for_a_limited_time() {
        let timers = &mut Timers::new();
        let (mut deliveries, [one, ..]) = five(timers);
        let (mut now, mut pauses) = (Instant::START, Vec::new());
        while deliveries.retry_later(one, RETRY_AFTER * 7, now, timers) {
            let at = timers.next().expect("the next attempt has a time");
            assert_eq!(pop_due(timers, at), Some(retry(one)));
            pauses.push(at.saturating_duration_since(now));
            now = at;
            deliveries.sent_on(one, ExchangeKey::FIRST, timers);
        }
        assert_eq!(pauses, [RETRY_AFTER, RETRY_AFTER * 2, RETRY_AFTER * 4]);
        let second_session = [(); 2].map(|()| deliveries.may_try_second_session(one));
        assert_eq!(second_session, [true, false]);
    }

    #[test]
    fn a_request_passes_through_its_states_and_no_others() {
        let timers = &mut Timers::new();
        let (mut deliveries, [one, ..]) = five(timers);
        let (first, second) = (ExchangeKey::FIRST, ExchangeKey::SECOND);
        let key = request(1);
        let state = |deliveries: &Deliveries| {
            (deliveries.progress(key), deliveries.may_be_answered(key), deliveries.post(one).is_some())
        };
        // Nothing was sent yet that could be accepted, read or resumed.
        deliveries.accepted(key, timers);
        deliveries.read_on(key, first, timers);
        deliveries.resume_later(key, Instant::START, timers);
        assert_eq!(state(&deliveries), (Some(Progress::Unsent), false, true));
        deliveries.sent_on(one, first, timers);
        assert_eq!(state(&deliveries), (Some(Progress::On(first)), true, true));
        deliveries.read_on(key, first, timers);
        assert_eq!(state(&deliveries), (Some(Progress::On(first)), true, false));
        deliveries.enqueue(one, timers);
        deliveries.sent_on(one, second, timers);
        deliveries.accepted(key, timers);
        assert_eq!(state(&deliveries), (Some(Progress::On(first)), true, false), "it is not sent twice");
        deliveries.cursor_mut(key).expect("a stream is read").asked_to_wait(WITHIN);
        deliveries.resume_later(key, Instant::START + WITHIN, timers);
        assert_eq!(state(&deliveries), (Some(Progress::Delivered), false, false));
        assert_eq!(deliveries.resuming(), 1);
        assert_eq!(pop_due(timers, Instant::START + WITHIN), Some(HttpTimer::Resume(key)));
        deliveries.read_on(key, second, timers);
        assert_eq!(state(&deliveries), (Some(Progress::On(second)), true, false));
        assert_eq!((deliveries.resuming(), deliveries.delivered().collect::<Vec<_>>()), (0, vec![key]));
        let cursor = format!("{:?}", deliveries.cursor(key));
        assert!(cursor.contains("retry: Some(10s)"), "the cursor is kept: {cursor}");
        assert_eq!(deliveries.remove(one, timers).and_then(|removed| removed.exchange), Some(second));
        assert_eq!(state(&deliveries), (None, false, false));
        check(&deliveries, timers);
    }
}
