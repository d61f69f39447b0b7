// Package page has what the HTML pages of rlxc share: one style, a policy that lets nothing in from elsewhere, and a writer that escapes
// text. Pages are one file each. The package is no API.
//
// Pages are no html/template: calls of methods by name, which templates make, keep every exported method of everything in a program.
package page

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"strings"
)

//go:embed style.css
var style string

// Styled puts the style into the empty style element of a page, and returns the Content-Security-Policy that the page runs under: its
// own style and script, and requests to where it came from.
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
