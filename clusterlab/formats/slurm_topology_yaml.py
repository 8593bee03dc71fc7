"""Slurm's topology.yaml (25.05 and later): a list of topologies, as topology.yaml(5) describes it.

    - topology: gpu
      cluster_default: true
      tree:  {switches: [{switch: spine, children: "leaf[1-2]"}, {switch: leaf1, nodes: "n[1-4]"}]}
      block: {block_sizes: [4, 16], blocks: [{block: b1, nodes: "n[1-4]"}]}
      flat:  true, or a mapping of options
      ring:  {rings: [{ring: r0, nodes: "n[1-8]"}]}
      torus3d: {toruses: [{name: pod1, dims: {x: 4, y: 4, z: 2}, nodes: "n[1-32]", placements: […]}]}

Each has exactly one of the five. Node and switch lists are hostlists; lists of hostlists are taken too.
"""

from __future__ import annotations

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Finding, Severity
from clusterlab.formats.fields import at, flag, mapping, sequence, text, whole
from clusterlab.formats.hostlist import MAX_HOSTS, expand_hostlist
from clusterlab.formats.slurm_topology import SlurmTopology
from clusterlab.formats.strict_yaml import Document, Path, read_yaml
from clusterlab.formats.switch_tree import MAX_NODES, Locality, TreeSwitch

_KINDS = ("tree", "block", "flat", "ring", "torus3d")


def parse_slurm_topology_yaml(text_: str, *, file: str) -> tuple[SlurmTopology, ...]:
    """Its topologies, in order. Raises UsageError naming file, line and field."""
    document = read_yaml(text_, file=file)
    if not isinstance(document.data, list):
        raise UsageError(
            "not a list", where=document.where(), expected="a list of topologies (- topology: …)"
        )
    budget = _Budget(document)
    found = tuple(_topology(document, (i,), budget) for i in range(len(document.data)))
    names = [t.name for t in found]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise UsageError(
                f"two topologies are called {name!r}",
                where=document.where(i),
                expected="each name once",
            )
    return found


class _Budget:
    """Names read so far: bounds what a short file can ask for."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.names = 0

    def hosts(self, path: Path) -> tuple[str, ...]:
        """The names at ``path``: a hostlist, or a list of hostlists; absent: none."""
        value = at(self.document, path)
        if value is None:
            return ()
        if isinstance(value, list):
            return tuple(name for i in range(len(value)) for name in self.hosts((*path, i)))
        where = self.document.where(*path)
        found = expand_hostlist(str(value), where=where, limit=MAX_HOSTS)
        self.names += len(found)
        if self.names > MAX_NODES:
            raise UsageError(
                f"more than {MAX_NODES} names", where=where, expected=f"at most {MAX_NODES}"
            )
        return tuple(found)


def _topology(document: Document, path: Path, budget: _Budget) -> SlurmTopology:
    entry = mapping(document, path, None)
    kinds = [kind for kind in _KINDS if entry.get(kind) is not None]
    if len(kinds) != 1:
        raise UsageError(
            f"{len(kinds)} kinds of topology in one entry",
            where=document.where(*path),
            expected="exactly one of " + ", ".join(_KINDS),
        )
    return SlurmTopology(
        name=text(document, (*path, "topology")),
        kinds=(kinds[0],),
        default=flag(document, (*path, "cluster_default")),
        switches=_switches(document, (*path, "tree"), budget),
        blocks=_localities(document, (*path, "block"), "blocks", "block", budget),
        block_sizes=_sizes(document, (*path, "block", "block_sizes")),
        rings=_localities(document, (*path, "ring"), "rings", "ring", budget),
        toruses=_localities(document, (*path, "torus3d"), "toruses", "name", budget),
        findings=_unknown(document, path, entry),
    )


def _unknown(document: Document, path: Path, entry: dict[str, object]) -> tuple[Finding, ...]:
    extra = [key for key in entry if key not in (*_KINDS, "topology", "cluster_default")]
    return tuple(
        Finding(
            "unknown_key",
            Severity.WARNING,
            (f"{document.where(*path, key)} is no key of topology.yaml; Slurm refuses it",),
            "remove it, or correct its spelling",
        )
        for key in extra
    )


def _switches(document: Document, path: Path, budget: _Budget) -> tuple[TreeSwitch, ...]:
    if at(document, path) is None:
        return ()
    mapping(document, path, None)
    found = []
    for i in range(len(sequence(document, (*path, "switches")))):
        here = (*path, "switches", i)
        mapping(document, here, ("switch", "children", "nodes"))
        found.append(
            TreeSwitch(
                name=_name(document, (*here, "switch")),
                switches=budget.hosts((*here, "children")),
                nodes=budget.hosts((*here, "nodes")),
                line=document.lines[here],
            )
        )
    return tuple(found)


def _localities(
    document: Document, path: Path, plural: str, name_key: str, budget: _Budget
) -> tuple[Locality, ...]:
    if at(document, path) is None:
        return ()
    mapping(document, path, None)
    found = []
    for i in range(len(sequence(document, (*path, plural)))):
        here = (*path, plural, i)
        mapping(document, here, None)
        found.append(
            Locality(
                _name(document, (*here, name_key)),
                budget.hosts((*here, "nodes")),
                document.lines[here],
            )
        )
    return tuple(found)


def _name(document: Document, path: Path) -> str:
    """A name; a bare number counts as one."""
    value = at(document, path)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return text(document, path)


def _sizes(document: Document, path: Path) -> tuple[int, ...]:
    return tuple(whole(document, (*path, i)) for i in range(len(sequence(document, path))))
