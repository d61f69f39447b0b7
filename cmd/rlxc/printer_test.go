package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// TestOutputThatCannotBeWritten: a command whose output is lost has not done what it was asked for.
func TestOutputThatCannotBeWritten(t *testing.T) {
	for _, line := range []string{
		"run bert-tiny --zeros --dim batch=1 --dim seq=2", "run bert-tiny --zeros --dim batch=1 --dim seq=2 --json", "validate bert-tiny", "inspect bert-tiny",
		"inspect --ops", "compile bert-tiny", "plan bert-tiny --dim batch=1 --dim seq=2", "plan bert-tiny --dim batch=1 --dim seq=2:3", "models", "environment", "devices",
	} {
		var said strings.Builder
		require.Equal(t, exitInput, execute(context.Background(), strings.Fields(line), fullDisk{}, &said), line)
		require.Equal(t, 1, strings.Count(said.String(), "no space left"), "%s: %s", line, said.String())
	}
}

func TestPrinter(t *testing.T) {
	var out strings.Builder
	p := &printer{to: &out}
	_, err := io.WriteString(p, "a\tb\n\x1b[2Jü→\u202ec\x00")
	require.NoError(t, err)
	require.Equal(t, "a\tb\n"+`\x1b[2Jü→\u202ec\x00`, out.String())
	require.Equal(t, `a\nb`, shown("a\nb"))
	require.Equal(t, strings.Repeat("x", 120)+"… (500 bytes)", shown(strings.Repeat("x", 500)))
}
