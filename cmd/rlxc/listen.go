package main

import (
	"context"
	"net"
	"sync"
	"time"
)

// A listener bounds how many connections are open: a peer has half of them at most, so that one alone shuts nobody out. Those beyond are
// closed at once.
type listener struct {
	*net.TCPListener
	most int

	mu    sync.Mutex
	all   int
	peers map[string]int
}

func listen(ctx context.Context, address string, most int) (*listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &listener{TCPListener: l.(*net.TCPListener), most: most, peers: map[string]int{}}, nil
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptTCP()
		if err != nil {
			return nil, err
		}
		peer := c.RemoteAddr().(*net.TCPAddr).IP.String()
		if l.add(peer) {
			return &connection{TCPConn: c, gone: sync.OnceFunc(func() { l.remove(peer) })}, nil
		}
		c.Close()
	}
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
	lastRequests = time.Second           // in which clients learn from an answer that their connection ends
	lastAccepts  = 50 * time.Millisecond // in which the connections that wait are accepted
)

// retire has clients go elsewhere, while answers tell them to: it waits for those who are connected, and then lets in no more. Who has
// connected is answered, and nobody is cut off between the two.
func retire(listeners []*listener, within time.Duration) {
	connected := 0
	for _, l := range listeners {
		connected += l.open()
	}
	if connected > 0 {
		time.Sleep(min(lastRequests, within/4))
	}
	for _, l := range listeners {
		if l.refuse() == nil {
			time.Sleep(min(lastAccepts, within/4))
		}
	}
}
