"""After the search: which form of the network is kept, and that it predicts as it was learned."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

from fives_tf import search
from fives_tf.config import FORMS, PAPER, SearchConfig
from fives_tf.dataset import Dataset
from fives_tf.errors import UserError
from fives_tf.restore import light_model, load_models
from fives_tf.run import Run
from fives_tf.schema import Schema
from fives_tf.synth import SynthConfig, generate
from fives_tf.training import journal
from fives_tf.training.metrics import log_loss
from pipelines.preprocess import preprocess

FAST = {
    "order": 2,
    "dim": 4,
    "batch": 128,
    "lr_epochs": 4,
    "search_epochs": 1,
    "epochs": 2,
    "xla": False,
}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> Dataset:
    """A log in which a cross of two fields of many values decides, which weights learn best."""
    directory = tmp_path_factory.mktemp("planted")
    config = SynthConfig(rows=8_000, fields=4, numeric=1, plant=("C1 x C2",), max_values=12, seed=1)
    generate(config, directory / "log")
    schema = Schema.load(directory / "log" / "schema.yaml")
    return preprocess([str(directory / "log" / "log.csv")], schema, str(directory / "dataset"))


@pytest.fixture(scope="module")
def searched(dataset, tmp_path_factory):
    """Searches by their settings, each done once."""
    done = {}

    def get(**settings):
        key = tuple(sorted(settings.items()))
        if key not in done:
            directory = tmp_path_factory.mktemp("run") / "run"
            done[key] = search(dataset, directory, **FAST, **settings)
        return done[key]

    return get


def stages(result) -> list[str]:
    return list(dict.fromkeys(line["stage"] for line in journal.read(result.run.directory)))


def valid_loss(results, dataset: Dataset) -> float:
    """The log loss on valid of what runs left, as anyone who opens them computes it."""
    [(ids, label)] = dataset.read("valid", 10_000)
    models = [model for result in results for model in load_models(result.run, dataset)]
    probability = np.mean([model.probability(model.call(ids)) for model in models], axis=0)
    return log_loss(label.numpy(), probability)


@pytest.mark.parametrize("members", [1, 2])
def test_the_forms_that_are_best_on_valid_are_kept(searched, dataset, members):
    alone = {form: searched(form=form, refit=False, members=1) for form in FORMS}
    assert [result.run.manifest["forms"] for result in alone.values()] == [[one] for one in FORMS]
    losses = {form: result.evaluation["log_loss"] for form, result in alone.items()}
    assert losses["crosses"] < losses["table"], "the planted cross helps"
    ranked = sorted(losses, key=losses.get)
    together = {
        count: valid_loss([alone[form] for form in ranked[:count]], dataset) for count in (1, 2, 3)
    }
    best = min(together, key=together.get)
    result = searched(form="auto", refit=False, members=members)
    forms = result.run.manifest["forms"]
    assert len(forms) == len(load_models(result.run, dataset)) == max(members, best)
    assert forms == (ranked[:best] * 2)[: len(forms)]
    if members == 1:
        assert result.evaluation["log_loss"] == pytest.approx(together[best], abs=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_a_run_predicts_as_it_was_judged(searched, dataset, form):
    result = searched(form=form, refit=False, members=1)
    assert valid_loss([result], dataset) == pytest.approx(result.evaluation["log_loss"], abs=1e-6)


@pytest.fixture
def every_form(monkeypatch):
    """Lets all forms together be the best."""
    from fives_tf import learning

    def every(self, trials):
        return tuple(trials), self._evaluator.evaluate(*(model for model, _ in trials.values()))

    monkeypatch.setattr(learning.Learning, "_choose", every)


def test_several_forms_of_one_member_come_from_the_same_search(every_form, dataset, tmp_path):
    result = search(dataset, tmp_path / "run", **FAST)
    assert result.run.manifest["forms"] == ["crosses", "table", "graph"]
    done = set(stages(result))
    assert {"search", "search-graph", "refit-0", "refit-1", "refit-2"} <= done
    assert not {"search-1", "search-graph-1", "refit-3"} & done
    first, second, third = (model.edges.numpy() for model in load_models(result.run, dataset))
    np.testing.assert_array_equal(first, result.adjacency.binary)
    np.testing.assert_array_equal(first, second)
    assert (first != third).any(), "the graph alone has edges of its own"


def test_members_take_turns_if_all_forms_together_are_best(every_form, dataset, tmp_path):
    result = search(dataset, tmp_path / "run", **FAST, members=4)
    assert result.run.manifest["forms"] == ["crosses", "table", "graph", "crosses"]
    assert {"refit-crosses", "refit-lr", "refit-0", "refit-3"} <= set(stages(result))
    assert {"search-1", "search-graph", "search-graph-2", "search-3"} <= set(stages(result))
    light = light_model(result.run, dataset)
    first, second, third, fourth = load_models(result.run, dataset)
    fields = dataset.encoding.size
    sizes = [model.first_order.values.shape[0] for model in (first, second, fourth)]
    assert sizes == [fields + light.crosses.size, fields, fields + light.crosses.size]
    assert third.first_order is None
    assert third.embedding.values.shape[0] == fields > first.embedding.values.shape[0]
    assert light.crosses.size > 0


def test_the_refit_starts_from_crosses_counted_on_both_splits(searched, dataset):
    result = searched(form="crosses", members=1)
    assert stages(result)[-3:] == ["from_scratch-crosses", "refit-crosses", "refit-0"]
    field = light_model(result.run, dataset).crosses.fields[0]
    rows = dataset.split("train").rows + dataset.split("valid").rows
    assert field.missing_count + field.rare_count + field.counts.sum() == rows


def test_the_paper_and_finetuning_have_no_such_weights(dataset, searched, tmp_path):
    result = searched(after="finetune", members=1)
    assert result.run.manifest["forms"] == ["searched"]
    assert not any("crosses" in stage for stage in stages(result))
    paper = search(dataset, tmp_path / "run", paper=True, dim=4, batch=128, search_epochs=1)
    assert paper.run.manifest["forms"] == ["searched"]


def test_first_order_weights_of_crosses_count(searched, dataset):
    """A model with weights for crosses says something else if these weights are taken away."""
    result = searched(form="crosses", refit=False, members=1)
    [model] = load_models(result.run, dataset)
    [(ids, _)] = dataset.read("valid", 10_000)
    before = model.call(ids).numpy()
    crosses = light_model(result.run, dataset).crosses
    weights = model.first_order.values.numpy()[:, 0]
    lost = weights[crosses.encode(ids.numpy())].sum(axis=1)
    weights[dataset.encoding.size :] = 0
    model.first_order.values.assign(weights[:, None])
    np.testing.assert_allclose(before - model.call(ids).numpy(), lost[:, None] + [0, 0], atol=1e-4)
    assert tf.reduce_max(tf.abs(lost)) > 0.1


def test_a_run_that_lost_its_crosses_is_refused(searched, dataset, tmp_path):
    result = searched(form="crosses", refit=False, members=1)
    run = shutil.copytree(
        result.run.directory, tmp_path / "run", ignore=shutil.ignore_patterns("light")
    )
    with pytest.raises(UserError, match="light: is not complete, and the models of the run need"):
        load_models(Run.open(str(run)), dataset)


@pytest.mark.parametrize("other", [{"after": "finetune"}, {"first_order": False}])
@pytest.mark.parametrize("form", FORMS)
def test_a_form_that_cannot_be_is_refused(other, form):
    with pytest.raises(UserError, match=f"`form`: is for what is learned .* Received: {form}."):
        SearchConfig.make(form=form, **other)


def test_the_graph_alone_is_the_paper_s_network():
    default, paper = SearchConfig().of_form("graph"), SearchConfig.make(paper=True)
    same = PAPER.keys() - {"dim", "warm_start", "after"}
    for name in same:
        assert getattr(default, name) == pytest.approx(getattr(paper, name)), name


def test_an_unknown_choice_is_refused(dataset, tmp_path):
    with pytest.raises(UserError, match="`form`: expected one of auto, crosses, table, graph"):
        search(dataset, tmp_path / "run", form="any")
