package tokenizer

import (
	"cmp"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A bertNormalizer does these steps, each optional, in this order: clean the text (drop what cannot be seen, make all white space
// spaces), put Chinese characters between spaces, decompose and drop the accents, lower-case. But for canonical ordering each step looks
// at one character alone, so that one pass does them all.
type bertNormalizer struct {
	clean, chinese, strip, lower bool

	ascii [utf8.RuneSelf]byte // what an ASCII character becomes, or drop
}

// drop marks in bertNormalizer.ascii what leaves no trace; no ASCII character has this value.
const drop = 0xff

// bertSettings are the switches as files have them.
type bertSettings struct {
	Clean   bool  `json:"clean_text"`
	Chinese bool  `json:"handle_chinese_chars"`
	Strip   *bool `json:"strip_accents"` // null: as Lower
	Lower   bool  `json:"lowercase"`
}

// uncased are the switches of uncased BERT, and those that a file does not name.
var uncased = bertSettings{Clean: true, Chinese: true, Lower: true}

func readBertNormalizer(raw json.RawMessage, _ int) (normalizer, error) {
	s := uncased
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	return s.normalizer(), nil
}

func (s bertSettings) normalizer() *bertNormalizer {
	strip := s.Lower
	if s.Strip != nil {
		strip = *s.Strip
	}
	return newBertNormalizer(s.Clean, s.Chinese, strip, s.Lower)
}

func newBertNormalizer(clean, chinese, strip, lower bool) *bertNormalizer {
	n := &bertNormalizer{clean: clean, chinese: chinese, strip: strip, lower: lower}
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

func (n *bertNormalizer) normalize(t *text) error {
	o := ordered{edit: t.edit()}
	track := t.track
	for i := 0; i < len(t.bytes); {
		if t.bytes[i] < utf8.RuneSelf {
			i = n.run(&o, i)
			continue
		}
		r, size := utf8.DecodeRune(t.bytes[i:])
		if track {
			o.own, o.first = t.origin(i), true
		}
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
	o.done()
	return nil
}

// run adds the characters of ASCII that begin at byte i, up to one that is dropped, and returns where to continue.
func (n *bertNormalizer) run(o *ordered, i int) int {
	t := o.t
	if n.ascii[t.bytes[i]] == drop {
		return i + 1
	}
	o.sortMarks()
	start, before, out := i, len(o.out), o.out
	for ; i < len(t.bytes); i++ {
		c := t.bytes[i]
		if c >= utf8.RuneSelf || n.ascii[c] == drop {
			break
		}
		out = append(out, n.ascii[c])
	}
	if t.track {
		o.current = t.origin(i - 1)
		if !o.unmoved || t.from != nil || before != start { // or each is where it was
			for k := start; k < i; k++ {
				o.out = out[:before+k-start+1]
				o.origins(len(o.out)-1, t.origin(k))
			}
		}
	}
	o.out = out
	return i
}

// decompose adds the canonical decomposition of a character, if accents are to be dropped, or else the character.
func (n *bertNormalizer) decompose(o *ordered, r rune, k class) {
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
func (n *bertNormalizer) add(o *ordered, r rune, k class) {
	switch {
	case n.strip && k&mark != 0:
		// Dropped. A mark of class 0 keeps what is before and after it from changing positions; one that would have moved takes an
		// origin with it.
		if k&nonstarter == 0 {
			o.sortMarks()
			o.take()
		} else if o.t.track {
			o.mark(r, true)
		}
	case n.strip && k&nonstarter != 0:
		o.mark(r, false)
	case n.lower && r == 'İ':
		o.starter('i') // the one character whose lower case is two
		o.starter('\u0307')
	case n.lower && k&upper != 0:
		o.starter(lateLower.ToLower(r))
	default:
		o.starter(r)
	}
}

// ordered is text in canonical order: combining characters that follow the same starter are in the order of their classes. Nearly
// all of them are accents, which are dropped; spacing ones, of Indic scripts and of music, are kept. Origins do not move with them: what
// comes first of a character of the old text, after sorting, has the next origin, all else the one before it.
type ordered struct {
	edit
	own     span // the origin of the character that is being added
	first   bool // whether nothing of it has been added yet
	current span // the origin that was used last

	marks []combiningMark // since the last starter, in the order in which they came
	owned []span          // the origins of those that are the first of a character
}

type combiningMark struct {
	r              rune
	ccc            uint8
	first, dropped bool
}

// take makes the origin of the character that is being added the current one, if it is not yet.
func (o *ordered) take() {
	if o.first {
		o.current, o.first = o.own, false
	}
}

// starter adds a character that stays where it is.
func (o *ordered) starter(r rune) {
	o.sortMarks()
	o.take()
	o.emit(r, o.current)
}

// mark adds a character that may move.
func (o *ordered) mark(r rune, dropped bool) {
	o.marks = append(o.marks, combiningMark{r, properties(r).CCC(), o.first, dropped})
	if o.first {
		o.owned, o.first = append(o.owned, o.own), false
	}
}

// sortMarks moves the marks to the text.
func (o *ordered) sortMarks() {
	if len(o.marks) == 0 {
		return
	}
	slices.SortStableFunc(o.marks, func(a, b combiningMark) int { return cmp.Compare(a.ccc, b.ccc) })
	next := 0
	for _, m := range o.marks {
		if m.first {
			o.current = o.owned[next]
			next++
		}
		if !m.dropped {
			o.emit(m.r, o.current)
		}
	}
	o.marks, o.owned = o.marks[:0], o.owned[:0]
}

// properties returns what x/text knows about a character.
func properties(r rune) norm.Properties {
	var buf [utf8.UTFMax]byte
	return norm.NFD.Properties(utf8.AppendRune(buf[:0], r))
}
