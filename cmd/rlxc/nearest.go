package main

import "github.com/rlxc/rlxc/internal/spelling"

// didYouMean returns " (did you mean NAME?)", with prefix before the name, for the name that resembles what was written. It returns "" if
// no name does.
func didYouMean(written, prefix string, names []string) string {
	if name := spelling.Nearest(written, names); name != "" {
		return " (did you mean " + prefix + name + "?)"
	}
	return ""
}
