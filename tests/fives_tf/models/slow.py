"""What networks over embeddings are to compute, number by number, and slow gradients of it."""

import numpy as np
import tensorflow as tf

from fives_tf.training.optimizers import make_optimizer

FIELDS, VALUES, DIM, BATCH = 3, 2, 4, 4
FREQUENCY = np.tile([0.75, 0.25], FIELDS)
RATE = 0.5
STEP = 1e-6


def make_model(kind, **options):
    """A model with parameters large enough that every one matters, moved by plain descent."""
    groups = ("embedding", "network", "first_order", "gates")
    optimizers = {group: make_optimizer("sgd", RATE) for group in groups}
    options = {"dim": DIM, "jit": False} | options
    model = kind(FIELDS, FREQUENCY, BATCH, optimizers, **options)
    random = np.random.default_rng(1)
    for variable in model.trainable_variables:
        variable.assign(random.normal(size=variable.shape))
    return model


def make_batch(seed):
    random = np.random.default_rng(seed)
    ids = random.integers(VALUES, size=(BATCH, FIELDS)) + VALUES * np.arange(FIELDS)
    return ids.astype(np.int32), np.resize([1, 0, 0], BATCH).astype(np.float32)


def train(model, seed=2):
    return model.train_step(tuple(map(tf.constant, make_batch(seed))))


def parameters(model):
    """All parameters by name: `table`, `weights` if the model has any, and those of the network."""
    variables = {"table": model.embedding.values, **model.network}
    if model.first_order is not None:
        variables["weights"] = model.first_order.values
    return {name: variable.numpy().astype(np.float64) for name, variable in variables.items()}


def slow_logits(logit, values, ids, **options):
    """The logits of all rows; `logit` gives that of nodes, as lists of numbers."""
    found = logit(values, [[values["table"][one] for one in row] for row in ids], **options)
    for number, row in enumerate(ids):
        found[number] += values["bias"][0]
        if "weights" in values:
            found[number] += sum(values["weights"][one, 0] for one in row)
    return found


def slow_loss(logit, values, ids, label, l2=0.0, first_order_l2=0.0):
    """The mean cross-entropy, and half of the penalties' strengths times the squares."""
    loss = 0.0
    for z, y in zip(slow_logits(logit, values, ids, training=True), label, strict=True):
        loss += (np.log1p(np.exp(z)) - y * z) / len(ids)
    for name, strength in (("table", l2), ("weights", first_order_l2)):
        if strength:
            for one in ids.ravel():
                squares = (values[name][one] ** 2).sum()
                loss += strength / 2 * squares / (BATCH * FREQUENCY[one])
    return loss


def slow_gradients(logit, values, *args):
    """The gradient of the loss by each parameter, by finite differences."""
    gradients = {name: np.zeros_like(value) for name, value in values.items()}
    for name, value in values.items():
        for place in np.ndindex(*value.shape):
            before = value[place]
            value[place] = before + STEP
            above = slow_loss(logit, values, *args)
            value[place] = before - STEP
            below = slow_loss(logit, values, *args)
            value[place] = before
            gradients[name][place] = (above - below) / (2 * STEP)
    return gradients


def hidden(values, row):
    """Rectified layers over the nodes of a row side by side, and a projection."""
    inputs = [number for node in row for number in node]
    layer = 0
    while f"kernel_{layer}" in values:
        kernel, outputs = values[f"kernel_{layer}"], []
        last = f"bias_{layer}" not in values
        for unit in range(kernel.shape[1]):
            total = 0.0 if last else values[f"bias_{layer}"][unit]
            for place, value in enumerate(inputs):
                total += value * kernel[place, unit]
            outputs.append(total if last else max(total, 0.0))
        inputs, layer = outputs, layer + 1
    [logit] = inputs
    return logit


def dnn(values, nodes, training=False):
    return [hidden(values, row) for row in nodes]


def fm(values, nodes, training=False):
    return [
        sum(row[i] @ row[j] for i in range(FIELDS) for j in range(i + 1, FIELDS)) for row in nodes
    ]


def attend(query, key, value, heads):
    """What self-attention makes of the nodes of a row."""
    own = len(query[0]) // heads
    outputs = []
    for i in range(len(query)):
        parts = []
        for head in range(heads):
            part = slice(head * own, (head + 1) * own)
            scores = [np.exp(query[i][part] @ one[part] / np.sqrt(own)) for one in key]
            mean = sum(s * one[part] for s, one in zip(scores, value, strict=True)) / sum(scores)
            parts.extend(mean)
        outputs.append(np.array(parts))
    return outputs


def attention_block(values, row, layer, heads):
    """A block of AutoInt on the nodes of a row."""

    def project(name):
        kernel, bias = values[f"{name}_{layer}"], values[f"{name}_bias_{layer}"]
        return [np.maximum(node @ kernel + bias, 0.0) for node in row]

    attended = attend(*map(project, ("query", "key", "value")), heads)
    outputs = []
    for one, residual in zip(attended, project("residual"), strict=True):
        joined = np.maximum(one + residual, 0.0)
        normal = (joined - joined.mean()) / np.sqrt(joined.var() + 1e-8)
        outputs.append(normal * values[f"scale_{layer}"] + values[f"shift_{layer}"])
    return outputs


def autoint(values, nodes, training=False, layers=2, heads=2):
    logits = []
    for row in nodes:
        for layer in range(layers):
            row = attention_block(values, row, layer, heads)
        logits.append(np.concatenate(row) @ values["readout"][:, 0])
    return logits


def fignn(values, nodes, training=False, steps=2, heads=2):
    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    logits = []
    for row in nodes:
        projected = ([node @ values[name] for node in row] for name in ("query", "key", "value"))
        first = state = [np.maximum(one, 0.0) for one in attend(*projected, heads)]
        edges = np.zeros((FIELDS, FIELDS))
        for i in range(FIELDS):
            for j in range(FIELDS):
                if i != j:
                    u = np.concatenate([values["edge_to"][:, 0], values["edge_from"][:, 0]])
                    score = u @ np.concatenate([first[i], first[j]])
                    edges[i, j] = np.exp(score if score > 0 else 0.01 * score)
            edges[i] /= edges[i].sum()
        for _ in range(steps):
            after = []
            for i in range(FIELDS):
                sent = sum(edges[i, j] * state[j] @ values["outward"][j] for j in range(FIELDS))
                taken = sent @ values["inward"][i] + values["inward_bias"]

                def gate(name, own, taken=taken):
                    from_input = taken @ values[f"{name}_input"]
                    return from_input + own @ values[f"{name}_state"] + values[f"{name}_bias"]

                update, reset = sigmoid(gate("update", state[i])), sigmoid(gate("reset", state[i]))
                candidate = np.tanh(gate("candidate", reset * state[i]))
                after.append((1 - update) * state[i] + update * candidate + first[i])
            state = after
        weights = sigmoid(np.concatenate(state) @ values["weight"])
        logits.append(sum(weights[i] * (state[i] @ values["score"][:, 0]) for i in range(FIELDS)))
    return logits


def autofis(values, nodes, training=False, kept=None):
    """In training by mean and variance of the batch; before any step, mean 0 and variance 1."""
    pairs = [(i, j) for i in range(FIELDS) for j in range(i + 1, FIELDS)]
    products = np.array([[row[i] @ row[j] for i, j in pairs] for row in nodes])
    mean, variance = np.zeros(len(pairs)), np.ones(len(pairs))
    if training:
        mean, variance = products.mean(axis=0), products.var(axis=0)
    logits = []
    for row, own in zip(nodes, products, strict=True):
        logit = hidden(values, row)
        for place in range(len(pairs)):
            if kept is None or kept[place]:
                normal = (own[place] - mean[place]) / np.sqrt(variance[place] + 1e-3)
                logit += values["gates"][place] * normal
        logits.append(logit)
    return logits
