"""The models of a finished run, to predict with."""

import dataclasses

import tensorflow as tf

from fives_tf import storage
from fives_tf.cross_encoding import CrossEncoding
from fives_tf.crosses import Cross, by_gain, with_figures
from fives_tf.dataset import Dataset
from fives_tf.encoding import Encoding
from fives_tf.errors import UserError
from fives_tf.fitted import load_fitted
from fives_tf.learning import CROSSES
from fives_tf.light import STAGES, Light
from fives_tf.models.base import ClickModel
from fives_tf.models.build import Facts, build_fives
from fives_tf.run import FIT, LIGHT, LOCK, Run
from fives_tf.search import open_source
from fives_tf.training.crossing import Crossing


def load_models(
    run: Run,
    dataset: Dataset,
    xla: bool | None = None,
    crosses: CrossEncoding | None = None,
) -> list[ClickModel]:
    """The models that a run ended with; their mean is the prediction.

    Args:
        run: A run that is complete.
        dataset: Its dataset.
        xla: Whether to compile them; as the run did unless set.
        crosses: What `weighed_crosses` gives, if the caller has it already.
    """
    if run.kind == FIT:
        return [load_fitted(run, dataset, xla)[0]]
    config, edges = run.config, run.adjacency.binary
    if xla is not None:
        config = dataclasses.replace(config, xla=xla)
    forms = run.manifest["forms"]
    facts = {form: Facts.of(dataset, config.of_form(form)) for form in set(forms)}
    if CROSSES in forms:
        crosses = crosses or weighed_crosses(run, dataset.encoding)
        facts[CROSSES] = facts[CROSSES].with_crosses(crosses)
    given = None if config.after == "nothing" else edges
    models = []
    for path, form in zip(run.member_paths(), forms, strict=True):
        model = build_fives(config.of_form(form), facts[form], edges=given)
        tf.train.Checkpoint(model=model).read(path).assert_existing_objects_matched()
        models.append(model)
    return models


def weighed_crosses(run: Run, encoding: Encoding) -> CrossEncoding | None:
    """The crosses that models of a run have weights for; None if none of them has."""
    if CROSSES not in run.manifest["forms"]:
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
    if run.kind == FIT and config.model != "lr":
        raise UserError(
            f"{run.directory}: is a fit of {config.model}, and has no light model; leave --light "
            "out, or fit one with `fives fit --model lr`."
        )
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


def ranked_crosses(run: Run, dataset: Dataset | None = None) -> list[Cross]:
    """The crosses of a run that were ranked, the greatest gain first.

    The search ranks them if its form has weights for single crosses. If not, they are ranked when
    it is asked for first, and the run keeps their gains.

    Args:
        run: A run that is complete.
        dataset: Its dataset; opened where the run says unless given, and only if it is needed.
    """
    if not _are_ranked(run.crosses):
        dataset = dataset or run.dataset()
        with storage.lock(storage.join(run.directory, LOCK)):
            rank_crosses(run, dataset, run.config.skip_corrupt)
    return by_gain(run.crosses)


def rank_crosses(run: Run, dataset: Dataset, skip_corrupt: bool) -> None:
    """Ranks the crosses of a run if that is not done yet; to be called with its lock held.

    Args:
        run: A run that is complete.
        dataset: Its dataset.
        skip_corrupt: Whether to leave out shards that hold a corrupt record.
    """
    crosses, config = run.crosses, run.config
    if _are_ranked(crosses):
        return
    source = open_source(dataset, config.memory, skip_corrupt)
    facts, stages = Facts.of(dataset, config), storage.join(run.directory, LIGHT, STAGES)
    crossing = Crossing(config, facts, dataset.encoding, source, stages)
    run.write_crosses(with_figures(crosses, crossing.rank(crosses)))
    storage.remove(stages)


def _are_ranked(crosses: list[Cross]) -> bool:
    return not crosses or any(cross.gain is not None for cross in crosses)
