//! The files of certificates and keys that the options name.

use std::process::Command;

use crate::authority::{Authority, server, url};

#[test]
fn the_binary_takes_the_files() {
    let authority = Authority::new();
    let server = server(&authority, true);
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tls");
    std::fs::create_dir_all(&folder).unwrap();
    let identity = authority.issue("client");
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (ca, certificate, key) =
        (file("ca.pem", &authority.pem()), file("client.pem", &identity.certificate), file("key.pem", &identity.key));
    let run = |args: &[&std::ffi::OsStr]| {
        let output = tests::deadline::output_of(
            Command::new(env!("CARGO_BIN_EXE_mcp-proxy")).arg("--check").arg(url(&server)).args(args),
        );
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let (code, text) = run(&[
        "--ca-file".as_ref(),
        ca.as_ref(),
        "--client-cert".as_ref(),
        certificate.as_ref(),
        "--client-key".as_ref(),
        key.as_ref(),
    ]);
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = run(&[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("an authority that is not trusted here; name a private one in SSL_CERT_FILE"), "{text}");
    // The environment names an authority, too.
    let check = |file: &std::ffi::OsStr| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-proxy"));
        command.arg("--check").arg(url(&server)).env("SSL_CERT_FILE", file);
        command.args(["--client-cert".as_ref(), certificate.as_os_str(), "--client-key".as_ref(), key.as_os_str()]);
        let output = tests::deadline::output_of(&mut command);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(check(ca.as_os_str()).0, Some(0), "{:?}", check(ca.as_os_str()));
    let (code, text) = check("/no/such/file".as_ref());
    assert!(code == Some(1) && text.contains("/no/such/file"), "{text}");
    let (code, text) = run(&["--ca-file".as_ref(), key.as_ref()]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("there is no PEM certificate in it"), "{text}");
}
