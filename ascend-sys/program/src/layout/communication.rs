//! Finds CANN's communication structs in a tiling struct, at any depth.

use super::parts::borrowed;
use super::{Item, Layout, Role};

/// The greatest number of `Mc2CcTiling` structs that belong to one `Mc2InitTiling`.
pub const MAX_CC_TILINGS: usize = 8;

/// The offsets of the `Mc2InitTiling` and the `Mc2CcTiling` in a tiling struct, in bytes from its
/// start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Communication {
    /// The number of `Mc2InitTiling`.
    inits: usize,
    /// The offset of the last `Mc2InitTiling`.
    last_init: u64,
    /// The number of `Mc2CcTiling`. It stops at one more than `cc_tilings` has room for.
    count: usize,
    cc_tilings: [u64; MAX_CC_TILINGS],
}

impl Communication {
    /// Finds the communication structs in a struct.
    pub const fn of(layout: &Layout) -> Self {
        let none = Self { inits: 0, last_init: 0, count: 0, cc_tilings: [0; MAX_CC_TILINGS] };
        none.with(layout, 0, layout.fields().len())
    }

    /// Finds the communication structs in the first `fields` fields only.
    pub(super) const fn of_first(layout: &Layout, fields: usize) -> Self {
        let none = Self { inits: 0, last_init: 0, count: 0, cc_tilings: [0; MAX_CC_TILINGS] };
        none.with(layout, 0, fields)
    }

    const fn with(mut self, layout: &Layout, base: u64, fields: usize) -> Self {
        match layout.role {
            Role::User => {}
            Role::InitTiling => {
                self.inits += 1;
                self.last_init = base;
                return self;
            }
            Role::CcTiling => {
                if self.count < MAX_CC_TILINGS {
                    self.cc_tilings[self.count] = base;
                }
                self.count += 1;
                return self;
            }
            Role::CubeTiling => return self,
        }
        let mut i = 0;
        while i < fields {
            let field = &layout.fields()[i];
            if let Item::Struct(inner) = &field.item {
                let (inner, count) = (borrowed(inner), field.count());
                // One element shows whether there is anything to find, so a long array of plain
                // structs costs nothing. If there are too many communication structs, the rest is
                // not counted.
                let before = (self.inits, self.count);
                let mut n = 0;
                while n < count && self.inits <= 1 && self.count <= MAX_CC_TILINGS {
                    let at = base.saturating_add(field.offset as u64);
                    let at = at.saturating_add(n.saturating_mul(inner.size as u64));
                    self = self.with(inner, at, inner.fields().len());
                    if before.0 == self.inits && before.1 == self.count {
                        break;
                    }
                    n += 1;
                }
            }
            i += 1;
        }
        self
    }

    /// Returns whether there is an `Mc2InitTiling`.
    pub const fn has_init(&self) -> bool {
        self.inits > 0
    }

    pub(super) const fn inits(&self) -> usize {
        self.inits
    }

    pub(super) const fn last_init(&self) -> u64 {
        self.last_init
    }

    /// Returns the number of `Mc2CcTiling`. One more than [`MAX_CC_TILINGS`] means that there are
    /// too many.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Returns the offsets of the `Mc2CcTiling`, at most the first [`MAX_CC_TILINGS`]. They are the
    /// arguments of `SetCcTilingV2`.
    pub const fn cc_tilings(&self) -> &[u64] {
        let count = if self.count < MAX_CC_TILINGS { self.count } else { MAX_CC_TILINGS };
        self.cc_tilings.split_at(count).0
    }
}
