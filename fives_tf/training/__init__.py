"""One way of training for every model."""
