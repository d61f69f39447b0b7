//go:build !linux

package main

import (
	"context"
	"os/exec"
	"path/filepath"
)

// alone is a program of a folder, to be run in it without environment.
func alone(ctx context.Context, dir, program string) *exec.Cmd {
	c := exec.CommandContext(ctx, filepath.Join(dir, program))
	c.Env, c.Dir = []string{}, dir
	return c
}
