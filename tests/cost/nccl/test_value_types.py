"""Values of NCCL's variables: numbers as C reads them, words that NCCL knows."""

import ctypes
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.cost.nccl.value_types import NUMBERS, WORDS, check_values, whole_number
from clusterlab.cost.nccl.variables import GRAPH_VARIABLES, SELECTIONS, TUNING_VARIABLES

NO_NUMBERS = {
    *SELECTIONS,
    *("NCCL_P2P_LEVEL", "NCCL_NET_GDR_LEVEL", "NCCL_NET", "NCCL_IB_HCA", "NCCL_THREAD_THRESHOLDS"),
}


def strtoll(text: str) -> tuple[int, int, bool]:
    """C's own: the value, how many bytes it read, and whether 64 bits hold it."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.strtoll.restype = ctypes.c_longlong
    buffer = ctypes.create_string_buffer(text.encode())
    end = ctypes.c_void_p()
    ctypes.set_errno(0)
    value = libc.strtoll(buffer, ctypes.byref(end), 0)
    read = (end.value or 0) - ctypes.addressof(buffer)
    return value, read, ctypes.get_errno() == 0


numbers = st.one_of(
    st.integers(-(2**65), 2**65).flatmap(
        lambda n: st.sampled_from((str(n), hex(n), oct(n), oct(n).replace("o", ""), f"{n:_}"))
    ),
    st.text(alphabet="0123456789xXabfoM_+-. ", max_size=8),
    st.text(max_size=8),
)


@given(numbers)
@example("abc")
@example("4M")
@example("1_000")
@example("010")
@example("08")
@example("0x")
@example("0b1")
@example("٣")
@example(str(2**63 - 1))
@example(str(2**63))
@example("9" * 5000)
def test_a_number_is_what_c_reads_and_all_else_is_refused(text):
    text = text.strip()
    value, read, fits = strtoll(text)
    if text and fits and read == len(text.encode()):
        assert whole_number("NCCL_BUFFSIZE", text) == value
        return
    with pytest.raises(UsageError, match=r"^NCCL_BUFFSIZE: .*; expected a whole number; ") as error:
        whole_number("NCCL_BUFFSIZE", text)
    taken = re.search(r"NCCL would take (its default|-?\d+) and go on", str(error.value))
    assert taken is not None
    assert taken[1] == (str(value) if fits else "its default")


def test_every_modelled_variable_of_a_number_is_listed():
    assert {*TUNING_VARIABLES, *GRAPH_VARIABLES} - NO_NUMBERS <= NUMBERS
    assert not NUMBERS & (NO_NUMBERS | set(WORDS))


@pytest.mark.parametrize("value", ["abc", "4M", "1.5", "yes", "0x", "--1"])
def test_every_variable_of_a_number_refuses_what_is_none(value):
    for name in NUMBERS:
        with pytest.raises(UsageError, match=f"^{name}: '{value}'; expected a whole number"):
            check_values({name: value})
        check_values({name: " 0x10 "})


@pytest.mark.parametrize("name", WORDS)
def test_every_variable_of_words_takes_its_words_and_no_other(name):
    kind = WORDS[name]
    for word in kind.known:
        check_values({name: word})
        if kind.any_case:
            check_values({name: word.lower()})
        else:
            with pytest.raises(UsageError, match=f"did you mean '{word}'"):
                check_values({name: word.lower()})
    for bad in ("wombat", "", f"{kind.known[0]} {kind.known[1]}", f"{kind.known[0]},wombat"):
        with pytest.raises(UsageError, match=f"^{name}: .*expected one of {kind.known[0]}, "):
            check_values({name: bad})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_DEBUG_SUBSYS", "init,GRAPH"),
        ("NCCL_DEBUG_SUBSYS", "^INIT,COLL,"),
        ("NCCL_DEBUG_TIMESTAMP_LEVELS", "^ALL"),
        ("NCCL_CTA_POLICY", "EFFICIENCY|zero"),
        ("NCCL_CTA_POLICY", "2"),
        ("NCCL_NETDEVS_POLICY", "max:4"),
    ],
)
def test_several_words_and_other_spellings(name, value):
    check_values({name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_DEBUG", "^INFO"),
        ("NCCL_DEBUG", "WARN,INFO"),
        ("NCCL_CTA_POLICY", "3"),
        ("NCCL_CTA_POLICY", "ZERO,DEFAULT"),
        ("NCCL_NETDEVS_POLICY", "MAX:0"),
        ("NCCL_NETDEVS_POLICY", "MAX"),
        ("NCCL_DEBUG_SUBSYS", "^"),
    ],
)
def test_spellings_of_one_variable_are_no_other_ones(name, value):
    with pytest.raises(UsageError, match=f"^{name}: "):
        check_values({name: value})


def test_what_nobody_knows_the_kind_of_passes():
    check_values({"NCCL_HOSTID": "abc", "NCCL_OF_A_PLUGIN": "x=y"})
