package main

import "golang.org/x/sys/unix"

// refuse has the system drop what asks for a connection, so that closing the listener resets nobody who waits to be accepted. The program
// of the Berkeley Packet Filter sees the TCP header (RFC 9293, 3.1), whose byte 13 has the flags.
func (l *listener) refuse() error {
	const flags, syn, all = 13, 0x02, 0xffffffff
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: flags},
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: syn, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		{Code: unix.BPF_RET | unix.BPF_K, K: all},
	}
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	if control := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	}); control != nil {
		return control
	}
	return err
}
