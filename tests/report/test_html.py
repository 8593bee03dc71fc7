"""The page: one file that needs nothing, holds the data, and cannot be broken out of."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.errors import StorageError, UsageError
from clusterlab.core.findings import Finding, Severity
from clusterlab.core.placement import Placement, RankPlacement
from clusterlab.records.documents import write_findings, write_placement
from clusterlab.records.run_dir import RunDir, create_run, open_run
from clusterlab.report.console.terminal import print_run
from clusterlab.report.data import load
from clusterlab.report.files.csv_text import rows_csv
from clusterlab.report.html import render, write_report
from clusterlab.report.page.curves import CURVE_LIMIT, FURTHER_HEADS, LINE_LIMIT
from clusterlab.report.page.view import CHART_LIMIT, page_view
from clusterlab.runs.report_page import gathered
from tests.records.fake_runs import fake_rows, make_run, points, renamed

EVIL = "</script><script>alert(1)</script><img src=http://e.example/x onerror=alert(1)>'\"&\u202e\x1b[1m"


class Document(HTMLParser):
    """Tags, attributes and text of a page, and what was left open."""

    VOID = frozenset({"meta", "br", "img", "link", "hr", "input"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.texts.setdefault(tag, []).append(data)

    def text(self, tag: str) -> str:
        return "".join(self.texts.get(tag, []))


def page_of(run: RunDir) -> str:
    data = load(open_run(run.path))
    return render(data, gathered(data))


def embedded(page: str) -> Any:
    (found,) = (c for name, c in downloads(page).items() if ".json" in name)
    return json.loads(found)


def downloads(page: str) -> dict[str, bytes]:
    found = {}
    for tag, attributes in Document(page).tags:
        if tag == "a" and "download" in attributes:
            content = base64.b64decode((attributes["href"] or "").partition("base64,")[2])
            name = attributes["download"] or ""
            found[name] = gzip.decompress(content) if name.endswith(".gz") else content
    return found


@pytest.fixture(name="sweep")
def a_sweep(tmp_path: Path) -> RunDir:
    return make_run(tmp_path, fake_rows(points()), name="all sweep")


def test_the_page_is_written_beside_the_run_and_well_formed(sweep: RunDir) -> None:
    path = write_report(sweep)
    assert path == sweep.path / "report.html"
    document = Document(path.read_text(encoding="utf-8"))
    assert document.open == []
    assert "pass" in document.text("title")


def test_nothing_outside_the_page_is_named(sweep: RunDir) -> None:
    page = page_of(sweep)
    for tag, attributes in Document(page).tags:
        for name in ("src", "href", "action", "data", "poster", "srcset", "xlink:href"):
            value = attributes.get(name) or ""
            assert value == "" or value.startswith(("#", "data:")), (tag, name, value)
    assert "@import" not in page
    assert "url(" not in page
    assert not re.search(r"https?://", page)
    assert not any(tag == "script" for tag, _ in Document(page).tags)


def test_sections_come_in_the_order_of_the_questions_people_ask(sweep: RunDir) -> None:
    write_findings(sweep.path, [Finding("X", Severity.WARNING, ("seen",), "do this")])
    headings = re.findall(r"<h2[^>]*>(.*?)</h2>", page_of(sweep))
    assert headings == [
        "Verdict",
        "Where and on what",
        "Measured, predicted and bound",
        "Errors by size",
        "Bottleneck and utilisation",
        "Likely causes",
        "Findings",
        "How to reproduce",
        "Data",
    ]


def test_tables_have_captions_charts_have_text_and_every_collective_is_there(sweep: RunDir) -> None:
    page = page_of(sweep)
    document = Document(page)
    count = {tag: sum(t == tag for t, _ in document.tags) for tag in ("table", "caption", "h3")}
    # summary, hosts, ranks, one a collective, errors, bottlenecks, attempts
    assert count["table"] == count["caption"] == 3 + 7 + 3
    charts = [a for t, a in document.tags if t == "svg" and a.get("role") == "img"]
    assert len(charts) == 7
    assert all(a["aria-labelledby"] and a["aria-describedby"] for a in charts)
    ids = [a["id"] for _, a in document.tags if "id" in a]
    assert len(ids) == len(set(ids))
    named = {name for a in charts for name in (a["aria-labelledby"], a["aria-describedby"])}
    assert named <= set(ids)
    heads = [a for t, a in document.tags if t == "th"]
    assert all(a.get("scope") in ("col", "row") for a in heads)
    assert count["h3"] == 7
    anchors = {
        a["href"] for t, a in document.tags if t == "a" and (a["href"] or "").startswith("#")
    }
    articles = {f"#{a['id']}" for t, a in document.tags if t == "article" and "id" in a}
    assert anchors == {"#main", *articles}


def test_embedded_data_and_downloads_hold_every_row(sweep: RunDir) -> None:
    rows = load(sweep).rows
    page = page_of(sweep)
    data = embedded(page)
    assert len(data["rows"]) == len(rows)
    assert (
        dict(zip(data["columns"], data["rows"][3], strict=True))["size_bytes"] == rows[3].size_bytes
    )
    assert data["run"]["run_id"] == sweep.path.name
    files = downloads(page)
    name = sweep.path.name
    assert set(files) == {f"{name}.csv.gz", f"{name}.json.gz"}
    table = list(csv.DictReader(io.StringIO(files[f"{name}.csv.gz"].decode())))
    assert [float(r["busbw_GBps"]) for r in table] == pytest.approx([r.busbw_GBps for r in rows])
    assert table[0]["root"] == ""


def test_the_command_comes_first_attempt_first(sweep: RunDir) -> None:
    assert 'aria-label="Command">clusterlab bench all -b 1K' in page_of(sweep)


def test_hostile_strings_are_inert_everywhere(tmp_path: Path) -> None:
    rows = [
        renamed(r, backend=EVIL, bottleneck=EVIL, provenance=EVIL, algorithm=EVIL, timing=EVIL)
        for r in fake_rows(points(["all_reduce"]))
    ]
    run = make_run(tmp_path, rows, name=EVIL)
    write_placement(run.path, Placement((RankPlacement(0, EVIL, 0, gpu=EVIL, gpu_name=EVIL),)))
    write_findings(run.path, [Finding(EVIL, Severity.ERROR, (EVIL,), EVIL, links=(EVIL,))])
    page = page_of(run)
    document = Document(page)
    assert not any(tag == "script" for tag, _ in document.tags)
    assert not any(tag == "img" for tag, _ in document.tags)
    assert not any(name.startswith("on") for _, attributes in document.tags for name in attributes)
    assert embedded(page)["run"]["name"] == EVIL
    assert "\u202e" not in page
    assert "\x1b" not in page


def test_a_csv_cell_is_never_a_formula() -> None:
    rows = [
        renamed(fake_rows(points(["all_reduce"]))[0], bottleneck=text, wrong_got=float("-inf"))
        for text in ("=cmd()", "+1", "-1", "@x", "plain")
    ]
    cells = [r["bottleneck"] for r in csv.DictReader(io.StringIO(rows_csv(rows)))]
    assert cells == ["'=cmd()", "'+1", "'-1", "'@x", "plain"]


def test_a_name_that_no_encoder_accepts_still_gives_a_page(tmp_path: Path) -> None:
    run = make_run(tmp_path, fake_rows(points(["reduce"])), host="node\udcff", name="x\udcff")
    assert Document(write_report(run).read_text(encoding="utf-8")).open == []


def test_an_empty_and_a_half_written_run_say_what_they_are(tmp_path: Path) -> None:
    empty = page_of(create_run("early", root=tmp_path))
    assert "nothing was measured" in empty
    assert "No point has been measured yet." in empty
    assert "No attempt was started" in empty
    run = make_run(tmp_path, fake_rows(points(["reduce"]))[:7], planned_points=16, exit_code=None)
    with run.records_path.open("ab") as file:
        file.write(b'{"schema')
    half = page_of(run)
    for text in ("9 planned points were not measured", "7 of 16", "has not ended", "half a line"):
        assert text in half
    assert Document(empty).open == Document(half).open == []


def test_a_damaged_run_is_refused_and_no_page_is_written(sweep: RunDir) -> None:
    with sweep.records_path.open("ab") as file:
        file.write(b'{"schema_version": 1, "collectiv": 1}\n')
    with pytest.raises(UsageError, match="did you mean 'collective'"):
        write_report(sweep)
    assert not sweep.report_path.exists()


def test_a_page_that_cannot_be_written_is_a_storage_error(sweep: RunDir, tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        write_report(sweep, tmp_path / "gone" / "report.html")


def test_wrong_slow_and_fast_points_are_told_by_word_and_shape(tmp_path: Path) -> None:
    rows = fake_rows(points(["all_reduce"]))
    rows[0] = renamed(rows[0], wrong=4, wrong_rank=2, wrong_index=5)
    rows[2] = renamed(rows[2], time_us_loop=1e5)
    rows[4] = renamed(rows[4], time_us_loop=1.0)
    page = page_of(make_run(tmp_path, rows))
    for glyph, word in (("✕", "invalid"), ("▼", "slow"), ("▲", "faster than expected")):
        assert f'<span aria-hidden="true">{glyph}</span> {word}' in page
    assert "4: first on rank 2, element 5" in page


def test_runs_without_predictions_one_rank_or_one_size_have_a_page(tmp_path: Path) -> None:
    cases = [
        fake_rows(points(), predicted=False),
        fake_rows(points(world_size=1)),
        fake_rows(points(sizes=[1024])),
        fake_rows(points(), wrong=None),
        [r for r in fake_rows(points()) if r.in_place],
    ]
    for rows in cases:
        assert Document(page_of(make_run(tmp_path, rows))).open == []
    assert "One size only: see the table." in page_of(make_run(tmp_path, cases[2]))
    assert "not checked" in page_of(make_run(tmp_path, cases[3]))


def test_many_curves_are_all_listed_and_a_limited_number_drawn(tmp_path: Path) -> None:
    dtypes = ["float32", "float16", "bfloat16", "int8", "int32", "int64"]
    rows = fake_rows(points(sizes=[1024, 4096], dtypes=dtypes, ops=["sum", "max", "min", "prod"]))
    view = page_view(load(make_run(tmp_path, rows)))
    curves = [c for collective in view.collectives for c in collective.curves]
    assert len(curves) == 3 * 24 + 4 * 6
    charts = [c for c in curves if c.chart]
    assert 0 < len(charts) <= CHART_LIMIT
    assert all(collective.curves[0].chart for collective in view.collectives)
    assert {c.why_no_chart for c in curves if not c.chart} == {
        f"No chart: the page draws at most {CHART_LIMIT}."
    }
    assert sum(len(c.rows) for c in curves) == len(rows) // 2


def test_more_curves_than_a_page_holds_have_a_line_each_and_the_rest_is_counted(
    tmp_path: Path,
) -> None:
    rows = [
        renamed(row, dtype=f"type{i}")
        for i in range(700)
        for row in fake_rows(points(["all_reduce"], sizes=[1024, 4096]))
    ]
    run = make_run(tmp_path, rows)
    (view,) = page_view(load(run)).collectives
    assert len(view.curves) == CURVE_LIMIT
    assert len(view.further) == LINE_LIMIT
    assert view.unlisted == 700 - CURVE_LIMIT - LINE_LIMIT
    assert all(len(line) == len(FURTHER_HEADS) for line in view.further)
    page = page_of(run)
    assert "200 more curves are not listed" in page
    assert len(page) < 4 << 20


def test_a_full_sweep_is_below_a_megabyte(tmp_path: Path) -> None:
    """7 collectives, 30 sizes, both places, 3 ways of calling, with all that NCCL says."""
    rows = [
        renamed(
            row, backend="nccl", timing=timing, p50_low_us=0.98 * row.time_us_p50, samples=200,
            p50_high_us=1.02 * row.time_us_p50, outliers=3, rank_skew_us=3.2, arrival_skew_us=4.1,
            gpu_clock_mhz=1980.0, gpu_temp_c=44.0, library_algorithm="ring", library_protocol="simple",
            library_channels=24, library_time_us=1.1 * row.time_us_loop, transport="P2P/CUMEM",
        )
        for seed, timing in enumerate(("eager", "graph", "direct"))
        for row in fake_rows(points(sizes=[8 << i for i in range(30)], world_size=8), seed=seed)
    ]  # fmt: skip
    assert len(rows) == 1260
    page = page_of(make_run(tmp_path, rows, world_size=8))
    assert len(page.encode()) < 1_000_000
    assert len(embedded(page)["rows"]) == 1260
    assert len(re.findall(r'<svg class="chart"', page)) == 21


def test_of_very_many_rows_the_page_carries_the_file_as_it_stands(tmp_path: Path) -> None:
    rows = fake_rows(points(["all_reduce"], sizes=[1024, 4096]))
    run = make_run(tmp_path, rows)
    with pytest.MonkeyPatch.context() as patch:
        for module in ("html", "page.embed"):
            patch.setattr(f"clusterlab.report.{module}.MOST_CONVERTED", 3)
        page = page_of(run)
    ((name, content),) = downloads(page).items()
    assert name == f"{run.path.name}.jsonl.gz"
    assert content == run.records_path.read_bytes()
    assert "--parquet FILE" in page


def test_causes_and_the_fabric_are_on_the_page_of_a_run_on_gpus() -> None:
    folder = Path(__file__).parents[1] / "data" / "two_h200" / "p2p-off"
    data = load(open_run(folder))
    page = render(data, gathered(data))
    document = Document(page)
    assert document.open == []
    headings = re.findall(r"<h2[^>]*>(.*?)</h2>", page)
    assert headings.index("Where and on what") < headings.index("Likely causes")
    banner = page.partition('<div class="banner')[2].partition("</div>")[0]
    for said in ("slow", "P2P_DISABLED", "host memory", "nvidia-smi topo -p2p r"):
        assert said in banner
    assert page.count('class="causes"') == 3
    drawing = [a for t, a in document.tags if t == "svg" and a.get("class") == "fabric"]
    assert [a["role"] for a in drawing] == ["img"]


def test_what_a_finding_names_is_marked_in_the_drawing() -> None:
    data = load(open_run(Path(__file__).parents[1] / "data" / "lab_slow_link"))
    beside = gathered(data)
    assert beside.drawing is not None
    assert "link degraded: leaf1/spine0" in beside.drawing.svg
    assert "49%" in beside.drawing.svg
    page = render(data, beside)
    assert "warning: slow group" in page
    assert "One of these may explain all" in page


def test_ten_thousand_rows_fit_one_page_of_bounded_size(tmp_path: Path) -> None:
    rows = fake_rows(points(sizes=range(1024, 1024 * 716, 1024)))
    assert len(rows) == 10_010
    page = page_of(make_run(tmp_path, rows))
    assert len(embedded(page)["rows"]) == 10_010
    assert len(page) < 7 << 20
    assert re.findall(r'download="[^"]*\.(\w+\.\w+)"', page) == ["csv.gz", "json.gz"]
    assert "single points are not listed here" in page


def test_a_usual_sweep_is_a_small_page(sweep: RunDir) -> None:
    assert len(page_of(sweep)) < 400 << 10


odd = st.sampled_from([0.0, 1e-12, 1e29, float("nan"), float("inf"), 3.5])


@given(
    fields=st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                **dict.fromkeys(("time_us_loop", "time_us_min", "time_us_max", "cv"), odd),
                **dict.fromkeys(("algbw_GBps", "busbw_GBps"), odd),
                **dict.fromkeys(
                    (
                        "predicted_time_us",
                        "predicted_low_us",
                        "predicted_high_us",
                        "predicted_busbw_GBps",
                        "bound_busbw_GBps",
                        "ratio",
                    ),
                    st.none() | odd,
                ),
            },
        ),
        min_size=4,
        max_size=16,
    )
)
@settings(max_examples=40, deadline=None)
def test_no_figure_in_a_row_breaks_the_page(
    fields: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = fake_rows(points(["all_reduce"]))
    rows = [renamed(row, **changes) for row, changes in zip(rows, fields, strict=False)]
    run = make_run(tmp_path_factory.mktemp("odd"), rows)
    page = page_of(run)
    assert Document(page).open == []
    for path in re.findall(r' (?:d|x|y|cx|cy)="([^"]*)"', page):
        assert "nan" not in path
        assert "inf" not in path
    print_run(load(run), io.StringIO())
