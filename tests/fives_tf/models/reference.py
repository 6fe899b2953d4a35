"""FIVES from the paper's equations, slowly: a row, a field, a layer, a neighbour at a time.

Double precision and plain loops; nothing here is shared with the model. Slice k - 1 of `h` and of
`edges` is the paper's layer k.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np

from fives_tf.models.fives import FivesForm


@dataclass(frozen=True, eq=False)
class Decisions:
    """What no gradient flows through: binary edges, and the soft ones that they were made from."""

    soft: list
    binary: list


@dataclass(frozen=True, eq=False)
class Reference:
    """A FIVES model in NumPy.

    Attributes:
        form: The form of the network.
        values: The parameters by name: embedding, transform, readout, bias; h or edges; and
            first_order if the form has such a table.
        mask: 1 where an edge may be.
        temperature: The temperature of eq. 8.
        coarse: The row of the embedding of each id.
        penalties: For a table by name, what half of the square of an occurrence costs, by row.
    """

    form: FivesForm
    values: dict[str, np.ndarray]
    mask: np.ndarray
    temperature: float = 1.0
    coarse: np.ndarray | None = None
    penalties: dict[str, np.ndarray] = field(default_factory=dict)

    def logits(self, ids, held=None):
        """Eq. 3 without the sigmoid: for each row, the logit of each layer."""
        edges = self.edges(held)
        return [self._layers(row, edges, held) for row in ids.tolist()]

    def predictions(self, ids):
        """The click probability of each row."""
        if self.form.joint:
            return [sigmoid(self._summed(logits)) for logits in self.logits(ids)]
        return [np.mean([sigmoid(z) for z in logits]) for logits in self.logits(ids)]

    def loss(self, ids, label, held=None):
        """Eq. 4, with the part of the summed logits and the penalties of the tables."""
        total = 0.0
        for y, logits in zip(label.tolist(), self.logits(ids, held), strict=True):
            of_layers = sum(cross_entropy(y, z) for z in logits) / len(logits)
            of_sum = cross_entropy(y, self._summed(logits))
            total += (1 - self.form.joint) * of_layers + self.form.joint * of_sum
        return total / len(ids)

    def penalty(self, ids):
        """The penalties of the occurrences in a batch."""
        total = 0.0
        for name, strengths in self.penalties.items():
            for identity in ids.ravel():
                row = self.row(identity) if name == "embedding" else identity
                total += strengths[row] / 2 * np.sum(self.values[name][row] ** 2)
        return total

    def gradient(self, name, ids, label, step=1e-5):
        """The gradient of loss and penalties by central differences, decisions held as they are."""
        held = self.decisions() if name == "h" else None
        start = self if name == "h" else self.with_values(edges=np.array(self.edges()))
        gradient = np.zeros_like(self.values[name])
        for index in np.ndindex(*gradient.shape):
            ends = []
            for change in (step, -step):
                moved = start.with_values(**{name: self.values[name].copy()})
                moved.values[name][index] += change
                ends.append(moved.loss(ids, label, held) + moved.penalty(ids))
            gradient[index] = (ends[0] - ends[1]) / (2 * step)
        return gradient

    def with_values(self, **values):
        """The same model with some other parameters."""
        return replace(self, values=self.values | values)

    def decisions(self, held=None):
        """The soft edges of eq. 7 and 8, and the binary ones that phi makes of them."""
        h, form, fields = self.values["h"].tolist(), self.form, range(len(self.mask))
        decisions = Decisions([], [])
        previous = [[float(i == j) for j in fields] for i in fields]  # A(0) = I
        for k in range(form.order - 1):
            transition = [[sigmoid(h[k][i][j]) for j in fields] for i in fields]
            threshold = form.thresholds[k] if form.thresholds else 0.5
            soft = [[0.0 for _ in fields] for _ in fields]
            for i in fields:
                neighbours = [n for n in fields if previous[i][n]]
                for j in fields:
                    if not self.mask[i, j]:
                        continue
                    strength = transition[i][j]
                    if form.dependencies:
                        if not neighbours:
                            continue
                        strength = sum(transition[n][j] for n in neighbours) / len(neighbours)
                    soft[i][j] = sigmoid(math.log(strength / (1 - strength)) / self.temperature)
            binary = [[float(a >= threshold) for a in row] for row in soft]
            decisions.soft.append(soft)
            decisions.binary.append(binary)
            previous = held.binary[k] if held else binary
        return decisions

    def edges(self, held=None):
        """The adjacency tensor that the network sees.

        Straight-through means: the value of the binary edges, and the changes of the soft ones.
        """
        if "edges" in self.values:
            return self.values["edges"].tolist()
        now = self.decisions(held)
        if not self.form.straight_through:
            return now.soft
        held = held or now
        return [
            [
                [b + (a - a_held) for b, a, a_held in zip(*rows, strict=True)]
                for rows in zip(*layers, strict=True)
            ]
            for layers in zip(held.binary, now.soft, held.soft, strict=True)
        ]

    def row(self, identity):
        """The row of the embedding of an id."""
        return identity if self.coarse is None else self.coarse[identity]

    def _layers(self, row, edges, held):
        """The logits of one row of ids."""
        values, form = self.values, self.form
        readout, bias = values["readout"], values["bias"].tolist()
        if form.first_order:
            first = bias[0] + sum(values["first_order"][identity, 0] for identity in row)
            nodes = self._representations(row, edges, held)
            return [first] + [
                first + bias[k] + sum(readout[k - 1, i] @ node for i, node in enumerate(nodes[k]))
                for k in range(1, form.order)
            ]
        return [
            bias[k] + sum(readout[k, i] @ node for i, node in enumerate(layer))
            for k, layer in enumerate(self._representations(row, edges, held))
        ]

    def _representations(self, row, edges, held):
        """Eq. 2: for each layer, the vector of each node."""
        embeddings = [self.values["embedding"][self.row(identity)] for identity in row]
        messages = [
            w @ vector for w, vector in zip(self.values["transform"], embeddings, strict=True)
        ]
        layers = [embeddings]
        for k in range(1, self.form.order):
            layers.append(
                [
                    self._aggregate(messages, edges[k - 1][i], self._is_silent(k, i, held)) * node
                    for i, node in enumerate(layers[-1])
                ]
            )
        return layers

    def _aggregate(self, messages, weights, silent):
        edges = [(weight, messages[j]) for j, weight in enumerate(weights) if weight]
        if not edges or (silent and self.form.aggregate == "mean"):
            return 0.0
        total = sum(weight * message for weight, message in edges)
        return total if self.form.aggregate == "sum" else total / sum(weights)

    def _is_silent(self, k, i, held):
        """Whether a node has no edge where the gradient is taken: its mean stays none."""
        return bool(held) and self.form.straight_through and not any(held.binary[k - 1][i])

    def _summed(self, logits):
        """What all layers say together; with a first-order table, layers add to layer 0."""
        if not self.form.first_order:
            return sum(logits)
        return logits[0] + sum(z - logits[0] for z in logits[1:])


def sigmoid(x):
    """1 / (1 + exp(-x)), without overflow."""
    return 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))


def cross_entropy(y, logit):
    """-y log(p) - (1 - y) log(1 - p) with p = sigmoid(logit)."""
    p = sigmoid(logit)
    return -(y * math.log(p) + (1 - y) * math.log(1 - p))
