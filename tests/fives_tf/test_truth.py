import pytest

from fives_tf.crosses import Cross
from fives_tf.errors import UserError
from fives_tf.truth import Planted, find_planted, read_truth

COLUMNS = {"a@10": "a", "a@100": "a", "b": "b", "c": "c", "d": "d"}
CROSSES = [
    Cross(("b", "c"), 0.9),
    Cross(("a@100", "b"), 0.8),
    Cross(("a@10", "b"), 0.7),
    Cross(("a@10", "c", "d"), 0.5),
]


def test_a_planted_cross_is_found_at_the_rank_of_its_best_granularity():
    planted = [("a", "b"), ("d", "c", "a"), ("c", "d")]
    assert find_planted(planted, CROSSES, COLUMNS) == [
        Planted(("a", "b"), 2, 3),
        Planted(("d", "c", "a"), 1, 1),
        Planted(("c", "d"), None, 3),
    ]


def test_the_truth_of_a_generated_log_is_read(small_log):
    assert read_truth(str(small_log / "truth.json")) == [("C1", "C2")]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"crosses": [1]}'])
def test_another_file_is_refused(text, tmp_path):
    path = tmp_path / "truth.json"
    path.write_text(text)
    with pytest.raises(UserError, match="is no truth.json of a synthetic log"):
        read_truth(str(path))
