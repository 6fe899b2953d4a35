"""FIVES: a graph network whose adjacency tensor says which crosses are worth generating.

Equation numbers are those of the paper.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from fives_tf.adjacency import edge_mask, edge_strength, soft_adjacency
from fives_tf.models.base import (
    ClickModel,
    CrossPenalty,
    Table,
    cross_entropy,
    every_id,
    lookup_function,
    replica,
    replicas,
)
from fives_tf.models.dropout import kept
from fives_tf.models.graph import project, propagate
from fives_tf.models.precision import LossScale


@dataclass(frozen=True)
class FivesForm:
    """The form of the network and of its adjacency tensor; `paper` gives the paper's.

    Attributes:
        order: The highest order K of crosses.
        dim: The dimension d of the embedding.
        first_order: Whether a table of weights by id is layer 0, and the layers above add to it.
            Else layer 0 is a projection of the embeddings, as all other layers are.
        aggregate: Whether a node takes the "mean" of its neighbours or their "sum".
        joint: The part of the loss on the summed logits of all layers, which then are what
            predicts; at 0 the prediction is the mean of the layers' probabilities.
        dropout: The part of the embeddings' values that is dropped in training.
        stddev: The standard deviation of the first embeddings.
        readout_stddev: That of the first projections to logits.
        dependencies: Whether a layer's edges depend on those of the layer before.
        rescaling: Whether the temperature falls during the search.
        straight_through: Whether the forward pass sees binary edges.
        end_temperature: The temperature at the end of the search.
        thresholds: Where each layer is binarised; 0.5 unless set.
    """

    order: int = 3
    dim: int = 8
    first_order: bool = True
    aggregate: str = "mean"
    joint: float = 0.5
    dropout: float = 0.0
    stddev: float = 0.1
    readout_stddev: float = 0.1
    dependencies: bool = True
    rescaling: bool = True
    straight_through: bool = False
    end_temperature: float = 0.02
    thresholds: tuple[float, ...] | None = None


class Network(NamedTuple):
    """The parameters that every row shares.

    Attributes:
        edges: H, from which the adjacency tensor is computed, or the tensor itself if it is given.
        temperature: The temperature of eq. 8.
        transform: The matrices W_j, [fields, dim, dim].
        readout: The projections W(k), [layers, fields, dim].
        bias: The biases b(k), [K].
    """

    edges: tf.Tensor
    temperature: tf.Tensor
    transform: tf.Tensor
    readout: tf.Tensor
    bias: tf.Tensor


class Example(NamedTuple):
    """What the network learns from in one step.

    Attributes:
        nodes: The embeddings, [fields, batch, dim].
        base: The first-order logits, [batch].
        label: The labels, [batch].
        seed: Decides what is dropped.
        first_row: The place of the first row in the global batch.
        scale: What the loss is multiplied by, so that gradients do not vanish in few bits.
    """

    nodes: tf.Tensor
    base: tf.Tensor
    label: tf.Tensor
    seed: tf.Tensor
    first_row: tf.Tensor
    scale: tf.Tensor


class Lookup(NamedTuple):
    """What the tables hold for a batch of rows.

    Attributes:
        rows: The embedding's rows, [fields, batch].
        nodes: The embeddings, [fields, batch, dim].
        ids: The ids that have first-order weights, those of crosses too, [batch, ids of a row].
        weights: These weights, [batch, ids of a row, 1]; None if there are none.
        base: Their sums, the first-order logits, [batch].
    """

    rows: tf.Tensor
    nodes: tf.Tensor
    ids: tf.Tensor
    weights: tf.Tensor | None
    base: tf.Tensor


class FivesModel(ClickModel):
    """FIVES in search of its edges, or with edges that are given.

    In the search a batch is a pair: one batch of D_train moves Theta, one batch of D_val moves H
    (algorithm 1). With given edges a batch is one of D_train, and only Theta moves.

    Example:
        model = FivesModel(FivesForm(), encoding.columns, frequency, batch=128, steps=1000)
        model.train_step(((ids, label), (valid_ids, valid_label)))
    """

    def __init__(
        self,
        form: FivesForm,
        columns: Sequence[str],
        frequency: np.ndarray,
        batch: int,
        optimizers: dict[str, keras.optimizers.Optimizer],
        *,
        coarse: np.ndarray | None = None,
        crosses: Callable[[tf.Tensor], tf.Tensor] | None = None,
        cross_frequency: np.ndarray | None = None,
        l2: float = 0.0,
        first_order_l2: float = 0.0,
        cross_penalty: CrossPenalty | None = None,
        click_rate: float = 0.5,
        steps: int = 1,
        edges: np.ndarray | None = None,
        seed: int = 0,
        precision: str = "float32",
        jit: bool = True,
    ):
        """Makes the variables.

        Args:
            form: The form of the network.
            columns: The column that each field is made from.
            frequency: The part of all rows that each id occurs in.
            batch: The size of the global batch.
            optimizers: For "embedding", "network", "edges" and "first_order".
            coarse: The row of the embedding of each id, if several ids are to share one.
            crosses: Gives the ids of crosses for rows of ids, if crosses have first-order weights.
            cross_frequency: The part of all rows that each of these ids occurs in.
            l2: The strength of the penalty on the embedding.
            first_order_l2: That on the first-order weights.
            cross_penalty: That on those of crosses, if it is another one.
            click_rate: The part of the rows with a click, where the biases start.
            steps: The length of the search, over which the temperature falls.
            edges: A given adjacency tensor, [K - 1, fields, fields]; without, it is searched.
            seed: Decides the first values and the dropout.
            precision: The type of number that the network is computed in while it learns.
            jit: Whether to compile the network with XLA.
        """
        super().__init__()
        self._every_id = every_id(crosses)
        self.form = form
        self.searching = edges is None
        self.figures = ("loss", "edge_loss") if self.searching else ("loss",)
        self._mask = edge_mask(columns)
        self._optimizers = optimizers
        self._steps = steps
        self._seed = seed
        fields, layers = len(columns), form.order - 1
        self._coarse = None
        embedded = frequency
        if coarse is not None:
            self._coarse = lookup_function(coarse.astype(np.int32), "coarse")
            embedded = np.bincount(coarse, weights=frequency)
        self.embedding = Table(
            embedded, form.dim, batch, l2, form.stddev, _seed(seed, 0), name="embedding"
        )
        self.first_order = None
        if form.first_order:
            weighted = frequency
            if cross_frequency is not None:
                weighted = np.concatenate([frequency, cross_frequency])
            self.first_order = Table(
                weighted, 1, batch, first_order_l2, name="first_order", crosses=cross_penalty
            )
        projections = layers if form.first_order else form.order
        self.transform = self.add_weight(
            shape=(fields, form.dim, form.dim), initializer=_near_identity(seed), name="transform"
        )
        self.readout = self.add_weight(
            shape=(projections, fields, form.dim),
            initializer=keras.initializers.RandomNormal(0.0, form.readout_stddev, _seed(seed, 2)),
            name="readout",
        )
        self.bias = self.add_weight(shape=(form.order,), initializer="zeros", name="bias")
        odds = np.log(click_rate / (1 - click_rate))
        self.bias.assign([odds] + [0.0 if form.first_order else odds] * layers)
        shape = (layers, fields, fields)
        if self.searching:
            self.h = self.add_weight(shape=shape, initializer="zeros", name="h")
        else:
            self.edges = self.add_weight(
                shape=shape, initializer="zeros", trainable=False, name="edges"
            )
            self.edges.assign(edges)
        self.temperature = self.add_weight(
            shape=(), initializer="ones", trainable=False, name="temperature"
        )
        self.step = self.add_weight(
            shape=(), initializer="zeros", dtype="int64", trainable=False, name="step"
        )
        self._precision = precision
        self._scale = LossScale() if precision == "float16" else None
        self._theta_gradients = tf.function(self._theta_gradients, jit_compile=jit)
        self._edge_gradients = tf.function(self._edge_gradients, jit_compile=jit)
        self._forward = tf.function(self._forward, jit_compile=jit)
        for name, variables in self._groups().items():
            optimizers[name].build(variables)
        self.built = True

    def adjacency(self) -> tf.Tensor:
        """The adjacency tensor A as the network sees it."""
        if not self.searching:
            return tf.convert_to_tensor(self.edges.value)
        return self._soft(self.h.value, self.temperature.value)

    def strength(self) -> tf.Tensor:
        """The strengths of the edges before re-scaling; see `fives_tf.adjacency`."""
        if not self.searching:
            return tf.convert_to_tensor(self.edges.value)
        form, temperature = self.form, self.temperature.value
        return edge_strength(
            self.h.value, temperature, self._mask, form.thresholds, form.dependencies
        )

    def start_from(self, weights: np.ndarray, bias: float) -> None:
        """Starts layer 0 from a logistic regression."""
        self.first_order.values.assign(weights[:, None])
        self.bias.assign([bias] + [0.0] * (self.form.order - 1))

    def theta(self) -> list[keras.Variable]:
        """The network's parameters: all that is trained beside the edges."""
        return [v for name, group in self._groups().items() if name != "edges" for v in group]

    def call(self, ids: tf.Tensor) -> tf.Tensor:
        """The logits of the layers, [batch, K]; see `ClickModel.call`."""
        found = self._lookup(ids)
        return self._forward(found.nodes, found.base, self._network())

    def probability(self, logits: tf.Tensor) -> tf.Tensor:
        """See `ClickModel.probability`."""
        if self.form.joint:
            return tf.sigmoid(self._joint_logit(logits))
        return tf.reduce_mean(tf.sigmoid(logits), axis=1)

    def train_step(self, data: tuple) -> dict[str, tf.Tensor]:
        """Algorithm 1, lines 3 to 6; see `ClickModel.train_step`."""
        train, valid = data if self.searching else (data, None)
        logs = {"loss": self._update_theta(*train)}
        if valid is not None:
            logs["edge_loss"] = self._update_edges(*valid)
        self.step.assign_add(1)
        if self.searching and self.form.rescaling:
            done = tf.cast(self.step.value, tf.float32) / self._steps
            self.temperature.assign(1 - (1 - self.form.end_temperature) * tf.minimum(done, 1.0))
        return logs

    def learners(self) -> dict[str, keras.optimizers.Optimizer]:
        """See `ClickModel.learners`."""
        return {name: self._optimizers[name] for name in self._groups()}

    def _groups(self) -> dict[str, list[keras.Variable]]:
        """The trainable variables by the optimizer that moves them."""
        groups = {
            "embedding": [self.embedding.values],
            "network": [self.transform, self.readout, self.bias],
        }
        if self.first_order is not None:
            groups["first_order"] = [self.first_order.values]
        if self.searching:
            groups["edges"] = [self.h]
        return groups

    def _update_theta(self, ids: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
        found = self._lookup(ids)
        example = self._example(found, label, 0)
        loss, gradients = self._theta_gradients(example, self._network())
        by_nodes, by_base, *by_network = self._unscaled(gradients)
        self._apply("embedding", [self.embedding.gradient(found.rows, found.nodes, by_nodes)])
        self._apply("network", by_network)
        if self.first_order is not None:
            by_weights = tf.broadcast_to(by_base[:, None, None], tf.shape(found.weights))
            gradient = self.first_order.gradient(found.ids, found.weights, by_weights)
            self._apply("first_order", [gradient])
        return loss

    def _update_edges(self, ids: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
        example = self._example(self._lookup(ids), label, 1)
        loss, gradients = self._edge_gradients(example, self._network())
        self._apply("edges", self._unscaled(gradients))
        return loss

    def _apply(self, group: str, gradients: list[tf.Tensor]) -> None:
        self._optimizers[group].apply(gradients, self._groups()[group])

    def _lookup(self, ids: tf.Tensor) -> Lookup:
        rows = tf.transpose(ids)
        if self._coarse is not None:
            rows = self._coarse(rows)
        nodes = self.embedding.lookup(rows)
        if self.first_order is None:
            return Lookup(rows, nodes, ids, None, tf.zeros_like(ids[:, 0], nodes.dtype))
        ids = self._every_id(ids)
        weights = self.first_order.lookup(ids)
        return Lookup(rows, nodes, ids, weights, tf.reduce_sum(weights, axis=[1, 2]))

    def _network(self) -> Network:
        edges = self.h if self.searching else self.edges
        variables = (edges, self.temperature, self.transform, self.readout, self.bias)
        return Network(*(tf.convert_to_tensor(variable.value) for variable in variables))

    def _example(self, found: Lookup, label: tf.Tensor, batch: int) -> Example:
        """What one of the batches of a step, 0 or 1, gives the network to learn from."""
        seed = tf.stack([tf.constant(self._seed, tf.int64), 2 * self.step.value + batch])
        first_row = replica() * tf.shape(label)[0]
        scale = tf.constant(1.0) if self._scale is None else self._scale.value
        return Example(found.nodes, found.base, label, seed, first_row, scale)

    def _unscaled(self, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
        return gradients if self._scale is None else self._scale.unscale(gradients)

    # What follows is compiled, and works on tensors only.

    def _soft(self, h: tf.Tensor, temperature: tf.Tensor | float) -> tf.Tensor:
        form = self.form
        return soft_adjacency(
            h, temperature, self._mask, form.thresholds, form.dependencies, form.straight_through
        )

    def _forward(self, nodes: tf.Tensor, base: tf.Tensor, network: Network) -> tf.Tensor:
        """The logits of the layers, [batch, K] (eq. 3).

        The graph is computed in the type of the nodes; the edges, what the layers add up to and
        all that follows in float32.
        """
        adjacency = network.edges
        if self.searching:
            adjacency = self._soft(network.edges, network.temperature)
        few = nodes.dtype
        transform, readout = tf.cast(network.transform, few), tf.cast(network.readout, few)
        layers = propagate(nodes, adjacency, transform, self.form.aggregate)
        if self.first_order is not None:
            layers = layers[1:]
        logits = [project(layer, readout[k]) for k, layer in enumerate(layers)]
        if self.first_order is None:
            return tf.stack(logits, axis=1) + network.bias
        first = base + network.bias[0]
        more = [first + z + network.bias[k] for k, z in enumerate(logits, start=1)]
        return tf.stack([first, *more], axis=1)

    def _loss(self, logits: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
        """The mean over the layers' cross-entropies (eq. 4), joined with that of their sum.

        Divided by the size of the global batch, so that the replicas' losses add up to it.
        """
        loss = tf.reduce_mean(cross_entropy(label, logits), axis=1)
        if self.form.joint:
            joint = cross_entropy(label, self._joint_logit(logits)[:, None])[:, 0]
            loss = (1 - self.form.joint) * loss + self.form.joint * joint
        return tf.reduce_mean(loss) / replicas()

    def _joint_logit(self, logits: tf.Tensor) -> tf.Tensor:
        """The sum of what each layer adds to the logit of layer 0."""
        if self.first_order is None:
            return tf.reduce_sum(logits, axis=1)
        return logits[:, 0] + tf.reduce_sum(logits[:, 1:] - logits[:, :1], axis=1)

    def _learning_loss(self, example: Example, network: Network) -> tf.Tensor:
        """The loss with dropout, computed in as many bits as were asked for."""
        nodes, rate = example.nodes, self.form.dropout
        if rate:
            keep = kept(nodes.shape, example.seed, example.first_row, rate)
            nodes = nodes * tf.cast(keep, nodes.dtype) / (1 - rate)
        nodes = tf.cast(nodes, self._precision)
        return self._loss(self._forward(nodes, example.base, network), example.label)

    def _theta_gradients(
        self, example: Example, network: Network
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """The loss on D_train and its gradient by nodes, base, transform, readout and bias."""
        theta = [example.nodes, example.base, network.transform, network.readout, network.bias]
        with tf.GradientTape() as tape:
            tape.watch(theta)
            loss = self._learning_loss(example, network)
            scaled = loss * example.scale
        return loss, tape.gradient(scaled, theta, unconnected_gradients="zero")

    def _edge_gradients(
        self, example: Example, network: Network
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """The loss on D_val and its gradient by H."""
        with tf.GradientTape() as tape:
            tape.watch(network.edges)
            loss = self._learning_loss(example, network)
            scaled = loss * example.scale
        return loss, [tape.gradient(scaled, network.edges)]


def _near_identity(seed: int) -> keras.initializers.Initializer:
    """W_j = I plus a little noise: a cross starts as the product of its embeddings."""

    def make(shape: tuple[int, ...], dtype: str | None = None) -> tf.Tensor:
        noise = keras.random.normal(shape, stddev=0.01, dtype=dtype, seed=_seed(seed, 1))
        return tf.eye(shape[-1], dtype=noise.dtype) + noise

    return make


def _seed(seed: int, place: int) -> int:
    """A seed of its own for each variable."""
    return int(np.random.SeedSequence([seed, place]).generate_state(1)[0] >> 1)
