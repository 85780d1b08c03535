//! The events of a simulation and their times.

use std::time::Duration;

use mcp_proto::{Era, ProtocolVersion};
use mcp_testkit::random::Random;

/// Which machines are connected, and over which transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// A client and a server on a byte stream.
    Stdio,
    /// Clients and one server over Streamable HTTP.
    Http,
    /// Clients and one server over the two-endpoint transport of 2024-11-05.
    TwoEndpoints,
    /// A client on a byte stream, a relay, and a server on a byte stream.
    StdioRelay,
    /// Clients on byte streams, each with its own relay, and one server over HTTP.
    HttpRelay,
}

impl Topology {
    /// Whether the server is reached over HTTP.
    pub const fn is_http(self) -> bool {
        matches!(self, Self::Http | Self::TwoEndpoints | Self::HttpRelay)
    }

    /// Whether there is a relay between client and server.
    pub const fn has_relay(self) -> bool {
        matches!(self, Self::StdioRelay | Self::HttpRelay)
    }
}

/// One event of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moment {
    /// A client calls the echo tool, with a text that is unique in the plan.
    Call {
        /// The number of the client.
        client: usize,
        /// The text.
        text: String,
        /// The timeout of the call.
        timeout: Duration,
    },
    /// A client cancels one of its pending calls.
    Cancel {
        /// The number of the client.
        client: usize,
        /// The position of the call among them, modulo their number.
        nth: u64,
    },
    /// A client makes a subscription.
    Listen {
        /// The number of the client.
        client: usize,
    },
    /// A client ends a subscription.
    Unlisten {
        /// The number of the client.
        client: usize,
    },
    /// The server publishes a change.
    Publish,
    /// The server is replaced with another one; on a byte stream, its process exits.
    Restart,
    /// The clock jumps, as after a suspension of the machine.
    Leap {
        /// How far the clock jumps.
        time: Duration,
    },
    /// The reader of a stream of a client, its relay or its server pauses.
    Stall {
        /// The number of the client.
        client: usize,
        /// Which of its streams.
        stream: usize,
        /// For how long.
        time: Duration,
    },
    /// Another principal sends the session id and an event id of a client.
    Intrude {
        /// The number of the client.
        client: usize,
    },
}

/// A whole simulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The seed of the network and the applications.
    pub seed: u64,
    /// Which machines are connected.
    pub topology: Topology,
    /// The number of clients; one if the server is on a byte stream.
    pub clients: usize,
    /// The revisions of the clients.
    pub client: &'static [ProtocolVersion],
    /// The revisions of the server.
    pub server: &'static [ProtocolVersion],
    /// The revisions that a relay may use with the server.
    pub allowed: &'static [ProtocolVersion],
    /// How many exchanges in a thousand have a fault.
    pub trouble: u64,
    /// Whether the peers also send invalid messages: wrong ids, duplicate responses, invalid JSON.
    pub malformed: bool,
    /// The size of the buffer of a byte stream.
    pub capacity: usize,
    /// The value of `Limits::unwritten` of all machines: bytes that may wait to be written.
    pub unwritten: usize,
    /// The time after which a session expires without a request or an open stream.
    pub session_idle: Duration,
    /// Whether a server on a byte stream exits when it is probed for the newest revision, and can be restarted (ER-06).
    pub exits_when_probed: bool,
    /// The events, each with the time since the one before.
    pub moments: Vec<(Duration, Moment)>,
}

/// The revisions that a machine may have: a single one, two of one era, or all.
const SUPPORTED: [&[ProtocolVersion]; 6] = [
    &[ProtocolVersion::V2025_03_26],
    &[ProtocolVersion::V2025_06_18],
    &[ProtocolVersion::V2025_11_25],
    &[ProtocolVersion::V2024_11_05, ProtocolVersion::V2025_11_25],
    &[ProtocolVersion::V2026_07_28],
    ProtocolVersion::ALL,
];

/// Revisions of the legacy era that include the one of the two-endpoint transport.
const LEGACY: [&[ProtocolVersion]; 2] = [
    &[ProtocolVersion::V2024_11_05],
    &[
        ProtocolVersion::V2024_11_05,
        ProtocolVersion::V2025_03_26,
        ProtocolVersion::V2025_06_18,
        ProtocolVersion::V2025_11_25,
    ],
];

impl Plan {
    /// The plan of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let topology = *random.pick(&[
            Topology::Stdio,
            Topology::Http,
            Topology::Http,
            Topology::TwoEndpoints,
            Topology::StdioRelay,
            Topology::HttpRelay,
            Topology::HttpRelay,
        ]);
        let supported: &[&'static [ProtocolVersion]] =
            if topology == Topology::TwoEndpoints { &LEGACY } else { &SUPPORTED };
        let mut plan = Self {
            seed,
            topology,
            clients: if topology.is_http() { *random.pick(&[1, 1, 2, 3]) } else { 1 },
            client: *random.pick(supported),
            server: *random.pick(supported),
            allowed: ProtocolVersion::ALL,
            trouble: *random.pick(&[0, 0, 50, 200, 500]),
            malformed: random.one_in(5),
            capacity: *random.pick(&[64 * 1024, 64 * 1024, 700]),
            unwritten: *random.pick(&[16 * 1024 * 1024, 16 * 1024 * 1024, 2000]),
            session_idle: Duration::from_secs(*random.pick(&[10, 30, 1800])),
            exits_when_probed: random.one_in(4),
            moments: Vec::new(),
        };
        // Most pairs should have a common revision, because a run without one ends at once.
        while !plan.is_joinable() && !random.one_in(16) {
            (plan.client, plan.server) = (*random.pick(supported), *random.pick(supported));
        }
        if random.one_in(8) {
            plan.allowed = *random.pick(&SUPPORTED);
        }
        let count = random.below(60);
        for number in 0..count {
            // Sometimes a hundred events happen at one time.
            let repeat = if random.one_in(40) { 100 } else { 1 };
            let longest = Duration::from_millis(*random.pick(&[1, 50, 500, 5000]));
            let pause = random.time(longest);
            for copy in 0..repeat {
                let after = if copy == 0 { pause } else { Duration::ZERO };
                let moment = plan.moment(&mut random, number * 1000 + copy, repeat > 1);
                plan.moments.push((after, moment));
            }
        }
        plan
    }

    /// Whether a connection can certainly be made, computed without the machines. `false` means that it is unknown.
    pub fn is_joinable(&self) -> bool {
        let newest = |versions: &[ProtocolVersion], era| {
            versions.iter().copied().filter(|version| version.rules().era == era).max()
        };
        let has = |versions: &[ProtocolVersion], era| newest(versions, era).is_some();
        let (client, server) = (newest(self.client, Era::Legacy), newest(self.server, Era::Legacy));
        let share_legacy = client.is_some_and(|client| self.server.contains(&client))
            || server.is_some_and(|server| client.is_some() && self.client.contains(&server));
        let share_modern = has(self.client, Era::Modern) && has(self.server, Era::Modern);
        if !self.topology.has_relay() {
            return share_modern || share_legacy;
        }
        if self.allowed != ProtocolVersion::ALL {
            return false;
        }
        let is_offered = server.is_some_and(|_| self.server.contains(&ProtocolVersion::LATEST_LEGACY));
        match (client, has(self.client, Era::Modern)) {
            (Some(_), false) => share_legacy || !has(self.server, Era::Legacy),
            (None, true) => has(self.server, Era::Modern) || is_offered,
            (Some(_) | None, _) => has(self.server, Era::Modern) || (share_legacy && is_offered),
        }
    }

    fn moment(&self, random: &mut Random, number: u64, is_flood: bool) -> Moment {
        let is_rough = self.trouble > 0 && !is_flood;
        let client = usize::try_from(random.below(self.clients as u64)).expect("few");
        match random.below(42) {
            0..=6 => Moment::Cancel { client, nth: random.below(8) },
            7 | 8 => Moment::Listen { client },
            9 => Moment::Unlisten { client },
            10..=12 => Moment::Publish,
            13 | 14 if is_rough && self.topology.is_http() => Moment::Restart,
            13 if is_rough && random.one_in(6) => Moment::Restart,
            15 if is_rough => Moment::Leap { time: random.time(Duration::from_secs(2 * 3600)) },
            16 | 17 if !is_flood => {
                let time = Duration::from_millis(*random.pick(&[20, 200, 2000, 60_000]));
                Moment::Stall { client, stream: usize::try_from(random.below(5)).expect("few"), time }
            }
            18 if !is_flood && self.topology.is_http() => Moment::Intrude { client },
            _ => {
                let timeout = Duration::from_millis(500 + random.below(40_000));
                Moment::Call { client, text: format!("text \"{client}.{number}\" é"), timeout }
            }
        }
    }
}
