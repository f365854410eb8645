//~ E0200 there: the trait `Value` requires an `unsafe impl` declaration


pub struct Data(pub bool);

impl hccl::kernel::tiling::Value for Data { // misuse
// correct: // SAFETY: a `bool` and nothing else.
// correct: unsafe impl hccl::kernel::tiling::Value for Data {
    const ITEM: hccl::kernel::tiling::Item = <bool as hccl::kernel::tiling::Value>::ITEM;
}
