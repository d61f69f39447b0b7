// Package spelling compares names, for messages that suggest what was meant.
package spelling

import "strings"

// Nearest returns the name that differs least from what was written, in at most a third of its letters and without regard to case. It
// returns "" if every name differs more.
func Nearest(written string, names []string) string {
	best, least, lower := "", (len(written)+2)/3+1, strings.ToLower(written)
	for _, name := range names {
		if max(len(written)-len(name), len(name)-len(written)) >= least { // so many bytes differ at least; names of models may be long
			continue
		}
		if d := Distance(lower, strings.ToLower(name)); d < least {
			best, least = name, d
		}
	}
	return best
}

// Distance returns how many bytes have to be inserted, deleted or replaced to make b of a: the Levenshtein distance, by the rows of its
// table (Wagner and Fischer 1974). For example, Distance("sting", "string") is 1.
func Distance(a, b string) int {
	row := make([]int, len(b)+1) // row[j] is the distance of a[:i] to b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0] // distance of a[:i] to b[:j]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal, row[j+1] = row[j+1], min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
