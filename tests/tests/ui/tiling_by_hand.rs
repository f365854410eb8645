//~ E0200 there: requires an `unsafe impl` declaration


pub struct Data(pub bool);

impl hccl::kernel::tiling::FieldType for Data { // misuse
// correct: // SAFETY: a `bool` and nothing else.
// correct: unsafe impl hccl::kernel::tiling::FieldType for Data {
    const ITEM: hccl::kernel::tiling::Item = <bool as hccl::kernel::tiling::FieldType>::ITEM;
}
