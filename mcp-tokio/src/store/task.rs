//! The task that passes a server's actions to its store.
//!
//! ```text
//!   machine ──▶ lane of a record, of a stream, of messages … ──▶ at most 64 actions ──▶ store
//!      ▲                                                                 │                │
//!      └───────────────────────── results ──────────────────────────────┘                │
//!      └───────────────────────── messages ◀──────────────────────────────────────────────┘
//! ```
//!
//! Within a lane, an action that writes waits for the earlier ones, and those that read wait for the earlier ones that
//! write.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mcp_proto::InstanceId;
use mcp_proto::server::StoredSessions;
use mcp_proto::store::{StoreAction, StoreKey, StoreResult, StreamId};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::{AnyStore, Messages};

/// The actions that are carried out at one time.
const AT_ONCE: usize = 64;
/// The maximum number of actions that wait for that. A further action fails at once.
const WAITING: usize = 16_384;
/// The capacity of the channel for messages. The store waits when it is full.
const MESSAGES: usize = 256;
/// How long the actions that are left at the end may take together.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long it may take to inform the store of the end.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);
/// After which time the store is asked again for messages, if it has given up.
const ATTEND_AGAIN: Duration = Duration::from_secs(1);

/// Something that the store has for the machine.
#[derive(Debug)]
pub(crate) enum FromStore {
    Stored(StoreKey, StoreResult),
    Message(Bytes),
    /// All actions have ended, or have taken too long, and no more are carried out.
    Flushed,
}

/// The way from a machine to its store, and back.
#[derive(Debug)]
pub(crate) struct StoreLink {
    commands: mpsc::UnboundedSender<Command>,
    /// At most one for each action.
    results: mpsc::UnboundedReceiver<(StoreKey, StoreResult)>,
    messages: mpsc::Receiver<Bytes>,
    flushed: Option<oneshot::Receiver<()>>,
}

#[derive(Debug)]
enum Command {
    Action(StoreAction),
    Flush(oneshot::Sender<()>),
}

impl StoreLink {
    pub(crate) fn start(store: Arc<dyn AnyStore>, stored: &StoredSessions) -> Self {
        let (commands, received) = mpsc::unbounded_channel();
        let (to_results, results) = mpsc::unbounded_channel();
        let (to_messages, messages) = mpsc::channel(MESSAGES);
        let task = Task {
            store,
            instance: stored.instance,
            timeout: stored.timeout,
            lanes: BTreeMap::new(),
            ready: VecDeque::new(),
            waiting: 0,
            running: JoinSet::new(),
            carried_out: BTreeMap::new(),
            results: to_results,
            messages: Messages(to_messages),
            is_failing: false,
        };
        tokio::spawn(task.run(received));
        Self { commands, results, messages, flushed: None }
    }

    /// Has an action carried out. If it has a key, its result follows.
    pub(crate) fn carry_out(&self, action: StoreAction) {
        // The task ends after the machine is closed. Its results are not awaited then.
        let _ = self.commands.send(Command::Action(action));
    }

    /// Waits for all actions, and ends the task. [`FromStore::Flushed`] follows.
    pub(crate) fn flush(&mut self) {
        let (done, flushed) = oneshot::channel();
        let _ = self.commands.send(Command::Flush(done));
        self.flushed = Some(flushed);
    }

    /// The next thing for the machine. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> FromStore {
        let Self { results, messages, flushed, .. } = self;
        let is_flushed = async {
            match flushed {
                // An error means that the task has ended.
                Some(flushed) => drop(flushed.await),
                None => std::future::pending().await,
            }
        };
        let received = tokio::select! {
            biased;
            Some((key, result)) = results.recv() => FromStore::Stored(key, result),
            () = is_flushed => FromStore::Flushed,
            Some(message) = messages.recv() => FromStore::Message(message),
            else => std::future::pending().await,
        };
        if matches!(received, FromStore::Flushed) {
            self.flushed = None;
        }
        received
    }
}

/// A part of the store that is changed by one action after the other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    Record(Arc<str>),
    Stream(StreamId),
    Instance(InstanceId),
    Messages,
    /// Actions that this version of the driver does not know.
    Other,
}

/// The lane of an action, and whether it writes.
fn lane_of(action: &StoreAction) -> (Lane, bool) {
    match action {
        StoreAction::Load { session, .. } => (Lane::Record(Arc::clone(session)), false),
        StoreAction::Save { session, .. } | StoreAction::Forget { session, .. } => {
            (Lane::Record(Arc::clone(session)), true)
        }
        StoreAction::Read { stream, .. } => (Lane::Stream(stream.clone()), false),
        StoreAction::Append { stream, .. } | StoreAction::ForgetStream { stream } => {
            (Lane::Stream(stream.clone()), true)
        }
        StoreAction::Find { instance, .. } => (Lane::Instance(*instance), false),
        StoreAction::Send { .. } => (Lane::Messages, true),
        _ => (Lane::Other, true),
    }
}

#[derive(Debug)]
struct Waiting {
    action: StoreAction,
    writes: bool,
    /// How long the machine waits for its result.
    until: Instant,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    running: usize,
    /// Whether the running action writes.
    is_written: bool,
    /// The first action waits until fewer actions are carried out.
    is_ready: bool,
}

impl Queue {
    /// Whether the first action need not wait for earlier ones.
    fn may_start(&self) -> bool {
        match self.waiting.front() {
            Some(Waiting { writes, .. }) => self.running == 0 || !(*writes || self.is_written),
            None => false,
        }
    }
}

struct Task {
    store: Arc<dyn AnyStore>,
    instance: InstanceId,
    timeout: Duration,
    /// The lanes with an action.
    lanes: BTreeMap<Lane, Queue>,
    /// The lanes with [`Queue::is_ready`].
    ready: VecDeque<Lane>,
    waiting: usize,
    running: JoinSet<StoreResult>,
    /// The actions that run.
    carried_out: BTreeMap<Id, (Lane, Option<StoreKey>)>,
    results: mpsc::UnboundedSender<(StoreKey, StoreResult)>,
    messages: Messages,
    is_failing: bool,
}

impl Task {
    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        self.register().await;
        let mut attending = JoinSet::from_iter([self.attend(Duration::ZERO)]);
        let done = loop {
            tokio::select! {
                command = commands.recv() => match command {
                    Some(Command::Action(action)) => self.add(action),
                    Some(Command::Flush(done)) => break Some(done),
                    None => break None,
                },
                Some(ended) = self.running.join_next_with_id() => self.on_ended(ended),
                Some(ended) = attending.join_next() => {
                    if ended.is_err() {
                        tracing::error!("the store has panicked");
                    }
                    attending.spawn(self.attend(ATTEND_AGAIN));
                }
            }
        };
        let until = Instant::now() + FLUSH_TIMEOUT;
        while self.waiting > 0 || !self.running.is_empty() {
            tokio::select! {
                Some(ended) = self.running.join_next_with_id() => self.on_ended(ended),
                () = sleep_until(until) => {
                    let left = self.waiting + self.running.len();
                    tracing::warn!(left, "the store has not carried out all that the server asked of it before its end");
                    self.running.shutdown().await;
                    break;
                }
            }
        }
        attending.shutdown().await;
        let _ = timeout(LEAVE_TIMEOUT, self.store.leave(self.instance)).await;
        if let Some(done) = done {
            let _ = done.send(());
        }
    }

    /// Registers the instance before its first action, because of which others send messages to it.
    async fn register(&self) {
        let (store, instance) = (Arc::clone(&self.store), self.instance);
        let mut registering = JoinSet::from_iter([async move { store.register(instance).await }]);
        if let Ok(Some(Err(_))) = timeout(self.timeout, registering.join_next()).await {
            tracing::error!("the store has panicked");
        }
    }

    /// Passes on messages, after this time.
    fn attend(&self, after: Duration) -> impl Future<Output = ()> + Send + 'static {
        let (store, instance, messages) = (Arc::clone(&self.store), self.instance, self.messages.clone());
        async move {
            sleep(after).await;
            store.attend(instance, messages).await;
        }
    }

    fn add(&mut self, action: StoreAction) {
        if self.waiting >= WAITING {
            tracing::warn!("too many actions wait for the store; one more is not carried out");
            if let Some(key) = action.key() {
                let _ = self.results.send((key, StoreResult::Failed));
            }
            return;
        }
        let (lane, writes) = lane_of(&action);
        let until = Instant::now() + self.timeout;
        self.lanes.entry(lane.clone()).or_default().waiting.push_back(Waiting { action, writes, until });
        self.waiting += 1;
        self.start(lane);
    }

    /// Carries out what may be carried out of a lane.
    fn start(&mut self, lane: Lane) {
        let Some(queue) = self.lanes.get_mut(&lane) else { return };
        while queue.may_start() {
            if self.running.len() >= AT_ONCE {
                if !std::mem::replace(&mut queue.is_ready, true) {
                    self.ready.push_back(lane);
                }
                return;
            }
            let Some(Waiting { action, writes, until }) = queue.waiting.pop_front() else { return };
            self.waiting -= 1;
            let (store, from, key, now) = (Arc::clone(&self.store), self.instance, action.key(), Instant::now());
            let until = match key {
                // The machine has not waited for longer.
                Some(key) if until <= now => {
                    let _ = self.results.send((key, StoreResult::Failed));
                    continue;
                }
                Some(_) => until,
                None => now + self.timeout,
            };
            queue.running += 1;
            queue.is_written = writes;
            let carrying_out =
                async move { timeout_at(until, store.carry_out(from, action)).await.unwrap_or(StoreResult::Failed) };
            let id = self.running.spawn(carrying_out).id();
            self.carried_out.insert(id, (lane.clone(), key));
        }
        if queue.running == 0 && queue.waiting.is_empty() {
            self.lanes.remove(&lane);
        }
    }

    fn on_ended(&mut self, ended: Result<(Id, StoreResult), tokio::task::JoinError>) {
        let (id, result) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                tracing::error!("the store has panicked");
                (error.id(), StoreResult::Failed)
            }
        };
        self.report(&result);
        let Some((lane, key)) = self.carried_out.remove(&id) else { return };
        if let Some(key) = key {
            let _ = self.results.send((key, result));
        }
        if let Some(queue) = self.lanes.get_mut(&lane) {
            queue.running -= 1;
        }
        while let Some(ready) = self.ready.pop_front() {
            if let Some(queue) = self.lanes.get_mut(&ready) {
                queue.is_ready = false;
            }
            self.start(ready);
            if self.running.len() >= AT_ONCE {
                break;
            }
        }
        self.start(lane);
    }

    /// Logs when the store begins to fail, and when it works again.
    fn report(&mut self, result: &StoreResult) {
        let is_failing = *result == StoreResult::Failed;
        if is_failing != std::mem::replace(&mut self.is_failing, is_failing) {
            if is_failing {
                tracing::warn!("the store does not carry out actions; requests of sessions are answered with 503");
            } else {
                tracing::info!("the store carries out actions again");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Semaphore;

    use super::super::Store;
    use super::*;

    /// A store that reports what begins, and answers when the test lets it.
    #[derive(Default)]
    struct Slow {
        registering: Duration,
        begun: Mutex<Vec<u64>>,
        at_once: AtomicUsize,
        may_end: Permits,
        left: AtomicUsize,
    }

    struct Permits(Semaphore);

    impl Default for Permits {
        fn default() -> Self {
            Self(Semaphore::new(0))
        }
    }

    impl Slow {
        fn begun(&self) -> Vec<u64> {
            std::mem::take(&mut self.begun.lock().unwrap())
        }

        async fn end_one(&self) {
            self.may_end.0.add_permits(1);
            settle().await;
        }
    }

    /// The number of an action, which is in the version that it expects, or in a tag, or in a message, or its instance.
    #[expect(clippy::wildcard_enum_match_arm, reason = "these tests have no others")]
    fn number(action: &StoreAction) -> u64 {
        match action {
            StoreAction::Save { expected, .. } => *expected,
            StoreAction::Load { expires_in, .. } => expires_in.as_secs(),
            StoreAction::Append { first, .. } => first.unwrap_or(0),
            StoreAction::Send { message, .. } => message.len() as u64,
            StoreAction::Find { instance, .. } => instance.number(),
            other => panic!("{other:?}"),
        }
    }

    impl Store for Slow {
        async fn carry_out(&self, _: InstanceId, action: StoreAction) -> StoreResult {
            assert!(number(&action) != 13, "a store may panic");
            self.begun.lock().unwrap().push(number(&action));
            self.at_once.fetch_add(1, Ordering::Relaxed);
            self.may_end.0.acquire().await.unwrap().forget();
            self.at_once.fetch_sub(1, Ordering::Relaxed);
            StoreResult::Done
        }

        async fn register(&self, _: InstanceId) {
            assert!(self.registering < Duration::MAX, "a store may panic");
            sleep(self.registering).await;
        }

        async fn attend(&self, _: InstanceId, messages: Messages) {
            messages.pass(Bytes::from_static(b"once")).await;
            assert_eq!(self.left.load(Ordering::Relaxed), 0);
        }

        async fn leave(&self, _: InstanceId) {
            self.left.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn settle() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    fn link(store: &Arc<Slow>) -> StoreLink {
        let stored = StoredSessions::new(InstanceId::new(1));
        StoreLink::start(Arc::new(Arc::clone(store)), &stored)
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_panics_when_an_instance_is_registered_is_used_nevertheless() {
        let store = Arc::new(Slow { registering: Duration::MAX, ..Slow::default() });
        let link = link(&store);
        link.carry_out(load("a", 1));
        settle().await;
        assert_eq!(store.begun(), [1]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_instance_is_registered_before_its_first_action_unless_that_takes_too_long() {
        for (registering, begins_after) in [(2, 2), (3600, 5)] {
            let store = Arc::new(Slow { registering: Duration::from_secs(registering), ..Slow::default() });
            let mut stored = StoredSessions::new(InstanceId::new(1));
            stored.timeout = Duration::from_secs(5);
            let link = StoreLink::start(Arc::new(Arc::clone(&store)), &stored);
            link.carry_out(load("a", 1));
            sleep(Duration::from_millis(begins_after * 1000 - 10)).await;
            assert_eq!(store.begun(), [0; 0]);
            sleep(Duration::from_millis(20)).await;
            assert_eq!(store.begun(), [1]);
        }
    }

    fn load(session: &str, number: u64) -> StoreAction {
        StoreAction::Load {
            key: StoreKey::new(number),
            session: session.into(),
            expires_in: Duration::from_secs(number),
        }
    }

    fn save(session: &str, number: u64) -> StoreAction {
        let (key, session, expires_in) = (StoreKey::new(number), session.into(), Duration::ZERO);
        StoreAction::Save { key, session, expected: number, bytes: Bytes::new(), expires_in }
    }

    fn append(session: &str, tag: u64, number: u64) -> StoreAction {
        StoreAction::Append {
            key: StoreKey::new(number),
            stream: StreamId { session: session.into(), tag },
            first: Some(number),
            events: Vec::new(),
            label: Bytes::new(),
            is_last: false,
            keep: 0,
            expires_in: Duration::ZERO,
        }
    }

    fn send(number: usize) -> StoreAction {
        StoreAction::Send { to: None, message: vec![0; number].into() }
    }

    #[tokio::test(start_paused = true)]
    async fn an_action_that_writes_waits_for_those_before_on_the_same_record_or_stream() {
        let store = Arc::default();
        let link = link(&store);
        for action in [load("a", 1), load("a", 2), save("a", 3), save("a", 4), load("a", 5), load("a", 6), save("a", 7)]
        {
            link.carry_out(action);
        }
        for action in [append("a", 1, 21), append("a", 1, 22), append("a", 2, 23), save("b", 24), send(25), send(26)] {
            link.carry_out(action);
        }
        settle().await;
        assert_eq!(store.begun(), [1, 2, 21, 23, 24, 25]);
        // Permits are given in the order in which actions have begun to wait.
        store.end_one().await;
        assert_eq!(store.begun(), [0; 0], "one of two reads has not ended");
        store.end_one().await;
        assert_eq!(store.begun(), [3]);
        store.end_one().await;
        assert_eq!(store.begun(), [22]);
        for _ in 0..3 {
            store.end_one().await;
        }
        assert_eq!(store.begun(), [26]);
        store.end_one().await;
        assert_eq!(store.begun(), [4]);
        for _ in 0..3 {
            store.end_one().await;
        }
        assert_eq!(store.begun(), [5, 6]);
        store.end_one().await;
        store.end_one().await;
        assert_eq!(store.begun(), [7]);
    }

    #[tokio::test(start_paused = true)]
    async fn instances_are_looked_for_at_the_same_time() {
        let store = Arc::default();
        let link = link(&store);
        for (key, instance) in [(1, 31), (2, 32), (3, 31)] {
            link.carry_out(StoreAction::Find { key: StoreKey::new(key), instance: InstanceId::new(instance) });
        }
        settle().await;
        assert_eq!(store.begun(), [31, 32, 31]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_limited_number_of_actions_run_and_wait() {
        let store = Arc::default();
        let mut link = link(&store);
        let all = AT_ONCE + WAITING;
        for number in 0..=all {
            // Two for each session, and some that must not overtake each other.
            link.carry_out(save(&(number / 2).to_string(), number as u64 + 100));
        }
        settle().await;
        assert_eq!(store.at_once.load(Ordering::Relaxed), AT_ONCE);
        let refused = loop {
            if let FromStore::Stored(key, result) = link.next().await {
                assert_eq!(result, StoreResult::Failed);
                break key;
            }
        };
        assert!(refused > StoreKey::new(100 + WAITING as u64), "{refused:?}");
        store.may_end.0.add_permits(all);
        let mut ended = 0;
        while ended < WAITING {
            if let FromStore::Stored(_, StoreResult::Done) = link.next().await {
                ended += 1;
            }
            assert!(store.at_once.load(Ordering::Relaxed) <= AT_ONCE);
        }
        let mut last = BTreeMap::new();
        for number in store.begun() {
            assert!(last.insert((number - 100) / 2, number).is_none_or(|earlier| earlier < number));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_panics_or_takes_too_long_has_failed() {
        let store = Arc::default();
        let mut link = link(&store);
        for action in [save("a", 13), save("a", 2), save("b", 3)] {
            link.carry_out(action);
        }
        let mut results = BTreeMap::new();
        while results.len() < 3 {
            if let FromStore::Stored(key, result) = link.next().await {
                results.insert(key, result);
                store.may_end.0.add_permits(usize::from(key == StoreKey::new(13)));
            }
        }
        // One of the two others had a permit, and the last one is late.
        assert_eq!(results[&StoreKey::new(13)], StoreResult::Failed);
        let failed = results.values().filter(|result| **result == StoreResult::Failed).count();
        assert_eq!(failed, 2, "{results:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_machine_has_not_waited_for_is_not_carried_out() {
        let store = Arc::default();
        let mut link = link(&store);
        for action in [save("a", 1), save("a", 2), append("a", 1, 3), append("a", 1, 4), send(5), send(6)] {
            link.carry_out(action);
        }
        let (began, mut failed) = (Instant::now(), 0);
        while failed < 4 {
            if let FromStore::Stored(_, result) = link.next().await {
                assert_eq!(result, StoreResult::Failed);
                failed += 1;
            }
        }
        assert_eq!(began.elapsed().as_secs(), 5);
        settle().await;
        assert_eq!(store.begun(), [1, 3, 5, 6], "messages have no result");
        store.may_end.0.add_permits(10);
        link.carry_out(save("a", 7));
        while !matches!(link.next().await, FromStore::Stored(_, StoreResult::Done)) {}
        assert_eq!(store.begun(), [7]);
    }

    #[tokio::test(start_paused = true)]
    async fn everything_is_carried_out_before_the_end_unless_it_takes_too_long() {
        for is_in_time in [true, false] {
            let store: Arc<Slow> = Arc::default();
            let mut link = link(&store);
            for action in [save("a", 1), save("a", 2), send(3)] {
                link.carry_out(action);
            }
            link.flush();
            settle().await;
            let began = Instant::now();
            if is_in_time {
                store.may_end.0.add_permits(3);
            }
            let mut done = 0;
            loop {
                match link.next().await {
                    FromStore::Stored(_, result) => done += usize::from(result == StoreResult::Done),
                    FromStore::Message(_) => {}
                    FromStore::Flushed => break,
                }
            }
            assert_eq!((done, store.left.load(Ordering::Relaxed)), (if is_in_time { 2 } else { 0 }, 1));
            let took = began.elapsed();
            assert!(if is_in_time { took < Duration::from_millis(10) } else { took <= FLUSH_TIMEOUT }, "{took:?}");
            // What comes later has no effect, and a second flush ends, too.
            link.carry_out(save("a", 9));
            link.flush();
            assert!(matches!(link.next().await, FromStore::Flushed));
            assert!(!store.begun().contains(&9));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_gives_up_is_asked_for_messages_again() {
        let store = Arc::default();
        let mut link = link(&store);
        for _ in 0..3 {
            assert!(matches!(link.next().await, FromStore::Message(message) if message == "once"));
        }
        drop(link);
        settle().await;
        assert_eq!(store.left.load(Ordering::Relaxed), 1);
    }

    /// A store that waits for messages without an end, and notes what happens.
    #[derive(Default)]
    struct Noting(Arc<Mutex<Vec<&'static str>>>);

    struct Attends(Arc<Mutex<Vec<&'static str>>>);

    impl Drop for Attends {
        fn drop(&mut self) {
            self.0.lock().unwrap().push("attends no more");
        }
    }

    impl Store for Noting {
        async fn carry_out(&self, _: InstanceId, _: StoreAction) -> StoreResult {
            StoreResult::Done
        }

        async fn register(&self, _: InstanceId) {}

        async fn attend(&self, _: InstanceId, _: Messages) {
            let _attends = Attends(Arc::clone(&self.0));
            std::future::pending::<()>().await;
        }

        async fn leave(&self, _: InstanceId) {
            self.0.lock().unwrap().push("leaves");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_instance_waits_for_no_message_when_it_leaves() {
        let noted = Arc::default();
        let mut link = StoreLink::start(Arc::new(Noting(Arc::clone(&noted))), &StoredSessions::new(InstanceId::new(1)));
        settle().await;
        link.flush();
        assert!(matches!(link.next().await, FromStore::Flushed));
        assert_eq!(*noted.lock().unwrap(), ["attends no more", "leaves"]);
    }
}
