package tokenizer

import (
	"sync"
	"unicode"
)

// A class is a set of the properties that normalising and splitting look at.
//
// They are the ones that Hugging Face's tokenizers goes by, and not those of one version of Unicode: it takes general categories from
// Unicode 8, decompositions and combining classes from Unicode 9, words from Unicode 16, case from Unicode 17. Go's own tables differ
// for some 600 code points (a mark that came with Unicode 10 is dropped by them and kept by tokenizers, for one), and other ones with
// each release of Go. tables.go was therefore made by asking tokenizers about every code point, and TestEveryCodePoint holds that there
// is no difference. Go and x/text are left with what Unicode does not change once a character is assigned: its decomposition, its
// combining class, its lower case, and what is white space.
type class uint32

const (
	dropped    class = 1 << iota // droppedTable
	punct                        // punctTable
	chinese                      // chineseTable
	mark                         // markTable
	nonstarter                   // nonstarterTable
	composed                     // composedTable
	space                        // White_Space
	upper                        // may have a lower case
	compat                       // compatTable
	combining                    // combiningTable
	numeric                      // numericTable
	letter                       // letterTable
	number                       // numberTable
	capital                      // capitalTable
	small                        // smallTable
	anyMark                      // anyMarkTable
	blank                        // blankTable
	extend                       // extendTable
	word                         // wordTable
	unstable                     // may change under composition: fillComposites
)

// classTables says which characters are in which class; a character may be in several.
var classTables = []struct {
	class class
	table *unicode.RangeTable
}{
	{dropped, droppedTable},
	{punct, punctTable},
	{chinese, chineseTable},
	{mark, markTable},
	{nonstarter, nonstarterTable},
	{composed, composedTable},
	{compat, compatTable},
	{combining, combiningTable},
	{numeric, numericTable},
	{letter, letterTable},
	{number, numberTable},
	{capital, capitalTable},
	{small, smallTable},
	{anyMark, anyMarkTable},
	{blank, blankTable},
	{extend, extendTable},
	{word, wordTable},
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

// classes holds the classes of the first two planes, where nearly all text lies; fillClasses fills it.
var classes [1 << 17]class

var fillClasses = sync.OnceFunc(func() {
	set := func(c class, low, high, stride uint32) {
		for r := low; r <= high && r < uint32(len(classes)); r += stride {
			classes[r] |= c
		}
	}
	for _, row := range classTables {
		for _, r := range row.table.R16 {
			set(row.class, uint32(r.Lo), uint32(r.Hi), uint32(r.Stride))
		}
		for _, r := range row.table.R32 {
			set(row.class, r.Lo, r.Hi, r.Stride)
		}
	}
})

// classOf returns the classes of a character. Open has called fillClasses before any text comes in.
func classOf(r rune) class {
	if int(r) < len(classes) {
		return classes[r]
	}
	return lateClassOf(r)
}

// lateClassOf is classOf beyond the first two planes.
func lateClassOf(r rune) class {
	var c class
	for _, row := range classTables {
		if unicode.Is(row.table, r) {
			c |= row.class
		}
	}
	return c
}
