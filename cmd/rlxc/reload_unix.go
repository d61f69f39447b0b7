//go:build unix

package main

import (
	"os"
	"syscall"
)

// reloadSignals ask serve to open its models anew.
var reloadSignals = []os.Signal{syscall.SIGHUP}
