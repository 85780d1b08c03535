//! First inputs for a fuzzer.

use std::collections::BTreeSet;
use std::mem::discriminant;

use crate::bad_lines::BAD_LINES;
use crate::bad_requests;
use crate::conversation::{Asked, Conversation, Opening, Step};
use crate::random::{Choices, Random};
use crate::vocabulary::Vocabulary;

/// The maximum length of an input, in bytes: the default of libFuzzer.
const MAX_LENGTH: usize = 4096;
/// The seeds that are tried.
const SEEDS: u64 = 2000;
/// The number of conversations among [`lines`].
const CONVERSATIONS: usize = 40;

/// Inputs for a target whose input is the bytes of a client: conversations with the names of a vocabulary, the bad lines of
/// [`BAD_LINES`], and the bodies of [`bad_requests`], all of at most 4096 bytes.
pub fn lines(vocabulary: &Vocabulary) -> Vec<Vec<u8>> {
    let conversations = (0..SEEDS).map(|seed| Conversation::draw(&mut Choices::Seed(Random::new(seed))));
    let conversations = conversations.map(|conversation| conversation.to_bytes(vocabulary));
    let bad_lines = BAD_LINES.iter().map(crate::bad_lines::BadLine::all);
    let bodies = bad_requests::rows("session").into_iter().map(|row| row.asked.body.to_vec());
    let mut seen = BTreeSet::new();
    let mut is_new = |input: &Vec<u8>| input.len() <= MAX_LENGTH && seen.insert(input.clone());
    let mut inputs: Vec<_> = conversations.filter(&mut is_new).take(CONVERSATIONS).collect();
    inputs.extend(bad_lines.chain(bodies).filter(&mut is_new));
    inputs
}

/// Inputs for a target that takes a [`Conversation`]: bytes from which [`Conversation::draw`] draws conversations that
/// together have every kind of opening, message and request.
pub fn conversations() -> Vec<Vec<u8>> {
    let mut seen = BTreeSet::new();
    let mut inputs = Vec::new();
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let length = 8 + random.below(120);
        let input: Vec<u8> = (0..length).map(|_| u8::try_from(random.below(256)).unwrap_or_default()).collect();
        let kinds = kinds(&Conversation::draw(&mut Choices::Bytes(&input)));
        let known = seen.len();
        seen.extend(kinds);
        if seen.len() > known {
            inputs.push(input);
        }
    }
    inputs
}

/// The kinds of the parts of a conversation.
fn kinds(conversation: &Conversation) -> Vec<String> {
    let opening = match conversation.opening {
        Opening::Initialize(version) => version.to_string(),
        Opening::Stateless | Opening::Nothing => format!("{:?}", conversation.opening),
    };
    let kind = |step: &Step| match step {
        Step::Request { asked: Asked::Other(method, _) | Asked::List(method, _), .. } => method.to_string(),
        Step::Request { asked, .. } => format!("{:?}", discriminant(asked)),
        step => format!("step {:?}", discriminant(step)),
    };
    conversation.steps.iter().map(kind).chain([opening]).collect()
}
