package oniguruma

import (
	"cmp"
	"slices"
	"unicode"
)

// A runeRange is the characters from first to last.
type runeRange struct{ first, last rune }

// A runeSet is a set of characters: ranges in order that neither overlap nor touch.
type runeSet []runeRange

// everyRune holds all code points.
var everyRune = runeSet{{0, unicode.MaxRune}}

// newRuneSet returns the set of the characters of ranges in any order.
func newRuneSet(ranges ...runeRange) runeSet {
	ranges = slices.Clone(ranges)
	slices.SortFunc(ranges, func(a, b runeRange) int { return cmp.Compare(a.first, b.first) })
	var s runeSet
	for _, r := range ranges {
		if n := len(s) - 1; n >= 0 && r.first <= s[n].last+1 {
			s[n].last = max(s[n].last, r.last)
		} else {
			s = append(s, r)
		}
	}
	return s
}

// runesOf returns the set of single characters.
func runesOf(list ...rune) runeSet {
	ranges := make([]runeRange, len(list))
	for i, r := range list {
		ranges[i] = runeRange{r, r}
	}
	return newRuneSet(ranges...)
}

func (s runeSet) union(t runeSet) runeSet { return newRuneSet(slices.Concat(s, t)...) }

// invert returns the characters that are not in s.
func (s runeSet) invert() runeSet {
	var out runeSet
	next := rune(0)
	for _, r := range s {
		if next < r.first {
			out = append(out, runeRange{next, r.first - 1})
		}
		next = r.last + 1
	}
	if next <= unicode.MaxRune {
		out = append(out, runeRange{next, unicode.MaxRune})
	}
	return out
}

func (s runeSet) intersect(t runeSet) runeSet { return s.invert().union(t.invert()).invert() }

// invertIf returns s, or the other characters if not is set.
func (s runeSet) invertIf(not bool) runeSet {
	if not {
		return s.invert()
	}
	return s
}

func (s runeSet) has(r rune) bool {
	_, found := slices.BinarySearchFunc(s, r, func(x runeRange, r rune) int {
		switch {
		case x.last < r:
			return -1
		case x.first > r:
			return 1
		}
		return 0
	})
	return found
}

// An alphabet divides the characters into groups that no set of a pattern distinguishes. A pattern runs over the numbers of groups, so
// that a class with hundreds of ranges becomes a class with a few.
type alphabet struct {
	starts []rune   // first character of each range that belongs to one group, ascending
	groups []uint16 // number of the group of each range
	direct []uint16 // number of the group of each character below directRunes
}

// directRunes is the end of the alphabets (and of general punctuation), to which most text belongs.
const directRunes = 0x3000

// firstSymbol is the character that stands for group 0. No character from it on means something in a pattern of regexp2.
const firstSymbol = 0x4e00

// newAlphabet returns the coarsest alphabet for sets.
func newAlphabet(sets []runeSet) *alphabet {
	starts := []rune{0}
	for _, s := range sets {
		for _, r := range s {
			starts = append(starts, r.first, r.last+1)
		}
	}
	slices.Sort(starts)
	a := &alphabet{starts: slices.Compact(starts), direct: make([]uint16, directRunes)}
	if n := len(a.starts) - 1; a.starts[n] > unicode.MaxRune {
		a.starts = a.starts[:n]
	}
	// member holds, for each stretch between two starts, a bit for each set.
	member := make([][]byte, len(a.starts))
	for i := range member {
		member[i] = make([]byte, (len(sets)+7)/8)
	}
	for n, s := range sets {
		i := 0
		for _, r := range s {
			for ; i < len(a.starts) && a.starts[i] <= r.last; i++ {
				if a.starts[i] >= r.first {
					member[i][n/8] |= 1 << (n % 8)
				}
			}
		}
	}
	numbers := map[string]uint16{}
	for i := range a.starts {
		number, ok := numbers[string(member[i])]
		if !ok {
			number = uint16(len(numbers))
			numbers[string(member[i])] = number
		}
		a.groups = append(a.groups, number)
	}
	for i, start := range a.starts {
		end := rune(directRunes)
		if i+1 < len(a.starts) {
			end = min(end, a.starts[i+1])
		}
		for r := start; r < end; r++ {
			a.direct[r] = a.groups[i]
		}
	}
	return a
}

// symbol returns the character that stands for the group of r.
func (a *alphabet) symbol(r rune) rune {
	if r < directRunes {
		return firstSymbol + rune(a.direct[r])
	}
	i, found := slices.BinarySearch(a.starts, r)
	if !found {
		i--
	}
	return firstSymbol + rune(a.groups[i])
}

// symbols returns the groups of a set for which the alphabet was made.
func (a *alphabet) symbols(s runeSet) runeSet {
	var ranges []runeRange
	for i, start := range a.starts {
		if s.has(start) {
			r := firstSymbol + rune(a.groups[i])
			ranges = append(ranges, runeRange{r, r})
		}
	}
	return newRuneSet(ranges...)
}
