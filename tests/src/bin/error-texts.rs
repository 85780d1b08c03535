//! Prints every text of an error with its variant.

fn main() {
    print!("{}", tests::error_texts::table());
}
