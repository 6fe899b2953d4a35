"""One model a file, all with the interface of `fives_tf.models.base`."""
