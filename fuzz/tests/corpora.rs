//! Runs every input that is kept of a fuzz target again.

use std::fs;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The inputs of `corpus/NAME`: one a line, in base64; see `fuzz/corpora`.
fn inputs(name: &str) -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let packed = fs::read_to_string(path).expect("a corpus");
    let inputs: Vec<_> = packed.lines().map(|line| STANDARD.decode(line).expect("an input")).collect();
    assert!(!inputs.is_empty(), "{name} has no inputs");
    let is_sorted = inputs.is_sorted_by(|one, next| (one.len(), one) < (next.len(), next));
    assert!(is_sorted, "{name} is not as `fuzz/corpora pack` writes it");
    inputs
}

#[expect(clippy::print_stdout, reason = "the last line of a failed test names its input")]
fn replay(name: &str, run: impl Fn(&[u8])) {
    for (number, input) in inputs(name).iter().enumerate() {
        println!("line {} of corpus/{name}: {}", number + 1, STANDARD.encode(input));
        run(input);
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

        const TARGETS: &[&str] = &[$(stringify!($name)),*];
    };
}

replayed!(api client client_stdio era line message mirror relay server server_stdio splice sse);

#[test]
fn defect_p11_every_target_has_one_file_of_inputs_that_is_replayed_and_a_dictionary() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let stems = |folder: &Path| -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        let mut stems: Vec<_> =
            entries.map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned()).collect();
        stems.sort();
        stems
    };
    for name in ["fuzz_targets", "corpus", "dictionaries"] {
        assert_eq!(stems(&folder.join(name)), TARGETS, "{name}");
    }
}
