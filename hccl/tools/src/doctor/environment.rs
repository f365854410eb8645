//! The environment variables that matter, and their effects.

use std::path::Path;

use hccl::job::{JobEnv, variables};

use crate::page::{Mark, Section};

/// The part of a variable's value that is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Whole,
    /// Nothing of the value; only the fact that it is set.
    Never,
}

/// The variables of CANN, of the emulator and of `hccl`, each with its effect.
const VARIABLES: &[(&str, &str)] = &[
    ("ASCEND_HOME_PATH", "libraries are looked for in lib64 and <arch>-linux/lib64 there, first"),
    (
        "ASCEND_TOOLKIT_HOME",
        "libraries are looked for in lib64 and <arch>-linux/lib64 there, second",
    ),
    (
        "LD_LIBRARY_PATH",
        "the system's loader searches there for libraries that are found nowhere else or that others need",
    ),
    (
        "ASCEND_RT_VISIBLE_DEVICES",
        "the devices that this process has; the first one is its device 0",
    ),
    (
        "HCCL_CONNECT_TIMEOUT",
        "seconds that ranks wait for one another when they connect: 120 to 7200 in CANN",
    ),
    (
        "HCCL_EXEC_TIMEOUT",
        "seconds that an operation may wait for its peers on the device (1836 unless set)",
    ),
    ("HCCL_BUFFSIZE", "MiB of each half of an HCCL buffer (200 unless set)"),
    ("HCCL_DETERMINISTIC", "whether sums of floats are made in one order"),
    ("HCCL_OP_EXPANSION_MODE", "which engine runs the operations"),
    ("HCCL_INTRA_ROCE_ENABLE", "whether links inside a server use RoCE"),
    ("HCCL_INTRA_PCIE_ENABLE", "whether links inside a server use PCIe"),
    ("ASCEND_EMULATOR_DEVICES", "devices of the emulator's libraries (8 unless set)"),
    ("ASCEND_EMULATOR_PRODUCT", "what the emulator's devices pretend to be (A3 unless set)"),
    ("ASCEND_EMULATOR_MEMORY", "bytes of memory of each device of the emulator's libraries"),
    ("ASCEND_EMULATOR_CHECK", "the emulator's libraries look for races"),
    ("ASCEND_EMULATOR_FAULTS", "the emulator's libraries fail on purpose"),
    ("ASCEND_EMULATOR_KERNELS", "the rules that the emulator checks kernels for"),
    ("ASCEND_EMULATOR_KERNEL_SEED", "the order in which units of the emulator go on"),
    ("ASCEND_EMULATOR_KERNEL_LATE", "the part that is late in kernels of the emulator"),
    ("ASCEND_EMULATOR_TIMELINE", "the emulator writes a timeline there"),
];

/// Lists the variables in order, and the launcher that gave this process its place in a job.
pub(crate) fn section(for_report: bool) -> Section {
    let mut section = Section::new("Environment");
    for (name, what) in VARIABLES {
        let Some(value) = std::env::var_os(name) else { continue };
        let value = value.to_string_lossy();
        let is_directory = matches!(*name, "ASCEND_HOME_PATH" | "ASCEND_TOOLKIT_HOME");
        let leads_nowhere = is_directory && !value.is_empty() && !Path::new(&*value).is_dir();
        let (mark, beside) = match (value.is_empty(), leads_nowhere) {
            (true, _) => (Mark::Note, " (empty: counts as unset)"),
            (_, true) => (Mark::Bad, " (there is no such directory: correct it or unset it)"),
            _ => (Mark::Plain, ""),
        };
        section.row(mark, *name, format!("{value}{beside}\n{what}"));
    }
    for (name, value) in others() {
        let text = match shown(&name, for_report) {
            Shown::Whole => format!("{value}\nnot read by hccl; CANN may read it"),
            Shown::Never if is_of_a_job(&name) => "set; the ranks of a job read it".to_owned(),
            Shown::Never => "set; not read by hccl; CANN may read it".to_owned(),
        };
        section.row(Mark::Plain, name, text);
    }
    if section.rows.is_empty() {
        section.row(
            Mark::Plain,
            "variables",
            "no variable that CANN, the emulator or hccl reads is set",
        );
    }
    let (mark, text) = match JobEnv::from_env() {
        Ok(None) => (Mark::Plain, "none: this process is no rank of a job".to_owned()),
        Ok(Some(env)) => {
            let JobEnv { rank, world_size, local_rank, local_world_size, launcher, .. } = env;
            let text = format!(
                "{launcher}: rank {rank} of {world_size}, on this machine {local_rank} of {local_world_size}"
            );
            (Mark::Note, text)
        }
        Err(error) if for_report => {
            drop(error);
            (Mark::Bad, "its variables contradict each other".to_owned())
        }
        Err(error) => (Mark::Bad, error.to_string()),
    };
    section.row(mark, "launcher", text);
    section
}

/// Returns the variables that are not listed and whose names begin like CANN's.
fn others() -> Vec<(String, String)> {
    let mut others: Vec<(String, String)> = std::env::vars_os()
        .map(|(name, value)| {
            (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
        })
        .filter(|(name, _)| {
            let start = name.split_once('_').map_or("", |(start, _)| start);
            ["ASCEND", "HCCL", "ACL", "NPU"].contains(&start)
        })
        .filter(|(name, _)| !VARIABLES.iter().any(|(known, _)| known == name))
        .collect();
    others.sort();
    others
}

/// Decides how much of an unlisted variable is shown. Its value may be private, so a report leaves
/// it out. The values of a job's variables are never shown.
fn shown(name: &str, for_report: bool) -> Shown {
    match for_report || is_of_a_job(name) {
        true => Shown::Never,
        false => Shown::Whole,
    }
}

fn is_of_a_job(name: &str) -> bool {
    [variables::SECRET, variables::SERVED, variables::JOB_ID].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_job_and_unknown_variables_are_not_in_a_report() {
        assert!(shown("HCCL_JOB_SECRET", false) == Shown::Never);
        assert!(shown("HCCL_IF_IP", true) == Shown::Never);
        assert!(shown("HCCL_IF_IP", false) == Shown::Whole);
    }
}
