package lower

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// Strings whose number depends on data, between operators that do not mind.
func TestTextAtRun(t *testing.T) {
	s := &sketch{}
	x := s.input("x", tensor.String, "n")
	kept := s.node("StringNormalizer", x, &onnxpb.AttributeProto{Name: "stopwords", Type: onnxpb.AttributeProto_STRINGS,
		Strings: [][]byte{[]byte("The")}}, stringAttr("case_change_action", "UPPER"))
	g, err := s.lower(20, s.node("StringConcat", kept, s.constant(tensor.FromStrings([]string{"!"}))))
	require.NoError(t, err)
	got, err := ir.Interpret(g, []*tensor.Tensor{tensor.FromStrings([]string{"the", "cat", "ÄR"})})
	require.NoError(t, err)
	require.Equal(t, []string{"CAT!", "ÄR!"}, got[0].Strings())
	got, err = ir.Interpret(g, []*tensor.Tensor{tensor.FromStrings([]string{"the", "THE"})})
	require.NoError(t, err)
	require.Equal(t, []string{"!"}, got[0].Strings(), "one empty string stands for none")
}

func TestTextErrors(t *testing.T) {
	for _, c := range []struct {
		build func(s *sketch) string
		want  string
	}{
		{func(s *sketch) string { return s.node("StringConcat", s.input("x", tensor.F32, 2), "x") },
			"operand 0 (X) is float; opset 20 takes string"},
		{func(s *sketch) string {
			return s.node("RegexFullMatch", s.input("x", tensor.String, 2), stringAttr("pattern", "("))
		}, "missing closing )"},
		{func(s *sketch) string {
			return s.node("TfIdfVectorizer", s.input("x", tensor.I64, 2), stringAttr("mode", "TF"), intsAttr("pool_int64s", 1, 2, 3),
				intsAttr("ngram_counts", 0, 1), intsAttr("ngram_indexes", 0), intAttr("min_gram_length", 1),
				intAttr("max_gram_length", 2), intAttr("max_skip_count", 0))
		}, "1 ngram_indexes and 0 weights for 2 n-grams"},
		{func(s *sketch) string {
			return s.node("TfIdfVectorizer", s.input("x", tensor.I64, 2), stringAttr("mode", "TF"), intsAttr("pool_int64s", 1, 2),
				intsAttr("ngram_counts", 3), intsAttr("ngram_indexes", 0), intAttr("min_gram_length", 1), intAttr("max_gram_length", 2),
				intAttr("max_skip_count", 0))
		}, "ngram_counts [3] for a pool of 2"},
	} {
		s := &sketch{}
		_, err := s.lower(20, c.build(s))
		require.ErrorContains(t, err, c.want)
	}
}

// TestWordsWithoutWeightsCountOnce: an n-gram has the weight 1 in a model without weights.
func TestWordsWithoutWeightsCountOnce(t *testing.T) {
	for mode, want := range map[string][]float32{"TF": {2, 1, 0}, "IDF": {1, 1, 0}, "TFIDF": {2, 1, 0}} {
		t.Run(mode, func(t *testing.T) {
			s := &sketch{}
			y := s.node("TfIdfVectorizer", s.input("x", tensor.I64, 4), stringAttr("mode", mode), intsAttr("pool_int64s", 5, 6, 7),
				intsAttr("ngram_counts", 0), intsAttr("ngram_indexes", 0, 1, 2), intAttr("min_gram_length", 1),
				intAttr("max_gram_length", 1), intAttr("max_skip_count", 0))
			g, err := s.lower(20, y)
			require.NoError(t, err)
			got, err := ir.Interpret(g, []*tensor.Tensor{tensor.FromSlice([]int64{5, 6, 5, 9})})
			require.NoError(t, err)
			require.Equal(t, want, tensor.Of[float32](got[0]))
		})
	}
}
