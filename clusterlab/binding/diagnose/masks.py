"""Rules about what a mask says: CUDA_VISIBLE_DEVICES as the driver reads it, rank by rank.

Evaluated by ``clusterlab.binding.masks`` (driver 580) over the GPUs the process may open. Where the
record shows more devices than the mask can give, the mask is not what decided, and these rules rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from clusterlab.binding.diagnose.saying import finding, quoted, who
from clusterlab.binding.diagnose.scene import Scene
from clusterlab.binding.diagnose.sound_masks import mask_command, sound_entries
from clusterlab.binding.diagnose.variables import MASKS
from clusterlab.binding.records import RankRecord
from clusterlab.core.digits import saturated
from clusterlab.core.findings import Finding

CVD = "CUDA_VISIBLE_DEVICES"

_ORDINAL = re.compile(r"\s*[+]?[0-9]+\s*", re.ASCII)
_NONE = re.compile(r"\s*(-[0-9]+|NoDevFiles|none|void)\s*", re.IGNORECASE | re.ASCII)
_GPU = re.compile(r"GPU-[0-9A-Fa-f-]+")
_MIG = re.compile(r"MIG-[0-9A-Za-z/_-]+")
_NO_DEVICE = re.compile(
    r"no (cuda|gpu|nvidia)|device_count\(\) *== *0|NO_DEVICE|NoDevice", re.IGNORECASE
)
_INT_PARSER = re.compile(
    r"strconv\.|\bAtoi\b"
    r"|invalid literal for int|could not convert|stoi|NumberFormat|ParseInt|not a valid integer",
    re.IGNORECASE,
)
_COUNTS_NONE = re.compile(
    r"device_count\(\)\s*==\s*0|is_available\(\)\s*==\s*False|no (cuda )?gpus? |0 (gpus|devices)"
    r"|no cuda gpus are available|not find any gpu|NVMLError|nvmlDeviceGetHandleByIndex",
    re.IGNORECASE,
)
_OLD_TORCH = re.compile(r"(?:py)?torch[-= ]?(?:0|1)\.[0-9]", re.IGNORECASE)


def kinds(mask: str) -> list[str]:
    """What each entry is: ordinal, gpu, mig, none or other."""
    found = []
    for entry in mask.split(","):
        if _ORDINAL.fullmatch(entry):
            found.append("ordinal")
        elif _GPU.fullmatch(entry):
            found.append("gpu")
        elif _MIG.fullmatch(entry):
            found.append("mig")
        else:
            found.append("none" if _NONE.fullmatch(entry) or not entry.strip() else "other")
    return found


def ordinals(mask: str) -> list[int]:
    """The ordinals in ``mask``; [] when it has other entries."""
    entries = [e for e in mask.split(",") if e.strip()]
    if not entries or not all(_ORDINAL.fullmatch(e) for e in entries):
        return []
    return [saturated(e.strip().removeprefix("+")) for e in entries]


def cuda_masked(scene: Scene) -> Iterable[tuple[RankRecord, str]]:
    """Ranks whose CUDA mask decides what they see, with it."""
    for rank in scene.ranks:
        mask = rank.env.get(CVD)
        if mask is None or scene.vendor(rank) != "nvidia":
            continue
        result = scene.mask_result(rank)
        if result is not None and rank.visible and len(rank.visible) > len(result.devices):
            continue
        yield rank, mask


def duplicate_entry(scene: Scene) -> Iterable[Finding]:
    """CVD_DUPLICATE_ENTRY: a device named twice; the driver then exposes none (cuInit: 101)."""
    bad, evidence = [], []
    for rank, mask in cuda_masked(scene):
        result = scene.mask_result(rank)
        twice = _repeated(mask)
        invalid = result is not None and result.error is not None and result.error.code == 101
        if invalid or (result is None and twice):
            bad.append(rank)
            evidence.append(f"{who(rank)}: {CVD}={mask!r} names a device twice; CUDA exposes none")
    if bad:
        fix = mask_command(scene, bad[0], bad[0].env[CVD])
        yield finding("CVD_DUPLICATE_ENTRY", bad, evidence, fix)


def _repeated(mask: str) -> bool:
    entries = [e.strip() for e in mask.split(",") if e.strip()]
    return len(set(entries)) < len(entries)


def syntax(scene: Scene) -> Iterable[Finding]:
    """CVD_SYNTAX: an entry that is neither a number, GPU-… nor MIG-…; or kinds mixed in one list."""
    bad, evidence = [], []
    for rank, mask in cuda_masked(scene):
        found = set(kinds(mask)) - {"none"}
        if "other" not in found and len(found) <= 1:
            continue
        result = scene.mask_result(rank)
        reads = f"the driver reads {len(result.devices)} of it" if result else "not CUDA's grammar"
        bad.append(rank)
        evidence.append(f"{who(rank)}: {CVD}={mask!r}: {reads}")
    if bad:
        yield finding("CVD_SYNTAX", bad, evidence, mask_command(scene, bad[0], bad[0].env[CVD]))


def truncated(scene: Scene) -> Iterable[Finding]:
    """CVD_TRUNCATED: an entry that names no device hides every entry after it."""
    bad, evidence = [], []
    for rank, mask in cuda_masked(scene):
        result = scene.mask_result(rank)
        entries = mask.split(",")
        if result is None:
            dropped = _after_none(entries)
            seen = len(entries) - len(dropped)
        else:
            dropped, seen = list(result.ignored), len(result.devices)
        if not seen or not any(e.strip() for e in dropped) or "mig" in kinds(mask):
            continue
        bad.append(rank)
        evidence.append(
            f"{who(rank)}: {CVD}={mask!r}: {dropped[0]!r} names no device here, so CUDA stops there"
            f" and sees {seen}"
        )
    if bad:
        fix = _list_fix(scene, bad)
        yield finding("CVD_TRUNCATED", bad, evidence, fix)


def _list_fix(scene: Scene, ranks: Sequence[RankRecord]) -> str:
    """A mask of devices that exist: one for each rank of the host, or else fewer ranks."""
    from clusterlab.binding import fixes

    there = [r for r in scene.ranks if r.host == ranks[0].host]
    entries = sound_entries(scene, ranks[0], ranks[0].env[CVD])
    line = mask_command(scene, ranks[0], ranks[0].env[CVD])
    tasks, left = fixes.tasks_per_node(there), len(entries)
    alone = len({r.env.get(CVD) for r in there}) == len(there) > 1
    if alone or left >= tasks or not entries:
        return fixes.paste(line, note="list only devices that exist")
    indices = ordinals(",".join(entries))
    count = len(scene.enumerable(ranks[0]) or ())
    if indices and count >= tasks:
        spare = [i for i in range(count) if i not in indices]
        whole = fixes.comma(sorted([*indices, *spare][:tasks]))
        return fixes.paste(
            mask_command(scene, ranks[0], whole),
            note=f"{tasks} ranks need {tasks} devices that exist",
        )
    return fixes.paste(
        line, note=f"{left} devices are left: start {left} ranks per node, not {tasks}"
    )


def _after_none(entries: list[str]) -> list[str]:
    at = next((i for i, e in enumerate(entries) if _NONE.fullmatch(e)), len(entries))
    return entries[at:]


def empty(scene: Scene) -> Iterable[Finding]:
    """CVD_EMPTY: a mask that is set and leaves no device."""
    bad, evidence = [], []
    for rank in scene.ranks:
        name = next((n for n in MASKS if n in rank.env), None)
        if name is None or rank.visible:
            continue
        mask = rank.env[name]
        result = scene.mask_result(rank) if name == CVD else None
        nothing = result is not None and not result.devices
        if nothing or rank.visible == () or not mask.strip() or set(kinds(mask)) == {"none"}:
            bad.append(rank)
            saw = f"; {quoted(rank.error)}" if _NO_DEVICE.search(rank.error) else ""
            hidden = "no device is seen with" if name != CVD or not nothing else ""
            words = f"{hidden} {name}={mask!r}" if hidden else f"{name}={mask!r} leaves no device"
            inner = _stacked(rank)
            if inner:
                words += f" and {inner}={rank.env[inner]!r} on top of it"
            evidence.append(f"{who(rank)}: {words}{saw}")
    if bad:
        name = next(n for n in MASKS if n in bad[0].env)
        blank = set(kinds(bad[0].env[name])) == {"none"}
        why = "set but empty it hides every GPU" if blank else "it names no device that exists here"
        inner = _stacked(bad[0])
        if inner:
            name, why = inner, f"{name} has filtered and renumbered from 0 before {inner} is read"
        fix = f"unset {name}\n# {why}; or list this rank's own: export {name}=0"
        bare = [r for r in bad if r.container and not scene.enumerable(r) and scene.node(r)]
        if bare:
            from clusterlab.binding.fixes import gpus_into_container

            fix = gpus_into_container(scene, bare[0])
        yield finding("CVD_EMPTY", bad, evidence, fix)


def _stacked(rank: RankRecord) -> str | None:
    """The mask that indexes what ROCR_VISIBLE_DEVICES left, where both are set."""
    if not rank.env.get("ROCR_VISIBLE_DEVICES"):
        return None
    return next((n for n in ("HIP_VISIBLE_DEVICES", CVD) if rank.env.get(n)), None)


def uuid_unparsed(scene: Scene) -> Iterable[Finding]:
    """CVD_UUID_UNPARSED: a mask of UUIDs, valid for CUDA, that the program takes for numbers."""
    bad, evidence = [], []
    for rank in scene.ranks:
        mask = rank.env.get(CVD, "")
        if not set(kinds(mask)) & {"gpu", "mig"}:
            continue
        text = f"{rank.error} {rank.stderr}"
        counts_none = bool(rank.visible) and _COUNTS_NONE.search(text)
        old = bool(rank.visible) and _OLD_TORCH.search(rank.framework or "") and text.strip()
        named = any(e.strip() and e.strip() in text for e in mask.split(","))
        result = scene.mask_result(rank)
        sees = bool(rank.visible or (result and result.devices))
        none = rank.declared_devices == 0 and sees and rank.visible != ()
        if _INT_PARSER.search(text) or counts_none or old or named or none:
            bad.append(rank)
            said = quoted(rank.error or rank.stderr) if text.strip() else "it has 0 devices"
            evidence.append(f"{who(rank)}: {CVD}={mask} is right for CUDA; the program says {said}")
    if bad:
        fix = (
            "export CUDA_DEVICE_ORDER=PCI_BUS_ID"
            f" {CVD}=$(nvidia-smi --id=${CVD} --query-gpu=index --format=csv,noheader | paste -sd,)\n"
            "# gives the program ordinals; in code treat entries as text and count with"
            " torch.cuda.device_count() (torch 2.0 or later)"
        )
        if "mig" in kinds(bad[0].env[CVD]):
            fix = (
                "# treat mask entries as text: CUDA's ordinal is 0, NVML wants the MIG UUID; upgrade the"
                f" program to one that does not int() {CVD} (torch 2.0 or later counts them)"
            )
        yield finding("CVD_UUID_UNPARSED", bad, evidence, fix)


def mask_against_view(scene: Scene) -> Iterable[Finding]:
    """RECORD_CONTRADICTION: a mask that gives no device, of a rank that is said to see some."""
    bad = []
    for rank in scene.ranks:
        result = scene.mask_result(rank)
        gpus = scene.enumerable(rank) or []
        named = set(kinds(rank.env.get(CVD, ""))) <= {"ordinal", "none"} or all(
            g.uuid for g in gpus
        )
        late = rank.env_at_exec is not None or rank.cuda_initialized_before_set
        if (
            result is not None
            and not result.devices
            and rank.visible
            and gpus
            and named
            and not late
        ):
            bad.append(rank)
    if bad:
        evidence = [
            f"{who(r)}: {CVD}={r.env[CVD]!r} leaves nothing, said to see {len(r.visible or ())}"
            for r in bad
        ]
        fix = "clusterlab doctor --bundle DIR\n# record it anew, under the same launcher"
        yield finding("RECORD_CONTRADICTION", bad, evidence, fix)


RULES = (duplicate_entry, syntax, truncated, empty, uuid_unparsed, mask_against_view)
