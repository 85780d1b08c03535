//! Writes the instrumented files of crates, and a description of their mutants.
//!
//! Usage: mutants FROM TO REQUEST DESCRIPTION. REQUEST is a JSON object: `roots` lists the root file of each crate,
//! relative to FROM, `left_out` the mutants and `constants` the functions that stay as they are, by their keys.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use mutants::{Found, SWITCH, find, instrument};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Request {
    roots: Vec<String>,
    left_out: BTreeSet<String>,
    constants: BTreeSet<String>,
}

/// A mutant, as it is described to the script.
#[derive(Serialize)]
struct Described {
    key: String,
    file: String,
    line: usize,
    last_line: usize,
    span: (usize, usize),
    function: String,
    function_span: (usize, usize),
    state: &'static str,
}

/// A written file, as it is described to the script: the parts inserted for mutants, and the origin of unchanged parts.
#[derive(Default, Serialize)]
struct Written {
    inserted: Vec<(usize, usize, usize)>,
    chunks: Vec<(usize, usize, usize)>,
}

#[derive(Default, Serialize)]
struct Description {
    mutants: BTreeMap<usize, Described>,
    constants: BTreeMap<String, String>,
    files: BTreeMap<String, Written>,
}

struct SourceFile {
    path: String,
    source: String,
    found: Found,
    is_root: bool,
    first: usize,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to, request, description] = &arguments[..] else {
        return Err("usage: mutants FROM TO REQUEST DESCRIPTION".into());
    };
    let (from, to) = (Path::new(from), Path::new(to));
    let request: Request = serde_json::from_str(&fs::read_to_string(request)?)?;

    let mut files = Vec::new();
    for root in &request.roots {
        let mut modules = vec![(PathBuf::from(root), true)];
        while let Some((path, is_root)) = modules.pop() {
            let source = fs::read_to_string(from.join(&path))?;
            let found = find(&source).map_err(|error| format!("{}: {error}", path.display()))?;
            let parent = path.parent().unwrap_or(Path::new(""));
            let folder = if is_root { parent.to_owned() } else { path.with_extension("") };
            modules.extend(found.modules.iter().map(|name| (folder.join(name).with_extension("rs"), false)));
            files.push(SourceFile { path: path.to_string_lossy().into_owned(), source, found, is_root, first: 0 });
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    // The number 0 means that no mutant is chosen.
    let mut next = 1;
    for file in &mut files {
        file.first = next;
        next += file.found.mutants.len();
    }

    let mut described = Description::default();
    for file in &files {
        let function_key = |function: usize| format!("{}: {}", file.path, file.found.functions[function].name);
        let key = |mutant: usize| {
            let mutant = &file.found.mutants[mutant];
            format!("{}: {}", function_key(mutant.function), mutant.change)
        };
        let is_constant = |function: usize| {
            file.found.functions[function].constant.is_some() && request.constants.contains(&function_key(function))
        };
        let is_live = |mutant: usize| !request.left_out.contains(&key(mutant));
        let start = if file.is_root { "#![allow(warnings)] " } else { "" };
        let mut written = instrument(start, &file.source, &file.found, file.first, &is_live, &is_constant);
        if file.is_root {
            written.text += &SWITCH.replace("COUNT: usize = 0", &format!("COUNT: usize = {next}"));
        }
        let path = to.join(&file.path);
        // An unchanged file keeps its modification time, so that cargo does not build it again.
        if fs::read_to_string(&path).ok().as_ref() != Some(&written.text) {
            fs::write(&path, &written.text)?;
        }
        for (place, mutant) in file.found.mutants.iter().enumerate() {
            let function = &file.found.functions[mutant.function];
            let state = if is_constant(mutant.function) {
                "constant"
            } else if is_live(place) {
                "live"
            } else {
                "left out"
            };
            described.mutants.insert(
                file.first + place,
                Described {
                    key: key(place),
                    file: file.path.clone(),
                    line: mutant.lines.start,
                    last_line: mutant.lines.end - 1,
                    span: (mutant.span.start, mutant.span.end),
                    function: function.name.clone(),
                    function_span: (function.span.start, function.span.end),
                    state,
                },
            );
        }
        for (place, function) in file.found.functions.iter().enumerate() {
            if function.constant.is_some() {
                described.constants.insert(function_key(place), function.name.clone());
            }
        }
        let inserted = written.inserted.iter().map(|part| (part.span.start, part.span.end, file.first + part.mutant));
        let chunks = written.chunks.iter().map(|chunk| (chunk.span.start, chunk.span.end, chunk.from));
        described.files.insert(file.path.clone(), Written { inserted: inserted.collect(), chunks: chunks.collect() });
    }
    fs::write(description, serde_json::to_string(&described)?)?;
    Ok(())
}
