//! What happens in a simulation, and when.

use std::time::Duration;

use mcp_proto::ProtocolVersion;

use crate::random::Random;

/// Who talks to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// A client and a server on a byte stream.
    Stdio,
    /// A client and a server over HTTP.
    Http,
    /// A client on a byte stream, a relay, and a server on a byte stream.
    StdioRelay,
    /// A client on a byte stream, a relay, and a server over HTTP.
    HttpRelay,
}

/// One thing that happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moment {
    /// The client calls the tool that echoes, with a text of its own.
    Call {
        /// The text; no other call has the same.
        text: String,
        /// How long it waits.
        timeout: Duration,
    },
    /// The client takes back one of the calls that it waits for.
    Cancel {
        /// Which of them.
        nth: u64,
    },
    /// The client subscribes.
    Listen,
    /// The client ends a subscription.
    Unlisten,
    /// The server tells of a change.
    Publish,
    /// The server ends, and another one takes its place.
    Restart,
    /// The clock leaps: the machine was asleep.
    Leap {
        /// How far.
        time: Duration,
    },
    /// The byte stream to the server is cut.
    Cut,
}

/// A whole simulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Where the network and the applications begin.
    pub seed: u64,
    /// Who talks to whom.
    pub topology: Topology,
    /// What the client speaks.
    pub client: &'static [ProtocolVersion],
    /// What the server speaks.
    pub server: &'static [ProtocolVersion],
    /// What a relay may speak to the server.
    pub allowed: &'static [ProtocolVersion],
    /// How many exchanges in a thousand go wrong.
    pub trouble: u64,
    /// What happens, each so long after what was before.
    pub moments: Vec<(Duration, Moment)>,
}

/// What a side may speak: one revision, those of one era, or all.
const SPOKEN: [&[ProtocolVersion]; 6] = [
    &[ProtocolVersion::V2025_03_26],
    &[ProtocolVersion::V2025_06_18],
    &[ProtocolVersion::V2025_11_25],
    &[ProtocolVersion::V2024_11_05, ProtocolVersion::V2025_11_25],
    &[ProtocolVersion::V2026_07_28],
    &ProtocolVersion::ALL,
];

impl Plan {
    /// The plan of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let topology = *random.pick(&[
            Topology::Stdio,
            Topology::Http,
            Topology::StdioRelay,
            Topology::HttpRelay,
            Topology::HttpRelay,
        ]);
        let (client, server) = (*random.pick(&SPOKEN), *random.pick(&SPOKEN));
        let allowed = if random.one_in(8) { *random.pick(&SPOKEN) } else { &ProtocolVersion::ALL };
        let trouble = *random.pick(&[0, 0, 50, 200, 500]);
        let count = random.below(60);
        let mut moments = Vec::new();
        for number in 0..count {
            // A flood now and then.
            let repeat = if random.one_in(40) { 100 } else { 1 };
            let longest = Duration::from_millis(*random.pick(&[1, 50, 500, 5000]));
            let pause = random.time(longest);
            for copy in 0..repeat {
                let after = if copy == 0 { pause } else { Duration::ZERO };
                moments.push((after, moment(&mut random, topology, trouble, number * 1000 + copy)));
            }
        }
        Self { seed, topology, client, server, allowed, trouble, moments }
    }
}

fn moment(random: &mut Random, topology: Topology, trouble: u64, number: u64) -> Moment {
    let is_rough = trouble > 0;
    match random.below(40) {
        0..=6 => Moment::Cancel { nth: random.below(8) },
        7 | 8 => Moment::Listen,
        9 => Moment::Unlisten,
        10..=12 => Moment::Publish,
        13 if is_rough => Moment::Restart,
        14 if is_rough && matches!(topology, Topology::Http | Topology::HttpRelay) => Moment::Restart,
        15 if is_rough => Moment::Leap { time: random.time(Duration::from_secs(2 * 3600)) },
        16 if is_rough && random.one_in(10) => Moment::Cut,
        _ => {
            let timeout = Duration::from_millis(500 + random.below(40_000));
            Moment::Call { text: format!("text \"{number}\" é"), timeout }
        }
    }
}
