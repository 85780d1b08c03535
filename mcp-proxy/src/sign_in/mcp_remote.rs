//! The tokens that `mcp-remote` has stored, which are read and left as they are.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use mcp_auth::{Imported, ResourceParameter};
use md5::{Digest, Md5};

/// Reads the tokens for the server with this URL.
///
/// # Errors
///
/// There are none, or their files cannot be read or have another form.
pub(super) fn tokens(url: &str, resource: &ResourceParameter) -> io::Result<Imported> {
    let directory = directory().ok_or_else(|| io::Error::other("there is no home directory"))?;
    read(&directory, url, resource)
}

fn directory() -> Option<PathBuf> {
    let own = env::var_os("MCP_REMOTE_CONFIG_DIR").filter(|path| !path.is_empty()).map(PathBuf::from);
    Some(own.or_else(|| Some(etcetera::home_dir().ok()?.join(".mcp-auth")))?.join("mcp-remote-v1"))
}

fn read(directory: &Path, url: &str, resource: &ResourceParameter) -> io::Result<Imported> {
    // The name of the files is a hash of the URL as it was written, and of the resource if that was an option.
    let name = match resource {
        ResourceParameter::Fixed(resource) => format!("{url}|{resource}"),
        ResourceParameter::Published | ResourceParameter::Omitted | _ => url.to_owned(),
    };
    let name = Md5::digest(name).iter().fold(String::new(), |mut name, byte| {
        // Writing to a `String` cannot fail.
        let _ = write!(name, "{byte:02x}");
        name
    });
    let file = |suffix: &str| {
        let path = directory.join(format!("{name}_{suffix}.json"));
        fs::read(&path).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    };
    let (tokens, client) = (file("tokens")?, file("client_info")?);
    Imported::from_mcp_remote(&tokens, &client)
        .ok_or_else(|| io::Error::other(format!("the files of {name} in {} have another form", directory.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_by_the_url_and_the_resource_and_their_files_are_unchanged() {
        let directory = env::current_exe().unwrap().with_extension("mcp-remote");
        fs::create_dir_all(&directory).unwrap();
        let url = "https://mcp.example/mcp";
        for (name, token) in
            [("7b5c4ab2cb0a4bd9a4a3b3b6a6a0b3b0", "other"), (URL_HASH, "own"), (RESOURCE_HASH, "of-resource")]
        {
            let tokens = format!(r#"{{"access_token":"{token}","token_type":"bearer","expires_in":3600}}"#);
            fs::write(directory.join(format!("{name}_tokens.json")), tokens).unwrap();
            fs::write(directory.join(format!("{name}_client_info.json")), r#"{"client_id":"id","redirect_uris":[]}"#)
                .unwrap();
        }
        let before = fs::read_dir(&directory).unwrap().count();
        assert!(read(&directory, url, &ResourceParameter::Published).is_ok());
        assert!(read(&directory, url, &ResourceParameter::Fixed("api://x".to_owned())).is_ok());
        let error = read(&directory, "https://mcp.example/other", &ResourceParameter::Published).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        fs::write(directory.join(format!("{URL_HASH}_tokens.json")), "{}").unwrap();
        assert!(read(&directory, url, &ResourceParameter::Published).is_err());
        assert_eq!(fs::read_dir(&directory).unwrap().count(), before);
        for suffix in ["client_info", "tokens"] {
            let file = format!("{URL_HASH}_{suffix}.json");
            fs::remove_file(directory.join(&file)).unwrap();
            let error = read(&directory, url, &ResourceParameter::Published).unwrap_err();
            assert!(error.kind() == io::ErrorKind::NotFound && error.to_string().contains(&file), "{error}");
        }
        fs::remove_dir_all(directory).unwrap();
    }

    /// The hash of `https://mcp.example/mcp`.
    const URL_HASH: &str = "15b9982bbc0f6c97e59b3c224d8cad5a";
    /// The hash of `https://mcp.example/mcp|api://x`.
    const RESOURCE_HASH: &str = "86d96225e4c431fc31b87efef4c0e2f9";
}
