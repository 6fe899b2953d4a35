"""What the tasks of this program need: packages and other programs."""

from fives_tf.doctor.packages import Package
from fives_tf.doctor.programs import Program

_INSTALL = "pip install fives-tf"

TENSORFLOW = Package("tensorflow", "tensorflow", "learning and predicting", _INSTALL)
CORE = (
    TENSORFLOW,
    Package("apache-beam", "apache_beam", "`fives preprocess`, and work on clusters", _INSTALL),
    Package("pyarrow", "pyarrow", "reading logs, and files at stores", _INSTALL),
)
# What the commands import, so that no package that they need is forgotten here.
PARTS = tuple(
    Package(module, module, "everything", f"{_INSTALL}, into an environment of its own")
    for module in (
        "fives_tf.infer",
        "fives_tf.search",
        "fives_tf.fit",
        "fives_tf.serving.versions",
        "pipelines.preprocess",
        "pipelines.predict",
    )
)
TENSORFLOW_IO = Package(
    "tensorflow-io",
    "tensorflow_io",
    "training on datasets at s3:// and hdfs://; preprocessing and gs:// do without",
    "it works with TensorFlow 2.16 and Python up to 3.12; otherwise copy datasets to a disk",
)
SERVING_API = Package(
    "tensorflow-serving-api",
    "tensorflow_serving.apis.prediction_log_pb2",
    "warm-up requests in exports, and the gRPC client",
    "pip install 'fives-tf[serving]'",
)
PIP = Package(
    "pip",
    "pip",
    "the jars of Flink, once, for `fives launch flink-local`",
    "python -m ensurepip",
)
SKLEARN = (
    Package(
        "scikit-learn",
        "sklearn",
        "`fives_tf.sklearn`: FivesCrosses and FivesClassifier",
        "pip install 'fives-tf[sklearn]'",
    ),
)
BENCH = tuple(
    Package(name, module, use, "pip install 'fives-tf[bench]'")
    for name, module, use in (
        ("scipy", "scipy.stats", "`fives bench`"),
        ("matplotlib", "matplotlib.figure", "`fives bench`, its plots"),
        ("pandas", "pandas", "`fives bench`, the row of CatBoost"),
        ("scikit-learn", "sklearn", "`fives bench`, rows of LightGBM and XGBoost"),
        ("lightgbm", "lightgbm", "`fives bench`, a row of its tables"),
        ("catboost", "catboost", "`fives bench`, a row of its tables"),
        ("xgboost", "xgboost", "`fives bench`, a row of its tables"),
    )
)

PROGRAMS = (
    Program(
        "Java",
        ("java", "-version"),
        r'version "([^"]+)"',
        "`fives launch flink-local`, the runners for Flink and Spark, and hdfs://",
        "install a Java runtime 17",
    ),
    Program(
        "Maven",
        ("mvn", "--version"),
        r"Apache Maven ([\w.-]+)",
        "the job server of Beam's runner for Flink, once",
        "install Maven, or give --flink_job_server_jar",
    ),
    Program(
        "Docker client",
        ("docker", "--version"),
        r"version ([^\s,]+)",
        "images for `fives launch k8s` and for workers on a cluster",
        "install Docker",
    ),
    Program(
        "Docker engine",
        ("docker", "version", "--format", "{{.Server.Version}}"),
        r"^(\d\S*)\s*$",
        "building those images, and the server of launch/serving",
        "start the engine, or set DOCKER_HOST",
        shows_path=False,
    ),
    Program(
        "Docker Compose",
        ("docker", "compose", "version"),
        r"version v?(\d\S*)",
        "the server of launch/serving on one machine; needs the Docker engine too",
        "install Docker with its Compose plugin",
        shows_path=False,
    ),
    Program(
        "kubectl",
        ("kubectl", "version", "--client"),
        r'(v\d[^\s",]*)',
        "`fives launch k8s`; --dry_run does without",
        "install kubectl",
    ),
    Program(
        "Kubernetes",
        ("kubectl", "version", "--request-timeout=3s"),
        r"Server Version: (\S+)",
        "`fives launch k8s`: the cluster that kubectl is set up for",
        "set up access to a cluster",
        shows_path=False,
    ),
    Program(
        "sbatch",
        ("sbatch", "--version"),
        r"(\d\S*)",
        "`fives launch slurm`; --dry_run does without",
        "log in to a machine of the Slurm cluster",
    ),
    Program(
        "tensorflow_model_server",
        ("tensorflow_model_server", "--version"),
        r"ModelServer: (\S+)",
        "serving exports without Docker",
        "install TensorFlow Serving, or use its image by docker compose",
    ),
)
