//go:build nowgpu

package main

import "errors"

// deviceLists are the backends that have devices.
var deviceLists = []struct {
	backend string
	devices func() ([]deviceRow, error)
}{{"cuda", leftOut}, {"wgpu", leftOut}}

func leftOut() ([]deviceRow, error) {
	return nil, errors.New("this binary was built without it (build tag nowgpu)")
}
