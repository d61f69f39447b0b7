package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// connectionsPerRequest is how many connections may be open for each request that may be under way.
const connectionsPerRequest = 4

// A listener bounds how many connections are open: a peer has half of them at most, so that one alone shuts out no other. A trusted proxy
// may have all of them, for it has many clients. Connections beyond the bound are closed at once.
type listener struct {
	*net.TCPListener
	most    int // set before the first connection is accepted
	proxies []netip.Prefix

	retired atomic.Bool
	last    chan *net.TCPConn
	closed  chan struct{}
	end     func() // closes closed

	mu    sync.Mutex
	all   int
	peers map[netip.Addr]int
}

func listen(ctx context.Context, address string, proxies []netip.Prefix) (*listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	closed := make(chan struct{})
	return &listener{TCPListener: l.(*net.TCPListener), proxies: proxies, peers: map[netip.Addr]int{},
		last: make(chan *net.TCPConn), closed: closed, end: sync.OnceFunc(func() { close(closed) })}, nil
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptTCP()
		if err != nil && l.retired.Load() { // the last who connected are accepted, and then none
			select {
			case c = <-l.last:
			case <-l.closed:
				return nil, err
			}
		} else if err != nil {
			return nil, err
		}
		peer := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		if l.add(peer) {
			return &connection{TCPConn: c, gone: sync.OnceFunc(func() { l.remove(peer) })}, nil
		}
		c.Close()
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.end()
	return l.TCPListener.Close()
}

func (l *listener) add(peer netip.Addr) bool {
	own := (l.most + 1) / 2
	if slices.ContainsFunc(l.proxies, func(p netip.Prefix) bool { return p.Contains(peer.WithZone("")) }) {
		own = l.most
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= l.most || l.peers[peer] >= own {
		return false
	}
	l.all++
	l.peers[peer]++
	return true
}

func (l *listener) remove(peer netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.peers[peer]--; l.peers[peer] == 0 {
		delete(l.peers, peer)
	}
}

func (l *listener) open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all
}

type connection struct {
	*net.TCPConn
	gone func()
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.gone()
	return c.TCPConn.Close()
}

// spareFiles is how many files the process may open besides those that it has open twice over, and connections.
const spareFiles = 16

// bound sets the connections of each listener: the wanted number, or fewer if the limit of open files leaves fewer. It is called when the
// models are open. Opening them again takes as many files as are open now, and must not fail for want of them.
func bound(listeners []*listener, wanted int, log *slog.Logger) error {
	most := wanted
	if limit, open, ok := openFiles(); ok {
		if most = min(wanted, (limit-2*open-spareFiles)/len(listeners)); most < 2 {
			return fmt.Errorf("the process may have %d files open, and has %d: raise the limit (ulimit -n)", limit, open)
		}
		if most < wanted {
			log.Warn("the limit of open files bounds connections", "files", limit, "connections", most, "wanted", wanted)
		}
	}
	for _, l := range listeners {
		l.most = most
	}
	return nil
}

const (
	lastRequests = time.Second // time in which each client learns, from an answer, that its connection ends
	poll         = 5 * time.Millisecond
)

// retire lets in no more, and has those who are connected go, whom answers report to: a server that shuts down drops the requests that it
// has
// not begun to answer. Who has connected is answered. Connections that are idle all the time are left to the server.
func retire(listeners []*listener, within time.Duration) {
	for _, l := range listeners {
		l.retired.Store(true)
		for _, c := range l.close() {
			l.last <- c
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(lastRequests, within/4))
	defer cancel()
	for _, l := range listeners {
		for l.open() > 0 && ctx.Err() == nil {
			time.Sleep(poll)
		}
	}
}
