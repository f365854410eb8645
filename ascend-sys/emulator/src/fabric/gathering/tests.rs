//! Tests of the settings that the ranks of a communicator must agree about.

use super::*;
use crate::profile::Product;

fn applicant(rank: u32) -> Applicant {
    let (connect_timeout, exec_timeout) = (Duration::from_secs(1), Duration::from_secs(1));
    let product = Product::A3;
    let settings = Settings {
        block: 1,
        first: 64,
        count: 2,
        product,
        connect_timeout,
        exec_timeout,
        buffer_megabytes: 200,
        expansion: 0,
        checked: false,
        kernel_seed: 0,
        kernel_late: None,
    };
    let config = CommConfig::default();
    Applicant { rank, ranks: 2, device: 64 + rank, settings, config, guest: None }
}

#[test]
fn disagreements_print_both_sides() {
    assert!(form_at_once(&[applicant(0), applicant(1)]).is_ok());
    let refused = |change: fn(&mut Applicant), pieces: &[&str]| {
        let mut second = applicant(1);
        change(&mut second);
        let Err(failure) = form_at_once(&[applicant(0), second]) else {
            panic!("{pieces:?} is accepted");
        };
        for piece in pieces {
            assert!(failure.text.contains(piece), "{piece} is not in: {}", failure.text);
        }
    };
    refused(|it| it.ranks = 3, &["EI0015", "rank 0 says 2, rank 1 says 3"]);
    refused(|it| it.device = 64, &["EI0015", "ranks 0 and 1 are both on device"]);
    refused(
        |it| it.settings.product = Product::Ascend950,
        &["EI0016", "rank 0 is on Atlas A3, rank 1 on Ascend 950"],
    );
    refused(
        |it| it.config.buffer_megabytes = 64,
        &["EI0005", "rank 0: name \"\", buffer 200 MB", "rank 1: name \"\", buffer 64 MB"],
    );
    refused(
        |it| it.config.name = "other".into(),
        &["EI0005", "rank 0: name \"\"", "rank 1: name \"other\""],
    );
}
