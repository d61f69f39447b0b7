package main

import (
	"fmt"
	"strings"

	"github.com/rlxc/rlxc/internal/spelling"
)

// didYouMean is " (did you mean NAME?)" for the name that differs least from what was written, in at most a third of its letters; "" if
// none does.
func didYouMean(written string, names []string) string {
	best, least := "", (len(written)+2)/3+1
	for _, name := range names {
		if d := spelling.Distance(strings.ToLower(written), strings.ToLower(name)); d < least {
			best, least = name, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}
