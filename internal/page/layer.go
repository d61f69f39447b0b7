package page

import (
	"regexp"
	"strings"
)

var (
	// numbered is a part of a name that counts: layer.0, layers/11, h.3.
	numbered = regexp.MustCompile(`(?:^|[/."\s])([A-Za-z_]\w*[./]\d+)(?:[/."\s]|$)`)
	// outermost is the first part of a path.
	outermost = regexp.MustCompile(`(?:^|[/"\s])([A-Za-z_][\w.]*)/`)
)

// Layer is the part of a model that a name says it is in, such as layer.0 of "/encoder/layer.0/attention/self/query/MatMul"; empty for a
// name that says nothing.
func Layer(name string) string {
	for _, pattern := range []*regexp.Regexp{numbered, outermost} {
		if m := pattern.FindStringSubmatch(name); m != nil {
			return strings.ReplaceAll(m[1], "/", ".")
		}
	}
	return ""
}

// Path is the modules that the name of a node says it is in, from the outermost to the innermost.
func Path(name string) []string {
	parts := strings.Split(strings.Trim(name, "/"), "/")
	return parts[:len(parts)-1]
}
