//! Runs each target with every input of its corpus: its checks hold, and the transcripts of the machines are unchanged.

use std::path::Path;

use fuzz::{TARGETS, inputs};
use mcp_testkit::transcript;

#[expect(clippy::print_stdout, reason = "the last line of a failed test names its input")]
fn replay(name: &str, run: fn(&[u8])) {
    let inputs = inputs::kept(name);
    assert!(!inputs.is_empty(), "{name} has no inputs");
    let is_sorted = inputs.is_sorted_by(|one, next| (one.len(), one) < (next.len(), next));
    assert!(is_sorted, "{name} is not as `fuzz/corpus_files pack` writes it");
    let digests: Vec<_> = inputs
        .iter()
        .zip(1..)
        .map(|(input, line)| {
            println!("line {line} of corpus/{name}: {}", inputs::packed(input));
            transcript::digest(|| run(input))
        })
        .collect();
    // The targets of codecs have no machine and therefore an empty transcript.
    if digests.iter().any(|digest| *digest != digests[0]) {
        let command = |line| format!("cargo run -p fuzz --bin transcript -- {name} {line}");
        transcript::compare(&inputs::folder("transcripts").join(name), &digests, command);
    }
}

macro_rules! replayed {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                replay(stringify!($name), fuzz::$name);
            }
        )*

        const REPLAYED: &[&str] = &[$(stringify!($name)),*];
    };
}

replayed!(aggregate api challenge client client_stdio era extensions frontmatter gateway instances line message metadata param_headers redirect relay rules schema server server_stdio splice sse stored token_response uri_template);

#[test]
fn every_target_has_one_file_of_inputs_that_is_replayed_and_a_dictionary() {
    let stems = |folder: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        let mut stems: Vec<_> =
            entries.map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned()).collect();
        stems.sort();
        stems
    };
    for name in ["fuzz_targets", "corpus", "dictionaries"] {
        assert_eq!(stems(&inputs::folder(name)), REPLAYED, "{name}");
    }
    assert_eq!(TARGETS.iter().map(|(name, _)| *name).collect::<Vec<_>>(), REPLAYED);
}
