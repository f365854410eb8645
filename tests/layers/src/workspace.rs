//! The crates of the workspace.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use crate::tree::{Crate, Disk, Files};

/// A library or a program of a member.
pub struct Member {
    pub name: String,
    /// The root file of the library or program, from the root of the workspace.
    pub file: PathBuf,
}

/// Returns the root of the workspace around the current directory.
pub fn root() -> Result<PathBuf, String> {
    let here = std::env::current_dir().map_err(|error| error.to_string())?;
    let is_root = |at: &&Path| manifest(at).is_ok_and(|text| text.contains("[workspace]"));
    let root = here.ancestors().find(is_root).map(Path::to_owned);
    root.ok_or_else(|| format!("no workspace is around {}", here.display()))
}

fn manifest(directory: &Path) -> Result<String, String> {
    let file = directory.join("Cargo.toml");
    std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))
}

/// Returns the libraries and programs below `src` of all members.
pub fn members(root: &Path) -> Result<Vec<Member>, String> {
    let text = manifest(root)?;
    let list = text.split_once("members = [").and_then(|(_, rest)| rest.split_once(']'));
    let (list, _) = list.ok_or("the workspace's Cargo.toml has no `members = [`")?;
    let mut members = Vec::new();
    for directory in list.split('"').skip(1).step_by(2) {
        let text = manifest(&root.join(directory))?;
        let name = text.lines().find_map(|line| line.strip_prefix("name = \""));
        let name = name.unwrap_or(directory).trim_end_matches('"');
        let library = Path::new(directory).join("src/lib.rs");
        let program = Path::new(directory).join("src/main.rs");
        let [has_library, has_program] = [&library, &program].map(|file| root.join(file).is_file());
        if has_library {
            members.push(Member { name: name.to_owned(), file: library });
        }
        if has_program {
            let suffix = if has_library { " (program)" } else { "" };
            members.push(Member { name: format!("{name}{suffix}"), file: program });
        }
    }
    Ok(members)
}

/// The files of a workspace, named from its root.
struct Below<'a>(&'a Path);

impl Files for Below<'_> {
    fn text(&self, file: &Path) -> Option<String> {
        Disk.text(&self.0.join(file))
    }
}

/// Reads all crates, each on a thread, as many at a time as there are cores.
pub fn read(root: &Path, members: Vec<Member>) -> Result<Vec<(String, Crate)>, String> {
    let mut done: Vec<Option<Result<Crate, String>>> = Vec::new();
    done.resize_with(members.len(), || None);
    let done = Mutex::new(done);
    let next = Mutex::new(0..members.len());
    let work = || {
        while let Some(at) = next.lock().ok().and_then(|mut next| next.next()) {
            let read = Crate::read(&members[at].file, &Below(root));
            if let Ok(mut done) = done.lock() {
                done[at] = Some(read);
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let done = done.into_inner().map_err(|error| error.to_string())?;
    let names = members.iter().map(|member| member.name.clone());
    names.zip(done.into_iter().flatten()).map(|(name, read)| Ok((name, read?))).collect()
}
