package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// anyOrigin is what allows pages of every origin.
const anyOrigin = "*"

type hostsKey struct{}

// WithHosts returns a context for http.Server.BaseContext. Requests on such connections must name the server in their Host by an IP
// address, by localhost or a name beneath it, or by one of names. A server that has no key and that a browser can reach, as one on
// 127.0.0.1 can, should have this: a page may otherwise reach it by a name that the page's author points to its address (DNS rebinding).
func WithHosts(ctx context.Context, names ...string) context.Context {
	return context.WithValue(ctx, hostsKey{}, slices.Clip(append([]string{"localhost"}, names...)))
}

// newOrigins makes the check of pages of other sites.
func newOrigins(allowed []string) (*http.CrossOriginProtection, error) {
	p := http.NewCrossOriginProtection()
	for _, origin := range allowed {
		if origin == anyOrigin {
			return nil, nil
		}
		if err := p.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("server: the origin %q: %w", origin, err)
		}
	}
	return p, nil
}

// foreign returns an error if a page of another site sent a request, or if the request's Host is not a name of the server.
func (s *Server) foreign(r *http.Request) error {
	if names, ok := r.Context().Value(hostsKey{}).([]string); ok && !hasName(names, r.Host) {
		return failf(http.StatusForbidden, "", "the server has no name %q: use its address, or allow the name (--allow-host)", r.Host)
	}
	if s.origins != nil && s.origins.Check(r) != nil {
		return failf(http.StatusForbidden, "", "pages of %q may not use the server: allow the origin (--allow-origin)",
			r.Header.Get("Origin"))
	}
	return nil
}

// hasName reports whether a Host is an IP address, one of names, or beneath localhost. A request of HTTP/1.0 may have none, which is not a
// browser's.
func hasName(names []string, host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil || host == "" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, host) })
}

// readableHeaders are those of answers that pages of allowed origins may read.
const readableHeaders = binaryHead + ", Retry-After, X-Request-Id"

// preflight lets pages of allowed origins read answers (CORS, https://fetch.spec.whatwg.org/#http-cors-protocol). It answers what browsers
// ask before a request, and reports whether it did.
func (s *Server) preflight(w http.ResponseWriter, r *http.Request) (answered bool) {
	origin := r.Header.Get("Origin")
	if origin == "" || !slices.Contains(s.options.Origins, origin) && !slices.Contains(s.options.Origins, anyOrigin) {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", readableHeaders)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST")
	h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}
