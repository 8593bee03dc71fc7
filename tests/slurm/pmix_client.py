"""A PMIx client in a few lines, to see whether a lab's PMIx works: put, commit, fence, get.

Prints its rank and the blobs that it got from all ranks. Run by srun --mpi=pmix.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os

# pmix_common.h, PMIx 4
_BOOL, _BYTE_OBJECT = 1, 27
_GLOBAL = 3
_WILDCARD = 0xFFFFFFFE


class Proc(ctypes.Structure):
    _fields_ = (("nspace", ctypes.c_char * 256), ("rank", ctypes.c_uint32))


class ByteObject(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_void_p), ("size", ctypes.c_size_t))


class Data(ctypes.Union):
    _fields_ = (
        ("flag", ctypes.c_bool),
        ("blob", ByteObject),
        # The union's largest member is three words long.
        ("room", ctypes.c_uint64 * 3),
    )


class Value(ctypes.Structure):
    _fields_ = (("type", ctypes.c_uint16), ("data", Data))


class Info(ctypes.Structure):
    _fields_ = (("key", ctypes.c_char * 512), ("flags", ctypes.c_uint32), ("value", Value))


def main() -> None:
    lib = ctypes.CDLL("libpmix.so.2")
    lib.PMIx_Put.argtypes = [ctypes.c_uint8, ctypes.c_char_p, ctypes.c_void_p]
    lib.PMIx_Fence.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t]
    lib.PMIx_Get.argtypes = [
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_void_p,
    ]

    def check(code: int) -> None:
        if code:
            raise SystemExit(f"PMIx error {code}")

    me = Proc()
    check(lib.PMIx_Init(ctypes.byref(me), None, 0))
    text = f"{me.rank}@{os.environ['SLURMD_NODENAME']}".encode()
    buffer = ctypes.create_string_buffer(text, len(text))
    mine = Value(_BYTE_OBJECT)
    mine.data.blob = ByteObject(ctypes.cast(buffer, ctypes.c_void_p), len(text))
    check(lib.PMIx_Put(_GLOBAL, b"test.blob", ctypes.byref(mine)))
    check(lib.PMIx_Commit())

    everyone = Proc(me.nspace, _WILDCARD)
    collect = Info(b"pmix.collect", 0, Value(_BOOL, Data(flag=True)))
    check(lib.PMIx_Fence(ctypes.byref(everyone), 1, ctypes.byref(collect), 1))

    got = []
    for rank in range(int(os.environ["SLURM_NTASKS"])):
        answer = ctypes.POINTER(Value)()
        peer = Proc(me.nspace, rank)
        check(lib.PMIx_Get(ctypes.byref(peer), b"test.blob", None, 0, ctypes.byref(answer)))
        blob = answer.contents.data.blob
        got.append(ctypes.string_at(blob.bytes, blob.size).decode())
    check(lib.PMIx_Finalize(None, 0))
    print(me.rank, *got, flush=True)


main()
