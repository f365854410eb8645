//! The parts of the machine besides libraries: its driver, and the version files of installations.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::page::{Mark, Section};

/// The beginnings of the names of the driver's nodes.
const NODES: [&str; 3] = ["davinci", "devmm_svm", "hisi_hdc"];

/// Describes the machine, its processor, and the nodes of the driver.
pub(crate) fn section() -> Section {
    let mut section = Section::new("Machine");
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let system = format!("{} {}, {}", std::env::consts::OS, kernel.trim(), std::env::consts::ARCH);
    section.row(Mark::Plain, "system", system);
    section.row(Mark::Plain, "processors", format!("{processors} that this process may use"));
    let nodes = nodes(Path::new("/dev"));
    let (open, closed): (Vec<_>, Vec<_>) = nodes.iter().partition(|node| may_open(node));
    let names = |nodes: &[&PathBuf]| {
        let names: Vec<_> = nodes.iter().map(|node| node.display().to_string()).collect();
        names.join(", ")
    };
    if nodes.is_empty() {
        let text = "no /dev/davinci*: no driver of Ascend devices is loaded, or none is passed into this container";
        section.row(Mark::Plain, "driver", text);
    }
    if !open.is_empty() {
        section.row(Mark::Good, "driver", names(&open));
    }
    if !closed.is_empty() {
        let text = format!(
            "{}: this process may not read and write them; the user has to be in the group that owns them",
            names(&closed)
        );
        section.row(Mark::Bad, "driver", text);
    }
    section
}

fn nodes(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let is_node = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| NODES.iter().any(|start| name.starts_with(start)))
    };
    let mut nodes: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_node).collect();
    nodes.sort();
    nodes
}

fn may_open(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: the path is a live text that ends with a zero.
    unsafe { libc::access(path.as_ptr(), libc::R_OK | libc::W_OK) == 0 }
}

/// Returns the files beside the libraries that give a version, each with the lines that give it.
pub(crate) fn version_files(homes: &[PathBuf]) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for home in homes {
        let mut directories = vec![home.clone()];
        let below = std::fs::read_dir(home).into_iter().flatten().flatten();
        let mut below: Vec<PathBuf> =
            below.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        below.sort();
        directories.extend(below);
        for directory in directories {
            let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
            let mut files: Vec<PathBuf> =
                files.map(|entry| entry.path()).filter(|path| says_a_version(path)).collect();
            files.sort();
            found.extend(
                files.into_iter().filter_map(|file| version_in(&file).map(|text| (file, text))),
            );
        }
    }
    found.truncate(40);
    found
}

fn says_a_version(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase());
    let ends = |name: &str| [".info", ".cfg"].iter().any(|end| name.ends_with(end));
    name.is_some_and(|name| ends(&name) && (name.contains("version") || name.contains("install")))
        && path.is_file()
}

/// Returns the first lines with the word "version", if the file is a short text.
fn version_in(path: &Path) -> Option<String> {
    if std::fs::metadata(path).ok()?.len() > 64 << 10 {
        return None;
    }
    let text = String::from_utf8_lossy(&std::fs::read(path).ok()?).into_owned();
    let lines = text.lines().map(str::trim).filter(|line| line.to_lowercase().contains("version"));
    let lines: Vec<&str> = lines.take(3).filter(|line| line.len() < 200).collect();
    (!lines.is_empty()).then(|| lines.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_files_beside_the_libraries() {
        let home = std::env::temp_dir().join(format!("hccl-doctor-home-{}", std::process::id()));
        let below = home.join("runtime");
        std::fs::create_dir_all(&below).unwrap();
        std::fs::write(below.join("version.info"), "Version=8.5.0\nother=1\n").unwrap();
        std::fs::write(home.join("set_env.sh"), "version=1").unwrap();
        std::fs::write(home.join("version.cfg"), [0xff; 100]).unwrap();
        let found = version_files(std::slice::from_ref(&home));
        std::fs::remove_dir_all(&home).unwrap();
        assert_eq!(found, [(below.join("version.info"), "Version=8.5.0".to_owned())]);
        assert_eq!(version_files(&["/there is no such".into()]), []);
    }

    #[test]
    fn nodes_are_those_of_the_driver() {
        let directory =
            std::env::temp_dir().join(format!("hccl-doctor-dev-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        for name in ["davinci1", "davinci0", "davinci_manager", "null", "hisi_hdc"] {
            std::fs::write(directory.join(name), "").unwrap();
        }
        let found = nodes(&directory);
        assert_eq!(found.len(), 4);
        assert!(found[0].ends_with("davinci0") && may_open(&found[0]));
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(!may_open(&found[0]));
    }
}
