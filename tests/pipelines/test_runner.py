import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import DirectOptions, StandardOptions

from fives_tf.errors import UserError
from pipelines import runner


def test_the_default_runs_in_this_process():
    options = runner.pipeline_options([], workers=3)
    assert options.view_as(StandardOptions).runner == "FnApiRunner"
    assert options.view_as(DirectOptions).direct_num_workers == 3
    assert options.view_as(DirectOptions).direct_running_mode == "multi_threading"
    assert runner.is_local(options)


def test_workers_can_be_processes():
    options = runner.pipeline_options([], workers=2, worker_kind="processes")
    assert options.view_as(DirectOptions).direct_running_mode == "multi_processing"


def test_a_named_runner_gets_its_flags():
    options = runner.pipeline_options(["--runner=FlinkRunner", "--flink_master=host:1"])
    assert options.view_as(StandardOptions).runner == "FlinkRunner"
    assert not runner.is_local(options)
    assert options.get_all_options()["flink_master"] == "host:1"


def test_only_a_runner_that_is_named_is_taken_from_the_flags():
    assert runner.named_runner([]) is None
    assert runner.named_runner(["--job_name=x"]) is None
    options = runner.named_runner(["--runner=FnApiRunner"])
    assert options.view_as(StandardOptions).runner == "FnApiRunner"
    with pytest.raises(UserError, match="--runner=NoRunner: "):
        runner.named_runner(["--runner=NoRunner"])


def test_a_flag_that_beam_does_not_know_is_refused():
    with pytest.raises(UserError, match="unknown flag --job_nam; did you mean `job_name`"):
        runner.pipeline_options(["--job_nam=x"])
    assert runner.pipeline_options(["--job_name=x"]).get_all_options()["job_name"] == "x"


def _fail(message):
    raise UserError(message)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_users_mistake_comes_back_from_the_workers(workers):
    def build(pipeline):
        _ = pipeline | beam.Create(["log.csv: is broken; mend it."]) | "Fail" >> beam.Map(_fail)

    with pytest.raises(UserError, match="^log.csv: is broken; mend it.$"):
        runner.run(runner.pipeline_options([], workers=workers), build)


def test_any_other_error_keeps_its_traceback():
    def build(pipeline):
        _ = pipeline | beam.Create([0]) | "Divide" >> beam.Map(lambda x: 1 / x)

    with pytest.raises(Exception, match="division by zero"):
        runner.run(runner.pipeline_options([], workers=1), build)


@pytest.mark.parametrize("more", [[], ["--runner=FlinkRunner"]])
def test_stores_have_no_flags(more):
    with pytest.raises(UserError) as error:
        runner.pipeline_options(["--s3_secret_access_key=hidden", *more])
    assert str(error.value).startswith("--s3_secret_access_key: a store is reached by environment")
    assert "hidden" not in str(error.value)
