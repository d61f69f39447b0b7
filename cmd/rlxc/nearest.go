package main

import (
	"fmt"
	"strings"
)

// didYouMean is " (did you mean NAME?)" for the name that differs least from what was written, in at most a third of its letters; "" if
// none does.
func didYouMean(written string, names []string) string {
	best, least := "", (len(written)+2)/3+1
	for _, name := range names {
		if d := edits(strings.ToLower(written), strings.ToLower(name)); d < least {
			best, least = name, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// edits is how many bytes have to be inserted, deleted or replaced to make b of a: Levenshtein's distance.
func edits(a, b string) int {
	row := make([]int, len(b)+1) // distance of the beginning of a so far to each beginning of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0] // to the beginning of b that is a byte shorter, of the beginning of a that is a byte shorter
		row[0] = i + 1
		for j := range len(b) {
			replaced := before
			if a[i] != b[j] {
				replaced++
			}
			before, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, replaced)
		}
	}
	return row[len(b)]
}
