package tokenizer

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A normalizer is what tokenizers calls BertNormalizer. Its steps, each behind a switch, in this order: clean the text (drop what
// cannot be seen, make all white space spaces), put Chinese characters between spaces, decompose and drop the accents, lower-case.
// But for canonical ordering each step looks at one character alone, so that one pass does them all.
type normalizer struct {
	clean, chinese, strip, lower bool

	ascii [utf8.RuneSelf]byte // what an ASCII character becomes, or drop
}

// drop marks in normalizer.ascii what leaves no trace; no ASCII character has this value.
const drop = 0xff

func newNormalizer(clean, chinese, strip, lower bool) *normalizer {
	n := &normalizer{clean: clean, chinese: chinese, strip: strip, lower: lower}
	for c := range n.ascii {
		k := classOf(rune(c))
		switch {
		case clean && k&dropped != 0:
			n.ascii[c] = drop
		case clean && k&space != 0:
			n.ascii[c] = ' '
		case lower && k&upper != 0:
			n.ascii[c] = byte(c) + 'a' - 'A'
		default:
			n.ascii[c] = byte(c)
		}
	}
	return n
}

// append appends the normal form of text to dst. An invalid UTF-8 byte counts as U+FFFD.
func (n *normalizer) append(dst []byte, text string) []byte {
	o := ordered{text: dst}
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			i++
			if b := n.ascii[c]; b != drop {
				o.sortMarks()
				o.text = append(o.text, b)
			}
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		i += size
		k := classOf(r)
		switch {
		case n.clean && k&dropped != 0:
		case n.clean && k&space != 0:
			o.starter(' ')
		case n.chinese && k&chinese != 0:
			o.starter(' ')
			n.decompose(&o, r, k)
			o.starter(' ')
		default:
			n.decompose(&o, r, k)
		}
	}
	o.sortMarks()
	return o.text
}

// decompose adds the canonical decomposition of a character, if accents are to be dropped, or else the character.
func (n *normalizer) decompose(o *ordered, r rune, k class) {
	switch {
	case !n.strip || k&composed == 0:
		n.add(o, r, k)
	case hangulBase <= r && r < hangulBase+hangulCount:
		// x/text keeps no rows for these. The arithmetic is that of The Unicode Standard, section 3.12.
		s := r - hangulBase
		o.starter(jamoL + s/(vowels*trails))
		o.starter(jamoV + s%(vowels*trails)/trails)
		if trail := s % trails; trail != 0 {
			o.starter(jamoT + trail)
		}
	default:
		for _, part := range string(properties(r).Decomposition()) {
			n.add(o, part, classOf(part))
		}
	}
}

const (
	hangulBase, hangulCount = 0xac00, 11172
	jamoL, jamoV, jamoT     = 0x1100, 0x1161, 0x11a7
	vowels, trails          = 21, 28
)

// add adds a character that is not to be decomposed.
func (n *normalizer) add(o *ordered, r rune, k class) {
	switch {
	case n.strip && k&mark != 0:
		if k&nonstarter == 0 {
			o.sortMarks() // dropped, yet what stands before and after it does not change places
		}
	case n.strip && k&nonstarter != 0:
		o.marks = append(o.marks, r)
	case n.lower && r == 'İ':
		o.starter('i') // the one character whose lower case is two
		o.starter('\u0307')
	case n.lower && k&upper != 0:
		o.starter(lateLower.ToLower(r))
	default:
		o.starter(r)
	}
}

// ordered is text in canonical order: combining characters that follow the same starter stand in the order of their classes. Nearly
// all of them are accents, which are gone by then; marks holds those that are kept (spacing ones, of Indic scripts and of music).
type ordered struct {
	text  []byte
	marks []rune // since the last starter, in the order in which they came
}

// starter adds a character that stays where it is.
func (o *ordered) starter(r rune) {
	o.sortMarks()
	o.text = utf8.AppendRune(o.text, r)
}

// sortMarks moves the marks to the text.
func (o *ordered) sortMarks() {
	if len(o.marks) == 0 {
		return
	}
	slices.SortStableFunc(o.marks, func(a, b rune) int { return cmp.Compare(properties(a).CCC(), properties(b).CCC()) })
	for _, r := range o.marks {
		o.text = utf8.AppendRune(o.text, r)
	}
	o.marks = o.marks[:0]
}

// properties returns what x/text knows about a character.
func properties(r rune) norm.Properties {
	var buf [utf8.UTFMax]byte
	return norm.NFD.Properties(utf8.AppendRune(buf[:0], r))
}
