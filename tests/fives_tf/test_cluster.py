import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fives_tf import cluster
from fives_tf.errors import UserError


@settings(deadline=None)
@given(st.lists(st.from_regex(r"[a-z0-9.-]{1,20}:[0-9]{1,5}", fullmatch=True), min_size=1))
def test_a_config_is_read_as_it_was_written(workers):
    index = len(workers) - 1
    environ = {
        "TF_CONFIG": json.dumps(
            {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        )
    }
    assert cluster.read(environ) == cluster.Cluster(tuple(workers), index)
    assert cluster.read(environ).is_chief == (len(workers) == 1)


@pytest.mark.parametrize("environ", [{}, {"TF_CONFIG": ""}])
def test_without_a_config_there_is_no_cluster(environ):
    assert cluster.read(environ) is None


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        '{"cluster": {"worker": ["a:1"]}}',
        '{"cluster": {"worker": "a:1"}, "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "ps", "index": 0}}',
    ],
)
def test_a_config_of_another_form_is_refused(text):
    with pytest.raises(UserError, match=r"^TF_CONFIG: expected .*Received: .*unset it"):
        cluster.read({"TF_CONFIG": text})
