//! The task that owns the machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mcp_proto::client::{self as proto, Call, Event, Outcome, Unavailable};
use mcp_proto::{
    ErrorObject, Instant, Json, Notification, Output, RequestKey, Stdio, StdioAction, Ticket, TicketKey, UsageError,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{sleep_until, timeout};

use super::handler::AnyHandler;
use super::{Greeting, InFlight};
use crate::child::Child;

/// Bytes that are read at once.
const CHUNK: usize = 64 * 1024;
/// Lines that wait to be written. Further ones wait in the machine, which then wants no input in the end.
const LINES: usize = 64;
/// Progress and notifications that wait to be heard; more are dropped.
const UNHEARD: usize = 256;

/// How long the last lines may take to be written after everything else has ended.
const FLUSH: Duration = Duration::from_secs(1);

/// What a client asks of its task.
#[derive(Debug)]
pub(super) enum Input {
    Request { call: Call, accept: oneshot::Sender<Result<InFlight, UsageError>> },
    Notify { notification: Notification, accept: oneshot::Sender<Result<(), UsageError>> },
    Close(Option<oneshot::Sender<()>>),
}

pub(super) struct Driver {
    machine: proto::Client<Stdio>,
    handler: Arc<dyn AnyHandler>,
    connected: Option<oneshot::Sender<Result<Greeting, Unavailable>>>,
    callers: BTreeMap<RequestKey, Caller>,
    /// Requests of the server's that are being served.
    serving: BTreeMap<TicketKey, (Ticket, AbortHandle)>,
    answers: mpsc::UnboundedSender<(TicketKey, Result<Json, ErrorObject>)>,
    answered: mpsc::UnboundedReceiver<(TicketKey, Result<Json, ErrorObject>)>,
    cancel: mpsc::UnboundedSender<RequestKey>,
    cancelled: mpsc::UnboundedReceiver<RequestKey>,
    /// Who waits for the end.
    closing: Vec<oneshot::Sender<()>>,
}

struct Caller {
    outcome: oneshot::Sender<Outcome>,
    progress: mpsc::Sender<Json>,
}

/// Whether the task goes on.
#[derive(PartialEq, Eq)]
enum Next {
    GoOn,
    End,
}

impl Driver {
    pub(super) fn new(
        machine: proto::Client<Stdio>,
        handler: Arc<dyn AnyHandler>,
        connected: oneshot::Sender<Result<Greeting, Unavailable>>,
    ) -> Self {
        // The machine bounds both: what the server asks at one time, and what is in flight.
        let (answers, answered) = mpsc::unbounded_channel();
        let (cancel, cancelled) = mpsc::unbounded_channel();
        Self {
            machine,
            handler,
            connected: Some(connected),
            callers: BTreeMap::new(),
            serving: BTreeMap::new(),
            answers,
            answered,
            cancel,
            cancelled,
            closing: Vec::new(),
        }
    }

    /// Runs until the connection has ended.
    pub(super) async fn run(
        mut self,
        mut read: impl AsyncRead + Send + Unpin + 'static,
        write: impl AsyncWrite + Send + Unpin + 'static,
        mut inputs: mpsc::Receiver<Input>,
        child: Option<Child>,
    ) {
        let (lines, writing) = spawn_writer(write);
        let mut lines = Some(lines);
        let (notices, noticing) = self.spawn_notifier();
        let mut unwritten: Option<Bytes> = None;
        let mut buffer = BytesMut::with_capacity(CHUNK);
        let (mut is_readable, mut has_clients) = (true, true);
        let connecting = self.machine.connect(now());
        debug_assert!(connecting.is_ok(), "nothing was connected before");

        loop {
            if self.drain(&mut lines, &mut unwritten, &notices) == Next::End {
                break;
            }
            let due = self.machine.poll_timeout();
            // Reading goes on while a line waits: a server that does one thing at a time may be waiting for that.
            let wants_input = is_readable && self.machine.wants_input();
            tokio::select! {
                length = read.read_buf(&mut buffer), if wants_input => match length {
                    Ok(0) | Err(_) => {
                        is_readable = false;
                        self.machine.handle_eof(now());
                    }
                    Ok(_) => {
                        self.machine.handle_bytes(&buffer, now());
                        buffer.clear();
                    }
                },
                permit = reserve(lines.as_ref()), if unwritten.is_some() => match (permit, unwritten.take()) {
                    (Some(permit), Some(line)) => permit.send(line),
                    // Nobody reads what is written: the server is gone.
                    (None, _) => {
                        is_readable = false;
                        self.machine.handle_eof(now());
                    }
                    (Some(_), None) => {}
                },
                input = inputs.recv(), if has_clients => if let Some(input) = input {
                    self.on_input(input);
                } else {
                    has_clients = false;
                    self.machine.close(now());
                },
                Some(request) = self.cancelled.recv() => self.machine.cancel(request, None, now()),
                Some((ticket, answer)) = self.answered.recv() => {
                    if let Some((ticket, _)) = self.serving.remove(&ticket) {
                        self.machine.answer(ticket, answer, now());
                    }
                }
                () = sleep(due), if due.is_some() => self.machine.handle_timeout(now()),
            }
        }
        drop((lines, notices));
        for (_, (_, task)) in std::mem::take(&mut self.serving) {
            task.abort();
        }
        // The last lines are written and the last notifications heard, but nobody is waited for who does neither.
        for mut task in [writing, noticing] {
            if timeout(FLUSH, &mut task).await.is_err() {
                task.abort();
            }
        }
        drop(read);
        if let Some(child) = child {
            child.end().await;
        }
        for done in self.closing {
            let _ = done.send(());
        }
    }

    /// Carries out what the machine says, until there is nothing more or a line finds no room.
    fn drain(
        &mut self,
        lines: &mut Option<mpsc::Sender<Bytes>>,
        unwritten: &mut Option<Bytes>,
        notices: &mpsc::Sender<Notification>,
    ) -> Next {
        while unwritten.is_none() {
            match self.machine.poll_output() {
                None => return Next::GoOn,
                Some(Output::Action(StdioAction::Write(line))) => {
                    let Some(sender) = lines else { continue };
                    if let Err(mpsc::error::TrySendError::Full(line)) = sender.try_send(line) {
                        *unwritten = Some(line);
                    }
                }
                Some(Output::Action(StdioAction::CloseWrite)) => *lines = None,
                Some(Output::Action(_)) => {}
                Some(Output::Event(Event::Closed(reason))) => {
                    tracing::debug!(?reason, "the connection has ended");
                    return Next::End;
                }
                Some(Output::Event(event)) => self.on_event(event, notices),
            }
        }
        Next::GoOn
    }

    fn on_input(&mut self, input: Input) {
        match input {
            Input::Request { call, accept } => {
                let accepted = self.machine.request(call, now()).map(|request| {
                    let (outcome, waiting) = oneshot::channel();
                    let (progress, heard) = mpsc::channel(UNHEARD);
                    self.callers.insert(request, Caller { outcome, progress });
                    InFlight { request, outcome: Some(waiting), progress: heard, cancel: self.cancel.clone() }
                });
                // A caller that is gone drops what it is given, which cancels the request.
                let _ = accept.send(accepted);
            }
            Input::Notify { notification, accept } => {
                let _ = accept.send(self.machine.notify(notification, now()));
            }
            Input::Close(done) => {
                self.closing.extend(done);
                self.machine.close(now());
            }
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "what else is told does not happen on a byte stream")]
    fn on_event(&mut self, event: Event, notices: &mpsc::Sender<Notification>) {
        match event {
            Event::Connected { version, result, .. } => {
                tracing::debug!(%version, "connected");
                if let Some(connected) = self.connected.take() {
                    let _ = connected.send(Ok(Greeting { version, result }));
                }
            }
            Event::Unavailable { reason, .. } => {
                if let Some(connected) = self.connected.take() {
                    let _ = connected.send(Err(reason));
                    self.machine.close(now());
                }
            }
            Event::Responded { request, outcome } => {
                if let Some(caller) = self.callers.remove(&request) {
                    let _ = caller.outcome.send(outcome);
                }
            }
            Event::Progressed { request, params } => {
                if let Some(caller) = self.callers.get(&request) {
                    let _ = caller.progress.try_send(params);
                }
            }
            Event::Requested { ticket, method, params, .. } => {
                let (handler, answers, key) = (Arc::clone(&self.handler), self.answers.clone(), ticket.key());
                let task = tokio::spawn(async move {
                    let answer = handler.requested(method, params).await;
                    let _ = answers.send((key, answer));
                });
                self.serving.insert(key, (ticket, task.abort_handle()));
            }
            Event::RequestCancelled { ticket, .. } => {
                if let Some((_, task)) = self.serving.remove(&ticket) {
                    task.abort();
                }
            }
            Event::Notified { method, params, .. } => {
                let outcome = notices.try_send(Notification { method, params });
                outcome.unwrap_or_else(|_| tracing::warn!("a notification was dropped: the handler is behind"));
            }
            Event::Faulted(fault) => tracing::info!(%fault, "the server did something wrong"),
            _ => {}
        }
    }

    fn spawn_notifier(&self) -> (mpsc::Sender<Notification>, JoinHandle<()>) {
        let (notices, mut heard) = mpsc::channel::<Notification>(UNHEARD);
        let handler = Arc::clone(&self.handler);
        let task = tokio::spawn(async move {
            while let Some(notification) = heard.recv().await {
                handler.notified(notification).await;
            }
        });
        (notices, task)
    }
}

/// Writes lines until the sender is dropped or the other side takes no more.
fn spawn_writer(mut write: impl AsyncWrite + Send + Unpin + 'static) -> (mpsc::Sender<Bytes>, JoinHandle<()>) {
    let (lines, mut waiting) = mpsc::channel::<Bytes>(LINES);
    let task = tokio::spawn(async move {
        while let Some(line) = waiting.recv().await {
            if write.write_all(&line).await.is_err() {
                return;
            }
            if waiting.is_empty() && write.flush().await.is_err() {
                return;
            }
        }
        let _ = write.shutdown().await;
    });
    (lines, task)
}

async fn reserve(lines: Option<&mpsc::Sender<Bytes>>) -> Option<mpsc::Permit<'_, Bytes>> {
    lines?.reserve().await.ok()
}

async fn sleep(due: Option<Instant>) {
    if let Some(due) = due {
        sleep_until(due.into()).await;
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
