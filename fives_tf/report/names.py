"""The values of ids as people read them."""

from fives_tf.encoding import FIRST_VALUE, MISSING, RARE, BucketField, Field, VocabularyField

_LONGEST = 60  # signs of a value


def value_name(field: Field, identity: int) -> str:
    """What the rows with an id of a field have there.

    Args:
        field: The field.
        identity: The id within the field.
    """
    if identity == MISSING:
        return "(missing)"
    if identity == RARE:
        return "(rare)"
    if isinstance(field, VocabularyField):
        text = field.values[identity - FIRST_VALUE].as_py().decode("utf-8", "replace")
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    if isinstance(field, BucketField):
        return field.bucket_name(identity)
    return f"(hash {identity - FIRST_VALUE})"
