//! Messages between the instances of a server that share a store.
//!
//! A message is a JSON object: `k` is its kind, `s` the session that it concerns, if there is one, and the other members
//! depend on the kind.

use crate::conversation::keys::{InstanceId, RequestKey, SessionKey};
use crate::json::Json;
use crate::json::scan::DEEPEST;
use crate::jsonrpc::{Frame, Message, Notification, ParseError};
use crate::server::change_notification::{ChangeNotification, Recipients};
use crate::server::http::{Http, HttpAction, Output};
use crate::server::snapshot::{hex, read_hex};
use crate::server::transport::{Inbound, ReplyTo};
use crate::spec::Method;
use crate::store::{Record, StoreAction};

/// What one instance reports to another about a session.
pub(crate) enum Notice {
    /// The session has ended.
    Ended,
    /// The GET stream is at this instance since this version of the record.
    Moved { instance: InstanceId, version: u64 },
    /// The client has changed its settings at the sender, which has written this record.
    Changed { version: u64, state: Json },
    /// A client reads this stream at the sender.
    Watched { tag: u64 },
    /// The sender has added events to this stream.
    Added { tag: u64 },
    /// The sender adds no more events to this stream.
    Over { tag: u64 },
    /// The client has sent this notification or response to the sender.
    Posted(Message),
}

/// A notice as it arrives.
enum Arrived {
    Ended,
    Moved { instance: InstanceId, version: u64 },
    Changed(Record),
    Watched { tag: u64, by: InstanceId },
    Added { tag: u64 },
    Over { tag: u64 },
    Posted(Message),
}

impl Http {
    pub(crate) fn send_to(&mut self, to: InstanceId, session: SessionKey, notice: Notice, output: &mut Output<'_>) {
        self.send_notice(Some(to), session, notice, output);
    }

    /// Sends a notice to all other instances.
    pub(crate) fn send_to_all(&mut self, session: SessionKey, notice: Notice, output: &mut Output<'_>) {
        self.send_notice(None, session, notice, output);
    }

    fn send_notice(&mut self, to: Option<InstanceId>, session: SessionKey, notice: Notice, output: &mut Output<'_>) {
        if let Some(id) = self.sessions.get(session).map(|found| found.id.clone()) {
            self.send_notice_for(to, &id, notice, output);
        }
    }

    pub(crate) fn send_notice_for(&self, to: Option<InstanceId>, id: &str, notice: Notice, output: &mut Output<'_>) {
        let Some(config) = self.config.stored() else { return };
        let message = Json::empty_object();
        let message = match notice {
            Notice::Ended => message.with_member("k", &"ended".into()),
            Notice::Moved { instance, version } => message
                .with_member("n", &hex(version))
                .with_member("i", &hex(instance.number()))
                .with_member("k", &"moved".into()),
            Notice::Changed { version, state } => {
                message.with_member("r", &state).with_member("n", &hex(version)).with_member("k", &"changed".into())
            }
            Notice::Watched { tag } => message
                .with_member("i", &hex(config.instance.number()))
                .with_member("t", &hex(tag))
                .with_member("k", &"watched".into()),
            Notice::Added { tag } => message.with_member("t", &hex(tag)).with_member("k", &"added".into()),
            Notice::Over { tag } => message.with_member("t", &hex(tag)).with_member("k", &"over".into()),
            Notice::Posted(posted) => {
                message.with_member("m", &Json::from_valid_text(posted.to_bytes())).with_member("k", &"posted".into())
            }
        };
        let message = message.with_member("s", &Json::from(id)).to_bytes();
        output.out.act(HttpAction::Store(StoreAction::Send { to, message }));
    }

    /// Makes the other instances with the store publish a change that the application has published here.
    pub(crate) fn publish_elsewhere(change: &ChangeNotification, output: &mut Output<'_>) {
        let notification = Json::from_valid_text(Message::Notification(change.notification().clone()).to_bytes());
        let message = Json::empty_object().with_member("m", &notification).with_member("k", &"published".into());
        let message = match change.recipients() {
            Recipients::All => message,
            Recipients::Of(None) => message.with_member("o", &true.into()),
            Recipients::Of(Some(principal)) => {
                message.with_member("p", &principal.as_str().into()).with_member("o", &true.into())
            }
        };
        output.out.act(HttpAction::Store(StoreAction::Send { to: None, message: message.to_bytes() }));
    }

    /// Passes messages of a session in the store on to the instances that they concern. Returns those that remain for this
    /// instance; `None` if there are none.
    pub(crate) fn route_elsewhere(
        &mut self,
        session: SessionKey,
        frame: Result<Frame, ParseError>,
        output: &mut Output<'_>,
    ) -> Option<Result<Frame, ParseError>> {
        match frame {
            Ok(Frame::Single(message)) => Some(Ok(Frame::Single(self.route_message(session, message, output)?))),
            Ok(Frame::Batch(items)) => {
                let mut here = Vec::with_capacity(items.len());
                for item in items {
                    match item {
                        Ok(message) => here.extend(self.route_message(session, message, output).map(Ok)),
                        Err(error) => here.push(Err(error)),
                    }
                }
                Some(Ok(Frame::Batch(here)))
            }
            Err(error) => Some(Err(error)),
        }
    }

    fn route_message(&mut self, session: SessionKey, message: Message, output: &mut Output<'_>) -> Option<Message> {
        let here = self.stored_at(session);
        let concerned = match &message {
            Message::Response(response) => response.id().and_then(RequestKey::instance_of),
            Message::Notification(notification) if notification.method == Method::PROGRESS => {
                let token = notification.params.as_ref().and_then(|params| params.first_member("progressToken"));
                let token = token.and_then(|token| crate::RequestId::from_json_text(token.as_bytes()));
                token.as_ref().and_then(RequestKey::instance_of)
            }
            // Any instance may be serving the cancelled request.
            Message::Notification(notification) if notification.method == Method::CANCELLED => {
                self.send_to_all(session, Notice::Posted(message.clone()), output);
                None
            }
            Message::Notification(_) | Message::Request(_) => None,
        };
        match concerned.filter(|concerned| Some(*concerned) != here) {
            Some(instance) => {
                self.send_to(instance, session, Notice::Posted(message), output);
                None
            }
            None => Some(message),
        }
    }

    /// Another instance has sent a message.
    pub(crate) fn on_message(&mut self, message: &[u8], output: &mut Output<'_>) {
        // The limits apply only to the contained message, which `read` checks.
        let Ok(message) = Json::parse_within(message.to_vec(), DEEPEST) else { return };
        let [kind, session, posted] = message.first_members(["k", "s", "m"]);
        let Some(kind) = kind.as_ref().and_then(Json::as_string) else { return };
        let read = |posted: Option<Json>| match Frame::parse(&posted?.to_bytes(), &self.exchanges.limits) {
            Ok(Frame::Single(message)) => Some(message),
            Ok(Frame::Batch(_)) | Err(_) => None,
        };
        if &*kind == "published" {
            if let Some(Message::Notification(notification)) = read(posted) {
                output.inbound.extend(change(&message, notification).map(Inbound::Published));
            }
            return;
        }
        let [tag, instance, number, state] = message.first_members(["t", "i", "n", "r"]);
        let [tag, instance, number] = [tag, instance, number].map(|number| number.as_ref().and_then(read_hex));
        let instance = instance.map(InstanceId::new);
        match (&*kind, instance, number) {
            ("asked", Some(from), Some(number)) => {
                if let Some(Message::Request(request)) = read(posted) {
                    let principal = message.first_member("p");
                    self.on_task_request(from, number, request, principal.as_ref(), output);
                }
                return;
            }
            ("answered", _, Some(number)) => {
                let status = message.first_member("c");
                return self.on_task_answer(number, status.as_ref(), posted, output);
            }
            _ => {}
        }
        let arrived = match (&*kind, tag, instance) {
            ("ended", ..) => Some(Arrived::Ended),
            ("moved", _, Some(instance)) => number.map(|version| Arrived::Moved { instance, version }),
            ("changed", ..) => {
                number.zip(state).map(|(version, state)| Arrived::Changed(Record { version, bytes: state.to_bytes() }))
            }
            ("watched", Some(tag), Some(by)) => Some(Arrived::Watched { tag, by }),
            ("added", Some(tag), _) => Some(Arrived::Added { tag }),
            ("over", Some(tag), _) => Some(Arrived::Over { tag }),
            ("posted", ..) => read(posted).map(Arrived::Posted),
            // A later version may have other kinds.
            _ => None,
        };
        let id = session.as_ref().and_then(Json::as_string);
        let (Some(id), Some(arrived)) = (id, arrived) else { return };
        let session = self.sessions.of_id(&id).map(|(session, _)| session);
        let Some(session) = session.filter(|session| self.stored_at(*session).is_some()) else {
            if let Arrived::Watched { tag, by } = arrived {
                self.send_notice_for(Some(by), &id, Notice::Over { tag }, output);
            }
            return;
        };
        match arrived {
            Arrived::Ended => self.end_gone(session, output),
            Arrived::Moved { instance, version } => self.on_moved(session, instance, version, output),
            Arrived::Changed(record) => self.on_changed(session, &record, output),
            Arrived::Watched { tag, by } => self.on_watched(session, tag, by, output),
            Arrived::Added { tag } => self.on_added(session, tag, output),
            Arrived::Over { tag } => self.on_stream_over(session, tag, output),
            Arrived::Posted(Message::Request(_)) => {}
            Arrived::Posted(message) => {
                output.inbound.push_back(Inbound::Message { session, message, reply_to: ReplyTo::Stream });
            }
        }
    }
}

/// The change in a message; `None` if its recipients cannot be read.
fn change(message: &Json, notification: Notification) -> Option<ChangeNotification> {
    let [for_one, principal] = message.first_members(["o", "p"]);
    let principal = match principal {
        Some(name) => Some((&*name.as_string()?).into()),
        None => None,
    };
    match for_one {
        Some(_) => Some(ChangeNotification::for_principal(notification, principal.as_ref())),
        None => principal.is_none().then(|| notification.into()),
    }
}
