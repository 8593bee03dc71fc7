"""A machine's facts in a file, as a part to import."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.topology.discover.machine import read_machine
from clusterlab.topology.importing.discover import read_discover, recognise
from tests.topology.discover.trees import dgx_h100, dgx_nvml


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    sys = dgx_h100(tmp_path_factory.mktemp("dgx"))
    facts = read_machine("n0", sys=sys.root, nvml=dgx_nvml(), addresses=None)
    return json.dumps(facts.to_json(), indent=1)


def test_a_part_is_recognised_and_read_as_the_machine_it_was(text: str) -> None:
    assert recognise(text)
    found = read_discover(text, file="n0.json")
    assert found.kind == "discover"
    assert len(found.fabric.of_kind("gpu")) == 8
    assert found.fabric.hosts == ("n0",)


def test_other_json_is_not_a_part() -> None:
    assert not recognise('{"switches": []}')
    assert not recognise("")


def test_another_form_is_refused_with_a_way_out(text: str) -> None:
    with pytest.raises(UsageError, match=r"n0\.json: not what a clusterlab of this version saw"):
        read_discover(
            text.replace('"clusterlab_machine": 1', '"clusterlab_machine": 99'), file="n0.json"
        )


@given(st.data())
def test_a_damaged_part_is_refused_or_read_never_a_traceback(data: st.DataObject) -> None:
    whole = json.dumps(
        {"clusterlab_machine": 1, "host": "n0", "cpu": {}, "domains": [], "pci": [], "xgmi": [],
         "gpus": [{"bus_id": "0000:01:00.0", "vendor": "nvidia", "nvlinks": []}], "nics": [],
         "levels": [], "notes": []}
    )  # fmt: skip
    assert read_discover(whole, file="n0.json").fabric.hosts == ("n0",)
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(len(whole), start + 12)))
    patch = data.draw(
        st.sampled_from(["", "null", "7", '"x"', "[]", "{}", "-1", "1e999", '"\\ud800"'])
    )
    damaged = whole[:start] + patch + whole[end:]
    try:
        read_discover(damaged, file="n0.json")
    except UsageError as error:
        assert "n0.json" in str(error)
