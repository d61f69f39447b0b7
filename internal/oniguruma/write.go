package oniguruma

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dlclark/regexp2"
)

// A Regexp is a compiled expression. Many goroutines may use it at once.
type Regexp struct {
	expression string
	re         *regexp2.Regexp
	alphabet   *alphabet // maps the characters of a text to those of re; nil for an expression that compares stretches of text (\1)
	keeps      bool      // the last capture of the group keepGroup is where a match begins
}

// keepGroup is the group of regexp2 that stands for \K.
const keepGroup = "keep"

// Compile compiles an expression in the syntax of Oniguruma. The search for one match may take the given time.
func Compile(expression string, timeout time.Duration) (*Regexp, error) {
	tree, err := parse(expression)
	if err != nil {
		return nil, fmt.Errorf("%w: %q", err, expression)
	}
	w := &writer{}
	if tree, err = w.expand(tree, false); err != nil {
		return nil, fmt.Errorf("%w: %q", err, expression)
	}
	if !w.refers {
		w.alphabet = newAlphabet(w.sets)
	}
	w.write(tree)
	re, err := regexp2.Compile(w.out.String(), regexp2.None)
	if err != nil {
		return nil, fmt.Errorf("unsupported regular expression %q: the engine that runs it: %w", expression, err)
	}
	re.MatchTimeout = timeout
	return &Regexp{expression, re, w.alphabet, w.keeps}, nil
}

// String returns the expression.
func (r *Regexp) String() string { return r.expression }

// Matches calls found for each match in order, with the indexes in text of its first character and of the one after its last, until found
// returns false. It fails if the search for a match takes longer than the timeout.
func (r *Regexp) Matches(text []rune, found func(start, end int) bool) error {
	symbols := text
	if r.alphabet != nil {
		symbols = make([]rune, len(text))
		for i, c := range text {
			symbols[i] = r.alphabet.symbol(c)
		}
	}
	last := -1
	m, err := r.re.FindRunesMatch(symbols)
	for m != nil && err == nil {
		start, end := m.Index, m.Index+m.Length
		if r.keeps {
			if captures := m.GroupByName(keepGroup).Captures; len(captures) > 0 {
				start = captures[len(captures)-1].Index
			}
		}
		// An empty match right after another one does not count.
		if (start < end || start != last) && !found(start, end) {
			return nil
		}
		last = end
		m, err = r.re.FindNextMatch(m)
	}
	return err
}

// A writer writes a tree in the syntax of regexp2. Nothing of the result depends on what regexp2 takes for a word, a line or a letter:
// classes are ranges, and anchors are lookarounds.
type writer struct {
	out      strings.Builder
	alphabet *alphabet
	sets     []runeSet
	refers   bool
	keeps    bool
}

func just(s runeSet) *node       { return &node{kind: oneOf, set: s} }
func concat(list ...*node) *node { return &node{kind: inOrder, list: list} }
func either(list ...*node) *node { return &node{kind: anyOf, list: list} }
func before(n *node) *node       { return &node{kind: lookAround, back: true, list: []*node{n}} }
func notBefore(n *node) *node {
	return &node{kind: lookAround, back: true, not: true, list: []*node{n}}
}
func after(n *node) *node    { return &node{kind: lookAround, list: []*node{n}} }
func notAfter(n *node) *node { return &node{kind: lookAround, not: true, list: []*node{n}} }
func times(n *node, least int) *node {
	return &node{kind: repeated, least: least, most: unbounded, list: []*node{n}}
}

// anchors are the positions of Oniguruma in terms of \A, \z and looks. A text that ends with a newline has no line after that newline.
var anchors = map[string]func(n *node) *node{
	"^": func(*node) *node {
		return either(edge(`\A`), concat(before(just(newline)), notAfter(edge(`\z`))))
	},
	"$": func(*node) *node { return either(after(just(newline)), concat(edge(`\z`), notBefore(just(newline)))) },
	`\Z`: func(*node) *node {
		return either(after(concat(just(newline), edge(`\z`))), concat(edge(`\z`), notBefore(just(newline))))
	},
	`\b`: func(n *node) *node {
		w := just(n.word)
		return either(concat(before(w), notAfter(w)), concat(notBefore(w), after(w)))
	},
	`\B`: func(n *node) *node {
		w := just(n.word)
		return either(concat(before(w), after(w)), concat(notBefore(w), notAfter(w)))
	},
}

var newline = runesOf('\n')

// edge is an end of the text, which regexp2 has too.
func edge(name string) *node { return &node{kind: position, anchor: name} }

// cluster returns an extended grapheme cluster (Unicode Standard Annex 29) as Oniguruma matches it: a character, and each one after it
// that no boundary separates from the one before.
func cluster() *node {
	class := func(name string) *node { return just(propertySet(name)) }
	control := propertySet("gcb=control").union(runesOf('\r', '\n'))
	inside := either(
		concat(before(just(runesOf('\r'))), after(just(newline))),
		concat(notBefore(just(control)), notAfter(just(control)), either(
			concat(before(class("gcb=l")), after(either(class("gcb=l"), class("gcb=v"), class("gcb=lv"), class("gcb=lvt")))),
			concat(before(either(class("gcb=lv"), class("gcb=v"))), after(either(class("gcb=v"), class("gcb=t")))),
			concat(before(either(class("gcb=lvt"), class("gcb=t"))), after(class("gcb=t"))),
			after(class("gcb=extend")),
			before(class("gcb=prepend")),
			concat(before(concat(class("pictographic"), times(class("gcb=extendonly"), 0), just(runesOf(0x200d)))),
				after(class("pictographic"))),
			concat(before(concat(either(edge(`\A`), just(propertySet("gcb=regional").invert())),
				times(concat(class("gcb=regional"), class("gcb=regional")), 0), class("gcb=regional"))), after(class("gcb=regional"))),
		)))
	return &node{kind: atomic, list: []*node{concat(just(everyRune), times(concat(inside, just(everyRune)), 0))}}
}

// expand replaces what regexp2 lacks, and notes the sets of the tree. looking is set inside lookarounds.
func (w *writer) expand(n *node, looking bool) (*node, error) {
	switch n.kind {
	case oneOf:
		w.sets = append(w.sets, n.set)
		return n, nil
	case position:
		if write := anchors[n.anchor]; write != nil {
			return w.expand(write(n), true)
		}
		return n, nil
	case segment:
		return w.expand(cluster(), looking)
	case reference:
		if looking {
			return nil, errConstruct("a reference in a lookaround")
		}
		w.refers = true
		return n, nil
	case keep:
		if looking {
			return nil, errConstruct(`\K in a lookaround`)
		}
		w.keeps = true
		return n, nil
	}
	out := *n
	out.list = make([]*node, len(n.list))
	for i, child := range n.list {
		c, err := w.expand(child, looking || n.kind == lookAround)
		if err != nil {
			return nil, err
		}
		out.list[i] = c
	}
	return &out, nil
}

// looks are the beginnings of lookarounds by back and not.
var looks = map[[2]bool]string{{false, false}: "(?=", {false, true}: "(?!", {true, false}: "(?<=", {true, true}: "(?<!"}

func (w *writer) write(n *node) {
	within := func(open string, separator string) {
		w.out.WriteString(open)
		for i, child := range n.list {
			if i > 0 {
				w.out.WriteString(separator)
			}
			w.write(child)
		}
		w.out.WriteString(")")
	}
	switch n.kind {
	case oneOf:
		w.writeSet(n.set)
	case inOrder:
		within("(?:", "")
	case anyOf:
		within("(?:", "|")
	case grouped:
		if w.refers {
			within("(?<g"+strconv.Itoa(n.number)+">", "")
		} else {
			within("(?:", "")
		}
	case atomic:
		within("(?>", "")
	case lookAround:
		within(looks[[2]bool{n.back, n.not}], "")
	case position:
		w.out.WriteString(n.anchor)
	case reference:
		w.out.WriteString(`\k<g` + strconv.Itoa(n.number) + ">")
	case keep:
		w.out.WriteString("(?<" + keepGroup + ">)")
	case repeated:
		if n.possessive {
			w.out.WriteString("(?>")
		}
		within("(?:", "")
		fmt.Fprintf(&w.out, "{%d,", n.least)
		if n.most != unbounded {
			w.out.WriteString(strconv.Itoa(n.most))
		}
		w.out.WriteString("}")
		if n.lazy {
			w.out.WriteString("?")
		}
		if n.possessive {
			w.out.WriteString(")")
		}
	}
}

func (w *writer) writeSet(s runeSet) {
	if w.alphabet != nil {
		s = w.alphabet.symbols(s)
	}
	if len(s) == 0 {
		w.out.WriteString("(?!)")
		return
	}
	w.out.WriteString("[")
	for _, r := range s {
		w.writeRune(r.first)
		if r.last > r.first {
			w.out.WriteString("-")
			w.writeRune(r.last)
		}
	}
	w.out.WriteString("]")
}

// writeRune writes a character of a class.
func (w *writer) writeRune(r rune) {
	if r < 0x10000 {
		fmt.Fprintf(&w.out, `\u%04X`, r)
	} else {
		w.out.WriteRune(r)
	}
}
