//! Prints the rows of the catalogue of bad input with their tests.

fn main() {
    print!("{}", tests::catalogue::table());
}
