package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// alone is a program of a folder, to be run with that folder as the root of the file system if this process may do that.
func alone(ctx context.Context, dir, program string) *exec.Cmd {
	c := exec.CommandContext(ctx, filepath.Join(dir, program))
	c.Env = []string{}
	c.Dir = dir
	if os.Geteuid() == 0 {
		c = exec.CommandContext(ctx, "/"+program)
		c.Env, c.Dir = []string{}, "/"
		c.SysProcAttr = &syscall.SysProcAttr{Chroot: dir}
	}
	return c
}
