//! Feeds every input that was ever worth keeping to its function again.

use std::fs;
use std::path::Path;

#[expect(clippy::print_stdout, reason = "the last line of a failed test names its input")]
fn replay(name: &str, run: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut count = 0;
    for entry in fs::read_dir(&folder).expect("a corpus") {
        let path = entry.expect("an entry").path();
        println!("{}", path.display());
        run(&fs::read(path).expect("an input"));
        count += 1;
    }
    assert!(count > 0, "{} is empty", folder.display());
}

macro_rules! replayed {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                replay(stringify!($name), fuzz::$name);
            }
        )*
    };
}

replayed!(api client client_stdio era line message mirror relay server server_stdio splice sse);
