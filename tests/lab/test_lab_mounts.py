from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from clusterlab.lab import network
from clusterlab.lab.machine import resolve
from clusterlab.lab.mounts import hidden_from_nodes, login_mounts, node_mounts, shared_directories
from clusterlab.lab.spec import LabSpec
from tests.lab.machines import LAYOUT, SMALL

paths = st.builds(
    lambda root, parts: Path(root, *parts),
    st.sampled_from(["/tmp", "/dev/shm", "/home/me", "/"]),
    st.lists(st.sampled_from(["a", "b", "c"]), max_size=4),
)


def test_only_directories_below_a_private_root_are_shared() -> None:
    given_paths = [Path(p) for p in ("/tmp", "/tmp/venv", "/home/me", "/dev/shm/data", "/tmpfs/x")]
    assert shared_directories(given_paths) == ("/dev/shm/data", "/tmp/venv")


def test_a_directory_inside_a_shared_one_needs_no_mount_of_its_own() -> None:
    assert shared_directories([Path("/tmp/a/b/c"), Path("/tmp/a"), Path("/tmp/ab")]) == (
        "/tmp/a",
        "/tmp/ab",
    )


@given(st.lists(paths))
def test_what_is_shared_is_visible_and_disjoint(candidates: list[Path]) -> None:
    shared = shared_directories(candidates)
    assert not any(Path(a) in Path(b).parents for a in shared for b in shared)
    for path in candidates:
        is_root = path in (Path("/tmp"), Path("/dev/shm"))
        assert hidden_from_nodes(path, shared) == is_root


def test_a_node_gets_its_own_tmp_and_shm_with_the_shared_directories_bound_in() -> None:
    spec = LabSpec()
    setup = resolve(spec, SMALL, LAYOUT, share=[Path("/tmp/venv"), Path("/dev/shm/x")])
    node = "/run/labs/demo/n2"
    assert node_mounts(setup, LAYOUT, "n2") == [
        ("mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", f"{node}/shm"),
        ("mkdir", "-p", f"{node}/shm/x"),
        ("mount", "--rbind", "/dev/shm/x", f"{node}/shm/x"),
        ("mount", "--rbind", f"{node}/shm", "/dev/shm"),
        ("mkdir", "-p", f"{node}/tmp/venv"),
        ("mount", "--rbind", "/tmp/venv", f"{node}/tmp/venv"),
        ("mount", "--rbind", f"{node}/tmp", "/tmp"),
    ]


def test_the_login_host_replaces_only_system_files_that_exist() -> None:
    setup = resolve(LabSpec(), SMALL, LAYOUT)
    targets = [command[-1] for command in login_mounts(setup, LAYOUT, [Path("/etc/hosts")])]
    assert "/etc/hosts" in targets
    assert "/etc/slurm" not in targets
    assert "/etc/nsswitch.conf" not in targets
    # The login host is where people submit from: its /tmp is the machine's.
    assert "/tmp" not in targets


def test_a_missing_pmix_link_is_mended_by_a_mount_over_the_library_directory() -> None:
    folder = "/usr/lib/x86_64-linux-gnu/pmix2/lib"
    machine = type(SMALL)(**{**_fields(), "pmix_lib_to_mend": Path(folder)})
    setup = resolve(LabSpec(), machine, LAYOUT)
    assert ("mount", "--rbind", "/run/labs/demo/pmix", folder) in login_mounts(setup, LAYOUT, [])


def _fields() -> dict[str, object]:
    return {name: getattr(SMALL, name) for name in SMALL.__slots__}


def test_every_node_hangs_on_the_bridge_by_a_link_with_a_legal_name() -> None:
    spec = LabSpec(nodes=200)
    assert network.login_links()[0] == "link set lo up"
    names = set()
    for index in range(spec.nodes):
        add, attach = network.attach_links(spec, index, 4321)
        name = add.split()[2]
        names.add(name)
        # IFNAMSIZ is 16 with the final zero.
        assert len(name) <= 15
        assert add.endswith("netns 4321")
        assert attach == f"link set {name} master br0 up"
        assert network.detach_links(spec, index) == [f"link delete {name}"]
        assert network.node_links(index)[1] == f"address add 10.77.0.{10 + index}/24 dev eth0"
    assert len(names) == spec.nodes
