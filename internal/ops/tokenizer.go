package ops

import (
	"fmt"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Tokenizer cuts every string into tokens, along a new last axis: what the separators leave, what an expression matches, or single
// characters. Matches are the longest ones.
type Tokenizer struct {
	ir.Opaque[Tokenizer]
	Typed
	Separators []string
	Expression string `ir:"tokenexp"`
	Pad        string `ir:"pad_value"`
	Mark       bool   // the beginning and the end of each string get a mark
	Least      int    `ir:"mincharnum"`

	separators []*regexp.Regexp
	tokens     *regexp.Regexp
	characters bool
}

func (o Tokenizer) Prepare() (ir.Op, error) {
	compile := func(s string) (*regexp.Regexp, error) {
		re, err := regexp.Compile(s)
		if err != nil {
			return nil, fmt.Errorf("expression: %w", err)
		}
		re.Longest()
		return re, nil
	}
	var err error
	o.separators = nil
	switch {
	case o.Least < 1:
		return nil, fmt.Errorf("mincharnum = %d is not above 0", o.Least)
	case len(o.Separators) > 0:
		if o.characters = len(o.Separators) == 1 && o.Separators[0] == ""; o.characters {
			break
		}
		for _, s := range o.Separators {
			re, err := compile(s)
			if err != nil {
				return nil, err
			}
			o.separators = append(o.separators, re)
		}
	case o.Expression == ".":
		o.characters = true
	case o.Expression != "":
		if o.tokens, err = compile(o.Expression); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("it has neither separators nor a tokenexp")
	}
	if o.characters && o.Least > 1 {
		return nil, fmt.Errorf("mincharnum = %d of tokens that are single characters", o.Least)
	}
	return o, nil
}

func (o Tokenizer) Infer(in []*ir.Value) ([]ir.Type, error) {
	if r := rank(in[0]); r < 1 || r > 2 {
		return nil, fmt.Errorf("strings %v: one or two axes are needed", in[0].Type.Shape)
	}
	return o.Types, texts(in)
}

func (o Tokenizer) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	t := in[0]
	all := ir.Make[[]string](env, t.Len())
	widest := 0
	for i, s := range t.Strings() {
		if !utf8.ValidString(s) {
			return nil, fmt.Errorf("string %d is not UTF-8", i)
		}
		env.Work(1 + len(s)*(1+len(o.separators)))
		all[i] = o.tokensOf(s)
		env.Take(stringBytes * int64(len(all[i])))
		widest = max(widest, len(all[i]))
	}
	if o.Mark && widest > 0 {
		widest += 2
	}
	y := env.New(tensor.String, append(t.Shape().Clone(), widest)...)
	for i, tokens := range all {
		line := y.Strings()[i*widest:][:widest]
		n := copy(line, tokens)
		if o.Mark && widest > 0 {
			line[0], line[1+n], n = "\x02", "\x03", n+2
			copy(line[1:], tokens)
		}
		for k := n; k < widest; k++ {
			line[k] = o.Pad
		}
	}
	return []*tensor.Tensor{y}, nil
}

// tokensOf cuts one string.
func (o Tokenizer) tokensOf(s string) (tokens []string) {
	switch {
	case o.characters:
		for _, r := range s {
			tokens = append(tokens, string(r))
		}
		return tokens
	case o.tokens != nil:
		tokens = o.tokens.FindAllString(s, -1)
	default:
		tokens = []string{s}
		for _, re := range o.separators {
			var parts []string
			for _, part := range tokens {
				parts = append(parts, outside(part, re.FindAllStringIndex(part, -1))...)
			}
			tokens = parts
		}
	}
	return slices.DeleteFunc(tokens, func(token string) bool { return utf8.RuneCountInString(token) < o.Least })
}

// outside returns what matches leave of a string. One of nothing takes the next character, as onnxruntime has it.
func outside(s string, matches [][]int) (parts []string) {
	from := 0
	for _, m := range matches {
		if m[0] > from {
			parts = append(parts, s[from:m[0]])
		}
		if from = m[1]; m[0] == m[1] {
			_, size := utf8.DecodeRuneInString(s[from:])
			from += size
		}
	}
	return append(parts, s[from:])
}
