"""The model that a fit ended with: how it is kept, and read back to predict with.

A logistic regression is kept as a light model, any other as a checkpoint and its crosses.
"""

import dataclasses

import tensorflow as tf

from fives_tf import storage
from fives_tf.config import Config
from fives_tf.cross_encoding import CrossEncoding
from fives_tf.dataset import Dataset
from fives_tf.errors import UserError
from fives_tf.light import Light
from fives_tf.models.base import ClickModel
from fives_tf.models.build import BUILDERS, Facts, Penalty, build_lr
from fives_tf.models.lr import LogisticRegression
from fives_tf.run import CROSS_IDS, LIGHT, Run, member_path
from fives_tf.training.crossing import Crossed


def save_regression(run: Run, crossed: Crossed) -> None:
    """Keeps a logistic regression."""
    Light.of(crossed).save(storage.join(run.directory, LIGHT))


def save_network(run: Run, model: ClickModel, crosses: CrossEncoding) -> None:
    """Keeps any other model."""
    for name, content in crosses.to_files().items():
        storage.write(storage.join(run.directory, CROSS_IDS, name), content)
    tf.train.Checkpoint(model=model).write(member_path(run.directory, 0))


def load_fitted(
    run: Run, dataset: Dataset, xla: bool | None = None, rows_have_crosses: bool = True
) -> tuple[ClickModel, CrossEncoding]:
    """The model of a fit, and the crosses that are fields of it.

    Args:
        run: A fit that is complete.
        dataset: Its dataset.
        xla: Whether to compile the model; as the run did unless set.
        rows_have_crosses: Whether the rows that it will be given have crosses behind the fields, if
            those of the dataset have; if not, the model finds them out itself.
    """
    config = dataclasses.replace(run.config, l2=0.0)  # to predict, no penalty is needed
    if xla is not None:
        config = dataclasses.replace(config, xla=xla)

    def gather(crosses: CrossEncoding) -> Facts:
        if dataset.crosses is not None and rows_have_crosses:
            return Facts.of(dataset, config)
        return Facts.of_fields(dataset, config).with_crosses(crosses)

    if config.model == "lr":
        light = _load_light(run, dataset)
        return light_regression(light, config, gather(light.crosses)), light.crosses
    crosses = CrossEncoding.from_files(
        lambda name: storage.read(storage.join(run.directory, CROSS_IDS, name)), dataset.encoding
    )
    model = BUILDERS[config.model](config, gather(crosses), 1)
    path = member_path(run.directory, 0)
    tf.train.Checkpoint(model=model).read(path).assert_existing_objects_matched()
    return model, crosses


def light_regression(light: Light, config: Config, facts: Facts) -> LogisticRegression:
    """A light model as one that can be evaluated like any other.

    Args:
        light: The light model.
        config: The configuration of its run.
        facts: What is known of the dataset, with the crosses of the light model.
    """
    model = build_lr(config, facts, penalties=[Penalty(0.0, 0.0)])
    model.table.values.assign(light.weights[:, None])
    model.bias.assign([light.bias])
    return model


def _load_light(run: Run, dataset: Dataset) -> Light:
    directory = storage.join(run.directory, LIGHT)
    light = Light.load(directory, dataset.encoding)
    if light is None:
        raise UserError(
            f"{directory}: is not complete; copy the run again, or fit again with --overwrite."
        )
    return light
