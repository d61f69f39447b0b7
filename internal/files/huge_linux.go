package files

import "golang.org/x/sys/unix"

// AdviseHuge may fail without harm: it is advice.
func AdviseHuge(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
