// Package wholemodels runs whole models through the API: exports, decoders, fixtures, what public packages carry.
package wholemodels

import (
	"os"
	"testing"
)

// TestMain runs the tests in the root of the repository, whose testdata has the models.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
