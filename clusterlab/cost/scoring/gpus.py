"""``gpu`` cells and slugs: which chip they name, how it is built, and what they name that nobody knows."""

from __future__ import annotations

import re
from dataclasses import dataclass

from clusterlab.cost.scoring.vocabulary import Form, Vocabulary, letters, vocabulary
from clusterlab.cost.scoring.words import check_length

_FIRST_WORD = re.compile(r"[^a-z0-9]*([a-z][a-z0-9]*)")
_SAYS_NOTHING = re.compile(r"(?:unknown|unstated|unsaid|tbd)\b|^[^a-z0-9]*$")
_MODEL_LIKE = re.compile(
    r"(?<![a-z0-9])(?:mi\d{2,3}[a-z]?|(?:gb|gh|gr|vr|[abhklmprtv])\d{3}[a-z]{0,2}|[gr]tx[^a-z0-9]{0,3}[a-z]?\d{3,4}"
    r"|gaudi\d?|hpu|tpu|npu|ascend|mtt)(?![a-z0-9])"
)
"""What in a slug is a GPU's name, whoever made it."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A chip of the vocabulary; None: not one of them. ``form`` None: not said. ``pairs``: bridged.

    ``names`` is the GPU that is named and not known. ``stands_for``: the vocabulary's chip is taken for
    this one. ``others``: further chips that the text names.
    """

    chip: str | None
    form: Form | None
    pairs: bool = False
    names: str | None = None
    stands_for: str | None = None
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Found:
    """Where a name stands, its chip, and the name where it is only alike."""

    at: int
    chip: str
    alike: str | None


def read_gpu(gpu: str, system: str) -> Gpu:
    """The chip that a ``gpu`` cell names, else the slug; and its form where either says it.

    A cell that names a GPU nobody knows is not overruled by the slug.
    """
    check_length(gpu, "gpu")
    check_length(system, "system")
    cell, slug = gpu.lower(), system.lower()
    words = vocabulary()
    form = next((f for text in (cell, slug) if (f := _form(text)) is not None), None)
    pairs = any(re.search(r"pair|bridge", text) for text in (cell, slug))
    for text in (cell, slug):
        found = _chips(text, words) or _families(text, words) or _systems(text, words)
        if found:
            others = dict.fromkeys(f.chip for f in found if f.chip != found[0].chip)
            return Gpu(found[0].chip, form, pairs, None, found[0].alike, tuple(others))
        if text is cell and _names_one(cell, words):
            return Gpu(None, form, pairs, names=gpu)
    named = _MODEL_LIKE.search(slug)
    return Gpu(None, form, pairs, names=named[0] if named else None)


def _chips(text: str, words: Vocabulary) -> list[_Found]:
    """The chips that ``text`` names, in order; a longer name hides the shorter ones in it."""
    if words.slices & set(re.findall(r"[a-z]+", text)):
        return []  # a part of a GPU has other links, or none
    found = []
    left = text
    for pattern, chip in words.chip_patterns:
        for match in pattern.finditer(left):
            left = left[: match.start()] + " " * len(match[0]) + left[match.end() :]
            following = _FIRST_WORD.match(text, match.end())
            if following is not None and following[1] in words.variants:
                return []
            name = match["name"]
            alike = name if letters(name) in words.alike else None
            found.append(_Found(match.start(), chip, alike))
    return sorted(found, key=lambda one: one.at)


def _families(text: str, words: Vocabulary) -> list[_Found]:
    names = re.findall(r"[a-z]+", text)
    return [
        _Found(0, chip, family) for family, chip in words.chip_of_family.items() if family in names
    ]


def _systems(text: str, words: Vocabulary) -> list[_Found]:
    return [
        _Found(match.start(), chip, None)
        for pattern, chip in words.chip_of_system
        if (match := pattern.search(text)) is not None
    ][:1]


def _names_one(cell: str, words: Vocabulary) -> bool:
    """Whether a cell names a GPU: it holds a word that is not merely about GPUs."""
    if _SAYS_NOTHING.match(cell):
        return False
    names = re.findall(r"[a-z][a-z0-9]*|\d+[a-z]+\d*", cell)
    return any(re.sub(r"^\d+", "", name) not in words.unnamed for name in names)


def _form(text: str) -> Form | None:
    if re.search(r"(?<![a-z])sxm\d?(?![a-z0-9])|(?<![a-z])[hd]gx(?![a-z])", text):
        return "sxm"
    if re.search(r"(?<![a-z])pci-?e?(?![a-z])", text):
        return "pcie"
    return "nvl" if re.search(r"(?<![a-z])nvl(?![a-z0-9])", text) else None
