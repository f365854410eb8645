"""CANN's AscendCL and HCCL on virtual NPUs.

Importing this package loads the emulator's libraries, so that the loader finds them under CANN's
names afterwards: `ctypes.CDLL("libhccl.so")`, and extension modules that are linked with them. Other
programs find them with `LD_LIBRARY_PATH=$(python -m ascend_emulator)`.
"""

import ctypes
import pathlib

home = pathlib.Path(__file__).resolve().parent / "cann"
"""The directory that stands in for ASCEND_HOME_PATH."""

lib = home / "lib64"
"""The directory of the libraries, for LD_LIBRARY_PATH."""

# They stay loaded: the loader looks for a name among the loaded libraries first.
_loaded = [
    ctypes.CDLL(str(lib / name))
    for name in (
        "libacl_rt.so",
        "libascendcl.so",
        "libhcomm.so",
        "libhccl.so",
        "libmsprofiler.so",
        "libccl_kernel.so",
    )
]
