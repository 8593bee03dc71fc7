"""Rules about how ranks meet: master addresses, socket interfaces."""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from clusterlab.binding.diagnose.saying import finding, quoted, those, who
from clusterlab.binding.diagnose.scene import Scene, by_host
from clusterlab.binding.diagnose.slurm_identity import node_list
from clusterlab.binding.diagnose.variables import number
from clusterlab.binding.records import RankRecord
from clusterlab.core.findings import Finding

_UNRESOLVED = re.compile(
    r"gai ?error|name or service not known|getaddrinfo|temporary failure in name", re.I
)
_SHORT_LOOPBACK = re.compile(r"127(?:\.[0-9]{1,8}){1,3}", re.ASCII)
_LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost")


def master_addresses_differ(scene: Scene) -> Iterable[Finding]:
    """MASTER_ADDR_WRONG: ranks of one world look for their master in different places."""
    for world in scene.worlds:
        told = [r for r in world if r.env.get("MASTER_ADDR")]
        places = {(r.env["MASTER_ADDR"], r.env.get("MASTER_PORT", "")) for r in told}
        if len(places) < 2 or _same_master(places) or _separate_worlds(told) or _all_here(told):
            continue
        evidence = [
            f"{who(r)}: MASTER_ADDR={r.env['MASTER_ADDR']} MASTER_PORT={r.env.get('MASTER_PORT', 'unset')}"
            for r in told
        ]
        yield finding("MASTER_ADDR_WRONG", told, evidence, _master_fix(scene))


def _same_master(places: set[tuple[str, str]]) -> bool:
    """Short and full names of one host, same port."""
    return len({(a.partition(".")[0], p) if _address(a) is None else (a, p) for a, p in places}) < 2


def _all_here(ranks: Sequence[RankRecord]) -> bool:
    """Whether all ranks are on one host and say loopback or its name, and one port."""
    here = {r.host.partition(".")[0] for r in ranks}
    names = {r.env["MASTER_ADDR"] for r in ranks}
    ports = {r.env.get("MASTER_PORT") for r in ranks}
    return (
        len(here) == len(ports) == 1
        and all(only_here(n) or n.partition(".")[0] in here for n in names)
    )  # fmt: skip


def _separate_worlds(ranks: Sequence[RankRecord]) -> bool:
    """Whether every rank is a world of one: several programs side by side."""
    return all(number(r.env, "WORLD_SIZE") == 1 for r in ranks)


def master_is_local(scene: Scene) -> Iterable[Finding]:
    """MASTER_ADDR_WRONG: a loopback, link-local or container bridge address for several hosts."""
    for world in scene.worlds:
        if len(by_host(world)) < 2 or _separate_worlds(world):
            continue
        bad = [r for r in world if only_here(r.env.get("MASTER_ADDR", ""))]
        if bad:
            evidence = [
                f"{those(bad)} on {len(by_host(world))} hosts: MASTER_ADDR={bad[0].env['MASTER_ADDR']} is"
                " every host's own"
            ]
            yield finding("MASTER_ADDR_WRONG", bad, evidence, _master_fix(scene))


def master_is_blank(scene: Scene) -> Iterable[Finding]:
    """MASTER_ADDR_WRONG: set, but to nothing, as by a command in the job script that printed nothing."""
    for world in scene.worlds:
        bad = [r for r in world if not r.env.get("MASTER_ADDR", "unset").strip()]
        if bad and len(world) > 1 and not _separate_worlds(world):
            evidence = [f"{those(bad)}: MASTER_ADDR is set and empty"]
            yield finding("MASTER_ADDR_WRONG", bad, evidence, _master_fix(scene))


def names_resolve_wrongly(scene: Scene) -> Iterable[Finding]:
    """MASTER_ADDR_WRONG: own names that resolve to loopback, or to different address families."""
    for world in scene.worlds:
        if len(by_host(world)) < 2:
            continue
        bad, evidence, families = [], [], defaultdict(list)
        for rank in world:
            for name, text in rank.resolved.items():
                address = _address(text)
                if address is None:
                    continue
                families[address.version].append(rank)
                if address.is_loopback:
                    bad.append(rank)
                    evidence.append(f"{who(rank)}: {name} resolves to {text}")
        if bad:
            device = _interface(world)
            fix = (
                f"export GLOO_SOCKET_IFNAME={device} NCCL_SOCKET_IFNAME={device}\n# or take the host's name"
                " out of the 127.* lines of /etc/hosts"
            )
            yield finding("MASTER_ADDR_WRONG", bad, evidence, fix)
        elif len(families) > 1:
            evidence = [
                f"{who(r)}: {', '.join(f'{n} is {a}' for n, a in r.resolved.items())}"
                for r in world
            ]
            device = _interface(world)
            fix = f"export NCCL_SOCKET_FAMILY=AF_INET GLOO_SOCKET_IFNAME={device}\n# one family for all"
            yield finding("MASTER_ADDR_WRONG", world, evidence, fix)


def master_unreachable(scene: Scene) -> Iterable[Finding]:
    """MASTER_ADDR_WRONG: the address is known not to answer, or no resolver knows it."""
    for world in scene.worlds:
        bad, evidence, better = [], [], None
        for rank in world:
            address = rank.env.get("MASTER_ADDR", "")
            if address and rank.reachable.get(address) is False:
                better = better or next((n for n, ok in rank.reachable.items() if ok), None)
                evidence.append(f"{who(rank)}: {address} does not answer from here")
                bad.append(rank)
            elif address and _UNRESOLVED.search(rank.error):
                evidence.append(f"{who(rank)}: MASTER_ADDR={address}: {quoted(rank.error)}")
                bad.append(rank)
        if bad:
            fix = f"export MASTER_ADDR={better}" if better else _master_fix(scene)
            yield finding("MASTER_ADDR_WRONG", bad, evidence, fix)


def master_is_not_rank_zero(scene: Scene) -> Iterable[Finding]:
    """MASTER_ADDR_WRONG: MASTER_ADDR names a host of the job on which rank 0 does not run."""
    for world in scene.worlds:
        first = next((r for r in world if r.rank == 0), None)
        if first is None:
            continue
        address = first.env.get("MASTER_ADDR", "")
        others = set(by_host(world)) | set(node_list(first))
        if address in others and address.partition(".")[0] != first.host.partition(".")[0]:
            evidence = [f"rank 0 runs on {first.host}, MASTER_ADDR={address}"]
            yield finding("MASTER_ADDR_WRONG", world, evidence, f"export MASTER_ADDR={first.host}")


def _master_fix(scene: Scene) -> str:
    if scene.under_slurm or "sbatch" in scene.record.launcher:
        return 'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
    host = scene.ranks[0].host
    first = next((r.host for r in scene.ranks if r.rank == 0), host)
    return f"export MASTER_ADDR={first}\n# rank 0's host, the same on all ranks"


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None


def only_here(text: str) -> bool:
    """Whether ``text`` means another host on every host: loopback, link-local, docker0's addresses."""
    address = _address(text)
    if address is None:  # 127.1: inet_aton(3) takes addresses with fewer than four numbers
        return text.lower() in _LOCAL_NAMES or bool(_SHORT_LOOPBACK.fullmatch(text))
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    bridge = ipaddress.ip_network("172.17.0.0/16")  # docker0 unless configured otherwise
    return (
        address.is_loopback or address.is_link_local or address in bridge or address.is_unspecified
    )


def interface_names(scene: Scene) -> Iterable[Finding]:
    """IFACE_WRONG: NCCL_SOCKET_IFNAME or GLOO_SOCKET_IFNAME matches no interface, or not in its grammar."""
    for world in scene.worlds:
        bad, evidence = [], []
        several = len(by_host(world)) > 1
        for rank in world:
            for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"):
                text = rank.env.get(name, "").strip()
                why = _wrong_interface(name, text, rank.interfaces, several) if text else None
                if why:
                    bad.append(rank)
                    evidence.append(f"{who(rank)}: {name}={text}: {why}")
        if bad:
            device = _interface(world)
            fix = (
                f"export GLOO_SOCKET_IFNAME={device} NCCL_SOCKET_IFNAME={device}\n# gloo: plain names; NCCL:"
                " prefixes, ^ to exclude, = for exact names; or leave both unset"
            )
            yield finding("IFACE_WRONG", bad, evidence, fix)


def _wrong_interface(
    name: str, text: str, interfaces: Sequence[str] | None, several: bool
) -> str | None:
    """Why ``text`` is wrong under the grammar of the library that reads ``name``; None: it is not."""
    if any(_address(part) for part in text.lstrip("^=").split(",")):
        return "an address, not an interface's name"
    spaced = next((p for p in text.lstrip("^=").split(",") if p != "".join(p.split())), None)
    if spaced is not None:
        return f"the space in {spaced!r} belongs to the name that is looked for"
    if several and text.lstrip("=") == "lo":
        return "loopback, with several hosts"
    if name == "NCCL_SOCKET_IFNAME":
        return _wrong_for_nccl(text, interfaces, several) if interfaces is not None else None
    if text[0] in "^=":
        return f"{text[0]} is NCCL's grammar; here names stand as they are"
    missing = [p for p in text.split(",") if interfaces is not None and p not in interfaces]
    return f"no interface {missing[0]} here ({', '.join(interfaces or ())})" if missing else None


def _wrong_for_nccl(text: str, interfaces: Sequence[str], several: bool) -> str | None:
    matched = nccl_matches(text, interfaces)
    if not matched:
        return f"matches no interface here ({', '.join(interfaces)})"
    local = [i for i in matched if i == "lo" or i.startswith(("docker", "virbr", "veth"))]
    if several and local == matched and not text.startswith("^"):
        return f"only {', '.join(local)}, which other hosts cannot reach"
    return None


def nccl_matches(spec: str, names: Sequence[str]) -> list[str]:
    """The names NCCL selects: ^ excludes, = is exact, else prefixes; ``name:port`` ports are passed over.

    NCCL's parseStringList (src/misc/utils.cc): ^ and = count once, at the front of the whole list.
    """
    exclude = spec.startswith("^")
    rest = spec[1:] if exclude else spec
    exact = rest.startswith("=")
    wanted = [p.partition(":")[0] for p in (rest[1:] if exact else rest).split(",") if p]
    return [
        n for n in names if any(n == w if exact else n.startswith(w) for w in wanted) != exclude
    ]


def _interface(world: Sequence[RankRecord]) -> str:
    """An interface to name in a fix: the first real one in the record."""
    for rank in world:
        for name in rank.interfaces or ():
            if name != "lo" and not name.startswith(("docker", "virbr", "veth", "br-")):
                return name
    return "INTERFACE"


def interface_said(scene: Scene) -> Iterable[Finding]:
    """IFACE_WRONG: a library says that it found no interface."""
    pattern = re.compile(r"no socket interface found|Unable to find address for", re.IGNORECASE)
    bad = [r for r in scene.ranks if pattern.search(f"{r.error} {r.stderr}")]
    if bad:
        evidence = [f"{who(r)}: {quoted(r.error or r.stderr)}" for r in bad]
        fix = "unset NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME\n# or name one of: ls /sys/class/net"
        yield finding("IFACE_WRONG", bad, evidence, fix)


RULES = (
    master_addresses_differ,
    master_is_local,
    master_is_blank,
    names_resolve_wrongly,
    master_unreachable,
    master_is_not_rank_zero,
    interface_names,
    interface_said,
)
