"""The law of a synthetic log: fields that draw values, and tables of their true effects."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from fives_tf.synth import SynthConfig

BLOCK = 65_536
_BINS = 2**16
_TAIL = 1.1  # the exponent of Zipf's law that click logs show
_MILD = 0.3  # planted fields: uneven, yet every combination occurs

# The readable vocabularies hold what readers stumble over: delimiters, quotes, Unicode, spaces.
_READABLE = (
    ('TV 55", black', 'Phone "Mini", 64 GB', "Lamp, oak", "Desk", "Chair, set of 4", 'Nail 2"'),
    ("London", "Zürich", "São Paulo", "東京", "Москва", "New York", "Kraków", "القاهرة", "Oslo"),
    ("phone", "tablet", "desktop", "smart tv", "e-reader", "console", "watch"),
)


@dataclass(frozen=True, eq=False)
class Plan:
    """The law that the rows of a log are drawn from."""

    fields: tuple["NumericField | CategoricalField", ...]
    crosses: tuple["PlantedCross", ...]
    seed: int

    @classmethod
    def make(cls, config: "SynthConfig", spell: Callable[[str], str] = str) -> "Plan":
        """Draws the fields and the tables of a log; `spell` writes a value for a file format."""
        # A third number keeps this generator apart from those of the blocks, [seed, block].
        rng = np.random.default_rng([config.seed, 0, 2])
        crosses, names = config.crosses(), config.categorical_names()
        planted = {name for cross in crosses for name in cross}
        high_order = {name for cross in crosses if len(cross) > 2 for name in cross}
        free = [name for name in names if name not in planted]
        values = {
            name: hex_values(
                rng, config.triple_values if name in high_order else config.pair_values
            )
            for name in names
            if name in planted
        }
        sizes = np.geomspace(config.max_values, min(10, config.max_values), len(free))[::-1]
        for rank, (name, size) in enumerate(zip(rng.permutation(free), sizes, strict=True)):
            size = round(size)
            values[name] = _readable(rank, size) if rank < len(_READABLE) else hex_values(rng, size)

        unplanted = config.numeric_names() + free
        missing = dict(
            zip(unplanted, missing_rates(rng, len(unplanted), config.missing), strict=True)
        )
        # Half of the fields of each kind act on their own; a missing value has no effect.
        active = {
            str(name)
            for group in (config.numeric_names(), names)
            for name in rng.permutation(group)[: math.ceil(len(group) / 2)]
        }
        present = sum(1 - missing.get(name, 0.0) for name in sorted(active))
        spread = {name: config.field_effect / math.sqrt(present) for name in active}

        fields: list[NumericField | CategoricalField] = []
        for index, name in enumerate(config.numeric_names()):
            kind = {1: "signed", 2: "float", 5: "signed", 7: "float"}.get(index, "count")
            fields.append(NumericField.make(rng, name, kind, missing[name], spread.get(name, 0.0)))
        for name in names:
            exponent = _MILD if name in planted else _TAIL
            spelled = [spell(value) for value in values[name]]
            rest = missing.get(name, 0.0), spread.get(name, 0.0)
            fields.append(CategoricalField.make(rng, name, spelled, exponent, *rest))
        probabilities = {f.name: f.probabilities for f in fields if isinstance(f, CategoricalField)}
        tables = [
            pure_interaction(rng, [probabilities[name] for name in cross], config.cross_effect)
            for cross in crosses
        ]
        return cls(tuple(fields), tuple(map(PlantedCross, crosses, tables)), config.seed)

    def draw(self, block: int) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
        """Draws a block of rows.

        A block is drawn whole and from its own generator, so that a shorter log of the same seed is
        the beginning of a longer one.

        Returns:
            The drawn values by field, the logit without the bias, and uniform numbers that turn
            the probabilities into clicks.
        """
        rng = np.random.default_rng([self.seed, block])
        drawn = {field.name: field.draw(rng, BLOCK) for field in self.fields}
        logit = np.zeros(BLOCK)
        for field in self.fields:
            logit += field.effect(drawn[field.name])
        for cross in self.crosses:
            logit += cross.effect([drawn[name] for name in cross.fields])
        return drawn, logit, rng.random(BLOCK)

    def bounds(self) -> tuple[float, float]:
        """Bounds of the logit without the bias."""
        lows, highs = zip(*(part.bounds() for part in (*self.fields, *self.crosses)), strict=True)
        return sum(lows), sum(highs)

    def bias(self, click_rate: float) -> float:
        """The bias that gives the click rate, solved on the first block."""
        _, logit, _ = self.draw(0)
        reach = np.abs(logit).max() + 10
        return solve(lambda bias: sigmoid(logit + bias).mean(), click_rate, -reach, reach)


@dataclass(frozen=True, eq=False)
class CategoricalField:
    """A categorical field: its values, how often each occurs, and its first-order effect.

    A drawn value is a code: 0 is missing, `i` is the `i`-th most frequent value. `pool` and
    `effects` are indexed by code, so that a missing value needs no case of its own.
    """

    name: str
    pool: pa.Array
    probabilities: np.ndarray  # of the values, given that one is present
    edges: np.ndarray  # a uniform number between the edges `i - 1` and `i` draws the code `i`
    effects: np.ndarray

    @classmethod
    def make(
        cls,
        rng: np.random.Generator,
        name: str,
        values: Sequence[str],
        exponent: float,
        missing: float,
        spread: float,
    ) -> "CategoricalField":
        """A field whose `i`-th value has a frequency of `i ** -exponent`.

        Args:
            rng: draws the first-order effects.
            name: the name of the column.
            values: the values as they are written to the log, the most frequent first.
            exponent: 0 makes all values equally frequent, 1.1 gives a long tail.
            missing: the part of the rows in which the value is missing.
            spread: standard deviation of the first-order effect where the value is present.
        """
        probabilities = np.arange(1, len(values) + 1) ** -exponent
        probabilities /= probabilities.sum()
        effects = np.append(0.0, pure_interaction(rng, [probabilities], spread))
        edges = missing + (1 - missing) * np.append(0.0, np.cumsum(probabilities))
        edges[-1] = 1.0
        pool = pa.array([None, *values], pa.string())
        return cls(name, pool, probabilities, edges, effects)

    def draw(self, rng: np.random.Generator, rows: int) -> np.ndarray:
        """The codes of `rows` values."""
        return np.searchsorted(self.edges, rng.random(rows), side="right")

    def column(self, codes: np.ndarray) -> pa.Array:
        """The values as they are written to the log."""
        return self.pool.take(pa.array(codes))

    def effect(self, codes: np.ndarray) -> np.ndarray:
        """The first-order contributions to the logit."""
        return self.effects[codes]

    def bounds(self) -> tuple[float, float]:
        """The least and the greatest effect."""
        return float(self.effects.min()), float(self.effects.max())


@dataclass(frozen=True, eq=False)
class NumericField:
    """A heavy-tailed number, and its first-order effect: a wave over the logarithm of its size.

    A drawn value is a float, NaN where it is missing; counts are whole floats.
    """

    name: str
    kind: str
    missing: float
    location: float
    scale: float
    frequency: float
    phase: float
    shift: float = 0.0
    amplitude: float = 1.0

    @classmethod
    def make(
        cls, rng: np.random.Generator, name: str, kind: str, missing: float, spread: float
    ) -> "NumericField":
        """A field of random shape; `spread` is as in `CategoricalField.make`."""
        shape = {
            "location": rng.uniform(0.5, 3.5),
            "scale": rng.uniform(1.0, 1.8),
            "frequency": rng.uniform(0.4, 1.2),
            "phase": rng.uniform(0, 2 * np.pi),
        }
        # The mean and deviation of the wave have no closed form, hence the sample.
        sample = cls(name, kind, 0.0, **shape)
        wave = sample.effect(sample.draw(rng, _BINS))
        return cls(name, kind, missing, **shape, shift=wave.mean(), amplitude=spread / wave.std())

    def draw(self, rng: np.random.Generator, rows: int) -> np.ndarray:
        """`rows` values."""
        exponent = rng.standard_normal(rows) * self.scale
        if self.kind == "count":
            values = np.floor(np.exp(exponent + self.location))
        elif self.kind == "signed":
            values = np.rint(np.sinh(exponent + 1.0))
        else:
            values = np.round(np.exp(exponent), 4)
        if self.missing:
            values[rng.random(rows) < self.missing] = np.nan
        return values

    def column(self, values: np.ndarray) -> pa.Array:
        """The values as they are written to the log."""
        missing = np.isnan(values)
        if self.kind != "float":
            values = np.where(missing, 0, values).astype(np.int64)
        return pa.array(values, mask=missing)

    def effect(self, values: np.ndarray) -> np.ndarray:
        """The first-order contributions to the logit."""
        if not self.amplitude:
            return np.zeros(len(values))
        size = np.copysign(np.log1p(np.abs(values)), values)
        wave = np.sin(self.frequency * size + self.phase) - self.shift
        return np.nan_to_num(self.amplitude * wave)

    def bounds(self) -> tuple[float, float]:
        """The least and the greatest effect that are possible."""
        reach = self.amplitude * (1 + abs(self.shift))
        return -reach, reach


@dataclass(frozen=True, eq=False)
class PlantedCross:
    """Fields that act together, with the contribution to the logit of each combination."""

    fields: tuple[str, ...]
    table: np.ndarray

    @property
    def name(self) -> str:
        """The name of the cross, such as `C3 x C7`."""
        return " x ".join(self.fields)

    def effect(self, codes: Sequence[np.ndarray]) -> np.ndarray:
        """The contributions to the logit, from the codes of each field; none may be missing."""
        cells = np.ravel_multi_index([code - 1 for code in codes], self.table.shape)
        return self.table.ravel()[cells]

    def bounds(self) -> tuple[float, float]:
        """The least and the greatest effect."""
        return float(self.table.min()), float(self.table.max())


class LogitHistogram:
    """The AUC that the true click probabilities reach, in constant memory.

    Each row counts as a click with weight `p` and as none with weight `1 - p`, which leaves out
    the noise of the drawn labels. Rows of one bin are ties and count half: the bins are so fine
    that this moves the AUC by less than 1e-4.
    """

    def __init__(self, low: float, high: float):
        self._low = low
        self._per_bin = (_BINS - 1) / max(high - low, 1e-9)
        self._positive = np.zeros(_BINS)
        self._negative = np.zeros(_BINS)

    def add(self, logit: np.ndarray, probability: np.ndarray) -> None:
        """Counts a block of rows."""
        bins = np.clip((logit - self._low) * self._per_bin, 0, _BINS - 1).astype(np.int64)
        self._positive += np.bincount(bins, probability, minlength=_BINS)
        self._negative += np.bincount(bins, 1 - probability, minlength=_BINS)

    def auc(self) -> float:
        """The expected AUC of the rows counted so far."""
        below = np.cumsum(self._negative) - self._negative / 2
        return float(self._positive @ below / (self._positive.sum() * self._negative.sum()))


def pure_interaction(
    rng: np.random.Generator, probabilities: Sequence[np.ndarray], spread: float
) -> np.ndarray:
    """A table of normal effects by combination that no smaller set of its fields can explain.

    The mean over any one axis, weighted with the probabilities of that axis, is zero, hence all
    marginals of lower order are too. One axis gives a plain table with mean zero.

    Args:
        rng: draws the effects.
        probabilities: of the values of each field; the fields are independent.
        spread: standard deviation of the effect under these probabilities.
    """
    table = rng.standard_normal([len(axis) for axis in probabilities])
    # Centring an axis keeps the others centred, as the weights are a product.
    for axis, weights in enumerate(probabilities):
        table -= np.expand_dims(np.tensordot(table, weights, axes=(axis, 0)), axis)
    variance = table**2
    for weights in reversed(probabilities):
        variance = variance @ weights
    return table * (spread / np.sqrt(variance))


def missing_rates(rng: np.random.Generator, fields: int, mean: float) -> np.ndarray:
    """Unequal missing rates with the given mean: a lot in a few fields, none in many."""
    if not fields or not mean:
        return np.zeros(fields)
    rank = (np.arange(fields) + 0.5) / fields

    def rates(power: float) -> np.ndarray:
        raw = rank**-power
        return np.where(raw < mean / 10, 0, raw)

    return rng.permutation(rates(solve(lambda power: rates(power).mean(), mean, -1e4, 0.0)))


def solve(function: Callable[[float], float], target: float, low: float, high: float) -> float:
    """Where a rising function reaches the target, by bisection."""
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < target else (low, middle)
    return (low + high) / 2


def hex_values(rng: np.random.Generator, count: int) -> list[str]:
    """`count` different strings of eight hexadecimal digits."""
    # Steps of an odd number meet every 32-bit number once before one comes back.
    start = int(rng.integers(2**32))
    return [f"{(start + step * 0x9E3779B1) % 2**32:08x}" for step in range(count)]


def sigmoid(logit: np.ndarray) -> np.ndarray:
    """The click probability; this form cannot overflow."""
    return 0.5 + 0.5 * np.tanh(0.5 * logit)


def _readable(kind: int, count: int) -> list[str]:
    """`count` different readable values; numbers follow when the words run out."""
    words = _READABLE[kind]
    turns = (divmod(index, len(words)) for index in range(count))
    return [f"{words[word]} {turn + 1}" if turn else words[word] for turn, word in turns]
