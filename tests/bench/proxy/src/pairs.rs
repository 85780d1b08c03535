//! The cost of translation between the eras: the proxy between clients and servers of each, one call at a time.

use std::path::Path;
use std::{io, thread};

use crate::contender::{Call, Contender, Running};
use crate::server::{self, Era};
use crate::{Effort, PAUSE, Rounds, SMALL, median, table};

/// How many times as much a call between the eras may cost as one between two sides of the same era.
const BRIDGED: f64 = 1.2;
/// The client's era and the server's: first the pairs of one era, then those of two, in the same order of clients.
const PAIRS: [(Era, Era); 4] =
    [(Era::Legacy, Era::Legacy), (Era::Modern, Era::Modern), (Era::Legacy, Era::Modern), (Era::Modern, Era::Legacy)];

pub fn compare(proxy: &Path, legacy: &str, effort: &Effort) -> io::Result<()> {
    let modern = server::start(Era::Modern)?;
    let mut running = Vec::new();
    for (client, server) in PAIRS {
        let url = if server == Era::Modern { &modern } else { legacy };
        running.push(Contender::proxy(proxy, url).with_client(client).start(false)?.0);
    }
    println!();
    println!(
        "{:<34} {:>14} {:>14} {:>14} {:>14}  bridged at most {BRIDGED} x straight",
        "client -> server", "legacy-legacy", "modern-modern", "legacy-modern", "modern-legacy"
    );
    for sse in [false, true] {
        let rounds = measure(&mut running, Call { bytes: SMALL, sse }, effort)?;
        let kind = if sse { "SSE" } else { "JSON" };
        print(&format!("200 B as {kind}: p50"), &rounds.each_ref().map(|rounds| median(rounds.times.clone())));
        print(&format!("200 B as {kind}: CPU per call"), &rounds.each_ref().map(|rounds| median(rounds.cpu.clone())));
    }
    Ok(())
}

fn measure(running: &mut [Running], call: Call, effort: &Effort) -> io::Result<[Rounds; 4]> {
    let mut rounds: [Rounds; 4] = Default::default();
    let calls = effort.calls_per_round;
    for round in 0..effort.rounds {
        for turn in 0..running.len() {
            let turn = (turn + round) % running.len();
            thread::sleep(PAUSE);
            running[turn].calls(call, calls / 10, 1)?;
            rounds[turn].add(&mut running[turn], calls, |running| (0..calls).map(|_| running.call(call)).collect())?;
        }
    }
    Ok(rounds)
}

fn print(name: &str, figures: &[f64; 4]) {
    let [legacy, modern, up, down] = figures;
    let ratios = [up / legacy, down / modern];
    let shown = figures.map(|figure| table::shown(figure, table::Unit::Seconds));
    println!(
        "{name:<34} {:>14} {:>14} {:>14} {:>14}  {:.2} {:.2} {}",
        shown[0],
        shown[1],
        shown[2],
        shown[3],
        ratios[0],
        ratios[1],
        table::met_or_missed(ratios.iter().all(|ratio| *ratio <= BRIDGED))
    );
}
