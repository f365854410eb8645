//! Tests `--json`, which prints the content of the page for programs.

use serde_json::Value;

use super::*;

/// Returns the object that the command prints, and its status.
pub(super) fn object(command: &mut Command) -> (Value, i32) {
    let output = command.output().expect("it starts");
    let object = serde_json::from_slice(&output.stdout).expect("standard output is one JSON value");
    (object, output.status.code().expect("it ends by itself"))
}

/// Returns the words of a text, with one space between them.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_object_has_each_row_of_the_page() {
    let nothing = || doctor(&[]);
    let emulator = || doctor_of(cann_home(), &[]);
    let cases: [(&dyn Fn() -> Command, i32); 2] = [(&nothing, 1), (&emulator, 0)];
    for (command, status) in cases {
        let page = run(&mut command());
        let (object, found) = object(command().arg("--json"));
        assert_eq!((found, page.status), (status, status), "{object:#}");
        assert_eq!(object["format"], "hccl-doctor 1");
        assert_eq!(object["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(object["runs"], status == 0);
        assert_eq!(object["is_emulator"], status == 0);
        let mut expected = String::new();
        for section in object["sections"].as_array().expect("an array") {
            expected += section["title"].as_str().expect("a title");
            expected += "\n";
            for row in section["rows"].as_array().expect("an array") {
                let sign = match row["mark"].as_str() {
                    Some("good") => "+",
                    Some("bad") => "!",
                    Some("note") => "*",
                    Some("plain") => "",
                    other => panic!("{other:?} is no mark"),
                };
                let [topic, text] = ["topic", "text"].map(|name| row[name].as_str().expect(name));
                expected += &format!("{sign} {topic} {text}\n");
            }
        }
        assert_eq!(words(&page.text), words(&expected));
    }
}

#[test]
fn a_report_is_a_section_and_no_text_is_mixed_in() {
    let file = directory("json-report").join("report.txt");
    let arguments = ["--json", "--report", file.to_str().expect("a path")];
    let (object, status) = object(&mut doctor(&arguments));
    assert_eq!(status, 1);
    let last = object["sections"].as_array().and_then(|all| all.last()).expect("sections");
    assert_eq!(last["title"], "Report");
    assert_eq!(last["rows"][0]["topic"], "sample");
    assert!(file.exists());
}

#[test]
fn the_facts_are_printed_when_the_report_cannot_be_written() {
    let arguments = ["--json", "--report", "/there is/no directory/for it"];
    let output = doctor(&arguments).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    let object: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(object["format"], "hccl-doctor 1");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("/there is/no directory/for it:"), "{said}");
}
