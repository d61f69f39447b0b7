// Package tools runs what the commands here measure with.
package tools

import (
	"bytes"
	"log"
	"os"
	"os/exec"
)

// LLVM is a command of LLVM, of the version that the environment variable LLVM names, as -19.
func LLVM(name string, args ...string) *exec.Cmd {
	return exec.Command(name+os.Getenv("LLVM"), args...)
}

// Output runs a command and returns what it prints. If it fails, the process ends with what it says.
func Output(c *exec.Cmd) string {
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		log.Fatalf("%v: %v\n%s", c.Args, err, stderr.Bytes())
	}
	return string(out)
}
