"""What is known of packages."""

import pytest

from fives_tf.bench.facts import all_versions, obstacle


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", None),
        ("raise OSError('libgomp.so.1: cannot open\\nmore')", "OSError: libgomp.so.1: cannot open"),
        ("raise ValueError('XGBoost Library could not be loaded')", "ValueError: XGBoost Library"),
        ("import absent_part", "ModuleNotFoundError: No module named 'absent_part'"),
    ],
)
def test_a_package_that_does_not_load_cannot_be_used(tmp_path, monkeypatch, content, expected):
    name = f"package_{len(content)}"
    (tmp_path / f"{name}.py").write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    found = obstacle(name)
    if expected is None:
        assert found is None
    else:
        assert found.startswith(f"does not load: {expected}")
        assert "more" not in found


def test_what_brings_an_absent_package_is_told():
    assert obstacle("absent_package") == "not installed: pip install 'fives-tf[bench]'"


def test_all_versions_that_occur_are_told():
    found = all_versions([{"numpy": "2", "keras": "3"}, {"numpy": "1"}, {}, {"numpy": "2"}])
    assert found == {"keras": ["3"], "numpy": ["1", "2"]}
