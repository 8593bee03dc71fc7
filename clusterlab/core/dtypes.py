"""Element types: our names (torch's), nccl-tests' names, common spellings, width in bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from clusterlab.core.suggest import unknown

Kind = Literal["int", "float"]


@dataclass(frozen=True, slots=True)
class Dtype:
    """One element type.

    ``epsilon`` is the spacing of 1.0 (2^-mantissa bits): the unit of rounding of one operation; 0 for
    integers. ``max_exact_int`` is the largest integer up to which every integer is represented.
    """

    name: str
    nccl_tests: str
    bytes: int
    kind: Kind
    epsilon: float
    max_exact_int: int
    aliases: tuple[str, ...] = ()


_ALL = (
    Dtype("int8", "int8", 1, "int", 0.0, 127, ("char",)),
    Dtype("uint8", "uint8", 1, "int", 0.0, 255, ("byte",)),
    Dtype("int32", "int32", 4, "int", 0.0, 2**31 - 1, ("int",)),
    Dtype("int64", "int64", 8, "int", 0.0, 2**63 - 1, ("long",)),
    Dtype("float16", "half", 2, "float", 2.0**-10, 2**11, ("fp16", "f16")),
    Dtype("float32", "float", 4, "float", 2.0**-23, 2**24, ("fp32", "f32")),
    Dtype("float64", "double", 8, "float", 2.0**-52, 2**53, ("fp64", "f64")),
    Dtype("bfloat16", "bfloat16", 2, "float", 2.0**-7, 2**8, ("bf16",)),
    Dtype("float8_e4m3fn", "f8e4m3", 1, "float", 2.0**-3, 2**4, ("fp8", "fp8_e4m3", "e4m3")),
    Dtype("float8_e5m2", "f8e5m2", 1, "float", 2.0**-2, 2**3, ("fp8_e5m2", "e5m2")),
)

DTYPES: dict[str, Dtype] = {d.name: d for d in _ALL}

_SPELLINGS = {s: d for d in _ALL for s in (d.name, d.nccl_tests, *d.aliases)}


def dtype(name: str) -> Dtype:
    """The element type called ``name`` in torch, nccl-tests or common speech. Raises UsageError."""
    found = _SPELLINGS.get(name.lower().removeprefix("torch."))
    if found is None:
        raise unknown("dtype", name, DTYPES)
    return found


def dtypes(text: str) -> list[Dtype]:
    """A comma-separated list of element types, or ``all``."""
    if text.lower() == "all":
        return list(_ALL)
    return [dtype(part.strip()) for part in text.split(",")]
