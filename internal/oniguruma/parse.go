// Package oniguruma runs regular expressions in the syntax and with the meaning of Oniguruma, the library of Hugging Face's tokenizers.
//
// It is not API.
//
// parse.go reads an expression into a tree, class.go holds what classes of characters mean, and write.go writes the tree for regexp2, which
// runs it. Only what regexp2 expresses exactly is translated; any other construct is an error that names it. The characters of a text are
// numbered by the classes that an expression distinguishes (sets.go), so that neither Go's Unicode tables nor those of regexp2 matter.
package oniguruma

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A kind is what a node of a regular expression matches.
type kind int

const (
	oneOf      kind = iota // a character of set
	inOrder                // list, one after the other
	anyOf                  // the first of list that leads to a match
	repeated               // list[0], from least to most times
	grouped                // list[0], which \1 may refer to as number
	atomic                 // list[0], whose first match is not given up
	lookAround             // list[0] before or after a position, or not
	position               // the positions of a name of anchors
	reference              // what the group number matched
	keep                   // the beginning of the match, whatever was before
	segment                // an extended grapheme cluster
)

// A node is a regular expression.
type node struct {
	kind             kind
	set              runeSet
	list             []*node
	least, most      int // most is unbounded for no bound
	lazy, possessive bool
	back, not        bool    // for lookAround: look behind, and negated
	number           int     // for reference: the group's number
	anchor           string  // a key of anchors
	word             runeSet // for the anchors \b and \B: the characters of words
	folds            bool    // a literal under (?i) that is a single character when it is repeated: ss is ß
}

const unbounded = -1

// errSyntax is an expression that tokenizers refuses too.
func errSyntax(format string, args ...any) error {
	return fmt.Errorf("invalid regular expression: "+format, args...)
}

// errConstruct is a construct of Oniguruma that is not supported.
func errConstruct(format string, args ...any) error {
	return fmt.Errorf("unsupported regular expression: "+format+"; see docs/tokenizers.md for the constructs that are supported", args...)
}

// flags are the options of (?imxWDSP).
type flags struct {
	fold, dotAll, extended                      bool
	asciiWord, asciiDigit, asciiSpace, asciiAll bool
}

// A parser reads an expression.
type parser struct {
	text   string
	at     int
	depth  int
	groups int // number of capturing groups so far
	named  map[string]int
	naming bool // some group has a name
}

// maxGroupDepth bounds how deep groups and classes may be nested, as recursion goes as deep.
const maxGroupDepth = 200

// namedGroup finds the beginning of a group with a name, beside which groups without a name do not capture.
var namedGroup = regexp.MustCompile(`\(\?(<[^=!]|')`)

// parse returns the tree of an expression.
func parse(expression string) (*node, error) {
	p := &parser{text: expression, named: map[string]int{}, naming: namedGroup.MatchString(expression)}
	n, err := p.alternatives(flags{})
	if err == nil && p.at < len(p.text) {
		err = errSyntax("unmatched )")
	}
	return n, err
}

func (p *parser) end() bool { return p.at >= len(p.text) }

// peek returns the next byte; 0 at the end.
func (p *parser) peek() byte {
	if p.end() {
		return 0
	}
	return p.text[p.at]
}

// skip passes over a string, if it is next.
func (p *parser) skip(s string) bool {
	if strings.HasPrefix(p.text[p.at:], s) {
		p.at += len(s)
		return true
	}
	return false
}

// rune returns the next character and passes over it.
func (p *parser) rune() rune {
	r, size := utf8.DecodeRuneInString(p.text[p.at:])
	p.at += size
	return r
}

// alternatives reads up to the ) that ends the group, or the end. An option (?i) holds up to there, over alternatives.
func (p *parser) alternatives(f flags) (*node, error) {
	if p.depth++; p.depth > maxGroupDepth {
		return nil, errConstruct("groups nested more than %d deep", maxGroupDepth)
	}
	defer func() { p.depth-- }()
	out := &node{kind: anyOf}
	for {
		n, err := p.branch(f)
		if err != nil {
			return nil, err
		}
		out.list = append(out.list, n)
		if !p.skip("|") {
			break
		}
	}
	if len(out.list) == 1 {
		return out.list[0], nil
	}
	return out, nil
}

// branch reads up to a | or ).
func (p *parser) branch(f flags) (*node, error) {
	out := &node{kind: inOrder}
	for !p.end() && p.peek() != '|' && p.peek() != ')' {
		if f.extended && strings.IndexByte(" \t\n\r\f", p.peek()) >= 0 {
			p.at++
			continue
		}
		if f.extended && p.peek() == '#' {
			for !p.end() && p.peek() != '\n' {
				p.at++
			}
			continue
		}
		if p.skip("(?#") {
			n := strings.IndexByte(p.text[p.at:], ')')
			if n < 0 {
				return nil, errSyntax("a comment does not end")
			}
			p.at += n + 1
			continue
		}
		if options, rest, ok := p.isolated(f); ok {
			if rest != nil {
				return nil, rest
			}
			// (?i) makes a group of all that follows in this one.
			n, err := p.alternatives(options)
			if err != nil {
				return nil, err
			}
			out.list = append(out.list, n)
			break
		}
		n, err := p.atom(f)
		if err != nil {
			return nil, err
		}
		if n, err = p.repeats(n, f); err != nil {
			return nil, err
		}
		out.list = append(out.list, n)
	}
	return out, nil
}

// isolated reads "(?flags)". ok is false if something else is next.
func (p *parser) isolated(f flags) (options flags, err error, ok bool) {
	rest := p.text[p.at:]
	if !strings.HasPrefix(rest, "(?") {
		return f, nil, false
	}
	n := strings.IndexFunc(rest[2:], func(r rune) bool { return !strings.ContainsRune("imxWDSPyCIL-", r) })
	if n <= 0 || rest[2+n] != ')' {
		return f, nil, false
	}
	p.at += 2 + n + 1
	options, err = f.with(rest[2 : 2+n])
	return options, err, true
}

// with returns the flags after "imx-imx".
func (f flags) with(text string) (flags, error) {
	on := true
	for _, c := range text {
		switch c {
		case '-':
			on = false
		case 'i':
			f.fold = on
		case 'm':
			f.dotAll = on
		case 'x':
			f.extended = on
		case 'W':
			f.asciiWord = on
		case 'D':
			f.asciiDigit = on
		case 'S':
			f.asciiSpace = on
		case 'P':
			f.asciiAll = on
		default:
			return f, errConstruct("the option %q of (?%s)", c, text)
		}
	}
	return f, nil
}

// repeats reads the quantifiers after a node.
func (p *parser) repeats(n *node, f flags) (*node, error) {
	for {
		if f.extended {
			for !p.end() && strings.IndexByte(" \t\n\r\f", p.peek()) >= 0 {
				p.at++
			}
		}
		q := &node{kind: repeated, list: []*node{n}, most: unbounded}
		interval := false
		switch {
		case p.skip("*"):
		case p.skip("+"):
			q.least = 1
		case p.skip("?"):
			q.most = 1
		case p.peek() == '{':
			var err error
			if interval, err = p.interval(q); err != nil {
				return nil, err
			}
			if !interval {
				return n, nil
			}
		default:
			return n, nil
		}
		if n.kind == position || n.kind == lookAround || n.kind == keep {
			return nil, errSyntax("a quantifier follows an anchor")
		}
		fixed := interval && q.least == q.most
		if fixed && q.least > 1 && n.folds {
			return nil, errConstruct("a literal under (?i) that is repeated {%d} times, and is a single character then", q.least)
		}
		switch {
		case q.possessive: // {n,m} with n > m
		case !fixed && p.skip("?"):
			q.lazy = true
		case !interval && p.skip("+"):
			q.possessive = true
		}
		n = q
	}
}

// maxRepeat is Oniguruma's bound of a quantifier.
const maxRepeat = 100000

// interval reads {n,m}; false if the brace is a character.
func (p *parser) interval(q *node) (bool, error) {
	end := strings.IndexByte(p.text[p.at:], '}')
	if end < 0 {
		return false, nil
	}
	low, high, comma := strings.Cut(p.text[p.at+1:p.at+end], ",")
	number := func(s string, absent int) (int, bool) {
		if s == "" {
			return absent, true
		}
		if strings.Trim(s, "0123456789") != "" {
			return 0, false
		}
		n, err := strconv.Atoi(s)
		if err != nil {
			n = maxRepeat + 1
		}
		return n, true
	}
	least, ok1 := number(low, 0)
	most, ok2 := number(high, unbounded)
	if !comma {
		most = least
	}
	if !ok1 || !ok2 || low == "" && high == "" {
		return false, nil
	}
	if least > maxRepeat || most > maxRepeat {
		return false, errSyntax("a quantifier is above %d", maxRepeat)
	}
	if most != unbounded && least > most {
		least, most, q.possessive = most, least, true
	}
	q.least, q.most = least, most
	p.at += end + 1
	return true, nil
}

// atom reads a character, a class, a group or an anchor. The folds of consecutive literals under (?i) are one node: "ss" is also ß.
func (p *parser) atom(f flags) (*node, error) {
	start := p.at
	switch r := p.rune(); r {
	case '(':
		return p.group(f)
	case '[':
		set, multi, err := p.class(f)
		if err != nil {
			return nil, err
		}
		return withStrings(set, multi), nil
	case '.':
		if f.dotAll {
			return &node{kind: oneOf, set: everyRune}, nil
		}
		return &node{kind: oneOf, set: runesOf('\n').invert()}, nil
	case '^', '$':
		return &node{kind: position, anchor: string(r)}, nil
	case '*', '+', '?':
		return nil, errSyntax("nothing is before the quantifier %q", r)
	case '\\':
		return p.escape(f)
	default:
		if f.fold {
			p.at = start
			return p.literals(f)
		}
		return &node{kind: oneOf, set: runesOf(r)}, nil
	}
}

// literals reads the characters that stand for themselves, under (?i). A quantifier belongs to the last one alone.
func (p *parser) literals(f flags) (*node, error) {
	var list []rune
	for !p.end() && !(len(list) > 0 && p.quantified()) {
		before := p.at
		r := p.rune()
		if r == '\\' {
			value, ok, err := p.escapedRune()
			if err != nil {
				return nil, err
			}
			if !ok {
				p.at = before
				break
			}
			r = value
		} else if strings.ContainsRune(`([.^$*+?|)`, r) || f.extended && strings.ContainsRune(" \t\n\r\f#", r) {
			p.at = before
			break
		}
		if len(list) > 0 && p.quantified() {
			p.at = before
			break
		}
		list = append(list, r)
	}
	return foldedLiteral(list)
}

// quantified reports whether a quantifier is next.
func (p *parser) quantified() bool {
	if p.peek() == '{' {
		at := p.at
		ok, err := p.interval(&node{})
		p.at = at
		return ok || err != nil
	}
	return !p.end() && strings.IndexByte("*+?", p.peek()) >= 0
}

// group reads what follows "(".
func (p *parser) group(f flags) (*node, error) {
	out := &node{kind: grouped}
	switch {
	case p.skip("*"):
		return nil, errConstruct("a callout (*name)")
	case !p.skip("?"):
		if p.naming {
			out.kind = inOrder
		} else {
			p.groups++
			out.number = p.groups
		}
	case p.skip(":"):
		out.kind = inOrder
	case p.skip(">"):
		out.kind = atomic
	case p.skip("="):
		out.kind = lookAround
	case p.skip("!"):
		out.kind, out.not = lookAround, true
	case p.skip("<="):
		out.kind, out.back = lookAround, true
	case p.skip("<!"):
		out.kind, out.back, out.not = lookAround, true, true
	case p.skip("~"):
		return nil, errConstruct("an absent group (?~)")
	case p.skip("{"):
		return nil, errConstruct("a callout (?{})")
	case p.skip("("):
		return nil, errConstruct("a condition (?(1)then|else)")
	case p.skip("<"), p.skip("'"):
		close := byte('>')
		if p.text[p.at-1] == '\'' {
			close = '\''
		}
		n := strings.IndexByte(p.text[p.at:], close)
		if n < 1 {
			return nil, errSyntax("a group has no name")
		}
		name := p.text[p.at : p.at+n]
		p.at += n + 1
		if p.named[name] > 0 {
			return nil, errConstruct("two groups of the name %q", name)
		}
		p.groups++
		out.number = p.groups
		p.named[name] = p.groups
	default:
		n := strings.IndexFunc(p.text[p.at:], func(r rune) bool { return !strings.ContainsRune("imxWDSPyCIL-", r) })
		if n <= 0 || p.text[p.at+n] != ':' {
			return nil, errConstruct("the group (?%.5s", p.text[p.at:])
		}
		var err error
		if f, err = f.with(p.text[p.at : p.at+n]); err != nil {
			return nil, err
		}
		p.at += n + 1
		out.kind = inOrder
	}
	inner, err := p.alternatives(f)
	if err != nil {
		return nil, err
	}
	if !p.skip(")") {
		return nil, errSyntax("unmatched (")
	}
	out.list = []*node{inner}
	return out, nil
}

// escapes are the escapes that stand for one character.
var escapes = map[rune]rune{'t': '\t', 'v': '\v', 'n': '\n', 'r': '\r', 'f': '\f', 'a': '\a', 'e': 0x1b}

// escape reads what follows a backslash outside of classes.
func (p *parser) escape(f flags) (*node, error) {
	before := p.at - 1
	if r, ok, err := p.escapedRune(); err != nil {
		return nil, err
	} else if ok {
		if f.fold {
			p.at = before
			return p.literals(f)
		}
		return &node{kind: oneOf, set: runesOf(r)}, nil
	}
	if set, ok, err := p.escapedSet(f, false); err != nil || ok {
		return &node{kind: oneOf, set: set}, err
	}
	switch r := p.rune(); r {
	case 'b', 'B':
		return &node{kind: position, anchor: `\` + string(r), word: f.wordSet()}, nil
	case 'A':
		return &node{kind: position, anchor: `\A`}, nil
	case 'z':
		return &node{kind: position, anchor: `\z`}, nil
	case 'Z':
		return &node{kind: position, anchor: `\Z`}, nil
	case 'N':
		return &node{kind: oneOf, set: runesOf('\n').invert()}, nil
	case 'O':
		return &node{kind: oneOf, set: everyRune}, nil
	case 'R':
		pair := &node{kind: inOrder, list: []*node{{kind: oneOf, set: runesOf('\r')}, {kind: oneOf, set: runesOf('\n')}}}
		single := &node{kind: oneOf, set: newRuneSet(runeRange{'\n', '\r'}, runeRange{0x85, 0x85}, runeRange{0x2028, 0x2029})}
		return &node{kind: atomic, list: []*node{{kind: anyOf, list: []*node{pair, single}}}}, nil
	case 'K':
		return &node{kind: keep}, nil
	case 'X':
		return &node{kind: segment}, nil
	case 'k':
		return p.namedReference(f)
	case '1', '2', '3', '4', '5', '6', '7', '8', '9':
		end := p.at
		for end < len(p.text) && '0' <= p.text[end] && p.text[end] <= '9' {
			end++
		}
		n, err := strconv.Atoi(p.text[p.at-1 : end])
		if err != nil || n > 9 && n > p.groups {
			return nil, errConstruct(`the escape \%s (write \x{…} for a character)`, p.text[p.at-1:end])
		}
		if p.naming {
			return nil, errSyntax(`\%d beside groups with names`, n)
		}
		p.at = end
		return p.reference(n, f)
	default:
		return nil, errConstruct(`the escape \%c`, r)
	}
}

func (p *parser) reference(n int, f flags) (*node, error) {
	switch {
	case f.fold:
		return nil, errConstruct(`\%d under (?i)`, n)
	case n > p.groups:
		return nil, errConstruct(`\%d before the group that it refers to`, n)
	}
	return &node{kind: reference, number: n}, nil
}

// namedReference reads what follows \k.
func (p *parser) namedReference(f flags) (*node, error) {
	close := map[byte]string{'<': ">", '\'': "'"}[p.peek()]
	n := -1
	if close != "" {
		n = strings.Index(p.text[p.at+1:], close)
	}
	if n < 1 {
		return nil, errSyntax(`\k has no name`)
	}
	name := p.text[p.at+1 : p.at+1+n]
	p.at += n + 2
	number, ok := p.named[name]
	if !ok {
		if number, _ = strconv.Atoi(name); number < 1 || p.naming {
			return nil, errConstruct(`the reference \k<%s>`, name)
		}
	}
	return p.reference(number, f)
}

// escapedRune reads an escape that stands for a character; false, without reading anything, if the next one does not.
func (p *parser) escapedRune() (rune, bool, error) {
	if p.end() {
		return 0, false, errSyntax("it ends with a backslash")
	}
	before := p.at
	digits := func(base, least, most int) (rune, bool) {
		end := p.at
		for end < len(p.text) && end < p.at+most {
			if _, err := strconv.ParseUint(p.text[end:end+1], base, 8); err != nil {
				break
			}
			end++
		}
		n, _ := strconv.ParseUint("0"+p.text[p.at:end], base, 32)
		ok := end-p.at >= least
		p.at = end
		return rune(min(n, 1<<30)), ok
	}
	r := p.rune()
	value, special := escapes[r]
	switch {
	case special:
		return value, true, nil
	case r == 'x' || r == 'o':
		base, most := 16, 8
		if r == 'o' {
			base, most = 8, 11
		}
		if p.skip("{") {
			value, _ := digits(base, 1, most)
			if !p.skip("}") || value > 0x10ffff || 0xd800 <= value && value < 0xe000 {
				return 0, false, errConstruct(`the escape %.12q`, p.text[before-1:])
			}
			return value, true, nil
		}
		if r == 'o' {
			return 'o', true, nil
		}
		value, _ := digits(16, 0, 2)
		if value > 0x7f {
			return 0, false, errConstruct(`a byte of UTF-8 as \x%02x (write \x{…})`, value)
		}
		return value, true, nil
	case r == 'u':
		value, ok := digits(16, 4, 4)
		if !ok || 0xd800 <= value && value < 0xe000 {
			return 0, false, errConstruct(`the escape %.6q`, p.text[before-1:])
		}
		return value, true, nil
	case r == '0':
		value, _ := digits(8, 0, 2)
		return value, true, nil
	case r == 'c' || r == 'C' || r == 'M':
		if r == 'c' || r == 'C' && p.skip("-") {
			if c := p.peek(); c != 0 && c < utf8.RuneSelf && c != '\\' {
				p.at++
				if c == '?' {
					return 0x7f, true, nil
				}
				return rune(c & 0x9f), true, nil
			}
		}
		return 0, false, errConstruct(`the escape \%c`, r)
	case (r == 'p' || r == 'P') && p.peek() == '{':
		p.at = before
		return 0, false, nil
	case strings.ContainsRune("wWdDsShHbBAzZNORKXkgGyY123456789", r):
		p.at = before
		return 0, false, nil
	}
	return r, true, nil
}
