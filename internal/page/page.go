// Package page has what the HTML pages of rlxc share: one style, a policy that lets nothing in from elsewhere, and a writer that escapes
// text. Pages are one file each. The package is no API.
//
// Pages are not html/template: calls of methods by name, which templates make, keep every exported method of everything in a program.
package page

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
)

//go:embed style.css
var style string

// Styled puts the style into the empty style element of a page. policy is the page's Content-Security-Policy: it allows the page's own
// style and script, and requests to the server that sent the page.
func Styled(page string) (styled, policy string) {
	const tag = "<style></style>"
	_, rest, _ := strings.Cut(page, "<script>")
	script, _, _ := strings.Cut(rest, "</script>")
	policy = fmt.Sprintf("default-src 'none'; style-src %s; script-src %s; img-src data:; connect-src 'self'; base-uri 'none'; "+
		"form-action 'none'", digest(style), digest(script))
	return strings.Replace(page, tag, "<style>"+style+"</style>", 1), policy
}

// digest is how a policy names a text.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

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
