"""A check of schemathesis: a body that the OpenAPI document allows is taken.

It replaces positive_data_acceptance, which cannot tell a body that is refused for its form from one that the served model cannot answer.
REASONS are the errors of the second kind: they depend on the model, its files, or on two fields together, which OpenAPI 3.0 cannot express.
"""
import re

import schemathesis

REASONS = [
    "unknown token",  # beyond the vocabulary
    "are requested, but the vectors of the model have",  # dimensions
    "the model has no prompt",
    "or the name of a prompt of the model",  # input_type
    "cannot do this",  # the model named was made for another task
    "is more than half of a window",  # stride
    "longer than the model's maximum length",
    r"has no \[MASK\]",
    "none of the",  # targets that are no words of the model
    "same setting",  # two names of one setting
    "instead of a prompt",
    "want exactly one of texts and inputs",
    "invalid stride",
    "the requested length is",
    "name no pooling",
    "but a reranker has one or two",
    "it has .* texts, but there are .* to compare them with",
    "it goes with one vector for each text",
    "is empty",  # a question of white space
    "has more elements than the maximum",
]

# Routes whose bodies the model decides: that of its own task, and its tensors.
UNDECIDED = ["/", "/v2/models/{model}/infer", "/v2/models/{model}/versions/{version}/infer"]


@schemathesis.check
def allowed_bodies_are_taken(ctx, response, case):
    meta = getattr(case, "meta", None)
    if meta is None or not meta.generation.mode.is_positive or response.status_code < 400 or response.status_code in (404, 429):
        return
    if case.operation.path in UNDECIDED:
        return
    text = response.text
    if not any(re.search(reason, text) for reason in REASONS):
        raise AssertionError(f"the document allows the body, but the answer is {response.status_code}: {text[:300]}")
