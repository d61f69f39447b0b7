package main

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// close closes the listener to others, and returns those who wait to be accepted: the system resets them otherwise. Nothing is between the
// last of them and the end of the listener but two calls.
func (l *listener) close() (last []*net.TCPConn) {
	raw, err := l.SyscallConn()
	if err != nil {
		return nil
	}
	var fds []int
	raw.Control(func(fd uintptr) { //nolint:errcheck // of a listener that is open
		for {
			c, _, err := unix.Accept4(int(fd), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			if err != nil {
				break
			}
			fds = append(fds, c)
		}
		unix.Shutdown(int(fd), unix.SHUT_RD) //nolint:errcheck // likewise
	})
	for _, fd := range fds {
		f := os.NewFile(uintptr(fd), "")
		if c, err := net.FileConn(f); err == nil {
			last = append(last, c.(*net.TCPConn))
		}
		f.Close()
	}
	return last
}
