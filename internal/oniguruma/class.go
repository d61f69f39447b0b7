package oniguruma

import (
	"bytes"
	"cmp"
	"compress/gzip"
	_ "embed" // properties.txt.gz
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// properties.txt.gz is made by testdata/properties.py, which asks tokenizers. A line is "set NAME NAME…: RANGES", with names that begin
// with "[:" for POSIX brackets and with a backslash for escapes; "fold CHARACTERS" for characters that (?i) does not distinguish; or
// "folds CHARACTER SEQUENCE" for a character that (?i) does not distinguish from a sequence. Characters are in hexadecimal.
//
//go:embed properties.txt.gz
var propertiesFile []byte

// properties are the facts of properties.txt.gz.
type properties struct {
	sets    map[string]func() runeSet
	orbits  map[rune][]rune   // characters that (?i) does not distinguish, by each of them
	folds   map[rune][]rune   // the sequence of a character
	strings map[string][]rune // the characters of a sequence
}

var facts = sync.OnceValue(func() *properties {
	p := &properties{map[string]func() runeSet{}, map[rune][]rune{}, map[rune][]rune{}, map[string][]rune{}}
	r, err := gzip.NewReader(bytes.NewReader(propertiesFile))
	if err != nil {
		panic(err) // the file is part of the program
	}
	data, err := io.ReadAll(r)
	if err != nil {
		panic(err)
	}
	runes := func(fields string) (list []rune) {
		for field := range strings.FieldsSeq(fields) {
			n, _ := strconv.ParseUint(field, 16, 21)
			list = append(list, rune(n))
		}
		return list
	}
	for line := range strings.Lines(string(data)) {
		what, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch what {
		case "set":
			names, ranges, _ := strings.Cut(rest, ": ")
			set := sync.OnceValue(func() runeSet {
				var s runeSet
				for field := range strings.FieldsSeq(ranges) {
					first, last, _ := strings.Cut(field, "-")
					r := runes(first + " " + cmp.Or(last, first))
					s = append(s, runeRange{r[0], r[1]})
				}
				return s
			})
			for name := range strings.FieldsSeq(names) {
				p.sets[name] = set
			}
		case "fold":
			list := runes(rest)
			for _, r := range list {
				p.orbits[r] = list
			}
		case "folds":
			list := runes(rest)
			p.folds[list[0]] = list[1:]
			key := p.canonical(list[1:])
			p.strings[key] = append(p.strings[key], list[0])
		}
	}
	return p
})

// propertySet returns the characters of a name of properties.txt.gz, which must be there.
func propertySet(name string) runeSet { return facts().sets[name]() }

var asciiRunes = runeSet{{0, 0x7f}}

// asciiIf returns the characters of a set that are ASCII if only is set, else all.
func asciiIf(s runeSet, only bool) runeSet {
	if only {
		return s.intersect(asciiRunes)
	}
	return s
}

func (f flags) wordSet() runeSet { return asciiIf(propertySet(`\w`), f.asciiWord || f.asciiAll) }

// escapedSet reads an escape that stands for a class; false, without reading anything, if the next one does not. With inClass it is in a
// class, where a few characters of U+0080 to U+00FF belong to other sets than outside.
func (p *parser) escapedSet(f flags, inClass bool) (runeSet, bool, error) {
	open, end := "", ""
	if inClass {
		open, end = "[", "]"
	}
	before := p.at
	r := p.rune()
	not := 'A' <= r && r <= 'Z'
	switch r {
	case 'w', 'W':
		return asciiIf(propertySet(open+`\w`+end), f.asciiWord || f.asciiAll).invertIf(not), true, nil
	case 'd', 'D':
		return asciiIf(propertySet(open+`\d`+end), f.asciiDigit || f.asciiAll).invertIf(not), true, nil
	case 's', 'S':
		return asciiIf(propertySet(open+`\s`+end), f.asciiSpace || f.asciiAll).invertIf(not), true, nil
	case 'h', 'H':
		return propertySet(open + `\h` + end).invertIf(not), true, nil
	case 'p', 'P':
		p.at++ // the brace
		if p.skip("^") {
			not = !not
		}
		n := strings.IndexByte(p.text[p.at:], '}')
		if n < 0 {
			return nil, false, errSyntax(`\%c{ has no end`, r)
		}
		name := p.text[p.at : p.at+n]
		p.at += n + 1
		set, ok := f.property(name, open, end)
		if !ok {
			return nil, false, errSyntax(`unknown property \p{%s}`, name)
		}
		return set.invertIf(not), true, nil
	}
	p.at = before
	return nil, false, nil
}

// property returns the characters of a property; its name's case, spaces, _ and - do not count. In a class, open and end are brackets.
func (f flags) property(name, open, end string) (runeSet, bool) {
	name = strings.ToLower(strings.NewReplacer(" ", "", "_", "", "-", "").Replace(name))
	sets := facts().sets
	set, ok := sets[name]
	if strings.ContainsAny(name, `[:=\`) || !ok {
		return nil, false
	}
	if inClass, ok := sets[open+name+end]; ok {
		set = inClass
	}
	return f.restrict(set(), name), true
}

// restrict returns the characters of a POSIX name under the options (?WDSP).
func (f flags) restrict(s runeSet, name string) runeSet {
	only := f.asciiAll && slices.Contains(posixNames, name)
	switch name {
	case "word":
		only = only || f.asciiWord
	case "digit":
		only = only || f.asciiDigit
	case "space":
		only = only || f.asciiSpace
	}
	return asciiIf(s, only)
}

// posixNames are the names of POSIX brackets.
var posixNames = []string{"alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "xdigit",
	"ascii", "word"}

// class reads what follows "[", up to its "]". multi are the sequences that a class under (?i) matches beside its characters.
func (p *parser) class(f flags) (set runeSet, multi [][]rune, err error) {
	not := p.skip("^")
	set, err = p.classSet(f)
	if err != nil {
		return nil, nil, err
	}
	if f.fold {
		known := facts()
		if !not {
			for r, sequence := range known.folds {
				if set.has(r) {
					multi = append(multi, sequence)
				}
			}
			slices.SortFunc(multi, slices.Compare)
			multi = slices.CompactFunc(multi, slices.Equal)
		}
		set = closure(set)
	}
	return set.invertIf(not), multi, nil
}

// closure returns a set with the characters that (?i) does not distinguish from its own.
func closure(s runeSet) runeSet {
	ranges := slices.Clone(s)
	for r, orbit := range facts().orbits {
		if s.has(r) {
			for _, other := range orbit {
				ranges = append(ranges, runeRange{other, other})
			}
		}
	}
	return newRuneSet(ranges...)
}

// A classState is the kind of the last element that the parser has read in a class.
type classState int

const (
	classStart    classState = iota // nothing, or &&
	classValue                      // a character, which may begin a range
	classProperty                   // an escape or bracket that stands for characters
	classRange                      // a character and a hyphen
	classComplete                   // a range or a class
)

// classSet reads a class after its "^", up to its "]".
func (p *parser) classSet(f flags) (runeSet, error) {
	if p.depth++; p.depth > maxGroupDepth {
		return nil, errConstruct("classes nested more than %d deep", maxGroupDepth)
	}
	defer func() { p.depth-- }()
	set := everyRune
	var current []runeRange // since the last &&
	var value rune          // the character that was read last, in the states classValue and classRange
	state := classStart
	add := func(s runeSet, next classState) error {
		if state == classRange {
			return errSyntax("a range ends with a class")
		}
		current, state = append(current, s...), next
		return nil
	}
	put := func(r rune) error {
		if state != classRange {
			current, state = append(current, runeRange{r, r}), classValue
		} else if r < value {
			return errSyntax("an empty range in a class")
		} else {
			current, state = append(current, runeRange{value, r}), classComplete
		}
		value = r
		return nil
	}
	for first := true; ; first = false {
		if p.end() {
			return nil, errSyntax("a class does not end")
		}
		var err error
		switch r := p.rune(); {
		case r == ']' && !(first && strings.Contains(p.text[p.at:], "]")):
			return set.intersect(newRuneSet(current...)), nil
		case r == '&' && p.skip("&"):
			set, current, state = set.intersect(newRuneSet(current...)), nil, classStart
		case r == '[':
			posix, ok, bad := p.posix(f)
			switch {
			case bad != nil:
				err = bad
			case ok:
				err = add(posix, classProperty)
			default:
				not := p.skip("^")
				inner, bad := p.classSet(f)
				if err = bad; err == nil {
					err = add(inner.invertIf(not), classComplete)
				}
			}
		case r == '-' && (state == classValue || state == classProperty) && p.peek() != ']' && !strings.HasPrefix(p.text[p.at:], "&&"):
			if state == classProperty {
				err = errSyntax("a range begins with a class")
			}
			state = classRange
		case r == '\\':
			value, ok, bad := p.classEscape()
			switch {
			case bad != nil:
				err = bad
			case ok:
				err = put(value)
			default:
				escaped, ok, bad := p.escapedSet(f, true)
				if bad == nil && !ok {
					bad = errConstruct(`the escape \%c in a class`, p.rune())
				}
				if err = bad; err == nil {
					err = add(escaped, classProperty)
				}
			}
		default:
			err = put(r)
		}
		if err != nil {
			return nil, err
		}
	}
}

// classEscape is escapedRune in a class, where letters of anchors stand for themselves, \b for a backspace, and digits for octal numbers.
func (p *parser) classEscape() (rune, bool, error) {
	switch c := p.peek(); {
	case c == 'b':
		p.at++
		return '\b', true, nil
	case '1' <= c && c <= '7':
		end := p.at + 1
		for end < len(p.text) && end < p.at+3 && '0' <= p.text[end] && p.text[end] <= '7' {
			end++
		}
		n, _ := strconv.ParseUint(p.text[p.at:end], 8, 16)
		if n > 0x7f {
			return 0, false, errConstruct(`the byte \%s in a class`, p.text[p.at:end])
		}
		p.at = end
		return rune(n), true, nil
	case c != 0 && strings.IndexByte("BAzZNORKXkgGyY89", c) >= 0:
		p.at++
		return rune(c), true, nil
	}
	return p.escapedRune()
}

// posix reads [:name:] after its "["; false, without reading anything, if it is a class.
func (p *parser) posix(f flags) (runeSet, bool, error) {
	rest, ok := strings.CutPrefix(p.text[p.at:], ":")
	end := strings.Index(rest, ":]")
	if !ok || end < 0 || end > 20 || strings.ContainsAny(rest[:end], `\]`) {
		return nil, false, nil
	}
	name, not := strings.CutPrefix(rest[:end], "^")
	if !slices.Contains(posixNames, name) {
		return nil, false, errSyntax("unknown POSIX bracket [:%s:]", name)
	}
	p.at += 1 + end + 2
	return f.restrict(propertySet("[:"+name+":]"), name).invertIf(not), true, nil
}

// withStrings returns a node of a set's characters or some sequences.
func withStrings(set runeSet, multi [][]rune) *node {
	n := &node{kind: oneOf, set: set}
	if len(multi) == 0 {
		return n
	}
	out := &node{kind: anyOf, list: []*node{n}}
	for _, sequence := range multi {
		s := &node{kind: inOrder}
		for _, r := range sequence {
			s.list = append(s.list, &node{kind: oneOf, set: closure(runesOf(r))})
		}
		out.list = append(out.list, s)
	}
	return out
}

// foldedLiteral returns the node of characters under (?i), some sequences of which are also single characters: "ss" is ß.
func foldedLiteral(list []rune) (*node, error) {
	known := facts()
	var plain []rune
	for _, r := range list {
		if sequence, ok := known.folds[r]; ok {
			plain = append(plain, sequence...)
		} else {
			plain = append(plain, r)
		}
	}
	out := &node{kind: inOrder}
	for i := 0; i < len(plain); {
		one := func(r rune) *node { return &node{kind: oneOf, set: closure(runesOf(r))} }
		size := 0
		var single []rune
		for n := 2; n <= 3 && i+n <= len(plain); n++ {
			if list := known.strings[known.canonical(plain[i:i+n])]; list != nil {
				if size > 0 {
					return nil, errConstruct("%q under (?i), of which parts are single characters in several ways", string(list))
				}
				size, single = n, list
			}
		}
		if size == 0 {
			pair := []rune{plain[i], plain[i], plain[i]}
			out.folds = len(plain) == 1 && (known.strings[known.canonical(pair[:2])] != nil || known.strings[known.canonical(pair)] != nil)
			out.list = append(out.list, one(plain[i]))
			i++
			continue
		}
		for k := i + 1; k < i+size; k++ { // another sequence may not begin inside
			for n := 2; n <= 3 && k+n <= len(plain); n++ {
				if k+n > i+size && known.strings[known.canonical(plain[k:k+n])] != nil {
					return nil, errConstruct("%q under (?i), of which parts are single characters in several ways", string(list))
				}
			}
		}
		spelt := &node{kind: inOrder}
		for _, r := range plain[i : i+size] {
			spelt.list = append(spelt.list, one(r))
		}
		out.list = append(out.list, &node{kind: anyOf, list: []*node{spelt, {kind: oneOf, set: closure(runesOf(single...))}}})
		i += size
	}
	return out, nil
}

// canonical returns the sequence in which each character is the first of those that (?i) does not distinguish from it.
func (p *properties) canonical(list []rune) string {
	out := make([]rune, len(list))
	for i, r := range list {
		if out[i] = r; p.orbits[r] != nil {
			out[i] = p.orbits[r][0]
		}
	}
	return string(out)
}
