//! Fuzz targets for bytes that come from files, from programs and from other processes.

mod frames;
mod rank_tables;
mod root_infos;

pub use crate::fabric::fuzz_peer::peer;
pub use frames::frames;
pub use rank_tables::rank_table;
pub use root_infos::root_info;
pub(crate) use root_infos::some_block;

#[cfg(test)]
mod tests {
    #[test]
    fn a_rank_table_is_anything() {
        seeded_inputs::check("rank_table", 3000, super::rank_table);
    }

    #[test]
    fn a_root_info_is_anything() {
        seeded_inputs::check("root_info", 1000, super::root_info);
    }

    #[test]
    fn a_process_sends_any_bytes() {
        seeded_inputs::check("frames", 3000, super::frames);
    }

    #[test]
    fn a_process_says_anything() {
        seeded_inputs::check("peer", 500, super::peer);
    }
}
