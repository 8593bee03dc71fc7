"""libpmix's C structures and entry points by ctypes (PMIx 3 to 6: pmix_common.h, same layout since 3)."""

from __future__ import annotations

import ctypes as c
import re
from collections.abc import Callable

from clusterlab.launch.pmix_types import PmixValue

MAX_NAMESPACE = 255  # PMIX_MAX_NSLEN
MAX_KEY = 511  # PMIX_MAX_KEYLEN
SUPPORTED_MAJORS = range(3, 7)

# pmix_data_type_t
BOOL, BYTE, STRING, SIZE = 1, 2, 3, 4
INT, INT8, INT16, INT32, INT64 = 6, 7, 8, 9, 10
UINT, UINT8, UINT16, UINT32, UINT64 = 11, 12, 13, 14, 15
FLOAT, DOUBLE, BYTE_OBJECT, PROC_RANK = 16, 17, 27, 40

GLOBAL_SCOPE = 3  # PMIX_GLOBAL: ranks on this node and on others


class Proc(c.Structure):
    """pmix_proc_t"""

    _fields_ = (("nspace", c.c_char * (MAX_NAMESPACE + 1)), ("rank", c.c_uint32))


class ByteObject(c.Structure):
    """pmix_byte_object_t"""

    _fields_ = (("bytes", c.c_void_p), ("size", c.c_size_t))


class _Envar(c.Structure):
    """pmix_envar_t: the widest member of the union, so its size counts."""

    _fields_ = (("envar", c.c_char_p), ("value", c.c_char_p), ("separator", c.c_char))


class _Data(c.Union):
    _fields_ = (
        ("flag", c.c_bool),
        ("byte", c.c_uint8),
        ("string", c.c_char_p),
        ("size", c.c_size_t),
        ("integer", c.c_int),
        ("int8", c.c_int8),
        ("int16", c.c_int16),
        ("int32", c.c_int32),
        ("int64", c.c_int64),
        ("uint", c.c_uint),
        ("uint8", c.c_uint8),
        ("uint16", c.c_uint16),
        ("uint32", c.c_uint32),
        ("uint64", c.c_uint64),
        ("fval", c.c_float),
        ("dval", c.c_double),
        ("bo", ByteObject),
        ("envar", _Envar),
    )


class Value(c.Structure):
    """pmix_value_t"""

    _fields_ = (("type", c.c_uint16), ("data", _Data))


class Info(c.Structure):
    """pmix_info_t"""

    _fields_ = (("key", c.c_char * (MAX_KEY + 1)), ("flags", c.c_uint32), ("value", Value))


_PLAIN_FIELDS = {
    BOOL: "flag",
    BYTE: "byte",
    SIZE: "size",
    INT: "integer",
    INT8: "int8",
    INT16: "int16",
    INT32: "int32",
    INT64: "int64",
    UINT: "uint",
    UINT8: "uint8",
    UINT16: "uint16",
    UINT32: "uint32",
    UINT64: "uint64",
    FLOAT: "fval",
    DOUBLE: "dval",
    PROC_RANK: "uint32",
}


def flag_info(key: str) -> Info:
    """A boolean attribute that is true."""
    info = Info()
    info.key = key.encode("ascii")
    info.value.type = BOOL
    info.value.data.flag = True
    return info


def python_value(value: Value, *, limit_bytes: int) -> PmixValue | None:
    """The value as plain data; None for a type nobody here asks for or bytes beyond ``limit_bytes``."""
    field = _PLAIN_FIELDS.get(value.type)
    if field is not None:
        plain: PmixValue = getattr(value.data, field)
        return plain
    if value.type == STRING:
        text = value.data.string
        return text.decode("utf-8", "replace") if text else ""
    if value.type == BYTE_OBJECT and value.data.bo.size <= limit_bytes:
        return c.string_at(value.data.bo.bytes, value.data.bo.size) if value.data.bo.size else b""
    return None


def load_library(path: str) -> c.CDLL:
    """libpmix with its prototypes. CDLL releases the GIL in every call. Raises OSError."""
    library = c.CDLL(path)
    pointer = c.POINTER
    prototypes: dict[str, tuple[type | None, tuple[type, ...]]] = {
        "PMIx_Get_version": (c.c_char_p, ()),
        "PMIx_Error_string": (c.c_char_p, (c.c_int,)),
        "PMIx_Init": (c.c_int, (pointer(Proc), pointer(Info), c.c_size_t)),
        "PMIx_Put": (c.c_int, (c.c_uint8, c.c_char_p, pointer(Value))),
        "PMIx_Commit": (c.c_int, ()),
        "PMIx_Fence": (c.c_int, (pointer(Proc), c.c_size_t, pointer(Info), c.c_size_t)),
        "PMIx_Get": (
            c.c_int,
            (pointer(Proc), c.c_char_p, pointer(Info), c.c_size_t, pointer(pointer(Value))),
        ),
        "PMIx_Finalize": (c.c_int, (pointer(Info), c.c_size_t)),
    }
    for name, (result, arguments) in prototypes.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def major_version(text: str) -> int | None:
    """4 of ``OpenPMIx 4.2.2rc2 (PMIx Standard: 4.2, …)``; None when no version can be read."""
    match = re.search(r"\b(\d{1,3})\.\d", text)
    return int(match[1]) if match else None


def value_releaser(library: c.CDLL) -> Callable[[c._Pointer[Value]], None]:
    """What gives a value that PMIx_Get allocated back: contents, then the struct itself."""
    destruct = getattr(library, "PMIx_Value_destruct", None)  # a function since 4.0, a macro before
    free = c.CDLL(None).free
    free.restype, free.argtypes = None, (c.c_void_p,)

    def release(value: c._Pointer[Value]) -> None:
        if destruct is not None:
            destruct(value)
            free(value)

    return release
