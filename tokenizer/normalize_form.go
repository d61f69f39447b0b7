package tokenizer

import (
	"cmp"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A form is one of the normalization forms of Unicode Standard Annex 15, by the tables of Unicode 9 that tokenizers has.
type unicodeForm struct {
	compatible, compose bool
	unsafe              class // characters that may change, or change others
}

const (
	canonical, compatible  = false, true
	decomposing, composing = false, true
)

func form(compatible, compose bool) func(json.RawMessage, int) (normalizer, error) {
	return func(json.RawMessage, int) (normalizer, error) {
		f := unicodeForm{compatible: compatible, compose: compose, unsafe: nonstarter | composed}
		if compose {
			f.unsafe = nonstarter | unstable
		}
		if compatible {
			f.unsafe |= compat
		}
		return f, nil
	}
}

// composites maps a pair of characters to their primary composite.
var composites map[[2]rune]rune

// fillComposites fills composites, and marks what is unstable under composition: the characters that compose with one before them, and
// those that do not come back.
func fillComposites() {
	whole := map[string]rune{} // the primary composites by their full decompositions
	var list []rune
	mark := func(r rune) { addClass(classRange{r, r, 1, unstable}) }
	composed.each(func(r rune) {
		if hangulBase <= r && r < hangulBase+hangulCount {
			return
		}
		if norm.NFC.IsNormalString(string(r)) {
			whole[string(properties(r).Decomposition())] = r
			list = append(list, r)
		} else {
			mark(r)
		}
	})
	composites = make(map[[2]rune]rune, len(list))
	for _, r := range list {
		d := properties(r).Decomposition()
		last, size := utf8.DecodeLastRune(d)
		head := d[:len(d)-size]
		first, headSize := utf8.DecodeRune(head)
		if headSize < len(head) {
			first = whole[string(head)]
		}
		composites[[2]rune{first, last}] = r
		mark(last)
	}
	for r := rune(jamoV); r < jamoV+vowels; r++ {
		mark(r)
	}
	for r := rune(jamoT + 1); r < jamoT+trails; r++ {
		mark(r)
	}
}

// compose returns the primary composite of two characters.
func compose(a, b rune) (rune, bool) {
	switch {
	case jamoL <= a && a < jamoL+hangulCount/(vowels*trails) && jamoV <= b && b < jamoV+vowels:
		return hangulBase + ((a-jamoL)*vowels+(b-jamoV))*trails, true
	case hangulBase <= a && a < hangulBase+hangulCount && (a-hangulBase)%trails == 0 && jamoT < b && b < jamoT+trails:
		return a + (b - jamoT), true
	}
	r, ok := composites[[2]rune{a, b}]
	return r, ok
}

// A change is a character on its way, and how it changes the text: see edit.put.
type change struct {
	r      rune
	change int
	ccc    uint8
}

// decompositionOf appends the full decomposition of a character.
func (f unicodeForm) decompositionOf(dst []change, r rune) []change {
	k := classOf(r)
	add := func(r rune, first bool) {
		c := change{r: r, change: 1}
		if first {
			c.change = 0
		}
		if classOf(r)&nonstarter != 0 {
			c.ccc = properties(r).CCC()
		}
		dst = append(dst, c)
	}
	switch {
	case k&composed != 0 && hangulBase <= r && r < hangulBase+hangulCount:
		s := r - hangulBase
		add(jamoL+s/(vowels*trails), true)
		add(jamoV+s%(vowels*trails)/trails, false)
		if trail := s % trails; trail != 0 {
			add(jamoT+trail, false)
		}
	case k&composed != 0 && !f.compatible:
		for i, part := range string(properties(r).Decomposition()) {
			add(part, i == 0)
		}
	case f.compatible && k&(compat|composed) != 0:
		var buf [utf8.UTFMax]byte
		for i, part := range string(norm.NFKD.Properties(utf8.AppendRune(buf[:0], r)).Decomposition()) {
			add(part, i == 0)
		}
	default:
		add(r, true)
	}
	return dst
}

func (f unicodeForm) isUnsafe(r rune) bool {
	return r >= 0xa0 && classOf(r)&f.unsafe != 0
}

// normalize rewrites the stretches around unsafe characters: from the safe character before them to the next safe starter.
func (f unicodeForm) normalize(t *text) error {
	var e edit
	var run []change
	done, last := 0, 0 // what is before is in e; where the last character begins
	for i := 0; i < len(t.bytes); {
		r, size := decodeRune(t.bytes[i:])
		if !f.isUnsafe(r) {
			last = i
			i += size
			continue
		}
		if e.t == nil {
			e = t.edit()
		}
		start := max(last, done)
		e.copy(done, start)
		run = run[:0]
		for i = start; i < len(t.bytes); i += size {
			r, size = decodeRune(t.bytes[i:])
			if i > start && !f.isUnsafe(r) {
				break
			}
			run = f.decompositionOf(run, r)
		}
		sortMarks(run)
		if f.compose {
			run = recompose(run)
		}
		e.at = start
		for _, c := range run {
			e.put(c.r, c.change)
		}
		done, last = i, i
	}
	if e.t != nil {
		e.copy(done, len(t.bytes))
		e.done()
	}
	return nil
}

// sortMarks puts the marks after each starter into canonical order.
func sortMarks(run []change) {
	for i := 0; i < len(run); {
		j := i + 1
		if run[i].ccc != 0 {
			for j < len(run) && run[j].ccc != 0 {
				j++
			}
			slices.SortStableFunc(run[i:j], func(a, b change) int { return cmp.Compare(a.ccc, b.ccc) })
		}
		i = j
	}
}

// recompose is the canonical composition algorithm. A composite replaces all that went into it.
func recompose(run []change) []change {
	out := run[:0]
	starter := -1 // the index in out of the starter that composes, if any
	last := -1    // the class of the mark since then that was not composed; -1 for none
	for _, c := range run {
		if starter >= 0 && (last < 0 || last < int(c.ccc)) {
			if r, ok := compose(out[starter].r, c.r); ok {
				out[starter].r = r
				out[starter].change += c.change - 1
				continue
			}
		}
		if c.ccc == 0 {
			starter, last = len(out), -1
		} else if starter >= 0 {
			last = int(c.ccc)
		}
		out = append(out, c)
	}
	return out
}
