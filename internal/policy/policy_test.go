// Package policy holds what is true of the repository as a whole: who may import whom, what is exported, what documents link to.
package policy

import (
	"os"
	"testing"
)

// TestMain runs the tests in the root of the repository, which they walk.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
