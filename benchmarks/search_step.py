"""One measurement of `search_speed.py`: trains some steps through the loop and takes the time."""

import itertools
import resource
import statistics
import time
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from fives_tf import storage
from fives_tf.adjacency import edge_mask, soft_adjacency
from fives_tf.config import SearchConfig
from fives_tf.dataset import Dataset
from fives_tf.models.base import ClickModel, Table, cross_entropy
from fives_tf.models.build import Facts, FirstOrder, Penalty, build_fives
from fives_tf.models.graph import project, propagate
from fives_tf.training.batches import Batches, Source
from fives_tf.training.loop import Loop, Schedule
from fives_tf.training.optimizers import make_optimizer

if TYPE_CHECKING:
    from search_speed import Task

CALLS = 10  # that are timed; each trains a part of the steps
WARM_UP = 2  # calls before: the first one compiles
HIDDEN = (256, 128)
SLOTS = 2  # of Adam
MEBIBYTE = 1 << 20


def measure(task: "Task") -> dict[str, float]:
    """Rows a second, the median time of a step, and the peak memory of this process."""
    call = max(1, task.steps // CALLS)
    if task.name == "gemm":
        marks, width = _time_products(task, call), 0
    else:
        marks, width = _time_training(task, call)
    marks = marks[WARM_UP - 1 :]
    (first_step, began), (last_step, ended) = marks[0], marks[-1]
    seconds = [
        (after - before) / (end - start)
        for (start, before), (end, after) in itertools.pairwise(marks)
    ]
    table = task.size // task.shape.fields * task.shape.fields * width * 4 * (1 + SLOTS)
    return {
        "steps": last_step - first_step,
        "rows_per_second": round((last_step - first_step) * task.shape.batch / (ended - began)),
        "step_milliseconds": round(1000 * statistics.median(seconds), 3),
        "peak_mebibytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "table_mebibytes": round(table / MEBIBYTE),
    }


def _time_training(task: "Task", call: int) -> tuple[list[tuple[int, float]], int]:
    """The time after each call of the loop, by step, and the parameters of an id."""
    shape, total = task.shape, call * (WARM_UP + CALLS)
    dataset = Dataset.open(task.directory)
    config = SearchConfig.make(
        paper=task.name != "default",
        order=shape.order,
        dim=shape.dim,
        batch=shape.batch,
        seed=shape.seed,
        memory=0,
        # So that the embedding has as many rows as the size says.
        coarse_count=0,
        coarse_buckets=0,
    ).resolve(shape.rows)
    facts = Facts.of(dataset, config)
    source = Source(dataset, config.memory)
    train = Batches(source, ["train"], config.batch, config.seed)
    valid = Batches(source, ["valid"], config.batch, config.seed)
    model = _build(task.name, config, facts, total)
    if task.name == "dnn":
        valid = None
    marks: list[tuple[int, float]] = []
    # Without an evaluation, all that is done at its time is a line in the log and this call.
    schedule = Schedule(
        total / train.steps, evaluate_rows=call * train.batch, checkpoint_seconds=1e9
    )
    Loop(
        model,
        "search",
        storage.join(task.directory, "run"),
        source,
        schedule,
        lambda journal, step: marks.append((step, time.perf_counter())),
    ).train(train, valid, keep_best=False)
    return marks, config.dim + (task.name == "default")


def _build(name: str, config: SearchConfig, facts: Facts, steps: int) -> ClickModel:
    if name == "keras":
        return KerasFives(config, facts)
    if name == "dnn":
        return PlainNetwork(config, facts)
    start = None
    if config.first_order:
        # The weights do not matter here, but the penalty is part of the work.
        weights = np.zeros(len(facts.frequency), np.float32)
        start = FirstOrder(weights, 0.0, Penalty(1 / facts.rows, 0.0))
    return build_fives(config, facts, start, seed=config.seed, steps=steps)


class KerasFives(ClickModel):
    """The paper's form with Keras' own Embedding and Adam; the network is compiled as in FIVES.

    Without the L2 penalty and the falling temperature, which would only slow it down.
    """

    figures = ("loss", "edge_loss")

    def __init__(self, config: SearchConfig, facts: Facts):
        """Makes the variables."""
        super().__init__()
        fields, layers = len(facts.fields), config.order - 1
        self._mask = edge_mask(facts.columns)
        self._aggregate = config.aggregate
        self.embedding = keras.layers.Embedding(
            len(facts.frequency), config.dim, keras.initializers.RandomNormal(0.0, config.stddev)
        )
        self.embedding.build()
        self.dropout = keras.layers.Dropout(config.search_dropout)
        shapes = {
            "transform": (fields, config.dim, config.dim),
            "readout": (config.order, fields, config.dim),
            "bias": (config.order,),
        }
        self.network = [self.add_weight(shape=s, name=name) for name, s in shapes.items()]
        self.h = self.add_weight(shape=(layers, fields, fields), initializer="zeros", name="h")
        self._theta = [self.embedding.embeddings, *self.network]
        self._optimizers = {
            "theta": keras.optimizers.Adam(config.search_rate),
            "edges": keras.optimizers.Adam(config.edge_rate),
        }
        self._optimizers["theta"].build(self._theta)
        self._optimizers["edges"].build([self.h])
        self._forward = tf.function(self._forward, jit_compile=config.xla)
        self.built = True

    def call(self, ids: tf.Tensor, training: bool = False) -> tf.Tensor:
        """See `ClickModel.call`."""
        nodes = self.dropout(self.embedding(tf.transpose(ids)), training=training)
        return self._forward(nodes, self.h.value, *(v.value for v in self.network))

    def probability(self, logits: tf.Tensor) -> tf.Tensor:
        """See `ClickModel.probability`."""
        return tf.reduce_mean(tf.sigmoid(logits), axis=1)

    def train_step(self, data: tuple) -> dict[str, tf.Tensor]:
        """See `ClickModel.train_step`."""
        train, valid = data
        return {
            "loss": self._update("theta", self._theta, *train),
            "edge_loss": self._update("edges", [self.h], *valid),
        }

    def learners(self) -> dict[str, keras.optimizers.Optimizer]:
        """See `ClickModel.learners`."""
        return self._optimizers

    def _update(
        self, group: str, variables: list[keras.Variable], ids: tf.Tensor, label: tf.Tensor
    ) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(cross_entropy(label, self.call(ids, training=True)))
        gradients = tape.gradient(loss, [variable.value for variable in variables])
        self._optimizers[group].apply(gradients, variables)
        return loss

    def _forward(
        self,
        nodes: tf.Tensor,
        h: tf.Tensor,
        transform: tf.Tensor,
        readout: tf.Tensor,
        bias: tf.Tensor,
    ) -> tf.Tensor:
        adjacency = soft_adjacency(h, 1.0, self._mask)
        layers = propagate(nodes, adjacency, transform, self._aggregate)
        logits = [project(layer, readout[k]) for k, layer in enumerate(layers)]
        return tf.stack(logits, axis=1) + bias


class PlainNetwork(ClickModel):
    """Embeddings, two hidden layers, a logit; table and optimizers are those of FIVES."""

    def __init__(self, config: SearchConfig, facts: Facts):
        """Makes the variables."""
        super().__init__()
        self.table = Table(
            facts.frequency, config.dim, config.batch, config.search_l2, config.stddev
        )
        widths = (len(facts.fields) * config.dim, *HIDDEN, 1)
        self.network = [
            self.add_weight(shape=shape, initializer=initializer, name=f"{name}_{number}")
            for number, pair in enumerate(itertools.pairwise(widths))
            for name, shape, initializer in (
                ("kernel", pair, "he_normal"),
                ("bias", pair[1:], "zeros"),
            )
        ]
        self._optimizers = {
            "embedding": make_optimizer(config.embedding_optimizer, config.search_embedding_rate),
            "network": make_optimizer("adam", config.search_rate),
        }
        self._optimizers["embedding"].build([self.table.values])
        self._optimizers["network"].build(self.network)
        self._gradients = tf.function(self._gradients, jit_compile=config.xla)
        self.built = True

    def call(self, ids: tf.Tensor) -> tf.Tensor:
        """See `ClickModel.call`."""
        return self._forward(self.table.lookup(ids), [v.value for v in self.network])

    def probability(self, logits: tf.Tensor) -> tf.Tensor:
        """See `ClickModel.probability`."""
        return tf.sigmoid(logits[:, 0])

    def train_step(self, data: tuple) -> dict[str, tf.Tensor]:
        """See `ClickModel.train_step`."""
        ids, label = data
        found = self.table.lookup(ids)
        network = [tf.convert_to_tensor(variable.value) for variable in self.network]
        loss, by_found, by_network = self._gradients(found, network, label)
        gradient = self.table.gradient(ids, found, by_found)
        self._optimizers["embedding"].apply([gradient], [self.table.values])
        self._optimizers["network"].apply(by_network, self.network)
        return {"loss": loss}

    def learners(self) -> dict[str, keras.optimizers.Optimizer]:
        """See `ClickModel.learners`."""
        return self._optimizers

    def _forward(self, found: tf.Tensor, network: list[tf.Tensor]) -> tf.Tensor:
        values = tf.reshape(found, [-1, found.shape[1] * found.shape[2]])
        *hidden, last = zip(network[::2], network[1::2], strict=True)
        for kernel, bias in hidden:
            values = tf.nn.relu(values @ kernel + bias)
        return values @ last[0] + last[1]

    def _gradients(
        self, found: tf.Tensor, network: list[tf.Tensor], label: tf.Tensor
    ) -> tuple[Any, ...]:
        with tf.GradientTape() as tape:
            tape.watch([found, *network])
            loss = tf.reduce_mean(cross_entropy(label, self._forward(found, network)))
        by_found, *by_network = tape.gradient(loss, [found, *network])
        return loss, by_found, by_network


def _time_products(task: "Task", call: int) -> list[tuple[int, float]]:
    """The time after each call of the bare matrix products, compiled or not, what is faster."""
    shape = task.shape
    layers = shape.order - 1
    transform = tf.random.normal([shape.fields, shape.dim, shape.dim])
    adjacency = tf.random.uniform([layers * shape.fields, shape.fields])
    batches = [tf.random.normal([shape.fields, shape.batch, shape.dim]) for _ in range(2)]

    def products(*batches: tf.Tensor) -> list[tf.Tensor]:
        transformed = [tf.matmul(nodes, transform, transpose_b=True) for nodes in batches]
        return [adjacency @ tf.reshape(nodes, [shape.fields, -1]) for nodes in transformed]

    def marks(jit: bool) -> list[tuple[int, float]]:
        function = tf.function(products, jit_compile=jit)
        found = []
        for number in range(1, WARM_UP + CALLS + 1):
            for _ in range(call):
                results = function(*batches)
            _ = [result.numpy() for result in results]
            found.append((number * call, time.perf_counter()))
        return found

    return min(marks(True), marks(False), key=lambda found: found[-1][1] - found[WARM_UP - 1][1])
