import itertools
import json
import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fives_tf.crosses import (
    Cross,
    by_gain,
    derive,
    edge_probabilities,
    from_json,
    single_feature_auc,
    to_json,
    with_auc,
    with_figures,
)
from fives_tf.errors import UserError
from fives_tf.training.metrics import auc

# Few values make many ties; the others are such that products of floats would be rounded.
FEW = st.sampled_from([0.0, 0.25, 0.5, 0.5, 1.0])
MANY = st.floats(0, 1, width=32)


def derive_slowly(strength, fields, columns, edges=None, top=None):
    """Every path from every start node, with exact products."""
    layers, m = len(strength), len(fields)
    result = []
    for order in range(2, layers + 2):
        best = {}
        for start, *ends in itertools.product(range(m), repeat=order):
            steps = [(k, start, end) for k, end in enumerate(ends)]
            if any(strength[step] <= 0 for step in steps):
                continue
            if edges is not None and any(edges[step] == 0 for step in steps):
                continue
            members = tuple(sorted((start, *ends)))
            if len({columns[member] for member in members}) < order:
                continue
            score = math.prod(Fraction(float(strength[step])) for step in steps)
            best[members] = max(score, best.get(members, score))
        ranked = sorted(best.items(), key=lambda item: (-item[1], item[0]))
        result += [
            Cross(tuple(fields[member] for member in members), float(score))
            for members, score in ranked[:top]
        ]
    return result


@st.composite
def tensors(draw):
    highest_order = draw(st.integers(2, 4))
    m = draw(st.integers(2, 5 if highest_order == 4 else 6))
    shape = (highest_order - 1, m, m)
    strength = draw(arrays(np.float32, shape, elements=draw(st.sampled_from([FEW, MANY]))))
    columns = draw(st.lists(st.sampled_from("abcdef"), min_size=m, max_size=m))
    edges = draw(st.none() | arrays(np.float32, shape, elements=st.sampled_from([0.0, 1.0])))
    top = draw(st.none() | st.integers(0, 6))
    return strength, [f"f{i}" for i in range(m)], columns, edges, top


@settings(max_examples=300, deadline=None)
@given(tensors())
def test_the_crosses_are_those_of_all_paths(arguments):
    assert derive(*arguments) == derive_slowly(*arguments)


@pytest.mark.parametrize("highest_order", [2, 3, 4])
@pytest.mark.parametrize("spread", [0.0, 0.01, 1.5])
def test_the_best_crosses_are_those_of_all_paths(highest_order, spread):
    m = 7
    h = np.random.default_rng(0).normal(0, spread, (highest_order - 1, m, m))
    strength = 1 / (1 + np.exp(-h))
    arguments = strength, [f"f{i}" for i in range(m)], ["a", "b", "b", "c", "d", "e", "f"]
    for edges in (None, (strength > 0.4).astype(int)):
        for top in (None, 1, 10):
            assert derive(*arguments, edges, top) == derive_slowly(*arguments, edges, top)


def test_the_papers_example():
    """The text of section 2.3: n1 -> n4 and n4 -> n2, then n4 -> n3."""
    strength = np.zeros((2, 4, 4))
    strength[0, 0, 3] = 0.9
    strength[0, 3, 1] = 0.8
    strength[1, 3, 2] = 0.5
    names = ["f1", "f2", "f3", "f4"]
    crosses = derive(strength, names, names)
    # As the end of n1 -> n4, n4 is f4 alone; as a start node it carries f4 x f2 on.
    assert crosses == [
        Cross(("f1", "f4"), 0.9),
        Cross(("f2", "f4"), 0.8),
        Cross(("f2", "f3", "f4"), 0.4),
    ]
    assert [cross.name for cross in crosses] == ["f1 x f4", "f2 x f4", "f2 x f3 x f4"]
    assert [cross.order for cross in crosses] == [2, 2, 3]


def test_siblings_and_a_field_itself_are_never_crossed_however_strong():
    names = ["age@10", "age@100", "city", "site"]
    crosses = derive(np.ones((3, 4, 4)), names, ["age", "age", "city", "site"])
    assert [cross.fields for cross in crosses] == [
        ("age@10", "city"),
        ("age@10", "site"),
        ("age@100", "city"),
        ("age@100", "site"),
        ("city", "site"),
        ("age@10", "city", "site"),
        ("age@100", "city", "site"),
    ]


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_a_few_crosses_of_millions_of_paths_are_found_at_once(spread):
    m, top = 120, 30  # 200 million paths of order 4
    h = np.random.default_rng(1).normal(0, spread, (3, m, m))
    strength = 1 / (1 + np.exp(-h))
    names = [f"f{i}" for i in range(m)]
    crosses = derive(strength, names, names, top=top)
    assert [cross.order for cross in crosses] == [2] * top + [3] * top + [4] * top
    if spread == 0:
        for order in (2, 3, 4):
            first = itertools.islice(itertools.combinations(names, order), top)
            assert [cross.fields for cross in crosses if cross.order == order] == list(first)
    else:
        pairs = np.where(np.eye(m), 0, np.maximum(strength[0], strength[0].T))
        best = np.sort(pairs[np.triu_indices(m)])[::-1][:top]
        assert [cross.score for cross in crosses[:top]] == best.tolist()


def auc_slowly(train_ids, train_label, valid_ids, valid_label):
    base = sum(train_label) / len(train_label)
    counts, clicks = {}, {}
    for row, label in zip(map(tuple, train_ids.tolist()), train_label, strict=True):
        counts[row] = counts.get(row, 0) + 1
        clicks[row] = clicks.get(row, 0) + label
    scores = []
    for row in map(tuple, valid_ids.tolist()):
        scores.append((clicks.get(row, 0) + 10 * base) / (counts.get(row, 0) + 10))
    return auc(valid_label, np.array(scores))


@pytest.mark.parametrize("size", [2, 5, 2**31 - 1])
@pytest.mark.parametrize("order", [2, 3, 5])
def test_the_auc_of_a_cross_ranks_by_the_smoothed_click_rate(size, order):
    random = np.random.default_rng(order)
    values = random.integers(0, size, 4)  # few values, but ids as large as they may be
    ids = values[random.integers(0, 4, (400, order))].astype(np.int32)
    label = (random.random(400) < 0.2 + 0.5 * (ids[:, 0] == ids[:, 1])).astype(np.float32)
    split = ids[:300], label[:300], ids[300:], label[300:]
    assert single_feature_auc(*split) == pytest.approx(auc_slowly(*split), abs=1e-12)


def test_a_cross_tells_what_its_fields_alone_do_not():
    """The label is the exclusive or of two fields; a third one is noise."""
    ids = np.random.default_rng(0).integers(0, 2, (2000, 3))
    label = (ids[:, 0] ^ ids[:, 1]).astype(np.float32)
    fields = ["a", "b", "noise"]
    crosses = [Cross(("a", "b"), 0.5), Cross(("a", "noise"), 0.4)]
    found = with_auc(crosses, fields, (ids[:1000], label[:1000]), (ids[1000:], label[1000:]))
    assert [cross.fields for cross in found] == [("a", "b"), ("a", "noise")]
    assert found[0].auc == 1
    assert found[1].auc == pytest.approx(0.5, abs=0.05)


def test_new_combinations_have_the_base_rate():
    train = np.array([[0, 0]] * 4 + [[1, 1]] * 4), np.array([1, 1, 1, 0, 0, 0, 0, 1])
    valid = np.array([[0, 0], [0, 1], [1, 1]])
    assert single_feature_auc(*train, valid, np.array([1, 0, 0])) == 1
    assert single_feature_auc(*train, valid, np.array([0, 0, 1])) == 0
    assert single_feature_auc(*train, valid, np.array([0, 1, 0])) == 0.5


def test_without_clicks_the_auc_is_not_known():
    ids, label = np.zeros((3, 2), int), np.array([0, 1, 0])
    found = with_auc([Cross(("a", "b"), 1.0)], ["a", "b"], (ids, label), (ids, 0 * label))
    assert found == [Cross(("a", "b"), 1.0, None)]


def test_crosses_of_another_dataset_are_refused():
    ids, label = np.zeros((2, 2), int), np.array([0, 1])
    with pytest.raises(UserError, match="`C14 x I55`.*field `I55`.*did you mean `I5`"):
        with_auc([Cross(("C14", "I55"), 1.0)], ["C14", "I5"], (ids, label), (ids, label))


def test_crosses_survive_their_file():
    crosses = [
        Cross(("C14", "I5@100"), 0.1 + 0.2, 0.625, -1e-5),
        Cross(("a ü", 'b"', "c"), 1e-9),
    ]
    content = to_json(crosses)
    assert from_json(content, "crosses.json") == crosses
    assert json.loads(content)["crosses"][0] == {
        "name": "C14 x I5@100",
        "fields": ["C14", "I5@100"],
        "order": 2,
        "score": 0.1 + 0.2,
        "auc": 0.625,
        "gain": -1e-5,
    }


def test_by_gain():
    crosses = [
        Cross(("a", "b"), 0.9),
        Cross(("a", "c"), 0.8, None, 0.1),
        Cross(("b", "c"), 0, 0, 2),
    ]
    assert by_gain(crosses) == [crosses[2], crosses[1]]


def test_figures_go_to_crosses_of_the_same_fields():
    known = [Cross(("a", "b"), 0.1, 0.7, 0.2)]
    crosses = [Cross(("a", "c"), 0.8), Cross(("a", "b"), 0.9)]
    assert with_figures(crosses, known) == [crosses[0], Cross(("a", "b"), 0.9, 0.7, 0.2)]
    assert from_json(to_json([]), "crosses.json") == []


GOOD = {"fields": ["a", "b"], "score": 1, "auc": None}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "damaged"),
        (b"\xff\xfe\x00", "damaged"),
        (to_json([Cross(("a", "b"), 1.0)])[:-9], "damaged"),
        (b"[]", "expected a JSON object"),
        (b"{}", "version None is not known"),
        (b'{"version": 2, "crosses": []}', "version 2 is not known"),
        (b'{"version": 1}', "`crosses`: expected a list"),
        ([3], "cross 1: `fields`"),
        ([GOOD, {"score": 1}], "cross 2: `fields`"),
        ([GOOD | {"fields": "ab"}], "cross 1: `fields`"),
        ([GOOD | {"fields": ["a"]}], "cross 1: `fields`"),
        ([GOOD | {"fields": ["a", 1]}], "cross 1: `fields`"),
        ([GOOD | {"fields": ["a", "a"]}], "cross 1: `fields`"),
        ([GOOD | {"score": None}], "cross 1: `score`"),
        ([GOOD | {"score": math.nan}], "cross 1: `score`"),
        ([GOOD | {"score": 10**400}], "cross 1: `score`"),
        ([GOOD | {"auc": "0.5"}], "cross 1: `auc`"),
        ([GOOD | {"auc": True}], "cross 1: `auc`"),
        ([GOOD | {"gain": "much"}], "cross 1: `gain`"),
    ],
)
def test_damaged_and_foreign_files_are_refused(content, message):
    if isinstance(content, list):
        content = json.dumps({"version": 1, "crosses": content}).encode()
    with pytest.raises(UserError, match=message) as caught:
        from_json(content, "run/crosses.json")
    assert str(caught.value).startswith("run/crosses.json: ")
    assert "earch again" in str(caught.value)


def test_crosses_need_no_tensorflow():
    """The pipelines' workers use them."""
    code = "import sys, fives_tf.sql; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_edges_count_by_their_strength_in_layer_1_and_by_their_share_of_a_row_above():
    strength = np.array(
        [[[0.0, 0.9, 0.6], [0.3, 0.0, 0.1], [0.2, 0.2, 0.0]]]
        + [[[0.0, 0.6, 0.2], [0.0, 0.0, 0.0], [0.1, 0.1, 0.0]]] * 2
    )
    probability = edge_probabilities(strength)
    np.testing.assert_array_equal(probability[0], strength[0])
    shares = [[0, 0.75, 0.25], [0, 0, 0], [0.5, 0.5, 0]]  # the node without edges has no share
    np.testing.assert_allclose(probability[1:], [shares, shares])
