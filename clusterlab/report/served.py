"""Pages as a server on loopback gives them: the report's own page with a line on top that tells what is new,
and the list of runs. What they may load stands in a policy that names each style and script by its hash.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from urllib.parse import quote

import clusterlab
from clusterlab.report.html import environment
from clusterlab.report.text import cut, plain

RELOAD_S = 10
"""Without JavaScript a page of a run that is not over is loaded again so often."""

# Of a page that this room has rendered: all that a run says in it is escaped, so neither tag is a run's.
_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)
_OWN_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>\n?')
_BODY = re.compile(r"<body[^>]*>")


@dataclass(frozen=True, slots=True)
class Served:
    """``policy``: what the page adds to the server's Content-Security-Policy; ``stamp`` names its content."""

    html: str
    policy: str
    stamp: str = ""


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A line of the list. ``folder`` is the directory's name, ``done`` and ``planned`` count records."""

    folder: str
    name: str
    kind: str
    created_utc: str
    state: str
    done: int
    planned: int | None
    live: bool = False


def served(
    page: str, *, title: str, stamp: str, live: bool, home: str, links: Sequence[str]
) -> Served:
    """``page``, a whole document of this room's, for a server: ``home`` leads to the list, ``links`` are
    files beside the page. The ``stamp`` is compared with what the server says later.
    """
    bar = environment().get_template("served_bar.html.j2").render(
        title=plain(cut(title)), stamp=stamp, live=live, home=home, links=links, reload_s=RELOAD_S
    )  # fmt: skip
    style, script = _own("served.css"), _own("served.js") if live else ""
    text = _OWN_POLICY.sub("", page, count=1)
    head = f"<style>{style}</style>\n"
    if live:
        head += f'<noscript><meta http-equiv="refresh" content="{RELOAD_S}"></noscript>\n'
    text = text.replace("</head>", f"{head}</head>", 1)
    text = _BODY.sub(lambda found: f"{found[0]}\n{bar}", text, count=1)
    if live:
        before, end, after = text.rpartition("</body>")
        text = f"{before}<script>{script}</script>\n{end}{after}"
    return Served(text, _policy(text, script), stamp)


def run_list(runs: Sequence[ListedRun], *, page: int, pages: int, total: int) -> Served:
    """The list of ``runs``, of ``total``, on page ``page`` of ``pages``."""
    body = (
        environment()
        .get_template("served_runs.html.j2")
        .render(
            runs=[_shown(run) for run in runs],
            page=page,
            pages=pages,
            total=total,
            live=any(run.live for run in runs) or page == 1,
            version=clusterlab.__version__,
        )
    )
    stamp = hashlib.sha256(body.encode("utf-8", "replace")).hexdigest()[:16]
    made = served(body, title="runs", stamp=stamp, live=page == 1, home="", links=())
    return Served(made.html, made.policy, stamp)


def _shown(run: ListedRun) -> dict[str, str]:
    done = f"{run.done:,}"
    return {
        "folder": plain(run.folder),
        "value": run.folder,
        "href": f"run/{quote(run.folder, safe='')}/",
        "name": plain(run.name),
        "kind": plain(run.kind),
        "created": plain(run.created_utc)[:19].replace("T", " "),
        "state": plain(run.state),
        "done": f"{done} of {run.planned:,}" if run.planned else done,
        "live": "live" if run.live else "",
    }


def _policy(text: str, script: str) -> str:
    styles = dict.fromkeys(_hash(style) for style in _STYLE.findall(text))
    parts = [f"style-src {' '.join(styles)}"] if styles else []
    if script:
        parts += [f"script-src {_hash(script)}", "connect-src 'self'"]
    return "; ".join(parts)


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "replace")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _own(name: str) -> str:
    return (files("clusterlab.report") / "templates" / name).read_text(encoding="utf-8")
