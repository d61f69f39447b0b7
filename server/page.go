package server

import (
	_ "embed"
	"net/http"

	"github.com/rlxc/rlxc/internal/page"
)

//go:embed page.html
var pageSource string

var pageText, pagePolicy = page.Styled(pageSource)

// page writes a web page on which models can be tried. All that it shows comes from other routes, so it needs no key.
func (s *Server) page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Security-Policy", pagePolicy+"; frame-ancestors 'none'")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Cache-Control", "no-cache")
	writeBytes(w, http.StatusOK, "text/html; charset=utf-8", []byte(pageText))
}
