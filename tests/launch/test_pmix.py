from __future__ import annotations

import ctypes
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.launch import pmix, pmix_abi, pmix_bindings, pmix_ctypes
from clusterlab.launch.pmix_types import PmixDeadlineError, check_key, check_value
from tests.launch.environments import recorded

SERVED = {"PMIX_NAMESPACE": "job", "PMIX_RANK": "0"}


def reason(environ: dict[str, str]) -> str:
    got = pmix.connect(environ, timeout_s=5)
    assert isinstance(got, pmix.NoPmix)
    return got.reason


def test_a_process_without_a_server_is_told_so_without_loading_anything() -> None:
    assert "no PMIx server started this process" in reason({})


def test_pmix_can_be_switched_off() -> None:
    assert reason(SERVED | {"CLUSTERLAB_PMIX": "off"}) == "switched off by CLUSTERLAB_PMIX=off"


def test_an_unknown_implementation_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UsageError, match="did you mean 'ctypes'"):
        pmix.connect({"CLUSTERLAB_PMIX": "ctype"})


def test_another_processs_variables_are_not_used_to_connect() -> None:
    assert "the torchrun agent's" in reason(recorded("torchrun_step")[0])


def test_a_missing_libpmix_is_a_reason_not_a_crash() -> None:
    environ = SERVED | {"CLUSTERLAB_PMIX": "ctypes", "CLUSTERLAB_LIBPMIX": "libnosuch.so.9"}
    got = pmix.connect(environ)
    assert isinstance(got, pmix.NoPmix)
    assert got.expected
    assert "libpmix cannot be loaded" in got.reason
    assert "libpmix2" in got.reason


def test_a_library_that_is_no_pmix_is_a_reason_not_a_crash() -> None:
    got = pmix_ctypes.connect(timeout_s=5, library="libc.so.6")
    assert isinstance(got, pmix.NoPmix)
    assert "libc.so.6 is no PMIx library" in got.reason


def test_a_version_with_unknown_structures_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class OldLibrary:
        @staticmethod
        def PMIx_Get_version() -> bytes:
            return b"OpenPMIx 2.2.5 (PMIx Standard: 2.2)"

    monkeypatch.setattr(pmix_abi, "load_library", lambda path: OldLibrary())
    got = pmix_ctypes.connect(timeout_s=5)
    assert isinstance(got, pmix.NoPmix)
    assert "versions 3 to 6 are understood" in got.reason


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ("OpenPMIx 4.2.2rc2 (PMIx Standard: 4.2, Stable ABI: 0.0)", 4),
        ("OpenPMIx 5.0.1, repo rev: v5.0.1", 5),
        ("PMIx 3.2.3", 3),
        ("", None),
    ],
)
def test_the_major_version_is_read(text: str, major: int | None) -> None:
    assert pmix_abi.major_version(text) == major


def test_a_call_that_never_returns_is_left_behind() -> None:
    libc = ctypes.CDLL(None)
    with pytest.raises(PmixDeadlineError, match=r"PMIx fence did not return within 0.1 s"):
        pmix_ctypes.within("fence", lambda: int(libc.sleep(1)), 0.1)
    for thread in threading.enumerate():  # a process with a second thread cannot fork ranks
        if thread.name == "pmix-fence":
            thread.join()


def test_no_python_with_the_bindings_is_a_reason() -> None:
    got = pmix_bindings.connect(timeout_s=20, interpreters=["/nosuch/python", sys.executable])
    assert isinstance(got, pmix.NoPmix)
    assert "/nosuch/python: No such file" in got.reason
    assert "No module named" in got.reason


def test_a_module_that_is_not_the_bindings_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pmix.py").write_text("unrelated = True\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    got = pmix_bindings.connect(timeout_s=20, interpreters=[sys.executable])
    assert isinstance(got, pmix.NoPmix)
    assert "is not the PMIx bindings" in got.reason


FAKE_BINDINGS = """
import os, time
class PMIxClient:
    def get_version(self): return b"fake"
    def error_string(self, code): return "SOME-ERROR"
    def init(self, info):
        print("CLIENT STARTING THREAD", flush=True)
        return 0, {"nspace": "job", "rank": 1}
    def put(self, *a): return 0
    def commit(self): os._exit(9)
    def fence(self, *a): time.sleep(60)
    def finalize(self, info): return -27
    def get(self, who, key, info): return (-46, None)
"""


@pytest.fixture
def fake_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pmix_bindings.BindingsClient:
    (tmp_path / "pmix.py").write_text(FAKE_BINDINGS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    client = pmix_bindings.connect(timeout_s=20, interpreters=[sys.executable])
    assert isinstance(client, pmix_bindings.BindingsClient)
    return client


def test_bindings_that_print_do_not_disturb_the_replies(
    fake_client: pmix_bindings.BindingsClient,
) -> None:
    assert (fake_client.rank, fake_client.namespace, fake_client.version) == (1, "job", "fake")
    assert fake_client.get(0, "a.key", timeout_s=5) is None
    with pytest.raises(pmix.PmixError, match=r"PMIx finalize failed: SOME-ERROR \(-27\)"):
        fake_client.finalize()
    fake_client._helper.close()


def test_bindings_that_crash_take_only_their_helper_along(
    fake_client: pmix_bindings.BindingsClient,
) -> None:
    with pytest.raises(pmix.PmixError, match="the bindings' helper has died"):
        fake_client.commit()
    with pytest.raises(pmix.PmixError, match="the bindings' helper has died"):
        fake_client.put("a.key", b"x")
    fake_client._helper.close()


def test_bindings_that_wait_for_ever_meet_the_deadline(
    fake_client: pmix_bindings.BindingsClient,
) -> None:
    with pytest.raises(PmixDeadlineError):
        fake_client.fence(timeout_s=0.2)
    with pytest.raises(PmixDeadlineError):
        fake_client.get(0, "a.key", timeout_s=5)
    fake_client.finalize()
    fake_client._helper.close()


@given(st.text(max_size=600))
def test_a_key_is_what_pmix_can_carry(key: str) -> None:
    if 2 <= len(key) <= 511 and key.isascii():
        check_key(key)
    else:
        with pytest.raises(UsageError, match="PMIx key"):
            check_key(key)


def test_a_value_beyond_the_limit_is_refused() -> None:
    check_value(bytes(1 << 20))
    with pytest.raises(UsageError, match="1048577 bytes"):
        check_value(bytes((1 << 20) + 1))


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (pmix_abi.UINT16, "uint16", 65535),
        (pmix_abi.UINT32, "uint32", 4294967295),
        (pmix_abi.PROC_RANK, "uint32", 7),
        (pmix_abi.INT64, "int64", -5),
        (pmix_abi.BOOL, "flag", True),
        (pmix_abi.DOUBLE, "dval", 0.5),
    ],
)
def test_plain_values_are_read_by_their_type(kind: int, field: str, value: float) -> None:
    wrapped = pmix_abi.Value()
    wrapped.type = kind
    setattr(wrapped.data, field, value)
    assert pmix_abi.python_value(wrapped, limit_bytes=100) == value


def test_bytes_beyond_the_limit_and_unknown_types_are_no_value() -> None:
    buffer = ctypes.create_string_buffer(b"abcd", 4)
    wrapped = pmix_abi.Value()
    wrapped.type = pmix_abi.BYTE_OBJECT
    wrapped.data.bo.bytes = ctypes.cast(buffer, ctypes.c_void_p)
    wrapped.data.bo.size = 4
    assert pmix_abi.python_value(wrapped, limit_bytes=4) == b"abcd"
    assert pmix_abi.python_value(wrapped, limit_bytes=3) is None
    wrapped.type = 999
    assert pmix_abi.python_value(wrapped, limit_bytes=4) is None


def test_a_get_that_comes_back_with_an_error_found_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A rank that dies or leaves while it is asked for ends the wait, and is not there."""
    codes = {0: 0, 1: -46}
    client = object.__new__(pmix_ctypes.CtypesClient)
    monkeypatch.setattr(
        pmix_ctypes.CtypesClient, "_getter", lambda self, rank, key, found: lambda: codes[rank]
    )
    assert client.absent([0, 1], "test.key", wait_s=5.0) == [1]
