"""The documents for Kubernetes: valid, complete, and as in the examples."""

import json
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fives_tf.errors import UserError
from launch import cluster
from launch.kubernetes import USER, Job, Volume, documents, render

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "launch/k8s").glob("*.yaml"))
# The oldest with all that is used, and the newest.
VERSIONS = ["1.31.0", kubernetes_validate.latest_version()]


def job(**changes: object) -> Job:
    arguments = ["--dataset", "/data/dataset", "--run", "/runs/run"]
    return Job(**{"name": "clicks", "image": "fives-tf", "arguments": arguments, **changes})


def pod(**changes: object) -> dict:
    return documents(job(**changes))[-1]["spec"]["template"]["spec"]


def container(**changes: object) -> dict:
    return pod(**changes)["containers"][0]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_are_what_their_commands_print(path, cli, read_example):
    command, expected = read_example(path)
    done = cli(*command[1:])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == expected, f"write {path.name} anew"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("nodes", [1, 2, 9])
@pytest.mark.parametrize("gpus", [0, 4])
def test_the_documents_fit_the_schemas_of_kubernetes(version, nodes, gpus):
    volumes = [Volume("data", "/data", read_only=True), Volume("runs", "/runs")]
    shape = {"nodes": nodes, "gpus": gpus, "volumes": volumes}
    one = job(**shape, namespace="ads", env_secret="store")
    for document in yaml.safe_load_all(render(one)):
        kubernetes_validate.validate(document, version, strict=True)
    worker = documents(job(**shape, kind="tfjob"))[0]["spec"]["tfReplicaSpecs"]["Worker"]
    as_pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, **worker["template"]}
    kubernetes_validate.validate(as_pod, version, strict=True)


def test_the_schemas_are_able_to_refuse():
    document = documents(job())[0]
    document["spec"]["template"]["spec"]["subdomian"] = "clicks"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, VERSIONS[0], strict=True)


def test_one_node_is_a_job_without_a_cluster():
    [document] = documents(job())
    assert (document["apiVersion"], document["kind"]) == ("batch/v1", "Job")
    assert "completionMode" not in document["spec"]
    assert container()["command"] == ["python", "-m", "launch.train_job"]


def test_several_nodes_find_each_other_by_the_names_that_kubernetes_gives_them():
    service, several = documents(job(nodes=3))
    spec = several["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 3, 3)
    template = spec["template"]
    assert template["spec"]["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    [one] = template["spec"]["containers"]
    assert one["ports"][0]["containerPort"] == service["spec"]["ports"][0]["port"]
    environ = {item["name"]: item["value"] for item in one["env"]}
    config = cluster.from_kubernetes({**environ, "JOB_COMPLETION_INDEX": "2"})
    hosts = [f"{several['metadata']['name']}-{i}.{service['metadata']['name']}" for i in range(3)]
    assert config == cluster.tf_config(hosts, 2, 2222)
    assert one["command"][:5] == ["python", "-m", "launch.cluster", "kubernetes", "--"]


def test_a_tfjob_has_what_its_operator_looks_for():
    [document] = documents(job(kind="tfjob", nodes=2))
    assert (document["apiVersion"], document["kind"]) == ("kubeflow.org/v1", "TFJob")
    assert set(document["spec"]) == {"runPolicy", "tfReplicaSpecs"}
    assert set(document["spec"]["runPolicy"]) == {"backoffLimit", "cleanPodPolicy"}
    [(kind, worker)] = document["spec"]["tfReplicaSpecs"].items()
    assert (kind, set(worker)) == ("Worker", {"replicas", "restartPolicy", "template"})
    assert (worker["replicas"], worker["restartPolicy"]) == (2, "ExitCode")
    [one] = worker["template"]["spec"]["containers"]
    assert one["name"] == "tensorflow"
    assert one["ports"] == [{"name": "tfjob-port", "containerPort": 2222}]
    assert one["command"] == ["python", "-m", "launch.train_job"]
    assert "env" not in one


def test_a_pod_has_what_it_asked_for_and_no_rights_beyond():
    one = container(gpus=4, cpu="16", memory="64Gi", env_secret="store")
    amounts = {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "4"}
    assert one["resources"] == {"requests": amounts, "limits": amounts}
    assert one["envFrom"] == [{"secretRef": {"name": "store"}}]
    assert one["args"][:2] == ["--gpus", "4"], "the job looks for its GPUs first"
    assert not one["securityContext"]["allowPrivilegeEscalation"]
    shape = pod(shm="3Gi")
    assert shape["securityContext"]["runAsNonRoot"]
    assert shape["volumes"][0]["emptyDir"] == {"medium": "Memory", "sizeLimit": "3Gi"}
    assert {"name": "shm", "mountPath": "/dev/shm"} in one["volumeMounts"]
    assert "nvidia.com/gpu" not in container(gpus=0)["resources"]["limits"]
    assert "--gpus" not in container(gpus=0)["args"]


def test_the_user_is_that_of_the_image():
    assert f"USER {USER}:{USER}\n" in (ROOT / "Dockerfile").read_text()


def test_a_mistake_of_the_user_is_final_and_a_drained_node_or_a_lost_worker_is_not():
    spec = documents(job(nodes=2, retries=3))[1]["spec"]
    final, lost, drained = spec["podFailurePolicy"]["rules"]
    assert (final["action"], final["onExitCodes"]["values"]) == ("FailJob", [2])
    assert (lost["action"], lost["onExitCodes"]["values"]) == ("Ignore", [138])
    for rule in (final, lost):
        assert rule["onExitCodes"]["containerName"] == container()["name"]
    assert drained["action"] == "Ignore"
    assert drained["onPodConditions"][0]["type"] == "DisruptionTarget"
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    assert spec["backoffLimit"] == 3


@settings(deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]))))
def test_any_argument_reaches_the_job_as_it_is(arguments):
    [document] = yaml.safe_load_all(render(job(gpus=0, arguments=arguments)))
    found = document["spec"]["template"]["spec"]["containers"][0]["args"]
    assert [text.replace("$$", "$") for text in found] == arguments


@pytest.mark.parametrize(
    "text", ["a\nkind: Pod", "---", "# no", "1e3", "0x1f", "on", "n", "~", "'"]
)
def test_a_text_that_yaml_might_take_for_something_else_stays_a_text(text):
    rendered = render(job(gpus=0, arguments=["--run", text]))
    [document] = yaml.safe_load_all(rendered)
    assert document["spec"]["template"]["spec"]["containers"][0]["args"] == ["--run", text]
    if "\n" not in text:
        assert f"- '{text.replace(chr(39), chr(39) * 2)}'\n" in rendered or f'"{text}"' in rendered


def test_kubernetes_puts_no_variables_into_arguments():
    assert container(gpus=0, arguments=["$(HOME) $x $$"])["args"] == ["$$(HOME) $$x $$$$"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "Clicks"}, "--name: expected small letters, digits and -"),
        ({"name": "a\nb: c"}, "--name: expected small letters, digits and -"),
        ({"name": "clicks\n"}, "--name: expected small letters, digits and -"),
        ({"name": "c" * 51}, "--name: expected at most 50 characters."),
        ({"image": "fives tf"}, "--image: expected the name of an image"),
        ({"cpu": "many"}, "--cpu: expected a quantity such as 8, 500m or 32Gi. Received: 'many'."),
        ({"memory": "32GB"}, "--memory: expected a quantity"),
        ({"shm": ""}, "--shm: expected a quantity"),
        ({"namespace": "a_b"}, "--namespace: expected small letters"),
        ({"env_secret": "A"}, "--env_secret: expected the name of a secret"),
        ({"nodes": 0}, "--nodes: expected a whole number from 1. Received: 0."),
        ({"gpus": -1}, "--gpus: expected a whole number from 0. Received: -1."),
        ({"retries": -1}, "--retries: expected a whole number from 0."),
        ({"volumes": [Volume("a", "/d"), Volume("b", "/d")]}, "--volume: expected a path of its"),
        ({"volumes": [Volume("a", "/dev/shm")]}, "--volume: expected a path of its own"),
    ],
)
def test_what_kubernetes_would_refuse_is_refused_first(changes, message):
    with pytest.raises(UserError) as error:
        job(**changes)
    assert message in str(error.value)


def test_volumes_are_read_from_flags():
    assert Volume.parse("clicks-data:/data:ro") == Volume("clicks-data", "/data", True)
    assert Volume.parse("runs:/runs") == Volume("runs", "/runs")
    for text in ("runs", "runs:data", ":/data", "runs:/data:rw", "runs:/a b", "runs:/a\n"):
        with pytest.raises(UserError, match="--volume: expected CLAIM:PATH"):
            Volume.parse(text)


class TestSubmission:
    FLAGS = ("launch", "k8s", "--name=clicks", "--image=fives-tf")
    JOB = ("--", "--dataset", "/data", "--run", "/runs/run", "--epochs=2")

    def test_without_dry_run_kubectl_gets_the_documents(self, cli, fake):
        kept = fake("kubectl")
        printed = cli(*self.FLAGS, "--dry_run", *self.JOB).stdout
        assert not kept.exists()
        assert "--epochs=2" in printed
        assert cli(*self.FLAGS, *self.JOB).returncode == 0
        assert kept.read_text() == f"apply -f -\n{printed}"

    def test_a_refusal_of_kubectl_is_told(self, cli, fake):
        fake("kubectl", code=7)
        done = cli(*self.FLAGS, *self.JOB)
        assert done.returncode == 2
        assert "kubectl apply -f -: failed with exit code 7" in done.stderr

    def test_without_kubectl_the_way_out_is_told(self, cli, no_programs):
        done = cli(*self.FLAGS, *self.JOB)
        assert done.returncode == 2
        assert "kubectl: is not installed here" in done.stderr
        assert "--dry_run" in done.stderr

    def test_a_job_with_wrong_arguments_is_not_submitted(self, cli, fake):
        kept = fake("kubectl")
        done = cli(*self.FLAGS, *self.JOB, "--epoch=2")
        assert done.returncode == 2
        assert "unrecognized arguments: --epoch=2" in done.stderr
        assert not kept.exists()


def test_a_job_is_rendered_without_tensorflow(read_example):
    command, _ = read_example(EXAMPLES[0])
    program = (
        f"import sys; sys.argv = {command!r}\n"
        "from fives_tf.cli import main\n"
        "try:\n    main()\nfinally:\n"
        "    print(sorted({'tensorflow', 'apache_beam'} & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "[]\n")


def test_the_documents_are_plain_data():
    for document in documents(job(nodes=2)):
        assert json.loads(json.dumps(document)) == document
