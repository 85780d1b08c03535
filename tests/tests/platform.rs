//! What depends on the operating system is in one place of each published crate: the module `platform`. Elsewhere, neither an
//! attribute nor `cfg!` names a system, except in tests.

use std::path::Path;

use tests::workspace::{published, root, sources};

/// The names of systems in conditions.
const SYSTEMS: [&str; 5] = ["unix", "windows", "target_os", "target_family", "target_vendor"];

/// The conditions in the code of a file, with their lines. An item that is compiled only for tests has none.
fn conditions(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let code = line.trim_start();
        if code.starts_with("//") {
            continue;
        }
        if code.starts_with("#[cfg(test)]") || code.starts_with("#[cfg(all(test,") {
            let indent = line.len() - code.len();
            // The item ends at the same indent, as `cargo fmt` writes it.
            let is_end = |line: &str| {
                let rest = line.trim_start();
                let is_attribute = rest.starts_with('#') || rest.starts_with("//");
                line.len() - rest.len() == indent && !is_attribute && rest.ends_with(['}', ';', ','])
            };
            lines.by_ref().find(|(_, line)| is_end(line));
            continue;
        }
        for start in ["cfg(", "cfg!(", "cfg_attr("] {
            for (at, _) in line.match_indices(start) {
                // A condition may have several lines.
                let rest = text.lines().skip(number + 1).take(5).collect::<String>();
                let condition = format!("{}{rest}", &line[at + start.len()..]);
                let mut depth = 1;
                let end = condition.find(|c| {
                    depth += i32::from(c == '(') - i32::from(c == ')');
                    depth == 0
                });
                found.push((number + 1, condition[..end.unwrap_or(condition.len())].to_owned()));
            }
        }
    }
    found
}

fn names_a_system(condition: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    condition.split(|c| !word(c)).any(|name| SYSTEMS.contains(&name))
}

/// Whether a file is that of the module or of tests. `file` is its path in `src`.
fn is_exempt(file: &str) -> bool {
    let path = Path::new(file).with_extension("");
    let mut parts = path.iter().map(|part| part.to_string_lossy());
    parts.any(|part| part == "platform" || part == "tests" || part.ends_with("_tests"))
}

#[test]
fn only_the_module_platform_of_a_crate_depends_on_the_system() {
    let mut strays = Vec::new();
    let mut files = 0;
    for package in published() {
        let manifest = package["manifest_path"].as_str().expect("a path");
        let folder = Path::new(manifest).parent().expect("a folder").join("src");
        let name =
            folder.strip_prefix(root().canonicalize().expect("a folder")).unwrap_or(&folder).display().to_string();
        for (file, text) in sources(&folder) {
            files += 1;
            if is_exempt(&file) {
                continue;
            }
            let found = conditions(&text).into_iter().filter(|(_, condition)| names_a_system(condition));
            strays.extend(found.map(|(line, condition)| format!("{name}/{file}:{line}: {condition}")));
        }
    }
    assert!(files > 300, "{files}");
    assert!(strays.is_empty(), "{} conditions:\n{}", strays.len(), strays.join("\n"));
}

#[test]
fn conditions_are_found_in_code_and_not_in_tests() {
    let text = "\
// cfg(unix)
#[cfg(unix)]
use a;
#[cfg(test)]
mod tests {
    #[cfg(unix)]
    fn a() {}
}
#[cfg(all(test, unix))]
#[path = \"x.rs\"]
mod more;
fn b() {
    #[cfg(any(
        feature = \"x\",
        target_os = \"linux\",
    ))]
    c();
    let d = cfg!(not(windows));
}
";
    let found: Vec<_> =
        conditions(text).into_iter().filter(|(_, text)| names_a_system(text)).map(|(line, _)| line).collect();
    assert_eq!(found, [2, 13, 18]);
}
