package server

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// peerOf is the address of who sent a request: the other end of its connection, or, if that is a trusted proxy, the client that the proxy
// names. Where the headers Forwarded and X-Forwarded-For name two clients, one is not the proxy's: the proxy itself is the peer then.
func (s *Server) peerOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	peer, err := netip.ParseAddr(host)
	if err != nil || !s.proxied(peer) {
		return host
	}
	peer = peer.Unmap()
	first := s.client(peer, addresses(r.Header.Values("X-Forwarded-For"), func(element string) string { return element }))
	second := s.client(peer, addresses(r.Header.Values("Forwarded"), forwardedFor))
	switch {
	case first == second || second == peer:
		return first.String()
	case first == peer:
		return second.String()
	}
	return peer.String()
}

// proxied reports whether an address is a trusted proxy's.
func (s *Server) proxied(peer netip.Addr) bool {
	peer = peer.Unmap().WithZone("")
	return slices.ContainsFunc(s.options.Proxies, func(p netip.Prefix) bool { return p.Contains(peer) })
}

// client is the last address of a chain that is not a trusted proxy's: what is before it came from the client, which may write anything. An
// element that is not an address ends the chain.
func (s *Server) client(peer netip.Addr, chain []netip.Addr) netip.Addr {
	for _, before := range slices.Backward(chain) {
		if !before.IsValid() {
			break
		}
		if peer = before; !s.proxied(peer) {
			break
		}
	}
	return peer
}

// addresses reads the elements of a list in headers. Each of them is an address, with or without a port; what is none is invalid.
func addresses(headers []string, of func(element string) string) (chain []netip.Addr) {
	if len(headers) == 0 {
		return nil
	}
	for _, element := range quotedFields(strings.Join(headers, ","), ',') {
		text := of(element)
		addr, err := netip.ParseAddr(strings.Trim(text, "[]"))
		if err != nil {
			var with netip.AddrPort
			if with, err = netip.ParseAddrPort(text); err == nil {
				addr = with.Addr()
			}
		}
		chain = append(chain, addr.Unmap())
	}
	return chain
}

// forwardedFor is the parameter for of an element of Forwarded (RFC 7239), without quotation marks; empty without one.
func forwardedFor(element string) string {
	for _, pair := range quotedFields(element, ';') {
		if name, value, _ := strings.Cut(pair, "="); strings.EqualFold(name, "for") {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}

// quotedFields cuts text at a separator that is not between quotation marks. The parts have no space around them.
func quotedFields(text string, separator rune) (fields []string) {
	quoted, begin := false, 0
	for i, r := range text {
		switch {
		case r == '"':
			quoted = !quoted
		case r == separator && !quoted:
			fields = append(fields, strings.TrimSpace(text[begin:i]))
			begin = i + 1
		}
	}
	return append(fields, strings.TrimSpace(text[begin:]))
}
