// Package measure runs the programs that mca and count measure with.
package measure

import (
	"bytes"
	"log"
	"os"
	"os/exec"
)

// Root is the root of the repository, from the folder of this module, in which the commands run.
const Root = "../.."

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
