"""Which crosses help a logistic regression, and the regression that has weights for them.

FIVES finds the crosses, and its score makes the short list. Of this list those are taken that add
most to a regression that has the fields already. How many is decided on a part of train: the search
has learned its edges from valid, where its crosses seem better than they are.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from fives_tf import crosses as crosses_format
from fives_tf import progress, storage
from fives_tf.config import SearchConfig
from fives_tf.cross_encoding import CrossEncoding
from fives_tf.cross_fitting import fit_crosses
from fives_tf.crosses import Cross, best_of_orders, by_gain, with_figures
from fives_tf.encoding import Encoding
from fives_tf.gain import held_out_gain, tell_the_same
from fives_tf.models.build import Facts, FirstOrder, Penalty, first_order
from fives_tf.models.lr import LogisticRegression
from fives_tf.training.batches import Source
from fives_tf.training.evaluation import Evaluation
from fives_tf.training.loop import CHECKPOINTS, Outcome
from fives_tf.training.regression import STAGE, fit_regression, refit_regression
from fives_tf.training.strategy import on_chief, tell

RANKING = "ranking-{}-{}.json"  # the regression on the fields, and how many crosses it has besides
PART = "part-lr"  # the regression on the fields that learns from a part of train
SHORT_LIST = 60  # crosses of each order
COUNTS = (10, 30, 100)  # numbers of crosses to try
SAMPLE = 1_000_000  # rows of a split that crosses are ranked and their values are counted on
_BLOCK = 65_536


@dataclass(frozen=True, eq=False)
class Crossed:
    """A logistic regression on fields and crosses.

    Attributes:
        crosses: The crosses, and the ids of their values.
        weights: Its weights and bias, and the penalty that was best.
        evaluation: Its figures on validation, before it also learned from there.
        ranked: The crosses that could be chosen, with their gains, the greatest first.
    """

    crosses: CrossEncoding
    weights: FirstOrder
    evaluation: Evaluation
    ranked: list[Cross]


class Crossing:
    """Chooses crosses and learns their weights together with those of the fields.

    The crosses that add most come first, unless they are ranked already, as the configuration says.
    Each regression is a training with checkpoints of its own, so that one that was stopped goes on.
    """

    def __init__(
        self,
        config: SearchConfig,
        facts: Facts,
        encoding: Encoding,
        source: Source,
        directory: str,
        stage: str = STAGE,
    ):
        """Takes what is known.

        Args:
            config: The configuration, resolved.
            facts: What is known of the dataset.
            encoding: Its encoding.
            source: Its rows.
            directory: The run directory, for checkpoints and figures.
            stage: The name there of the regression on the fields alone.
        """
        self._config, self._facts, self._encoding = config, facts, encoding
        self._source, self._directory, self._stage = source, directory, stage

    def choose(self, crosses: Sequence[Cross]) -> Crossed:
        """Learns from train, with as many of the crosses as are best.

        None at all may be the best, too, unless crosses are to have weights in any case. A part of
        train decides, if it can be divided. Crosses that are ranked already need not come from a
        search, so valid decides on them.
        """
        part = None if self._are_ranked else self._source.within_train()
        if part is None:
            return self._best(crosses)
        apart = Crossing(self._config, self._facts, self._encoding, part, self._directory, PART)
        best = apart._best(crosses)
        chosen = [field.cross for field in best.crosses.fields]
        if chosen:
            fitted = self._fit(chosen, "train")
            model, outcome = fit_regression(
                self._config,
                self._facts.with_crosses(fitted),
                self._source,
                self._directory,
                "crosses",
                [best.weights.penalty],
            )
        else:
            fitted, (model, outcome) = best.crosses, self._regression()
        return Crossed(fitted, first_order(model), outcome.evaluation, best.ranked)

    def _best(self, crosses: Sequence[Cross]) -> Crossed:
        """Learns from train, with as many of the crosses as are best on valid.

        What others add to a regression that has the first ones is another question than what they
        add to one of the fields alone, so they are ranked anew before more of them are taken.
        """
        rows = "valid" if self._stage == STAGE else "a part of train"
        base, outcome = self._regression()
        tell(f"no crosses: log loss {outcome.evaluation.log_loss:.5f} on {rows}")
        none = CrossEncoding([], self._encoding)
        ranked = left = self._ranked(crosses, base)
        best, model = Crossed(none, first_order(base), outcome.evaluation, ranked), base
        counts = sorted({min(count, len(ranked)) for count in COUNTS} - {0})
        chosen: list[Cross] = []
        for count in counts:
            if chosen:
                left = self._ranked(left, model, known=len(chosen))
            more = count - len(chosen)
            chosen, left = chosen + left[:more], left[more:]
            fitted = self._fit(with_figures(chosen, ranked), "train")
            model, outcome = self._learn(fitted, base)
            tell(f"{count} crosses: log loss {outcome.evaluation.log_loss:.5f} on {rows}")
            is_first = count == counts[0] and self._config.form == "crosses"
            if is_first or outcome.evaluation.log_loss < best.evaluation.log_loss:
                best = Crossed(fitted, first_order(model), outcome.evaluation, ranked)
        return best

    def learn(self, crosses: CrossEncoding) -> tuple[LogisticRegression, Outcome]:
        """Learns from train, with crosses that are given."""
        base, _ = self._regression()
        return self._learn(crosses, base)

    def _learn(
        self, crosses: CrossEncoding, base: LogisticRegression
    ) -> tuple[LogisticRegression, Outcome]:
        """The regression with crosses; its penalties are sought near that of one without."""
        return fit_regression(
            self._config,
            self._facts.with_crosses(crosses),
            self._source,
            self._directory,
            f"crosses-{len(crosses.fields)}",
            Penalty.near(first_order(base).penalty.fields, self._facts.rows),
        )

    def refit(self, chosen: Crossed) -> Crossed:
        """Learns from train and valid, with what was chosen."""
        crosses = self._fit([field.cross for field in chosen.crosses.fields], "train", "valid")
        model = refit_regression(
            self._config,
            self._facts.with_crosses(crosses),
            self._source,
            self._directory,
            chosen.weights.penalty,
            "refit-crosses",
        )
        return Crossed(crosses, first_order(model), chosen.evaluation, chosen.ranked)

    def _fit(self, crosses: Sequence[Cross], *splits: str) -> CrossEncoding:
        rows = [self._source.arrays(split, SAMPLE)[0] for split in splits]
        return fit_crosses(crosses, self._encoding, rows)

    def rank(self, crosses: Sequence[Cross], least: int = 0) -> list[Cross]:
        """The best crosses of each order with their gains, the greatest first.

        They stay as they are if they are ranked already.

        Args:
            crosses: The crosses, the best of each order first.
            least: How many are wanted; so many of each order are ranked at least.
        """
        if self._are_ranked:
            return list(crosses)
        base, _ = self._regression()
        return self._ranked(crosses, base, least)

    @property
    def _are_ranked(self) -> bool:
        return self._config.rank == "given"

    def _regression(self) -> tuple[LogisticRegression, Outcome]:
        """The regression on the fields alone."""
        return fit_regression(self._config, self._facts, self._source, self._directory, self._stage)

    def _ranked(
        self,
        crosses: Sequence[Cross],
        base: LogisticRegression,
        least: int = 0,
        known: int = 0,
    ) -> list[Cross]:
        """The best crosses of each order with their gains, the greatest first.

        They stay as they are if they are ranked already. The chief ranks them once. Ids follow from
        this order, so that workers that rounded otherwise, or a resumed run on other devices, must
        not rank anew.

        Args:
            crosses: The crosses.
            base: The regression that they are to add to.
            least: How many of each order are ranked at least.
            known: How many crosses the regression has already.
        """
        if self._are_ranked:
            return list(crosses)
        path = storage.join(self._directory, CHECKPOINTS, RANKING.format(self._stage, known))

        def rank() -> None:
            if not storage.exists(path):
                short = best_of_orders(crosses, max(SHORT_LIST, least))
                storage.write(path, crosses_format.to_json(by_gain(self._gains(short, base))))

        on_chief(rank)
        return crosses_format.from_json(storage.read(path), path)

    def _gains(self, crosses: Sequence[Cross], base: LogisticRegression) -> Iterator[Cross]:
        """The crosses with how much they lower the log loss of held-out rows.

        The regression has learned from these rows, so the gains are small, but their order tells.
        Of crosses that tell the rows apart in the same way the first one stays.
        """
        ids, label = self._source.arrays("train", SAMPLE)
        logit = regression_logits(base, ids)

        def values(cross: Cross) -> np.ndarray:
            encoding = fit_crosses([cross], self._encoding, [ids])
            return encoding.encode_one(0, ids) - encoding.offsets[0]

        known: dict[float, Cross] = {}
        with progress.view("rank", len(crosses), unit="crosses") as view:
            for done, cross in enumerate(crosses, start=1):
                own = values(cross)
                gain = held_out_gain(own, label, logit).gain
                view.update(done)
                if gain in known and tell_the_same(own, values(known[gain])):
                    continue
                known[gain] = cross
                yield dataclasses.replace(cross, gain=gain)


def regression_logits(model: LogisticRegression, ids: np.ndarray) -> np.ndarray:
    """The logits of the regression that was chosen."""
    chosen = int(model.chosen.numpy())
    parts = [
        model.logits(tf.constant(ids[start : start + _BLOCK])).numpy()[:, chosen]
        for start in range(0, len(ids), _BLOCK)
    ]
    return np.concatenate(parts)
