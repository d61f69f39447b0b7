//go:build !unix

package main

import "os"

// reloadSignals is empty: there is no such signal.
var reloadSignals []os.Signal
