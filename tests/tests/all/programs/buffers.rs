//! Device buffers whose element type is known at run time, and disjoint pieces of them.

use std::any::Any;

use hccl::batch::Batch;
use hccl::dtype::{bf16, f16};
use hccl::prelude::*;

use super::interpret::Bits;
use super::program::{Item, Side, Span};
use super::reference::Reference;

/// A [`DeviceBuffer`] of any type.
pub trait Buffer: Any + Send {
    fn download(&self, stream: &Stream) -> hccl::Result<Bits>;

    /// Returns disjoint pieces, in the order of the buffer.
    fn pieces(&mut self, spans: &[Span]) -> hccl::Result<Vec<Piece<'_>>>;
}

impl<T: Typed> Buffer for DeviceBuffer<T> {
    fn download(&self, stream: &Stream) -> hccl::Result<Bits> {
        Ok(self.to_vec(stream).wait()?.into_iter().map(T::into_bits).collect())
    }

    fn pieces(&mut self, spans: &[Span]) -> hccl::Result<Vec<Piece<'_>>> {
        Ok(cut(self, spans)?.into_iter().map(T::piece).collect())
    }
}

/// An element type that has [`Piece`]s.
pub trait Typed: Reference {
    fn piece(slice: DeviceSliceMut<'_, Self>) -> Piece<'_>;
    /// Returns the slice of a piece of this type.
    fn slice<'p, 'a>(piece: &'p mut Piece<'a>) -> &'p mut DeviceSliceMut<'a, Self>;
}

macro_rules! pieces {
    ($($name:ident $t:ty),*) => {
        /// A [`DeviceSliceMut`] of any type.
        pub enum Piece<'a> {
            $($name(DeviceSliceMut<'a, $t>),)*
        }

        impl Piece<'_> {
            pub fn send<'c, 'b>(&'b self, batch: Batch<'c, 'b>, to: u32) -> Batch<'c, 'b> {
                match self {
                    $(Piece::$name(slice) => batch.send(slice.as_slice(), to),)*
                }
            }

            pub fn recv<'c, 'b>(&'b mut self, batch: Batch<'c, 'b>, from: u32) -> Batch<'c, 'b> {
                match self {
                    $(Piece::$name(slice) => batch.recv(slice, from),)*
                }
            }
        }

        $(impl Typed for $t {
            fn piece(slice: DeviceSliceMut<'_, Self>) -> Piece<'_> {
                Piece::$name(slice)
            }

            fn slice<'p, 'a>(piece: &'p mut Piece<'a>) -> &'p mut DeviceSliceMut<'a, Self> {
                match piece {
                    Piece::$name(slice) => slice,
                    _ => unreachable!("operations name buffers of their type"),
                }
            }
        })*
    };
}
pieces! {
    I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, F16 f16, BF16 bf16, F32 f32, F64 f64
}

pub fn upload<T: Typed>(
    bits: &[u64],
    device: &Device,
    stream: &Stream,
) -> hccl::Result<Box<dyn Buffer>> {
    let elements: Vec<T> = bits.iter().map(|&bits| T::from_random(bits)).collect();
    Ok(Box::new(device.upload(&elements, stream)?))
}

/// Returns the source and the destination of a side, each if the side has it.
pub fn operands<'a, T: Element>(
    buffers: &'a mut [Box<dyn Buffer>],
    side: &Side,
) -> hccl::Result<[Option<DeviceSliceMut<'a, T>>; 2]> {
    let one = |buffer: &'a mut Box<dyn Buffer>, span: Span| {
        typed(buffer).slice_mut(span.start..span.end()).map(Some)
    };
    Ok(match (side.source, side.destination) {
        (None, None) => [None, None],
        (Some(from), None) => [one(&mut buffers[from.buffer], from)?, None],
        (None, Some(to)) => [None, one(&mut buffers[to.buffer], to)?],
        (Some(from), Some(to)) if from.buffer == to.buffer => {
            let buffer = typed::<T>(&mut buffers[from.buffer]);
            let is_first = (from.start, from.end()) <= (to.start, to.end());
            let order = if is_first { [from, to] } else { [to, from] };
            let mut pieces = cut(buffer, &order)?.into_iter();
            let [first, second] = [pieces.next(), pieces.next()];
            if is_first { [first, second] } else { [second, first] }
        }
        (Some(from), Some(to)) => {
            let pair = buffers.get_disjoint_mut([from.buffer, to.buffer]);
            let [source, destination] = pair.expect("two buffers");
            [one(source, from)?, one(destination, to)?]
        }
    })
}

/// Returns the pieces that messages use, each with its messages. A piece has several messages if it
/// is sent to several ranks.
pub fn pieces_of_messages<'a, 'm>(
    buffers: &'a mut [Box<dyn Buffer>],
    messages: &'m [Item],
) -> hccl::Result<Vec<(Piece<'a>, Vec<&'m Item>)>> {
    let mut items: Vec<&Item> = messages.iter().collect();
    items.sort_by_key(|item| (item.span, item.sends));
    let groups = items.chunk_by(|a, b| a.sends && b.sends && a.span == b.span);
    let groups: Vec<Vec<&Item>> = groups.map(<[_]>::to_vec).collect();
    let spans: Vec<Span> = groups.iter().map(|items| items[0].span).collect();
    Ok(pieces(buffers, &spans)?.into_iter().zip(groups).collect())
}

/// Returns disjoint pieces of several buffers. `spans` are in order.
pub fn pieces<'a>(
    buffers: &'a mut [Box<dyn Buffer>],
    spans: &[Span],
) -> hccl::Result<Vec<Piece<'a>>> {
    let mut all = Vec::new();
    for (index, buffer) in buffers.iter_mut().enumerate() {
        let own = spans.iter().filter(|span| span.buffer == index);
        all.extend(buffer.pieces(&own.copied().collect::<Vec<_>>())?);
    }
    Ok(all)
}

fn typed<T: Element>(buffer: &mut Box<dyn Buffer>) -> &mut DeviceBuffer<T> {
    let any: &mut dyn Any = &mut **buffer;
    any.downcast_mut().expect("operations name buffers of their type")
}

/// Returns pieces of one buffer. `spans` are disjoint and in order.
fn cut<'a, T: Element>(
    buffer: &'a mut DeviceBuffer<T>,
    spans: &[Span],
) -> hccl::Result<Vec<DeviceSliceMut<'a, T>>> {
    let (mut rest, mut at) = (buffer.slice_mut(..)?, 0);
    let mut pieces = Vec::new();
    for span in spans {
        let (_, tail) = rest.split_at_mut(span.start - at)?;
        let (piece, tail) = tail.split_at_mut(span.len)?;
        pieces.push(piece);
        (rest, at) = (tail, span.end());
    }
    Ok(pieces)
}
