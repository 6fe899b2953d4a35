"""The settings of a store, for those who read them."""

import pytest

from fives_tf.errors import UserError
from fives_tf.storage.settings import S3Settings


def test_amazon_needs_no_setting():
    settings = S3Settings.read({})
    assert settings == S3Settings(None, "us-east-1", None)
    assert settings.for_arrow(3)["endpoint_override"] is None
    assert "S3_ENDPOINT" not in settings.for_tensorflow()
    assert settings.for_both() == {}


@pytest.mark.parametrize(
    ("environment", "endpoint"),
    [
        ({"AWS_ENDPOINT_URL": "http://a:1"}, "http://a:1"),
        ({"AWS_ENDPOINT_URL": "http://a:1", "AWS_ENDPOINT_URL_S3": "https://b"}, "https://b"),
        ({"S3_ENDPOINT": "a:1"}, "https://a:1"),
        ({"S3_ENDPOINT": "a:1", "S3_USE_HTTPS": "0"}, "http://a:1"),
        ({"AWS_ENDPOINT_URL": ""}, None),
    ],
)
def test_the_endpoint_is_told_to_both_readers(environment, endpoint):
    settings = S3Settings.read(environment)
    assert settings.for_arrow(3)["endpoint_override"] == endpoint
    told = settings.for_tensorflow()
    assert told.get("S3_ENDPOINT") == endpoint
    if endpoint:
        assert told["S3_USE_HTTPS"] == ("1" if endpoint.startswith("https") else "0")
        assert settings.for_both() == {"AWS_EC2_METADATA_DISABLED": "true"}


def test_region_and_authority_are_told_to_both_readers():
    settings = S3Settings.read({"AWS_DEFAULT_REGION": "eu-west-1", "AWS_CA_BUNDLE": "ca.pem"})
    assert settings.for_arrow(3)["region"] == settings.for_tensorflow()["AWS_REGION"] == "eu-west-1"
    assert settings.for_arrow(3)["tls_ca_file_path"] == "ca.pem"
    assert settings.for_tensorflow()["S3_CA_FILE"] == "ca.pem"


def test_credentials_are_in_no_setting():
    secret = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hidden"}
    settings = S3Settings.read(secret)
    told = f"{settings} {settings.for_arrow(3)} {settings.for_tensorflow()} {settings.for_both()}"
    assert "hidden" not in told
    assert "'key'" not in told


def test_certificates_cannot_be_left_unchecked():
    with pytest.raises(UserError, match="S3_VERIFY_SSL: certificates are always checked"):
        S3Settings.read({"S3_VERIFY_SSL": "0"})
