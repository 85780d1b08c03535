//! Prints `tests/ERRORS.md`.

fn main() {
    print!("{}", tests::error_texts::table());
}
