package tokenizer

import "sort"

// A scriptRange is characters of one script.
type scriptRange struct {
	first, last rune
	script      uint8
}

// anyScript is the script of what goes with every other: spaces, and what no script has.
const anyScript = 0xff

func scriptOf(r rune) uint8 {
	i := sort.Search(len(scriptRanges), func(i int) bool { return r <= scriptRanges[i].last })
	if i < len(scriptRanges) && scriptRanges[i].first <= r {
		return scriptRanges[i].script
	}
	return anyScript
}

// scriptWords splits a text where the script changes. What is before the first character that has a script is dropped, as tokenizers
// does it.
type scriptWords struct{}

func (scriptWords) split(w *work) error {
	return w.each(func(p part, out []part) ([]part, error) {
		text := w.bytes[p.start:p.end]
		start, last := -1, uint8(anyScript)
		for i := 0; i < len(text); {
			r, size := decodeRune(text[i:])
			if script := scriptOf(r); script != anyScript {
				if script != last {
					if start >= 0 {
						out = appendPart(out, p, start, i)
					}
					start = i
				}
				last = script
			}
			i += size
		}
		if start >= 0 {
			out = appendPart(out, p, start, len(text))
		}
		return out, nil
	})
}
