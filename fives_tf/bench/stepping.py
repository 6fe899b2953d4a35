"""A network that trains some steps when it is told to, to be timed."""

from typing import Any

import tensorflow as tf

from fives_tf.bench.learn import make_config
from fives_tf.config import FitConfig, SearchConfig
from fives_tf.models.build import BUILDERS, Facts, build_fives
from fives_tf.training.batches import Batches, Source


class Stepping:
    """A network, and the batches that it learns from.

    Attributes:
        epoch: The steps of an epoch.
    """

    def __init__(self, source: Source, config: dict[str, Any], seed: int):
        """Builds a network.

        Args:
            source: The rows.
            config: The settings of a fit or of a search, as `config.yaml` has them.
            seed: The seed.
        """
        kind = FitConfig if "model" in config else SearchConfig
        made = make_config(kind, config, seed)
        facts = Facts.of(source.dataset, made)
        train = Batches(source, ["train"], made.batch, seed)
        self.epoch = train.steps
        batches = train.stream()
        if kind is SearchConfig:
            self._model = build_fives(made, facts, seed=seed, steps=self.epoch)
            valid = Batches(source, ["valid"], made.batch, seed)
            batches = tf.data.Dataset.zip((batches, valid.stream()))
        else:
            self._model = BUILDERS[made.model](made, facts, self.epoch)
        self._batches = iter(batches)

    def step(self, count: int) -> None:
        """Trains some steps, and waits until they are done."""
        float(self._steps(tf.constant(count)))

    @tf.function
    def _steps(self, count: tf.Tensor) -> tf.Tensor:
        loss = tf.constant(0.0)
        for _ in tf.range(count):
            loss += self._model.train_step(next(self._batches))["loss"]
        return loss
