//! A program that is linked with CANN's libraries instead of loading them.
//!
//! ```sh
//! source <CANN>/set_env.sh
//! cargo run -p ascend-sys --features linked --example linked
//! ```

use ascend_sys::{Api, SYMBOLS};

fn main() {
    let api = Api::linked();
    for symbol in SYMBOLS {
        println!("{}", api.availability(&symbol.name.to_string_lossy()));
    }
}
