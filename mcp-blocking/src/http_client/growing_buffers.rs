//! Buffers of a connection that are as large as what it carries needs.

use ureq::unversioned::transport::Buffers;

/// The room for input of a new connection: enough for most answers.
const FIRST: usize = 16 * 1024;

/// The room for a part of a request's body, whatever the input has.
const LEAST_FOR_BODY: usize = 8 * 1024;

/// Buffers whose input grows to its limit only while a peer fills it, and whose output is held until it is taken.
///
/// The buffers of `ureq` have their full size from the first byte on, which is mostly room for a long head, in each of many
/// connections.
#[derive(Debug)]
pub(super) struct GrowingBuffers {
    /// The most that the input may have.
    most_input: usize,
    input: Vec<u8>,
    /// Where the input begins that was not consumed, and where it ends.
    unconsumed: (usize, usize),
    /// The last call has consumed something.
    has_consumed: bool,
    /// The room that was offered last was filled.
    was_filled: bool,
    /// The size of the output.
    most_output: usize,
    output: Vec<u8>,
    /// How much of the output is held.
    held: usize,
}

impl GrowingBuffers {
    /// Buffers of at most these sizes, in bytes; the input may have [`LEAST_FOR_BODY`] more while a body is sent.
    pub(super) const fn new(most_input: usize, most_output: usize) -> Self {
        Self {
            most_input,
            input: Vec::new(),
            unconsumed: (0, 0),
            has_consumed: false,
            was_filled: false,
            most_output,
            output: Vec::new(),
            held: 0,
        }
    }

    /// Holds these first bytes of the free output, too.
    pub(super) const fn hold(&mut self, amount: usize) {
        self.held += amount;
    }

    /// The output that is held, which is held no longer.
    pub(super) fn take_held(&mut self) -> &[u8] {
        self.output.get(..std::mem::take(&mut self.held)).unwrap_or_default()
    }

    /// Makes room for input, and returns where it begins.
    fn make_room(&mut self) -> usize {
        let (start, end) = self.unconsumed;
        if start > 0 {
            self.input.copy_within(start..end, 0);
            self.unconsumed = (0, end - start);
        }
        let least = FIRST.min(self.most_input);
        let wanted = if self.was_filled { 2 * self.input.len() } else { self.input.len() };
        let wanted = wanted.max(least).min(self.most_input);
        self.was_filled = false;
        if self.input.len() < wanted {
            self.input.resize(wanted, 0);
        }
        end - start
    }

    fn allocate_output(&mut self) {
        self.output.resize(self.most_output, 0);
    }
}

impl Buffers for GrowingBuffers {
    fn output(&mut self) -> &mut [u8] {
        self.allocate_output();
        self.output.get_mut(self.held..).unwrap_or_default()
    }

    fn input(&self) -> &[u8] {
        let (start, end) = self.unconsumed;
        self.input.get(start..end).unwrap_or_default()
    }

    fn input_append_buf(&mut self) -> &mut [u8] {
        let end = self.make_room();
        self.input.get_mut(end..).unwrap_or_default()
    }

    fn input_appended(&mut self, amount: usize) {
        let (_, end) = &mut self.unconsumed;
        *end += amount;
        self.was_filled = *end == self.input.len();
    }

    fn input_consume(&mut self, amount: usize) {
        self.has_consumed = amount > 0;
        let (start, end) = &mut self.unconsumed;
        *start = (*start + amount).min(*end);
    }

    fn tmp_and_output(&mut self) -> (&mut [u8], &mut [u8]) {
        let end = self.make_room();
        // Without room, the body of the request would seem to end.
        if self.input.len() < end + LEAST_FOR_BODY {
            self.input.resize(end + LEAST_FOR_BODY, 0);
        }
        self.allocate_output();
        (self.input.get_mut(end..).unwrap_or_default(), self.output.get_mut(self.held..).unwrap_or_default())
    }

    fn can_use_input(&self) -> bool {
        self.has_consumed && !self.input().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a peer sends, of which as much is taken as there is room for.
    fn receive(buffers: &mut GrowingBuffers, bytes: &[u8]) -> usize {
        let room = buffers.input_append_buf();
        let taken = room.len().min(bytes.len());
        room[..taken].copy_from_slice(&bytes[..taken]);
        buffers.input_appended(taken);
        taken
    }

    #[test]
    fn input_has_the_room_that_a_peer_fills_up_to_the_limit() {
        let mut buffers = GrowingBuffers::new(5 * FIRST, 8);
        // Their period does not divide what is consumed.
        let sent: Vec<u8> = (0..251).cycle().take(6 * FIRST).collect();
        let mut taken = 0;
        for room in [FIRST, FIRST, 2 * FIRST, FIRST, 0] {
            assert_eq!(receive(&mut buffers, &sent[taken..]), room);
            taken += room;
            assert!(buffers.input() == &sent[..taken], "after {taken} bytes");
        }
        buffers.input_consume(FIRST);
        assert!(buffers.can_use_input() && buffers.input() == &sent[FIRST..taken]);
        assert_eq!(receive(&mut buffers, &sent[taken..]), FIRST);
        assert!(buffers.input() == &sent[FIRST..]);
        buffers.input_consume(5 * FIRST);
        assert!(!buffers.can_use_input());
    }

    #[test]
    fn input_that_does_not_fill_its_room_needs_no_more() {
        let mut buffers = GrowingBuffers::new(5 * FIRST, 8);
        for _ in 0..100 {
            assert_eq!(receive(&mut buffers, &[1; FIRST - 1]), FIRST - 1);
            buffers.input_consume(FIRST - 1);
            assert_eq!(buffers.tmp_and_output().0.len(), FIRST);
        }
        assert_eq!(buffers.input.len(), FIRST);
    }

    #[test]
    fn a_body_has_room_beside_input_that_nobody_has_read() {
        let mut buffers = GrowingBuffers::new(16, 8);
        assert_eq!(receive(&mut buffers, &[1; 32]), 16);
        let (room, _) = buffers.tmp_and_output();
        room.fill(2);
        assert!(room.len() >= LEAST_FOR_BODY && buffers.input() == [1; 16]);
    }

    #[test]
    fn output_that_is_held_is_taken_once_and_before_what_follows() {
        let mut buffers = GrowingBuffers::new(8, 8);
        assert_eq!((buffers.input_append_buf().len(), buffers.output().len()), (8, 8));
        buffers.output()[..3].copy_from_slice(b"one");
        buffers.hold(3);
        let (room, output) = buffers.tmp_and_output();
        assert_eq!(output.len(), 5);
        assert!(!room.is_empty());
        output.copy_from_slice(b"-more");
        buffers.hold(5);
        assert!(buffers.output().is_empty());
        assert_eq!(buffers.take_held(), b"one-more");
        assert!(buffers.take_held().is_empty() && buffers.output().len() == 8);
    }
}
