import json
import os
import subprocess
import sys

import numpy as np
import pytest

# Several devices must be declared before TensorFlow begins, so in a process of its own.
TRAIN = """
import json, sys
import numpy as np, tensorflow as tf
from fives_tf.models.fives import FivesForm, FivesModel
from fives_tf.models.lr import LogisticRegression
from fives_tf.training.optimizers import make_optimizer

replicas = int(sys.argv[1])
if replicas > 1:
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * replicas,
    )
    strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(replicas)])
else:
    strategy = tf.distribute.get_strategy()
FIELDS, VALUES, BATCH = 4, 5, 8
random = np.random.default_rng(0)
frequency = np.full(FIELDS * VALUES, 1 / VALUES)

def batch():
    ids = random.integers(VALUES, size=(BATCH, FIELDS)) + VALUES * np.arange(FIELDS)
    return ids.astype(np.int32), random.integers(2, size=BATCH).astype(np.float32)

def share(value):
    parts = np.split(value, replicas)
    return strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(parts[context.replica_id_in_sync_group])
    )

def train(model, batches):
    @tf.function
    def step(data):
        return strategy.run(model.train_step, args=(data,))

    for data in batches:
        step(tf.nest.map_structure(share, data))
    return [variable.numpy().tolist() for variable in model.trainable_variables]

with strategy.scope():
    names = ("embedding", "network", "first_order", "edges")
    optimizers = {name: make_optimizer("lazy_adam", 0.05) for name in names}
    fives = FivesModel(
        FivesForm(dim=2), list("abcd"), frequency, BATCH, optimizers, l2=0.01,
        first_order_l2=0.01, steps=3, jit=False,
    )
    lr = LogisticRegression(frequency, [0.1, 0.01], BATCH, 0.3, make_optimizer("adagrad", 0.1))
found = [
    train(fives, [(batch(), batch()) for _ in range(3)]),
    train(lr, [batch() for _ in range(3)]),
]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def trained():
    return {replicas: train(replicas) for replicas in (1, 2)}


def train(replicas):
    run = subprocess.run(
        [sys.executable, "-c", TRAIN, str(replicas)],
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("model", [0, 1], ids=["fives", "lr"])
def test_two_replicas_learn_what_one_device_does(trained, model):
    for one, two in zip(trained[1][model], trained[2][model], strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-4, atol=1e-6)
