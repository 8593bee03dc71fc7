from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.lab.machine import resolve, sized
from clusterlab.lab.spec import LabSpec, Setup, gpu_socket, hosts_of, node_index, node_names
from tests.lab.machines import GPU_SERVER, LAYOUT, SMALL


@st.composite
def specs(draw: st.DrawFn) -> LabSpec:
    sockets = draw(st.integers(1, 8))
    return LabSpec(
        nodes=draw(st.integers(1, 200)),
        gpus=draw(st.integers(0, 64)),
        cpus=sockets * draw(st.integers(1, 128)),
        sockets=sockets,
        memory_mb=draw(st.integers(64, 1 << 30)),
        extra_conf=tuple(draw(st.lists(st.sampled_from(["Epilog=/x", "MaxArraySize=5"])))),
    )


@given(specs())
def test_a_spec_survives_its_file(spec: LabSpec) -> None:
    assert LabSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


@given(specs())
def test_a_setup_survives_its_file(spec: LabSpec) -> None:
    setup = resolve(spec, SMALL, LAYOUT, ports=(1, 2))
    assert Setup.from_json(json.loads(json.dumps(setup.to_json()))) == setup


@given(specs())
def test_every_host_has_an_address_of_its_own(spec: LabSpec) -> None:
    hosts = list(hosts_of(spec))
    assert len(hosts) == spec.nodes + 1
    assert len({address for address, _ in hosts}) == len({name for _, name in hosts}) == len(hosts)
    assert all(int(address.rpartition(".")[2]) < 255 for address, _ in hosts)


@given(specs().filter(lambda spec: spec.gpus > 0))
def test_gpus_are_spread_over_sockets_in_order_and_evenly(spec: LabSpec) -> None:
    sockets = [gpu_socket(spec, gpu) for gpu in range(spec.gpus)]
    assert sockets == sorted(sockets)
    assert set(sockets) <= set(range(spec.sockets))
    counts = [sockets.count(socket) for socket in set(sockets)]
    assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"nodes": 0}, "nodes is 0"),
        ({"nodes": 201}, "from 1 to 200"),
        ({"gpus": -1}, "gpus is -1"),
        ({"cpus": 15}, "15 CPUs do not divide by 2 sockets"),
        ({"auth": "mung"}, "did you mean 'munge'"),
        ({"gpu_type": "h 100"}, "GPU type"),
        ({"real_gpus": True}, "real GPUs"),
        ({"kill_wait_s": 0}, "kill_wait_s is 0"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        LabSpec(**fields)  # type: ignore[arg-type]


def test_an_unknown_key_of_a_written_spec_is_refused() -> None:
    with pytest.raises(UsageError, match="did you mean 'nodes'"):
        LabSpec.from_json({"node": 3})


def test_an_unknown_node_is_refused() -> None:
    spec = LabSpec(nodes=2)
    assert node_names(spec) == ("n0", "n1")
    with pytest.raises(UsageError, match="unknown node 'n2'; expected one of n0, n1"):
        node_index(spec, "n2")


def test_defaults_fit_the_machine() -> None:
    spec = sized(SMALL)
    assert (spec.nodes, spec.gpus, spec.cpus, spec.sockets) == (4, 8, 16, 2)
    assert spec.memory_mb == 6000
    assert not spec.real_gpus


def test_a_flat_lab_takes_the_real_gpus_where_there_are_enough() -> None:
    spec = sized(GPU_SERVER, flat=True)
    assert spec.real_gpus
    assert (spec.nodes, spec.gpus, spec.cpus, spec.sockets, spec.gpu_type) == (1, 2, 16, 1, "")
    assert resolve(spec, GPU_SERVER, LAYOUT).devices == ("/dev/nvidia0", "/dev/nvidia1")
    assert sized(GPU_SERVER, flat=True, gpus=1).real_gpus
    for other in (
        sized(GPU_SERVER, flat=True, gpus=8),
        sized(GPU_SERVER, flat=True, nodes=2),
        sized(GPU_SERVER, flat=True, gpus=0),
        sized(GPU_SERVER),
        sized(SMALL, flat=True),
    ):
        assert not other.real_gpus


@pytest.mark.parametrize(
    ("compiler", "cpus", "affinity"),
    [
        ("/usr/bin/cc", (0, 1), "shim"),
        (None, (0, 1), "none"),
        (None, tuple(range(16)), "native"),
        (None, tuple(range(1, 17)), "none"),
    ],
)
def test_affinity_is_what_this_machine_can_do(
    compiler: str | None, cpus: tuple[int, ...], affinity: str
) -> None:
    machine = replace(SMALL, compiler=compiler, cpus=cpus)
    assert resolve(LabSpec(), machine, LAYOUT).affinity == affinity


def test_real_gpus_keep_their_real_cpus_unless_some_are_not_ours() -> None:
    spec = sized(GPU_SERVER, flat=True)
    assert resolve(spec, GPU_SERVER, LAYOUT).affinity == "native"
    fenced = replace(GPU_SERVER, cpus=tuple(range(64, 80)))
    assert resolve(sized(fenced, flat=True), fenced, LAYOUT).affinity == "shim"


def test_without_root_a_user_namespace_and_a_compiler_are_needed() -> None:
    user = replace(SMALL, root=False, user="jo")
    assert resolve(LabSpec(), user, LAYOUT).user_namespace
    assert resolve(LabSpec(), user, LAYOUT).user == "root"
    assert resolve(LabSpec(flat=True), user, LAYOUT, ports=(1, 2)).user == "jo"
    with pytest.raises(UsageError, match="install gcc"):
        resolve(LabSpec(), replace(user, compiler=None), LAYOUT)
    with pytest.raises(UsageError, match="no name in /etc/passwd"):
        resolve(LabSpec(flat=True), replace(user, user=None), LAYOUT)
