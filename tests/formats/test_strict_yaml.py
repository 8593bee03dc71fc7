import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.formats.strict_yaml import MAX_DEPTH, read_yaml


def test_reads_plain_data_and_knows_its_lines() -> None:
    document = read_yaml("a: 1\nb:\n  - x\n  - {c: 2.5}\n", file="f.yaml")
    assert document.data == {"a": 1, "b": ["x", {"c": 2.5}]}
    assert document.where("b", 1, "c") == "f.yaml:4: b[1].c"
    # a field that is missing is pointed to where it would stand
    assert document.where("b", 1, "d") == "f.yaml:4: b[1].d"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x [1]\nb: *x\n", "f.yaml:1: anchors and aliases are not read"),
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3: key 'a' twice"),
        ("a: !!python/object:os.system x\n", "f.yaml:1: a value of type python/object"),
        ("a: 2026-01-01\n", "f.yaml:1: a value of type timestamp"),
        ("a: [1, 2\nb: 3\n", "f.yaml:2: not YAML"),
        ("a: 1\n  b: 2\n", "f.yaml:2: not YAML"),
        ("? [x]\n: 1\n", "f.yaml:1: a key that is not a word"),
        ("", "f.yaml: empty"),
        ("--- 1\n--- 2\n", "f.yaml:2: not YAML"),
        ("a: \x00\n", "f.yaml: not YAML"),
        ("a: 0o9\n", None),
        ("a: " + "9" * 5000 + "\n", "f.yaml:1: not a value"),
    ],
)
def test_what_is_not_plain_is_refused_with_its_line(text: str, message: str | None) -> None:
    if message is None:
        assert read_yaml(text, file="f.yaml").data == {"a": "0o9"}
        return
    with pytest.raises(UsageError) as caught:
        read_yaml(text, file="f.yaml")
    assert str(caught.value).startswith(message)


def test_a_yaml_bomb_is_refused_before_it_expands() -> None:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
    with pytest.raises(UsageError, match="anchors and aliases"):
        read_yaml("\n".join(lines), file="f.yaml")


def test_deep_nesting_is_refused_without_exhausting_the_stack() -> None:
    with pytest.raises(UsageError, match=r"nested too deeply|maximum nesting"):
        read_yaml("[" * 100_000, file="f.yaml")
    depth = MAX_DEPTH
    assert read_yaml("[" * depth + "]" * depth, file="f.yaml").data


@given(st.text(alphabet=st.sampled_from("ab:-[]{}&*!? \n'\"|>#%@,0.~\t"), max_size=60))
def test_any_text_is_read_or_refused_with_a_usage_error(text: str) -> None:
    try:
        read_yaml(text, file="f.yaml")
    except UsageError as error:
        assert str(error).startswith("f.yaml")
