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
use mcp_proto::server::StoredSessions;
use mcp_proto::store::{InstanceId, StoreAction, StoreKey, StoreResult, StreamId};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{AnyStore, Messages};

/// The actions that are carried out at one time.
const AT_ONCE: usize = 64;
/// The actions that wait for that. One more fails at once.
const WAITING: usize = 4096;
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
    /// Starts the task.
    pub(crate) fn start(store: Arc<dyn AnyStore>, stored: &StoredSessions) -> Self {
        let (commands, received) = mpsc::unbounded_channel();
        let (to_results, results) = mpsc::unbounded_channel();
        let (to_messages, messages) = mpsc::channel(MESSAGES);
        let attending = Arc::clone(&store);
        let instance = stored.instance;
        let attending = async move {
            loop {
                let (store, messages) = (Arc::clone(&attending), Messages(to_messages.clone()));
                // A panic ends only this task; if this future is dropped, the task is ended, too.
                let mut once = JoinSet::new();
                once.spawn(async move { store.attend(instance, messages).await });
                if once.join_next().await.is_some_and(|ended| ended.is_err()) {
                    tracing::error!("the store has panicked");
                }
                sleep(ATTEND_AGAIN).await;
            }
        };
        let task = Task {
            store,
            instance,
            timeout: stored.timeout,
            lanes: BTreeMap::new(),
            ready: VecDeque::new(),
            waiting: 0,
            running: JoinSet::new(),
            carried_out: BTreeMap::new(),
            results: to_results,
            is_failing: false,
        };
        tokio::spawn(task.run(received, attending));
        Self { commands, results, messages, flushed: None }
    }

    /// Has an action carried out. If it has a key, its result follows.
    pub(crate) fn carry_out(&self, action: StoreAction) {
        // The task ends after the machine is closed. Nobody waits for a result then.
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

/// What is changed by one action after the other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    Record(Arc<str>),
    Stream(StreamId),
    Instance(InstanceId),
    Messages,
    /// What this version of the driver does not know.
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

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(StoreAction, bool)>,
    running: usize,
    /// What runs is an action that writes.
    is_written: bool,
    /// Its first action waits until fewer actions are carried out.
    is_ready: bool,
}

impl Queue {
    /// Whether the first action need not wait for earlier ones.
    fn may_start(&self) -> bool {
        match self.waiting.front() {
            Some((_, writes)) => self.running == 0 || !(*writes || self.is_written),
            None => false,
        }
    }
}

struct Task {
    store: Arc<dyn AnyStore>,
    instance: InstanceId,
    timeout: Duration,
    /// Those with an action.
    lanes: BTreeMap<Lane, Queue>,
    /// The lanes with [`Queue::is_ready`].
    ready: VecDeque<Lane>,
    waiting: usize,
    running: JoinSet<StoreResult>,
    /// The actions that run.
    carried_out: BTreeMap<Id, (Lane, Option<StoreKey>)>,
    results: mpsc::UnboundedSender<(StoreKey, StoreResult)>,
    is_failing: bool,
}

impl Task {
    async fn run(
        mut self,
        mut commands: mpsc::UnboundedReceiver<Command>,
        attending: impl Future<Output = ()> + Send + 'static,
    ) {
        let mut attending = JoinSet::from_iter([attending]);
        let done = loop {
            tokio::select! {
                command = commands.recv() => match command {
                    Some(Command::Action(action)) => self.add(action),
                    Some(Command::Flush(done)) => break Some(done),
                    None => break None,
                },
                Some(ended) = self.running.join_next_with_id() => self.on_ended(ended),
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

    fn add(&mut self, action: StoreAction) {
        if self.waiting >= WAITING {
            tracing::warn!("too many actions wait for the store; one more is not carried out");
            if let Some(key) = action.key() {
                let _ = self.results.send((key, StoreResult::Failed));
            }
            return;
        }
        let (lane, writes) = lane_of(&action);
        self.lanes.entry(lane.clone()).or_default().waiting.push_back((action, writes));
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
            let Some((action, writes)) = queue.waiting.pop_front() else { return };
            queue.running += 1;
            queue.is_written = writes;
            self.waiting -= 1;
            let (store, from, key, limit) = (Arc::clone(&self.store), self.instance, action.key(), self.timeout);
            let carrying_out =
                async move { timeout(limit, store.carry_out(from, action)).await.unwrap_or(StoreResult::Failed) };
            let id = self.running.spawn(carrying_out).id();
            self.carried_out.insert(id, (lane.clone(), key));
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
            if queue.running == 0 && queue.waiting.is_empty() {
                self.lanes.remove(&lane);
            }
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

    /// Logs that the store fails, and that it does not any more.
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
