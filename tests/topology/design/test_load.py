import random
from pathlib import Path

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.core.shipped import shipped
from clusterlab.topology.design.load import fabric_from_yaml, list_designs, load_fabric, outline
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.host import HostFacts, NumaDomain, host_fabric

SMALL = """\
links:
  wire: {class: ib, GBps: 48, GBps_source: measured, wire_GBps: 50, wire_source: data sheet}
hosts:
  count: 2
  devices:
    - {name: "gpu{i}", kind: gpu, count: 2, rail: index}
    - {name: "nic{i}", kind: nic, count: 2, rail: index}
  links:
    - {from: "gpu{i}", to: "nic{i}", type: wire}
network:
  devices:
    - {name: "leaf{i}", kind: leaf, count: 2, rail: index}
  links:
    - {from: "n*/nic{i}", to: "leaf{i}", type: wire, multiplicity: 2}
"""


def build(text: str) -> Fabric:
    return fabric_from_yaml(text, file="my.yaml", default_name="my")


def shipped_designs() -> list[str]:
    return [name for name in list_designs() if name != "host"]


@pytest.mark.parametrize("name", list_designs())
def test_every_shipped_design_loads_and_every_figure_has_its_source(name: str) -> None:
    path = shipped("topologies") / f"{name}.yaml"
    fabric = load_fabric(str(path))
    assert fabric.name == name
    assert fabric.description
    for link in fabric.links:
        assert (link.GBps is None) == (link.GBps_source == "")
        assert (link.wire_GBps is None) == (link.wire_source == "")
        assert (link.latency_us is None) == (link.latency_source == "")


@pytest.mark.parametrize("name", ["h100-2", "h200-2", "hgx-h100", "dgx-h100-2node"])
def test_a_hopper_gpu_has_450_GBps_of_nvlink_each_way_and_software_gets_371(name: str) -> None:
    fabric = load_fabric(name)
    for gpu in fabric.of_kind("gpu"):
        for links in (fabric.links_from(gpu.name), fabric.links_to(gpu.name)):
            nvlink = [link for link in links if link.link_class == "nvlink"]
            assert sum(link.multiplicity for link in nvlink) == 18
            assert sum(link.wire_capacity_GBps or 0 for link in nvlink) == 450
            assert sum(link.capacity_GBps or 0 for link in nvlink) == pytest.approx(370.8)


def test_one_node_s_nics_carry_a_ninth_of_its_nvlink() -> None:
    """Per direction: 450 GB/s of NVLink per GPU against 50 GB/s of NIC, 9 and not 18."""
    fabric = load_fabric("dgx-h100-2node")
    nics = [ln for ln in fabric.links if ln.dst == "leaf0" and ln.src.startswith("n0/")]
    assert len(nics) == 8
    assert 8 * 450 / sum(ln.wire_capacity_GBps or 0 for ln in nics) == 9


def test_host_yaml_shows_what_this_program_builds_for_a_host() -> None:
    template = load_fabric(str(shipped("topologies") / "host.yaml"))
    facts = HostFacts("localhost", "some CPU", "Linux 6", (NumaDomain(0, (0, 1), None),))
    built = host_fabric(facts)
    assert template.links == built.links
    assert [(d.name, d.kind, d.cores, d.numa) for d in template.devices] == [
        (d.name, d.kind, d.cores, d.numa) for d in built.devices
    ]


def test_wiring_joins_equal_numbers_both_ways_and_names_rails() -> None:
    fabric = build(SMALL)
    assert len(fabric.of_kind("gpu")) == 4
    leaf_links = fabric.links_to("leaf1")
    assert {link.src for link in leaf_links} == {"n0/nic1", "n1/nic1"}
    assert {(link.rail, link.multiplicity) for link in leaf_links} == {(1, 2)}
    assert len(fabric.links_from("leaf1")) == 2
    assert fabric.hosts == ("n0", "n1")


def test_a_range_of_numbers_and_one_way() -> None:
    text = SMALL + '    - {from: "n0/nic[0-1]", to: leaf0, type: wire, one_way: true}\n'
    fabric = build(text)
    assert [link.src for link in fabric.links_to("leaf0")].count("n0/nic1") == 1
    assert not [link for link in fabric.links_from("leaf0") if link.dst == "n0/nic1"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('to: "nic{i}"', 'to: "nik{i}"', "my.yaml:9: hosts.links[0].to: dangling link: no device"),
        (
            'to: "leaf{i}"',
            'to: "leaf{i}9"',
            "my.yaml:14: network.links[0].to: dangling link: no device",
        ),
        ("GBps: 48,", "GBps: -48,", "my.yaml:2: links.wire.GBps: a bandwidth of -48"),
        ("GBps: 48,", "GBps: 0,", "my.yaml:2: links.wire.GBps: a bandwidth of 0"),
        ("GBps: 48,", "GBps: .nan,", "my.yaml:2: links.wire.GBps: nan is not finite"),
        ("GBps: 48,", "GBps: .inf,", "my.yaml:2: links.wire.GBps: inf is not finite"),
        ("GBps: 48,", "GBps: fast,", "my.yaml:2: links.wire.GBps: 'fast' is not a number"),
        ("GBps: 48,", "GBps: true,", "my.yaml:2: links.wire.GBps: True is not a number"),
        ("GBps: 48,", f"GBps: {'9' * 400},", "my.yaml:2: links.wire.GBps: 9999"),
        ("GBps: 48,", "GBps: 51,", "my.yaml:2: links.wire.GBps: usable 51 GB/s above"),
        ("GBps: 48,", "", "my.yaml:2: links.wire.GBps: nothing is not a number"),
        ("GBps_source: measured,", "", "my.yaml:2: links.wire: a figure without its source"),
        ("class: ib", "class: ibb", "my.yaml:2: links.wire.class: unknown link class 'ibb'"),
        ("type: wire}", "type: wir}", "my.yaml:9: hosts.links[0].type: unknown link type 'wir'"),
        ("kind: gpu,", "kind: gpus,", "my.yaml:6: hosts.devices[0].kind: unknown device kind"),
        ("kind: gpu,", "kindd: gpu,", "my.yaml:6: hosts.devices[0].kindd: unknown key 'kindd'"),
        ("count: 2\n", "count: 0\n", "my.yaml:4: hosts.count: 0; expected a whole number"),
        ("count: 2\n", "count: 2.5\n", "my.yaml:4: hosts.count: 2.5"),
        ("count: 2\n", "count: 4000001\n", "my.yaml: "),
        ('name: "gpu{i}"', "name: gpu", "my.yaml:6: hosts.devices[0].name: 2 of them would all"),
        ('name: "nic{i}"', 'name: "gpu{i}"', "my.yaml:7: hosts.devices[1]: two devices are called"),
        ('name: "leaf{i}"', 'name: "n0/gpu{i}"', "my.yaml:12: network.devices[0]: two devices are"),
        ("multiplicity: 2", "multiplicity: 0", "my.yaml:14: network.links[0].multiplicity: 0"),
        ("multiplicity: 2", "health: 1.5", "my.yaml:14: network.links[0].health: health is 1.5"),
        ("multiplicity: 2", "health: -0.1", "my.yaml:14: network.links[0].health: health is -0.1"),
        ('"n*/nic{i}"', '"n*/nic[9-0]"', "my.yaml:14: network.links[0].from: range [9-0]"),
        ('"n*/nic{i}"', '"n*/nic[0-99999999]"', "my.yaml:14: network.links[0].from: range"),
        ('"n*/nic{i}"', '"n{i}/nic{i}"', "my.yaml:14: network.links[0].from: 'n{i}/nic{i}' has"),
        ("hosts:\n", "hosts: []\nhost:\n", "my.yaml:4: host: unknown key 'host'"),
        ("rail: index}", "rail: [0]}", "my.yaml:6: hosts.devices[0].rail: 1 entries for 2"),
    ],
)
def test_a_wrong_field_is_named_with_file_and_line(old: str, new: str, message: str) -> None:
    assert old in SMALL
    with pytest.raises(UsageError) as caught:
        build(SMALL.replace(old, new, 1))
    assert str(caught.value).startswith(message)


def test_suggestions() -> None:
    with pytest.raises(UsageError, match=r"did you mean 'class'\?"):
        build(SMALL.replace("class:", "clas:", 1))
    with pytest.raises(UsageError, match=r"did you mean 'hgx-h100'\?"):
        load_fabric("hgx-h10")


@pytest.mark.parametrize("word", ["leafspin", "x", "superpod", "HGX-H100", "dgx h100", "é"])
def test_an_unknown_fabric_names_the_nearest_few_and_says_it_is_no_file(word: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_fabric(word)
    said = str(caught.value)
    assert said.startswith(
        f"unknown fabric {word!r} (a file? no such file: {word}); expected one of"
    )
    named = [name for name in list_designs() if f" {name}," in said]
    assert 1 <= len(named) <= 8
    with pytest.raises(UsageError, match=f"hosts.like: unknown design {word!r}"):
        build(f"hosts: {{like: {word}}}\n")


def test_a_file_without_an_extension_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "leafspin").write_text(SMALL)
    monkeypatch.chdir(tmp_path)
    assert load_fabric("leafspin").hosts == ("n0", "n1")
    (tmp_path / "hgx-h100").write_text(SMALL)  # a design's name stays the design's
    assert load_fabric("hgx-h100").hosts == ("n0",)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no\.yaml: cannot be read: No such file"):
        load_fabric(str(tmp_path / "no.yaml"))
    with pytest.raises(UsageError, match="not a regular file"):
        load_fabric(f"{tmp_path}/")
    binary = tmp_path / "b.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not text"):
        load_fabric(str(binary))


def test_a_path_and_a_name_give_the_same_fabric() -> None:
    path = shipped("topologies") / "h100-2.yaml"
    assert load_fabric(str(path)).digest == load_fabric("h100-2").digest


def test_mutated_designs_are_read_or_refused_never_a_traceback() -> None:
    rng = random.Random(20261129)
    small = [name for name in shipped_designs() if len(outline(name).hosts) < 20]
    texts = [(shipped("topologies") / f"{name}.yaml").read_text() for name in small]
    refused = 0
    for _ in range(600):
        text = rng.choice(texts)
        for _ in range(rng.randint(1, 3)):
            text = _mutate(text, rng)
        try:
            build(text)
        except UsageError as error:
            refused += 1
            assert str(error).startswith("my.yaml")
    assert refused > 200


def _mutate(text: str, rng: random.Random) -> str:
    lines = text.splitlines()
    at = rng.randrange(len(lines))
    kind = rng.randrange(5)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, lines[rng.randrange(len(lines))])
    elif kind == 2:
        lines[at] = lines[at].replace(rng.choice('0123456789:{}[],"ae '), rng.choice("-x9{]:*&"), 1)
    elif kind == 3:
        lines[at] = " " * rng.randrange(6) + lines[at].lstrip()
    else:
        cut = rng.randrange(len(lines[at]) + 1)
        lines[at] = lines[at][:cut]
    return "\n".join(lines) + "\n"
