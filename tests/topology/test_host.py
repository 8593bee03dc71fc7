import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.topology.host import (
    HostFacts,
    NumaDomain,
    host_fabric,
    parse_cpu_list,
    read_host,
)


@given(st.sets(st.integers(0, 300)))
def test_cpu_lists_are_read_as_the_kernel_writes_them(cores: set[int]) -> None:
    text, ordered = "", sorted(cores)
    i = 0
    while i < len(ordered):
        j = i
        while j + 1 < len(ordered) and ordered[j + 1] == ordered[j] + 1:
            j += 1
        part = str(ordered[i]) if i == j else f"{ordered[i]}-{ordered[j]}"
        text += ("," if text else "") + part
        i = j + 1
    assert parse_cpu_list(text + "\n") == tuple(ordered)


def test_a_cpu_list_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        parse_cpu_list("0-x")


def test_this_host_is_seen_as_this_process_may_use_it() -> None:
    facts = read_host()
    assert set(facts.cores) == os.sched_getaffinity(0)
    assert facts.cpu_model
    assert facts.fingerprint == read_host().fingerprint
    fabric = host_fabric(facts)
    assert sum(d.cores or 0 for d in fabric.of_kind("cpu")) == len(facts.cores)
    assert fabric.description == facts.description


def test_fingerprints_tell_hosts_apart_by_what_decides_their_speed() -> None:
    domain = NumaDomain(0, (0, 1), 1 << 30)
    one = HostFacts("a", "CPU", "Linux 6", (domain,))
    same = HostFacts("b", "CPU", "Linux 6", (NumaDomain(0, (2, 3), 2 << 30),))
    fewer = HostFacts("a", "CPU", "Linux 6", (NumaDomain(0, (0,), 1 << 30),))
    assert one.fingerprint == same.fingerprint != fewer.fingerprint


def test_two_numa_domains_are_two_cpus_with_an_unknown_link_between() -> None:
    facts = HostFacts(
        "node", "CPU", "Linux", (NumaDomain(0, (0, 1), None), NumaDomain(1, (2,), None))
    )
    fabric = host_fabric(facts, copy_GBps=10.0, copy_source="measured")
    loops = [link for link in fabric.links if link.src == link.dst]
    assert [(ln.link_class, ln.capacity_GBps) for ln in loops] == [
        ("memory", 20.0),
        ("memory", 10.0),
    ]
    assert [ln.GBps for ln in fabric.links if ln.link_class == "upi"] == [None, None]
