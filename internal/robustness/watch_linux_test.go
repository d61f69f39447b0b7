package robustness

import (
	"os"
	"syscall"
	"time"
	"unsafe"
)

// peakMemory is the most resident memory that a process had.
func peakMemory(s *os.ProcessState) int64 { return s.SysUsage().(*syscall.Rusage).Maxrss << 10 }

// A watch sees whether files in a folder are opened.
type watch struct{ fd int }

func watchFolder(dir string) (*watch, error) {
	fd, err := syscall.InotifyInit1(syscall.IN_NONBLOCK | syscall.IN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	_, err = syscall.InotifyAddWatch(fd, dir, syscall.IN_OPEN|syscall.IN_ACCESS)
	return &watch{fd}, err
}

// opened returns the names of the files that were opened since the last call.
func (w *watch) opened() (names []string) {
	buf := make([]byte, 64<<10)
	for {
		n, err := syscall.Read(w.fd, buf)
		if err != nil || n <= 0 {
			return names
		}
		for at := 0; at < n; {
			e := (*syscall.InotifyEvent)(unsafe.Pointer(&buf[at]))
			at += syscall.SizeofInotifyEvent
			name := buf[at : at+int(e.Len)]
			at += int(e.Len)
			for i, c := range name {
				if c == 0 {
					name = name[:i]
					break
				}
			}
			names = append(names, string(name))
		}
	}
}

func (w *watch) close() { syscall.Close(w.fd) }

// limitCPU makes the system kill this process once it has used that much of the processor, in whole seconds.
func limitCPU(most time.Duration) {
	seconds := uint64(most.Seconds())
	if err := syscall.Setrlimit(syscall.RLIMIT_CPU, &syscall.Rlimit{Cur: seconds, Max: seconds}); err != nil {
		panic(err)
	}
}

// cpuTime is what this process has used of the processor.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
