package tensor

import "golang.org/x/sys/unix"

// adviseHuge may fail without harm: it is advice.
func adviseHuge(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
