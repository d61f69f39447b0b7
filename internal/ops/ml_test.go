package ops

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
)

// given are parameters by their names.
type given map[string]any

// with are these parameters with others in their place; nil takes one away.
func (g given) with(others given) given {
	g = maps.Clone(g)
	maps.Copy(g, others)
	return g
}

func (g given) model(read func(*reader) *rowModel) (*rowModel, error) {
	var attrs ir.Attrs
	for name, v := range g {
		if v != nil {
			attrs = append(attrs, ir.Attr{Name: name, Value: v})
		}
	}
	return prepare(attrs, 5, read)
}

var (
	twoMachines = given{"classlabels_ints": []int64{7, 8}, "vectors_per_class": []int64{1, 1}, "support_vectors": []float32{1, 2, 3, 4},
		"coefficients": []float32{1, -1}, "rho": []float32{0.5}}
	oneMachine = given{"n_supports": int64(2), "support_vectors": []float32{1, 2, 3, 4}, "coefficients": []float32{1, -2},
		"rho": []float32{0.5}}
	// Vectors 1, 2 and 3, and 4.
	threeMachines = given{"classlabels_ints": []int64{7, 8, 9}, "vectors_per_class": []int64{1, 2, 1},
		"support_vectors": []float32{1, 2, 3, 4}, "coefficients": []float32{1, 2, 3, 4, 5, 6, 7, -8}, "rho": []float32{0.5, -40, 0.25}}
	linearLabels = given{"classlabels_ints": []int64{7, 8}, "coefficients": []float32{1, 2, 3, 4}, "intercepts": []float32{0.5, -0.5}}
	linearSums   = given{"targets": int64(2), "coefficients": []float32{1, 2, 3, 4}, "intercepts": []float32{0.5, -0.5}}
	oneTree      = given{"nodes_treeids": []int64{0, 0, 0}, "nodes_nodeids": []int64{0, 1, 2}, "nodes_featureids": []int64{1, 0, 0},
		"nodes_truenodeids": []int64{1, 0, 0}, "nodes_falsenodeids": []int64{2, 0, 0},
		"nodes_modes":  []string{"BRANCH_LEQ", "LEAF", "LEAF"},
		"nodes_values": []float32{0.5, 0, 0}, "target_treeids": []int64{0, 0}, "target_nodeids": []int64{1, 2}, "target_ids": []int64{0, 0},
		"target_weights": []float32{10, 20}}
	treeLabels = given{"class_treeids": []int64{0, 0}, "class_nodeids": []int64{1, 2}, "class_ids": []int64{0, 1},
		"class_weights": []float32{10, 20}, "target_treeids": nil, "target_nodeids": nil, "target_ids": nil, "target_weights": nil,
		"classlabels_int64s": []int64{7, 8}}
)

// TestRowModels: what the classical models make of a row, and which label they find.
func TestRowModels(t *testing.T) {
	post := func(name string) given { return given{"post_transform": name} }
	for _, c := range []struct {
		name   string
		read   func(*reader) *rowModel
		params given
		x      []float64
		want   []float64
		label  int
	}{
		{"regression", svmRegressor{}.read, oneMachine, []float64{1, 1}, []float64{-10.5}, 0},
		{"regression of one class", svmRegressor{}.read, oneMachine.with(given{"one_class": int64(1)}), []float64{1, 1}, []float64{-1}, 0},
		{"regression of one class, above 0", svmRegressor{}.read, oneMachine.with(given{"one_class": int64(1)}), []float64{-1, 0},
			[]float64{1}, 0},
		{"regression without vectors", svmRegressor{}.read,
			oneMachine.with(given{"n_supports": nil, "support_vectors": nil, "kernel_type": "RBF", "kernel_params": []float32{1, 0, 0}}),
			[]float64{3, 1}, []float64{1.5}, 0},
		{"powers", svmRegressor{}.read, oneMachine.with(given{"kernel_type": "POLY", "kernel_params": []float32{0.5, 1, 2}}),
			[]float64{2, 1}, []float64{9 - 2*36 + 0.5}, 0},
		{"hyperbolic", svmRegressor{}.read, oneMachine.with(given{"kernel_type": "SIGMOID", "kernel_params": []float32{0.5, 1, 2}}),
			[]float64{-2, 1}, []float64{0.761594 + 0 + 0.5}, 0},
		{"radial", svmRegressor{}.read, oneMachine.with(given{"kernel_type": "RBF", "kernel_params": []float32{0.5, 0, 0}}),
			[]float64{1, 4}, []float64{0.135335*-1 + 0.5}, 0},
		{"two classes", svmClassifier{}.read, twoMachines, []float64{1, 1}, []float64{3.5, -3.5}, 1},
		{"two classes, the other", svmClassifier{}.read, twoMachines, []float64{-1, -1}, []float64{-4.5, 4.5}, 0},
		{"odds of two classes", svmClassifier{}.read, twoMachines.with(post("LOGISTIC")), []float64{0, 0.25}, []float64{0.5, 0.5}, 1},
		{"three classes", svmClassifier{}.read, threeMachines, []float64{1}, []float64{14.5, -19, 1.25}, 0},
		{"three classes, another", svmClassifier{}.read, threeMachines, []float64{-1}, []float64{-13.5, -61, -0.75}, 2},
		{"probabilities", svmClassifier{}.read, twoMachines.with(given{"prob_a": []float32{-2}, "prob_b": []float32{0.25}}),
			[]float64{0, 0}, []float64{0.679, 0.321}, 0},
		{"machines without vectors", svmClassifier{}.read, given{"classlabels_ints": []int64{7, 8}, "coefficients": []float32{1, 2, 3, 4},
			"rho": []float32{0.5}}, []float64{1, -1}, []float64{-0.5, -0.5}, 0},
		{"sums", linearRegressor{}.read, linearSums, []float64{1, 2}, []float64{5.5, 10.5}, 0},
		{"distributions", linearRegressor{}.read, linearSums.with(post("SOFTMAX")), []float64{0, 0}, []float64{0.731059, 0.268941}, 0},
		{"labels", linearClassifier{}.read, linearLabels, []float64{1, -2}, []float64{-2.5, -5.5}, 0},
		{"labels, the other", linearClassifier{}.read, linearLabels, []float64{1, 2}, []float64{5.5, 10.5}, 1},
		{"one sum for two labels", linearClassifier{}.read, linearLabels.with(given{"intercepts": []float32{0.25}}), []float64{0, 0, 0, 0},
			[]float64{0.75, 0.25}, 1},
		{"one sum for two labels, the other", linearClassifier{}.read, linearLabels.with(given{"intercepts": []float32{-0.25}}),
			[]float64{0, 0, 0, 0}, []float64{1.25, -0.25}, 0},
		{"odds of one sum", linearClassifier{}.read, linearLabels.with(post("LOGISTIC")).with(given{"intercepts": []float32{1}}),
			[]float64{0, 0, 0, 0}, []float64{0.268941, 0.731059}, 1},
	} {
		m, err := c.params.model(c.read)
		require.NoError(t, err, c.name)
		got, label := m.score(c.x)
		require.InDeltaSlice(t, c.want, got, 1e-5+map[string]float64{"probabilities": 0.002}[c.name], c.name)
		require.Equal(t, c.label, label, c.name)
		require.Equal(t, len(c.want), m.width, c.name)
		require.Equal(t, len(c.x), m.features, c.name)
	}
	for name, c := range map[string][2][]float64{
		"NONE": {{-1, 2}, {-1, 2}}, "LOGISTIC": {{0, 1}, {0.5, 0.731059}}, "PROBIT": {{0.5, 0.841345}, {0, 1.000175}},
		"SOFTMAX": {{1, 0, 1}, {0.422319, 0.155362, 0.422319}}, "SOFTMAX_ZERO": {{1, 0, 1}, {0.5, 0, 0.5}},
	} {
		transforms[name](c[0])
		require.InDeltaSlice(t, c[1], c[0], 1e-5, name)
	}
}

// TestWrongRowModels: each case has one parameter that does not go with the others.
func TestWrongRowModels(t *testing.T) {
	machines, machine, sums, labels, tree := svmClassifier{}.read, svmRegressor{}.read, linearRegressor{}.read, linearClassifier{}.read,
		treeEnsembleRegressor{}.read
	for why, c := range map[string]struct {
		read    func(*reader) *rowModel
		base    given
		changes given
	}{
		"a class of -1 vectors":               {machines, twoMachines, given{"vectors_per_class": []int64{-1, 3}}},
		"a class of 4294967296 vectors":       {machines, twoMachines, given{"vectors_per_class": []int64{1 << 32, 1 - 1<<32}}},
		"4 numbers are not 3 support vectors": {machines, twoMachines, given{"vectors_per_class": []int64{1, 2}}},
		"0 numbers are not 2 support vectors": {machines, twoMachines, given{"support_vectors": nil}},
		"2 labels, 1 classes of 2 vectors":    {machines, twoMachines, given{"vectors_per_class": []int64{2}}},
		"1 labels, 1 classes of 2 vectors": {machines, twoMachines,
			given{"classlabels_ints": []int64{1}, "vectors_per_class": []int64{2}}},
		"with 3 coefficients":         {machines, twoMachines, given{"coefficients": []float32{1, 2, 3}}},
		"2 rho and 0 prob_a":          {machines, twoMachines, given{"rho": []float32{1, 2}}},
		"1 rho and 1 prob_a":          {machines, twoMachines, given{"prob_a": []float32{1}}},
		"1 rho and 2 prob_a":          {machines, twoMachines, given{"prob_a": []float32{1, 2}, "prob_b": []float32{1, 2}}},
		"post_transform \"X\" is not": {machines, twoMachines, given{"post_transform": "X"}},
		"3 coefficients for 2 labels": {machines, given{"classlabels_ints": []int64{7, 8}, "rho": []float32{1}},
			given{"coefficients": []float32{1, 2, 3}}},
		"it lacks coefficients or rho":           {machine, oneMachine, given{"rho": nil}},
		"or rho":                                 {machine, oneMachine, given{"coefficients": nil}},
		"1 coefficients for 2 support vectors":   {machine, oneMachine, given{"coefficients": []float32{1}}},
		"4 numbers are not -1 support vectors":   {machine, oneMachine, given{"n_supports": int64(-1)}},
		"kernel_type \"X\" with 3 kernel_params": {machine, oneMachine, given{"kernel_type": "X"}},
		"\"RBF\" with 2 kernel_params":           {machine, oneMachine, given{"kernel_type": "RBF", "kernel_params": []float32{1, 2}}},
		"attribute rho is of type":               {machine, oneMachine, given{"rho": "x"}},
		"attribute x is not supported":           {machine, oneMachine, given{"x": "x"}},
		"and 0 intercepts for 0 sums":            {sums, linearSums, given{"targets": int64(0), "intercepts": nil}},
		"3 coefficients and 2 intercepts":        {sums, linearSums, given{"coefficients": []float32{1, 2, 3}}},
		"0 coefficients and 2 intercepts":        {sums, linearSums, given{"coefficients": nil}},
		"and 1 intercepts for 2 sums":            {sums, linearSums, given{"intercepts": []float32{1}}},
		"3 intercepts for 2 labels":              {labels, linearLabels, given{"intercepts": []float32{1, 2, 3}}},
		"either classlabels_ints or":             {labels, linearLabels, given{"classlabels_strings": []string{"a", "b"}}},
		"labels: either":                         {labels, linearLabels, given{"classlabels_ints": nil}},
		"there are no labels":                    {labels, linearLabels, given{"classlabels_ints": []int64{}}},
		"nodes_values has 2 entries for 3 nodes": {tree, oneTree, given{"nodes_values": []float32{1, 2}}},
		"nodes_missing_value_tracks_true has 4":  {tree, oneTree, given{"nodes_missing_value_tracks_true": []int64{0, 0, 0, 0}}},
		"mode \"X\" of node 1":                   {tree, oneTree, given{"nodes_modes": []string{"BRANCH_LEQ", "X", "LEAF"}}},
		"tree 0 has two nodes 1":                 {tree, oneTree, given{"nodes_nodeids": []int64{0, 1, 1}}},
		"1 targets and 2 weights of leaves":      {tree, oneTree, given{"target_ids": []int64{0}}},
		"a weight for node 0 of tree 0":          {tree, oneTree, given{"target_nodeids": []int64{0, 2}}},
		"a weight for node 3 of tree 0":          {tree, oneTree, given{"target_nodeids": []int64{1, 3}}},
		"a weight for node 2 of tree 1":          {tree, oneTree, given{"target_treeids": []int64{0, 1}}},
		"of 0 targets with 0 base_values":        {tree, oneTree, given{"n_targets": int64(0)}},
		"of 1 targets with 2 base_values":        {tree, oneTree, given{"base_values": []float32{1, 2}}},
		"aggregate_function \"X\"":               {tree, oneTree, given{"aggregate_function": "X"}},
		"3 base_values for 2 labels": {treeEnsembleClassifier{}.read, oneTree.with(treeLabels),
			given{"base_values": []float32{1, 2, 3}}},
	} {
		_, err := c.base.with(c.changes).model(c.read)
		require.ErrorContains(t, err, why)
	}
}
