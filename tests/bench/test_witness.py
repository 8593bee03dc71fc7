"""What is learnt from NCCL's log, and that nothing is logged while it is timed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterlab.bench.witness import Witness, open_witness
from clusterlab.bench.witness.facts import chosen
from clusterlab.bench.witness.library import decoded, library_path, loaded_library
from clusterlab.bench.witness.listening import new_folder
from clusterlab.bench.witness.settings import configured_variables, expanded, nccl_variables, prints
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.measurement import UNSAID
from clusterlab.core.rows import Point, make_point
from clusterlab.formats.nccl_tuning import TuningChoice, read_choice
from tests.bench.witness_nccl import Communicator, LoggingNccl
from tests.support import shared_dir

MiB = 1 << 20
LINE = "AllReduce: 1048576 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={0..11}"


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No variable of NCCL's, no configuration file; what a test leaves behind is an error."""
    for name in [name for name in os.environ if name.startswith("NCCL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    yield


def point(name: str = "all_reduce", size: int = MiB, ranks: int | tuple[int, ...] = 2) -> Point:
    some = ranks if isinstance(ranks, tuple) else None
    world = len(ranks) if isinstance(ranks, tuple) else ranks
    return make_point(name, size, DTYPES["float32"], world, ranks=some)


def begun(nccl: LoggingNccl, run: Path | None) -> Witness:
    witness = Witness()
    witness.begin(nccl.find, run)
    return witness


def own_variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("NCCL_")}


def test_the_choice_of_each_point_is_heard_and_the_run_keeps_what_nccl_wrote(
    tmp_path: Path,
) -> None:
    nccl = LoggingNccl()
    witness = begun(nccl, tmp_path)
    comm = Communicator(nccl)
    said = witness.saw(point(), comm.call(LINE))
    assert (said.algorithm, said.protocol, said.channels, said.time_us) == (
        "ring",
        "ll128",
        12,
        None,
    )
    assert (said.transport, said.gdr, said.version) == ("P2P/CUMEM", None, "2.28.9")
    again = witness.saw(
        point(size=8), comm.call("AllReduce: 8 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..0}")
    )
    assert (again.algorithm, again.protocol, again.channels) == ("tree", "ll", 1)
    assert again.transport == "P2P/CUMEM"

    facts = witness.close()
    assert facts.files == ("nccl/rank0.log", "nccl/topology.xml", "nccl/graph.xml")
    assert facts.variables == {"NCCL_NTHREADS": "256"}, (
        "what the witness set itself is not the user's"
    )
    assert (facts.transports, facts.gdr, facts.notes) == (("P2P/CUMEM",), None, ())
    log = (tmp_path / "nccl" / "rank0.log").read_text()
    assert [log.count(part) for part in ("NCCL version", "Pattern 4", "via P2P", "Bytes ->")] == [
        1,
        1,
        1,
        2,
    ]
    assert own_variables() == {}
    assert nccl.stdout == []


def test_nothing_is_logged_between_witnessed_calls_but_warnings(tmp_path: Path) -> None:
    nccl = LoggingNccl()
    witness = begun(nccl, tmp_path)
    comm = Communicator(nccl)
    witness.quiet()
    timed = comm.call(LINE)
    for _ in range(5):
        timed()
    witness.saw(point(), comm.call(LINE))
    for _ in range(5):
        timed()
    nccl.warn("Call to ibv_poll_cq failed")
    facts = witness.close()
    log = (tmp_path / "nccl" / "rank0.log").read_text()
    assert log.count("Bytes ->") == 1
    assert log.count("NCCL WARN") == 1
    assert facts.warnings == ("Call to ibv_poll_cq failed",)
    assert nccl.stdout == []


def test_a_rank_that_hangs_can_still_say_what_nccl_warned_of(tmp_path: Path) -> None:
    nccl = LoggingNccl()
    witness = begun(nccl, tmp_path)
    comm = Communicator(nccl)

    def hangs() -> None:
        comm.call(LINE)()
        nccl.warn("peer does not answer")
        seen.append(witness.warnings())

    seen: list[tuple[str, ...]] = []
    witness.saw(point(), comm.call(LINE))
    hangs()
    assert seen == [("peer does not answer",)]
    assert "peer does not answer" in (tmp_path / "nccl" / "rank0.log").read_text()
    assert witness.close().warnings == ("peer does not answer",)


def test_a_later_communicator_does_not_write_over_the_dumps(tmp_path: Path) -> None:
    nccl = LoggingNccl()
    witness = begun(nccl, tmp_path)
    comm = Communicator(nccl)
    witness.saw(point(), comm.call(LINE))
    kept = tmp_path / "nccl" / "topology.xml"
    kept.write_text("the whole")
    Communicator(nccl)
    assert kept.read_text() == "the whole"
    assert witness.close().files == ("nccl/rank0.log", "nccl/topology.xml", "nccl/graph.xml")


def test_a_second_attempt_keeps_the_first_ones_log(tmp_path: Path) -> None:
    for attempt, name in enumerate(("nccl", "nccl-2", "nccl-3")):
        nccl = LoggingNccl()
        witness = begun(nccl, tmp_path)
        Communicator(nccl)
        assert witness.close().files[0] == f"{name}/rank0.log", attempt
    assert all((tmp_path / n / "rank0.log").stat().st_size for n in ("nccl", "nccl-2", "nccl-3"))


def test_a_run_directory_with_a_percent_sign_is_written_where_it_is(tmp_path: Path) -> None:
    run = tmp_path / "100%h%p%%"
    run.mkdir()
    nccl = LoggingNccl()
    witness = begun(nccl, run)
    Communicator(nccl)
    witness.close()
    assert "NCCL version" in (run / "nccl" / "rank0.log").read_text()
    assert [p.name for p in tmp_path.iterdir() if p.is_dir()] == [run.name]


USERS = [
    {"NCCL_DEBUG": "INFO"},
    {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "ALL"},
    {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": "{tmp}/mine.%h.%p"},
    {"NCCL_DEBUG": "trace", "NCCL_DEBUG_FILE": "{tmp}/mine", "NCCL_DEBUG_SUBSYS": "INIT,TUNING"},
    {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": "{tmp}/mine", "NCCL_DEBUG_SUBSYS": "^TUNING"},
    {"NCCL_DEBUG": "WARN"},
    {"NCCL_DEBUG": "VERSION"},
    {"NCCL_DEBUG": "WARN", "NCCL_DEBUG_FILE": "{tmp}/mine"},
    {"NCCL_DEBUG_SUBSYS": "NET"},
    {"NCCL_DEBUG_FILE": "{tmp}/mine"},
    {"NCCL_TOPO_DUMP_FILE": "{tmp}/mine.xml"},
    {"NCCL_DEBUG": "nonsense"},
    {},
]


@pytest.mark.parametrize("version", [(2, 26, 2), (2, 28, 9)])
@pytest.mark.parametrize(
    "user", USERS, ids=lambda u: " ".join(f"{k[5:]}={v}" for k, v in u.items())
)
def test_what_the_user_set_holds_while_timed_and_afterwards(
    user: dict[str, str],
    version: tuple[int, int, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same lines at the same place as without a witness, and one note where nothing is learnt."""
    user = {name: value.replace("{tmp}", str(tmp_path)) for name, value in user.items()}
    for name, value in user.items():
        monkeypatch.setenv(name, value)

    def sweep(nccl: LoggingNccl) -> list[str]:
        nccl.warn("before")
        comm = Communicator(nccl)
        comm.call(LINE)()
        nccl.warn("timed")
        return list(nccl.stdout)

    alone = sweep(LoggingNccl(version))
    nccl = LoggingNccl(version)
    witness = begun(nccl, tmp_path)
    beside = sweep(nccl)
    witness.quiet()
    said = witness.saw(point(), Communicator(nccl).call(LINE))
    before_timed = len(nccl.stdout)
    Communicator(nccl).call(LINE)()
    nccl.warn("timed")
    timed = nccl.stdout[before_timed:]
    facts = witness.close()

    assert own_variables() == user
    debug = {name for name in user if name.startswith("NCCL_DEBUG")}
    if debug:
        # Dumps are announced with their path, and are the only lines more.
        assert [line for line in beside if "_DUMP_FILE" not in line] == [
            line for line in alone if "_DUMP_FILE" not in line
        ]
        assert [line for line in timed if "_DUMP_FILE" not in line and "WARN" not in line] == [
            line for line in alone if "_DUMP_FILE" not in line and "WARN" not in line
        ]
        assert ("timed" in "".join(timed)) == ("timed" in "".join(alone))
    else:
        assert nccl.stdout == []
    learnt = said.algorithm == "ring"
    assert learnt == (facts.how is not None)
    assert learnt or facts.notes
    mine = list(tmp_path.glob("mine*"))
    assert all(file.stat().st_size for file in mine), "a file of the user's was emptied"


def test_the_users_own_log_file_is_read_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.setenv("NCCL_DEBUG_SUBSYS", "INIT,ENV,TUNING")
    monkeypatch.setenv("NCCL_DEBUG_FILE", str(tmp_path / "mine.%p"))
    nccl = LoggingNccl()
    witness = begun(nccl, tmp_path)
    comm = Communicator(nccl, "NET/IB/0/GDRDMA")
    said = witness.saw(point(), comm.call(LINE))
    comm.call("AllReduce: 8 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..0}")()
    other = witness.saw(
        point("broadcast", 64), comm.call("Broadcast: 64 Bytes -> Algo RING proto LL")
    )
    facts = witness.close()
    assert (said.algorithm, said.protocol, said.transport, said.gdr) == (
        "ring",
        "ll128",
        "NET/IB",
        True,
    )
    assert (other.algorithm, other.protocol) == ("ring", "ll")
    assert facts.variables["NCCL_NTHREADS"] == "256"
    assert facts.how is not None
    assert "your own" in facts.how
    assert "TUNING" in facts.notes[0], "the user's setting prints at every call: said"
    assert nccl.reads == 1, "the user's file is never opened anew"
    assert (tmp_path / f"mine.{os.getpid()}").read_text().count("Bytes ->") == 3


def test_an_old_nccl_says_why_its_choice_is_not_known(tmp_path: Path) -> None:
    nccl = LoggingNccl((2, 21, 5))
    witness = begun(nccl, tmp_path)
    said = witness.saw(point(), Communicator(nccl).call("1048576 Bytes -> Algo 1 proto 2 time 9.4"))
    facts = witness.close()
    assert (said.algorithm, said.transport, said.version) == (None, "P2P/CUMEM", "2.21.5")
    assert facts.how is None
    assert "2.27" in facts.notes[0]
    assert "Bytes ->" not in (tmp_path / "nccl" / "rank0.log").read_text()


@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_without_nccl_it_only_calls(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under gloo, and under NCCL with a torch that has none."""
    maps = tmp_path / "maps"
    maps.write_text("7f00-7f01 r-xp 0 08:01 1 /lib/libc.so.6\n")
    assert loaded_library(maps) is None
    witness = open_witness(tmp_path, 0, backend)
    calls: list[int] = []
    said = witness.saw(point(), lambda: calls.append(1))
    assert calls == [1]
    assert (said.algorithm, said.transport, said.version) == (None, None, None)
    if backend == "gloo":
        assert said == UNSAID
        assert not any(tmp_path.glob("nccl*"))
    witness.close()
    assert own_variables() == {}


def test_ranks_above_0_only_call_unless_all_listen(tmp_path: Path) -> None:
    witness = open_witness(tmp_path, 3, "nccl")
    assert own_variables() == {"NCCL_TOPO_DUMP_FILE": os.devnull}
    assert witness.close().how is None
    assert own_variables() == {}
    assert not any(tmp_path.glob("nccl*"))

    nccl = LoggingNccl()
    witness = begun(nccl, None)
    said = witness.saw(point(), Communicator(nccl, "NET/Socket/0").call(LINE))
    assert (said.transport, said.gdr) == ("NET/Socket", False)
    facts = witness.close()
    assert (facts.files, facts.variables) == ((), {"NCCL_NTHREADS": "256"})
    assert nccl.stdout == []


@pytest.mark.parametrize("users", [None, "/tmp/topology-of-theirs.xml"])
def test_all_ranks_dump_the_topology_or_none_does(
    users: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NCCL's ranks of a host exchange it once more where they are asked for it, and hang unless all are."""
    if users is not None:
        monkeypatch.setenv("NCCL_TOPO_DUMP_FILE", users)
    asked = []
    for rank in (0, 1, 7):
        witness = Witness()
        witness.begin(lambda: None, tmp_path) if rank == 0 else witness.follow()
        for _ in range(2):
            asked.append("NCCL_TOPO_DUMP_FILE" in os.environ)
            witness.quiet()
        witness.close()
        assert os.environ.get("NCCL_TOPO_DUMP_FILE") == users
    assert all(asked)


def test_an_error_of_the_call_is_raised_and_the_log_is_quiet_again(tmp_path: Path) -> None:
    nccl = LoggingNccl()
    witness = begun(nccl, tmp_path)
    comm = Communicator(nccl)

    def broken() -> None:
        raise RuntimeError("NCCL error: remote process exited")

    with pytest.raises(RuntimeError, match="remote process"):
        witness.saw(point(), broken)
    comm.call(LINE)()
    assert own_variables()["NCCL_DEBUG"] == "WARN"
    assert "Bytes ->" not in (tmp_path / "nccl" / "rank0.log").read_text()
    witness.close()
    assert own_variables() == {}


def test_whatever_breaks_in_it_is_one_note_and_the_calls_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    places = (
        ("clusterlab.bench.witness.witness.new_folder", 1, "ring"),
        ("clusterlab.bench.witness.witness.MemoryFile", 1, None),
        ("clusterlab.bench.witness.witness.own_environment", 1, None),
        ("clusterlab.bench.witness.witness.Tail.take", 1, None),
        ("clusterlab.bench.witness.witness.MemoryFile.take", 1, None),
        ("clusterlab.bench.witness.witness.chosen", 1, None),
    )
    for number, (place, notes, algorithm) in enumerate(places):
        run = tmp_path / str(number)
        run.mkdir()
        calls: list[int] = []
        with monkeypatch.context() as patch:
            patch.setattr(place, fails)
            nccl = LoggingNccl()
            witness = begun(nccl, run)
            comm = Communicator(nccl)

            def call(comm: Communicator = comm, calls: list[int] = calls) -> None:
                calls.append(1)
                comm.call(LINE)()

            said = [witness.saw(point(), call) for _ in range(3)]
            facts = witness.close()
        assert calls == [1, 1, 1], place
        assert [s.algorithm for s in said] == [algorithm] * 3, place
        assert len(facts.notes) >= notes, place
        assert "No space left" in facts.notes[0], place
        assert own_variables() == {}, place


def test_no_run_directory_is_a_note_only(tmp_path: Path) -> None:
    nccl = LoggingNccl()
    witness = begun(nccl, tmp_path / "absent")
    said = witness.saw(point(), Communicator(nccl).call(LINE))
    assert (said.algorithm, said.transport) == ("ring", "P2P/CUMEM")
    assert len(witness.close().notes) == 1


# -- whose connections ----------------------------------------------------------------------------


def test_sends_and_collectives_have_connections_of_their_own(tmp_path: Path) -> None:
    nccl = LoggingNccl()
    witness = begun(nccl, tmp_path)
    ring = Communicator(nccl, "NET/IB/0/GDRDMA", index=0)
    sends = Communicator(nccl, "P2P/CUMEM", index=1)
    assert witness.saw(point(), ring.call(LINE)).transport == "NET/IB"
    sent = witness.saw(point("send_recv"), sends.call(None))
    assert (sent.transport, sent.gdr, sent.algorithm) == ("P2P/CUMEM", None, None)
    assert witness.saw(point("all_to_all"), sends.call(None)).transport == "P2P/CUMEM"
    assert witness.saw(point(), ring.call(LINE)).transport == "NET/IB"
    assert witness.close().transports == ("NET/IB", "P2P/CUMEM")


def test_a_pair_has_the_connections_that_its_own_calls_made(tmp_path: Path) -> None:
    nccl = LoggingNccl()
    witness = begun(nccl, tmp_path)
    near, far = Communicator(nccl, "P2P/IPC", 1), Communicator(nccl, "NET/Socket/0", 1)
    for size in (8, MiB):
        first = point("send", size, ranks=(0, 1))
        second = point("send", size, ranks=(0, 5))
        assert witness.saw(first, near.call(None)).transport == "P2P/IPC"
        assert witness.saw(second, far.call(None)).transport == "NET/Socket"
    assert witness.close().transports == ("NET/Socket", "P2P/IPC")


@pytest.mark.parametrize(
    ("algorithm", "transport"),
    [("NVLS", "NET/IB,NVLS"), ("NVLS_TREE", "NET/IB,NVLS"), ("RING", "NET/IB,P2P/CUMEM")],
)
def test_nvls_stands_for_the_ways_inside_a_host(
    algorithm: str, transport: str, tmp_path: Path
) -> None:
    nccl = LoggingNccl()
    witness = begun(nccl, tmp_path)
    Communicator(nccl, "P2P/CUMEM").call(None)()
    comm = Communicator(nccl, "NET/IB/0/GDRDMA")
    said = witness.saw(point(), comm.call(LINE.replace("RING", algorithm)))
    assert (said.transport, said.gdr) == (transport, True)


def test_one_nic_without_gdr_is_no_gdr(tmp_path: Path) -> None:
    nccl = LoggingNccl()
    witness = begun(nccl, tmp_path)
    Communicator(nccl, "NET/IB/0/GDRDMA").call(None)()
    said = witness.saw(point(), Communicator(nccl, "NET/IB/1").call(LINE))
    assert (said.transport, said.gdr) == ("NET/IB", False)


# -- which choice ---------------------------------------------------------------------------------


def choices(*messages: str) -> list[TuningChoice]:
    found = [read_choice(message) for message in messages]
    assert None not in found
    return [choice for choice in found if choice is not None]


@pytest.mark.parametrize(
    ("name", "messages", "algorithm", "protocol", "channels"),
    [
        # 2.20 to 2.22: numbers, no collective, the whole buffer
        ("all_gather", ["1048576 Bytes -> Algo 1 proto 0 time 9.4"], "ring", "ll", None),
        # 2.23
        (
            "all_gather",
            ["AllGather: 1048576 Bytes -> Algo 1 proto 2 time 9.4"],
            "ring",
            "simple",
            None,
        ),
        # since 2.24: one rank's part
        (
            "all_gather",
            ["AllGather: 262144 Bytes -> Algo PAT proto SIMPLE channel{Lo..Hi}={0..3}"],
            "pat",
            "simple",
            4,
        ),
        (
            "reduce_scatter",
            ["ReduceScatter: 262144 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={2..9}"],
            "ring",
            "ll128",
            8,
        ),
        # a group of four calls, of which NCCL places each on channels of its own
        (
            "all_reduce",
            [
                "AllReduce: 1048576 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..2}",
                "AllReduce: 1048576 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={3..5}",
                "AllReduce: 1048576 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={6..8}",
                "AllReduce: 1048576 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={9..11}",
            ],
            "ring",
            "simple",
            3,
        ),
        # another communicator's call at the same time
        (
            "all_reduce",
            [
                "AllReduce: 4 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..0}",
                "AllReduce: 4 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..0}",
                "AllReduce: 1048576 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15}",
            ],
            "nvls",
            "simple",
            16,
        ),
        # 2.23 counts a group's bytes together
        (
            "all_reduce",
            ["AllReduce: 4194304 Bytes -> Algo 0 proto 2 time 91.0"],
            "tree",
            "simple",
            None,
        ),
        (
            "all_reduce",
            [
                "AllReduce [Symmetric]: 1048576 Bytes -> Kernel AllReduce_AGxLLMC_R nchannels 8 "
                "nthreads 512 nWorks 1"
            ],
            "symmetric",
            None,
            8,
        ),
        (
            "all_to_all",
            ["AlltoAll [Copy Engine]: 262144 Bytes -> cudaMemcpy; CE synchronization with NVLS"],
            "copy_engine",
            None,
            None,
        ),
    ],
)
def test_every_versions_choice_is_taken_for_its_point(
    name: str, messages: list[str], algorithm: str, protocol: str | None, channels: int | None
) -> None:
    choice = chosen(choices(*messages), point(name, ranks=4))
    assert choice is not None
    assert (choice.algorithm, choice.protocol, choice.channels) == (algorithm, protocol, channels)


@pytest.mark.parametrize("name", ["send_recv", "all_to_all", "all_reduce"])
def test_what_was_said_of_another_collective_is_not_taken(name: str) -> None:
    assert chosen([], point(name)) is None
    assert chosen(choices("Broadcast: 1048576 Bytes -> Algo RING proto LL"), point(name)) is None


def test_a_replayed_log_gives_each_size_the_choice_that_nccl_made(tmp_path: Path) -> None:
    """Every line of a real sweep, replayed call by call."""
    path = shared_dir() / "measured" / "h200x2" / "all_reduce_with_tuning_log.txt"
    messages = [
        line.partition("NCCL INFO ")[2]
        for line in path.read_text().splitlines()
        if "Bytes ->" in line
    ]
    nccl = LoggingNccl()
    witness = begun(nccl, tmp_path)
    comm = Communicator(nccl)
    seen: dict[int, set[tuple[str | None, str | None]]] = {}
    for message in messages:
        printed = read_choice(message)
        assert printed is not None
        said = witness.saw(point(size=printed.bytes), comm.call(message))
        assert (said.algorithm, said.protocol) == (printed.algorithm, printed.protocol)
        assert said.channels == printed.channels
        seen.setdefault(printed.bytes, set()).add((said.algorithm, said.protocol))
    assert len(seen) > 10
    witness.close()


# -- small parts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subsystems", "tuning"),
    [
        ("TUNING", True),
        ("init,Tuning", True),
        ("ALL", True),
        ("^ALL", False),
        ("^INIT", True),
        ("^TUNING", False),
        ("INIT,GRAPH", False),
        ("", False),
    ],
)
def test_what_a_subsystem_list_lets_through(subsystems: str, tuning: bool) -> None:
    assert prints(subsystems, "TUNING") is tuning


def test_a_users_file_name_is_expanded_as_nccl_does() -> None:
    assert expanded("a.%h.%p.%%p", host="n7.site.org", pid=12) == "a.n7.12.%p"


def test_configuration_files_count_where_the_environment_says_nothing(tmp_path: Path) -> None:
    conf = tmp_path / "nccl.conf"
    conf.write_text("# a note\nNCCL_DEBUG=WARN\nNCCL_ALGO=Ring=x\nnothing\nOTHER=1\n")
    found = configured_variables({"NCCL_CONF_FILE": str(conf)})
    assert found[:2] == [("NCCL_DEBUG", "WARN"), ("NCCL_ALGO", "Ring=x")]
    seen = nccl_variables({"NCCL_ALGO": "Tree", "PATH": "/"}, found)
    assert (seen["NCCL_DEBUG"], seen["NCCL_ALGO"], "OTHER" in seen) == ("WARN", "Tree", False)


def test_settings_of_a_configuration_file_are_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = tmp_path / "nccl.conf"
    conf.write_text("NCCL_DEBUG=INFO\n")
    monkeypatch.setenv("NCCL_CONF_FILE", str(conf))
    witness = begun(LoggingNccl(), tmp_path)
    assert "NCCL_DEBUG" not in os.environ
    assert "standard output" in witness.close().notes[0]


@pytest.mark.parametrize(
    ("code", "version"), [(22809, (2, 28, 9)), (21805, (2, 18, 5)), (2804, (2, 8, 4))]
)
def test_a_version_code_is_decoded(code: int, version: tuple[int, int, int]) -> None:
    assert decoded(code) == version


@pytest.mark.parametrize(
    ("line", "path"),
    [
        (
            "7f-7e r-xp 0 08:01 1   /v/nvidia/nccl/lib/libnccl.so.2",
            "/v/nvidia/nccl/lib/libnccl.so.2",
        ),
        ("7f-7e r-xp 0 08:01 1   /opt/rocm/lib/librccl.so.1.0", "/opt/rocm/lib/librccl.so.1.0"),
        ("7f-7e r-xp 0 08:01 1   /v/libnccl-net.so", None),
        ("7f-7e r-xp 0 08:01 1   /v/libtorch_cuda.so", None),
    ],
)
def test_the_library_is_found_among_what_is_loaded(line: str, path: str | None) -> None:
    assert library_path(f"55-56 r-xp 0 08:01 1 /bin/python3\n{line}\n") == path


def test_folders_of_attempts_do_not_meet(tmp_path: Path) -> None:
    assert [new_folder(tmp_path).name for _ in range(3)] == ["nccl", "nccl-2", "nccl-3"]
