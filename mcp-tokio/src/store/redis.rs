//! A store in Redis.

mod connection;
mod keys;
mod scripts;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use std::{fmt, io};

use bytes::Bytes;
use connection::{Connection, is_usable, may_pass};
use keys::Keys;
use mcp_proto::InstanceId;
use mcp_proto::store::{After, Record, StoreAction, StoreResult, StoredEvents, StreamId};
use redis::aio::MultiplexedConnection;
use redis::streams::{StreamReadOptions, StreamReadReply};
use redis::{AsyncCommands, Client, RedisError, RedisResult, ScriptInvocation, Value, pipe};
use scripts::{FOUND_FOR_MS, LATE_MS, Scripts, WAITING};
use tokio::time::{sleep, timeout};

use super::{Messages, Store};

/// How long an action may take by default.
const TIMEOUT: Duration = Duration::from_secs(3);
/// How often an instance is registered.
const REGISTER: Duration = Duration::from_secs(3);
/// How long one command waits for messages.
const WAIT: Duration = Duration::from_secs(2);
/// The messages that are read at once.
const AT_ONCE: usize = 100;
/// The first pause before an action is repeated, which doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// Redis refuses times that are too far away.
const LONGEST_EXPIRY: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A store in Redis (version 5 or newer) or Valkey, which the servers of any number of processes share.
///
/// It needs one primary server, perhaps with replicas; a cluster is not supported. An action whose connection is lost is
/// repeated on a new one until [`Redis::timeout`] has passed, and takes effect once, also if an earlier attempt arrives
/// up to ten minutes later over the old connection. Redis answers before a write has
/// reached its replicas or, as it is configured, its disk: sessions whose last writes are lost in a crash end, or continue
/// with an earlier state.
///
/// Every key has an expiry, and begins with a prefix: `PREFIX:s:…` are sessions, `PREFIX:e:…` streams, `PREFIX:i:…` and
/// `PREFIX:m:…` messages to and of an instance, and `PREFIX:instances` is the set of instances. No name of a key has the id
/// of a session; the contents do.
///
/// Redis has to be as protected as the processes themselves: who can write to it can act as any client.
///
/// # Example
///
/// ```no_run
/// use mcp_tokio::proto::server::{Config, HttpConfig, SessionMode, StoredSessions};
/// use mcp_tokio::proto::{ErrorObject, Json};
/// use mcp_tokio::store::{Redis, random_instance};
/// use mcp_tokio::{Incoming, Server};
/// use tokio::net::TcpListener;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let serve = async |incoming: Incoming| Ok::<_, ErrorObject>(Json::from(incoming.method().as_str()));
/// let mut http = HttpConfig::new();
/// http.sessions = SessionMode::Stored(StoredSessions::new(random_instance()?));
/// let store = Redis::open("redis://127.0.0.1:6379/")?.prefix("my-tools");
/// let service = Server::new(Config::new("my-tools", "1.0.0"), serve).store(store).http(http)?;
/// service.serve(TcpListener::bind("127.0.0.1:3000").await?).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Redis {
    shared: Arc<Shared>,
    keys: Keys,
    timeout: Duration,
}

type Answering<'c, T> = Pin<Box<dyn Future<Output = RedisResult<T>> + Send + 'c>>;

struct Shared {
    client: Client,
    connection: Connection,
    scripts: Scripts,
    /// Distinguishes the actions of this process from those of others.
    process: u64,
    /// The number of the last action.
    actions: AtomicU64,
    is_failing: AtomicBool,
}

impl Redis {
    /// The store at a URL such as `redis://USER:PASSWORD@HOST:6379/0` or `unix:///run/redis.sock`. It connects when it is
    /// used first.
    ///
    /// `rediss://` connects with TLS if the program depends on the crate `redis` with a feature for it, such as
    /// `tokio-rustls-comp`.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] if the URL cannot be used; another kind if the system has no random bytes.
    pub fn open(url: &str) -> io::Result<Self> {
        let invalid = |_: RedisError| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "the URL of the Redis server must be like redis://HOST:6379/0; rediss:// needs a TLS feature of the crate redis",
            )
        };
        Self::with_client(Client::open(url).map_err(invalid)?)
    }

    /// The store that a client of the crate `redis` (version 1) reaches, for certificates and other settings.
    ///
    /// # Errors
    ///
    /// The system has no random bytes.
    pub fn with_client(client: Client) -> io::Result<Self> {
        let mut process = [0; 8];
        getrandom::fill(&mut process).map_err(io::Error::other)?;
        Ok(Self {
            shared: Arc::new(Shared {
                connection: Connection::new(client.clone(), TIMEOUT / 3, TIMEOUT / 3),
                client,
                scripts: Scripts::new(),
                process: u64::from_ne_bytes(process),
                actions: AtomicU64::new(0),
                is_failing: AtomicBool::new(false),
            }),
            keys: Keys::new("mcp"),
            timeout: TIMEOUT,
        })
    }

    /// Sets what the names of all keys begin with; all instances of one server need the same, and other servers others.
    /// Default `mcp`.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.keys = Keys::new(prefix);
        self
    }

    /// Sets how long an action may take, with all repetitions. It should be less than
    /// [`StoredSessions::timeout`](mcp_proto::server::StoredSessions::timeout). Default 3 s.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Repeats a command until it succeeds, fails for good, or takes too long.
    async fn repeat<'c, T>(&self, command: impl Fn(MultiplexedConnection) -> Answering<'c, T>) -> Option<T> {
        let mut cause = None;
        let repeating = async {
            let mut pause = FIRST_PAUSE;
            loop {
                let error = match self.attempt(&command).await {
                    Ok(done) => return Some(done),
                    Err(error) => error,
                };
                let is_over = !may_pass(&error);
                cause = Some(error);
                if is_over {
                    return None;
                }
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        };
        let done = timeout(self.timeout, repeating).await.ok().flatten();
        let has_failed = done.is_none();
        if has_failed != self.shared.is_failing.swap(has_failed, Ordering::Relaxed) {
            match &cause {
                // The text of an error can contain what was sent.
                Some(error) if has_failed => {
                    tracing::warn!(kind = ?error.kind(), code = error.code(), "Redis has not carried out a command");
                }
                None if has_failed => tracing::warn!("Redis does not answer"),
                _ => tracing::info!("Redis carries out commands again"),
            }
        }
        done
    }

    async fn attempt<'c, T>(&self, command: &impl Fn(MultiplexedConnection) -> Answering<'c, T>) -> RedisResult<T> {
        let (connection, generation) = self.shared.connection.get().await?;
        let result = command(connection).await;
        if let Err(error) = &result {
            if !is_usable(error) {
                self.shared.connection.discard(generation).await;
            }
        }
        result
    }

    /// A new action of an instance. Actions for the same key follow each other, so that their numbers increase.
    fn new_attempt(&self, from: InstanceId) -> Attempt {
        let sender = format!("{from}:{:x}", self.shared.process);
        Attempt { sender, number: self.shared.actions.fetch_add(1, Ordering::Relaxed) }
    }

    async fn command(
        &self,
        mut connection: MultiplexedConnection,
        from: InstanceId,
        action: &StoreAction,
        attempt: &Attempt,
    ) -> RedisResult<StoreResult> {
        let Self { keys, shared, .. } = self;
        let scripts = &shared.scripts;
        let written = |written: bool| if written { StoreResult::Done } else { StoreResult::Conflict };
        match action {
            StoreAction::Load { session, expires_in, .. } => {
                let mut load = scripts.load.prepare_invoke();
                load.key(keys.record(session)).key(keys.stream_of_session(session));
                load.arg(milliseconds(*expires_in)).arg(milliseconds(longer(*expires_in)));
                let (version, bytes): (Option<Vec<u8>>, Option<Vec<u8>>) = load.invoke_async(&mut connection).await?;
                // If the version is no number, no instance has written the record.
                let version = version.and_then(|version| std::str::from_utf8(&version).ok()?.parse().ok());
                let record = version.zip(bytes).map(|(version, bytes)| Record { version, bytes: bytes.into() });
                Ok(StoreResult::Loaded(record))
            }
            StoreAction::Save { session, expected, bytes, expires_in, .. } => {
                let mut save = scripts.save.prepare_invoke();
                save.key(keys.record(session)).key(keys.instance(from)).key(keys.instances());
                save.key(keys.stream_of_session(session));
                save.arg(from.to_string()).arg(FOUND_FOR_MS);
                attempt.add_to(&mut save);
                save.arg(*expected).arg(&bytes[..]).arg(milliseconds(longer(*expires_in)));
                save.invoke_async(&mut connection).await.map(written)
            }
            StoreAction::Forget { session, .. } => {
                self.remove(&mut connection, &[keys.record(session), keys.stream_of_session(session)], attempt).await
            }
            StoreAction::Append { stream, first, events, label, is_last, keep, expires_in, .. } => {
                let mut append = scripts.append.prepare_invoke();
                append.key(keys.stream(stream)).key(keys.instance(from)).key(keys.instances());
                append.arg(from.to_string()).arg(FOUND_FOR_MS);
                attempt.add_to(&mut append);
                // The stream of a session must not expire before the record of the session.
                let is_of_session = stream.tag == StreamId::OF_SESSION;
                let expires_in = if is_of_session { longer(*expires_in) } else { *expires_in };
                append.arg(first.unwrap_or(0)).arg(u8::from(*is_last)).arg(*keep).arg(milliseconds(expires_in));
                append.arg(&label[..]);
                for event in events {
                    append.arg(&event[..]);
                }
                append.invoke_async(&mut connection).await.map(written)
            }
            StoreAction::Read { stream, after, max_bytes, .. } => {
                let mut read = scripts.read.prepare_invoke();
                read.key(keys.stream(stream));
                match after {
                    After::Number(number) => read.arg(*number),
                    After::Latest => read.arg(-1),
                };
                let read: Option<Value> = read.arg(*max_bytes).invoke_async(&mut connection).await?;
                let Some(read) = read else { return Ok(StoreResult::Events(None)) };
                let (label, first, is_last, events): (Vec<u8>, _, _, Vec<Vec<u8>>) = redis::from_redis_value(read)?;
                let events = events.into_iter().map(Bytes::from).collect();
                Ok(StoreResult::Events(Some(StoredEvents { label: label.into(), first, events, is_last })))
            }
            StoreAction::ForgetStream { stream } => self.remove(&mut connection, &[keys.stream(stream)], attempt).await,
            StoreAction::Find { instance, .. } => {
                connection.exists(keys.instance(*instance)).await.map(StoreResult::Found)
            }
            StoreAction::Send { to, message } => {
                let mut send = scripts.send.prepare_invoke();
                send.key(keys.sent(from)).key(keys.instances());
                attempt.add_to(&mut send);
                send.arg(keys.instance_prefix()).arg(from.to_string());
                send.arg(to.map(|to| to.to_string()).unwrap_or_default());
                send.arg(&message[..]).arg(WAITING);
                let _: u8 = send.invoke_async(&mut connection).await?;
                Ok(StoreResult::Done)
            }
            _ => Ok(StoreResult::Failed),
        }
    }

    async fn remove(
        &self,
        connection: &mut MultiplexedConnection,
        keys: &[String],
        attempt: &Attempt,
    ) -> RedisResult<StoreResult> {
        let mut forget = self.shared.scripts.forget.prepare_invoke();
        attempt.add_to(forget.key(keys));
        let _: u8 = forget.invoke_async(connection).await?;
        Ok(StoreResult::Done)
    }

    /// Registers an instance, for a while; returns the id of the last message to it.
    async fn register_for_a_while(&self, instance: InstanceId) -> Option<MessageId> {
        let mut register = self.shared.scripts.register.prepare_invoke();
        register.key(self.keys.instance(instance)).key(self.keys.instances());
        register.arg(instance.to_string()).arg(FOUND_FOR_MS);
        let register = &register;
        let last = self
            .repeat(|mut connection| Box::pin(async move { register.invoke_async::<String>(&mut connection).await }));
        last.await.map(|last| MessageId::read(&last))
    }

    /// Waits for messages after one, and removes them.
    async fn read_messages(
        &self,
        connection: &Connection,
        instance: InstanceId,
        after: MessageId,
    ) -> RedisResult<Vec<(MessageId, Option<Bytes>)>> {
        let key = self.keys.instance(instance);
        let (mut open, generation) = connection.get().await?;
        let wait = usize::try_from(WAIT.as_millis()).unwrap_or(usize::MAX);
        let options = StreamReadOptions::default().block(wait).count(AT_ONCE);
        let read: RedisResult<Option<StreamReadReply>> =
            open.xread_options(&[&key], &[after.to_string()], &options).await;
        let entries: Vec<_> = match read {
            Ok(read) => read.into_iter().flat_map(|read| read.keys).flat_map(|read| read.ids).collect(),
            Err(error) => {
                connection.discard(generation).await;
                return Err(error);
            }
        };
        if !entries.is_empty() {
            let ids: Vec<_> = entries.iter().map(|entry| entry.id.as_str()).collect();
            let removed: RedisResult<()> = open.xdel(&key, &ids).await;
            // Messages are not read again in any case, and the number of those that wait is limited.
            if removed.is_err() {
                connection.discard(generation).await;
            }
        }
        let message = |field: Value| redis::from_redis_value::<Vec<u8>>(field).ok().map(Bytes::from);
        let entries =
            entries.into_iter().map(|mut entry| (MessageId::read(&entry.id), entry.map.remove("m").and_then(message)));
        Ok(entries.collect())
    }
}

impl Store for Redis {
    async fn carry_out(&self, from: InstanceId, action: StoreAction) -> StoreResult {
        let attempt = self.new_attempt(from);
        let (action, attempt) = (&action, &attempt);
        let carried_out = self.repeat(|connection| Box::pin(self.command(connection, from, action, attempt)));
        carried_out.await.unwrap_or(StoreResult::Failed)
    }

    async fn register(&self, instance: InstanceId) {
        self.register_for_a_while(instance).await;
    }

    async fn attend(&self, instance: InstanceId, messages: Messages) {
        // A command that waits would delay those of other tasks on the same connection.
        let connection = Connection::new(self.shared.client.clone(), TIMEOUT / 3, WAIT + TIMEOUT);
        let registering = async {
            loop {
                self.register_for_a_while(instance).await;
                sleep(REGISTER).await;
            }
        };
        let reading = async {
            let mut after = MessageId::default();
            loop {
                match self.read_messages(&connection, instance, after).await {
                    Ok(read) if read.is_empty() => {
                        // Ids begin again if the server has lost its data.
                        if self.register_for_a_while(instance).await.is_some_and(|last| last < after) {
                            after = MessageId::default();
                        }
                    }
                    Ok(read) => {
                        for (id, message) in read {
                            after = id;
                            if let Some(message) = message {
                                messages.pass(message).await;
                            }
                        }
                    }
                    Err(_) => sleep(LONGEST_PAUSE).await,
                }
            }
        };
        tokio::join!(registering, reading);
    }

    async fn leave(&self, instance: InstanceId) {
        let mut leave = pipe();
        leave.unlink(self.keys.instance(instance)).ignore();
        leave.srem(self.keys.instances(), instance.to_string()).ignore();
        let leave = &leave;
        self.repeat(|mut connection| Box::pin(async move { leave.query_async::<()>(&mut connection).await })).await;
    }
}

/// Identifies an action: all of its attempts have these values, and no other action has them.
struct Attempt {
    sender: String,
    number: u64,
}

impl Attempt {
    /// Adds the arguments by which the scripts recognise it.
    fn add_to(&self, script: &mut ScriptInvocation<'_>) {
        script.arg(&self.sender).arg(self.number).arg(LATE_MS);
    }
}

/// Omits the address and the password.
impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("keys", &self.keys).field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// The id of a message: the time of the server in milliseconds, and a number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct MessageId(u64, u64);

impl MessageId {
    fn read(text: &str) -> Self {
        let mut parts = text.split('-').map(|part| part.parse().unwrap_or(0));
        Self(parts.next().unwrap_or(0), parts.next().unwrap_or(0))
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0, self.1)
    }
}

/// The time for which a record is stored: longer than asked for, so that not every use of the record has to extend it.
fn longer(time: Duration) -> Duration {
    time.saturating_add(time / 8)
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.min(LONGEST_EXPIRY).as_millis()).unwrap_or(i64::MAX).max(1)
}
