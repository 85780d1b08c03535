//! Prints `tests/CATALOGUE.md`; with `--defects`, the defects and their tests.

fn main() {
    let prints_defects = std::env::args().any(|argument| argument == "--defects");
    print!("{}", if prints_defects { tests::defects::table() } else { tests::catalogue::table() });
}
