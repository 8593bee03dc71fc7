"""The tuning tables and choices that real NCCL printed, reproduced."""

import csv

import pytest

from clusterlab.cost.nccl.choice import ranked
from clusterlab.cost.nccl.tuning import format_tuning_table, tuning_table
from clusterlab.cost.nccl.words import NCCL_COLLECTIVES
from tests.cost.nccl.nccl_logs import calls, h100_nodes, h200_pair, socket_pair, table_lines
from tests.support import shared_dir

LOGS = {
    "h200x2": ("measured/h200x2/all_reduce_with_tuning_log.txt", h200_pair),
    "socket": ("samples/nccl_logs/socket_2r_tuning_info.txt", socket_pair),
}


def test_h100_tables_of_2_27_5_are_reproduced_in_all_figures():
    path = shared_dir() / "measured" / "nccl_2.27.5_h100_tuning_tables.csv"
    compared = 0
    with path.open() as file:
        for row in csv.DictReader(file):
            comm = h100_nodes(int(row["n_nodes"]), int(row["gpus_per_node"]))
            for collective in row["collective"].split("|"):
                entry = tuning_table(collective, comm)[row["algorithm"], row["protocol"]]
                assert entry.latency_us == pytest.approx(float(row["latency_us"]), abs=0.0501), row
                assert entry.algbw_GBps == pytest.approx(float(row["algbw_gbps"]), abs=0.0501), row
            compared += 2
    assert compared == 360


@pytest.mark.parametrize("log", LOGS)
def test_the_printed_table_is_reproduced_line_by_line(log):
    path, communicator = LOGS[log]
    printed = table_lines(shared_dir() / path)
    assert len(printed) == 3 * (3 + 5)
    assert format_tuning_table(communicator()).splitlines() == printed


@pytest.mark.parametrize("log", LOGS)
def test_every_call_takes_the_algorithm_protocol_and_channels_that_nccl_took(log):
    path, communicator = LOGS[log]
    ours = {theirs: word for word, theirs in NCCL_COLLECTIVES.items()}
    comm, compared = communicator(), 0
    for name, size, algorithm, protocol, channels in sorted(calls(shared_dir() / path)):
        if name not in ours:
            continue
        best = ranked(ours[name], size, comm)[0]
        got = (best.algorithm.upper(), best.protocol.upper(), best.channels)
        assert got == (algorithm, protocol, channels), (name, size)
        compared += 1
    assert compared >= 18
