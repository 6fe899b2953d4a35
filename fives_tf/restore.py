"""The models of a finished run, to predict with."""

import dataclasses

import tensorflow as tf

from fives_tf import storage
from fives_tf.cross_encoding import CrossEncoding
from fives_tf.dataset import Dataset
from fives_tf.encoding import Encoding
from fives_tf.errors import UserError
from fives_tf.light import STAGES, Light
from fives_tf.models.build import Facts, build_fives
from fives_tf.models.fives import FivesModel
from fives_tf.run import LIGHT, LOCK, Run
from fives_tf.search import open_source
from fives_tf.training.crossing import Crossing


def load_models(
    run: Run,
    dataset: Dataset,
    xla: bool | None = None,
    crosses: CrossEncoding | None = None,
) -> list[FivesModel]:
    """The models that a run ended with; their mean is the prediction.

    Args:
        run: A run that is complete.
        dataset: Its dataset.
        xla: Whether to compile them; as the run did unless set.
        crosses: What `weighed_crosses` gives, if the caller has it already.
    """
    config, edges = run.config, run.adjacency.binary
    if xla is not None:
        config = dataclasses.replace(config, xla=xla)
    plain = weighed = Facts.of(dataset, config)
    crosses = crosses or weighed_crosses(run, dataset.encoding)
    if crosses is not None:
        weighed = plain.with_crosses(crosses)
    given = None if config.after == "nothing" else edges
    models = []
    for path, weighs in zip(run.member_paths(), run.manifest["weighs_crosses"], strict=True):
        model = build_fives(config, weighed if weighs else plain, edges=given)
        tf.train.Checkpoint(model=model).read(path).assert_existing_objects_matched()
        models.append(model)
    return models


def weighed_crosses(run: Run, encoding: Encoding) -> CrossEncoding | None:
    """The crosses that models of a run have weights for; None if none of them has."""
    if not any(run.manifest["weighs_crosses"]):
        return None
    directory = storage.join(run.directory, LIGHT)
    light = Light.load(directory, encoding)
    if light is None:
        raise UserError(
            f"{directory}: is not complete, and the models of the run need its crosses; copy the "
            "run again, or search again with --overwrite."
        )
    return light.crosses


def light_model(run: Run, dataset: Dataset) -> Light:
    """The light model of a run, which is learned when it is asked for first.

    A learning that was stopped goes on from its last checkpoint. It takes one device: the other
    workers of a job, if there are any, are not asked.
    """
    directory, encoding, config = storage.join(run.directory, LIGHT), dataset.encoding, run.config
    found = Light.load(directory, encoding)
    if found is not None:
        return found
    stages = storage.join(directory, STAGES)
    with storage.lock(storage.join(run.directory, LOCK)):
        source = open_source(dataset, config.memory, config.skip_corrupt)
        crossing = Crossing(config, Facts.of(dataset, config), encoding, source, stages)
        crossed = crossing.choose(run.crosses)
        if config.refit:
            crossed = crossing.refit(crossed)
        light = Light.of(crossed)
        light.save(directory)
        storage.remove(stages)
    return light
