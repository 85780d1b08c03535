//! A server that does what its arguments say: `tests::scripted` has the table.

fn main() -> std::io::Result<std::process::ExitCode> {
    tests::scripted::run()
}
