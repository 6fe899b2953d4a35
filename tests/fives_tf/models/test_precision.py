"""Fewer bits: the network learns about the same, and all that is kept or shown stays float32."""

import functools
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from fives_tf.config import SearchConfig
from fives_tf.models import precision
from fives_tf.models.fives import FivesForm, FivesModel
from fives_tf.models.precision import FIRST, LEAST, LossScale
from fives_tf.training.optimizers import make_optimizer

from ..test_resume import assert_same_run, saved_step, stop

FIELDS, VALUES, BATCH, STEPS = 4, 5, 64, 60
IDS = FIELDS * VALUES
# Layers do not depend on each other: an edge that counts a step later would change all of the next.
FORM = {"order": 3, "dim": 4, "stddev": 0.5, "readout_stddev": 0.5, "dependencies": False}
# How far losses and predictions may be from those in float32: bfloat16 has 8 significant bits,
# float16 has 11.
TOLERANCE = {"bfloat16": 4e-2, "float16": 5e-3}
FEWER = pytest.mark.parametrize("few", list(TOLERANCE))
JIT = pytest.mark.parametrize("jit", [False, True], ids=["plain", "compiled"])


def make_batch(random, rows=BATCH):
    """Rows whose click depends on two fields together, and on chance."""
    values = random.integers(VALUES, size=(rows, FIELDS))
    label = (values[:, 0] + values[:, 1] + (random.random(rows) < 0.2)) % 2
    ids = values + VALUES * np.arange(FIELDS)
    return tf.constant(ids, tf.int32), tf.constant(label, tf.float32)


def make_model(few, jit=False, optimizer="adam", rate=0.05, batch=BATCH, **form):
    names = ("embedding", "network", "first_order")
    optimizers = {name: make_optimizer(optimizer, rate) for name in names}
    # As the configuration has it: Adam would make a large step of the smallest difference.
    damped = {"epsilon": SearchConfig.edge_epsilon} if optimizer == "adam" else {}
    optimizers["edges"] = make_optimizer(optimizer, rate, **damped)
    return FivesModel(
        FivesForm(**FORM | form),
        list("abcd"),
        np.full(IDS, 1 / VALUES),
        batch,
        optimizers,
        steps=STEPS,
        precision=few,
        jit=jit,
    )


TYPES = ("types_made", "types_kept")  # sets of names


def train(few, jit):
    """Searches with a small model, and gathers what it shows on the way and at the end."""
    random = np.random.default_rng(0)
    model = make_model(few, jit)
    step = tf.function(model.train_step)
    logs = [step((make_batch(random), make_batch(random))) for _ in range(STEPS)]
    ids, _ = make_batch(random, 500)
    logits = model.call(ids)
    probability = model.probability(logits)
    made = [*logs[0].values(), logits, probability, model.strength(), model.adjacency()]
    kept = [*model.variables]
    for optimizer in model.learners().values():
        kept += optimizer.variables
    return {
        "losses": np.array([[one["loss"], one["edge_loss"]] for one in logs]),
        "logits": logits.numpy(),
        "probability": probability.numpy(),
        "h": model.h.numpy(),
        "types_made": {one.dtype.name for one in made},
        "types_kept": {keras.backend.standardize_dtype(one.dtype) for one in kept},
        "logits_in_float32": twin(model).call(ids).numpy(),
    }


def twin(model):
    """A model in float32 with the same parameters."""
    same = make_model("float32")
    for name in ("transform", "readout", "bias", "h", "temperature"):
        getattr(same, name).assign(getattr(model, name))
    for name in ("embedding", "first_order"):
        getattr(same, name).values.assign(getattr(model, name).values)
    return same


@functools.cache
def trained(few, jit=False):
    """What `train` gathers."""
    if few == "bfloat16" and not jit:
        return train_without_amx(few, jit)
    return train(few, jit)


def train_without_amx(few, jit):
    """In a process of its own, in which TensorFlow uses no instructions of AMX.

    Some virtual machines tell of them and do not allow them; a product of matrices in bfloat16 then
    ends the process, unless it is compiled.
    """
    program = (
        "import io, sys\n"
        "import numpy as np\n"
        "from tests.fives_tf.models.test_precision import TYPES, train\n"
        f"found, buffer = train({few!r}, {jit!r}), io.BytesIO()\n"
        "np.savez(buffer, **found | {name: sorted(found[name]) for name in TYPES})\n"
        "sys.stdout.buffer.write(buffer.getvalue())\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[3],
        env=os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"},
        capture_output=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr.decode()
    found = dict(np.load(io.BytesIO(run.stdout)))
    return found | {name: set(found[name].tolist()) for name in TYPES}


class TestTraining:
    def test_there_is_something_to_learn(self):
        losses = trained("float32")["losses"]
        first, last = losses[:10].mean(axis=0), losses[-10:].mean(axis=0)
        assert (last < first - 0.05).all()

    @FEWER
    @JIT
    def test_it_ends_close_to_where_float32_does(self, few, jit):
        found, expected = trained(few, jit), trained("float32")
        for name in ("losses", "probability", "h"):
            limit = TOLERANCE[few]
            np.testing.assert_allclose(found[name], expected[name], 0, limit, err_msg=name)
        first = abs(found["losses"][0] - expected["losses"][0])
        assert first.max() > 1e-6, "the network is computed in few bits"

    @FEWER
    @JIT
    def test_parameters_edges_loss_and_predictions_stay_float32(self, few, jit):
        found = trained(few, jit)
        assert found["types_kept"] == {"float32", "int64"}  # parameters, and numbers of steps
        assert found["types_made"] == {"float32"}
        # They are not computed in fewer bits either.
        np.testing.assert_allclose(found["logits"], found["logits_in_float32"], 0, 1e-5)


class TestSmallGradients:
    """Float16 knows nothing between 0 and 6e-8."""

    def change(self, few, scale=None):
        """What a step changes of the embedding, in a batch so large that gradients are small."""
        model = make_model(
            few, optimizer="sgd", rate=1.0, batch=2048, stddev=0.01, readout_stddev=0.01
        )
        if scale is not None:
            model._scale._scale.assign(scale)
        before = model.embedding.values.numpy()
        random = np.random.default_rng(0)
        model.train_step((make_batch(random, 2048), make_batch(random, 2048)))
        return model.embedding.values.numpy() - before

    def test_they_are_kept_by_the_scale_of_the_loss(self):
        expected = self.change("float32")
        limit = abs(expected).max()
        np.testing.assert_allclose(self.change("float16"), expected, rtol=0, atol=0.02 * limit)
        lost = self.change("float16", scale=1.0)
        assert abs(lost - expected).max() > 0.2 * limit, "without a scale they would vanish"


class TestLossScale:
    @pytest.fixture(autouse=True)
    def few_steps(self, monkeypatch):
        """So that the scale grows after three of them."""
        monkeypatch.setattr(precision, "PATIENCE", 3)

    def unscale(self, scale, *values):
        return [one.numpy() for one in scale.unscale([tf.constant(value) for value in values])]

    def state(self, scale):
        return float(scale.value), int(scale._calm.numpy())

    def test_gradients_are_those_of_the_loss_itself(self):
        scale = LossScale()
        first, second = self.unscale(scale, [3 * FIRST, -FIRST], [[FIRST / 2]])
        np.testing.assert_array_equal(first, [3, -1])
        np.testing.assert_array_equal(second, [[0.5]])
        assert self.state(scale) == (FIRST, 1)

    @pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
    def test_an_overflow_zeroes_all_gradients_and_halves_the_scale(self, bad):
        scale = LossScale()
        self.unscale(scale, [1.0])
        first, second = self.unscale(scale, [1.0, 2.0], [3.0, bad])
        np.testing.assert_array_equal([first, second], np.zeros([2, 2]))
        assert self.state(scale) == (FIRST / 2, 0)

    def test_calm_steps_double_it_and_an_overflow_among_them_counts_anew(self):
        scale, seen = LossScale(), []
        for value in (1, 1, 1, 1, 1, np.inf, 1, 1, 1):
            self.unscale(scale, [float(value)])
            seen.append(self.state(scale))
        twice = 2 * FIRST
        assert seen == [
            (FIRST, 1),
            (FIRST, 2),
            (twice, 0),
            (twice, 1),
            (twice, 2),
            (FIRST, 0),
            (FIRST, 1),
            (FIRST, 2),
            (twice, 0),
        ]

    def test_it_does_not_fall_below_its_least(self):
        scale = LossScale()
        scale._scale.assign(LEAST)
        self.unscale(scale, [np.inf])
        assert self.state(scale) == (LEAST, 0)

    @JIT
    def test_a_step_that_overflows_changes_no_parameter(self, jit):
        model = make_model("float16", jit, optimizer="sgd", rate=0.1)
        model._scale._scale.assign(2.0**40)
        before = [variable.numpy() for variable in model.trainable_variables]
        random = np.random.default_rng(0)
        logs = model.train_step((make_batch(random), make_batch(random)))
        assert np.isfinite([logs["loss"], logs["edge_loss"]]).all(), "the loss is not scaled"
        for variable, value in zip(model.trainable_variables, before, strict=True):
            np.testing.assert_array_equal(variable, value)
        # Twice, as the gradients by Theta and by H overflow each.
        assert self.state(model._scale) == (2.0**38, 0)

    def test_its_state_is_in_checkpoints(self, tmp_path):
        model, other = make_model("float16"), make_model("float16")
        for value in (np.inf, 1.0, 1.0):
            self.unscale(model._scale, [value])
        assert self.state(model._scale) == (FIRST / 2, 2)
        path = tf.train.Checkpoint(model=model).save(str(tmp_path / "model"))
        tf.train.Checkpoint(model=other).restore(path).assert_existing_objects_matched()
        assert self.state(other._scale) == (FIRST / 2, 2)


def test_a_search_in_float16_that_is_killed_goes_on_and_can_be_judged(small_dataset, cli, tmp_path):
    whole, run = tmp_path / "whole", tmp_path / "run"
    flags = [
        "--precision=float16",
        "--paper",
        "--order=2",
        "--dim=4",
        "--batch=16",
        "--search_epochs=2",
        "--evaluate_rows=640",
        "--checkpoint_seconds=0",
        "--no_xla",
    ]
    assert cli("search", small_dataset, "--run", whole, *flags).returncode == 0
    last = saved_step(whole, "search")

    command = [sys.executable, "-m", "fives_tf.cli", "search", str(small_dataset)]
    stop([*command, "--run", str(run), *flags], run, "search", signal.SIGKILL)
    assert 0 < saved_step(run, "search") < last, "it was not stopped in mid-training"
    done = cli("search", small_dataset, "--run", run, *flags, "--resume")
    assert done.returncode == 0, done.stderr
    assert_same_run(run, whole)

    path = tf.train.latest_checkpoint(str(run / "checkpoints" / "search" / "last"))
    name = "model/_scale/_calm/.ATTRIBUTES/VARIABLE_VALUE"
    assert tf.train.load_variable(path, name) == 2 * last, "every step counted, as none overflowed"
    assert cli("evaluate", run, "--split=valid").returncode == 0
