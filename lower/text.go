package lower

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/language"

	"github.com/rlxc/rlxc/internal/ops"
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

func lowerStringConcat(c *context) []*ir.Value { return c.opaque(ops.StringConcat{}, c.In(0), c.In(1)) }

func lowerRegexFullMatch(c *context) []*ir.Value {
	if !c.HasAttr("pattern") {
		c.Failf("attribute pattern is missing")
	}
	return c.opaque(ops.RegexFullMatch{Pattern: c.AttrString("pattern", "")}, c.In(0))
}

func lowerStringSplit(c *context) []*ir.Value {
	x := c.In(0)
	parts := append(slices.Clone(x.Type.Shape), c.Fresh(0))
	types := []ir.Type{ir.TensorOf(tensor.String, parts...), ir.TensorOf(tensor.I64, x.Type.Shape...)}
	return c.compute(ops.StringSplit{Typed: typed(types[:c.NumOutputs()]...), Delimiter: c.AttrString("delimiter", ""),
		Limited: c.HasAttr("maxsplit"), MaxSplit: c.AttrInt("maxsplit", 0)}, x)
}

func lowerStringNormalizer(c *context) []*ir.Value {
	x := c.In(0)
	shape := slices.Clone(x.Type.Shape)
	if len(shape) > 0 {
		shape[len(shape)-1] = c.Fresh(0)
	}
	change := c.AttrString("case_change_action", "NONE")
	full := c.AttrString("locale", "en_US")
	ascii := full == "C" || full == "POSIX"
	if name, _, _ := strings.Cut(full, "."); change != "NONE" && name != "" && name != "C" && name != "POSIX" { // else it is not used
		locale, err := language.Parse(name)
		if base, _ := locale.Base(); err != nil {
			c.Failf("locale %q is not known", name)
		} else if slices.Contains([]string{"tr", "az", "lt"}, base.String()) {
			c.Unsupportedf("locale %q: its cases are not Unicode's default ones", name)
		}
	}
	stop, _ := c.AttrStrings("stopwords")
	return c.compute(ops.StringNormalizer{Typed: typed(ir.TensorOf(tensor.String, shape...)), Case: change,
		Exact: c.AttrBool("is_case_sensitive", false), StopWords: stop, ASCII: ascii}, x)
}

func lowerTfIdfVectorizer(c *context) []*ir.Value {
	v := ops.TfIdfVectorizer{Shortest: c.AttrInt("min_gram_length", 0), Longest: c.AttrInt("max_gram_length", 0),
		Skips: c.AttrInt("max_skip_count", 0), Mode: c.AttrString("mode", "")}
	pool, text := c.AttrStrings("pool_strings")
	numbers, isInt := c.AttrInts("pool_int64s")
	for _, n := range numbers {
		pool = append(pool, fmt.Sprint(n))
	}
	if text == isInt {
		c.Failf("exactly one of pool_strings and pool_int64s must be set")
	}
	v.Pool, v.Numbers = pool, isInt
	v.Columns, _ = c.AttrInts("ngram_indexes")
	v.Weights, _ = c.AttrFloats("weights")
	v.Starts, _ = c.AttrInts("ngram_counts")
	return c.opaque(v, c.In(0))
}

func lowerTokenizer(c *context) []*ir.Value {
	o := ops.Tokenizer{Typed: typed(ir.TensorOf(tensor.String, append(slices.Clone(c.In(0).Type.Shape), c.Fresh(0))...)),
		Expression: c.AttrString("tokenexp", ""), Pad: c.AttrString("pad_value", ""), Mark: c.AttrBool("mark", false),
		Least: c.AttrInt("mincharnum", 0)}
	o.Separators, _ = c.AttrStrings("separators")
	return c.compute(o, c.In(0))
}
