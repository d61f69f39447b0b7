"""Writes models of ai.onnx.ml's operators with random parameters, and what onnxruntime computes for them, into one compressed
archive of the layout that generate.py describes.

    pip install onnx==1.23.2 onnxruntime==1.32.0 zstandard
    python ml.py ml-onnxruntime-1.32.0.tar.zst
"""

import io
import sys
import tarfile

import numpy as np
import onnx
import onnxruntime
import zstandard
from onnx import TensorProto, helper, numpy_helper

TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]
F, I, S = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
rng = np.random.default_rng(7)
cases = []


def reals(*shape):
    return rng.normal(size=shape).astype(np.float32)


def case(name, op, inputs, outputs, version=1, **attributes):
    """inputs are arrays; outputs are (name, element type)."""
    node = helper.make_node(op, [f"x{i}" for i in range(len(inputs))], [n for n, _ in outputs], domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph(
        [node], name,
        [helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for i, x in enumerate(inputs)],
        [helper.make_tensor_value_info(n, t, None) for n, t in outputs])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)])
    feed = {f"x{i}": x for i, x in enumerate(inputs)}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    cases.append((name, model, inputs, session.run(None, feed)))


def labels(kind, n, ints="classlabels_int64s"):
    return {"classlabels_strings": [f"class {i}" for i in range(n)]} if kind == S else {ints: [10 * i + 3 for i in range(n)]}


def linear():
    for t in TRANSFORMS:
        for kind, n, rows in [(I, 3, 3), (S, 4, 4), (I, 2, 1), (S, 2, 1), (I, 2, 2)]:
            if t == "PROBIT":
                continue  # of numbers outside (0, 1); of one score onnxruntime leaves some unwritten
            coefficients, intercepts = reals(rows * 5), reals(rows)
            x = reals(6, 5)
            case(f"linear_classifier_{t.lower()}_{'strings' if kind == S else 'ints'}_{rows}_of_{n}", "LinearClassifier", [x], [("y", kind), ("z", F)],
                 coefficients=coefficients.tolist(), intercepts=intercepts.tolist(), post_transform=t, multi_class=int(rows > 1), **labels(kind, n, "classlabels_ints"))
        for targets in [1, 3]:
            if t == "PROBIT":
                continue
            case(f"linear_regressor_{t.lower()}_{targets}", "LinearRegressor", [reals(4, 5)], [("y", F)], coefficients=reals(targets * 5).tolist(),
                 intercepts=reals(targets).tolist(), post_transform=t, targets=targets)
    case("linear_classifier_int64_input", "LinearClassifier", [rng.integers(-3, 3, (4, 5))], [("y", I), ("z", F)], coefficients=reals(15).tolist(),
         intercepts=reals(3).tolist(), classlabels_ints=[0, 1, 2])


def tree(depth, features, first, modes, rows):
    """Appends a full tree to rows, depth levels of branches, and returns the number of its leaves."""
    count = 2**depth - 1
    for i in range(2 * count + 1):
        leaf = i >= count
        rows.append((first, i, int(rng.integers(features)), float(np.float32(rng.normal())), "LEAF" if leaf else str(rng.choice(modes)),
                     0 if leaf else 2 * i + 1, 0 if leaf else 2 * i + 2, int(rng.integers(2))))
    return [(first, i) for i in range(count, 2 * count + 1)]


def forest(trees, depth, features, modes):
    rows, leaves = [], []
    for t in range(trees):
        leaves += tree(depth, features, t, modes, rows)
    names = ["treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids", "missing_value_tracks_true"]
    return {f"nodes_{n}": list(c) for n, c in zip(names, zip(*rows))}, leaves


def trees():
    leq = ["BRANCH_LEQ"]
    all_modes = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
    with_nan = reals(8, 4)
    with_nan[2, 1] = with_nan[5, 3] = with_nan[6] = np.nan
    for modes, suffix in [(leq, ""), (all_modes, "_modes")]:
        for aggregate in ["SUM", "AVERAGE", "MIN", "MAX"]:
            for targets in [1, 3]:
                nodes, leaves = forest(4, 3, 4, modes)
                case(f"tree_regressor_{aggregate.lower()}_{targets}{suffix}", "TreeEnsembleRegressor", [with_nan], [("y", F)], aggregate_function=aggregate, n_targets=targets,
                     target_treeids=[t for t, _ in leaves], target_nodeids=[n for _, n in leaves], target_ids=[int(rng.integers(targets)) for _ in leaves],
                     target_weights=reals(len(leaves)).tolist(), base_values=reals(targets).tolist(), **nodes)
    for t in TRANSFORMS[:4]:
        nodes, leaves = forest(3, 2, 4, leq)
        case(f"tree_regressor_{t.lower()}", "TreeEnsembleRegressor", [reals(5, 4)], [("y", F)], n_targets=3, post_transform=t, target_treeids=[t for t, _ in leaves],
             target_nodeids=[n for _, n in leaves], target_ids=[int(rng.integers(3)) for _ in leaves], target_weights=reals(len(leaves)).tolist(), **nodes)
        nodes, leaves = forest(3, 2, 4, leq)
        case(f"tree_regressor_{t.lower()}_single", "TreeEnsembleRegressor", [reals(5, 4)], [("y", F)], n_targets=1, post_transform=t, target_treeids=[t for t, _ in leaves],
             target_nodeids=[n for _, n in leaves], target_ids=[0 for _ in leaves], target_weights=reals(len(leaves)).tolist(), **nodes)
        for kind, n in [(I, 3), (S, 4)]:
            for base in [False, True]:
                nodes, leaves = forest(5, 3, 4, leq)
                extra = {"base_values": reals(n).tolist()} if base else {}
                where = [(t_, n_, c) for t_, n_ in leaves for c in range(n)]
                case(f"tree_classifier_{t.lower()}_{n}{'_base' if base else ''}", "TreeEnsembleClassifier", [reals(7, 4)], [("y", kind), ("z", F)], post_transform=t,
                     class_treeids=[w[0] for w in where], class_nodeids=[w[1] for w in where], class_ids=[w[2] for w in where],
                     class_weights=reals(len(where)).tolist(), **extra, **nodes, **labels(kind, n))
        for positive in [False, True]:
            for base in [0, 1]:
                for kind in [I, S]:
                    nodes, leaves = forest(5, 3, 4, leq)
                    weights = reals(len(leaves))
                    if positive:
                        weights = np.abs(weights) / 5
                    extra = {"base_values": reals(base).tolist()} if base else {}
                    case(f"tree_classifier_binary_{t.lower()}_{'positive' if positive else 'mixed'}_{base}_{'strings' if kind == S else 'ints'}", "TreeEnsembleClassifier", [reals(7, 4)],
                         [("y", kind), ("z", F)], post_transform=t, class_treeids=[t_ for t_, _ in leaves], class_nodeids=[n_ for _, n_ in leaves], class_ids=[0 for _ in leaves],
                         class_weights=weights.tolist(), **extra, **nodes, **labels(kind, 2))


def two_labels():
    # The integers are 0 and 1, which onnxruntime returns where leaves vote for both labels, whatever classlabels_int64s are. Of one score,
    # it leaves the second number of a row unwritten where post_transform is PROBIT.
    for ids in [[0], [1], [0, 1]]:
        for positive in [False, True]:
            for bases in [0, 1, 2]:
                for t in TRANSFORMS:
                    if t == "PROBIT" and ids == [0]:
                        continue
                    nodes, leaves = forest(3, 2, 4, ["BRANCH_LEQ"])
                    where = [(t_, n_, c) for t_, n_ in leaves for c in ids]
                    weights = reals(len(where)) / 4
                    if positive:
                        weights = np.abs(weights)
                    extra = {"base_values": (reals(bases) / 2).tolist()} if bases else {}
                    names = {"classlabels_int64s": [0, 1]} if len(ids) == 2 else {"classlabels_strings": ["no", "yes"]}
                    case(f"tree_classifier_votes_{'_'.join(map(str, ids))}_{'positive' if positive else 'mixed'}_{bases}_{t.lower()}", "TreeEnsembleClassifier",
                         [reals(7, 4)], [("y", I if len(ids) == 2 else S), ("z", F)], version=3, post_transform=t, class_treeids=[w[0] for w in where],
                         class_nodeids=[w[1] for w in where], class_ids=[w[2] for w in where], class_weights=weights.tolist(), **extra, **nodes, **names)
    for t in TRANSFORMS[:4]:  # labels that no leaf votes for
        for bases in [0, 3]:
            nodes, leaves = forest(3, 2, 4, ["BRANCH_LEQ"])
            extra = {"base_values": reals(bases).tolist()} if bases else {}
            case(f"tree_classifier_unhit_{bases}_{t.lower()}", "TreeEnsembleClassifier", [reals(7, 4)], [("y", I), ("z", F)], version=3, post_transform=t,
                 class_treeids=[t_ for t_, _ in leaves], class_nodeids=[n_ for _, n_ in leaves], class_ids=[2 * (i % 2) for i in range(len(leaves))],
                 class_weights=reals(len(leaves)).tolist(), classlabels_int64s=[5, 6, 7], **extra, **nodes)


def vectors():
    for kernel, params in [("LINEAR", [0.3, 0.2, 2]), ("POLY", [0.3, 0.2, 3]), ("RBF", [0.3, 0.2, 2]), ("SIGMOID", [0.3, 0.2, 2])]:
        for t in TRANSFORMS[:4]:
            for per_class in [[3, 4], [2, 3, 4], [2, 2, 1, 3]]:
                n, total = len(per_class), sum(per_class)
                pairs = n * (n - 1) // 2
                for prob in [False, True]:
                    extra = {"prob_a": (-np.abs(reals(pairs))).tolist(), "prob_b": (reals(pairs) / 4).tolist()} if prob else {}
                    for kind in [I, S]:
                        case(f"svc_{kernel.lower()}_{t.lower()}_{n}{'_prob' if prob else ''}_{'strings' if kind == S else 'ints'}", "SVMClassifier", [reals(6, 3)], [("y", kind), ("z", F)],
                             kernel_type=kernel, kernel_params=params, post_transform=t, vectors_per_class=per_class, support_vectors=reals(total * 3).tolist(),
                             coefficients=reals((n - 1) * total).tolist(), rho=reals(pairs).tolist(), **extra, **labels(kind, n, "classlabels_ints"))
        case(f"svm_linear_{kernel.lower()}", "SVMClassifier", [reals(6, 3)], [("y", I), ("z", F)], kernel_type=kernel, kernel_params=params, coefficients=reals(4 * 3).tolist(),
             rho=reals(1).tolist(), classlabels_ints=[5, 6, 7, 8])
        case(f"svr_{kernel.lower()}", "SVMRegressor", [reals(6, 3)], [("y", F)], kernel_type=kernel, kernel_params=params, n_supports=4, support_vectors=reals(12).tolist(),
             coefficients=reals(4).tolist(), rho=reals(1).tolist())
        case(f"svr_one_class_{kernel.lower()}", "SVMRegressor", [reals(6, 3)], [("y", F)], kernel_type=kernel, kernel_params=params, n_supports=4, one_class=1,
             support_vectors=reals(12).tolist(), coefficients=reals(4).tolist(), rho=reals(1).tolist())
    case("svr_without_vectors", "SVMRegressor", [reals(6, 3)], [("y", F)], kernel_type="LINEAR", kernel_params=[0.3, 0.2, 2], coefficients=reals(3).tolist(), rho=reals(1).tolist())


def features():
    x = reals(3, 4)
    x[1] = 0
    for norm in ["MAX", "L1", "L2"]:
        case(f"normalizer_{norm.lower()}", "Normalizer", [x], [("y", F)], norm=norm)
        case(f"normalizer_{norm.lower()}_vector", "Normalizer", [reals(5)], [("y", F)], norm=norm)
        case(f"normalizer_{norm.lower()}_negative", "Normalizer", [np.float32([[-3, -1, -2], [-1, 0, -5], [np.nan, -1, -2]])], [("y", F)], norm=norm)
    case("normalizer_int64", "Normalizer", [rng.integers(-5, 5, (2, 3))], [("y", F)], norm="L1")
    case("scaler", "Scaler", [reals(3, 4)], [("y", F)], offset=reals(4).tolist(), scale=reals(4).tolist())
    case("scaler_one", "Scaler", [reals(3, 4)], [("y", F)], offset=[0.5], scale=[2.0])
    case("scaler_int64", "Scaler", [rng.integers(-5, 5, (2, 3))], [("y", F)], offset=[0.5], scale=[2.0])
    holes = reals(3, 4)
    holes[0, 1] = holes[2, 3] = np.nan
    case("imputer_nan", "Imputer", [holes], [("y", F)], imputed_value_floats=[1.0, 2.0, 3.0, 4.0], replaced_value_float=float("nan"))
    case("imputer_one", "Imputer", [holes], [("y", F)], imputed_value_floats=[7.0], replaced_value_float=float("nan"))
    case("imputer_value", "Imputer", [np.float32([[1, -9, 3], [-9, 2, -9]])], [("y", F)], imputed_value_floats=[1.0, 2.0, 3.0], replaced_value_float=-9.0)
    case("imputer_int64", "Imputer", [np.int64([[1, -9, 3], [-9, 2, -9]])], [("y", I)], imputed_value_int64s=[1, 2, 3], replaced_value_int64=-9)
    case("one_hot_strings", "OneHotEncoder", [np.array([["a", "b"], ["c", "d"]])], [("y", F)], cats_strings=["a", "c", "b"], zeros=1)
    case("one_hot_int64", "OneHotEncoder", [np.int64([[1, 2, 9], [3, 1, 2]])], [("y", F)], cats_int64s=[1, 2, 3], zeros=1)
    case("one_hot_vector", "OneHotEncoder", [np.int64([1, 2, 3])], [("y", F)], cats_int64s=[3, 2, 1], zeros=0)
    case("one_hot_float", "OneHotEncoder", [np.float32([1, 2, 3.5])], [("y", F)], cats_int64s=[3, 2, 1], zeros=1)
    case("feature_vectorizer", "FeatureVectorizer", [reals(3, 2), reals(3, 4), reals(3, 1)], [("y", F)], inputdimensions=[2, 4, 1])
    case("feature_vectorizer_cut", "FeatureVectorizer", [reals(3, 2), reals(3, 4)], [("y", F)], inputdimensions=[3, 2])
    case("feature_vectorizer_int64", "FeatureVectorizer", [rng.integers(-5, 5, (2, 3)), rng.integers(-5, 5, (2, 2))], [("y", F)], inputdimensions=[3, 2])
    case("category_mapper_strings", "CategoryMapper", [np.array([["a", "b"], ["x", "c"]])], [("y", I)], cats_strings=["a", "b", "c"], cats_int64s=[5, 6, 7], default_int64=-3)
    case("category_mapper_int64", "CategoryMapper", [np.int64([5, 9, 7])], [("y", S)], cats_strings=["a", "b", "c"], cats_int64s=[5, 6, 7], default_string="none")
    case("binarizer", "Binarizer", [reals(3, 4)], [("y", F)], threshold=0.25)
    case("array_feature_extractor", "ArrayFeatureExtractor", [reals(3, 4), np.int64([[2, 0, 2]])], [("y", F)])
    case("array_feature_extractor_strings", "ArrayFeatureExtractor", [np.array([["a", "b"], ["c", "d"]]), np.int64([1])], [("y", S)])
    case("label_encoder_1_strings", "LabelEncoder", [np.array(["b", "z", "a"])], [("y", I)], classes_strings=["a", "b"], default_int64=-7)
    case("label_encoder_1_int64", "LabelEncoder", [np.int64([1, 0, 5])], [("y", S)], classes_strings=["a", "b"], default_string="other")


def keys():
    x = np.float32([0, -0.0, np.nan, 1, 2, 7])
    for version in [2, 4]:
        for first in [0.0, -0.0]:
            listed = [first, np.nan, 1, 1, 2]
            sign = "minus" if np.signbit(first) else "plus"
            case(f"label_encoder_{version}_floats_{sign}_zero", "LabelEncoder", [x], [("y", S)], version=version, keys_floats=listed, values_strings=list("abcde"), default_string="no")
            case(f"label_encoder_{version}_to_floats_{sign}_zero", "LabelEncoder", [x], [("y", F)], version=version, keys_floats=listed, values_floats=[1.0, 2, 3, 4, 5], default_float=-9.0)
    doubles = np.array([-0.0, np.nan, 1, 1, 2])
    case("label_encoder_4_doubles", "LabelEncoder", [x.astype(np.float64)], [("y", I)], version=4, keys_tensor=numpy_helper.from_array(doubles),
         values_tensor=numpy_helper.from_array(np.arange(5)), default_tensor=numpy_helper.from_array(np.int64([-1])))
    case("label_encoder_1_repeated", "LabelEncoder", [np.array(["a", "b", "z"])], [("y", I)], classes_strings=list("abab"))
    case("category_mapper_repeated", "CategoryMapper", [np.array(["a", "b", "z"])], [("y", I)], cats_strings=list("aabb"), cats_int64s=[1, 2, 3, 3])
    case("category_mapper_repeated_int64", "CategoryMapper", [np.int64([1, 3, 9])], [("y", S)], cats_strings=list("aabb"), cats_int64s=[1, 2, 3, 3])
    case("one_hot_minus_zero", "OneHotEncoder", [np.float32([-0.0, 1])], [("y", F)], cats_int64s=[0, 1, 1], zeros=1)


linear()
trees()
vectors()
features()
two_labels()
keys()
with open(sys.argv[1], "wb") as f:
    with zstandard.ZstdCompressor(level=19).stream_writer(f) as z, tarfile.open(fileobj=z, mode="w|") as archive:
        for name, model, inputs, outputs in cases:
            files = {"model.onnx": model.SerializeToString()}
            for kind, values in [("input", inputs), ("output", outputs)]:
                for i, v in enumerate(values):
                    v = np.asarray(v)
                    if v.dtype.kind == "U":
                        v = v.astype(object)
                    files[f"test_data_set_0/{kind}_{i}.pb"] = numpy_helper.from_array(v).SerializeToString()
            for file, data in files.items():
                info = tarfile.TarInfo(f"node/{name}/{file}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
print(len(cases), "cases")
