package ops

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// maxText bounds the bytes of the strings that one node makes: doubled thirty times, a word fills a machine.
const maxText = 64 << 20

// stringBytes is what a string takes besides its text, with a slice that grows as it does.
const stringBytes = 32

// texts checks that operands hold strings.
func texts(in []*ir.Value) error {
	for i, v := range in {
		if v == nil || v.Type.DType != tensor.String {
			return fmt.Errorf("operand %d is not a string tensor", i)
		}
	}
	return nil
}

// StringConcat joins the strings of two tensors, elementwise.
type StringConcat struct{ ir.Opaque[StringConcat] }

func (StringConcat) Infer(in []*ir.Value) ([]ir.Type, error) {
	if err := texts(in); err != nil {
		return nil, err
	}
	shape, err := ir.BroadcastShapes(in[0].Type.Shape, in[1].Type.Shape)
	return []ir.Type{ir.TensorOf(tensor.String, shape...)}, err
}

func (o StringConcat) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	y := env.Output(o, in)
	size := 0
	for _, x := range in {
		wide, err := ir.Expand{Shape: ir.Dims(y.Shape()...)}.Eval(env, []*tensor.Tensor{x})
		if err != nil {
			return nil, err
		}
		for i, s := range wide[0].Strings() {
			env.Take(int64(len(s)))
			env.Work(1 + len(s)/16)
			if size += len(s); size > maxText {
				return nil, fmt.Errorf("strings of more than %d bytes, which is the limit of their memory", maxText)
			}
			y.Strings()[i] += s
		}
	}
	return []*tensor.Tensor{y}, nil
}

// RegexFullMatch reports for every string whether the whole of it matches.
type RegexFullMatch struct {
	ir.Opaque[RegexFullMatch]
	Pattern string
	re      *regexp.Regexp
}

func (o RegexFullMatch) Prepare() (_ ir.Op, err error) {
	if o.re, err = regexp.Compile(`\A(?:` + o.Pattern + `)\z`); err != nil {
		return nil, fmt.Errorf("pattern: %w", err)
	}
	return o, nil
}

func (o RegexFullMatch) Infer(in []*ir.Value) ([]ir.Type, error) {
	return []ir.Type{ir.TensorOf(tensor.Bool, in[0].Type.Shape...)}, texts(in)
}

func (o RegexFullMatch) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	y := env.New(tensor.Bool, in[0].Shape()...)
	for i, s := range in[0].Strings() {
		env.Work(1 + len(s))
		if o.re.MatchString(s) {
			y.SetInt64(i, 1)
		}
	}
	return []*tensor.Tensor{y}, nil
}

// StringSplit cuts every string into parts, as many as the longest has along a new last axis, and counts them.
type StringSplit struct {
	ir.Opaque[StringSplit]
	Typed
	Delimiter string
	Limited   bool // at most MaxSplit cuts
	MaxSplit  int
}

func (o StringSplit) Infer(in []*ir.Value) ([]ir.Type, error) { return o.Types, texts(in) }

func (o StringSplit) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	t, most := in[0], -1
	if o.Limited {
		most = o.MaxSplit
	}
	counts := env.New(tensor.I64, t.Shape()...)
	split := ir.Make[[]string](env, t.Len())
	widest := 0
	for i, s := range t.Strings() {
		split[i] = splitString(s, o.Delimiter, most)
		env.Take(stringBytes * int64(len(split[i])))
		env.Work(1 + len(s))
		counts.SetInt64(i, int64(len(split[i])))
		widest = max(widest, len(split[i]))
	}
	parts := env.New(tensor.String, append(t.Shape().Clone(), widest)...)
	for i, list := range split {
		copy(parts.Strings()[i*widest:], list)
	}
	return []*tensor.Tensor{parts, counts}[:max(1, min(len(o.Types), 2))], nil
}

// splitString cuts s at most that many times (−1: at every one); without a delimiter, at runs of white space.
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

// StringNormalizer leaves out stop words and changes the case of the others, as Unicode says, without the exceptions of single
// languages.
type StringNormalizer struct {
	ir.Opaque[StringNormalizer]
	Typed
	Case      string // NONE, LOWER, UPPER
	Exact     bool   `ir:"is_case_sensitive"` // stop words are compared with their case
	StopWords []string
	ASCII     bool // only letters of ASCII have cases, as in the locales C and POSIX
}

var caseChanges = map[string]func(r rune) rune{"NONE": func(r rune) rune { return r }, "LOWER": unicode.ToLower, "UPPER": unicode.ToUpper}

// change returns s in another case.
func (o StringNormalizer) change(s, how string) string {
	if how == "NONE" {
		return strings.Clone(s)
	}
	return strings.Map(func(r rune) rune {
		if o.ASCII && r > unicode.MaxASCII {
			return r
		}
		return caseChanges[how](r)
	}, s)
}

// stops reports whether s is the stop word w.
func (o StringNormalizer) stops(w, s string) bool {
	switch {
	case w == s || o.Exact:
		return w == s
	case o.ASCII:
		return o.change(w, "LOWER") == o.change(s, "LOWER")
	}
	return strings.EqualFold(w, s)
}

func (o StringNormalizer) Infer(in []*ir.Value) ([]ir.Type, error) {
	x := in[0].Type.Shape
	if len(x) < 1 || len(x) > 2 || len(x) == 2 && ir.Same(x[0], ir.N(1)) == ir.No {
		return nil, fmt.Errorf("strings %v: want a vector or a single row", x)
	}
	if caseChanges[o.Case] == nil {
		return nil, fmt.Errorf("case_change_action %q is not NONE, LOWER or UPPER", o.Case)
	}
	return o.Types, texts(in)
}

func (o StringNormalizer) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	t := in[0]
	if r := t.Rank(); r < 1 || r == 2 && t.Shape()[0] != 1 {
		return nil, fmt.Errorf("strings %v: want a vector or a single row", t)
	}
	var words []string
	for _, s := range t.Strings() {
		env.Take(stringBytes + int64(len(s)))
		env.Work(1 + len(o.StopWords) + len(s))
		if !slices.ContainsFunc(o.StopWords, func(w string) bool { return o.stops(w, s) }) {
			words = append(words, o.change(s, o.Case))
		}
	}
	if len(words) == 0 {
		words = []string{""}
	}
	shape := t.Shape().Clone()
	shape[len(shape)-1] = len(words)
	return []*tensor.Tensor{tensor.FromStrings(words, shape...)}, nil
}

// TfIdfVectorizer counts n-grams of a pool in sequences of words.
type TfIdfVectorizer struct {
	ir.Opaque[TfIdfVectorizer]
	Shortest int    `ir:"min_gram_length"`
	Longest  int    `ir:"max_gram_length"`
	Skips    int    `ir:"max_skip_count"`
	Mode     string // TF, IDF, TFIDF
	Numbers  bool   // the words are integers; the pool has them in decimal
	Pool     []string
	Starts   []int `ir:"ngram_counts"`  // index in the pool of the first n-gram of each length
	Columns  []int `ir:"ngram_indexes"` // column of the result for each n-gram
	Weights  []float32

	grams map[string]int // words joined by zero bytes → number of the n-gram
}

func (v TfIdfVectorizer) Prepare() (ir.Op, error) {
	if v.Shortest < 1 || v.Longest < v.Shortest || v.Skips < 0 {
		return nil, fmt.Errorf("n-grams of %d to %d words with %d skipped", v.Shortest, v.Longest, v.Skips)
	}
	if err := v.learn(v.Pool, v.Starts); err != nil {
		return nil, err
	}
	if v.Longest > len(v.Starts) {
		return nil, fmt.Errorf("n-grams of up to %d words of a pool that has %d lengths", v.Longest, len(v.Starts))
	}
	return v, nil
}

// width is the number of columns.
func (v TfIdfVectorizer) width() int { return slices.Max(append([]int{-1}, v.Columns...)) + 1 }

func (v TfIdfVectorizer) Infer(in []*ir.Value) ([]ir.Type, error) {
	x := in[0].Type
	if v.Numbers && !x.DType.IsInt() || !v.Numbers && x.DType != tensor.String || len(x.Shape) < 1 || len(x.Shape) > 2 ||
		!slices.Contains([]string{"TF", "IDF", "TFIDF"}, v.Mode) {
		return nil, fmt.Errorf("mode %q over %v with this pool", v.Mode, x)
	}
	return []ir.Type{ir.TensorOf(tensor.F32, append(slices.Clone(x.Shape[:len(x.Shape)-1]), ir.N(v.width()))...)}, nil
}

func (v TfIdfVectorizer) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	y := env.Output(v, in)
	words := in[0].Strings()
	if words == nil {
		env.Take(2 * stringBytes * int64(in[0].Len()))
		for _, n := range in[0].Int64s() {
			words = append(words, fmt.Sprint(n))
		}
	}
	s, width := in[0].Shape(), v.width()
	n := s[len(s)-1]
	for r := range env.Range(s[:len(s)-1].Elements()) {
		v.count(env, words[r*n:(r+1)*n], tensor.Of[float32](y)[r*width:(r+1)*width])
	}
	return []*tensor.Tensor{y}, nil
}

// learn reads the pool, in which the n-grams of each length are together: starts says where.
func (v *TfIdfVectorizer) learn(pool []string, starts []int) error {
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
			if n >= v.Shortest && n <= v.Longest {
				v.grams[strings.Join(pool[from:from+n], "\x00")] = id
			}
			id++
		}
	}
	if slices.ContainsFunc(v.Columns, func(c int) bool { return c < 0 || c >= 1<<24 }) || len(v.Columns) < id || v.Weights != nil &&
		len(v.Weights) != len(v.Columns) {
		return fmt.Errorf("%d ngram_indexes and %d weights for %d n-grams", len(v.Columns), len(v.Weights), id)
	}
	return nil
}

// count adds up the n-grams whose words are skip positions apart, for all skips; single words have no skips.
func (v TfIdfVectorizer) count(env *ir.Env, words []string, y []float32) {
	weight := make([]float32, len(y))
	for n := v.Shortest; n <= min(v.Longest, len(words)); n++ {
		gram := make([]string, n)
		// The last skip leaves room for one n-gram.
		for skip := 0; skip <= v.Skips && (skip == 0 || n > 1) && (n-1)*(skip+1) < len(words); skip++ {
			for i := 0; i+(n-1)*(skip+1) < len(words); i++ {
				env.Work(4 * n)
				for k := range gram {
					gram[k] = words[i+k*(skip+1)]
				}
				if id, ok := v.grams[strings.Join(gram, "\x00")]; ok {
					y[v.Columns[id]]++
					weight[v.Columns[id]] = 1
					if v.Weights != nil {
						weight[v.Columns[id]] = v.Weights[id]
					}
				}
			}
		}
	}
	for i := range y {
		switch v.Mode {
		case "IDF":
			y[i] = min(y[i], 1) * weight[i]
		case "TFIDF":
			y[i] *= weight[i]
		}
	}
}
