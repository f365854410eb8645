"""An all-reduce of four ranks, one thread each, through ctypes. Prints a line for each rank.

The program finds the libraries by their names: on the loader's path, or loaded before by
`import ascend_emulator`.
"""

import ctypes
import threading
from ctypes import byref, c_char, c_int32, c_size_t, c_uint32, c_uint64, c_void_p

RANKS, COUNT = 4, 1000
BYTES = COUNT * 4
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
FP32, SUM = 4, 0

acl = ctypes.CDLL("libascendcl.so")
hcomm = ctypes.CDLL("libhcomm.so")
hccl = ctypes.CDLL("libhccl.so")
acl.aclGetRecentErrMsg.restype = ctypes.c_char_p


class RootInfo(ctypes.Structure):
    _fields_ = [("internal", c_char * 4108)]


def check(function, *arguments):
    code = function(*arguments)
    if code != 0:
        text = acl.aclGetRecentErrMsg() or b""
        raise RuntimeError(f"{function.__name__} returned {code}: {text.decode()}")


def run(rank, root, lines):
    check(acl.aclrtSetDevice, c_int32(rank))
    comm, stream, data = c_void_p(), c_void_p(), c_void_p()
    check(hcomm.HcclCommInitRootInfo, c_uint32(RANKS), byref(root), c_uint32(rank), byref(comm))
    check(acl.aclrtCreateStream, byref(stream))
    check(acl.aclrtMalloc, byref(data), c_size_t(BYTES), 0)
    values = (ctypes.c_float * COUNT)(*range(rank, rank + COUNT))
    check(acl.aclrtMemcpy, data, c_size_t(BYTES), values, c_size_t(BYTES), HOST_TO_DEVICE)
    check(hccl.HcclAllReduce, data, data, c_uint64(COUNT), FP32, SUM, comm, stream)
    check(acl.aclrtSynchronizeStream, stream)
    check(acl.aclrtMemcpy, values, c_size_t(BYTES), data, c_size_t(BYTES), DEVICE_TO_HOST)
    wrong = sum(value != RANKS * i + sum(range(RANKS)) for i, value in enumerate(values))
    lines[rank] = f"rank {rank}: {wrong} sums of {COUNT} are wrong"
    check(acl.aclrtFree, data)
    check(acl.aclrtDestroyStream, stream)
    check(hcomm.HcclCommDestroy, comm)


def main():
    check(acl.aclInit, None)
    check(acl.aclrtSetDevice, c_int32(0))
    root = RootInfo()
    check(hcomm.HcclGetRootInfo, byref(root))
    lines = ["has failed"] * RANKS
    threads = [threading.Thread(target=run, args=(rank, root, lines)) for rank in range(RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("\n".join(lines))
    check(acl.aclFinalize)


main()
