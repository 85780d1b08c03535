//! Prints `tests/CATALOGUE.md`.

fn main() {
    print!("{}", tests::catalogue::table());
}
