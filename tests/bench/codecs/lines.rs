//! Line framing, compared with `BufRead::read_until` over the same bytes, read 8 KiB at a time.

mod side_by_side;

use std::io::{BufRead, BufReader, Read};

use mcp_proto::line::Decoder;
use side_by_side::{Contender, contest, with_warm_memory};

const BUFFER: usize = 8 << 10;

fn mcp_proto(mut input: &[u8]) -> usize {
    let mut decoder = Decoder::new(1 << 30);
    let mut buffer = vec![0; BUFFER];
    let mut found = 0;
    loop {
        let length = input.read(&mut buffer).expect("a slice can be read");
        if length == 0 {
            return found;
        }
        let mut chunk = &buffer[..length];
        while let Some(line) = decoder.decode(&mut chunk) {
            found += line.expect("no limit is met").len();
        }
    }
}

fn read_until(input: &[u8]) -> usize {
    let mut reader = BufReader::with_capacity(BUFFER, input);
    let mut line = Vec::new();
    let mut found = 0;
    while reader.read_until(b'\n', &mut line).expect("a slice can be read") > 0 {
        found += line.len() - 1;
        line.clear();
    }
    found
}

fn newlines(mut input: &[u8]) -> usize {
    let mut buffer = vec![0; BUFFER];
    let mut found = 0;
    loop {
        let length = input.read(&mut buffer).expect("a slice can be read");
        if length == 0 {
            return found;
        }
        found += memchr::memchr_iter(b'\n', &buffer[..length]).count();
    }
}

fn main() {
    with_warm_memory();
    println!("Lines, MB/s; in brackets: how many times as fast as it mcp-proto is\n");
    for (title, line, lines) in
        [("lines of 100 B", 100, 100_000), ("lines of 2 KiB", 2048, 5000), ("lines of 10 MiB", 10 << 20, 2)]
    {
        let input = format!("{}\n", "x".repeat(line - 1)).repeat(lines);
        let input = input.as_bytes();
        assert_eq!(mcp_proto(input), read_until(input));
        contest(
            title,
            Some(input.len()),
            vec![
                Contender::new("mcp-proto", || mcp_proto(input)),
                Contender::new("read_until", || read_until(input)),
                Contender::new("memchr", || newlines(input)),
            ],
        );
    }
}
