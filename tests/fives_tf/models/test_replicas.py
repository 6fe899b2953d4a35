"""Models on two replicas. What whole searches do on several devices is in test_many_devices.py."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from fives_tf.config import Regression, SearchConfig
from fives_tf.models.build import NETWORKS
from fives_tf.models.precision import FIRST

# Several devices must be declared before TensorFlow begins, so in a process of its own.
PROGRAM = """
import json
import numpy as np, tensorflow as tf
from fives_tf.config import SearchConfig
from fives_tf.models import precision
from fives_tf.models.build import NETWORKS, Facts, build_fives, build_lr
from fives_tf.models.fives import FivesForm, FivesModel
from fives_tf.models.lr import LogisticRegression
from fives_tf.training.optimizers import make_optimizer
from fives_tf.training.strategy import choose

FIELDS, VALUES, BATCH = 4, 5, 8
FREQUENCY = np.full(FIELDS * VALUES, 1 / VALUES)
# Each optimizer once, whether its gradient is of rows or dense.
OPTIMIZERS = {
    "embedding": "adagrad", "network": "adam", "first_order": "sgd", "edges": "lazy_adam"
}
two, _ = choose("auto", "cpu:2")
one = tf.distribute.get_strategy()


def batches(count):
    random = np.random.default_rng(0)
    for _ in range(count):
        ids = random.integers(VALUES, size=(BATCH, FIELDS)) + VALUES * np.arange(FIELDS)
        yield ids.astype(np.int32), random.integers(2, size=BATCH).astype(np.float32)


def share(strategy, value):
    parts = np.split(np.asarray(value), strategy.num_replicas_in_sync)
    return strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(parts[context.replica_id_in_sync_group])
    )


def train(strategy, build, data):
    with strategy.scope():
        model = build()

    @tf.function
    def step(data):
        logs = strategy.run(model.train_step, args=(data,))
        return [strategy.reduce("SUM", logs[name], axis=None) for name in model.figures]

    losses = []
    for one in data:
        shared = tf.nest.map_structure(lambda part: share(strategy, part), one)
        losses.append([float(loss) for loss in step(shared)])
    return [losses] + [variable.numpy().tolist() for variable in model.trainable_variables]


def fives(bits):
    return FivesModel(
        FivesForm(dim=2, dropout=0.3), list("abcd"), FREQUENCY, BATCH,
        {name: make_optimizer(optimizer, 0.05) for name, optimizer in OPTIMIZERS.items()},
        l2=0.01, first_order_l2=0.01, steps=3, precision=bits, jit=False,
    )


def lr():
    return LogisticRegression(FREQUENCY, [0.1, 0.01], BATCH, 0.3, make_optimizer("lazy_adam", 0.1))


def network(kind):
    # Adam would make a step of the rounding error of a gradient that is 0.
    optimizers = {"embedding": "adagrad", "network": "sgd", "first_order": "ftrl"}
    return kind(
        FIELDS, FREQUENCY, BATCH,
        {name: make_optimizer(one, 0.05) for name, one in optimizers.items()}
        | {"gates": make_optimizer("grda", 0.1, c=0.1, mu=0.8)},
        dim=2, l2=0.01, dropout=0.3, stddev=0.3, jit=False,
    )


def loss_scale():
    precision.PATIENCE = 2
    with two.scope():
        scale = precision.LossScale()

    @tf.function
    def unscale(values):
        return two.run(lambda gradient: scale.unscale([gradient])[0], args=(values,))

    seen = []
    for values in ([[4, 4], [6, np.inf]], [[4, 4], [6, 6]], [[4, 4], [6, 6]], [[4, 4], [6, 6]]):
        gradients = two.experimental_local_results(unscale(share(two, np.float32(values))))
        scales = two.experimental_local_results(scale._scale.value)
        seen.append([[one.numpy().ravel().tolist() for one in gradients], list(map(float, scales))])
    return seen


def rates(scale_rates):
    facts = Facts(("a", "b"), ("a", "b"), np.full(4, 0.5), None, rows=100, click_rate=0.3)
    config = SearchConfig(batch=8, order=2, dim=2, scale_rates=scale_rates)
    with two.scope():
        models = {
            "search": build_fives(config, facts),
            "after": build_fives(config, facts, edges=np.zeros([1, 2, 2]), steps=9),
            "lr": build_lr(config, facts, steps=9),
        }
    return {
        f"{stage} {name}": float(optimizer.learning_rate.numpy())
        for stage, model in models.items()
        for name, optimizer in model.learners().items()
    }


pairs = list(batches(6))
found = {
    "lr": [train(strategy, lr, list(batches(3))) for strategy in (one, two)],
    **{
        name: [
            train(strategy, lambda: network(kind), list(batches(3))) for strategy in (one, two)
        ]
        for name, kind in NETWORKS.items()
    },
    "loss_scale": loss_scale(),
    "rates": rates(False),
    "scaled_rates": rates(True),
}
for bits in ("float32", "float16"):
    data = list(zip(pairs[::2], pairs[1::2]))
    found[bits] = [train(strategy, lambda: fives(bits), data) for strategy in (one, two)]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found():
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("model", ["float32", "float16", "lr", *NETWORKS])
def test_two_replicas_learn_what_one_device_does(found, model):
    # A sum of float16 numbers may differ in its last bit, of eleven.
    limits = {"rtol": 1e-2, "atol": 1e-3} if model == "float16" else {"rtol": 1e-4, "atol": 1e-6}
    one, two = found[model]
    for expected, value in zip(one, two, strict=True):
        np.testing.assert_allclose(value, expected, **limits)


def test_an_overflow_on_one_replica_is_one_on_both(found):
    gradients, scales = found["loss_scale"][0]
    assert gradients == [[0, 0], [0, 0]]
    assert scales == [FIRST / 2, FIRST / 2]


def test_calm_steps_double_the_scale_on_both_replicas(found):
    _, calm, calmer, other = found["loss_scale"]
    half = FIRST / 2
    expected = [[4 / half, 4 / half], [6 / half, 6 / half]]
    assert calm == [expected, [half, half]]
    assert calmer == [expected, [FIRST, FIRST]]
    assert other == [[[4 / FIRST] * 2, [6 / FIRST] * 2], [FIRST, FIRST]]


def test_rates_are_multiplied_by_the_number_of_replicas_if_asked_for(found):
    config = SearchConfig()
    rates = {
        "search embedding": config.search_embedding_rate,
        "search network": config.search_rate,
        "search edges": config.edge_rate,
        "search first_order": config.first_order_rate,
        "after embedding": config.embedding_rate,
        "after network": config.rate,
        "after first_order": config.first_order_rate,
        "lr weights": Regression.rate,
    }
    assert found["rates"] == pytest.approx(rates, rel=1e-6)
    assert found["scaled_rates"] == pytest.approx({k: 2 * v for k, v in rates.items()}, rel=1e-6)
