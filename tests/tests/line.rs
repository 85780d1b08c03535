//! Line framing.

use mcp_proto::CowBytes;
use mcp_proto::line::{Decoder, TooLong, Truncated};
use mcp_testkit::chunks::{cut, each_cut};
use mcp_testkit::oracle;
use proptest::prelude::*;

type Line = Result<Vec<u8>, TooLong>;

fn decode(pieces: &[&[u8]], limit: usize) -> (Vec<Line>, Result<(), Truncated>) {
    let mut decoder = Decoder::new(limit);
    let mut lines = Vec::new();
    for piece in pieces {
        let mut input = *piece;
        while let Some(line) = decoder.decode(&mut input) {
            lines.push(line.map(|line| line.to_vec()));
        }
        assert!(input.is_empty(), "the decoder takes all of its input");
    }
    (lines, decoder.finish())
}

#[test]
fn fr1_fr2_fr3_a_line_over_the_limit_costs_that_line_only() {
    let limit = 8;
    let at = "x".repeat(limit);
    let over = "x".repeat(limit + 1);
    for (stream, expected) in [
        (format!("{at}\n"), vec![Ok(())]),
        (format!("{at}\r\n"), vec![Ok(())]),
        (format!("{over}\n"), vec![Err(())]),
        (format!("{over}\r\n"), vec![Err(())]),
        (format!("a\n{over}{over}{over}\nb\n"), vec![Ok(()), Err(()), Ok(())]),
        (format!("a\n{over}\n{over}\nb\n"), vec![Ok(()), Err(()), Err(()), Ok(())]),
        (over.repeat(1000), vec![Err(())]),
    ] {
        for pieces in each_cut(stream.as_bytes()) {
            let (lines, _) = decode(&pieces, limit);
            let outcome: Vec<_> = lines.iter().map(|line| line.as_ref().map(|_| ()).map_err(|_| ())).collect();
            assert_eq!(outcome, expected, "{stream:?}");
        }
    }
}

#[test]
fn what_was_skipped_is_not_shown() {
    let (lines, _) = decode(&[b"secret secret\n"], 8);
    assert_eq!(format!("{lines:?}"), "[Err(TooLong { limit: 8, .. })]");
}

#[test]
fn fr4_line_ends_and_blank_lines() {
    let stream = b"\n\r\n  \t\n{\"a\":\r1}\r\n\n{}\n";
    for pieces in each_cut(stream) {
        let (lines, end) = decode(&pieces, 100);
        assert_eq!(lines, [Ok(b"{\"a\":\r1}".to_vec()), Ok(b"{}".to_vec())]);
        assert_eq!(end, Ok(()));
    }
}

#[test]
fn fr5_a_byte_order_mark_is_dropped_at_the_start_of_the_stream_and_nowhere_else() {
    for pieces in each_cut(b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n") {
        assert_eq!(decode(&pieces, 100).0, [Ok(b"a".to_vec()), Ok(b"\xef\xbb\xbfb".to_vec())]);
    }
}

#[test]
fn fr9_what_follows_the_last_line_end_is_no_line() {
    for pieces in each_cut(b"a\n{\"id\":1}") {
        assert_eq!(decode(&pieces, 100), (vec![Ok(b"a".to_vec())], Err(Truncated { bytes: 8 })));
    }
}

#[test]
fn a_line_in_one_chunk_is_lent() {
    let stream = b"{\"a\":1}\n";
    let Some(Ok(CowBytes::Borrowed(line))) = Decoder::new(100).decode(&mut &stream[..]) else { panic!("not lent") };
    assert!(stream.as_ptr_range().contains(&line.as_ptr()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn fr8_any_chunking_gives_what_a_naive_reader_gives(
        tokens in prop::collection::vec(prop::sample::select(vec!["\n", "\r", "\r\n", "a", "bc", " ", "\u{feff}", "é", "\0"]), 0..40),
        cuts in prop::collection::vec(1_usize..9, 1..20),
        limit in 1_usize..20,
    ) {
        let stream = tokens.concat();
        let (expected, unfinished) = oracle::lines(stream.as_bytes(), limit);
        let whole = decode(&[stream.as_bytes()], limit);
        prop_assert_eq!(&whole.0, &expected);
        prop_assert_eq!(whole.1.is_err(), unfinished);
        prop_assert_eq!(decode(&cut(stream.as_bytes(), &cuts), limit), whole);
    }
}
