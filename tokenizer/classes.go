package tokenizer

import (
	_ "embed" // tables.txt
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// A class is a set of the properties that normalising and splitting look at.
//
// They are the ones that Hugging Face's tokenizers goes by, and not those of one version of Unicode: it takes general categories from
// Unicode 8, decompositions and combining classes from Unicode 9, words from Unicode 16, case from Unicode 17. Go's own tables differ
// for some 600 code points (a mark that came with Unicode 10 is dropped by them and kept by tokenizers, for one), and other ones with
// each release of Go. tables.txt was therefore made by asking tokenizers about every code point, and TestEveryCodePoint holds that there
// is no difference. Go and x/text are left with what Unicode does not change once a character is assigned: its decomposition, its
// combining class, its lower case, and what is white space.
type class uint32

const (
	dropped class = 1 << iota
	punct
	chinese
	mark
	nonstarter
	composed
	compat
	combining
	numeric
	letter
	number
	capital
	small
	anyMark
	blank
	extend
	prefixing
	control
	word
	space    // White_Space
	upper    // may have a lower case
	unstable // may change under composition: fillComposites
)

// classNames are the classes that tables.txt has, which says what each is.
var classNames = map[string]class{
	"dropped": dropped, "punct": punct, "chinese": chinese, "mark": mark, "nonstarter": nonstarter, "composed": composed, "compat": compat,
	"combining": combining, "numeric": numeric, "letter": letter, "number": number, "capital": capital, "small": small, "anyMark": anyMark,
	"blank": blank, "extend": extend, "prefixing": prefixing, "control": control, "word": word,
}

//go:embed tables.txt
var tables string

// goTables are the classes that Go's tables have.
var goTables = []struct {
	class class
	table *unicode.RangeTable
}{
	{space, unicode.White_Space},
	{upper, unicode.Upper},
	{upper, unicode.Title},
	{upper, unicode.Other_Uppercase},
	{upper, lateUpper},
}

// lateLower holds the lower case of the letters that came with Unicode 16 and 17, after the tables of Go 1.26.
var lateLower = unicode.SpecialCase{
	{Lo: 0x1c89, Hi: 0x1c89, Delta: [3]rune{0, 1, 0}},
	{Lo: 0xa7cb, Hi: 0xa7cb, Delta: [3]rune{0, 0x264 - 0xa7cb, 0}},
	{Lo: 0xa7cc, Hi: 0xa7cc, Delta: [3]rune{0, 1, 0}},
	{Lo: 0xa7ce, Hi: 0xa7ce, Delta: [3]rune{0, 1, 0}},
	{Lo: 0xa7d2, Hi: 0xa7d2, Delta: [3]rune{0, 1, 0}},
	{Lo: 0xa7d4, Hi: 0xa7d4, Delta: [3]rune{0, 1, 0}},
	{Lo: 0xa7da, Hi: 0xa7da, Delta: [3]rune{0, 1, 0}},
	{Lo: 0xa7dc, Hi: 0xa7dc, Delta: [3]rune{0, 0x19b - 0xa7dc, 0}},
	{Lo: 0x10d50, Hi: 0x10d65, Delta: [3]rune{0, 32, 0}},
	{Lo: 0x16ea0, Hi: 0x16eb8, Delta: [3]rune{0, 27, 0}},
}

// lateUpper is the domain of lateLower.
var lateUpper = func() *unicode.RangeTable {
	t := &unicode.RangeTable{}
	for _, c := range lateLower {
		if c.Hi < 1<<16 {
			t.R16 = append(t.R16, unicode.Range16{Lo: uint16(c.Lo), Hi: uint16(c.Hi), Stride: 1})
		} else {
			t.R32 = append(t.R32, unicode.Range32{Lo: c.Lo, Hi: c.Hi, Stride: 1})
		}
	}
	return t
}()

// classes holds the classes of the first two planes, where nearly all text is; fillClasses fills it.
var classes [1 << 17]class

// lateClasses are the ranges of the other planes.
var lateClasses []classRange

// A classRange is every step-th character from first to last.
type classRange struct {
	first, last, step rune
	class             class
}

// fillClasses reads the tables. Open calls it, so that the tables are there before a text is tokenized.
var fillClasses = sync.OnceFunc(func() {
	current := class(0)
	for line := range strings.Lines(tables) {
		if name, _, heading := strings.Cut(line, ": "); heading {
			current = classNames[name]
			continue
		}
		for field := range strings.FieldsSeq(line) {
			addClass(parseRange(field, current))
		}
	}
	for _, row := range goTables {
		for _, r := range row.table.R16 {
			addClass(classRange{rune(r.Lo), rune(r.Hi), rune(r.Stride), row.class})
		}
		for _, r := range row.table.R32 {
			addClass(classRange{rune(r.Lo), rune(r.Hi), rune(r.Stride), row.class})
		}
	}
	fillComposites()
})

// parseRange reads a range of tables.txt: "41", "41-5a" or "100-136/2".
func parseRange(text string, c class) classRange {
	text, step, _ := strings.Cut(text, "/")
	first, last, _ := strings.Cut(text, "-")
	number := func(text string, otherwise rune) rune {
		if n, err := strconv.ParseUint(text, 16, 21); err == nil {
			return rune(n)
		}
		return otherwise
	}
	r := classRange{first: number(first, 0), step: number(step, 1), class: c}
	r.last = number(last, r.first)
	return r
}

func addClass(r classRange) {
	if r.last >= rune(len(classes)) {
		if n := len(lateClasses) - 1; n >= 0 && lateClasses[n].class == r.class && lateClasses[n].last+1 == r.first &&
			lateClasses[n].step == 1 && r.step == 1 {
			lateClasses[n].last = r.last
		} else {
			lateClasses = append(lateClasses, r)
		}
	}
	for c := r.first; c <= r.last && c < rune(len(classes)); c += r.step {
		classes[c] |= r.class
	}
}

// each calls do for each character of a class.
func (c class) each(do func(rune)) {
	for r, k := range classes {
		if k&c != 0 {
			do(rune(r))
		}
	}
	for _, r := range lateClasses {
		for x := max(r.first, rune(len(classes))); r.class == c && x <= r.last; x += r.step {
			do(x)
		}
	}
}

// classOf returns the classes of a character.
func classOf(r rune) class {
	if int(r) < len(classes) {
		return classes[r]
	}
	var c class
	for _, k := range lateClasses {
		if k.first <= r && r <= k.last && (r-k.first)%k.step == 0 {
			c |= k.class
		}
	}
	return c
}
