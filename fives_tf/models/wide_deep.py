"""Wide & Deep: a logistic regression and a DNN that learn together."""

from fives_tf.models.dnn import DNN


class WideDeep(DNN):
    """Wide & Deep (Cheng et al., DLRS 2016): the logit is the sum of both parts' logits.

    As in the paper FTRL moves the wide part, and another optimizer the deep one; but FTRL has an L2
    penalty where the paper's has L1, and the other is Adam where the paper's is AdaGrad. The wide
    part has the fields, and crosses only if they are given: those of the paper were chosen by hand.
    """

    has_first_order = True
    first_order_optimizer = "ftrl"
