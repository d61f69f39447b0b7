package main

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A listener bounds how many connections are open: a peer has half of them at most, so that one alone shuts out no other. Those beyond are
// closed at once.
type listener struct {
	*net.TCPListener
	most int

	retired atomic.Bool
	last    chan *net.TCPConn
	closed  chan struct{}
	end     func() // closes closed

	mu    sync.Mutex
	all   int
	peers map[string]int
}

func listen(ctx context.Context, address string, most int) (*listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	closed := make(chan struct{})
	return &listener{TCPListener: l.(*net.TCPListener), most: most, peers: map[string]int{}, last: make(chan *net.TCPConn), closed: closed,
		end: sync.OnceFunc(func() { close(closed) })}, nil
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
		peer := c.RemoteAddr().(*net.TCPAddr).IP.String()
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

func (l *listener) add(peer string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= l.most || l.peers[peer] >= (l.most+1)/2 {
		return false
	}
	l.all++
	l.peers[peer]++
	return true
}

func (l *listener) remove(peer string) {
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

const (
	lastRequests = time.Second // in which clients learn from an answer that their connection ends
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
