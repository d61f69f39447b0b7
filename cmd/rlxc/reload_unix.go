//go:build unix

package main

import (
	"os"
	"syscall"
)

// reloadSignals ask serve to reopen its models.
var reloadSignals = []os.Signal{syscall.SIGHUP}
