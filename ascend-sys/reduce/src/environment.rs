//! The floating-point control of the thread that runs a reduction.
//!
//! A program may set another rounding direction, flush subnormal numbers to zero, or enable traps
//! in the threads in which it computes (mathematical libraries do so for speed). A reduction runs
//! on any waiting thread, and its result must not depend on that thread's settings.

/// The standard floating-point control of the calling thread, while the value exists: rounding to
/// nearest, subnormal numbers kept, no traps. Dropping the value restores the earlier settings of
/// the thread.
pub struct Standard(Option<control::Word>);

impl Standard {
    #[inline]
    /// Sets the standard control of the calling thread until the value is dropped.
    pub fn set() -> Self {
        let before = control::read();
        if control::is_standard(before) {
            return Self(None);
        }
        control::write(control::STANDARD);
        Self(Some(before))
    }
}

impl Drop for Standard {
    #[inline]
    fn drop(&mut self) {
        if let Self(Some(before)) = *self {
            control::write(before);
        }
    }
}

// The assembly here is volatile, and so is every access of a kernel to memory. So the compiler
// keeps them in order, and computes a result between the load of its inputs and its store.

#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(super) mod control {
    use core::arch::asm;

    /// The MXCSR register.
    pub(crate) type Word = u32;
    pub(crate) const STANDARD: Word = 0x1F80;
    /// The flags of past exceptions, which control nothing.
    const FLAGS: Word = 0x3F;

    #[inline]
    pub(crate) fn read() -> Word {
        let mut word: Word = 0;
        // SAFETY: the instruction writes four bytes to a local variable.
        unsafe {
            asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags));
        }
        word
    }

    pub(crate) fn write(word: Word) {
        // SAFETY: the instruction reads four bytes of a local variable. The word is `STANDARD` or
        // comes from `read`, so it sets no reserved bit. Compiled code may run only with the
        // standard control, so kernels compute only between the two writes: see above.
        unsafe {
            asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags));
        }
    }

    #[inline]
    pub(super) fn is_standard(word: Word) -> bool {
        word & !FLAGS == STANDARD
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
pub(super) mod control {
    use core::arch::asm;

    /// The FPCR register, which has only control bits.
    pub(crate) type Word = u64;
    pub(crate) const STANDARD: Word = 0;

    #[inline]
    pub(crate) fn read() -> Word {
        let word: Word;
        // SAFETY: the instruction reads a register that user code may read.
        unsafe { asm!("mrs {}, fpcr", out(reg) word, options(nomem, nostack, preserves_flags)) };
        word
    }

    pub(crate) fn write(word: Word) {
        // SAFETY: the instruction writes a register that user code may write, and the word is
        // `STANDARD` or comes from `read`. To the compiler the assembly touches memory, so no
        // access moves across it.
        unsafe { asm!("msr fpcr, {}", in(reg) word, options(nostack, preserves_flags)) };
    }

    #[inline]
    pub(super) fn is_standard(word: Word) -> bool {
        word == STANDARD
    }
}

/// The control under Miri, which has only the standard settings.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod control {
    pub(super) type Word = ();
    pub(super) const STANDARD: Word = ();
    pub(super) fn read() -> Word {}
    pub(super) fn write(_: Word) {}
    pub(super) fn is_standard(_: Word) -> bool {
        true
    }
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
pub(super) mod tests {
    use super::{Standard, control};

    /// A control that rounds up, and flushes subnormal numbers to zero when they are read or
    /// computed.
    #[cfg(target_arch = "x86_64")]
    pub(crate) const ODD: control::Word = control::STANDARD | 1 << 15 | 0b10 << 13 | 1 << 6;
    #[cfg(target_arch = "aarch64")]
    pub(crate) const ODD: control::Word = 1 << 24 | 0b01 << 22;

    /// Runs `run` under the [`ODD`] control, and checks that the control is still odd afterwards.
    pub(crate) fn under_odd_control<R>(run: impl FnOnce() -> R) -> R {
        let before = control::read();
        control::write(ODD);
        let result = run();
        let after = control::read();
        control::write(before);
        assert!(control::is_standard(before) && !control::is_standard(after), "{after:#x}");
        result
    }

    #[test]
    fn the_standard_holds_until_it_is_dropped() {
        let inside = under_odd_control(|| {
            let _standard = Standard::set();
            control::read()
        });
        assert!(control::is_standard(inside));
    }
}
