//! The types of the arguments of entries. They state the C contract in one place.
//!
//! An entry's body receives typed arguments instead of C's. The code that makes an argument relies
//! on the C contract: a pointer is NULL, or valid for the duration of the call. The body itself
//! checks for NULL, because the order of checks is part of the ABI.

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::ops::Deref;
use std::time::Duration;

use ascend_sys::{ACL_ERROR_BAD_ALLOC, ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_PARAM_INVALID};

use crate::message::{ErrorCode, Failure, fail};
use crate::program_memory;

/// A type of arguments, with the C type that an argument is made from.
pub(super) trait FromC {
    type C;
}

/// An argument of an entry, made from the C type. Plain values and raw pointers are arguments
/// unchanged.
pub(super) trait Argument: FromC {
    /// Makes the argument from a C value.
    ///
    /// # Safety
    ///
    /// If `c` is a pointer, it fulfils the contract of the resulting type until the entry returns.
    unsafe fn of(c: Self::C) -> Self;
}

/// An argument whose length is another argument: `ranks: Slice<u32>[count]`.
pub(super) trait CountedArgument: FromC {
    /// Makes the argument from a C value and its length.
    ///
    /// # Safety
    ///
    /// If `c` is a pointer, it fulfils the contract of the resulting type for `length` elements
    /// until the entry returns.
    unsafe fn of(c: Self::C, length: usize) -> Self;
}

/// Converts a length of the C function. A number that is not a length, such as -1, becomes 0.
#[inline]
pub(super) fn length(c: impl TryInto<usize>) -> usize {
    c.try_into().unwrap_or(0)
}

impl<T: Copy> FromC for T {
    type C = T;
}

impl<T: Copy> Argument for T {
    #[inline]
    unsafe fn of(c: T) -> T {
        c
    }
}

/// A time limit in milliseconds; -1 means no limit.
pub(super) struct Milliseconds(i32);

impl FromC for Milliseconds {
    type C = i32;
}

impl Argument for Milliseconds {
    #[inline]
    unsafe fn of(c: i32) -> Self {
        Milliseconds(c)
    }
}

impl Milliseconds {
    /// Returns the limit; `None` means no limit. Returns an error for a value below -1.
    pub(super) fn limit(&self) -> Result<Option<Duration>, Failure> {
        match self.0 {
            -1 => Ok(None),
            0.. => Ok(Some(Duration::from_millis(self.0 as u64))),
            _ => fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "timeout is {}; it must be -1 (for ever) or at least 0",
                self.0
            ),
        }
    }
}

/// A pointer, as C declares it.
pub(super) trait Pointer: Copy {
    fn address(self) -> *mut c_void;
}

impl<T> Pointer for *const T {
    #[inline]
    fn address(self) -> *mut c_void {
        self.cast_mut().cast()
    }
}

impl<T> Pointer for *mut T {
    #[inline]
    fn address(self) -> *mut c_void {
        self.cast()
    }
}

/// A type of handle, and the type of the object that a handle of this type names.
pub(super) trait Named {
    type Found;
    fn find(handle: u64) -> Result<Self::Found, Failure>;
}

/// A handle of the kind `K`. The handle may be any number, even if it does not name an object. `C`
/// is the pointer type that C declares.
pub(super) struct Handle<K, C = *mut c_void>(*mut c_void, PhantomData<(K, C)>);

impl<K, C: Pointer> FromC for Handle<K, C> {
    type C = C;
}

impl<K, C: Pointer> Argument for Handle<K, C> {
    #[inline]
    unsafe fn of(c: C) -> Self {
        Handle(c.address(), PhantomData)
    }
}

impl<K, C> Handle<K, C> {
    /// Returns the error for a missing argument if the handle is NULL. Use it only for functions in
    /// which CANN does this. In all other functions NULL is a handle without an object, for which
    /// [`find`](Self::find) returns the error.
    #[inline]
    pub(super) fn required(&self, argument: &str) -> Result<&Self, Failure> {
        if self.0.is_null() { Err(Failure::null(argument)) } else { Ok(self) }
    }

    #[inline]
    pub(super) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Returns the handle as a number.
    #[inline]
    pub(super) fn number(&self) -> u64 {
        self.0 as u64
    }
}

impl<K: Named, C> Handle<K, C> {
    /// Returns the object that the handle names.
    #[inline]
    pub(super) fn find(&self) -> Result<K::Found, Failure> {
        K::find(self.number())
    }
}

/// An array of the caller: NULL, or valid for reads of as many values as the length says. `C` is
/// the pointer type that C declares.
pub(super) struct Slice<T, C = *const T>(*const T, usize, PhantomData<C>);

impl<T, C: Pointer> FromC for Slice<T, C> {
    type C = C;
}

impl<T, C: Pointer> CountedArgument for Slice<T, C> {
    #[inline]
    unsafe fn of(c: C, length: usize) -> Self {
        Slice(c.address().cast(), length, PhantomData)
    }
}

impl<T, C> Slice<T, C> {
    #[inline]
    pub(super) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Returns the values. Returns an error for NULL, even if the length is 0.
    #[inline]
    pub(super) fn required(self, argument: &str) -> Result<Values<T>, Failure> {
        if self.0.is_null() { Err(Failure::null(argument)) } else { Ok(Values(self.0, self.1)) }
    }
}

/// An array of the caller that is not NULL. The memory is not read before the values are used, so
/// the length can be checked first.
pub(super) struct Values<T>(*const T, usize);

impl<T> Values<T> {
    /// Returns the number of values, as the caller has passed it.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.1
    }
}

impl<T> Deref for Values<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // No array can be longer, even if the caller passes a larger length.
        let length = self.1.min(isize::MAX as usize / size_of::<T>());
        // SAFETY: not null, so valid for `length` elements by the contract of `Slice`.
        unsafe { std::slice::from_raw_parts(self.0, length) }
    }
}

/// The largest number of items of a list for which CANN documents no limit. Programs do not need
/// more.
pub(super) const MOST_ITEMS: usize = 1 << 20;

impl<T> Values<T> {
    /// Returns an error if the list is empty or has more than `most` items. No item is read.
    /// `argument` is the name of the argument with the number of items.
    pub(super) fn counted(
        self,
        most: usize,
        argument: &str,
        code: impl Into<ErrorCode>,
    ) -> Result<Values<T>, Failure> {
        match self.1 {
            count if count == 0 || count > most => {
                Err(Failure::new(code, format!("{argument} is {count}; pass 1 to {most}")))
            }
            _ => Ok(self),
        }
    }
}

/// Bytes of the caller.
pub(super) type ByteSlice<C = *const c_void> = Slice<u8, C>;

impl<C> ByteSlice<C> {
    /// Returns the bytes. Returns an error for NULL, or if the length is 0.
    pub(super) fn some(self, argument: &str) -> Result<Values<u8>, Failure> {
        if self.0.is_null() || self.1 == 0 {
            return fail!(
                ACL_ERROR_INVALID_PARAM,
                "{argument} is NULL or has no bytes; pass at least one byte"
            );
        }
        Ok(Values(self.0, self.1))
    }
}

impl Values<u8> {
    /// Returns a copy of the bytes. Returns an error unless there are 1 to `most` bytes, all in
    /// readable memory.
    pub(super) fn copied(self, most: usize, argument: &str) -> Result<Vec<u8>, Failure> {
        let code = ACL_ERROR_INVALID_PARAM;
        let Values(start, length) =
            self.counted(most, &format!("the length of {argument}"), code)?;
        let mut bytes = Vec::new();
        if bytes.try_reserve_exact(length).is_err() {
            return fail!(
                ACL_ERROR_BAD_ALLOC,
                "no host memory for a copy of {argument}, {length} bytes; free host memory first"
            );
        }
        match program_memory::read(start.addr(), &mut bytes.spare_capacity_mut()[..length]) {
            Some(read) if read < length => {
                return fail!(
                    code,
                    "{argument} has {length} bytes, but memory of the program ends after {read}; \
                     pass the true length"
                );
            }
            // SAFETY: `length` bytes were read into the reserved capacity.
            Some(_) => unsafe { bytes.set_len(length) },
            // SAFETY: not null, so valid for `length` elements by the contract of `Slice`.
            None => bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(start, length) }),
        }
        Ok(bytes)
    }
}

/// A place for a result: NULL, or valid for a write. `C` is the pointer type that C declares, such
/// as `*mut c_void`.
pub(super) struct Out<T, C = *mut T>(*mut T, PhantomData<C>);

impl<T, C: Pointer> FromC for Out<T, C> {
    type C = C;
}

impl<T, C: Pointer> Argument for Out<T, C> {
    #[inline]
    unsafe fn of(c: C) -> Self {
        Out(c.address().cast(), PhantomData)
    }
}

impl<T, C> Out<T, C> {
    #[inline]
    pub(super) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Returns the place. Returns an error for NULL.
    #[inline]
    pub(super) fn required(self, argument: &str) -> Result<Place<T>, Failure> {
        if self.0.is_null() { Err(Failure::null(argument)) } else { Ok(Place(self.0)) }
    }

    /// Writes a value, unless the place is NULL.
    #[inline]
    pub(super) fn write_if_asked(self, value: T) {
        if !self.0.is_null() {
            Place(self.0).write(value);
        }
    }
}

/// A place for a result that is not NULL.
#[derive(Clone, Copy)]
pub(super) struct Place<T>(*mut T);

impl<T> Place<T> {
    /// Returns the same place for a value of another type. The C contract must name that type.
    #[inline]
    pub(super) fn cast<U>(self) -> Place<U> {
        Place(self.0.cast())
    }

    #[inline]
    pub(super) fn write(&self, value: T) {
        // SAFETY: the pointer is not null, so it is valid for a write by the contract of `Out`.
        unsafe { self.0.write_unaligned(value) };
    }
}

/// An array of places for results: NULL, or valid for writes of as many values as the length says.
/// `C` is the pointer type that C declares.
pub(super) struct OutSlice<T, C = *mut T>(*mut T, usize, PhantomData<C>);

impl<T, C: Pointer> FromC for OutSlice<T, C> {
    type C = C;
}

impl<T, C: Pointer> CountedArgument for OutSlice<T, C> {
    #[inline]
    unsafe fn of(c: C, length: usize) -> Self {
        OutSlice(c.address().cast(), length, PhantomData)
    }
}

impl<T: Copy, C> OutSlice<T, C> {
    /// Returns the places. Returns an error for NULL, even if the length is 0.
    #[inline]
    pub(super) fn required(self, argument: &str) -> Result<Places<T>, Failure> {
        if self.0.is_null() { Err(Failure::null(argument)) } else { Ok(Places(self.0, self.1)) }
    }
}

/// An array of places for results that is not NULL.
pub(super) struct Places<T>(*mut T, usize);

impl<T: Copy> Places<T> {
    /// Writes the values from the first place on. Values beyond the last place are left out.
    pub(super) fn write(&self, values: &[T]) {
        let length = values.len().min(self.1);
        // SAFETY: the pointer is not null, so it is valid for `self.1` writes by the contract of
        // `OutSlice`. The values are memory of the emulator, so they do not overlap the places.
        unsafe { self.0.copy_from_nonoverlapping(values.as_ptr(), length) };
    }
}

/// A buffer for a text: NULL, or valid for writes of as many bytes as the length says.
pub(super) struct OutText(*mut c_char, usize);

impl FromC for OutText {
    type C = *mut c_char;
}

impl CountedArgument for OutText {
    #[inline]
    unsafe fn of(c: *mut c_char, length: usize) -> Self {
        OutText(c, length)
    }
}

impl OutText {
    #[inline]
    pub(super) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Writes a text and a NUL after it. If the buffer is too short, the text is cut.
    pub(super) fn write(&self, words: &str) {
        if self.0.is_null() || self.1 == 0 {
            return;
        }
        let words = &words.as_bytes()[..words.len().min(self.1 - 1)];
        // SAFETY: the pointer is not null, so it is valid for `self.1` bytes by the contract of the
        // type. The text and its NUL have at most that many bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(words.as_ptr(), self.0.cast(), words.len());
            *self.0.add(words.len()) = 0;
        }
    }
}

/// A value that is read and then replaced: NULL, or valid for both.
pub(super) struct InOut<T>(*mut T);

impl<T> FromC for InOut<T> {
    type C = *mut T;
}

impl<T> Argument for InOut<T> {
    #[inline]
    unsafe fn of(c: *mut T) -> Self {
        InOut(c)
    }
}

impl<T: Copy> InOut<T> {
    /// Returns the value, and the place for the new value. Returns an error for NULL.
    #[inline]
    pub(super) fn required(self, argument: &str) -> Result<(T, Place<T>), Failure> {
        if self.0.is_null() {
            return Err(Failure::null(argument));
        }
        // SAFETY: the pointer is not null, so it is valid for a read by the contract of the type.
        Ok((unsafe { self.0.read_unaligned() }, Place(self.0)))
    }
}

/// A value of the caller: NULL, or valid for reads together with the lists that it points to. `C`
/// is the pointer type that C declares.
pub(super) struct In<T, C = *const T>(*const T, PhantomData<C>);

impl<T, C: Pointer> FromC for In<T, C> {
    type C = C;
}

impl<T, C: Pointer> Argument for In<T, C> {
    #[inline]
    unsafe fn of(c: C) -> Self {
        In(c.address().cast(), PhantomData)
    }
}

impl<T, C> In<T, C> {
    /// Returns the value. Returns an error for NULL.
    #[inline]
    pub(super) fn required(&self, argument: &str) -> Result<&T, Failure> {
        self.given().ok_or_else(|| Failure::null(argument))
    }

    /// Returns the value; `None` for NULL.
    #[inline]
    pub(super) fn given(&self) -> Option<&T> {
        // SAFETY: the pointer is null or valid for reads by the contract of the type.
        unsafe { self.0.as_ref() }
    }
}

/// A text of the caller: NULL, or NUL-terminated. `C` is the pointer type that C declares.
pub(super) struct CText<C = *const c_char>(*const c_char, PhantomData<C>);

impl<C: Pointer> FromC for CText<C> {
    type C = C;
}

impl<C: Pointer> Argument for CText<C> {
    #[inline]
    unsafe fn of(c: C) -> Self {
        CText(c.address().cast(), PhantomData)
    }
}

impl<C> CText<C> {
    /// Returns the text. Returns an error for NULL. Bytes that are not UTF-8 are replaced.
    pub(super) fn required(&self, argument: &str) -> Result<String, Failure> {
        Ok(self.as_it_is(argument)?.to_string_lossy().into_owned())
    }

    /// Returns the text, including bytes that are not UTF-8. Returns an error for NULL.
    pub(super) fn as_it_is(&self, argument: &str) -> Result<&CStr, Failure> {
        self.given().ok_or_else(|| Failure::null(argument))
    }

    /// Returns the text; `None` for NULL.
    pub(super) fn given(&self) -> Option<&CStr> {
        // SAFETY: the pointer is not null, so the text is NUL-terminated by the contract of the
        // type.
        (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) })
    }
}
