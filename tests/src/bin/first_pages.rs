//! Builds and runs the programs of the first pages and of the guide in projects of their own, and compares what they print
//! with what the page states. `tests/packages/run` calls it.
//!
//! Usage: `first_pages README GUIDE FOLDER`. The folder is a workspace whose member `crates/CRATE` is the unpacked archive of each
//! published crate, and to which the projects are added as `pages/PROJECT`: one for all programs of a page with the same
//! dependencies. Each is built alone, because Cargo would otherwise enable the features that one project states for all
//! others.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use tests::deadline::output_of;
use tests::pages::{self, ADDRESS, Dependency, Page, Part, Program};

/// Far more than a server needs to listen.
const START: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    match check_all() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn check_all() -> Result<(), String> {
    let [readme, guide, folder] = &*std::env::args().skip(1).map(PathBuf::from).collect::<Vec<_>>() else {
        return Err("usage: first_pages README GUIDE FOLDER".to_owned());
    };
    // What is wrong with a page is known before anything is built.
    let mut all = vec![
        ("readme".to_owned(), read(readme, "README.md", str::to_owned)?),
        ("guide".to_owned(), read(guide, "guide.md", str::to_owned)?),
    ];
    for name in crates(folder)? {
        let source = folder.join("crates").join(&name);
        let readme = read(&source.join("README.md"), &format!("README.md of {name}"), str::to_owned)?;
        let library = source.join("src/lib.rs");
        if !library.exists() {
            // A program: `tests/packages/run` starts it.
            all.push((format!("{name}-readme"), readme));
            continue;
        }
        let documentation = read(&library, &format!("lib.rs of {name}"), pages::module_documentation)?;
        if !readme.programs.iter().chain(&documentation.programs).any(|program| program.part() != Part::Compiled) {
            return Err(format!("{name}: its pages have no program that can be run"));
        }
        all.extend([(format!("{name}-readme"), readme), (format!("{name}-lib"), documentation)]);
    }
    let projects = Projects { folder, address: free_address()? };
    let mut failed = Vec::new();
    for (prefix, page) in all {
        projects.check(&prefix, &page, &mut failed)?;
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed:\n{}", failed.join("\n"))) }
}

/// The names of the unpacked crates.
fn crates(folder: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(folder.join("crates")).map_err(of(folder))?;
    let mut names: Vec<_> =
        entries.filter_map(Result::ok).map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

fn read(file: &Path, name: &str, convert: fn(&str) -> String) -> Result<Page, String> {
    let text = fs::read_to_string(file).map_err(of(file))?;
    pages::read(name, &convert(&text))
}

fn of(file: &Path) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{}: {error}", file.display())
}

/// The servers listen there in place of [`ADDRESS`], which another program may use.
fn free_address() -> Result<String, String> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    Ok(listener.map_err(|error| error.to_string())?.to_string())
}

struct Projects<'a> {
    folder: &'a Path,
    address: String,
}

impl Projects<'_> {
    /// Builds the programs of a page, and runs them in their order. Adds those that are wrong to `failed`.
    fn check(&self, prefix: &str, page: &Page, failed: &mut Vec<String>) -> Result<(), String> {
        let mut projects: Vec<(String, &[Dependency])> = Vec::new();
        let mut named = Vec::new();
        for (number, program) in (1..).zip(&page.programs) {
            let known = projects.iter().find(|(_, dependencies)| *dependencies == program.dependencies);
            let project = known.map_or_else(|| format!("{prefix}-{number}"), |(project, _)| project.clone());
            if known.is_none() {
                projects.push((project.clone(), &program.dependencies));
            }
            let name = format!("{prefix}-program-{number}");
            self.write(&project, &name, program)?;
            named.push((name, program));
        }
        for (project, _) in projects {
            if let Err(problem) = self.build(&project) {
                failed.push(format!("{prefix}: {problem}"));
                return Ok(());
            }
        }
        let mut server = None;
        for (name, program) in named {
            let outcome = match program.part() {
                Part::Server => {
                    // The one before must no longer listen there.
                    drop(server.take());
                    Serving::start(&self.program(&name), &self.address).map(|serving| {
                        server = Some(serving);
                        "serves"
                    })
                }
                Part::Client if server.is_none() => Err("its server does not run".to_owned()),
                Part::Client | Part::Alone => self.run(&name, program.prints.as_deref()),
                Part::Compiled => Ok("compiles"),
            };
            match outcome {
                Ok(outcome) => println!("{}: {outcome}", program.place),
                Err(problem) => failed.push(format!("{}: {problem}", program.place)),
            }
        }
        Ok(())
    }

    /// Adds a program to its project.
    fn write(&self, project: &str, name: &str, program: &Program) -> Result<(), String> {
        let folder = self.folder.join("pages").join(project);
        let programs = folder.join("src/bin");
        fs::create_dir_all(&programs).map_err(of(&programs))?;
        let manifest = pages::manifest(project, &program.dependencies);
        fs::write(folder.join("Cargo.toml"), manifest).map_err(of(&folder))?;
        let source = program.source.replace(ADDRESS, &self.address);
        fs::write(programs.join(name).with_extension("rs"), source).map_err(of(&programs))
    }

    fn build(&self, project: &str) -> Result<(), String> {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["build", "--quiet", "--package", project])
            .current_dir(self.folder)
            .env("CARGO_TARGET_DIR", self.target());
        // It is built with several sets of features, and runs for a moment only.
        cargo.args(["--config", "profile.dev.package.mcp-proto.opt-level=0"]);
        let output = cargo.output().map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(());
        }
        // A manifest that Cargo refuses would make every other project of the workspace fail, too.
        let folder = self.folder.join("pages").join(project);
        fs::remove_dir_all(&folder).map_err(of(&folder))?;
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn program(&self, name: &str) -> PathBuf {
        self.target().join("debug").join(name)
    }

    fn target(&self) -> PathBuf {
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| self.folder.join("target"), PathBuf::from)
    }

    /// Runs a program to its end.
    fn run(&self, name: &str, prints: Option<&str>) -> Result<&'static str, String> {
        let output = output_of(Command::new(self.program(name)).stdin(Stdio::null()));
        // As the page has it.
        let printed = String::from_utf8_lossy(&output.stdout).replace(&self.address, ADDRESS);
        if !output.status.success() {
            return Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)));
        }
        match prints {
            Some(stated) if stated != printed => Err(format!("it prints:\n{printed}")),
            Some(_) => Ok("prints what the page states"),
            None => Ok("runs"),
        }
    }
}

/// A server, which is ended on drop.
struct Serving(Child);

impl Serving {
    fn start(program: &Path, address: &str) -> Result<Self, String> {
        let started = Command::new(program).stdin(Stdio::null()).spawn();
        let mut serving = Self(started.map_err(|error| error.to_string())?);
        let until = Instant::now() + START;
        while TcpStream::connect(address).is_err() {
            if let Ok(Some(status)) = serving.0.try_wait() {
                return Err(format!("the server ended: {status}"));
            }
            if Instant::now() > until {
                return Err(format!("the server does not listen at {address} within {START:?}"));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(serving)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
