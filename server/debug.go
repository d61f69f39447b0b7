package server

import (
	"net/http"
	"net/http/pprof"
)

// Debug returns a handler of Go's profiles (/debug/pprof/), for a separate listener: profiles show texts of requests and need no key.
// Pages of other sites cannot read them, as with the server's other routes.
func (s *Server) Debug() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.foreign(r); err != nil {
			own.fail(w, failureOf(err))
			return
		}
		mux.ServeHTTP(w, r)
	})
}
