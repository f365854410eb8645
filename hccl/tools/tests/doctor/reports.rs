//! Tests `--report`: the sample with right and with wrong libraries, which are loaded like CANN's.

use std::path::{Path, PathBuf};

use hccl_tests::cann_home;

use crate::broken::{compile, link_others};
use crate::{Said, directory, doctor_of, run};

/// Runs the doctor with `--report`. Returns its output and the report.
fn report(home: &Path, variables: &[(&str, &str)], seconds: &str) -> (Said, String) {
    let file = directory("report").join("report.txt");
    let arguments = ["--report", file.to_str().unwrap(), "--seconds", seconds];
    let mut command = doctor_of(home, &arguments);
    let said = run(command.envs(variables.iter().copied()));
    let text = std::fs::read_to_string(&file).expect("it was written");
    (said, text)
}

/// Returns the lines of the sample that begin with this outcome.
fn lines<'a>(report: &'a str, outcome: &str) -> Vec<&'a str> {
    let sample = report.split("== sample").nth(1).and_then(|it| it.split("== questions").next());
    let sample = sample.expect("there is a sample");
    sample.lines().filter(|line| line.split_whitespace().next() == Some(outcome)).collect()
}

#[test]
fn every_operation_and_type_is_right_over_the_emulator_s_libraries() {
    let (said, text) = report(cann_home(), &[], "600");
    said.ends_with(0).says(&["0 with a difference, 0 with an error", "on 2 ranks", "answers"]);
    assert!(text.starts_with("hccl-doctor report, format 1"), "{text}");
    assert!(text.contains("libraries: of the emulator: no hardware\nruns: yes\n"));
    let right = lines(&text, "ok");
    assert!(right.len() > 300, "{}", right.len());
    for line in &right {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, number, _, _, _, elements, _, "2", "ranks", first, "us", again, "us"] = words[..]
        else {
            panic!("{line}")
        };
        assert!(number.parse::<u32>().is_ok() && elements.parse::<u32>().is_ok(), "{line}");
        assert!(first.parse::<f64>().is_ok() && again.parse::<f64>().is_ok(), "{line}");
    }
    for piece in [
        "all_reduce           sum  f32",
        "all_to_all_vc        -    bf16",
        "reduce_scatter_v     sum  i8",
    ] {
        assert!(right.iter().any(|line| line.contains(piece)), "{piece}");
    }
    for answer in [
        "answer half-to-float: inf 0x7f800000, -inf 0xff800000",
        "answer sum-order: 0x",
        "answer half-sum: 2048\n",
        "answer wrap: -2\n",
        "answer unaligned: yes\n",
    ] {
        assert!(text.contains(answer), "{answer} is not in\n{text}");
    }
    let questions = text.lines().filter(|line| line.starts_with("question ")).count();
    let answers = text.lines().filter(|line| line.starts_with("answer ")).count();
    assert!(questions > 15 && questions == answers, "{questions} and {answers}");
    assert!(text.trim_end().ends_with("== end"));
}

#[test]
fn a_report_names_nobody() {
    let home = cann_home().parent().expect("it is in a directory").display().to_string();
    let variables = [
        ("HOME", &*home),
        ("USER", "adalovelace"),
        ("LOGNAME", "adalovelace"),
        ("HOSTNAME", "engine7"),
        ("HCCL_IF_IP", "10.11.12.13"),
        ("HCCL_SOCKET_IFNAME", "=secretnet0"),
        ("HCCL_JOB_SECRET", "opensesame"),
        ("ASCEND_EMULATOR_TIMELINE", "/home/grace/adalovelace.svg"),
    ];
    let nothing = directory("nothing");
    let (said, text) = report(&nothing, &variables, "1");
    said.ends_with(1).says(&["not run: there is no device on which it could", "10.11.12.13"]);
    assert!(text.contains("HCCL_SOCKET_IFNAME") && text.contains("<user>"), "{text}");
    for word in
        ["adalovelace", "engine7", "10.11.12.13", "secretnet0", "opensesame", "grace", &home]
    {
        assert!(!text.contains(word), "{word} is in\n{text}");
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert!(host.trim() == "localhost" || !text.contains(host.trim()), "{text}");
}

/// Makes an installation whose collectives are the emulator's, except for the functions in `text`.
fn with(name: &str, text: &str) -> PathBuf {
    let home = directory(name);
    let lib64 = home.join("lib64");
    std::fs::create_dir_all(&lib64).unwrap();
    let real = cann_home().join("lib64");
    link_others(&lib64, "libhccl.so");
    let (search, run_path) =
        (format!("-L{}", real.display()), format!("-Wl,-rpath,{}", real.display()));
    let options =
        [&*search, &run_path, "-Wl,-soname,changed.so", "-Wl,--no-as-needed", "-l:libhccl.so"];
    compile(&lib64.join("libhccl.so"), text, &options);
    home
}

#[test]
fn a_wrong_result_is_a_difference_with_its_first_element() {
    // This broadcast succeeds and moves nothing.
    let home = with("wrong", "int HcclBroadcast(void) { return 0; }\n");
    let (said, text) = report(&home, &[], "600");
    said.ends_with(0).says(&["! sample", "0 with an error"]);
    let differ = lines(&text, "difference");
    assert!(
        !differ.is_empty() && differ.iter().all(|line| line.contains(" broadcast ")),
        "{differ:?}"
    );
    let line =
        differ.iter().find(|line| line.contains(" i32 ") && line.contains(" 1000 ")).unwrap();
    // Rank 1 is the root, so rank 0 keeps its elements.
    for piece in ["rank=0 element=0 expected=", "(0x", " got=", " differ=1000"] {
        assert!(line.contains(piece), "{piece}: {line}");
    }
    assert!(lines(&text, "ok").len() > 300);
}

#[test]
fn an_operation_that_is_refused_is_an_error_and_the_others_go_on() {
    let home = with("refused", "int HcclScatter(void) { return 5; }\n");
    let (_, text) = report(&home, &[], "600");
    let errors = lines(&text, "error");
    assert!(!errors.is_empty() && errors.len() <= 20, "{errors:?}");
    for line in &errors {
        assert!(
            line.contains(" scatter ")
                && line.contains("rank=0")
                && line.contains("HCCL_E_NOT_SUPPORT"),
            "{line}"
        );
    }
    assert!(lines(&text, "ok").len() > 100);
}

#[test]
fn an_operation_that_ends_the_process_is_an_error_and_the_others_go_on() {
    let home = with("ended", "#include <stdlib.h>\nint HcclReduce(void) { abort(); }\n");
    let (said, text) = report(&home, &[], "600");
    said.says(&["too many processes have died"]);
    let errors = lines(&text, "error");
    assert_eq!(errors.len(), 5, "{errors:?}");
    assert!(
        errors.iter().all(|line| line.contains(" reduce ") && line.contains("SIGABRT")),
        "{errors:?}"
    );
    assert!(lines(&text, "ok").len() > 10);
    assert!(text.contains("not tried: from case"));
}

#[test]
fn when_the_time_is_over_the_report_says_what_was_not_tried() {
    // The fifth operation takes longer than the time limit of the sample.
    let (said, text) =
        report(cann_home(), &[("ASCEND_EMULATOR_FAULTS", "delay 0 by 1200 at 5")], "1");
    said.ends_with(0).says(&["the time was over before case", "--seconds gives more"]);
    assert!(text.contains("since the time was over"), "{text}");
    assert!(lines(&text, "ok").len() < 300 && text.contains("answer wrap"), "{text}");
}
