package lower

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Operators on strings.
var textRows = []row{
	{"StringConcat", 20, lowerStringConcat},
	{"StringSplit", 20, lowerStringSplit},
	{"StringNormalizer", 10, lowerStringNormalizer},
	{"RegexFullMatch", 20, lowerRegexFullMatch},
	{"TfIdfVectorizer", 9, lowerTfIdfVectorizer},
}

// maxText bounds the bytes of the strings that one node makes: doubled thirty times, a word fills a machine.
const maxText = 64 << 20

// text is operand i, which must hold strings.
func (c *Context) text(i int) *ir.Value {
	v := c.In(i)
	if v.Type.DType != tensor.String {
		c.Failf("operand %d is %v, strings are needed", i, v.Type)
	}
	return v
}

func lowerStringConcat(c *Context) []*ir.Value {
	shape, err := ir.BroadcastShapes(c.text(0).Type.Shape, c.text(1).Type.Shape)
	if err != nil {
		c.Failf("%w", err)
	}
	run := func(o ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		y, size := resultOf(o, 0), 0
		for _, x := range in {
			wide, err := ir.Expand{Shape: ir.Dims(y.Shape()...)}.Eval([]*tensor.Tensor{x})
			if err != nil {
				return nil, err
			}
			for i, s := range wide[0].Strings() {
				if size += len(s); size > maxText {
					return nil, fmt.Errorf("strings of more than %d bytes, which is the limit of their memory", maxText)
				}
				y.Strings()[i] += s
			}
		}
		return []*tensor.Tensor{y}, nil
	}
	return c.Kernel(run, ir.TensorOf(tensor.String, shape...))
}

func lowerRegexFullMatch(c *Context) []*ir.Value {
	x, pattern := c.text(0), c.AttrString("pattern", "")
	re, err := regexp.Compile(`\A(?:` + pattern + `)\z`)
	if err != nil {
		c.Failf("pattern: %w", err)
	}
	run := func(o ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		y := resultOf(o, 0)
		for i, s := range in[0].Strings() {
			if re.MatchString(s) {
				y.SetInt64(i, 1)
			}
		}
		return []*tensor.Tensor{y}, nil
	}
	return c.Kernel(run, ir.TensorOf(tensor.Bool, x.Type.Shape...))
}

func lowerStringSplit(c *Context) []*ir.Value {
	x := c.text(0)
	delimiter, most := c.AttrString("delimiter", ""), -1
	if c.HasAttr("maxsplit") {
		most = c.AttrInt("maxsplit", 0)
	}
	if !c.IsConst(0) {
		parts := append(slices.Clone(x.Type.Shape), c.Fresh(0))
		return c.AtRun([]ir.Type{ir.TensorOf(tensor.String, parts...), ir.TensorOf(tensor.I64, x.Type.Shape...)}[:c.NumOutputs()]...)
	}
	t := c.Const(0)
	counts := tensor.New(tensor.I64, t.Shape()...)
	split := make([][]string, t.Len())
	widest := 0
	for i, s := range t.Strings() {
		split[i] = splitString(s, delimiter, most)
		counts.SetInt64(i, int64(len(split[i])))
		widest = max(widest, len(split[i]))
	}
	parts := tensor.New(tensor.String, append(t.Shape().Clone(), widest)...)
	for i, list := range split {
		copy(parts.Strings()[i*widest:], list)
	}
	return []*ir.Value{c.Constant(parts), c.Constant(counts)}[:c.NumOutputs()]
}

// splitString cuts s at most that many times (−1: at every place); without a delimiter, at runs of white space.
func splitString(s, delimiter string, most int) []string {
	if delimiter != "" {
		if most >= 0 {
			return strings.SplitN(s, delimiter, most+1)
		}
		return strings.Split(s, delimiter)
	}
	var out []string
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimLeft(s, " \t\n\v\f\r") {
		end := strings.IndexAny(s, " \t\n\v\f\r")
		if end < 0 || most >= 0 && len(out) == most {
			return append(out, s)
		}
		out, s = append(out, s[:end]), s[end:]
	}
	return out
}

func lowerStringNormalizer(c *Context) []*ir.Value {
	x := c.text(0).Type.Shape
	if len(x) < 1 || len(x) > 2 || len(x) == 2 && ir.Same(x[0], ir.N(1)) == ir.No {
		c.Failf("strings %v: a vector or a single row is needed", x)
	}
	stop, _ := c.AttrStrings("stopwords")
	exact := c.AttrBool("is_case_sensitive", false)
	c.IgnoreAttr("locale") // letters change their case as Unicode says, without the exceptions of single languages
	change, ok := map[string]func(string) string{"NONE": strings.Clone, "LOWER": strings.ToLower, "UPPER": strings.ToUpper}[c.AttrString("case_change_action", "NONE")]
	if !ok {
		c.Failf("case_change_action %q is none of NONE, LOWER and UPPER", c.AttrString("case_change_action", ""))
	}
	if !c.IsConst(0) {
		return c.AtRun(ir.TensorOf(tensor.String, append(slices.Clone(x[:len(x)-1]), c.Fresh(0))...))
	}
	t := c.Const(0)
	var kept []string
	for _, s := range t.Strings() {
		if !slices.ContainsFunc(stop, func(w string) bool { return w == s || !exact && strings.EqualFold(w, s) }) {
			kept = append(kept, change(s))
		}
	}
	if len(kept) == 0 {
		kept = []string{""}
	}
	shape := t.Shape().Clone()
	shape[len(shape)-1] = len(kept)
	return []*ir.Value{c.Constant(tensor.FromStrings(kept, shape...))}
}

func lowerTfIdfVectorizer(c *Context) []*ir.Value {
	x := c.In(0).Type
	v := &vectorizer{shortest: c.AttrInt("min_gram_length", 0), longest: c.AttrInt("max_gram_length", 0), skips: c.AttrInt("max_skip_count", 0), mode: c.AttrString("mode", "")}
	pool, ok := c.AttrStrings("pool_strings")
	if numbers, isInt := c.AttrInts("pool_int64s"); isInt {
		for _, n := range numbers {
			pool = append(pool, fmt.Sprint(n))
		}
		ok = !ok && x.DType.IsInt()
	} else {
		ok = ok && x.DType == tensor.String
	}
	if !ok || len(x.Shape) < 1 || len(x.Shape) > 2 || !slices.Contains([]string{"TF", "IDF", "TFIDF"}, v.mode) {
		c.Failf("mode %q over %v with this pool", v.mode, x)
	}
	if v.shortest < 1 || v.longest < v.shortest || v.skips < 0 {
		c.Failf("n-grams of %d to %d words with %d skipped", v.shortest, v.longest, v.skips)
	}
	v.columns, _ = c.AttrInts("ngram_indexes")
	v.weights, _ = c.AttrFloats("weights")
	starts, _ := c.AttrInts("ngram_counts")
	if err := v.learn(pool, starts); err != nil {
		c.Failf("%w", err)
	}
	width := slices.Max(append([]int{-1}, v.columns...)) + 1
	run := func(o ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		y := resultOf(o, 0)
		words := in[0].Strings()
		if words == nil {
			for _, n := range in[0].Int64s() {
				words = append(words, fmt.Sprint(n))
			}
		}
		s := in[0].Shape()
		n := s[len(s)-1]
		for r := range s[:len(s)-1].Elements() {
			v.count(words[r*n:(r+1)*n], tensor.Of[float32](y)[r*width:(r+1)*width])
		}
		return []*tensor.Tensor{y}, nil
	}
	shape := append(slices.Clone(x.Shape[:len(x.Shape)-1]), ir.N(width))
	return c.Kernel(run, ir.TensorOf(tensor.F32, shape...))
}

// A vectorizer counts n-grams of a pool in sequences of words.
type vectorizer struct {
	shortest, longest, skips int
	mode                     string
	columns                  []int // of the result, by n-gram
	weights                  []float32
	grams                    map[string]int // words joined by zero bytes → number of the n-gram
}

// learn reads the pool, in which the n-grams of each length stand together: starts says where.
func (v *vectorizer) learn(pool []string, starts []int) error {
	v.grams = map[string]int{}
	id := 0
	for k, from := range starts {
		n, end := k+1, len(pool)
		if k+1 < len(starts) {
			end = starts[k+1]
		}
		if from < 0 || from > end || end > len(pool) || (end-from)%n != 0 {
			return fmt.Errorf("ngram_counts %v for a pool of %d", starts, len(pool))
		}
		for ; from < end; from += n {
			if n >= v.shortest && n <= v.longest {
				v.grams[strings.Join(pool[from:from+n], "\x00")] = id
			}
			id++
		}
	}
	if slices.ContainsFunc(v.columns, func(c int) bool { return c < 0 || c >= 1<<24 }) || len(v.columns) < id || v.weights != nil && len(v.weights) != len(v.columns) {
		return fmt.Errorf("%d ngram_indexes and %d weights for %d n-grams", len(v.columns), len(v.weights), id)
	}
	return nil
}

// count adds up the n-grams whose words stand skip places apart, for all skips; single words have no skips.
func (v *vectorizer) count(words []string, y []float32) {
	weight := make([]float32, len(y))
	for n := v.shortest; n <= min(v.longest, len(words)); n++ {
		for skip := 0; skip <= v.skips && (skip == 0 || n > 1); skip++ {
			gram := make([]string, n)
			for i := 0; i+(n-1)*(skip+1) < len(words); i++ {
				for k := range gram {
					gram[k] = words[i+k*(skip+1)]
				}
				if id, ok := v.grams[strings.Join(gram, "\x00")]; ok {
					y[v.columns[id]]++
					weight[v.columns[id]] = 1
					if v.weights != nil {
						weight[v.columns[id]] = v.weights[id]
					}
				}
			}
		}
	}
	for i := range y {
		switch v.mode {
		case "IDF":
			y[i] = min(y[i], 1) * weight[i]
		case "TFIDF":
			y[i] *= weight[i]
		}
	}
}
