"""Who is refused: without the token, from other hosts and origins, by other methods and tricks with paths."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.records.fake_runs import fake_rows, make_run, points
from tests.runs.serving.live_server import Live, Said, live

SECRET = "what-lies-outside"
NAME = "20261129T120000Z-here-0a0a0a"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Two runs, and things outside that must not be reached."""
    base = tmp_path_factory.mktemp("served")
    root = base / "runs"
    run = make_run(root, fake_rows(points(["all_reduce"])), name="here")
    run.path.rename(root / NAME)
    (base / "secret").write_text(SECRET)
    outside = make_run(base / "outside", [], name=SECRET).path
    (root / "linked").symlink_to(outside, target_is_directory=True)
    for name, file in (("rows", "records.jsonl"), ("info", "run.json"), ("deep", "samples/x")):
        made = make_run(root, [], name=name).path.rename(root / f"{name}-link")
        (made / file).unlink(missing_ok=True)
        (made / file).symlink_to(base / "secret")
    piped = make_run(root, [], name="pipe").path.rename(root / "pipe")
    (piped / "steps.jsonl").unlink(missing_ok=True)
    os.mkfifo(piped / "steps.jsonl")
    with live(root, tmp_path_factory.mktemp("scratch")) as server:
        yield server


def refused(said: Said, status: int, server: Live) -> None:
    assert said.status == status, said
    assert said.headers["Content-Type"] == "text/plain; charset=utf-8"
    told = repr(said.headers) + said.text
    for secret in (SECRET, server.gate.token, server.gate.cookie, server.gate.mount, "Traceback"):
        assert secret not in told
    safe(said)


def safe(said: Said) -> None:
    policy = said.headers["Content-Security-Policy"].split("; ")
    assert policy[0] == "default-src 'none'"
    assert "frame-ancestors 'none'" in policy
    assert not any("unsafe" in part or "*" in part for part in policy)
    assert said.headers["X-Content-Type-Options"] == "nosniff"
    assert said.headers["Referrer-Policy"] == "no-referrer"
    assert said.headers["Cache-Control"] == "no-store"
    assert "Server" not in said.headers and "Access-Control-Allow-Origin" not in said.headers


def test_the_token_becomes_a_cookie_and_the_cookie_opens_pages(served: Live) -> None:
    said = served.ask(f"/?token={served.gate.token}", Cookie=None)
    assert said.status == 303 and said.headers["Location"] == served.gate.mount
    cookie, *attributes = said.headers["Set-Cookie"].split("; ")
    assert attributes == [f"Path={served.gate.mount}", "HttpOnly", "SameSite=Strict"]
    assert served.gate.token not in repr(said)
    safe(said)
    found = served.page("", Cookie=cookie)
    assert found.status == 200 and NAME in found.text
    safe(found)
    # Another server on this host sets cookies too, also such as no library parses.
    assert served.page("", Cookie=f'x={{"a":[1]}}; é=1; {cookie}; y').status == 200


def without_token(server: Live) -> dict[str, tuple[str, dict[str, str | None]]]:
    token, mount, cookie = server.gate.token, server.gate.mount, server.gate.cookie
    none: dict[str, str | None] = {"Cookie": None}
    return {
        "nothing": ("/", none),
        "nothing, a page": (mount, none),
        "nothing, a run": (f"{mount}run/{NAME}/", none),
        "nothing, no page": ("/favicon.ico", none),
        "wrong": ("/?token=" + "A" * len(token), none),
        "a part": (f"/?token={token[:-1]}", none),
        "more": (f"/?token={token}A", none),
        "empty": ("/?token=", none),
        "another letter": (f"/?token={token.swapcase()}", none),
        "not ASCII": ("/?token=%C3%A9", none),
        "no name": (f"/?{token}", none),
        "twice": (f"/?token={token}&token={token}", none),
        "beside others": (f"/?token={token}&x=1", none),
        "the cookie's": (f"/?token={cookie}", none),
        "in the path": (f"/{token}", none),
        "for a page": (f"{mount}?token={token}", none),
        "below": (f"{mount}run/{NAME}/?token={token}", none),
        "as Authorization": ("/", {"Cookie": None, "Authorization": f"Bearer {token}"}),
        "as a header": ("/", {"Cookie": None, "Token": token}),
        "as the cookie": (mount, {"Cookie": f"clusterlab={token}"}),
        "cookie of no value": (mount, {"Cookie": "clusterlab="}),
        "a part of the cookie": (mount, {"Cookie": f"clusterlab={cookie[:-1]}"}),
        "cookie of another name": (mount, {"Cookie": f"other={cookie}"}),
        "two cookies": (mount, {"Cookie": f"clusterlab={cookie}; clusterlab=x"}),
    }


def test_without_the_token_nothing_is_answered(served: Live) -> None:
    for name, (target, headers) in without_token(served).items():
        said = served.ask(target, **headers)
        assert said.status == 401, name
        refused(said, 401, served)
        assert "Set-Cookie" not in said.headers


@pytest.mark.parametrize(
    "host",
    [
        None, "", "127.0.0.1", "localhost", "evil.example", "evil.example:{port}", "localhost:1",
        "127.0.0.1:{port}.evil.example", "localhost.:{port}", "127.1:{port}", "0.0.0.0:{port}",
        "[::ffff:127.0.0.1]:{port}", "user@127.0.0.1:{port}", "127.0.0.1:0{port}", "2130706433:{port}",
    ],
)  # fmt: skip
def test_other_hosts_are_refused(served: Live, host: str | None) -> None:
    given = None if host is None else host.format(port=served.port)
    said = served.page("", Host=given)
    assert said.status in (400, 403)
    refused(said, said.status, served)


@pytest.mark.parametrize(
    "host", ["127.0.0.1:{port}", "localhost:{port}", "[::1]:{port}", "LocalHost:{port}"]
)
def test_names_of_this_host_are_served(served: Live, host: str) -> None:
    assert served.page("", Host=host.format(port=served.port)).status == 200


def test_two_hosts_are_refused(served: Live) -> None:
    request = served.request(served.gate.mount).replace(b"\r\n\r\n", b"\r\nHost: evil\r\n\r\n")
    refused(served.raw(request), 400, served)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Origin", "http://evil.example"), ("Origin", "null"), ("Origin", "http://127.0.0.1:1"),
        ("Origin", "https://127.0.0.1:{port}"), ("Origin", "http://127.0.0.1:{port}.evil"),
        ("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Site", "same-site"), ("Sec-Fetch-Site", "x"),
    ],
)  # fmt: skip
def test_other_origins_are_refused(served: Live, name: str, value: str) -> None:
    for target in (served.gate.mount, f"/?token={served.gate.token}"):
        headers = {name.replace("-", "_"): value.format(port=served.port)}
        refused(served.ask(target, **headers), 403, served)  # type: ignore[arg-type]


def test_its_own_pages_may_ask(served: Live) -> None:
    own = f"http://localhost:{served.port}"
    assert served.page("", Origin=own, Sec_Fetch_Site="same-origin").status == 200
    assert served.page("", Sec_Fetch_Site="none").status == 200


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "X"]
)
def test_pages_are_only_read(served: Live, method: str) -> None:
    said = served.page("", method=method)
    refused(said, 405, served)
    assert said.headers["Allow"] == "GET, HEAD"


def test_a_head_is_a_get_without_its_body(served: Live) -> None:
    whole, head = served.page(""), served.page("", method="HEAD")
    assert head.status == 200 and head.body == b""
    assert head.headers["Content-Length"] == str(len(whole.body))


@pytest.mark.parametrize("header", ["Content-Length: 5", "Transfer-Encoding: chunked"])
def test_a_request_that_carries_something_is_refused(served: Live, header: str) -> None:
    request = served.request(served.gate.mount)[:-2] + f"{header}\r\n\r\nhello".encode()
    refused(served.raw(request), 400, served)


@pytest.mark.parametrize(
    "tail",
    [
        "..", "../", "../secret", "%2e%2e/secret", "%2E%2e%2fsecret", "..%2fsecret", "..%5csecret",
        "run/../../secret", "run/../secret/", "run/%2e%2e/", "run/%2e%2e%2f%2e%2e%2fsecret/",
        "run//etc/passwd", "run/%2fetc%2fpasswd/", "run//", "//etc/passwd", "run/./",
        f"run/{NAME}/../../secret", f"run/{NAME}/..%2f..%2fsecret", f"run/{NAME}%00/",
        f"run/{NAME}/%00", f"run/{NAME}%2f", f"run/{NAME}/run.json", f"run/{NAME}/samples/",
        f"run/{NAME}/logs/", f"run/{NAME}/rows.csv/", f"run/{NAME}/rows.csv%00.html", f"run/{NAME}/.",
        f"run/{NAME}", f"run/{NAME.lower()}x/", f"run/%252e%252e/{NAME}/", "run/%c0%ae%c0%ae/",
        "run/%ff/", "run/%0a/", f"run/{NAME}/%2e%2e/{NAME}/", f"run/.{NAME}/", "run/linked/",
        "run/rows-link/", "run/rows-link/records.jsonl", "run/rows-link/rows.csv", "run/info-link/",
        "run/deep-link/", "run/deep-link/data.json", "run/pipe/", f"run/{'A' * 4000}/", "index.html",
        f"compare?a={NAME}&b=../secret", "compare?a=linked&b=linked", f"compare?a=%2e%2e&b={NAME}",
        "?page=../x", "?page=-1", "?page=%F0%9D%9F%9C", "?x=1",
    ],
)  # fmt: skip
def test_no_trick_with_a_path_leads_out(served: Live, tail: str) -> None:
    refused(served.page(tail), 404, served)


@pytest.mark.parametrize(
    "target", ["http://127.0.0.1:{port}{mount}", "*", "evil.example:80", "{mount}/../\tx"]
)
def test_a_target_is_a_path(served: Live, target: str) -> None:
    said = served.ask(target.format(port=served.port, mount=served.gate.mount))
    refused(said, 400, served)


NO_REQUESTS = {
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 40 + b"\r\n\r\n", 400),
    "HTTP/0.9": (b"GET /\r\n\r\n", 400),
    "HTTP/1.0 without a host": (b"GET / HTTP/1.0\r\n\r\n", 403),
    "a space before the colon": (b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400),
    "a folded line": (b"GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n", 403),
    "a long target": (b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
    "a long header": (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 40_000 + b"\r\n\r\n", 431),
    "many headers": (
        b"GET / HTTP/1.1\r\n" + b"".join(b"X%d: y\r\n" % i for i in range(9000)) + b"\r\n", 431,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_REQUESTS)
def test_what_is_no_request_is_refused(served: Live, name: str) -> None:
    request, status = NO_REQUESTS[name]
    refused(served.raw(request), status, served)
