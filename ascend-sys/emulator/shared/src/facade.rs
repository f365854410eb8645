//! The names of the thin libraries, the symbols that they hold, and the assembly of their jumps.

use std::fmt::Write;

use ascend_emulator::{Undeclared, undeclared};
use ascend_sys::{Functions, Library, SYMBOLS};

use crate::home::HEADERS;

/// A thin library, which replaces a library of a CANN installation.
pub struct Facade {
    /// The file name, which is also the name that the loader uses for the library.
    pub file: &'static str,
    /// The thin libraries that it needs besides the core. They correspond to those that CANN's
    /// library needs.
    pub needs: &'static [&'static str],
    /// The libraries whose symbols it holds. As in CANN, more than one library has the functions of
    /// the runtime.
    homes: &'static [Library],
    /// The symbols that the library holds in addition to those of `homes`.
    extra: Extra,
    /// The private headers of CANN whose functions it holds, by the beginnings of their names.
    private: &'static [&'static str],
}

/// The symbols that a library holds in addition to those of its `homes`.
enum Extra {
    None,
    Named(&'static [&'static str]),
    /// All functions that a header declares.
    Declared(&'static str),
}

impl Extra {
    fn has(&self, name: &str) -> bool {
        match self {
            Extra::None => false,
            Extra::Named(names) => names.contains(&name),
            Extra::Declared(header) => declares(header, name),
        }
    }
}

/// The thin libraries in link order: each comes after the libraries that it needs.
pub const FACADES: &[Facade] = &[
    Facade {
        file: "libacl_rt.so",
        needs: &[],
        homes: &[Library::AclRt, Library::Extension],
        extra: Extra::None,
        private: &[],
    },
    Facade {
        file: "libascendcl.so",
        needs: &["libacl_rt.so"],
        homes: &[Library::AclRt, Library::Extension],
        extra: Extra::None,
        private: &[],
    },
    Facade {
        file: "libhcomm.so",
        needs: &["libacl_rt.so"],
        homes: &[Library::Hcomm],
        extra: Extra::Named(&["HcclBarrier"]),
        private: &["hccl/", "hcomm/"],
    },
    // CANN's library has stand-ins for functions that an older libhcomm.so lacks. Our libhcomm.so
    // lacks no function.
    Facade {
        file: "libhccl_compat.so",
        needs: &["libacl_rt.so"],
        homes: &[],
        extra: Extra::None,
        private: &[],
    },
    Facade {
        file: "libhccl.so",
        needs: &["libhcomm.so", "libhccl_compat.so", "libacl_rt.so"],
        homes: &[Library::Hccl],
        extra: Extra::None,
        private: &[],
    },
    Facade {
        file: "libmsprofiler.so",
        needs: &["libacl_rt.so"],
        homes: &[Library::MsProfiler],
        extra: Extra::None,
        private: &[],
    },
    // CANN's library is for the processors of the device. Kernels of the AI CPU find the primitives
    // and the functions of diagnosis in it.
    Facade {
        file: "libccl_kernel.so",
        needs: &[],
        homes: &[],
        extra: Extra::Declared("hcomm/hcomm_primitives.h"),
        private: &["hccl/hccl_diag.h", "hccl/hcomm_diag.h", "hcomm/hcomm_primitives_expt.h"],
    },
];

/// Other names of the libraries, each with the library that it is a link to.
pub const LINKS: &[(&str, &str)] = &[("libhccl_fwk.so", "libhcomm.so")];

impl Facade {
    /// Returns the functions of the emulator that this library holds, each with its name and its
    /// byte offset in the table.
    pub fn symbols(&self, table: &Functions) -> Vec<(&'static str, usize)> {
        let held = SYMBOLS.iter().enumerate().filter_map(|(index, symbol)| {
            let name = symbol.name.to_str().ok()?;
            let here = self.homes.contains(&symbol.library) || self.extra.has(name);
            (here && table.address(name).is_some()).then_some((name, index * size_of::<usize>()))
        });
        held.collect()
    }

    /// Returns the functions without a published signature that this library holds, each with its
    /// index in [`undeclared`].
    pub fn undeclared(&self) -> Vec<(&'static str, usize)> {
        let is_here = |list: &Undeclared| {
            self.private.iter().any(|beginning| list.header.starts_with(beginning))
        };
        let held = undeclared().enumerate().filter(|(_, (list, _))| is_here(list));
        held.map(|(index, (_, name))| (name, index)).collect()
    }
}

/// Returns whether one of our headers declares a function.
fn declares(header: &str, function: &str) -> bool {
    let found = HEADERS.iter().find(|(name, _)| *name == header);
    found.is_some_and(|(_, text)| {
        let mut uses = text.match_indices(function);
        uses.any(|(at, _)| {
            let is_whole = !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            is_whole && text[at + function.len()..].starts_with('(')
        })
    })
}

/// The processors for which we write jumps.
pub enum Arch {
    /// The architecture x86_64.
    X86,
    /// The architecture aarch64.
    Arm,
}

impl Arch {
    /// Returns the processor for which this program was built, if we write jumps for it.
    pub fn current() -> Option<Arch> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Arch::X86),
            "aarch64" => Some(Arch::Arm),
            _ => None,
        }
    }

    /// Returns a constructor that fetches the table from the core, and one jump for each symbol. A
    /// jump through the table keeps every register that carries an argument. That includes al,
    /// which counts the vector registers of a variadic call. A jump of an undeclared function
    /// passes its index instead.
    pub fn assembly(&self, symbols: &[(&str, usize)], undeclared: &[(&str, usize)]) -> String {
        let (setup, load, call) = match self {
            Arch::X86 => (
                "    endbr64\n    subq $8, %rsp\n    call ascend_emulator_table@PLT\n    \
                 movq %rax, table(%rip)\n    addq $8, %rsp\n    ret\n",
                "    endbr64\n    movq table(%rip), %r11\n    jmp *OFFSET(%r11)\n",
                "    endbr64\n    movl $INDEX, %edi\n    jmp ascend_emulator_undeclared@PLT\n",
            ),
            Arch::Arm => (
                "    stp x29, x30, [sp, #-16]!\n    bl ascend_emulator_table\n    adrp x16, table\n    \
                 str x0, [x16, #:lo12:table]\n    ldp x29, x30, [sp], #16\n    ret\n",
                "    adrp x16, table\n    ldr x16, [x16, #:lo12:table]\n    ldr x16, [x16, #OFFSET]\n    \
                 br x16\n",
                "    mov w0, #INDEX\n    b ascend_emulator_undeclared\n",
            ),
        };
        let mut text = format!(
            ".local table\n.comm table, 8, 8\n.section .init_array, \"aw\"\n    .balign 8\n    \
             .quad fetch_table\n.text\nfetch_table:\n{setup}"
        );
        let table =
            symbols.iter().map(|(name, at)| (*name, load.replace("OFFSET", &at.to_string())));
        let others =
            undeclared.iter().map(|(name, at)| (*name, call.replace("INDEX", &at.to_string())));
        for (name, jump) in table.chain(others) {
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                ".globl {name}\n.type {name}, %function\n{name}:\n{jump}.size {name}, .-{name}\n"
            );
        }
        text
    }
}
